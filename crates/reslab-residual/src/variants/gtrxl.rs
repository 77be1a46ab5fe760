//! The gates of the Gated Transformer-XL.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, DropRule, Gate, Join, LINEAR_STD, Norm, Pass, Site, Strategy, StrategyError, Variant, gate_share};

/// GTrXL's gates, with `f = ReLU(branch)` if `relu`, s for sigmoid and all gates per channel: `input`:
/// `y = s(W x) * x + f`; `output`: `y = x + s(W x - b) * f`; `highway`: `y = s(W x + b) * x + (1 - s(W x + b)) * f`;
/// `sigmoid_tanh`: `y = x + s(W f - b) * tanh(U f)`; `gru`: `r = s(W_r f + U_r x)`, `z = s(W_z f + U_z x - b)`,
/// `y = (1 - z) * x + z * tanh(W_g f + U_g (r * x))`.
///
/// Source: Parisotto et al. 2019 (GTrXL), arXiv:1910.06764, section 3.2; `gru`, and the ReLU, compared with DI-engine's
/// `ding/torch_utils/network/gtrxl.py`. Differs: matrices start as the network's others do (truncated normal, std .02);
/// those that read the same tensor are one parameter (`w`: r, z, g of f; `u`: r, z of x).
///
/// Shapes: x, f, y `[B, N, D]`; each matrix `[D, D]`, b `[D]`. Per block: `input` 2 D D, `output` and `highway`
/// 2 D D + 2 D, `sigmoid_tanh` 4 D D + 2 D, `gru` 12 D D + 2 D parameters.
///
/// At step 0 `b` makes y nearly x: the branch's part is about `sigmoid(-bias)`; `input` begins with `x / 2 + f`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gtrxl {
    /// Which of the five gates. The paper's best is `gru`.
    pub mode: Mode,
    /// Every entry of b at step 0; the larger, the nearer the join is to the identity. The paper's is 2. `input` has no
    /// b: give 0.
    pub bias: f64,
    /// Whether a ReLU acts on the branch's output, as in the paper.
    pub relu: bool,
}

/// A gate of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// On the residual.
    Input,
    /// On the branch.
    Output,
    /// Mixes both.
    Highway,
    /// On a tanh of the branch, read from the branch.
    SigmoidTanh,
    /// A gated recurrent unit whose state is the residual.
    Gru,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "gtrxl",
    summary: "branch and residual meet in a gate: one of the Gated Transformer-XL's five",
    equation: "gru: y = (1 - z) * x + z * tanh(W_g f + U_g (r * x)), z = s(W_z f + U_z x - b), r = s(W_r f + U_r x)",
    source: "Parisotto et al. 2019 (GTrXL), arXiv:1910.06764, section 3.2; DI-engine's gtrxl.py",
    example: "kind = \"gtrxl\"\nmode = \"gru\"\nbias = 2.0\nrelu = true\n",
    parameters: "12*D*D + 2*D",
    keys: reslab_config::keys::<Gtrxl>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: Gtrxl = parse_table("residual", table)?;
    require(config.bias.is_finite(), "residual.bias", || format!("must be finite, but is {}", config.bias))?;
    require(config.mode != Mode::Input || config.bias == 0.0, "residual.bias", || {
        format!("must be 0 with mode = \"input\", which has none, but is {}", config.bias)
    })?;
    Ok(Box::new(config))
}

impl Strategy for Gtrxl {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let matrix = |name: &str, count: i64| {
            let init = Init::TruncNormal { std: LINEAR_STD, gain: 1.0 };
            scope.parameter(name, &[count * site.width, site.width], init, Group::Decay)
        };
        let of_f = match self.mode {
            Mode::Input | Mode::Output | Mode::Highway => 1,
            Mode::SigmoidTanh => 2,
            Mode::Gru => 3,
        };
        let of_x = || Ok::<_, StrategyError>((matrix("u", 2)?, matrix("u_g", 1)?));
        let bias = || scope.parameter("bias", &[site.width], Init::Constant(self.bias), Group::NoDecay);
        Ok(Box::new(GtrxlJoin {
            mode: self.mode,
            relu: self.relu,
            w: matrix("w", of_f)?,
            u: (self.mode == Mode::Gru).then(of_x).transpose()?,
            bias: (self.mode != Mode::Input).then(bias).transpose()?,
        }))
    }
}

/// The join of [`Gtrxl`].
#[derive(Debug)]
struct GtrxlJoin {
    mode: Mode,
    relu: bool,
    w: Tensor,                   // [1, 2 or 3 D, D]
    u: Option<(Tensor, Tensor)>, // [2 D, D] and [D, D], of a GRU
    bias: Option<Tensor>,        // [D]
}

impl GtrxlJoin {
    /// `sigmoid(logits + sign * b)`, shown to telemetry.
    fn sigmoid(&self, logits: &Tensor, sign: f64, pass: &mut Pass) -> Tensor {
        let share = self.bias.as_ref().map_or_else(|| gate_share(logits), |b| gate_share(&(logits + b * sign)));
        pass.record_gate(|| Gate::unit(&share));
        share
    }

    /// What a GRU adds to its state.
    fn gru(&self, x: &Tensor, f: &Tensor, (u, u_g): &(Tensor, Tensor), pass: &mut Pass) -> Tensor {
        let (of_f, of_x) = (times(&self.w, f).chunk(3, -1), times(u, x).chunk(2, -1)); // r, z, g and r, z: [B, N, D]
        let r = gate_share(&(&of_f[0] + &of_x[0]));
        let z = self.sigmoid(&(&of_f[1] + &of_x[1]), -1.0, pass);
        let candidate = (&of_f[2] + times(u_g, &(r * x))).tanh();
        (candidate - x) * z
    }
}

/// `weight . x` per token.
fn times(weight: &Tensor, x: &Tensor) -> Tensor {
    x.linear(weight, None::<Tensor>)
}

impl Join for GtrxlJoin {
    fn update(&self, x: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(x, pass);
        let f = if self.relu { output.relu() } else { output };
        match (self.mode, &self.u) {
            (_, Some(u)) => self.gru(x, &f, u, pass),
            (Mode::Output, _) => self.sigmoid(&times(&self.w, x), -1.0, pass) * f,
            (Mode::Highway, _) => (f - x) * (1.0 - self.sigmoid(&times(&self.w, x), 1.0, pass)),
            (Mode::SigmoidTanh, _) => {
                let parts = times(&self.w, &f).chunk(2, -1);
                self.sigmoid(&parts[0], -1.0, pass) * parts[1].tanh()
            }
            (Mode::Input | Mode::Gru, _) => (self.sigmoid(&times(&self.w, x), 1.0, pass) - 1.0) * x + f,
        }
    }

    fn drop_rule(&self) -> DropRule {
        match self.mode {
            Mode::Output | Mode::SigmoidTanh => DropRule::Scaled,
            Mode::Input | Mode::Highway => DropRule::Branch,
            Mode::Gru => DropRule::Refused(
                "a GRU's gates read the branch: with the branch dropped or scaled they are others, and no mean is kept",
            ),
        }
    }
}
