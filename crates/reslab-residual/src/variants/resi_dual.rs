//! ResiDual: a post-norm stream that branches read, and a pre-norm sum beside it.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Branch, DropRule, Join, LayerNorm, NORM_EPS, Norm, Pass, Site, Strategy, StrategyError, Stream, Variant};

/// ResiDual: two streams that start as the embedding, `p' = LN(p + f(p))` and `d' = d + f(p)`; the network's output is
/// `alpha * p + LN(d)`, and no other norm follows.
///
/// Source: Xie et al. 2023 (ResiDual), arXiv:2304.14802, section 3; compared with the authors' microsoft/ResiDual,
/// `resi_dual.py` and `resi_dual_layers.py`, where alpha is `enc_alpha`. Differs: the authors' factor against overflow
/// in half precision, on all that enters d, is left out (LN(d) does not see it).
///
/// Shapes: p and d `[B, N, D]`, side by side in a stream `[B, N, 2 D]`; weight and bias of each join's norm `[D]`, so
/// 4 D parameters per block, and 2 D for the last norm. The norms are the strategy's own, so the model's placement is
/// `none`.
///
/// At step 0 p is a post-norm network and d the sum of all its branches, in which none is damped by later norms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResiDual {
    /// Factor on the post-norm stream in the output. The paper's is 1; 0: only the sum of the branches goes out.
    pub alpha: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "resi_dual",
    summary: "a post-norm stream that the branches read, and a pre-norm sum of them; both go out",
    equation: "p' = LN(p + f(p)), d' = d + f(p); output = alpha * p + LN(d)",
    source: "Xie et al. 2023 (ResiDual), arXiv:2304.14802, section 3; microsoft/ResiDual",
    example: "kind = \"resi_dual\"\nalpha = 1.0\n",
    parameters: "4*D",
    keys: reslab_config::keys::<ResiDual>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: ResiDual = parse_table("residual", table)?;
    require(config.alpha.is_finite(), "residual.alpha", || format!("must be finite, but is {}", config.alpha))?;
    Ok(Box::new(config))
}

impl Strategy for ResiDual {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let norm = LayerNorm::new(&scope.child("norm"), site.width, NORM_EPS)?;
        Ok(Box::new(ResiDualJoin { norm }))
    }

    fn stream(&self, scope: &Scope, width: i64) -> Result<Box<dyn Stream>, StrategyError> {
        let norm = LayerNorm::new(&scope.child("norm"), width, NORM_EPS)?;
        Ok(Box::new(DualStream { norm, alpha: self.alpha, width }))
    }
}

/// The post-norm stream and the sum, `[B, N, D]` each.
fn halves(stream: &Tensor) -> [Tensor; 2] {
    let mut parts = stream.chunk(2, -1).into_iter();
    [(); 2].map(|()| parts.next().expect("two streams stand side by side"))
}

/// The join of [`ResiDual`].
#[derive(Debug)]
struct ResiDualJoin {
    norm: LayerNorm,
}

impl Join for ResiDualJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.forward(residual, branch, pass) - residual
    }

    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let [post, sum] = halves(residual);
        let output = branch.call(&post, pass);
        let joined = Tensor::cat(&[self.norm.forward(&(post + &output)), sum + output], -1);
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

/// Two streams of the network's width.
#[derive(Debug)]
struct DualStream {
    norm: LayerNorm,
    alpha: f64,
    width: i64,
}

impl Stream for DualStream {
    fn width(&self) -> i64 {
        2 * self.width
    }

    fn open(&self, x: &Tensor, _pass: &mut Pass) -> Tensor {
        Tensor::cat(&[x, x], -1)
    }

    fn close(&self, stream: &Tensor, _pass: &mut Pass) -> Tensor {
        let [post, sum] = halves(stream);
        post * self.alpha + self.norm.forward(&sum)
    }
}
