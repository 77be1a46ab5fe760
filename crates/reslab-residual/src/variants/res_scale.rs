//! ResScale: a learned scale on the residual, and one on the branch.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, DropRule, Gamma, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// ResScale: `y = s * x + gamma * f(x)` with a learned s per channel, and a gamma per channel or none.
///
/// Source: s is of Shleifer et al. 2021 (NormFormer), arXiv:2110.09456 (there for the MLP only); used in every block of
/// the last two stages of Yu et al. 2022 (CAFormer), arXiv:2210.13452, without a gamma; compared with the authors'
/// `MetaFormerBlock` and timm's. Differs: all blocks have it; both scales are told apart in the config.
///
/// Shapes: x and y `[B, N, D]`, s and gamma `[D]`; 4D parameters per block, 2D without gamma.
///
/// At step 0 `y = residual_init * x + init * f(x)`, where an absent gamma counts as 1.
///
/// Drop path masks the branch, not the update: a dropped sample is still scaled by s, as in the authors' code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResScale {
    /// Every s at step 0; any finite number. The papers take 1.
    pub residual_init: f64,
    /// Every gamma at step 0, a finite number, or "none": the branch is added as it is, without a gamma, as in CAFormer.
    pub init: BranchInit,
}

/// The scale of the branch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a number or \"none\"")]
pub enum BranchInit {
    /// Learned, from this number.
    Value(f64),
    /// Absent.
    Absent(Absent),
}

/// The word for no scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Absent {
    /// No scale.
    None,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "res_scale",
    summary: "the residual is scaled by a learned s per channel, the branch by a learned gamma or not at all",
    equation: "y = s * x + gamma * f(x), s [D] = residual_init, gamma [D] = init at step 0",
    source: "Shleifer et al. 2021 (NormFormer), arXiv:2110.09456; Yu et al. 2022 (CAFormer), arXiv:2210.13452",
    example: "kind = \"res_scale\"\nresidual_init = 1.0\ninit = 0.1\n",
    parameters: "4*D",
    keys: reslab_config::keys::<ResScale>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: ResScale = parse_table("residual", table)?;
    let finite = |value: f64, key: &str| require(value.is_finite(), key, || format!("must be finite, but is {value}"));
    finite(config.residual_init, "residual.residual_init")?;
    if let BranchInit::Value(init) = config.init {
        finite(init, "residual.init")?;
    }
    Ok(Box::new(config))
}

impl Strategy for ResScale {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let channels = |name: &str, init, group| scope.parameter(name, &[site.width], Init::Constant(init), group);
        let scale = channels("residual_scale", self.residual_init, Group::NoDecay)?;
        let gamma = match self.init {
            BranchInit::Value(init) => Some((channels("gamma", init, Group::Gamma)?, init)),
            BranchInit::Absent(_) => None,
        };
        Ok(Box::new(ResScaleJoin { scale, gamma }))
    }
}

/// The join of [`ResScale`].
#[derive(Debug)]
struct ResScaleJoin {
    scale: Tensor,                // [D]
    gamma: Option<(Tensor, f64)>, // [D], at step 0
}

impl Join for ResScaleJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.forward(residual, branch, pass) - residual
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(residual, pass);
        let scaled = residual * &self.scale;
        let joined = match &self.gamma {
            Some((gamma, _)) => scaled.addcmul(&output, gamma),
            None => scaled + output,
        };
        pass.record_update(|| &joined - residual);
        joined
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Branch
    }

    fn gamma(&self) -> Option<Gamma> {
        self.gamma.as_ref().map(|(gamma, init)| Gamma { value: gamma.shallow_clone(), init: *init })
    }
}
