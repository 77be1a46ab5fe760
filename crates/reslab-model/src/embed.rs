//! From images to tokens.
//!
//! Shapes: B batch, C channels, P side of a patch, R registers, N tokens, D width.

use reslab_residual::{LINEAR_STD, Strategy, Weight};
use reslab_torch::{Group, Init, Scope, ScopeError};
use tch::Tensor;

use crate::layers::{LayerNorm, Linear};
use crate::{InputShape, ModelConfig, Position};

/// Patches, class token, positions, registers, norm. Tokens stand in the order class, registers, patches.
#[derive(Debug)]
pub(crate) struct Embedding {
    patches: Linear,             // C * P * P -> D
    class_token: Option<Tensor>, // [1, 1, D]
    position: Option<Tensor>,    // [1, N without registers, D]; of the patches alone: [1, patches, D]
    registers: Option<Tensor>,   // [1, R, D], without position
    norm: Option<LayerNorm>,
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
        let gain = strategy.init_gain(Weight::Embedding { depth: config.blocks() });
        let normed = config.pre_norm == Some(true);
        let (weight, bias) = (Init::Uniform { bound, gain }, Init::Uniform { bound, gain: 1.0 });
        let bias = (!normed).then_some(bias);
        let patches = Linear::with(&scope.child("patch_embed"), &[width, fan_in], weight, bias)?;
        let tokens = |name: &str, count: i64, std: f64| {
            let init = Init::TruncNormal { std, gain: 1.0 };
            (count > 0).then(|| scope.parameter(name, &[1, count, width], init, Group::NoDecay)).transpose()
        };
        let class_token = tokens("class_token", i64::from(config.has_class_token()), 1e-6)?;
        let [rows, columns] = config.grid(input);
        let positions = match config.position() {
            Position::All => config.tokens(input) - config.registers(),
            Position::Patches => rows * columns,
            Position::Rope | Position::None => 0,
        };
        Ok(Embedding {
            patches,
            class_token,
            position: tokens("position", positions, LINEAR_STD)?,
            registers: tokens("registers", config.registers(), 1e-6)?,
            norm: normed.then(|| LayerNorm::new(&scope.child("embed_norm"), width, config.norm_eps)).transpose()?,
            size,
        })
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
        let tokens = self.with_registers(self.with_position(tokens));
        match &self.norm {
            Some(norm) => norm.forward(&tokens),
            None => tokens,
        }
    }

    /// The patches' projection, [D, C * P * P].
    pub fn weight(&self) -> &Tensor {
        self.patches.weight()
    }

    /// patches: [B, patches, D] -> class token and patches with their positions
    fn with_position(&self, patches: Tensor) -> Tensor {
        let (batch, count) = (patches.size()[0], patches.size()[1]);
        let with_class = |patches: Tensor| match &self.class_token {
            Some(class) => Tensor::cat(&[class.expand([batch, -1, -1], false), patches], 1),
            None => patches,
        };
        match &self.position {
            Some(position) if position.size()[1] == count => with_class(patches + position),
            Some(position) => with_class(patches) + position,
            // Autocast gives patches of lower precision, which a position would widen; the stream keeps all bits.
            None => with_class(patches.to_kind(self.weight().kind())),
        }
    }

    /// [B, N - R, D] -> [B, N, D]
    fn with_registers(&self, tokens: Tensor) -> Tensor {
        let Some(registers) = &self.registers else { return tokens };
        let (batch, count) = (tokens.size()[0], tokens.size()[1]);
        let class = i64::from(self.class_token.is_some());
        let registers = registers.expand([batch, -1, -1], false);
        Tensor::cat(&[tokens.narrow(1, 0, class), registers, tokens.narrow(1, class, count - class)], 1)
    }
}
