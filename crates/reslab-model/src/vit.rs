//! The vision transformer, read from top to bottom.
//!
//! Shapes: B batch, C channels, N tokens, D width, S width of the stream.

use reslab_residual::{LINEAR_STD, Network, Norm, Pass, Strategy, Stream, Weight};
use reslab_torch::{Init, Parameter, Scope};
use tch::Tensor;

use crate::block::{Block, Plan};
use crate::embed::Embedding;
use crate::layers::{LayerNorm, Linear};
use crate::{InputShape, ModelConfig, ModelError, Pool};

/// A vision transformer. With plain pre-norm joins it is timm's `VisionTransformer`, number for number.
///
/// The final norm stands where the blocks leave the stream without one (`pre`, `both`); under `post` the last block's
/// own norm is the final one, and under `none` there is none. It acts on the pooled token, which for a class token is
/// the same as timm's norm of all tokens, and for mean pooling is timm's `fc_norm`.
#[derive(Debug)]
pub struct Vit {
    embedding: Embedding,
    stream: Box<dyn Stream>,
    blocks: Vec<Block>,
    norm: Option<LayerNorm>,
    head: Linear,
    pool: Pool,
    strategy: Box<dyn Strategy>,
    parameters: Vec<Parameter>,
}

impl Vit {
    /// Builds the network and registers its parameters under `scope`. On [`Scope::counting`] it costs no memory: its
    /// parameters can then be counted.
    ///
    /// # Errors
    /// When the config does not fit the input or the strategy, or a name is taken.
    pub fn new(
        scope: &Scope,
        config: &ModelConfig,
        strategy: &dyn Strategy,
        input: InputShape,
    ) -> Result<Vit, ModelError> {
        config.check_input(input)?;
        let norm = config.placement(strategy)?;
        let embedding = Embedding::new(scope, config, strategy, input)?;
        let stream = strategy.stream(&scope.child("stream"), config.width)?;
        let plan = Plan { config, strategy, norm, stream: stream.width() };
        let blocks_scope = scope.child("blocks");
        let blocks =
            (0..config.depth).map(|block| Block::new(&blocks_scope, &plan, block)).collect::<Result<_, _>>()?;
        let norm = matches!(norm, Norm::Pre | Norm::Both)
            .then(|| LayerNorm::new(&scope.child("norm"), config.width, config.norm_eps))
            .transpose()?;
        let init = Init::TruncNormal { std: LINEAR_STD, gain: strategy.init_gain(Weight::Head) };
        let shape = [input.classes, config.width];
        let head = Linear::with(&scope.child("head"), &shape, init, Some(Init::Constant(0.0)))?;
        let (strategy, parameters) = (strategy.clone_box(), scope.parameters());
        Ok(Vit { embedding, stream, blocks, norm, head, pool: config.pool, strategy, parameters })
    }

    /// images: [B, C, height, width] -> logits [B, classes]
    pub fn forward(&self, images: &Tensor, pass: &mut Pass) -> Tensor {
        let x = self.embedding.forward(images); // [B, N, D]
        let mut residual = self.stream.open(&x, pass); // [B, N, S]
        for block in &self.blocks {
            residual = block.forward(&residual, pass);
            pass.record_block(&residual);
        }
        let x = self.stream.close(&residual, pass); // [B, N, D]
        let pooled = match self.pool {
            Pool::Class => x.select(1, 0),
            Pool::Mean => x.mean_dim([1i64].as_slice(), false, None),
        }; // [B, D]
        let pooled = match &self.norm {
            Some(norm) => norm.forward(&pooled),
            None => pooled,
        };
        self.head.forward(&pooled)
    }

    /// Lets the strategy calibrate itself before step 0 with one batch of images `[B, C, height, width]`.
    ///
    /// # Errors
    /// When what it measures can't be used.
    pub fn calibrate(&self, images: &Tensor) -> Result<(), ModelError> {
        let batch = WithBatch { vit: self, images };
        Ok(tch::no_grad(|| self.strategy.calibrate(&batch, &self.parameters))?)
    }

    /// Lets the strategy bring the weights back to where it wants them, after every optimizer step.
    pub fn constrain(&self) {
        tch::no_grad(|| self.strategy.constrain(&self.parameters));
    }
}

/// A network with a batch at hand.
struct WithBatch<'a> {
    vit: &'a Vit,
    images: &'a Tensor,
}

impl Network for WithBatch<'_> {
    fn run(&self, pass: &mut Pass) {
        let _ = self.vit.forward(self.images, pass);
    }
}
