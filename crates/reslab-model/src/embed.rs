//! From images to tokens.
//!
//! Shapes: B batch, C channels, P side of a patch, N tokens, D width.

use reslab_residual::{LINEAR_STD, Strategy, Weight};
use reslab_torch::{Group, Init, Scope, ScopeError};
use tch::Tensor;

use crate::layers::Linear;
use crate::{InputShape, ModelConfig, Pool};

/// Patches, class token, positions.
#[derive(Debug)]
pub(crate) struct Embedding {
    patches: Linear,             // C * P * P -> D
    position: Tensor,            // [1, N, D]
    class_token: Option<Tensor>, // [1, 1, D]
    size: i64,
}

impl Embedding {
    pub fn new(
        scope: &Scope,
        config: &ModelConfig,
        strategy: &dyn Strategy,
        input: InputShape,
    ) -> Result<Embedding, ScopeError> {
        let (width, size) = (config.width, config.patch_size);
        let fan_in = input.channels * size * size;
        // timm leaves this layer at Conv2d's default: uniform +-1/sqrt(fan_in), weight and bias.
        let bound = 1.0 / (fan_in as f64).sqrt();
        let gain = strategy.init_gain(Weight::Embedding { depth: config.depth });
        let (weight, bias) = (Init::Uniform { bound, gain }, Init::Uniform { bound, gain: 1.0 });
        let patches = Linear::with(&scope.child("patch_embed"), &[width, fan_in], weight, Some(bias))?;
        let class_token = match config.pool {
            Pool::Class => {
                let init = Init::TruncNormal { std: 1e-6, gain: 1.0 };
                Some(scope.parameter("class_token", &[1, 1, width], init, Group::NoDecay)?)
            }
            Pool::Mean => None,
        };
        let init = Init::TruncNormal { std: LINEAR_STD, gain: 1.0 };
        let position = scope.parameter("position", &[1, config.tokens(input), width], init, Group::NoDecay)?;
        Ok(Embedding { patches, position, class_token, size })
    }

    /// images: [B, C, height, width] -> [B, N, D]
    pub fn forward(&self, images: &Tensor) -> Tensor {
        let (b, c, height, width) = images.size4().expect("images are [B, C, height, width]");
        let (p, rows, columns) = (self.size, height / self.size, width / self.size);
        // A convolution whose stride is its size reads every pixel once: as a matrix product it is several times as
        // fast on a CPU.
        let patches = images
            .view([b, c, rows, p, columns, p])
            .permute([0, 2, 4, 1, 3, 5]) // [B, rows, columns, C, P, P]
            .reshape([b, rows * columns, c * p * p]);
        let tokens = self.patches.forward(&patches);
        let tokens = match &self.class_token {
            Some(class) => Tensor::cat(&[class.expand([b, -1, -1], false), tokens], 1),
            None => tokens,
        };
        tokens + &self.position
    }
}
