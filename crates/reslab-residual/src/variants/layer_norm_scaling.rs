//! LayerNorm scaling: deeper norms give less.

use reslab_config::{ConfigError, parse as parse_table};
use reslab_torch::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Join, Pass, Site, Strategy, StrategyError, Variant};

/// LayerNorm scaling: `y = x + f(LN(x) / sqrt(l))` in block l = 1, 2, ..., f being the branch behind its norm.
///
/// Source: Sun et al. 2025 (The Curse of Depth), arXiv:2502.05795, the method's equation; compared with the authors'
/// `modeling_llama.py` (`NORM_TYPE` LNS), which counts blocks from 1 and divides for attention and MLP alike, and not at
/// the final norm. Differs: LayerNorm with weight and bias instead of RMSNorm, and the bias is divided as well. The
/// paper says to leave out an init that shrinks with depth; the trunk has none.
///
/// Shapes: x and y `[B, N, D]`. No parameters.
///
/// At step 0 the first block is a plain one. Later ones have a branch whose input, not output, is smaller: an MLP is
/// about linear in it, and attention's logits shrink by 1/l.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerNormScaling {}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "layer_norm_scaling",
    summary: "the norm before the branch is divided by the square root of the block's number",
    equation: "y = x + f(LN(x) / sqrt(l)), l = 1 for the first block",
    source: "Sun et al. 2025 (The Curse of Depth), arXiv:2502.05795",
    example: "kind = \"layer_norm_scaling\"\n",
    parameters: "0",
    keys: reslab_config::keys::<LayerNormScaling>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    Ok(Box::new(parse_table::<LayerNormScaling>("residual", table)?))
}

impl Strategy for LayerNormScaling {
    fn join(&self, _scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(LayerNormScalingJoin { divisor: ((site.block + 1) as f64).sqrt() }))
    }
}

/// The join of [`LayerNormScaling`].
#[derive(Debug)]
struct LayerNormScalingJoin {
    divisor: f64,
}

impl Join for LayerNormScalingJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        branch.body(&(branch.norm(residual) / self.divisor), pass)
    }
}
