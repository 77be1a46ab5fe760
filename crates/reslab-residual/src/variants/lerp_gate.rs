//! Lerp gate: a mix of branch and residual by a gate that reads both.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, DropRule, Gate, Join, Norm, Pass, Site, Strategy, StrategyError, Variant, gate_share};

/// Lerp gate: `y = m * x + (1 - m) * f(x)`, `m = sigmoid(W [f(x); x] + b)` per token, or per token and channel.
///
/// Source: `GatedResidual` of lucidrains' hyper-connections (`residuals.py`; `output = "channel"` is its `fine_gate`);
/// no paper is known. Differs: b starts at one number, where PyTorch's linear layer draws it within +-1/sqrt(2 D).
///
/// Shapes: x and y `[B, N, D]`; m `[B, N, 1 or D]`; W `[1 or D, 2 D]`, b `[1 or D]`; 4 D + 2 parameters per block for
/// `scalar`, 4 D D + 2 D for `channel`.
///
/// At step 0 W is uniform within +-1/sqrt(2 D), as PyTorch's; the branch's share 1 - m is around `sigmoid(-bias)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LerpGate {
    /// One gate per token, or one per token and channel.
    pub output: Output,
    /// Every entry of b at step 0: the larger, the more of the residual is kept. The source's is 0 in the mean.
    pub bias: f64,
}

/// What the gate has one value for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// Each token.
    Scalar,
    /// Each channel of each token.
    Channel,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "lerp_gate",
    summary: "branch and residual are mixed by a gate that reads both",
    equation: "y = m * x + (1 - m) * f(x), m = sigmoid(W [f(x); x] + b)",
    source: "lucidrains' hyper-connections, residuals.py, GatedResidual",
    example: "kind = \"lerp_gate\"\noutput = \"scalar\"\nbias = 2.0\n",
    parameters: "4*D + 2",
    keys: reslab_config::keys::<LerpGate>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: LerpGate = parse_table("residual", table)?;
    require(config.bias.is_finite(), "residual.bias", || format!("must be finite, but is {}", config.bias))?;
    Ok(Box::new(config))
}

impl Strategy for LerpGate {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let (outputs, inputs) = (if self.output == Output::Scalar { 1 } else { site.width }, 2 * site.width);
        let weight = Init::Uniform { bound: 1.0 / (inputs as f64).sqrt(), gain: 1.0 };
        Ok(Box::new(LerpGateJoin {
            weight: scope.parameter("weight", &[outputs, inputs], weight, Group::Decay)?,
            bias: scope.parameter("bias", &[outputs], Init::Constant(self.bias), Group::NoDecay)?,
        }))
    }
}

/// The join of [`LerpGate`].
#[derive(Debug)]
struct LerpGateJoin {
    weight: Tensor, // [1 or D, 2 D]
    bias: Tensor,   // [1 or D]
}

impl Join for LerpGateJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.forward(residual, branch, pass) - residual
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(residual, pass).to_kind(residual.kind());
        let logits = Tensor::cat(&[&output, residual], -1).linear(&self.weight, Some(&self.bias)); // [B, N, 1 or D]
        let share = gate_share(&-logits); // 1 - m, the branch's
        pass.record_gate(|| Gate::unit(&share));
        pass.record_update(|| (&output - residual) * &share);
        residual.lerp_tensor(&output, &share)
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Refused(
            "the gate reads the branch: with the branch dropped or scaled it is another gate, and the mean is not kept",
        )
    }
}
