//! Admin: post-norm whose residual is scaled by what a first pass measures.

use reslab_config::{ConfigError, parse as parse_table};
use reslab_torch::{Group, Init, Parameter, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::{Branch, DropRule, Join, Network, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// What the next join of a profiling pass takes as its omega, `[]`. It is there in that pass alone.
const PROFILE: &str = "admin.profile";

/// Admin: `y = LN(omega * x + f(x))` with a learned omega per channel (placement `post`). Before step 0 one pass of one
/// batch sets each join's omega in network order: 1 at the first, then `sqrt(Var[omega * x] + Var[f(x)])` of the join
/// before, with variances over batch, tokens and channels. Since LN leaves x with variance 1, that is
/// `omega_i^2 = Var[embedding] + sum over j < i of Var[f_j]`.
///
/// Source: Liu et al. 2020 (Admin), arXiv:2004.08249, section 4; compared with the authors' Transformer-Clinic,
/// `fairseq/modules/transformer_layer.py` under `adaptive-profiling`. As there, omegas act within the pass that sets
/// them, where the paper profiles with all at 1. Differs: the authors profile in training mode and write omegas to a
/// file for a second start; here the pass is one of evaluation, and omegas are parameters that checkpoints hold.
///
/// Shapes: x and y `[B, N, D]`; omega `[D]`; 2 D parameters per block.
///
/// At step 0 the sum is `omega * x + f(x)` with an omega that grows with depth: each branch gets its share as in a
/// pre-norm network. Until it is calibrated omega is 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Admin {}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "admin",
    summary: "post-norm; the residual's scale is learned and starts from a measurement of the branches",
    equation: "y = LN(omega * x + f(x)), omega_i = sqrt(Var[embedding] + sum over j < i of Var[f_j]) at step 0",
    source: "Liu et al. 2020 (Admin), arXiv:2004.08249, section 4; Transformer-Clinic's transformer_layer.py",
    example: "kind = \"admin\"\n",
    parameters: "2*D",
    keys: reslab_config::keys::<Admin>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    Ok(Box::new(parse_table::<Admin>("residual", table)?))
}

impl Strategy for Admin {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Post]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let omega = scope.parameter("omega", &[site.width], Init::Constant(1.0), Group::NoDecay)?;
        Ok(Box::new(AdminJoin { omega }))
    }

    fn uses_memory(&self) -> bool {
        true
    }

    fn calibrate(&self, network: &dyn Network, parameters: &[Parameter]) -> Result<(), StrategyError> {
        if let Some(first) = parameters.first() {
            let mut pass = Pass::eval();
            pass.remember(PROFILE, Tensor::ones([], (Kind::Float, first.tensor.device())));
            network.run(&mut pass);
        }
        Ok(())
    }
}

/// The join of [`Admin`]; its norm is the block's.
#[derive(Debug)]
struct AdminJoin {
    omega: Tensor, // [D]
}

impl AdminJoin {
    /// In a profiling pass: takes the omega of the pass, and leaves the next join's.
    fn profile(&self, residual: &Tensor, output: &Tensor, pass: &mut Pass) {
        if let Some(omega) = pass.recall(PROFILE) {
            self.omega.shallow_clone().copy_(omega);
            // Autocast's bfloat16 would round away a late branch's part of the sum.
            let variance = |x: &Tensor| x.to_kind(residual.kind()).var(false);
            let next = (variance(&(residual * &self.omega)) + variance(output)).sqrt();
            pass.remember(PROFILE, next);
        }
    }
}

impl Join for AdminJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        residual * (&self.omega - 1.0) + branch.call(residual, pass)
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(residual, pass);
        self.profile(residual, &output, pass);
        pass.record_update(|| residual * (&self.omega - 1.0) + &output);
        output.to_kind(residual.kind()).addcmul(residual, &self.omega)
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Branch
    }
}
