//! A parameter's value on its way into a file, and gamma folded away.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::{Dtype, Mapped};

/// A parameter of ours, with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight<'a> {
    /// Its name: `blocks.07.mlp.fc1.weight`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub dtype: Dtype,
    /// The elements, little-endian.
    pub bytes: Cow<'a, [u8]>,
}

impl<'a> Weight<'a> {
    /// The value that a file gives a parameter; `None` where its parts are of several types.
    pub fn of_mapped(mapped: &'a Mapped) -> Option<Weight<'a>> {
        let dtype = mapped.parts.first()?.dtype;
        let bytes = match &mapped.parts[..] {
            [part] => Cow::Borrowed(part.bytes()),
            parts if parts.iter().all(|part| part.dtype == dtype) => {
                Cow::Owned(parts.iter().flat_map(|part| part.bytes().iter().copied()).collect())
            }
            _ => return None,
        };
        let shape = mapped.shape.iter().map(|size| *size as usize).collect();
        Some(Weight { name: mapped.name.clone(), shape, dtype, bytes })
    }

    fn values(&self) -> Vec<f32> {
        self.dtype.to_f32(&self.bytes)
    }
}

/// How the name of a learned scale of a branch ends: `blocks.07.mlp.join.gamma`.
pub const GAMMA: &str = ".join.gamma";

/// The layer whose output a gamma of that name scales, and into which it can be folded: `blocks.07.mlp.fc2`. `None` where
/// the name is no gamma's.
pub fn layer_before(gamma: &str) -> Option<String> {
    let branch = gamma.strip_suffix(GAMMA)?;
    let layer = if branch.ends_with(".attention") { "out" } else { "fc2" };
    Some(format!("{branch}.{layer}"))
}

/// Folds every gamma into the projection before it, `W <- gamma W` and `b <- gamma b` by rows, computed in single
/// precision: the same function up to rounding, without gamma.
pub fn fold_gamma(weights: Vec<Weight<'_>>) -> Vec<Weight<'_>> {
    let is_gamma = |weight: &Weight| weight.name.ends_with(GAMMA);
    let (gammas, mut rest): (Vec<Weight>, Vec<Weight>) = weights.into_iter().partition(is_gamma);
    let scales: BTreeMap<String, Vec<f32>> = gammas
        .iter()
        .filter_map(|gamma| Some((layer_before(&gamma.name)?, gamma)))
        .flat_map(|(layer, gamma)| ["weight", "bias"].map(|end| (format!("{layer}.{end}"), gamma.values())))
        .collect();
    for weight in &mut rest {
        let Some(gamma) = scales.get(&weight.name) else { continue };
        let rows = weight.shape[0];
        let columns = weight.shape[1..].iter().product::<usize>();
        let mut values = weight.values();
        for (row, line) in values.chunks_mut(columns.max(1)).enumerate().take(rows) {
            // A gamma of one number is the same for every channel.
            let scale = gamma[row % gamma.len()];
            line.iter_mut().for_each(|x| *x *= scale);
        }
        weight.bytes = Cow::Owned(weight.dtype.of_f32(&values));
    }
    rest
}

/// Writes a gamma of one number as one per channel, which is the same join.
pub fn widen_gammas(weights: &mut [Weight<'_>], width: usize) {
    for weight in weights.iter_mut().filter(|weight| weight.name.ends_with(GAMMA) && weight.shape.is_empty()) {
        weight.bytes = Cow::Owned(weight.bytes.repeat(width));
        weight.shape = vec![width];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(name: &str, shape: &[usize], values: &[f32]) -> Weight<'static> {
        Weight {
            name: name.to_owned(),
            shape: shape.to_vec(),
            dtype: Dtype::F32,
            bytes: Cow::Owned(Dtype::F32.of_f32(values)),
        }
    }

    #[test]
    fn gamma_scales_the_rows_of_the_layer_before_it_and_goes() {
        let weights = vec![
            weight("blocks.00.attention.join.gamma", &[2], &[2.0, -0.5]),
            weight("blocks.00.attention.out.weight", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            weight("blocks.00.attention.out.bias", &[2], &[1.0, 1.0]),
            weight("blocks.00.mlp.join.gamma", &[], &[10.0]),
            weight("blocks.00.mlp.fc1.weight", &[1, 2], &[1.0, 1.0]),
            weight("blocks.00.mlp.fc2.weight", &[2, 1], &[1.0, 3.0]),
        ];
        let folded = fold_gamma(weights);
        let of = |name: &str| folded.iter().find(|w| w.name == name).map(Weight::values);
        assert_eq!(of("blocks.00.attention.out.weight").unwrap(), [2.0, 4.0, 6.0, -2.0, -2.5, -3.0]);
        assert_eq!(of("blocks.00.attention.out.bias").unwrap(), [2.0, -0.5]);
        assert_eq!(of("blocks.00.mlp.fc2.weight").unwrap(), [10.0, 30.0]);
        assert_eq!(of("blocks.00.mlp.fc1.weight").unwrap(), [1.0, 1.0]);
        assert!(folded.iter().all(|w| !w.name.ends_with("gamma")));
    }

    #[test]
    fn a_gamma_of_one_number_becomes_one_per_channel() {
        let mut weights = vec![weight("blocks.00.mlp.join.gamma", &[], &[0.5]), weight("norm.bias", &[1], &[1.0])];
        widen_gammas(&mut weights, 3);
        assert_eq!((weights[0].shape.clone(), weights[0].values()), (vec![3], vec![0.5; 3]));
        assert_eq!(weights[1].shape, [1]);
    }
}
