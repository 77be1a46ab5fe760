//! Keel: post-norm with a highway as strong as the network is deep.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, DropRule, Join, LayerNorm, NORM_EPS, Norm, Pass, Site, Strategy, StrategyError, Variant};

/// Keel: `y = LN(alpha * x + f(LN(x)))` with `alpha = (2 L)^alpha_exponent`, 2 L the number of branches of L blocks;
/// the first branch of the network is a plain pre-norm one, `y = x + f(LN(x))`.
///
/// Source: Chen and Wei 2026 (Keel), arXiv:2601.19895; compared with vit-pytorch's `vit_with_keel_post_ln.py`, which is
/// not by the authors. As there, no other norm follows the last block's. Differs: the norms have biases.
///
/// Shapes: x and y `[B, N, D]`; each join has two norms, the network's first one only: 8 D parameters per block, 2 D
/// less in the first. The norms are the strategy's own, so the model's placement is `none`; against `pre` it has 4 D
/// more.
///
/// At step 0 a branch adds about 1 / alpha of its size to a stream of unit variance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keel {
    /// alpha = (2 * depth) ^ alpha_exponent. The paper's is 1; 0: alpha is 1.
    pub alpha_exponent: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "keel",
    summary: "post-norm behind a pre-normed branch; the residual is scaled by the number of branches",
    equation: "y = LN(alpha * x + f(LN(x))), alpha = 2 L; the network's first join is x + f(LN(x))",
    source: "Chen and Wei 2026 (Keel), arXiv:2601.19895; vit-pytorch's vit_with_keel_post_ln.py",
    example: "kind = \"keel\"\nalpha_exponent = 1.0\n",
    parameters: "8*D",
    keys: reslab_config::keys::<Keel>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: Keel = parse_table("residual", table)?;
    require(config.alpha_exponent.is_finite(), "residual.alpha_exponent", || {
        format!("must be finite, but is {}", config.alpha_exponent)
    })?;
    Ok(Box::new(config))
}

impl Strategy for Keel {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let norm = |name: &str| LayerNorm::new(&scope.child(name), site.width, NORM_EPS);
        Ok(Box::new(KeelJoin {
            norm: norm("norm")?,
            post_norm: (site.index() > 0).then(|| norm("post_norm")).transpose()?,
            alpha: (2.0 * site.depth as f64).powf(self.alpha_exponent),
        }))
    }
}

/// The join of [`Keel`].
#[derive(Debug)]
struct KeelJoin {
    norm: LayerNorm,
    post_norm: Option<LayerNorm>, // on the sum; absent at the network's first join
    alpha: f64,
}

impl Join for KeelJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.forward(residual, branch, pass) - residual
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(&self.norm.forward(residual), pass);
        let joined = match &self.post_norm {
            Some(norm) => norm.forward(&(residual * self.alpha + output)),
            None => residual + output,
        };
        pass.record_update(|| &joined - residual);
        joined
    }

    fn drop_rule(&self) -> DropRule {
        DropRule::Refused(
            "its norm acts on the sum, so a sample whose branch is dropped would still be changed, and scaling by \
             1/keep_prob does not keep the mean",
        )
    }
}
