//! Input gate: a scale per token, computed from the residual.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Gamma, Gate, Join, Norm, Pass, Site, Strategy, StrategyError, Variant, gate_share, normalize};

/// Input gate: `y = x + g(x) * f(x)`, `g = c * sigmoid(w2 . GELU(w1 . LN(x)) + b)` per token; with `hidden = 0`,
/// `g = c * sigmoid(w2 . LN(x) + b)`. LN has no parameters.
///
/// Source: the highway network's transform gate (Srivastava et al. 2015, arXiv:1505.00387, eq. (2)) without its carry
/// gate; bounded by a learned c as in x-transformers' `AdaptiveLayerScale`. No published number for ViTs is known.
/// Differs: `c` is learned, and the gate reads the normed residual, so it does not drift with the stream's size.
///
/// Shapes: x and y `[B, N, D]`; g `[B, N, 1]` or `[B, N, D]`; w1 `[hidden, D]`; w2 `[1 or D, hidden or D]`;
/// b `[1 or D]`; c `[]`, registered as `gamma`.
///
/// At step 0 w2 and b are 0 and c is `2 * initial_gain`, so g is exactly `initial_gain` everywhere: arms start
/// comparable. w1 starts as a truncated normal of std .02; it has no gradient until w2 has moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputGate {
    /// Width of the gate's hidden layer. 0: one linear map, without GELU.
    pub hidden: i64,
    /// The gate at step 0; any finite number, 0 and negative ones included.
    pub initial_gain: f64,
    /// One gate per token, or one per token and channel.
    pub output: Output,
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
    name: "input_gate",
    summary: "the branch is scaled per token by a gate that reads the residual",
    equation: "y = x + g * f(x), g = c * sigmoid(w2 . GELU(w1 . LN(x)) + b); at step 0 w2 = b = 0, g = initial_gain",
    source: "after Srivastava et al. 2015 (highway networks), arXiv:1505.00387, and x-transformers' AdaptiveLayerScale",
    example: "kind = \"input_gate\"\nhidden = 16\ninitial_gain = 0.1\noutput = \"scalar\"\n",
    parameters: "2*16*D + 2*16 + 2 + 2",
    keys: reslab_config::keys::<InputGate>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: InputGate = parse_table("residual", table)?;
    require(config.hidden >= 0, "residual.hidden", || format!("must be at least 0, but is {}", config.hidden))?;
    require(config.initial_gain.is_finite(), "residual.initial_gain", || {
        format!("must be finite, but is {}", config.initial_gain)
    })?;
    Ok(Box::new(config))
}

impl Strategy for InputGate {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let outputs = match self.output {
            Output::Scalar => 1,
            Output::Channel => site.width,
        };
        let (w1, inputs) = if self.hidden == 0 {
            (None, site.width)
        } else {
            let init = Init::TruncNormal { std: 0.02, gain: 1.0 };
            (Some(scope.parameter("w1", &[self.hidden, site.width], init, Group::Decay)?), self.hidden)
        };
        let start = 2.0 * self.initial_gain;
        Ok(Box::new(InputGateJoin {
            w1,
            w2: scope.parameter("w2", &[outputs, inputs], Init::Constant(0.0), Group::Decay)?,
            bias: scope.parameter("bias", &[outputs], Init::Constant(0.0), Group::NoDecay)?,
            gamma: scope.parameter("gamma", &[], Init::Constant(start), Group::Gamma)?,
            start,
        }))
    }
}

/// The join of [`InputGate`].
#[derive(Debug)]
struct InputGateJoin {
    w1: Option<Tensor>, // [hidden, D]
    w2: Tensor,         // [1 or D, hidden or D]
    bias: Tensor,       // [1 or D]
    gamma: Tensor,      // []
    start: f64,
}

impl InputGateJoin {
    /// The gate and the gated branch: `[B, N, 1 or D]`, `[B, N, D]`.
    fn parts(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> (Tensor, Tensor) {
        let normed = normalize(residual); // the gate's own norm, not one of the block's
        let hidden = match &self.w1 {
            Some(w1) => normed.linear(w1, None::<Tensor>).gelu("none"), // [B, N, hidden]
            None => normed,
        };
        let logits = hidden.linear(&self.w2, Some(&self.bias)); // [B, N, 1 or D]
        let share = gate_share(&logits);
        let gate = &share * &self.gamma;
        pass.record_gate(|| Gate { share, bound: self.gamma.shallow_clone() });
        (gate, branch.call(residual, pass))
    }
}

impl Join for InputGateJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let (gate, output) = self.parts(residual, branch, pass);
        output * gate
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let (gate, output) = self.parts(residual, branch, pass);
        pass.record_update(|| &output * &gate);
        residual.addcmul(&output, &gate)
    }

    fn gamma(&self) -> Option<Gamma> {
        Some(Gamma { value: self.gamma.shallow_clone(), init: self.start })
    }
}
