//! T-Fixup: an init under which a transformer needs no norm and no warm-up.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Join, Norm, Pass, Site, Strategy, StrategyError, Variant, Weight};

/// T-Fixup: `y = x + f(x)` without any norm; every matrix of a block starts with Xavier's std, and the values', the
/// output's, fc1's and fc2's times `gain * L^(-1/4)`; the patch embedding times `(9 L)^(-1/4)`, for L blocks.
///
/// Source: Huang et al. 2020, ICML, "Improving Transformer Optimization Through Better Initialization" (no arXiv number),
/// the encoder's part, with gain .67; compared with the authors' `transformer_layer.py` and
/// `transformer.py`. Differs: their fairseq starts queries and keys at Xavier / sqrt(2) and takes that back for the values
/// only, the paper scales neither: so do we. Xavier's uniform is a truncated normal of the same std. Their embeddings are
/// N(0, 1/d) times sqrt(d); a patch embedding has no such table, so the trunk's init is scaled instead. Positions are not
/// scaled, there and here. "No warm-up" is up to `optim.warmup_steps`.
///
/// Shapes: x and y `[B, N, D]`. No parameters, and two norms per block and the last one less than a pre-norm network.
///
/// At step 0 the update is `f(x)`, of a branch whose two scaled matrices bring it to about L^(-1/2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TFixup {
    /// The constant before L^(-1/4), above 0. The paper derives .67 for an encoder.
    pub gain: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "t_fixup",
    summary: "no norms; values, output and MLP start from Xavier's std times gain * depth^(-1/4)",
    equation: "y = x + f(x); W_v, W_o, fc1, fc2 = Xavier * gain * L^(-1/4), embedding * (9 L)^(-1/4) at step 0",
    source: "Huang et al. 2020 (T-Fixup), ICML 2020, the encoder's part",
    example: "kind = \"t_fixup\"\ngain = 0.67\n",
    parameters: "0",
    keys: reslab_config::keys::<TFixup>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: TFixup = parse_table("residual", table)?;
    require(config.gain.is_finite() && config.gain > 0.0, "residual.gain", || {
        format!("must be above 0 and finite, but is {}", config.gain)
    })?;
    Ok(Box::new(config))
}

impl Strategy for TFixup {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::None]
    }

    fn join(&self, _scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(TFixupJoin))
    }

    fn init_gain(&self, weight: Weight) -> f64 {
        match weight {
            Weight::Query(_) | Weight::Key(_) => weight.xavier_gain(),
            Weight::Value(site) | Weight::Out(site) | Weight::Fc1(site) | Weight::Fc2(site) => {
                weight.xavier_gain() * self.gain * (site.depth as f64).powf(-0.25)
            }
            Weight::Embedding { depth } => (9.0 * depth as f64).powf(-0.25),
            Weight::Head => 1.0,
        }
    }
}

/// The join of [`TFixup`].
#[derive(Debug)]
struct TFixupJoin;

impl Join for TFixupJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        branch.call(residual, pass)
    }
}
