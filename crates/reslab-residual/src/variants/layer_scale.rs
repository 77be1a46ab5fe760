//! LayerScale: a learned scale per channel.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Gamma, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// LayerScale: `y = x + gamma * f(x)` with a learned gamma per channel, all equal to `init` at step 0.
///
/// Source: Touvron et al. 2021 (CaiT), arXiv:2103.17239, eq. (2). Differs: nothing; drop path acts behind gamma, as in
/// the paper's code. The paper takes init .1, 1e-5 and 1e-6 with growing depth; 0 makes it ReZero per channel.
///
/// Shapes: x and y `[B, N, D]`, gamma `[D]`; attention and MLP each have their own, so 2D parameters per block.
///
/// At step 0 the update is `init * f(x)`: a small init makes every block nearly the identity, and scales the gradients
/// of the branch's weights by the same factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerScale {
    /// Every gamma at step 0; any finite number, 0 and negative ones included.
    pub init: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "layer_scale",
    summary: "the branch is scaled by a learned gamma per channel",
    equation: "y = x + gamma * f(x), gamma [D] = init at step 0",
    source: "Touvron et al. 2021 (CaiT), arXiv:2103.17239, eq. (2)",
    example: "kind = \"layer_scale\"\ninit = 1e-5\n",
    parameters: "2*D",
    keys: reslab_config::keys::<LayerScale>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: LayerScale = parse_table("residual", table)?;
    require(config.init.is_finite(), "residual.init", || format!("must be finite, but is {}", config.init))?;
    Ok(Box::new(config))
}

impl Strategy for LayerScale {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let gamma = scope.parameter("gamma", &[site.width], Init::Constant(self.init), Group::Gamma)?;
        Ok(Box::new(LayerScaleJoin { gamma, init: self.init }))
    }
}

/// The join of [`LayerScale`].
#[derive(Debug)]
struct LayerScaleJoin {
    gamma: Tensor, // [D]
    init: f64,
}

impl Join for LayerScaleJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        branch.call(residual, pass) * &self.gamma
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(residual, pass);
        pass.record_update(|| &output * &self.gamma);
        residual.addcmul(&output, &self.gamma)
    }

    fn gamma(&self) -> Option<Gamma> {
        Some(Gamma { value: self.gamma.shallow_clone(), init: self.init })
    }
}
