//! `--set key=value`: the key is dotted, the value is TOML, and a bare word is a string.

use std::sync::Arc;

use crate::error::SweepError;
use crate::keys::shown;
use crate::node::{self, Map, Node};

/// What stands as the file in errors of the command line's keys.
pub(crate) const ORIGIN: &str = "--set";

/// Parses `optim.lr=1e-3`, `train.precision=fp32`, `grid.optim.lr=[1e-3, 3e-3]`.
pub(crate) fn parse(entry: &str) -> Result<Map, SweepError> {
    let origin: Arc<str> = Arc::from(ORIGIN);
    let error = |problem: String| SweepError::new(ORIGIN, shown(entry), problem);
    let (key, value) = entry
        .split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .ok_or_else(|| error("must be key=value, such as optim.lr=1e-3".to_owned()))?;
    let document = |value: &str| node::parse(&format!("{key} = {value}"), &origin);
    let mut holder = document("0").map_err(|_| error(format!("`{key}` is not a key, such as optim.lr")))?;
    match node::parse(&format!("value = {value}"), &origin) {
        Ok(map) if map.len() == 1 => document(value),
        Ok(_) => Err(error("must be one value".to_owned())),
        Err(_) if is_word(value) => {
            fill(&mut holder, &Node::string(value, &origin));
            Ok(holder)
        }
        Err(_) => Err(error(format!("`{value}` is no TOML value; texts other than plain words need quotes"))),
    }
}

/// A word of a file: a name, a path, or an arm with its axes, `layer_scale[init=1e-5]`.
fn is_word(value: &str) -> bool {
    let is_path = ["/", "./", "../"].iter().any(|start| value.starts_with(start));
    (is_path || value.starts_with(|c: char| c.is_ascii_alphabetic()))
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "_-./+:[]=,".contains(c))
}

/// Puts `node` in the place of the document's one value.
fn fill(map: &mut Map, node: &Node) {
    for (_, slot) in map.iter_mut() {
        match &mut slot.item {
            node::Item::Table(inner) => fill(inner, node),
            _ => *slot = node.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entry: &str) -> toml::Table {
        node::to_table(&parse(entry).unwrap())
    }

    #[test]
    fn values_are_toml_and_bare_words_are_strings() {
        for (entry, toml) in [
            ("optim.lr=1e-3", "optim.lr = 1e-3"),
            ("a.b = 3", "a.b = 3"),
            ("\"optim.lr\"=2.0", "optim.lr = 2.0"),
            ("train.precision=fp32", "train.precision = \"fp32\""),
            ("metric=test/top1", "metric = \"test/top1\""),
            ("baseline=ls[init=1e-5,lr=3]", "baseline = \"ls[init=1e-5,lr=3]\""),
            ("x=\"a b\"", "x = \"a b\""),
            ("seeds=[0, 1]", "seeds = [0, 1]"),
            ("flag=true", "flag = true"),
            ("f=/data/x.safetensors", "f = \"/data/x.safetensors\""),
            ("f=../x-1.safetensors", "f = \"../x-1.safetensors\""),
            ("r={ kind = \"plain\" }", "r = { kind = \"plain\" }"),
        ] {
            assert_eq!(table(entry), toml.parse().unwrap(), "{entry}");
        }
    }

    #[test]
    fn what_is_no_assignment_is_refused_with_the_entry_named() {
        for entry in ["optim.lr", "=3", "a=", "a..b=1", "a b=1", "a=two words", "a=[1", "a=1\nb = 2", "a=05"] {
            let error = parse(entry).unwrap_err().to_string();
            assert!(error.starts_with("--set: "), "{entry}: {error}");
            assert!(error.contains(entry.split('\n').next().unwrap()), "{error}");
        }
    }
}
