//! Is a run stable? Training only records; these rules are applied to the records, so that they can be changed and
//! applied again.

use reslab_record::StepRow;

/// Steps that the training loss is smoothed over.
pub const SMOOTH_STEPS: u64 = 20;
/// Steps running that the smoothed loss must stand above its limit.
pub const ABOVE_STEPS: u64 = 50;
/// How far above the loss at step 0 that limit is.
pub const ABOVE_LOSS: f64 = 0.1;
/// Share of ln C above which a final loss is that of a network that did not train.
pub const NOT_TRAINED_SHARE: f64 = 0.95;

/// When a value is a spike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpikeRule {
    /// How many values before it it is compared with.
    pub window: usize,
    /// How many of their standard deviations from their mean make a spike.
    pub threshold: f64,
    /// What counts.
    pub sides: Sides,
}

/// Which way a spike goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sides {
    /// Up.
    Above,
    /// Up or down.
    Both,
}

impl SpikeRule {
    /// OLMo-core's: more than 6 standard deviations above the mean of the 128 values before.
    pub const OLMO_CORE: Self = Self { window: 128, threshold: 6.0, sides: Sides::Above };
}

impl Sides {
    /// How far `value` is from `mean`, as far as it counts.
    pub(crate) fn away(self, value: f64, mean: f64) -> f64 {
        match self {
            Self::Above => value - mean,
            Self::Both => (value - mean).abs(),
        }
    }
}

/// A value that is a spike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spike {
    /// Its index.
    pub(crate) at: usize,
    /// Mean of the values before it.
    pub(crate) mean: f64,
    /// How far from that mean it could have been without being one.
    pub(crate) limit: f64,
}

/// The spikes among values that can be judged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spikes {
    /// Values with a whole window before them, all of it finite.
    pub(crate) judged: usize,
    /// Those that are spikes.
    pub(crate) found: Vec<Spike>,
}

impl Spikes {
    /// Their share; `None` where no value could be judged.
    pub(crate) fn score(&self) -> Option<f64> {
        if self.judged == 0 { None } else { Some(self.found.len() as f64 / self.judged as f64) }
    }
}

/// The spikes of `values`. The standard deviation is the sample's (n - 1). A value that is not finite is a spike; one
/// with such a value in its window cannot be judged.
pub(crate) fn spikes(values: &[f64], rule: SpikeRule) -> Spikes {
    let (mut judged, mut found) = (0, Vec::new());
    for (index, window) in values.windows(rule.window + 1).enumerate() {
        let (before, value) = (&window[..rule.window], window[rule.window]);
        if is_clearly_none(before, value, rule) {
            judged += 1;
            continue;
        }
        let mean = before.iter().sum::<f64>() / rule.window as f64;
        if !mean.is_finite() {
            continue;
        }
        judged += 1;
        let limit = rule.threshold * crate::stats::standard_deviation(before, mean);
        if rule.sides.away(value, mean) > limit || !value.is_finite() {
            found.push(Spike { at: index + rule.window, mean, limit });
        }
    }
    Spikes { judged, found }
}

/// Whether a value is no spike, and by so much that the order of sums does not matter: nearly all are, and sums in lanes
/// take a quarter of the time.
fn is_clearly_none(before: &[f64], value: f64, rule: SpikeRule) -> bool {
    let mean = lanes(before, |x| x) / before.len() as f64;
    let squares = lanes(before, |x| (x - mean) * (x - mean));
    let limit = rule.threshold * (squares / (before.len() as f64 - 1.0)).sqrt();
    // A spread that is small beside the mean, or figures near the largest there are, may round to anything.
    let is_sure = value.is_finite() && mean.abs() < 1e100 && limit < 1e100 && limit > 1e-6 * mean.abs();
    is_sure && rule.sides.away(value, mean) < 0.99 * limit
}

/// A sum in eight partial sums.
fn lanes(values: &[f64], term: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0; 8];
    let chunks = values.chunks_exact(sums.len());
    let rest: f64 = chunks.remainder().iter().map(|x| term(*x)).sum();
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += term(*x);
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// The share of the values that are spikes, among those with a whole window of finite values before them; `None` where
/// there is none.
pub fn spike_score(values: &[f64], rule: SpikeRule) -> Option<f64> {
    spikes(values, rule).score()
}

/// Whether the smoothed loss stood above the loss at step 0 + 0.1 for 50 steps running, or was not finite; `None`
/// where step 0 is not recorded.
pub fn diverges(rows: &[StepRow]) -> Option<bool> {
    let limit = rows.first().filter(|row| row.step == 0)?.loss + ABOVE_LOSS;
    let mut above_since = None;
    for (index, row) in rows.iter().enumerate() {
        let smoothed = smoothed_loss(&rows[..=index]);
        if !smoothed.is_finite() || !limit.is_finite() {
            return Some(true);
        }
        if smoothed <= limit {
            above_since = None;
        } else if row.step.saturating_sub(*above_since.get_or_insert(row.step)) >= ABOVE_STEPS - 1 {
            return Some(true);
        }
    }
    Some(false)
}

/// The mean loss of the last 20 steps of `rows`; fewer where there are not so many, NaN where there is none.
pub fn smoothed_loss(rows: &[StepRow]) -> f64 {
    let Some(last) = rows.last() else { return f64::NAN };
    let window = rows.iter().rev().take_while(|row| row.step.saturating_add(SMOOTH_STEPS) > last.step);
    let (sum, count) = window.fold((0.0, 0_u32), |(sum, count), row| (sum + row.loss, count + 1));
    sum / f64::from(count)
}

/// The largest gradient norm before clipping; infinite where one was not finite, `None` of no rows.
pub fn largest_grad_norm(rows: &[StepRow]) -> Option<f64> {
    rows.iter().map(|row| if row.grad_norm.is_finite() { row.grad_norm } else { f64::INFINITY }).reduce(f64::max)
}

/// Whether a final training loss is that of a network that did not train.
pub fn is_not_trained(final_loss: f64, num_classes: u64) -> bool {
    final_loss > NOT_TRAINED_SHARE * (num_classes as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_close, golden, numbers};

    fn rows(losses: impl IntoIterator<Item = f64>) -> Vec<StepRow> {
        losses.into_iter().enumerate().map(|(step, loss)| row(step as u64, loss)).collect()
    }

    fn row(step: u64, loss: f64) -> StepRow {
        StepRow {
            step,
            epoch: 0.0,
            loss,
            lr: 0.0,
            grad_norm: loss,
            grad_norm_attention: None,
            grad_norm_mlp: None,
            grad_norm_gamma: None,
            grad_norm_embedding: None,
            grad_norm_head: None,
            weight_update_norm: None,
            images_per_s: 0.0,
            seconds: 0.0,
        }
    }

    /// Against numpy's sliding windows (tests/golden/make_golden.py); the four settings give four different shares.
    #[test]
    fn spike_scores_are_numpys() {
        let golden = golden();
        let values = numbers(&golden["spikes"]["values"]);
        let mut seen = Vec::new();
        for case in golden["spikes"]["shares"].as_array().unwrap() {
            let sides = if case["two_sided"].as_bool().unwrap() { Sides::Both } else { Sides::Above };
            let window = case["window"].as_u64().unwrap() as usize;
            let rule = SpikeRule { window, threshold: case["threshold"].as_f64().unwrap(), sides };
            let got = spike_score(&values, rule).unwrap();
            assert_close(got, case["share"].as_f64().unwrap(), 1e-15);
            seen.push(got);
        }
        assert!(seen[1] > seen[0] && seen[3] <= seen[0] && seen[2] != seen[0], "the settings matter: {seen:?}");
    }

    /// With the short cut and without it, over walks of all sizes with jumps, flat parts and figures that are none.
    #[test]
    fn the_short_cut_changes_no_spike() {
        let mut state = 7_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        for (scale, offset) in [(1.0, 0.0), (1e-12, 1.0), (1e150, 0.0), (1e-300, 0.0), (1.0, 1e12), (0.0, 3.0)] {
            let walk = (0..3000).map(|k| match (random(), k % 50) {
                (r, _) if r < 0.002 => f64::NAN,
                (r, _) if r < 0.01 => offset + 40.0 * scale * r,
                (r, 7) => offset + scale * (3.0 + 4.0 * r),
                (r, _) => offset + scale * r,
            });
            let walk: Vec<f64> = walk.collect();
            for sides in [Sides::Above, Sides::Both] {
                let rule = SpikeRule { window: 20, threshold: 3.0, sides };
                let found = spikes(&walk, rule);
                let slow: Vec<usize> = walk
                    .windows(21)
                    .enumerate()
                    .filter(|(_, window)| {
                        let (before, value) = (&window[..20], window[20]);
                        let mean = before.iter().sum::<f64>() / 20.0;
                        let limit = 3.0 * crate::stats::standard_deviation(before, mean);
                        mean.is_finite() && (sides.away(value, mean) > limit || !value.is_finite())
                    })
                    .map(|(index, _)| index + 20)
                    .collect();
                assert_eq!(found.found.iter().map(|spike| spike.at).collect::<Vec<_>>(), slow, "{scale:e} {offset:e}");
                assert!(!slow.is_empty());
            }
        }
    }

    /// By hand: before the last value of 1, 3, 1, 3, x stand mean 2 and deviation sqrt(4/3) = 1.1547.
    #[test]
    fn a_spike_by_hand() {
        let rule = SpikeRule { window: 4, threshold: 2.0, sides: Sides::Above };
        let score = |x: f64| spike_score(&[1.0, 3.0, 1.0, 3.0, x], rule);
        assert_eq!(score(2.0 + 2.32), Some(1.0));
        assert_eq!(score(2.0 + 2.30), Some(0.0), "with n instead of n - 1 it would be a spike: the limit is 2.0 then");
        assert_eq!(score(-9.0), Some(0.0));
        assert_eq!(score(f64::NAN), Some(1.0));
        assert_eq!(spike_score(&[1.0, 3.0, 1.0, 3.0], rule), None, "no value has a whole window before it");
        let constant = [1.0, 1.0, 1.0, 1.0, 1.0, 1.5];
        assert_eq!(spike_score(&constant, rule), Some(0.5), "an equal value is none, a larger one is");
    }

    /// Loss 1 at step 0, limit 1.1. From step 100 on the loss is 2, so that the mean of 20 passes 1.1 when more than
    /// 2 of them are 2: at step 102. 50 steps running end at step 151.
    #[test]
    fn a_run_diverges_when_its_smoothed_loss_stays_high_for_fifty_steps() {
        let jump = |last: usize| rows((0..=last).map(|step| if step < 100 { 1.0 } else { 2.0 }));
        assert_eq!(diverges(&jump(150)), Some(false));
        assert_eq!(diverges(&jump(151)), Some(true));
        assert_eq!(diverges(&jump(400)), Some(true));
    }

    #[test]
    fn a_spike_or_a_plateau_is_no_divergence() {
        let spike = rows((0..300).map(|step| if step == 100 { 50.0 } else { 0.5 + f64::from(step == 0) }));
        assert_eq!(diverges(&spike), Some(false), "high for 20 steps only");
        let plateau = rows((0..300).map(|step| if step == 0 { 2.3 } else { 2.39 }));
        assert_eq!(diverges(&plateau), Some(false), "not trained, but not above its start + 0.1");
        let recovers = rows((0..300).map(|step| if step % 69 > 28 { 2.5 } else { 0.3 + 0.7 * f64::from(step == 0) }));
        assert_eq!(diverges(&recovers), Some(false), "above the limit again and again, never 50 steps running");
    }

    #[test]
    fn steps_count_and_not_rows() {
        let sparse = |last: u64| -> Vec<StepRow> {
            (0..=last / 10).map(|k| row(k * 10, if k < 10 { 1.0 } else { 2.0 })).collect()
        };
        // Two rows per window: its mean is 1.5 at step 100 already. Steps 100 to 149 are 50; the next row is 150.
        assert_eq!(diverges(&sparse(140)), Some(false));
        assert_eq!(diverges(&sparse(150)), Some(true));
        assert_close(smoothed_loss(&sparse(100)), 1.5, 1e-15);
    }

    #[test]
    fn a_loss_that_is_not_finite_is_divergence_and_a_missing_start_is_unknown() {
        assert_eq!(diverges(&rows([1.0, f64::NAN])), Some(true));
        assert_eq!(diverges(&rows([f64::INFINITY])), Some(true));
        assert_eq!(diverges(&rows([1.0, 0.9])), Some(false));
        assert_eq!(diverges(&[]), None);
        assert_eq!(diverges(&[row(10, 1.0)]), None);
    }

    #[test]
    fn final_loss_and_largest_norm_by_hand() {
        // The last 20 of 0, 1, .., 29 are 10 .. 29: mean 19.5.
        let thirty = rows((0..30).map(f64::from));
        assert_close(smoothed_loss(&thirty), 19.5, 1e-12);
        assert_eq!(largest_grad_norm(&thirty), Some(29.0));
        assert_eq!(largest_grad_norm(&rows([1.0, f64::NAN, 2.0])), Some(f64::INFINITY));
        assert_eq!(largest_grad_norm(&[]), None);
        assert!(smoothed_loss(&[]).is_nan());
        // 0.95 ln 10 = 2.18746.
        assert!(is_not_trained(2.1875, 10) && !is_not_trained(2.1874, 10));
    }
}
