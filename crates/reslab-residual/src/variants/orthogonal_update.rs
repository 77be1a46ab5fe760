//! Orthogonal update: what the branch adds is orthogonal to the residual.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// Orthogonal update: `y = x + f(x) - x * <f(x), x> / (<x, x> + eps)`.
///
/// Source: Oh et al. 2025, arXiv:2505.11881, its equation of the update; compared with the authors'
/// `ortho_residual/vit/residual.py` (eps 1e-6; feature-wise is what they use for ViTs). Differs: their `global` flattens
/// from the given dimension on, for ViTs the last, where it is the same as `feature`; here it is all tokens and channels
/// of a sample, as for their ResNets. x-transformers' `OrthogonalResidualUpdate` computes the products in double
/// precision and has no eps; here they are of the residual's precision, float32 under bf16.
///
/// Shapes: x and y `[B, N, D]`, products `[B, N, 1]` or `[B, 1, 1]`. No parameters.
///
/// At step 0 the update is f(x) without its share along x, which is small in wide networks: about 1/sqrt(D) of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrthogonalUpdate {
    /// What is orthogonal to what.
    pub over: Over,
    /// Added to the squared norm of the residual; at least 0. The paper takes 1e-6.
    pub eps: f64,
}

/// What the inner products go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// The channels of each token.
    Feature,
    /// All channels of all tokens of a sample.
    Global,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "orthogonal_update",
    summary: "the branch's component along the residual is taken away",
    equation: "y = x + f(x) - x * <f(x), x> / (<x, x> + eps)",
    source: "Oh et al. 2025, arXiv:2505.11881",
    example: "kind = \"orthogonal_update\"\nover = \"feature\"\neps = 1e-6\n",
    parameters: "0",
    keys: reslab_config::keys::<OrthogonalUpdate>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: OrthogonalUpdate = parse_table("residual", table)?;
    require(config.eps.is_finite() && config.eps >= 0.0, "residual.eps", || {
        format!("must be at least 0 and finite, but is {}", config.eps)
    })?;
    Ok(Box::new(config))
}

impl Strategy for OrthogonalUpdate {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, _scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(OrthogonalUpdateJoin { over: self.over, eps: self.eps }))
    }
}

/// The join of [`OrthogonalUpdate`].
#[derive(Debug)]
struct OrthogonalUpdateJoin {
    over: Over,
    eps: f64,
}

impl Join for OrthogonalUpdateJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let dims: &[i64] = match self.over {
            Over::Feature => &[-1],
            Over::Global => &[1, 2],
        };
        // In the residual's precision: autocast's bfloat16 would leave several per mille of the component behind.
        let output = branch.call(residual, pass).to_kind(residual.kind());
        let dot = |a: &Tensor| (a * residual).sum_dim_intlist(dims, true, None);
        let share = dot(&output) / (dot(residual) + self.eps); // [B, N, 1] or [B, 1, 1]
        output - residual * share
    }
}
