//! The two layers that everything else is made of.

use reslab_residual::LINEAR_STD;
use reslab_torch::{Group, Init, Scope, ScopeError};
use tch::Tensor;

pub(crate) use reslab_residual::LayerNorm;

/// `x W^T + b`.
#[derive(Debug)]
pub(crate) struct Linear {
    weight: Tensor,       // [out, in]
    bias: Option<Tensor>, // [out]
}

impl Linear {
    /// A linear layer with timm's init, its std times `gain`; the bias is 0.
    pub fn new(scope: &Scope, inputs: i64, outputs: i64, gain: f64) -> Result<Linear, ScopeError> {
        Linear::with(scope, &[outputs, inputs], Init::TruncNormal { std: LINEAR_STD, gain }, Some(Init::Constant(0.0)))
    }

    /// A linear layer `[out, in]` with inits of one's own.
    pub fn with(scope: &Scope, shape: &[i64; 2], weight: Init, bias: Option<Init>) -> Result<Linear, ScopeError> {
        let weight = scope.parameter("weight", shape, weight, Group::Decay)?;
        let bias = bias.map(|init| scope.parameter("bias", &shape[..1], init, Group::NoDecay)).transpose()?;
        Ok(Linear { weight, bias })
    }

    /// x: [.., in] -> [.., out]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight, self.bias.as_ref())
    }

    pub fn weight(&self) -> &Tensor {
        &self.weight
    }
}
