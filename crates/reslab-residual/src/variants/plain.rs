//! Plain residual joins: the baseline.

use reslab_config::{ConfigError, parse as parse_table};
use reslab_torch::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// Plain: `y = x + f(x)`, nothing learned at the join.
///
/// Source: He et al. 2015, arXiv:1512.03385, eq. (1); with the norm inside `f` as in Dosovitskiy et al. 2020,
/// arXiv:2010.11929, eq. (2) and (3). Differs: nothing.
///
/// Shapes: x and y `[B, N, D]`. No parameters.
///
/// At step 0 the stream grows with every branch: its mean square is about linear in the number of joins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plain {}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "plain",
    summary: "the branch is added as it is: the baseline",
    equation: "y = x + f(x)",
    source: "He et al. 2015, arXiv:1512.03385, eq. (1); pre-norm: Dosovitskiy et al. 2020, arXiv:2010.11929",
    example: "kind = \"plain\"\n",
    parameters: "0",
    keys: reslab_config::keys::<Plain>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    Ok(Box::new(parse_table::<Plain>("residual", table)?))
}

impl Strategy for Plain {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, _scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(PlainJoin))
    }
}

/// The join of [`Plain`].
#[derive(Debug)]
pub(crate) struct PlainJoin;

impl Join for PlainJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        branch.call(residual, pass)
    }
}
