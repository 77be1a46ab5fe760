//! Learned positions brought to another grid of patches.
//!
//! Shapes: N positions, D width.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

/// How positions are interpolated; all are bicubic. The same positions give other numbers under each, so a backbone's
/// features are its authors' only under their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Resize {
    /// timm's `resample_abs_pos_embed`: to the size, with antialiasing. Also DINOv2 with registers, in its authors' code
    /// and in transformers.
    Timm,
    /// `Dinov2Model` of transformers: to the size, without antialiasing.
    Hf,
    /// The authors' DINOv2 without registers: by the factor (new + 0.1) / old, without antialiasing.
    Dinov2,
}

impl Resize {
    /// The word of the config.
    pub fn name(self) -> &'static str {
        match self {
            Resize::Timm => "timm",
            Resize::Hf => "hf",
            Resize::Dinov2 => "dinov2",
        }
    }

    /// Positions [1, N, D] of a grid of patches brought to another; those before the patches' stay as they are. In single
    /// precision, as in the originals, and in double for doubles.
    pub fn apply(self, position: &Tensor, from: [i64; 2], to: [i64; 2]) -> Tensor {
        if from == to {
            return position.shallow_clone();
        }
        let count = from[0] * from[1];
        let prefix = position.size()[1] - count;
        let kind = if position.kind() == Kind::Double { Kind::Double } else { Kind::Float };
        let grid = position.narrow(1, prefix, count).to_kind(kind).transpose(1, 2).unflatten(2, from); // [1, D, rows, columns]
        let resized = match self {
            Resize::Timm => grid.internal_upsample_bicubic2d_aa(to, false, None, None),
            Resize::Hf => grid.upsample_bicubic2d(to, false, None, None),
            Resize::Dinov2 => {
                let [rows, columns] = [0, 1].map(|side: usize| Some((to[side] as f64 + 0.1) / from[side] as f64));
                grid.upsample_bicubic2d(to, false, rows, columns)
            }
        };
        let patches = resized.flatten(2, 3).transpose(1, 2).to_kind(position.kind()); // [1, N', D]
        Tensor::cat(&[position.narrow(1, 0, prefix), patches], 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tests/golden/backbones/positions.py: timm 1.0.31, transformers 5.24, and DINOv2's function copied. Values are of
    /// size 1; another convention is off by more than .01 on each grid.
    #[test]
    fn each_convention_gives_its_originals_numbers_and_no_others() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/backbones/positions.safetensors");
        let golden: std::collections::BTreeMap<_, _> = Tensor::read_safetensors(path).unwrap().into_iter().collect();
        for to in [[3, 3], [7, 9], [5, 2], [11, 11]] {
            let off = |by: Resize, expected: Resize| {
                let expected = &golden[&format!("{}/{}x{}", expected.name(), to[0], to[1])];
                let found = by.apply(&golden["position"], [5, 5], to);
                assert_eq!(found.size(), expected.size());
                (found - expected).abs().max().double_value(&[])
            };
            let all = [Resize::Timm, Resize::Hf, Resize::Dinov2];
            for by in all {
                assert!(off(by, by) < 1e-6, "{by:?} to {to:?}: {}", off(by, by));
                for other in all.into_iter().filter(|other| *other != by) {
                    // Where no side shrinks, antialiasing by size changes nothing but the kernel (a = -0.5, not -0.75).
                    assert!(off(by, other) > 1e-2, "control: {by:?} as {other:?} to {to:?}: {}", off(by, other));
                }
            }
        }
        assert!(Resize::Dinov2.apply(&golden["position"], [5, 5], [5, 5]).equal(&golden["position"]));
    }
}
