//! Res-post-norm (Swin v2): a norm on each branch's output, none before it.

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Init, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{
    Branch, Gamma, Join, LayerNorm, NORM_EPS, Norm, Pass, Site, Strategy, StrategyError, Stream, Variant, normalize,
};

/// Res-post-norm: `y = x + gamma * LN(f(x)) + bias`, the affine norm of the branch's output; no norm before the branch,
/// and an LN behind the last block.
///
/// Source: Liu et al. 2021 (Swin Transformer V2), arXiv:2111.09883, section 3.2; compared with timm's `ResPostBlock`
/// (vision_transformer.py), which has `init` as `init_values`, and with Swin's own code, which sets it to 0. Differs:
/// the last norm acts on all tokens before they are pooled, as in Swin; timm's ViT norms the mean of them.
///
/// Shapes: x and y `[B, N, D]`; gamma and bias `[D]`; 4 D parameters per block, and 2 D for the last norm. The norms
/// are the strategy's own, so the model's placement is `none`.
///
/// At step 0 every update has size `init`, whatever the weights; with 0 each block is the identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResPostNorm {
    /// The norms' weights at step 0; any finite number. Swin V2 takes 0, an ordinary norm 1.
    pub init: f64,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "res_post_norm",
    summary: "a norm on each branch's output and none before it (Swin V2)",
    equation: "y = x + gamma * LN(f(x)) + bias, gamma [D] = init at step 0",
    source: "Liu et al. 2021 (Swin Transformer V2), arXiv:2111.09883, section 3.2; timm's ResPostBlock",
    example: "kind = \"res_post_norm\"\ninit = 0.1\n",
    parameters: "4*D",
    keys: reslab_config::keys::<ResPostNorm>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: ResPostNorm = parse_table("residual", table)?;
    require(config.init.is_finite(), "residual.init", || format!("must be finite, but is {}", config.init))?;
    Ok(Box::new(config))
}

impl Strategy for ResPostNorm {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::None]
    }

    fn join(&self, scope: &Scope, site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(ResPostNormJoin {
            gamma: scope.parameter("gamma", &[site.width], Init::Constant(self.init), Group::Gamma)?,
            bias: scope.parameter("bias", &[site.width], Init::Constant(0.0), Group::NoDecay)?,
            init: self.init,
        }))
    }

    fn stream(&self, scope: &Scope, width: i64) -> Result<Box<dyn Stream>, StrategyError> {
        Ok(Box::new(LastNorm { norm: LayerNorm::new(&scope.child("norm"), width, NORM_EPS)?, width }))
    }
}

/// The join of [`ResPostNorm`].
#[derive(Debug)]
struct ResPostNormJoin {
    gamma: Tensor, // [D]
    bias: Tensor,  // [D]
    init: f64,
}

impl Join for ResPostNormJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.bias.addcmul(&normalize(&branch.call(residual, pass)), &self.gamma)
    }

    fn gamma(&self) -> Option<Gamma> {
        Some(Gamma { value: self.gamma.shallow_clone(), init: self.init })
    }
}

/// One stream that ends with a norm.
#[derive(Debug)]
struct LastNorm {
    norm: LayerNorm,
    width: i64,
}

impl Stream for LastNorm {
    fn width(&self) -> i64 {
        self.width
    }

    fn open(&self, x: &Tensor, _pass: &mut Pass) -> Tensor {
        x.shallow_clone()
    }

    fn close(&self, stream: &Tensor, _pass: &mut Pass) -> Tensor {
        self.norm.forward(stream)
    }
}
