//! Sub-LN (Magneto): a second norm inside each branch.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plain::PlainJoin;
use crate::{BranchKind, Inner, InnerMap, Join, LayerNorm, NORM_EPS, Site, Strategy, StrategyError, Variant, Weight};

/// Sub-LN: `y = x + f(LN(x))` where f holds one more LN, before attention's output projection and before fc2; the init
/// of the values' projection, the output projection, fc1 and fc2 is scaled by `ln(2 L)^gain_exponent`, L the number of
/// blocks.
///
/// Source: Wang et al. 2022 (Magneto), arXiv:2210.06423, figure 2, encoder-only; compared with torchscale's
/// `architecture/encoder.py`, `component/multihead_attention.py` and `component/feedforward_network.py` under `subln`.
/// Differs: with `xavier = true` matrices are truncated normals of Xavier's std, not normals; torchscale leaves
/// PyTorch's init, or BERT's std .02, which is `xavier = false`.
///
/// Shapes: x and y `[B, N, D]`; weight and bias of the inner norm `[D]` in attention and `[M]` in the MLP, M the width
/// of its hidden layer, so 2 D + 2 M parameters per block.
///
/// At step 0 `y = x + f(x)`; the size of f no longer depends on the values or on fc1, only on the matrix behind the
/// norm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubLn {
    /// The gain is ln(2 * depth) ^ gain_exponent. The paper's is 0.5; 0: no gain.
    pub gain_exponent: f64,
    /// Whether the matrices of the blocks start from Xavier's std, as in the paper, before the gain acts; else from the
    /// network's own .02.
    pub xavier: bool,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "sub_ln",
    summary: "a second norm inside each branch, and an init that grows with depth (Magneto)",
    equation: "y = x + out(LN(attention(LN(x)))), x + fc2(LN(GELU(fc1(LN(x))))); v, out, fc1, fc2 times sqrt(ln(2 L))",
    source: "Wang et al. 2022 (Magneto), arXiv:2210.06423, figure 2, encoder-only; torchscale under `subln`",
    example: "kind = \"sub_ln\"\ngain_exponent = 0.5\nxavier = true\n",
    parameters: "2*D + 2*M",
    keys: reslab_config::keys::<SubLn>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: SubLn = parse_table("residual", table)?;
    require(config.gain_exponent.is_finite(), "residual.gain_exponent", || {
        format!("must be finite, but is {}", config.gain_exponent)
    })?;
    Ok(Box::new(config))
}

impl Strategy for SubLn {
    fn join(&self, _scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(PlainJoin))
    }

    fn inner(&self, scope: &Scope, site: Site) -> Result<Inner, StrategyError> {
        let norm = |width| -> Result<Option<Box<dyn InnerMap>>, StrategyError> {
            Ok(Some(Box::new(LayerNorm::new(&scope.child("norm"), width, NORM_EPS)?)))
        };
        Ok(match site.kind {
            BranchKind::Attention => Inner { attended: norm(site.width)?, ..Inner::default() },
            BranchKind::Mlp => Inner { hidden: norm(site.hidden)?, ..Inner::default() },
        })
    }

    fn init_gain(&self, weight: Weight) -> f64 {
        let base = if self.xavier { weight.xavier_gain() } else { 1.0 };
        match weight {
            Weight::Value(site) | Weight::Out(site) | Weight::Fc1(site) | Weight::Fc2(site) => {
                base * (2.0 * site.depth as f64).ln().powf(self.gain_exponent)
            }
            _ => base,
        }
    }
}
