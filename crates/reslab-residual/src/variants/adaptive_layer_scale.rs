//! Adaptive LayerScale: a scale per channel, computed from a condition.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Gate, Join, Norm, Pass, Site, Strategy, StrategyError, Variant, gate_share, normalize};

/// Adaptive LayerScale: `y = x + g * f(x)`, `g = sigmoid(W c + b)` per channel, where the condition c is `LN(x)` of
/// each token, or LN of the mean of x over tokens. LN has no parameters.
///
/// Source: `AdaptiveLayerScale` of lucidrains' x-transformers (after the zero-init gates of Peebles and Xie 2022 (DiT),
/// arXiv:2212.09748, section 3.2). Differs: there c comes from outside, as a diffusion step; a classifier has none, so
/// the residual itself is the condition (`mean` has its shape there, one vector per image).
///
/// Shapes: x and y `[B, N, D]`; c and g `[B, N or 1, D]`; W `[D, D]`, b `[D]`; 2 D D + 2 D parameters per block.
///
/// At step 0 W is 0 and g exactly `sigmoid(bias)` everywhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdaptiveLayerScale {
    /// What the gate reads.
    pub condition: Condition,
    /// Every entry of b at step 0. The source's is -2, a gate of 0.119.
    pub bias: f64,
}

/// What the gate reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// Each token's residual.
    Token,
    /// The mean of the residual over the tokens of an image.
    Mean,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "adaptive_layer_scale",
    summary: "the branch is scaled by a gate per channel that reads a condition; exact at the start",
    equation: "y = x + g * f(x), g = sigmoid(W c + b), c = LN(x) or LN(mean of x over tokens); at step 0 W = 0",
    source: "x-transformers' AdaptiveLayerScale; after Peebles and Xie 2022 (DiT), arXiv:2212.09748, section 3.2",
    example: "kind = \"adaptive_layer_scale\"\ncondition = \"token\"\nbias = -2.0\n",
    parameters: "2*D*D + 2*D",
    keys: reslab_config::keys::<AdaptiveLayerScale>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: AdaptiveLayerScale = parse_table("residual", table)?;
    require(config.bias.is_finite(), "residual.bias", || format!("must be finite, but is {}", config.bias))?;
    Ok(Box::new(config))
}

impl Strategy for AdaptiveLayerScale {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let zero = Init::Constant(0.0);
        Ok(Box::new(AdaptiveLayerScaleJoin {
            condition: self.condition,
            weight: scope.parameter("weight", &[site.width, site.width], zero, Group::Decay)?,
            bias: scope.parameter("bias", &[site.width], Init::Constant(self.bias), Group::NoDecay)?,
        }))
    }
}

/// The join of [`AdaptiveLayerScale`].
#[derive(Debug)]
struct AdaptiveLayerScaleJoin {
    condition: Condition,
    weight: Tensor, // [D, D]
    bias: Tensor,   // [D]
}

impl AdaptiveLayerScaleJoin {
    /// The gate and the branch: `[B, N or 1, D]`, `[B, N, D]`.
    fn parts(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> (Tensor, Tensor) {
        let condition = match self.condition {
            Condition::Token => normalize(residual),
            Condition::Mean => normalize(&residual.mean_dim([1i64].as_slice(), true, None)),
        };
        let gate = gate_share(&condition.linear(&self.weight, Some(&self.bias)));
        pass.record_gate(|| Gate::unit(&gate.expand_as(residual)));
        (gate, branch.call(residual, pass))
    }
}

impl Join for AdaptiveLayerScaleJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let (gate, output) = self.parts(residual, branch, pass);
        output * gate
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let (gate, output) = self.parts(residual, branch, pass);
        pass.record_update(|| &output * &gate);
        residual.addcmul(&output, &gate)
    }
}
