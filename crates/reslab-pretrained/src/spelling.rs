//! How one file spells what the files of a family spell in several ways.

use crate::keys::Keys;
use crate::{Architecture, Layout, Mlp, Pool, Position, QkvBias};

/// Names of gamma.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GammaKey {
    /// `ls1.gamma`
    Ls,
    /// `gamma_1`
    Flat,
}

/// Names of the MLP's layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MlpKey {
    /// `fc1`, `fc2`: no gate.
    Plain,
    /// `fc1` holds gate and value, `fc2`.
    Fc1Packed,
    /// `fc1_g`, `fc1_x`, `fc2`.
    Fc1Apart,
    /// `w12` holds gate and value, `w3`.
    W12,
    /// `w1`, `w2`, `w3`.
    W123,
    /// `weights_in` holds gate and value, `weights_out`.
    WeightsIn,
    /// `gate_proj`, `up_proj`, `down_proj`.
    Proj,
    /// `up_proj`, `down_proj`: no gate.
    ProjPlain,
}

impl MlpKey {
    /// The spelling whose layers block 0, or any other, has.
    pub fn found(keys: &Keys, blocks: &str) -> MlpKey {
        let has = |name: &str| {
            ["weight", "bias"].iter().any(|end| keys.first(blocks, &format!("mlp.{name}.{end}")).is_some())
        };
        match () {
            () if has("w12") => MlpKey::W12,
            () if has("w1") || has("w2") => MlpKey::W123,
            () if has("weights_in") => MlpKey::WeightsIn,
            () if has("gate_proj") => MlpKey::Proj,
            () if has("up_proj") => MlpKey::ProjPlain,
            () if has("fc1_g") || has("fc1_x") => MlpKey::Fc1Apart,
            // Gate and value together are twice as wide as what the second layer reads.
            () if packed(keys, blocks) => MlpKey::Fc1Packed,
            () => MlpKey::Plain,
        }
    }

    /// The layer whose rows are the hidden width, once or (packed) twice, and how often.
    pub fn first_layer(self) -> (&'static str, usize) {
        match self {
            MlpKey::Plain => ("mlp.fc1", 1),
            MlpKey::Fc1Packed => ("mlp.fc1", 2),
            MlpKey::Fc1Apart => ("mlp.fc1_x", 1),
            MlpKey::W12 => ("mlp.w12", 2),
            MlpKey::W123 => ("mlp.w2", 1),
            MlpKey::WeightsIn => ("mlp.weights_in", 2),
            MlpKey::Proj | MlpKey::ProjPlain => ("mlp.up_proj", 1),
        }
    }

    /// The gate's own layer, where it has one.
    pub fn gate(self) -> Option<&'static str> {
        match self {
            MlpKey::Fc1Apart => Some("mlp.fc1_g"),
            MlpKey::W123 => Some("mlp.w1"),
            MlpKey::Proj => Some("mlp.gate_proj"),
            _ => None,
        }
    }

    /// The layer that leads back to the width.
    pub fn second_layer(self) -> &'static str {
        match self {
            MlpKey::Plain | MlpKey::Fc1Packed | MlpKey::Fc1Apart => "mlp.fc2",
            MlpKey::W12 | MlpKey::W123 => "mlp.w3",
            MlpKey::WeightsIn => "mlp.weights_out",
            MlpKey::Proj | MlpKey::ProjPlain => "mlp.down_proj",
        }
    }

    pub fn is_gated(self) -> bool {
        !matches!(self, MlpKey::Plain | MlpKey::ProjPlain)
    }
}

/// Elements are counted, not sides: a weight that is transposed still tells the same.
fn packed(keys: &Keys, blocks: &str) -> bool {
    let numel = |name: &str| keys.first(blocks, name).map(|stored| stored.numel());
    let (Some(first), Some(second)) = (numel("mlp.fc1.weight"), numel("mlp.fc2.weight")) else { return false };
    second.checked_mul(2) == Some(first)
}

/// Names of the biases of queries, keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BiasKey {
    /// `attn.qkv.bias`, or none.
    Fused,
    /// `attn.qkv.bias`, whose key's third a mask takes out.
    Masked,
    /// `attn.q_bias` and `attn.v_bias`.
    Apart,
}

/// How a file spells what its family spells in several ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spelling {
    pub gamma: GammaKey,
    pub mlp: MlpKey,
    pub bias: BiasKey,
    pub registers: &'static str,
    /// The final norm: `fc_norm` where it comes behind the mean.
    pub norm: &'static str,
    /// Whether registers have positions, which must be zero.
    pub register_positions: bool,
}

impl Spelling {
    /// What timm reads; the layouts of transformers take only the MLP from it.
    pub fn to_write(layout: Layout, network: &Architecture) -> Spelling {
        let eva = layout == Layout::TimmDinov3;
        let gated = network.mlp == Mlp::SwiGlu;
        Spelling {
            gamma: if eva || layout == Layout::Cait { GammaKey::Flat } else { GammaKey::Ls },
            mlp: match (layout, gated) {
                (Layout::TimmDinov3, true) => MlpKey::Fc1Apart,
                (Layout::HfDinov2 | Layout::HfDinov2WithRegisters, true) => MlpKey::WeightsIn,
                (Layout::HfDinov3, true) => MlpKey::Proj,
                (Layout::HfDinov3, false) => MlpKey::ProjPlain,
                (_, true) => MlpKey::Fc1Packed,
                (_, false) => MlpKey::Plain,
            },
            bias: match network.qkv_bias {
                QkvBias::NoKey if eva => BiasKey::Apart,
                // timm's other networks have the whole bias: zeros for the key's third are none.
                QkvBias::NoKey => BiasKey::Masked,
                _ => BiasKey::Fused,
            },
            registers: "reg_token",
            norm: if network.pool == Pool::Mean { "fc_norm" } else { "norm" },
            register_positions: network.position == Position::All,
        }
    }
}
