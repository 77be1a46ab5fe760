//! A fixed scale: the control of learned scales.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// Fixed scale: `y = x + value * f(x)`, nothing learned: what a learned scale of that size at step 0 is compared with.
///
/// Source: residual scaling by a constant, Szegedy et al. 2016 (Inception-v4), arXiv:1602.07261, section 3.3, which takes
/// .1 to .3. Differs: transformers instead of Inception blocks.
///
/// Shapes: x and y `[B, N, D]`. No parameters.
///
/// At step 0 and ever after the update is `value * f(x)`. The branch can still grow: its last matrix scales it as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixedScale {
    /// The factor on every branch; any finite number.
    pub value: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "fixed_scale",
    summary: "the branch is scaled by a constant that is not learned: a control",
    equation: "y = x + value * f(x)",
    source: "Szegedy et al. 2016 (Inception-v4), arXiv:1602.07261, section 3.3",
    example: "kind = \"fixed_scale\"\nvalue = 0.1\n",
    parameters: "0",
    keys: reslab_config::keys::<FixedScale>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: FixedScale = parse_table("residual", table)?;
    require(config.value.is_finite(), "residual.value", || format!("must be finite, but is {}", config.value))?;
    Ok(Box::new(config))
}

impl Strategy for FixedScale {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, _scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(FixedScaleJoin { value: self.value }))
    }
}

/// The join of [`FixedScale`].
#[derive(Debug)]
struct FixedScaleJoin {
    value: f64,
}

impl Join for FixedScaleJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        branch.call(residual, pass) * self.value
    }
}
