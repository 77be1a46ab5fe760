//! Where things stand in a network: sites, norms, weights.

use serde::{Deserialize, Serialize};

/// Attention or MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BranchKind {
    /// Self-attention, the first branch of a block.
    Attention,
    /// The two-layer perceptron, the second branch of a block.
    Mlp,
}

impl BranchKind {
    /// Both, in network order.
    pub const ALL: [BranchKind; 2] = [BranchKind::Attention, BranchKind::Mlp];

    /// The word of parameter names and of layers.csv.
    pub fn name(self) -> &'static str {
        match self {
            BranchKind::Attention => "attention",
            BranchKind::Mlp => "mlp",
        }
    }
}

/// Where a join stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// Index of the block, 0..depth.
    pub block: usize,
    /// Number of blocks of the network, those of a second stage included.
    pub depth: usize,
    /// Which of the block's two branches.
    pub kind: BranchKind,
    /// Width D of the branch.
    pub width: i64,
    /// Heads H of the network's attention.
    pub num_heads: i64,
    /// Width M of the MLP's hidden layer.
    pub hidden: i64,
}

impl Site {
    /// Position among the network's 2 * depth sites, in network order.
    pub fn index(&self) -> usize {
        2 * self.block + self.kind as usize
    }
}

/// Where a block's LayerNorms stand. `f` is the branch without any norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// Before the branch: `x + f(LN(x))`; the network ends with a norm.
    Pre,
    /// On the sum: `LN(x + f(x))`; the network ends without another norm.
    Post,
    /// Before and after the branch (sandwich, Peri-LN): `x + LN(f(LN(x)))`; the network ends with a norm.
    Both,
    /// Nowhere: `x + f(x)`, and none at the end.
    None,
}

impl Norm {
    /// The word of the config.
    pub fn name(self) -> &'static str {
        match self {
            Norm::Pre => "pre",
            Norm::Post => "post",
            Norm::Both => "both",
            Norm::None => "none",
        }
    }
}

/// Std of every linear layer's truncated normal at step 0 (cut at absolute +-2, as in timm), under a gain of 1.
pub const LINEAR_STD: f64 = 0.02;

/// A weight matrix whose init std a strategy may scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// The queries' projection of a site.
    Query(Site),
    /// The keys' projection.
    Key(Site),
    /// The values' projection.
    Value(Site),
    /// The attention's output projection.
    Out(Site),
    /// The MLP's first matrix.
    Fc1(Site),
    /// The MLP's second matrix.
    Fc2(Site),
    /// The patch embedding of a network of so many blocks.
    Embedding {
        /// Number of blocks of the network.
        depth: usize,
    },
    /// The classifier.
    Head,
}

impl Weight {
    /// The gain under which a block's matrix starts with Xavier's std, sqrt(2 / (inputs + outputs)), for papers that begin
    /// from it. 1 outside the blocks.
    pub fn xavier_gain(self) -> f64 {
        let sum = match self {
            Weight::Query(site) | Weight::Key(site) | Weight::Value(site) | Weight::Out(site) => 2 * site.width,
            Weight::Fc1(site) | Weight::Fc2(site) => site.width + site.hidden,
            Weight::Embedding { .. } | Weight::Head => return 1.0,
        };
        (2.0 / sum as f64).sqrt() / LINEAR_STD
    }
}
