//! The vision transformer, read from top to bottom.
//!
//! Shapes: B batch, C channels, N tokens, D width, S width of the stream, F features.

use reslab_config::require;
use reslab_residual::{LINEAR_STD, Network, Norm, Pass, Strategy, Stream, Weight};
use reslab_torch::{Init, Parameter, Scope};
use tch::Tensor;

use crate::block::{Block, Plan};
use crate::class_stage::ClassStage;
use crate::embed::Embedding;
use crate::layers::{LayerNorm, Linear};
use crate::rope::Rope;
use crate::{InputShape, ModelConfig, ModelError, Pool};

/// A vision transformer. With plain pre-norm joins it is timm's `VisionTransformer`, number for number; by the keys of
/// its table also DINOv2, DINOv3, DeiT-III and CaiT.
///
/// The final norm stands where the blocks leave the stream without one (`pre`, `both`); under `post` the last block's
/// own norm is the final one, and under `none` there is none. It acts on the pooled token, which for a class token is
/// the same as timm's norm of all tokens, and for mean pooling is timm's `fc_norm`; for both side by side, on all tokens.
#[derive(Debug)]
pub struct Vit {
    embedding: Embedding,
    stream: Box<dyn Stream>,
    blocks: Vec<Block>,
    class_stage: Option<ClassStage>,
    norm: Option<LayerNorm>,
    head: Linear,
    strategy: Box<dyn Strategy>,
    config: ModelConfig,
    input: InputShape,
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
        config.check_strategy(strategy)?;
        let norm = config.placement(strategy)?;
        let embedding = Embedding::new(scope, config, strategy, input)?;
        let stream = strategy.stream(&scope.child("stream"), config.width)?;
        let rope = config.rope_base.map(|base| Rope::new(config, base, input, embedding.weight()));
        let plan = Plan { config, strategy, norm, stream: stream.width(), rope };
        let blocks_scope = scope.child("blocks");
        let blocks =
            (0..config.depth).map(|block| Block::new(&blocks_scope, &plan, block)).collect::<Result<_, _>>()?;
        require(config.class_depth.is_none() || plan.stream == config.width, "model.kind", || {
            "must not be \"cait\" with this strategy: it has several streams, and CaiT's class token enters behind the \
             blocks that made them differ"
                .to_owned()
        })?;
        let class_stage = config.class_depth.map(|depth| ClassStage::new(scope, &plan, depth)).transpose()?;
        let norm = matches!(norm, Norm::Pre | Norm::Both)
            .then(|| LayerNorm::new(&scope.child("norm"), config.width, config.norm_eps))
            .transpose()?;
        let init = Init::TruncNormal { std: LINEAR_STD, gain: strategy.init_gain(Weight::Head) };
        let shape = [input.classes, config.features()];
        let head = Linear::with(&scope.child("head"), &shape, init, Some(Init::Constant(0.0)))?;
        let (strategy, parameters, config) = (strategy.clone_box(), scope.parameters(), config.clone());
        Ok(Vit { embedding, stream, blocks, class_stage, norm, head, strategy, config, input, parameters })
    }

    /// The table that it was built from.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The images that it was built for.
    pub fn input(&self) -> InputShape {
        self.input
    }

    /// Its parameters, in the order of registration.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// images: [B, C, height, width] -> logits [B, classes]
    pub fn forward(&self, images: &Tensor, pass: &mut Pass) -> Tensor {
        self.head.forward(&self.features(images, pass))
    }

    /// What the classifier reads; F is D, or 2 D where it reads class token and mean.
    ///
    /// images: [B, C, height, width] -> [B, F]
    pub fn features(&self, images: &Tensor, pass: &mut Pass) -> Tensor {
        let x = self.trunk(images, pass);
        match self.config.pool {
            Pool::Class => self.normed(&x.select(1, 0)),
            Pool::Mean => self.normed(&self.mean(&x)),
            Pool::ClassMean => {
                let x = self.normed(&x);
                Tensor::cat(&[x.select(1, 0), self.mean(&x)], -1)
            }
        }
    }

    /// All tokens behind the final norm, in the order class, registers, patches.
    ///
    /// images: [B, C, height, width] -> [B, N, D]
    pub fn tokens(&self, images: &Tensor, pass: &mut Pass) -> Tensor {
        self.normed(&self.trunk(images, pass))
    }

    /// images: [B, C, height, width] -> tokens before the final norm, [B, N, D]
    fn trunk(&self, images: &Tensor, pass: &mut Pass) -> Tensor {
        let x = self.embedding.forward(images); // [B, N, D]
        let mut residual = self.stream.open(&x, pass); // [B, N, S]
        for block in &self.blocks {
            residual = block.forward(&residual, pass);
            pass.record_block(&residual);
        }
        if let Some(stage) = &self.class_stage {
            residual = stage.forward(&residual, &*self.stream, pass); // [B, 1 + N, D]
        }
        self.stream.close(&residual, pass) // [B, N, D]
    }

    /// The mean over the patches. x: [B, N, D] -> [B, D]
    fn mean(&self, x: &Tensor) -> Tensor {
        let prefix = self.config.prefix() + i64::from(self.class_stage.is_some());
        x.narrow(1, prefix, x.size()[1] - prefix).mean_dim([1i64].as_slice(), false, None)
    }

    fn normed(&self, x: &Tensor) -> Tensor {
        match &self.norm {
            Some(norm) => norm.forward(x),
            None => x.shallow_clone(),
        }
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
