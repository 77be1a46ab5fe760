//! Attention residuals: each branch reads a softmax-weighted mean of the embedding and all earlier outputs.

use reslab_config::{ConfigError, parse as parse_table};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::{Branch, DropRule, Join, Norm, Pass, Site, Strategy, StrategyError, Stream, Variant};

/// Added to the mean square in the RMSNorm of the keys.
const NORM_EPS: f64 = 1e-6;

/// Attention residuals: site l reads `h_l = sum_i a_i v_i`, `a = softmax_i(q_l . RMSNorm_l(v_i))`, over the embedding v_0 and
/// the outputs `v_i = f_i(h_(i-1))` of all earlier branches, and there is no sum of them beside. The network's output is
/// such a mean too, with a query of its own.
///
/// Source: Kimi Team 2026, arXiv:2603.15031, eq. (2) and figure 2 (its pseudo-code, and torchtitan's port of it). Differs:
/// the full form only, not the blocks of layers whose sums are attended to (its memory grows with depth squared in small
/// weights, with depth in outputs); eps 1e-6; the first site has no query, since softmax over one value is 1.
///
/// Shapes: h and v `[B, N, D]`. Site l holds what makes h_(l+1), the last one what makes the output: the query `[D]` and
/// the norm's weight `[D]`, so 4D parameters per block. What the block passes on is h.
///
/// At step 0 every query is 0: h is the even mean of the embedding and all outputs so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttentionResiduals {}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "attention_residuals",
    summary: "each branch reads a softmax-weighted mean of the embedding and all earlier outputs",
    equation: "h = sum_i a_i v_i, a = softmax_i(q . RMSNorm(v_i)), v_0 = embedding, v_i = f(h_(i-1)); q = 0 at step 0",
    source: "Kimi Team 2026 (Attention Residuals), arXiv:2603.15031, eq. (2), figure 2",
    example: "kind = \"attention_residuals\"\n",
    parameters: "4*D",
    keys: reslab_config::keys::<AttentionResiduals>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    Ok(Box::new(parse_table::<AttentionResiduals>("residual", table)?))
}

impl Strategy for AttentionResiduals {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Both, Norm::None]
    }

    fn stream(&self, _scope: &Scope, width: i64) -> Result<Box<dyn Stream>, StrategyError> {
        Ok(Box::new(Remembering { width }))
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let norm = scope.child("norm");
        Ok(Box::new(AttentionJoin {
            query: scope.parameter("query", &[site.width], Init::Constant(0.0), Group::NoDecay)?,
            norm: norm.parameter("weight", &[site.width], Init::Constant(1.0), Group::NoDecay)?,
        }))
    }

    fn uses_memory(&self) -> bool {
        true
    }
}

/// The names of value i and of its inverse root mean square in the pass's memory.
fn names(index: usize) -> [String; 2] {
    ["value", "inverse_rms"].map(|what| format!("attention_residuals.{what}.{index}"))
}

/// Keeps value i with its inverse root mean square: `[B, N, D]`, `[B, N]`.
fn remember(pass: &mut Pass, index: usize, value: &Tensor) {
    let inverse_rms = (value.square().mean_dim([-1i64].as_slice(), false, None::<Kind>) + NORM_EPS).rsqrt();
    for (name, tensor) in names(index).into_iter().zip([value.shallow_clone(), inverse_rms]) {
        pass.remember(name, tensor);
    }
}

/// One stream, whose opening is the first value.
#[derive(Debug)]
struct Remembering {
    width: i64,
}

impl Stream for Remembering {
    fn width(&self) -> i64 {
        self.width
    }
    fn open(&self, x: &Tensor, pass: &mut Pass) -> Tensor {
        remember(pass, 0, x);
        x.shallow_clone()
    }
    fn close(&self, stream: &Tensor, _pass: &mut Pass) -> Tensor {
        stream.shallow_clone()
    }
}

/// The join of [`AttentionResiduals`].
#[derive(Debug)]
struct AttentionJoin {
    query: Tensor, // [D]
    norm: Tensor,  // [D]
}

impl Join for AttentionJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.forward(residual, branch, pass) - residual
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(residual, pass).to_kind(residual.kind());
        let count = (0..).take_while(|index| pass.recall(&names(*index)[0]).is_some()).count();
        remember(pass, count, &output);
        let kept = |index: usize| names(index).map(|name| pass.recall(&name).expect("it was counted").shallow_clone());
        let (values, inverse_rms): (Vec<_>, Vec<_>) = (0..=count).map(kept).map(|[v, r]| (v, r)).unzip();
        // Not stacked: each join would keep a copy of all values for its gradient.
        let query = (&self.query * &self.norm).unsqueeze(1); // [D, 1]
        let _exact = reslab_torch::autocast_bf16(residual.device(), false);
        let dots: Vec<Tensor> = values.iter().map(|value| value.matmul(&query)).collect();
        let logits = Tensor::cat(&dots, -1) * Tensor::stack(&inverse_rms, -1); // [B, N, count + 1]
        let shares = logits.softmax(-1, None::<Kind>).split(1, -1);
        let first = &values[0] * &shares[0];
        values.iter().zip(&shares).skip(1).fold(first, |sum, (value, share)| sum.addcmul(value, share))
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Refused("the weights depend on the direction of every output, so a dropped one changes all of them")
    }
}
