//! ReZero: a learned scale per join that starts at 0.

use reslab_config::{ConfigError, parse as parse_table};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Gamma, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// ReZero: `y = x + gamma * f(x)` with one learned scalar gamma per join, 0 at step 0, and no norm anywhere.
///
/// Source: Bachlechner et al. 2020, arXiv:2003.04887 (the paper's alpha_i); compared with the authors' `rztx.py`.
/// Differs: their encoder layer shares one scalar between its attention and its MLP, here each join has its own, as in
/// the paper's equation; their weights start as PyTorch's layers do, here as the trunk's. Pre-norm is allowed too, which
/// the paper does not use: the difference to `skip_init` with init = 0 is the placement alone.
///
/// Shapes: x and y `[B, N, D]`, gamma `[]`; 2 parameters per block.
///
/// At step 0 every block is exactly the identity, and of a block's parameters only the gammas have a gradient.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReZero {}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "rezero",
    summary: "the branch is scaled by a learned scalar that starts at 0, without norms",
    equation: "y = x + gamma * f(x), gamma [] = 0 at step 0",
    source: "Bachlechner et al. 2020 (ReZero), arXiv:2003.04887",
    example: "kind = \"rezero\"\n",
    parameters: "2",
    keys: reslab_config::keys::<ReZero>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    Ok(Box::new(parse_table::<ReZero>("residual", table)?))
}

impl Strategy for ReZero {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::None, Norm::Pre]
    }

    fn join(&self, scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(ReZeroJoin { gamma: scope.parameter("gamma", &[], Init::Constant(0.0), Group::Gamma)? }))
    }
}

/// The join of [`ReZero`].
#[derive(Debug)]
struct ReZeroJoin {
    gamma: Tensor, // []
}

impl Join for ReZeroJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        branch.call(residual, pass) * &self.gamma
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(residual, pass);
        pass.record_update(|| &output * &self.gamma);
        residual.addcmul(&output, &self.gamma)
    }

    fn gamma(&self) -> Option<Gamma> {
        Some(Gamma { value: self.gamma.shallow_clone(), init: 0.0 })
    }
}
