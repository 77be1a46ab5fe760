//! Fixed scales that depend on the depth.

use reslab_config::{ConfigError, KeyDoc, parse as parse_table, require};
use reslab_torch::{Parameter, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, Join, Norm, OptimScale, Pass, Site, Strategy, StrategyError, Variant};

/// Depth scale: `y = x + c * f(x)` with one constant c for all joins of a network of L blocks, which have 2 L branches.
///
/// | preset | c | learning rate of the blocks | Adam's eps of the blocks |
/// |---|---|---|---|
/// | `inverse_sqrt` | multiplier / sqrt(2 L) | | |
/// | `inverse` | multiplier / (2 L) | | |
/// | `depth_mup` | multiplier / sqrt(2 L) | / sqrt(2 L) | |
/// | `complete_p` | multiplier * m^-alpha | * m^(alpha - 1) | * m^-alpha |
///
/// with m = L / base_depth.
///
/// Sources: 1/sqrt as in Hayou et al. 2021 (Stable ResNet), arXiv:2010.12859; 1/L is the step of a residual network read
/// as an ODE, E 2017; Depth-muP: Yang et al. 2023, arXiv:2310.02244, table 1 (its a is `multiplier`), optimal only for
/// blocks of one layer, as its abstract says; CompleteP: Dey et al. 2025, arXiv:2505.01618, alpha = 1 being the paper's
/// choice; compared with the authors' nanoGPT-mup (branch `completep`), which has no multiplier.
/// Differs: the parts of muP that depend on the width (init, learning rate, decay, attention's 1/d) are not here: widths
/// must be equal where learning rates are to carry over. Decay needs no factor in depth. The factors are those of Adam;
/// under SGD Depth-muP has none, so take `inverse_sqrt` there.
///
/// Shapes: x and y `[B, N, D]`. No parameters.
///
/// At step 0 the update is `c * f(x)`. To begin Depth-muP from a learning rate found at another depth, take `complete_p`
/// with alpha = .5, whose factors are 1 at base_depth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "preset", rename_all = "snake_case", deny_unknown_fields)]
pub enum DepthScale {
    /// 1 / sqrt(2 L).
    InverseSqrt {
        /// A factor on every branch, the same at all depths.
        multiplier: f64,
    },
    /// 1 / (2 L).
    Inverse {
        /// A factor on every branch, the same at all depths.
        multiplier: f64,
    },
    /// 1 / sqrt(2 L), of the learning rate as well.
    DepthMup {
        /// A factor on every branch, the same at all depths.
        multiplier: f64,
    },
    /// (L / base_depth)^-alpha, with factors on learning rate and eps.
    CompleteP {
        /// A factor on every branch, the same at all depths.
        multiplier: f64,
        /// Of `complete_p`: blocks of the network at which all its factors are 1, where the learning rate was found.
        base_depth: usize,
        /// Of `complete_p`: the exponent, from .5 to 1 in the paper.
        alpha: f64,
    },
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "depth_scale",
    summary: "the branch is scaled by a constant that falls with depth, with the optimizer's factors of Depth-muP or CompleteP",
    equation: "y = x + c * f(x), c = multiplier * (2 L)^-1/2, (2 L)^-1 or (L / base_depth)^-alpha for L blocks",
    source: "Hayou et al. 2021, arXiv:2010.12859; Yang et al. 2023 (Depth-muP), arXiv:2310.02244; Dey et al. 2025 (CompleteP), arXiv:2505.01618",
    example: "kind = \"depth_scale\"\npreset = \"complete_p\"\nmultiplier = 1.0\nbase_depth = 2\nalpha = 1.0\n",
    parameters: "0",
    keys,
    parse,
};

/// The keys; the one that picks the preset has no field, and so no doc comment, of its own.
fn keys() -> Vec<KeyDoc> {
    let mut keys = reslab_config::keys::<DepthScale>();
    for key in keys.iter_mut().filter(|key| key.key == "preset") {
        key.meaning = "How the scale falls with depth, and what of the optimizer changes with it.".to_owned();
    }
    keys
}

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: DepthScale = parse_table("residual", table)?;
    let finite = |value: f64, key: &str| require(value.is_finite(), key, || format!("must be finite, but is {value}"));
    finite(config.multiplier(), "residual.multiplier")?;
    if let DepthScale::CompleteP { base_depth, alpha, .. } = config {
        finite(alpha, "residual.alpha")?;
        require(base_depth >= 1, "residual.base_depth", || format!("must be at least 1, but is {base_depth}"))?;
    }
    Ok(Box::new(config))
}

impl DepthScale {
    fn multiplier(&self) -> f64 {
        match *self {
            DepthScale::InverseSqrt { multiplier }
            | DepthScale::Inverse { multiplier }
            | DepthScale::DepthMup { multiplier }
            | DepthScale::CompleteP { multiplier, .. } => multiplier,
        }
    }

    /// The constant c, and the optimizer's factors in the blocks.
    fn factors(&self, depth: usize) -> (f64, OptimScale) {
        let branches = 2.0 * depth as f64;
        let (scale, optim) = match *self {
            DepthScale::InverseSqrt { .. } => (branches.powf(-0.5), OptimScale::ONE),
            DepthScale::Inverse { .. } => (1.0 / branches, OptimScale::ONE),
            DepthScale::DepthMup { .. } => {
                (branches.powf(-0.5), OptimScale { lr: branches.powf(-0.5), ..OptimScale::ONE })
            }
            DepthScale::CompleteP { base_depth, alpha, .. } => {
                let m = depth as f64 / base_depth as f64;
                (m.powf(-alpha), OptimScale { lr: m.powf(alpha - 1.0), eps: m.powf(-alpha), ..OptimScale::ONE })
            }
        };
        (self.multiplier() * scale, optim)
    }
}

impl Strategy for DepthScale {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, _scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(DepthScaleJoin { scale: self.factors(site.depth).0 }))
    }

    fn optim_scale(&self, parameter: &Parameter, depth: usize) -> OptimScale {
        if parameter.name.starts_with("blocks.") { self.factors(depth).1 } else { OptimScale::ONE }
    }
}

/// The join of [`DepthScale`].
#[derive(Debug)]
struct DepthScaleJoin {
    scale: f64,
}

impl Join for DepthScaleJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        branch.call(residual, pass) * self.scale
    }
}
