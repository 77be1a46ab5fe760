//! Squeeze-and-excitation: a scale per image and channel, computed from all of its tokens.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Gate, Join, LINEAR_STD, Norm, Pass, Site, Strategy, StrategyError, Variant, gate_share};

/// Squeeze-and-excitation: `y = x + s * f(x)`, `s = sigmoid(W2 ReLU(W1 mean of f(x) over tokens))` per image and
/// channel.
///
/// Source: Hu et al. 2017 (squeeze-and-excitation), arXiv:1709.01507, eq. (2) to (4), placed as in figure 3, on the
/// branch before it is added. Differs: tokens take the place of pixels, the class token among them; no biases, as in
/// eq. (3) (timm's `SqueezeExcite` has them); matrices start as the network's others do (truncated normal, std .02).
///
/// Shapes: x and y `[B, N, D]`; s `[B, 1, D]`; W1 `[D / reduction, D]`, W2 `[D, D / reduction]` (rounded down, at least
/// 1); 4 D D / reduction parameters per block.
///
/// At step 0 s is near 1/2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeGate {
    /// The gate's hidden layer is this many times narrower than the branch. The paper's is 16.
    pub reduction: i64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "se_gate",
    summary: "the branch is scaled per image and channel by a gate that reads the mean of its tokens",
    equation: "y = x + s * f(x), s = sigmoid(W2 ReLU(W1 mean of f(x) over tokens))",
    source: "Hu et al. 2017 (squeeze-and-excitation), arXiv:1709.01507, eq. (2) to (4)",
    example: "kind = \"se_gate\"\nreduction = 4\n",
    parameters: "D*D",
    keys: reslab_config::keys::<SeGate>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: SeGate = parse_table("residual", table)?;
    require(config.reduction >= 1, "residual.reduction", || {
        format!("must be at least 1, but is {}", config.reduction)
    })?;
    Ok(Box::new(config))
}

impl Strategy for SeGate {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let hidden = (site.width / self.reduction).max(1);
        let init = || Init::TruncNormal { std: LINEAR_STD, gain: 1.0 };
        Ok(Box::new(SeGateJoin {
            w1: scope.parameter("w1", &[hidden, site.width], init(), Group::Decay)?,
            w2: scope.parameter("w2", &[site.width, hidden], init(), Group::Decay)?,
        }))
    }
}

/// The join of [`SeGate`].
#[derive(Debug)]
struct SeGateJoin {
    w1: Tensor, // [D / reduction, D]
    w2: Tensor, // [D, D / reduction]
}

impl SeGateJoin {
    /// The gate and the branch: `[B, 1, D]`, `[B, N, D]`.
    fn parts(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> (Tensor, Tensor) {
        let output = branch.call(residual, pass);
        let squeezed = output.mean_dim([1i64].as_slice(), true, None); // [B, 1, D]
        let hidden = squeezed.linear(&self.w1, None::<Tensor>).relu();
        let gate = gate_share(&hidden.linear(&self.w2, None::<Tensor>));
        pass.record_gate(|| Gate::unit(&gate.expand_as(residual)));
        (gate, output)
    }
}

impl Join for SeGateJoin {
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
