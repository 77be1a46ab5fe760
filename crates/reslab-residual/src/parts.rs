//! What several strategies are made of.

use reslab_torch::{Group, Init, Scope, ScopeError};
use tch::{Kind, Tensor};

use crate::{InnerMap, Pass};

/// Added to the variance in the norms that a strategy brings along: ViT's 1e-6.
pub const NORM_EPS: f64 = 1e-6;

/// LayerNorm over the last dimension, `[D] * LN(x) + [D]`, starting with ones and zeros.
#[derive(Debug)]
pub struct LayerNorm {
    weight: Tensor, // [D]
    bias: Tensor,   // [D]
    width: i64,
    eps: f64,
}

impl LayerNorm {
    /// Registers `weight` and `bias`.
    ///
    /// # Errors
    /// When a parameter can't be registered.
    pub fn new(scope: &Scope, width: i64, eps: f64) -> Result<LayerNorm, ScopeError> {
        Ok(LayerNorm {
            weight: scope.parameter("weight", &[width], Init::Constant(1.0), Group::NoDecay)?,
            bias: scope.parameter("bias", &[width], Init::Constant(0.0), Group::NoDecay)?,
            width,
            eps,
        })
    }

    /// x: [.., D] -> [.., D]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm([self.width], Some(&self.weight), Some(&self.bias), self.eps, false)
    }
}

impl InnerMap for LayerNorm {
    fn map(&self, x: &Tensor, _input: &Tensor, _pass: &mut Pass) -> Tensor {
        self.forward(x)
    }
}

/// LayerNorm without parameters. x: [.., D] -> [.., D]
pub fn normalize(x: &Tensor) -> Tensor {
    let width = *x.size().last().expect("a residual is [B, N, D]");
    x.layer_norm([width], None::<Tensor>, None::<Tensor>, NORM_EPS, false)
}

/// The sigmoid of a gate. Autocast's bfloat16 has steps of 0.4 %: a gate would not begin where it should, and small
/// changes would vanish, so such logits go to float32.
pub fn gate_share(logits: &Tensor) -> Tensor {
    if logits.kind() == Kind::BFloat16 { logits.to_kind(Kind::Float).sigmoid() } else { logits.sigmoid() }
}
