//! Tables of a sweep file as checked, typed values, with errors that name the key.
//!
//! Every crate that owns a table of a sweep file parses it through [`parse`], so that a typo reads the same
//! everywhere: the full dotted key, what was expected, what came, and the nearest known key.

mod docs;
mod error;

pub use docs::{KeyDoc, keys};
pub use error::ConfigError;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Parses `table`, which stands under the dotted `key` (empty: at the top), into `T`.
///
/// # Errors
/// Names the full key: an unknown key with the nearest known one, a missing key, or a value of another type.
pub fn parse<T: DeserializeOwned>(key: &str, table: &toml::Table) -> Result<T, ConfigError> {
    read(table).map_err(|(path, message)| {
        let path = if path.is_empty() { culprit::<T>(table, &message) } else { path };
        ConfigError::from_serde(key, &path, &message)
    })
}

/// The value, or where in the table (empty: unknown) and what is wrong.
fn read<T: DeserializeOwned>(table: &toml::Table) -> Result<T, (String, String)> {
    serde_path_to_error::deserialize(toml::Value::Table(table.clone())).map_err(|e| {
        let path = e.path().to_string();
        let inner = e.into_inner().to_string();
        // toml appends where it was; the path says it better.
        let message = inner.split("\nin `").next().unwrap_or_default().trim();
        (if path == "." { String::new() } else { path }, message.to_owned())
    })
}

/// Of a table with a `kind` serde forgets which key it was at: it is the one without which the message is another.
fn culprit<T: DeserializeOwned>(table: &toml::Table, message: &str) -> String {
    if message.starts_with("missing field") || message.starts_with("unknown field") {
        return String::new(); // these name the key themselves
    }
    let is_it = |key: &&String| {
        let mut rest = table.clone();
        rest.remove(*key);
        read::<T>(&rest).err().is_none_or(|(_, other)| other != message)
    };
    // Without its kind every table says something else, so that one comes last.
    let (kind, others): (Vec<&String>, Vec<&String>) = table.keys().partition(|key| *key == "kind");
    others.into_iter().chain(kind).find(is_it).cloned().unwrap_or_default()
}

/// The candidate nearest to `word`, if one is near enough to be a typo of it.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        let score = strsim::jaro_winkler(&word.to_lowercase(), &candidate.to_lowercase());
        if best.is_none_or(|(top, _)| score > top) {
            best = Some((score, candidate));
        }
    }
    best.filter(|(score, _)| *score >= 0.75).map(|(_, candidate)| candidate)
}

/// Turns a condition into an error at `key`; `problem` says what must hold and what came.
///
/// # Errors
/// When `holds` is false.
pub fn require(holds: bool, key: &str, problem: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::new(key, problem())) }
}

/// A number of things, or all of them: `"all"` in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// As many as there are.
    All,
    /// This many.
    Number(u64),
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Count::All => serializer.serialize_str("all"),
            Count::Number(n) => serializer.serialize_u64(*n),
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(u64),
            Word(String),
        }
        match Raw::deserialize(deserializer) {
            Ok(Raw::Number(n)) => Ok(Count::Number(n)),
            Ok(Raw::Word(word)) if word == "all" => Ok(Count::All),
            Ok(Raw::Word(word)) => {
                Err(serde::de::Error::custom(format!("must be a number or \"all\", but is {word:?}")))
            }
            Err(_) => Err(serde::de::Error::custom("must be a number of at least 0, or \"all\"")),
        }
    }
}

impl JsonSchema for Count {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Count".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["integer", "string"], "format": "number or \"all\"" })
    }
}
