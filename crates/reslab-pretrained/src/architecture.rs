//! A network's shape, as it is read off a checkpoint.

use toml::Value;

/// The family of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Vision transformer.
    Vit,
    /// CaiT: talking heads, and a stage of this many blocks that only the class token goes through.
    Cait {
        /// Blocks of the class stage.
        class_depth: usize,
    },
}

/// The two-layer perceptron of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mlp {
    /// `fc2(GELU(fc1(h)))`.
    Gelu,
    /// `fc2(silu(gate(h)) * fc1(h))`.
    SwiGlu,
}

/// Biases of queries, keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkvBias {
    /// None.
    No,
    /// All three.
    Yes,
    /// Queries and values.
    NoKey,
}

/// How patches know where they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Position {
    /// Learned, for the class token and the patches.
    All,
    /// Learned, for the patches.
    Patches,
    /// Queries and keys are rotated.
    Rope {
        /// The longest period's base.
        base: f64,
    },
    /// Not at all.
    None,
}

/// What the head reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// The class token.
    Class,
    /// The norm of the patches' mean.
    Mean,
    /// The class token and the patches' mean, side by side.
    ClassMean,
}

impl Pool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Pool::Class => "class",
            Pool::Mean => "mean",
            Pool::ClassMean => "class_mean",
        }
    }
}

/// Where the blocks' norms stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormPlacement {
    /// Before each branch.
    Pre,
    /// Otherwise: only in a run's own checkpoints.
    Other,
}

/// A network's shape. A file says all of it but what is optional here.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// The family of networks.
    pub kind: Kind,
    /// Blocks.
    pub depth: usize,
    /// Width D.
    pub width: usize,
    /// Heads; `None` where the file does not tell: the shapes are the same for any number.
    pub num_heads: Option<usize>,
    /// Side of a patch in pixels.
    pub patch_size: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Hidden width of the MLP.
    pub hidden: usize,
    /// The MLP's kind.
    pub mlp: Mlp,
    /// Biases of queries, keys and values.
    pub qkv_bias: QkvBias,
    /// Whether the patches' projection has a bias; timm's lacks it with `pre_norm`.
    pub patch_bias: bool,
    /// Whether there is a class token.
    pub class_token: bool,
    /// Registers.
    pub registers: usize,
    /// How patches know where they are.
    pub position: Position,
    /// Patches that have a learned position.
    pub positions: usize,
    /// Their rows and columns, where that is known.
    pub grid: Option<(usize, usize)>,
    /// A norm behind the embeddings.
    pub pre_norm: bool,
    /// Added to the variance in every norm; by the layout's family, or as a config beside the file says.
    pub norm_eps: Option<f64>,
    /// Where the norms stand.
    pub norm: NormPlacement,
    /// Whether joins have a learned gamma per channel.
    pub gamma: bool,
    /// What the head reads; of a file without a head, what its authors' own features are.
    pub pool: Pool,
    /// Classes of the head, where there is one.
    pub classes: Option<usize>,
}

impl Architecture {
    /// The keys of `[model]` that describe this network. `num_heads` and `norm_eps` are absent where the file does not
    /// tell them, and optional keys where their absence means the same.
    pub fn model_table(&self) -> toml::Table {
        let mut table = toml::Table::new();
        let mut put = |key: &str, value: Value| {
            table.insert(key.to_owned(), value);
        };
        let number = |n: usize| Value::Integer(n as i64);
        let kind = if self.kind == Kind::Vit { "vit" } else { "cait" };
        put("kind", kind.into());
        put("depth", number(self.depth));
        if let Kind::Cait { class_depth } = self.kind {
            put("class_depth", number(class_depth));
        }
        put("width", number(self.width));
        if let Some(heads) = self.num_heads {
            put("num_heads", number(heads));
        }
        put("patch_size", number(self.patch_size));
        put("mlp_ratio", self.mlp_ratio().into());
        if self.mlp == Mlp::SwiGlu {
            put("mlp", "swiglu".into());
        }
        put("qkv_bias", self.qkv_bias_value());
        put("pool", self.pool.name().into());
        if self.class_token != (self.pool != Pool::Mean) {
            put("class_token", self.class_token.into());
        }
        if self.registers > 0 {
            put("registers", number(self.registers));
        }
        self.put_position(&mut put);
        if self.pre_norm {
            put("pre_norm", true.into());
        }
        if let Some(eps) = self.norm_eps {
            put("norm_eps", eps.into());
        }
        if self.norm == NormPlacement::Pre {
            put("norm", "pre".into());
        }
        table
    }

    fn qkv_bias_value(&self) -> Value {
        match self.qkv_bias {
            QkvBias::Yes => true.into(),
            QkvBias::No => false.into(),
            QkvBias::NoKey => "no_key".into(),
        }
    }

    fn put_position(&self, put: &mut impl FnMut(&str, Value)) {
        match self.position {
            Position::All => {}
            // CaiT's class token comes behind the patches' blocks, so that positions are always of patches.
            Position::Patches if self.kind != Kind::Vit => {}
            Position::Patches => put("position", "patches".into()),
            Position::None => put("position", "none".into()),
            Position::Rope { base } => {
                put("position", "rope".into());
                put("rope_base", base.into());
            }
        }
    }

    /// The ratio that gives exactly this hidden width, where it is multiplied with the width and rounded down.
    pub(crate) fn mlp_ratio(&self) -> f64 {
        let (hidden, width) = (self.hidden as f64, self.width as f64);
        let ratio = hidden / width;
        if (ratio * width) as usize == self.hidden { ratio } else { ratio.next_up() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small network of the plainest kind.
    pub(crate) fn small() -> Architecture {
        Architecture {
            kind: Kind::Vit,
            depth: 2,
            width: 8,
            num_heads: Some(2),
            patch_size: 2,
            channels: 3,
            hidden: 12,
            mlp: Mlp::Gelu,
            qkv_bias: QkvBias::Yes,
            patch_bias: true,
            class_token: true,
            registers: 0,
            position: Position::All,
            positions: 4,
            grid: Some((2, 2)),
            pre_norm: false,
            norm_eps: Some(1e-6),
            norm: NormPlacement::Pre,
            gamma: true,
            pool: Pool::Class,
            classes: None,
        }
    }

    #[test]
    fn the_mlp_ratio_gives_the_hidden_width_back_for_every_size() {
        for width in [3, 7, 48, 192, 384, 1536, 4096] {
            for hidden in (1..8 * width).step_by(7) {
                let network = Architecture { width, hidden, ..small() };
                assert_eq!((network.mlp_ratio() * width as f64) as usize, hidden, "{width} {hidden}");
            }
        }
    }

    #[test]
    fn a_table_names_what_differs_from_what_absence_means() {
        let plain = small().model_table().to_string();
        for key in ["registers", "position", "mlp =", "pre_norm", "class_token", "class_depth", "rope_base"] {
            assert!(!plain.contains(key), "{key}: {plain}");
        }
        let rope = Architecture {
            position: Position::Rope { base: 100.0 },
            registers: 4,
            mlp: Mlp::SwiGlu,
            qkv_bias: QkvBias::NoKey,
            num_heads: None,
            pool: Pool::Mean,
            ..small()
        };
        let text = rope.model_table().to_string();
        for line in
            ["position = \"rope\"", "rope_base = 100.0", "registers = 4", "mlp = \"swiglu\"", "class_token = true"]
        {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.contains("qkv_bias = \"no_key\"") && !text.contains("num_heads"), "{text}");
    }
}
