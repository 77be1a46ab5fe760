//! Rotary position embedding of DINOv3.
//!
//! Shapes: B batch, N tokens, D width, H heads, E = D/H width of a head.

use std::f64::consts::TAU;

use tch::Tensor;

use crate::{InputShape, ModelConfig};

/// Angles by which queries and keys are turned: channels e and e + E/2 are one plane. Source: Simeoni et al. 2025
/// (DINOv3), arXiv:2508.10104; compared with timm's `eva.py` and transformers' `DINOv3ViTModel`. Their random rescaling
/// of the coordinates in training is left out, as it is in evaluation.
#[derive(Debug)]
pub(crate) struct Rope {
    cos: Tensor, // [N, 1, 1, E]
    sin: Tensor, // [N, 1, 1, E]
}

impl Clone for Rope {
    /// Shares the angles.
    fn clone(&self) -> Self {
        Rope { cos: self.cos.shallow_clone(), sin: self.sin.shallow_clone() }
    }
}

impl Rope {
    /// The angles of a grid, with the kind and the device of `like`. Tokens before the patches are turned by 0.
    pub fn new(config: &ModelConfig, base: f64, input: InputShape, like: &Tensor) -> Rope {
        let ([rows, columns], per_head) = (config.grid(input), config.width / config.num_heads);
        let quarter = per_head / 4;
        let frequency = |k: i64| TAU * base.powf(-(k as f64) / quarter as f64);
        // From -1 to 1 over the image, at the patch's middle.
        let coordinate = |at: i64, of: i64| 2.0 * (at as f64 + 0.5) / of as f64 - 1.0;
        let mut angles = vec![0.0; (config.prefix() * per_head) as usize];
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            for _half in 0..2 {
                for at in [coordinate(row, rows), coordinate(column, columns)] {
                    angles.extend((0..quarter).map(|k| at * frequency(k)));
                }
            }
        }
        let angles = Tensor::from_slice(&angles).view([config.tokens(input), 1, 1, per_head]);
        let [cos, sin] = [angles.cos(), angles.sin()].map(|x| x.to_kind(like.kind()).to_device(like.device()));
        Rope { cos, sin }
    }

    /// Turns queries and keys; qkv: [B, N, 3 D] -> [B, N, 3 D]
    pub fn turn(&self, qkv: &Tensor, num_heads: i64) -> Tensor {
        let parts = qkv.unflatten(-1, [3, num_heads, -1]); // [B, N, 3, H, E]
        let queries_keys = parts.narrow(2, 0, 2);
        let halves = queries_keys.chunk(2, -1);
        let across = Tensor::cat(&[-&halves[1], halves[0].shallow_clone()], -1);
        let turned = (queries_keys * &self.cos + across * &self.sin).to_kind(qkv.kind());
        Tensor::cat(&[turned, parts.narrow(2, 2, 1)], 2).flatten(2, -1)
    }
}
