//! What a user reads when a table of a config is wrong.

use reslab_config::{Count, keys, nearest, parse};
use schemars::JsonSchema;
use serde::Deserialize;

/// A table.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Table {
    /// Images that are used,
    /// or all.
    images: Count,
    /// How.
    mode: Mode,
    /// Two of them.
    betas: [f64; 2],
    /// May be left out.
    #[serde(default)]
    steps: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    /// One.
    Sample,
    /// Other.
    Subset,
}

/// A table with kinds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[allow(dead_code)]
enum Kinds {
    /// First.
    One {
        /// Rate.
        lr: f64,
    },
    /// Second.
    Two {
        /// Rate.
        lr: f64,
        /// Momentum.
        momentum: f64,
    },
}

fn error(text: &str) -> String {
    parse::<Table>("data", &text.parse().unwrap()).unwrap_err().to_string()
}

#[test]
fn an_unknown_key_names_the_nearest() {
    let text = error("imags = 1\nmode = \"sample\"\nbetas = [1.0, 2.0]");
    assert!(text.starts_with("data.imags: unknown key `imags`; did you mean `images`?"), "{text}");
}

#[test]
fn a_missing_key_is_named_in_full() {
    assert!(error("images = 1\nbetas = [1.0, 2.0]").starts_with("data.mode: missing"));
}

#[test]
fn a_wrong_value_is_named_with_what_came() {
    let wrong = error("images = \"most\"\nmode = \"sample\"\nbetas = [1.0, 2.0]");
    assert_eq!(wrong, "data.images: must be a number or \"all\", but is \"most\"");
    let word = error("images = 1\nmode = \"subsett\"\nbetas = [1.0, 2.0]");
    assert!(word.starts_with("data.mode: unknown value `subsett`; did you mean `subset`?"), "{word}");
    let nested = error("images = 1\nmode = \"subset\"\nbetas = [1.0, \"x\"]");
    assert_eq!(nested, "data.betas[1]: must be a number, but is \"x\"");
}

#[test]
fn types_are_told_in_words_and_not_in_rusts() {
    let steps = |value: &str| error(&format!("images = 1\nmode = \"sample\"\nbetas = [1.0, 2.0]\nsteps = {value}"));
    assert_eq!(steps("2.5"), "data.steps: must be a whole number of at least 0, but is 2.5");
    assert_eq!(steps("-1"), "data.steps: must be a whole number of at least 0, but is -1");
    assert_eq!(steps("{}"), "data.steps: must be a whole number of at least 0, but is a table");
    assert_eq!(steps("[]"), "data.steps: must be a whole number of at least 0, but is a list");
    let short = error("images = 1\nmode = \"sample\"\nbetas = [1.0]");
    assert!(short.starts_with("data.betas: invalid length 1, expected an array of length 2"), "{short}");
}

#[test]
fn a_wrong_value_of_a_tagged_table_is_named_with_its_key() {
    let error = |text: &str| parse::<Kinds>("optim", &text.parse().unwrap()).unwrap_err().to_string();
    assert_eq!(error("kind = \"one\"\nlr = \"fast\""), "optim.lr: must be a number, but is \"fast\"");
    let second = error("kind = \"two\"\nlr = 1\nmomentum = [0.9]");
    assert_eq!(second, "optim.momentum: must be a number, but is a list");
    let kind = error("kind = \"onee\"\nlr = 1");
    assert!(kind.starts_with("optim.kind: unknown value `onee`; did you mean `one`?"), "{kind}");
    assert_eq!(
        error("kind = \"two\"\nlr = 1"),
        "optim.momentum: missing; every key that applies must stand in the file"
    );
}

#[test]
fn unknown_keys_of_a_tagged_table_are_named() {
    let text = parse::<Kinds>("optim", &"kind = \"one\"\nlrr = 1.0".parse().unwrap()).unwrap_err().to_string();
    assert!(text.starts_with("optim.lrr: unknown key `lrr`; did you mean `lr`?"), "{text}");
}

#[test]
fn far_words_have_no_nearest() {
    assert_eq!(nearest("layerscale", ["plain", "layer_scale"]), Some("layer_scale"));
    assert_eq!(nearest("zzz", ["plain", "layer_scale"]), None);
}

#[test]
fn docs_hold_each_key_once_with_type_and_meaning() {
    let docs = keys::<Table>();
    let rows: Vec<_> = docs.iter().map(|d| (d.key.as_str(), d.kind.as_str(), d.meaning.as_str())).collect();
    assert_eq!(rows[0], ("images", "number or \"all\"", "Images that are used, or all."));
    assert_eq!(rows[1], ("mode", "\"sample\" | \"subset\"", "How."));
    assert_eq!(rows[2], ("betas", "list of number", "Two of them."));
    assert_eq!(rows[3], ("steps", "integer", "May be left out."));
    let kinds = keys::<Kinds>();
    let names: Vec<_> = kinds.iter().map(|d| d.key.as_str()).collect();
    assert_eq!(names, ["kind", "lr", "momentum"]);
    assert_eq!(kinds[0].kind, "\"one\" | \"two\"");
}
