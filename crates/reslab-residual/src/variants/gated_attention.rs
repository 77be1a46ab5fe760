//! Gated attention: a sigmoid on what attention gathers, before its output projection.

use reslab_config::{ConfigError, parse as parse_table};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::plain::PlainJoin;
use crate::{
    BranchKind, Gate, Inner, InnerMap, Join, LINEAR_STD, Norm, Pass, Site, Strategy, StrategyError, Variant, gate_share,
};

/// Gated attention: `y = x + out(a * sigmoid(W h))` with h the normed residual and a the attended values, by head or by
/// channel; the MLP is joined as it is.
///
/// Source: Qiu et al. 2025, arXiv:2505.06708, the gate G1; compared with the authors' qiuzh20/gated_attention,
/// `modeling_qwen3.py` (`headwise_attn_output_gate`, `elementwise_attn_output_gate`). Differs: W is a parameter of its
/// own without bias, where the authors append it to the queries' projection, whose bias Qwen 3 does without.
///
/// Shapes: x, y, h and a `[B, N, D]`; W `[H, D]` or `[D, D]`, in attention only: H D or D D parameters per block.
///
/// At step 0 W is a truncated normal of std .02, so the gate is near 1/2 and halves attention's part; nothing is
/// learned at the join.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatedAttention {
    /// One gate per token and head, or one per token and channel.
    pub output: Output,
}

/// What the gate has one value for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// Each head of each token.
    Headwise,
    /// Each channel of each token.
    Elementwise,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "gated_attention",
    summary: "a gate on what attention gathers, before its output projection",
    equation: "y = x + out(a * sigmoid(W LN(x))), a = the attended values; the MLP as in plain",
    source: "Qiu et al. 2025 (gated attention), arXiv:2505.06708; qiuzh20/gated_attention's modeling_qwen3.py",
    example: "kind = \"gated_attention\"\noutput = \"headwise\"\n",
    parameters: "H*D",
    keys: reslab_config::keys::<GatedAttention>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    Ok(Box::new(parse_table::<GatedAttention>("residual", table)?))
}

impl Strategy for GatedAttention {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, _scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(PlainJoin))
    }

    fn inner(&self, scope: &Scope, site: Site) -> Result<Inner, StrategyError> {
        if site.kind == BranchKind::Mlp {
            return Ok(Inner::default());
        }
        let outputs = match self.output {
            Output::Headwise => site.num_heads,
            Output::Elementwise => site.width,
        };
        let init = Init::TruncNormal { std: LINEAR_STD, gain: 1.0 };
        let weight = scope.parameter("weight", &[outputs, site.width], init, Group::Decay)?;
        Ok(Inner { attended: Some(Box::new(AttendedGate { weight })), ..Inner::default() })
    }
}

/// The gate of [`GatedAttention`].
#[derive(Debug)]
struct AttendedGate {
    weight: Tensor, // [H or D, D]
}

impl InnerMap for AttendedGate {
    fn map(&self, x: &Tensor, input: &Tensor, pass: &mut Pass) -> Tensor {
        let (outputs, _) = self.weight.size2().expect("the gate is a matrix");
        let gate = gate_share(&input.linear(&self.weight, None::<Tensor>)); // [B, N, H or D]
        pass.record_gate(|| Gate::unit(&gate));
        // Each gate acts on the D / outputs channels that stand together.
        (x.unflatten(-1, [outputs, -1]) * gate.unsqueeze(-1)).flatten(-2, -1)
    }
}
