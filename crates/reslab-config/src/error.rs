//! The one error of a config value: where it stands and what is wrong with it.

use crate::nearest;

/// A value of a config that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct ConfigError {
    /// The full dotted key, as a user would write it: `residual.init`.
    pub key: String,
    /// What was expected, what came, and where it helps what to do.
    pub problem: String,
}

impl ConfigError {
    /// An error at `key`.
    pub fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }

    /// Puts serde's words into ours: unknown and missing keys are errors *at that key*.
    pub(crate) fn from_serde(table: &str, path: &str, message: &str) -> Self {
        let mut at = table.to_owned();
        if let Some(field) = quoted(message, "unknown field ") {
            // serde_path_to_error ends the path with the unknown field itself, but not always.
            let parent = path.strip_suffix(field).map_or(path, |p| p.trim_end_matches('.'));
            at = join(&join(&at, parent), field);
            return Self::new(at, unknown("key", field, message));
        }
        at = join(&at, path);
        if let Some(field) = quoted(message, "missing field ") {
            return Self::new(join(&at, field), "missing; every key that applies must stand in the file");
        }
        if let Some(word) = quoted(message, "unknown variant ") {
            return Self::new(at, unknown("value", word, message));
        }
        Self::new(at, mismatch(message).unwrap_or_else(|| message.to_owned()))
    }
}

/// `unknown key `x`; did you mean `y`? known: ...`, from serde's list of what it expected.
fn unknown(what: &str, word: &str, message: &str) -> String {
    let known: Vec<&str> =
        message.split_once("expected").map_or("", |(_, list)| list).split('`').skip(1).step_by(2).collect();
    let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("unknown {what} `{word}`; did you mean `{near}`? Known: {list}"),
        None => format!("unknown {what} `{word}`. Known: {list}"),
    }
}

/// `must be a whole number, but is 2.5`, from serde's ``invalid type: floating point `2.5`, expected i64``.
fn mismatch(message: &str) -> Option<String> {
    let of_type = message.strip_prefix("invalid type: ");
    let (came, expected) = of_type.or_else(|| message.strip_prefix("invalid value: "))?.rsplit_once(", expected ")?;
    let expected = match expected {
        "f32" | "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of at least 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "a sequence" => "a list",
        other => other,
    };
    let came = match (came.split_once('`'), came.strip_prefix("string ")) {
        (_, Some(text)) => text,
        (Some((_, value)), _) => value.trim_end_matches('`'),
        _ if came == "map" => "a table",
        _ if came == "sequence" => "a list",
        _ => came,
    };
    // A number of the right type that is refused for its value is negative, or larger than fits: serde says that better.
    (of_type.is_some() || came.starts_with('-')).then(|| format!("must be {expected}, but is {came}"))
}

/// The back-quoted word behind `lead`, when the message starts with it.
fn quoted<'a>(message: &'a str, lead: &str) -> Option<&'a str> {
    message.strip_prefix(lead)?.strip_prefix('`')?.split('`').next()
}

fn join(left: &str, right: &str) -> String {
    match (left.is_empty(), right.is_empty()) {
        (true, _) => right.to_owned(),
        (_, true) => left.to_owned(),
        _ => format!("{left}.{right}"),
    }
}
