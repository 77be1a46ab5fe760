//! The perceptron of a block.

use reslab_config::require;
use reslab_residual::{Inner, Pass, Site, Weight};
use reslab_torch::Scope;
use tch::Tensor;

use crate::ModelError;
use crate::block::{Body, Plan};
use crate::layers::Linear;

/// `fc2(GELU(fc1(h)))` with the exact GELU, or with a gate `fc2(SiLU(gate(h)) * fc1(h))` (SwiGLU; Shazeer 2020,
/// arXiv:2002.05202, with biases as in DINOv2).
#[derive(Debug)]
pub(crate) struct Mlp {
    gate: Option<Linear>, // D -> mlp_ratio * D
    fc1: Linear,          // D -> mlp_ratio * D
    fc2: Linear,          // mlp_ratio * D -> D
    inner: Inner,
}

impl Mlp {
    pub fn new(scope: &Scope, plan: &Plan, site: Site, inner: Inner) -> Result<Mlp, ModelError> {
        let (config, strategy) = (plan.config, plan.strategy);
        require(!config.is_gated() || inner.preactivation.is_none(), "model.mlp", || {
            "must not be \"swiglu\" with this strategy: it maps what stands before the GELU, and SwiGLU has two such \
             things and no GELU"
                .to_owned()
        })?;
        let (width, hidden) = (config.width, config.hidden());
        let first = |name: &str| Linear::new(&scope.child(name), width, hidden, strategy.init_gain(Weight::Fc1(site)));
        Ok(Mlp {
            gate: config.is_gated().then(|| first("gate")).transpose()?,
            fc1: first("fc1")?,
            fc2: Linear::new(&scope.child("fc2"), hidden, width, strategy.init_gain(Weight::Fc2(site)))?,
            inner,
        })
    }
}

impl Body for Mlp {
    /// h: [B, N, D] -> [B, N, D]
    fn forward(&self, h: &Tensor, pass: &mut Pass) -> Tensor {
        let mut hidden = self.fc1.forward(h); // [B, N, mlp_ratio * D]
        if let Some(map) = &self.inner.preactivation {
            hidden = map.map(&hidden, h, pass);
        }
        hidden = match &self.gate {
            None => hidden.gelu("none"),
            Some(gate) => gate.forward(h).silu() * hidden,
        };
        if let Some(map) = &self.inner.hidden {
            hidden = map.map(&hidden, h, pass);
        }
        self.fc2.forward(&hidden)
    }
}
