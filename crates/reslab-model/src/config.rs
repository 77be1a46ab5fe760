//! The table `[model]`, checked.

use reslab_config::{ConfigError, parse, require};
use reslab_residual::{BranchKind, Norm, Site, Strategy, require_norm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Blocks, at the most.
const MAX_DEPTH: usize = 10_000;
/// Channels, at the most.
const MAX_WIDTH: i64 = 1 << 16;

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
    /// Hidden width of the MLP as a multiple of `width`.
    pub mlp_ratio: f64,
    /// Whether the projection to queries, keys and values has a bias.
    pub qkv_bias: bool,
    /// What the classifier reads: a class token, or the mean over the patches' tokens.
    pub pool: Pool,
    /// Added to the variance in every LayerNorm. ViT, CaiT and DINOv2 take 1e-6.
    pub norm_eps: f64,
    /// Where the blocks' norms stand; `strategy`: where the strategy wants them.
    pub norm: NormPlacement,
}

/// A family of networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Vision transformer (Dosovitskiy et al. 2020), as in timm.
    Vit,
}

/// What the classifier reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pool {
    /// A class token, which is one token more.
    Class,
    /// The mean over all tokens; the final norm acts on it (timm's `fc_norm`).
    Mean,
}

/// Where the blocks' norms stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NormPlacement {
    /// Where the strategy wants them.
    Strategy,
    /// Before each branch.
    Pre,
    /// On each sum.
    Post,
    /// Before and after each branch.
    Both,
    /// Nowhere.
    None,
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
        Ok(config)
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

    /// Where the join of a block's branch stands.
    pub fn site(&self, block: usize, kind: BranchKind) -> Site {
        let &ModelConfig { depth, width, num_heads, .. } = self;
        Site { block, depth, kind, width, num_heads, hidden: self.hidden() }
    }

    /// Tokens of one image, the class token included.
    pub fn tokens(&self, input: InputShape) -> i64 {
        let patches = (input.height / self.patch_size) * (input.width / self.patch_size);
        match self.pool {
            Pool::Class => patches + 1,
            Pool::Mean => patches,
        }
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
        ] {
            assert_eq!(parse(from, to).unwrap_err().key, key, "{to}");
        }
    }

    #[test]
    fn patches_that_do_not_tile_the_images_are_refused() {
        let config = parse("patch_size = 4", "patch_size = 5").unwrap();
        let input = InputShape { channels: 1, height: 28, width: 28, classes: 10 };
        let error = config.check_input(input).unwrap_err();
        assert_eq!(error.to_string(), "model.patch_size: must divide the images' height 28 and width 28, but is 5");
    }
}
