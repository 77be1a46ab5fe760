//! What stands beside a checkpoint and tells what shapes don't: config.json of transformers, config.toml of a run, and
//! the metadata that our own writing leaves.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::locate::read_text;
use crate::{Architecture, Mlp, Pool, Position, PretrainedError};

/// What is told, and by whom.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// Who tells it, for messages.
    pub source: String,
    pub num_heads: Option<usize>,
    pub norm_eps: Option<f64>,
    pub rope_base: Option<f64>,
    pub position: Option<Position>,
    pub pool: Option<Pool>,
    /// Height and width of the images.
    pub image: Option<(usize, usize)>,
    /// Numbers that the shapes tell too, and must agree with.
    pub facts: BTreeMap<&'static str, usize>,
    /// The activation that is said to be in the MLP.
    pub activation: Option<String>,
}

/// Keys of the metadata that [`crate::write`](fn@crate::write) leaves.
pub(crate) const NUM_HEADS: &str = "reslab.num_heads";
pub(crate) const NORM_EPS: &str = "reslab.norm_eps";
pub(crate) const POSITION: &str = "reslab.position";
pub(crate) const ROPE_BASE: &str = "reslab.rope_base";

/// What config.json calls the numbers that shapes tell too.
const FACTS: [&str; 5] =
    ["hidden_size", "num_hidden_layers", "num_channels", "num_register_tokens", "intermediate_size"];

impl Hints {
    /// From the metadata of the file itself.
    pub fn of_metadata(metadata: &BTreeMap<String, String>) -> Hints {
        let position = match metadata.get(POSITION).map(String::as_str) {
            Some("rope") => Some(Position::Rope { base: f64::NAN }),
            Some("none") => Some(Position::None),
            _ => None,
        };
        Hints {
            source: "the file's metadata".to_owned(),
            num_heads: metadata.get(NUM_HEADS).and_then(|text| text.parse().ok()),
            norm_eps: metadata.get(NORM_EPS).and_then(|text| text.parse().ok()),
            rope_base: metadata.get(ROPE_BASE).and_then(|text| text.parse().ok()),
            position,
            ..Hints::default()
        }
    }

    /// From config.json in a folder, where it is one of transformers for a layout that is read here.
    pub fn of_folder(folder: &Path) -> Result<Option<Hints>, PretrainedError> {
        let path = folder.join("config.json");
        if !path.is_file() {
            return Ok(None);
        }
        let config: Value = serde_json::from_str(&read_text(&path)?)
            .map_err(|e| PretrainedError::broken(&path, format!("is no config of transformers: {e}")))?;
        let model_type = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
        if !["dinov2", "dinov2_with_registers", "dinov3_vit"].contains(&model_type) {
            return Ok(None);
        }
        let count = |key: &str| config.get(key).and_then(Value::as_u64).map(|n| n as usize);
        let float = |key: &str| config.get(key).and_then(Value::as_f64);
        let mut facts: BTreeMap<&'static str, usize> =
            FACTS.into_iter().filter_map(|key| Some((key, count(key)?))).collect();
        // A square is said by one number or by two.
        facts.extend(pair(config.get("patch_size")).filter(|(h, w)| h == w).map(|(h, _)| ("patch_size", h)));
        Ok(Some(Hints {
            source: path.display().to_string(),
            num_heads: count("num_attention_heads"),
            norm_eps: float("layer_norm_eps"),
            rope_base: float("rope_theta"),
            image: pair(config.get("image_size")),
            activation: config.get("hidden_act").and_then(Value::as_str).map(str::to_owned),
            facts,
            ..Hints::default()
        }))
    }

    /// From the resolved config of a run, in its folder.
    pub fn of_run(folder: &Path) -> Result<Option<Hints>, PretrainedError> {
        let path = folder.join("config.toml");
        if !path.is_file() {
            return Ok(None);
        }
        let config: toml::Table = read_text(&path)?
            .parse()
            .map_err(|e| PretrainedError::broken(&path, format!("is no config of a run: {e}")))?;
        let Some(model) = config.get("model").and_then(toml::Value::as_table) else { return Ok(None) };
        let text = |key: &str| model.get(key).and_then(toml::Value::as_str);
        let float = |key: &str| model.get(key).and_then(toml::Value::as_float);
        Ok(Some(Hints {
            source: path.display().to_string(),
            num_heads: model.get("num_heads").and_then(toml::Value::as_integer).and_then(|n| n.try_into().ok()),
            norm_eps: float("norm_eps"),
            rope_base: float("rope_base"),
            position: match text("position") {
                Some("rope") => Some(Position::Rope { base: float("rope_base").unwrap_or(f64::NAN) }),
                Some("none") => Some(Position::None),
                Some("patches") => Some(Position::Patches),
                _ => Some(Position::All),
            },
            pool: [Pool::Class, Pool::Mean, Pool::ClassMean].into_iter().find(|pool| text("pool") == Some(pool.name())),
            ..Hints::default()
        }))
    }

    /// Checks what is told against the shapes.
    pub fn check(&self, network: &Architecture) -> Result<(), String> {
        let told = |key: &str, told: usize, found: usize| {
            if told == found {
                Ok(())
            } else {
                Err(format!("{} says {key} = {told}, the tensors {found}", self.source))
            }
        };
        for (&key, &value) in &self.facts {
            match key {
                "hidden_size" => told(key, value, network.width)?,
                "num_hidden_layers" => told(key, value, network.depth)?,
                "num_channels" => told(key, value, network.channels)?,
                "num_register_tokens" => told(key, value, network.registers)?,
                "intermediate_size" => told(key, value, network.hidden)?,
                "patch_size" => told(key, value, network.patch_size)?,
                _ => {}
            }
        }
        if network.norm_eps.is_some_and(|eps| !eps.is_finite() || eps < 0.0) {
            return Err(format!("{} says that {:?} is added in norms", self.source, network.norm_eps));
        }
        let wanted = if network.mlp == Mlp::SwiGlu { ["silu", "swish"] } else { ["gelu", "gelu_python"] };
        // DINOv2's SwiGLU does not read hidden_act, and leaves gelu there.
        let ignored = network.mlp == Mlp::SwiGlu && network.position == Position::All;
        match &self.activation {
            Some(name) if !ignored && !wanted.contains(&name.as_str()) => {
                Err(format!("{} says hidden_act = {name:?}; {} is what is read here", self.source, wanted[0]))
            }
            _ => Ok(()),
        }
    }
}

fn pair(value: Option<&Value>) -> Option<(usize, usize)> {
    let number = |value: &Value| value.as_u64().map(|n| n as usize);
    match value? {
        Value::Array(sides) => match &sides[..] {
            [height, width] => Some((number(height)?, number(width)?)),
            _ => None,
        },
        side => number(side).map(|side| (side, side)),
    }
}
