//! LAuReL: learned weights on branch and residual, and a low-rank map of the residual.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::{Branch, DropRule, Gamma, Join, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// LAuReL: `y = alpha f(x) + beta (x + B A x)`, with learned scalars alpha and beta (RW) and a map of low rank (LR).
///
/// Source: Menghani et al. 2024, arXiv:2411.07501, eq. (5); rank 0 leaves out B A x, which is LAuReL-RW of section 2.1.
/// A starts as in its footnote 2, `A_ij = 1 / sqrt(r D)` where `j mod r = i`, else 0, and B as 0. The paper found that alpha
/// and beta must not grow without bound and that "softmax or sigmoid helps", but not how it is scaled: `softmax` here is
/// `(alpha, beta) = 2 softmax(l)`, so that their sum stays 2 and l = 0 is the plain join. Differs: that choice, and no
/// previous activations (PA).
///
/// Shapes: x and y `[B, N, D]`; A `[r, D]`, B `[D, r]`; `free`: alpha `[]`, registered as `gamma`, and beta `[]`; `softmax`: l
/// `[2]`.
///
/// At step 0 alpha = beta = 1 and B = 0: `y = x + f(x)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Laurel {
    /// Rank r of the residual's map. 0: no map (RW alone). The paper takes 4, 16 and 64.
    pub rank: i64,
    /// Whether alpha and beta are free, or bound to a sum of 2.
    pub weights: Weights,
}

/// What alpha and beta are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    /// Two parameters.
    Free,
    /// Twice the softmax of two parameters.
    Softmax,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "laurel",
    summary: "branch and residual are weighted, and a low-rank map of the residual is added",
    equation: "y = alpha f(x) + beta (x + B A x); at step 0 alpha = beta = 1, B = 0",
    source: "Menghani et al. 2024 (LAuReL), arXiv:2411.07501, eq. (5), section 2.1 and footnote 2",
    example: "kind = \"laurel\"\nrank = 4\nweights = \"free\"\n",
    parameters: "2*2*4*D + 4",
    keys: reslab_config::keys::<Laurel>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: Laurel = parse_table("residual", table)?;
    require(config.rank >= 0, "residual.rank", || format!("must be at least 0, but is {}", config.rank))?;
    Ok(Box::new(config))
}

impl Strategy for Laurel {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let (r, d) = (self.rank, site.width);
        let one = |name: &str, group| scope.parameter(name, &[], Init::Constant(1.0), group);
        let scales = match self.weights {
            Weights::Free => Scales::Free { alpha: one("gamma", Group::Gamma)?, beta: one("beta", Group::NoDecay)? },
            Weights::Softmax => {
                Scales::Softmax(scope.parameter("weights", &[2], Init::Constant(0.0), Group::NoDecay)?)
            }
        };
        let map = if r == 0 {
            None
        } else {
            let size = 1.0 / ((r * d) as f64).sqrt();
            let a = (0..r).flat_map(|i| (0..d).map(move |j| if j % r == i { size } else { 0.0 })).collect();
            let a = scope.parameter("a", &[r, d], Init::Values(a), Group::Decay)?;
            Some([a, scope.parameter("b", &[d, r], Init::Constant(0.0), Group::Decay)?])
        };
        Ok(Box::new(LaurelJoin { scales, map }))
    }
}

#[derive(Debug)]
enum Scales {
    Free { alpha: Tensor, beta: Tensor }, // []
    Softmax(Tensor),                      // [2]
}

/// The join of [`Laurel`].
#[derive(Debug)]
struct LaurelJoin {
    scales: Scales,
    map: Option<[Tensor; 2]>, // A [r, D], B [D, r]
}

impl Join for LaurelJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.forward(residual, branch, pass) - residual
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let (alpha, beta) = match &self.scales {
            Scales::Free { alpha, beta } => (alpha.shallow_clone(), beta.shallow_clone()),
            Scales::Softmax(logits) => {
                let weights = logits.softmax(0, None::<Kind>) * 2.0;
                (weights.get(0), weights.get(1))
            }
        };
        let kept = match &self.map {
            Some([a, b]) => residual + residual.linear(a, None::<Tensor>).linear(b, None::<Tensor>),
            None => residual.shallow_clone(),
        };
        (kept * beta).addcmul(&branch.call(residual, pass), &alpha)
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Branch
    }

    fn gamma(&self) -> Option<Gamma> {
        match &self.scales {
            Scales::Free { alpha, .. } => Some(Gamma { value: alpha.shallow_clone(), init: 1.0 }),
            Scales::Softmax(_) => None,
        }
    }
}
