//! What a checkpoint's gammas are, read off the file alone.

use reslab_pretrained::{GAMMA, Mapped, Pretrained};
use reslab_record::Branch;

/// Where a join stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Whether it is in CaiT's class stage, behind the blocks.
    pub in_class_stage: bool,
    pub block: u64,
    pub branch: Branch,
}

impl Place {
    /// Of the gamma of that name: `blocks.07.mlp.join.gamma`.
    fn of(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(GAMMA)?.split('.');
        let in_class_stage = match parts.next()? {
            "blocks" => false,
            "class_blocks" => true,
            _ => return None,
        };
        let block = parts.next()?.parse().ok()?;
        let branch = if parts.next()? == "attention" { Branch::Attention } else { Branch::Mlp };
        Some(Self { in_class_stage, block, branch })
    }

    /// `7`; of the class stage `class 0`.
    pub(crate) fn block(&self) -> String {
        if self.in_class_stage { format!("class {}", self.block) } else { self.block.to_string() }
    }
}

/// The gammas of one join in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GammaFigures {
    pub channels: usize,
    pub mean: f64,
    /// sqrt(mean gamma^2).
    pub rms: f64,
    /// The 10th, 50th and 90th percentile (linear between order statistics).
    pub quantiles: [f64; 3],
    /// Share of gammas below 0: training starts them above.
    pub flipped: f64,
    /// (sum gamma^2)^2 / (D sum gamma^4): the share of channels that carry the branch; 1 where all are alike, 1/D where one does. NaN where all are 0.
    pub participation: f64,
}

impl GammaFigures {
    pub(crate) fn of(values: &[f32]) -> Self {
        let mut sorted: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let sum = |power: i32| sorted.iter().map(|v| v.powi(power)).sum::<f64>();
        let quantile = |q: f64| {
            let at = q * (count - 1.0);
            let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
            low + (high - low) * at.fract()
        };
        Self {
            channels: sorted.len(),
            mean: sum(1) / count,
            rms: (sum(2) / count).sqrt(),
            quantiles: [0.1, 0.5, 0.9].map(quantile),
            flipped: sorted.iter().filter(|v| **v < 0.0).count() as f64 / count,
            participation: sum(2).powi(2) / (count * sum(4)),
        }
    }
}

/// The gammas of all joins, in network order.
pub(crate) fn gammas(file: &Pretrained) -> Vec<(Place, GammaFigures)> {
    let mut found: Vec<(Place, GammaFigures)> = file
        .mapped()
        .iter()
        .filter_map(|mapped| Some((Place::of(&mapped.name)?, values(mapped))))
        .filter(|(_, values)| !values.is_empty())
        .map(|(place, values)| (place, GammaFigures::of(&values)))
        .collect();
    found.sort_by_key(|(place, _)| (place.in_class_stage, place.block, place.branch == Branch::Mlp));
    found
}

fn values(mapped: &Mapped) -> Vec<f32> {
    mapped.parts.iter().flat_map(|part| part.dtype.to_f32(part.bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_numpy() {
        // numpy 2: a = [-1, 2, 3, 4, 10]; mean 3.6, sqrt(mean(a**2)) 5.0990195, quantile(a, [.1, .5, .9]) [0.2, 3, 7.6], 130**2 / (5 * 10354)
        let found = GammaFigures::of(&[3.0, -1.0, 10.0, 2.0, 4.0]);
        assert!((found.mean - 3.6).abs() < 1e-12 && (found.rms - 26f64.sqrt()).abs() < 1e-12);
        for (found, expected) in found.quantiles.iter().zip([0.2, 3.0, 7.6]) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        assert_eq!((found.flipped, found.channels), (0.2, 5));
        assert!((found.participation - 16_900.0 / (5.0 * 10_354.0)).abs() < 1e-12);
        assert!((GammaFigures::of(&[0.1; 8]).participation - 1.0).abs() < 1e-12);
        assert_eq!(GammaFigures::of(&[0.0, 0.0, 0.0, 7.0]).participation, 0.25);
    }

    #[test]
    fn names_tell_where_a_join_stands() {
        let place = Place::of("class_blocks.01.mlp.join.gamma").expect("a join");
        assert_eq!((place.block(), place.branch), ("class 1".to_owned(), Branch::Mlp));
        assert_eq!(Place::of("blocks.07.attention.join.gamma").expect("a join").block(), "7");
        assert_eq!(Place::of("blocks.07.attention.norm.weight"), None);
    }
}
