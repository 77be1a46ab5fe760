//! Highway: the gate that lets the branch in lets the residual out.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, DropRule, Gate, Join, LINEAR_STD, Norm, Pass, Site, Strategy, StrategyError, Variant, gate_share};

/// Highway: `y = T(x) * f(x) + (1 - T(x)) * x`, `T(x) = sigmoid(W x + b)` per channel.
///
/// Source: Srivastava et al. 2015 (highway networks), arXiv:1505.00387, eq. (3) and (4). Differs: f is a branch of a
/// transformer with the block's norm before it; T reads the residual as it is, as in the paper, so its logits grow with
/// the stream. W starts as the network's other matrices do (truncated normal, std .02).
///
/// Shapes: x and y `[B, N, D]`; W `[D, D]`, b `[D]`; 2 D D + 2 D parameters per block.
///
/// At step 0 T is about `sigmoid(bias)`, and so is the share of each branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Highway {
    /// Every entry of b at step 0. The paper takes -1 to -4, the lower the deeper: mostly carry.
    pub bias: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "highway",
    summary: "a gate per channel mixes branch and residual: what one gains the other loses",
    equation: "y = T * f(x) + (1 - T) * x, T = sigmoid(W x + b), b = bias at step 0",
    source: "Srivastava et al. 2015 (highway networks), arXiv:1505.00387, eq. (3), (4)",
    example: "kind = \"highway\"\nbias = -2.0\n",
    parameters: "2*D*D + 2*D",
    keys: reslab_config::keys::<Highway>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: Highway = parse_table("residual", table)?;
    require(config.bias.is_finite(), "residual.bias", || format!("must be finite, but is {}", config.bias))?;
    Ok(Box::new(config))
}

impl Strategy for Highway {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let weight = Init::TruncNormal { std: LINEAR_STD, gain: 1.0 };
        Ok(Box::new(HighwayJoin {
            weight: scope.parameter("weight", &[site.width, site.width], weight, Group::Decay)?,
            bias: scope.parameter("bias", &[site.width], Init::Constant(self.bias), Group::NoDecay)?,
        }))
    }
}

/// The join of [`Highway`].
#[derive(Debug)]
struct HighwayJoin {
    weight: Tensor, // [D, D]
    bias: Tensor,   // [D]
}

impl HighwayJoin {
    /// The gate and the branch, `[B, N, D]` both, of the residual's kind.
    fn parts(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> (Tensor, Tensor) {
        let gate = gate_share(&residual.linear(&self.weight, Some(&self.bias)));
        pass.record_gate(|| Gate::unit(&gate));
        (gate, branch.call(residual, pass).to_kind(residual.kind()))
    }
}

impl Join for HighwayJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let (gate, output) = self.parts(residual, branch, pass);
        (output - residual) * gate
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let (gate, output) = self.parts(residual, branch, pass);
        pass.record_update(|| (&output - residual) * &gate);
        residual.lerp_tensor(&output, &gate)
    }

    /// A dropped branch leaves `(1 - T) * x`: the gate does not know of it.
    fn drop_rule(&self) -> DropRule {
        DropRule::Branch
    }
}
