//! MV-split: one scale for how the branch varies over the tokens, one for the mean.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, DropRule, Gamma, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// MV-split: `y = x + gamma * (f(x) - m(f(x))) + alpha * (m(f(x)) - m(x))` with m the mean over the tokens, and gamma
/// (the paper's beta) and alpha learned per channel.
///
/// Source: Lu 2026, arXiv:2605.06169, section 5; compared with the author's `dit.py` and `fused_mvsplit_rmsnorm.py` (beta
/// .03 and alpha 0 at step 0, a norm on the sum) and with x-transformers' `MVSplitResidualUpdate`, which keeps the norm
/// before the branch: both placements are allowed. Differs: the norm on the sum is LayerNorm with weight and bias, not
/// RMSNorm without; one mean over all tokens, the class token included, where the author's image and text tokens have one
/// each.
///
/// Shapes: x and y `[B, N, D]`, means `[B, 1, D]`, gamma and alpha `[D]`; 4D parameters per block.
///
/// At step 0 with the paper's values only the branch's variation over tokens is added, at .03; the mean stays.
///
/// Drop path masks the branch, not the update: a dropped sample still loses alpha * m(x).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MvSplit {
    /// Every gamma at step 0, the scale of the variation over tokens; any finite number. The paper takes .03.
    pub init: f64,
    /// Every alpha at step 0, the share of the mean that is replaced; any finite number. The paper takes 0.
    pub mean_init: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "mv_split",
    summary: "the branch's mean over tokens and its variation around it have a learned scale each",
    equation: "y = x + gamma * (f - m(f)) + alpha * (m(f) - m(x)), f = f(x), m: mean over tokens, gamma [D] = init, alpha [D] = mean_init",
    source: "Lu 2026 (Mean Mode Screaming), arXiv:2605.06169, section 5",
    example: "kind = \"mv_split\"\ninit = 0.03\nmean_init = 0.0\n",
    parameters: "4*D",
    keys: reslab_config::keys::<MvSplit>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: MvSplit = parse_table("residual", table)?;
    let finite = |value: f64, key: &str| require(value.is_finite(), key, || format!("must be finite, but is {value}"));
    finite(config.init, "residual.init")?;
    finite(config.mean_init, "residual.mean_init")?;
    Ok(Box::new(config))
}

impl Strategy for MvSplit {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Post, Norm::Pre]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let channels = |name: &str, init, group| scope.parameter(name, &[site.width], Init::Constant(init), group);
        Ok(Box::new(MvSplitJoin {
            gamma: channels("gamma", self.init, Group::Gamma)?,
            alpha: channels("alpha", self.mean_init, Group::NoDecay)?,
            init: self.init,
        }))
    }

    fn needs_tokens(&self) -> bool {
        true
    }
}

/// The join of [`MvSplit`].
#[derive(Debug)]
struct MvSplitJoin {
    gamma: Tensor, // [D]
    alpha: Tensor, // [D]
    init: f64,
}

impl Join for MvSplitJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(residual, pass);
        let mean = |x: &Tensor| x.mean_dim([1i64].as_slice(), true, residual.kind()); // [B, 1, D]
        // The terms of one value per sample come together first: two passes over [B, N, D] remain.
        let shift = mean(&output) * (&self.alpha - &self.gamma) - mean(residual) * &self.alpha;
        shift.addcmul(&output, &self.gamma)
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Branch
    }

    fn gamma(&self) -> Option<Gamma> {
        Some(Gamma { value: self.gamma.shallow_clone(), init: self.init })
    }
}
