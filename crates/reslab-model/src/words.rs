//! The words of the table `[model]`.

use std::fmt::Formatter;

use schemars::JsonSchema;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A family of networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Vision transformer (Dosovitskiy et al. 2020), as in timm.
    Vit,
    /// CaiT (Touvron et al. 2021): talking heads, and a class token that enters behind the blocks.
    Cait,
}

/// What the classifier reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// A class token, which is one token more.
    Class,
    /// The mean over the patches' tokens; the final norm acts on it (timm's `fc_norm`).
    Mean,
    /// The normed class token and the mean over the patches' normed tokens, side by side: 2 D channels.
    ClassMean,
}

/// What tells the network where a patch was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Position {
    /// A learned vector for the class token, where the patches have one beside them, and for each patch.
    All,
    /// A learned vector for each patch.
    Patches,
    /// DINOv3's rotary embedding: queries and keys of the patches are turned by their coordinates.
    Rope,
    /// Nothing.
    None,
}

/// The kind of MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MlpKind {
    /// `fc2(GELU(fc1(h)))`.
    Gelu,
    /// `fc2(SiLU(gate(h)) * fc1(h))`.
    Swiglu,
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

/// The bias of the projection to queries, keys and values: `true`, `false` or `"no_key"` in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkvBias {
    /// One of 3 D channels.
    All,
    /// None.
    None,
    /// On queries and values. A bias of the keys adds the same to all logits of a query, which the softmax takes away.
    NoKey,
}

impl Serialize for QkvBias {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            QkvBias::All => serializer.serialize_bool(true),
            QkvBias::None => serializer.serialize_bool(false),
            QkvBias::NoKey => serializer.serialize_str("no_key"),
        }
    }
}

impl<'de> Deserialize<'de> for QkvBias {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QkvBiasVisitor)
    }
}

struct QkvBiasVisitor;

impl Visitor<'_> for QkvBiasVisitor {
    type Value = QkvBias;

    fn expecting(&self, to: &mut Formatter) -> std::fmt::Result {
        to.write_str("true, false or \"no_key\"")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<QkvBias, E> {
        Ok(if value { QkvBias::All } else { QkvBias::None })
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<QkvBias, E> {
        if value == "no_key" { Ok(QkvBias::NoKey) } else { Err(E::invalid_value(Unexpected::Str(value), &self)) }
    }
}

impl JsonSchema for QkvBias {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "QkvBias".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["boolean", "string"], "format": "boolean | \"no_key\"" })
    }
}
