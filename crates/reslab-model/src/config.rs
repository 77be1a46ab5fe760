//! The table `[model]`, checked.

use reslab_config::{ConfigError, parse, require};
use reslab_residual::{BranchKind, Norm, Site, Strategy, require_norm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::{MlpKind, ModelKind, NormPlacement, Pool, Position, QkvBias};

/// Blocks, at the most.
const MAX_DEPTH: usize = 10_000;
/// Channels, at the most.
const MAX_WIDTH: i64 = 1 << 16;
/// Registers, at the most.
const MAX_REGISTERS: i64 = 4096;

/// The table `[model]`: the network's shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The family of networks.
    pub kind: ModelKind,
    /// Number of blocks, each of one attention and one MLP.
    pub depth: usize,
    /// Width D of the residual stream, in channels; a multiple of `num_heads`.
    pub width: i64,
    /// Number of attention heads.
    pub num_heads: i64,
    /// Side of a patch in pixels; it divides the image's height and width.
    pub patch_size: i64,
    /// Hidden width of the MLP as a multiple of `width`, rounded down to whole channels.
    pub mlp_ratio: f64,
    /// Whether the projection to queries, keys and values has a bias; `"no_key"`: on queries and values only (DINOv3).
    pub qkv_bias: QkvBias,
    /// What the classifier reads: a class token, the mean over the patches' tokens, or both side by side.
    pub pool: Pool,
    /// Added to the variance in every LayerNorm. ViT, CaiT and DINOv2 take 1e-6, DINOv3 1e-5.
    pub norm_eps: f64,
    /// Where the blocks' norms stand; `strategy`: where the strategy wants them.
    pub norm: NormPlacement,
    /// Number of registers: learned tokens without position between class token and patches. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<i64>,
    /// What tells where a patch was: a learned vector for class token and patches (`all`, the same as absent), for the
    /// patches only, a rotary embedding, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Base b of the periods b^(4 k / E), E channels per head, of `position = "rope"`, which needs it. DINOv3 takes 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rope_base: Option<f64>,
    /// Whether a norm stands behind the embeddings; the patches' projection then has no bias, as in timm. Absent: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_norm: Option<bool>,
    /// The MLP's kind; `swiglu` has a third matrix, `gate`. Absent: `gelu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mlp: Option<MlpKind>,
    /// Whether there is a class token. Absent: unless `pool` is `mean`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_token: Option<bool>,
    /// Number of blocks in which CaiT's class token reads the patches, behind the others; `kind = "cait"` needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_depth: Option<usize>,
}

/// What goes into the network and how many classes come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputShape {
    /// Channels of an image.
    pub channels: i64,
    /// Its height in pixels.
    pub height: i64,
    /// Its width in pixels.
    pub width: i64,
    /// Number of classes.
    pub classes: i64,
}

impl ModelConfig {
    /// Parses the table `[model]` and checks what can be checked without knowing the images.
    ///
    /// # Errors
    /// Names the key.
    pub fn parse(table: &toml::Table) -> Result<ModelConfig, ConfigError> {
        let config: ModelConfig = parse("model", table)?;
        let at_least_one =
            |value: i64, key: &str| require(value >= 1, key, || format!("must be at least 1, but is {value}"));
        at_least_one(config.depth as i64, "model.depth")?;
        at_least_one(config.width, "model.width")?;
        at_least_one(config.num_heads, "model.num_heads")?;
        at_least_one(config.patch_size, "model.patch_size")?;
        // Far above any network that could be trained: a slip of the keyboard ends here, and not in hours of planning.
        require(config.depth <= MAX_DEPTH, "model.depth", || {
            format!("must be at most {MAX_DEPTH}, but is {}", config.depth)
        })?;
        require(config.width <= MAX_WIDTH, "model.width", || {
            format!("must be at most {MAX_WIDTH}, but is {}", config.width)
        })?;
        require(config.width % config.num_heads == 0, "model.num_heads", || {
            format!("must divide width {}, but is {}", config.width, config.num_heads)
        })?;
        let hidden = config.mlp_ratio * config.width as f64;
        require((1.0..=64.0 * MAX_WIDTH as f64).contains(&hidden), "model.mlp_ratio", || {
            format!(
                "must give the MLP from 1 to {} hidden channels, but {} gives {hidden}",
                64 * MAX_WIDTH,
                config.mlp_ratio
            )
        })?;
        require(config.norm_eps.is_finite() && config.norm_eps >= 0.0, "model.norm_eps", || {
            format!("must be at least 0 and finite, but is {}", config.norm_eps)
        })?;
        config.check_tokens()?;
        config.check_position()?;
        Ok(config)
    }

    /// Class token, registers and the blocks that read them.
    fn check_tokens(&self) -> Result<(), ConfigError> {
        let registers = self.registers();
        require((0..=MAX_REGISTERS).contains(&registers), "model.registers", || {
            format!("must be from 0 to {MAX_REGISTERS}, but is {registers}")
        })?;
        require(self.pool == Pool::Mean || self.class_token != Some(false), "model.class_token", || {
            "must not be false where `pool` reads a class token".to_owned()
        })?;
        if self.kind == ModelKind::Vit {
            return require(self.class_depth.is_none(), "model.class_depth", || {
                "is for kind = \"cait\": a ViT's class token passes through all blocks".to_owned()
            });
        }
        let blocks = self.class_depth.unwrap_or(0);
        require((1..=MAX_DEPTH).contains(&blocks), "model.class_depth", || {
            format!("must say how many blocks CaiT's class token has, from 1 to {MAX_DEPTH}; the authors take 2")
        })?;
        require(self.pool != Pool::Mean, "model.pool", || {
            "must not be \"mean\" with kind = \"cait\": the class token's blocks would be read by nothing".to_owned()
        })?;
        require(registers == 0, "model.registers", || {
            "must be 0 with kind = \"cait\", where nothing stands beside the patches in the blocks".to_owned()
        })
    }

    fn check_position(&self) -> Result<(), ConfigError> {
        let rope = self.position() == Position::Rope;
        let fits = |base: f64| base.is_finite() && base > 0.0;
        require(self.rope_base.is_some() == rope && self.rope_base.is_none_or(fits), "model.rope_base", || {
            match (rope, self.rope_base) {
                (false, _) => "is for position = \"rope\"".to_owned(),
                (true, None) => "missing; position = \"rope\" needs it. DINOv3 takes 100.0".to_owned(),
                (true, Some(base)) => format!("must be above 0 and finite, but is {base}"),
            }
        })?;
        let per_head = self.width / self.num_heads;
        require(!rope || per_head % 4 == 0, "model.num_heads", || {
            format!("must give a head's channels in fours for position = \"rope\", but gives {per_head}")
        })
    }

    /// Refuses a strategy that this network has no place for. Where it takes building to know, [`crate::Vit::new`] does.
    ///
    /// # Errors
    /// At `model.kind`.
    pub fn check_strategy(&self, strategy: &dyn Strategy) -> Result<(), ConfigError> {
        let reason = match self.kind {
            ModelKind::Cait if strategy.uses_memory() => {
                "its joins read tensors of all tokens that earlier ones left, and CaiT's class token enters behind them"
            }
            ModelKind::Cait if strategy.needs_tokens() => {
                "its joins part tokens from their mean, and CaiT's class token is joined alone"
            }
            ModelKind::Cait | ModelKind::Vit => return Ok(()),
        };
        Err(ConfigError::new("model.kind", format!("must not be \"cait\" with this strategy: {reason}")))
    }

    /// Checks that patches of this size tile the images.
    ///
    /// # Errors
    /// At `model.patch_size`.
    pub fn check_input(&self, input: InputShape) -> Result<(), ConfigError> {
        let tiles = input.height % self.patch_size == 0 && input.width % self.patch_size == 0;
        require(tiles, "model.patch_size", || {
            let size = self.patch_size;
            format!("must divide the images' height {} and width {}, but is {size}", input.height, input.width)
        })
    }

    /// Where the norms stand under a strategy.
    ///
    /// # Errors
    /// At `model.norm`, where the strategy is not defined for that placement.
    pub fn placement(&self, strategy: &dyn Strategy) -> Result<Norm, ConfigError> {
        let norm = match self.norm {
            NormPlacement::Strategy => strategy.norms()[0],
            NormPlacement::Pre => Norm::Pre,
            NormPlacement::Post => Norm::Post,
            NormPlacement::Both => Norm::Both,
            NormPlacement::None => Norm::None,
        };
        require_norm(strategy, norm)?;
        Ok(norm)
    }

    /// Hidden width of the MLP, rounded down as in timm.
    pub fn hidden(&self) -> i64 {
        (self.width as f64 * self.mlp_ratio) as i64
    }

    /// Registers; 0 where the table has none.
    pub fn registers(&self) -> i64 {
        self.registers.unwrap_or(0)
    }

    /// What tells where a patch was.
    pub fn position(&self) -> Position {
        self.position.unwrap_or(Position::All)
    }

    /// Whether the MLPs are SwiGLU.
    pub fn is_gated(&self) -> bool {
        self.mlp == Some(MlpKind::Swiglu)
    }

    /// Whether a class token passes through the blocks, beside the patches.
    pub fn has_class_token(&self) -> bool {
        self.kind == ModelKind::Vit && self.class_token.unwrap_or(self.pool != Pool::Mean)
    }

    /// Blocks of the whole network, those of CaiT's class token included: the depth that strategies see.
    pub fn blocks(&self) -> usize {
        self.depth + self.class_depth.unwrap_or(0)
    }

    /// Channels that the classifier reads.
    pub fn features(&self) -> i64 {
        if self.pool == Pool::ClassMean { 2 * self.width } else { self.width }
    }

    /// Where the join of a block's branch stands. Those of CaiT's class token come behind the others.
    pub fn site(&self, block: usize, kind: BranchKind) -> Site {
        let &ModelConfig { width, num_heads, .. } = self;
        Site { block, depth: self.blocks(), kind, width, num_heads, hidden: self.hidden() }
    }

    /// Rows and columns of patches.
    pub fn grid(&self, input: InputShape) -> [i64; 2] {
        [input.height / self.patch_size, input.width / self.patch_size]
    }

    /// Tokens before the patches in the blocks: class token and registers.
    pub fn prefix(&self) -> i64 {
        i64::from(self.has_class_token()) + self.registers()
    }

    /// Tokens of one image in the blocks, class token and registers included.
    pub fn tokens(&self, input: InputShape) -> i64 {
        let [rows, columns] = self.grid(input);
        self.prefix() + rows * columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "kind = 'vit'\ndepth = 2\nwidth = 12\nnum_heads = 3\npatch_size = 4\nmlp_ratio = 4.0\n\
                        qkv_bias = true\npool = 'class'\nnorm_eps = 1e-6\nnorm = 'strategy'\n";

    fn parse(from: &str, to: &str) -> Result<ModelConfig, ConfigError> {
        assert!(GOOD.contains(from));
        ModelConfig::parse(&GOOD.replace(from, to).parse().unwrap())
    }

    #[test]
    fn a_good_table_is_read_and_counts_its_tokens() {
        let config = parse("kind", "kind").unwrap();
        let input = InputShape { channels: 1, height: 28, width: 28, classes: 10 };
        assert_eq!((config.hidden(), config.tokens(input)), (48, 50));
        assert!(config.check_input(input).is_ok());
        assert_eq!(parse("'class'", "'mean'").unwrap().tokens(input), 49);
    }

    #[test]
    fn every_value_out_of_range_is_refused_at_its_key() {
        for (from, to, key) in [
            ("depth = 2", "depth = 0", "model.depth"),
            ("width = 12", "width = 0", "model.width"),
            ("num_heads = 3", "num_heads = 0", "model.num_heads"),
            ("num_heads = 3", "num_heads = 5", "model.num_heads"),
            ("patch_size = 4", "patch_size = 0", "model.patch_size"),
            ("mlp_ratio = 4.0", "mlp_ratio = 0.01", "model.mlp_ratio"),
            ("mlp_ratio = 4.0", "mlp_ratio = inf", "model.mlp_ratio"),
            ("mlp_ratio = 4.0", "mlp_ratio = 1e18", "model.mlp_ratio"),
            ("depth = 2", "depth = 100000", "model.depth"),
            ("width = 12", "width = 1200000000", "model.width"),
            ("norm_eps = 1e-6", "norm_eps = -1.0", "model.norm_eps"),
            ("pool = 'class'", "pool = 'cls'", "model.pool"),
            ("depth", "dept", "model.dept"),
            ("qkv_bias = true\n", "", "model.qkv_bias"),
            ("qkv_bias = true", "qkv_bias = 'no_keys'", "model.qkv_bias"),
            ("depth = 2", "depth = 2\nregisters = -1", "model.registers"),
            ("depth = 2", "depth = 2\nregisters = 10000", "model.registers"),
            ("depth = 2", "depth = 2\nposition = 'rope'", "model.rope_base"),
            ("depth = 2", "depth = 2\nposition = 'rope'\nrope_base = 0.0", "model.rope_base"),
            ("depth = 2", "depth = 2\nrope_base = 100.0", "model.rope_base"),
            ("num_heads = 3", "num_heads = 2\nposition = 'rope'\nrope_base = 100.0", "model.num_heads"),
            ("depth = 2", "depth = 2\nclass_token = false", "model.class_token"),
            ("depth = 2", "depth = 2\nclass_depth = 2", "model.class_depth"),
            ("'vit'", "'cait'", "model.class_depth"),
            ("'vit'", "'cait'\nclass_depth = 0", "model.class_depth"),
            ("'vit'", "'cait'\nclass_depth = 2\nregisters = 4", "model.registers"),
        ] {
            assert_eq!(parse(from, to).unwrap_err().key, key, "{to}");
        }
        let cait = GOOD.replace("'vit'", "'cait'\nclass_depth = 2").replace("'class'", "'mean'");
        assert_eq!(ModelConfig::parse(&cait.parse().unwrap()).unwrap_err().key, "model.pool");
    }

    #[test]
    fn an_absent_key_is_written_as_absent_and_every_word_comes_back() {
        let plain = parse("kind", "kind").unwrap();
        let written = toml::Table::try_from(&plain).unwrap();
        assert_eq!(written, GOOD.parse().unwrap());
        for more in
            ["'no_key'\nregisters = 4\nposition = 'rope'\nrope_base = 100.0", "false\npre_norm = true\nmlp = 'swiglu'"]
        {
            let config = parse("qkv_bias = true", &format!("qkv_bias = {more}")).unwrap();
            assert_eq!(ModelConfig::parse(&toml::Table::try_from(&config).unwrap()).unwrap(), config);
        }
    }

    #[test]
    fn tokens_and_features_are_counted_with_what_stands_beside_the_patches() {
        let input = InputShape { channels: 1, height: 28, width: 28, classes: 10 };
        for (more, tokens, features) in [
            ("pool = 'class'\nregisters = 4", 54, 12),
            ("pool = 'class_mean'\nregisters = 4", 54, 24),
            ("pool = 'mean'\nclass_token = true", 50, 12),
        ] {
            let config = parse("pool = 'class'", more).unwrap();
            assert_eq!((config.tokens(input), config.features()), (tokens, features), "{more}");
        }
        let cait = parse("'vit'", "'cait'\nclass_depth = 2").unwrap();
        assert_eq!((cait.tokens(input), cait.prefix(), cait.blocks()), (49, 0, 4));
    }

    #[test]
    fn patches_that_do_not_tile_the_images_are_refused() {
        let config = parse("patch_size = 4", "patch_size = 5").unwrap();
        let input = InputShape { channels: 1, height: 28, width: 28, classes: 10 };
        let error = config.check_input(input).unwrap_err();
        assert_eq!(error.to_string(), "model.patch_size: must divide the images' height 28 and width 28, but is 5");
    }
}
