//! The two-layer perceptron of a block.

use reslab_residual::{Inner, Pass, Site, Strategy, Weight};
use reslab_torch::{Scope, ScopeError};
use tch::Tensor;

use crate::ModelConfig;
use crate::layers::Linear;

/// `fc2(GELU(fc1(h)))` with the exact GELU.
#[derive(Debug)]
pub(crate) struct Mlp {
    fc1: Linear, // D -> mlp_ratio * D
    fc2: Linear, // mlp_ratio * D -> D
    inner: Inner,
}

impl Mlp {
    pub fn new(
        scope: &Scope,
        config: &ModelConfig,
        strategy: &dyn Strategy,
        site: Site,
        inner: Inner,
    ) -> Result<Mlp, ScopeError> {
        let (width, hidden) = (config.width, config.hidden());
        Ok(Mlp {
            fc1: Linear::new(&scope.child("fc1"), width, hidden, strategy.init_gain(Weight::Fc1(site)))?,
            fc2: Linear::new(&scope.child("fc2"), hidden, width, strategy.init_gain(Weight::Fc2(site)))?,
            inner,
        })
    }

    /// h: [B, N, D] -> [B, N, D]
    pub fn forward(&self, h: &Tensor, pass: &mut Pass) -> Tensor {
        let mut hidden = self.fc1.forward(h); // [B, N, mlp_ratio * D]
        if let Some(map) = &self.inner.preactivation {
            hidden = map.map(&hidden, h, pass);
        }
        hidden = hidden.gelu("none");
        if let Some(map) = &self.inner.hidden {
            hidden = map.map(&hidden, h, pass);
        }
        self.fc2.forward(&hidden)
    }
}
