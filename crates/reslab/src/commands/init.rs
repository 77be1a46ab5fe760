//! `reslab init FILE`: a complete sweep file to start from, with a comment on every key.

use super::config_docs::{TableDoc, tables};
use crate::outcome::{Exit, Usage};
use crate::terminal::{say, wrap};
use anyhow::{Context, Result};
use reslab_config::KeyDoc;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The values of the file; its comments on keys come from the config structs.
const TEMPLATE: &str = include_str!("../../templates/sweep.toml");
const WIDTH: usize = 118;

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file to write; must not exist yet
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    let path = &arguments.file;
    let name = sweep_name(path)?;
    let text = render(&name, &path.display().to_string(), &tables());
    // create_new: a file that stands there is never overwritten, not even by two calls at once.
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Usage::error(format!("{}: exists, and is left as it is; name another file", path.display())));
        }
        Err(error) => return Err(Usage::error(format!("{}: cannot be written: {error}", path.display()))),
    };
    file.write_all(text.as_bytes()).with_context(|| format!("{}: cannot be written", path.display()))?;
    say(format_args!("wrote {0}; look at what it would run: reslab plan {0}", path.display()));
    Ok(Exit::Done)
}

/// The sweep's name is the file's, so that its results are found.
fn sweep_name(path: &Path) -> Result<String> {
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Err(Usage::error(format!("{}: a sweep file ends in .toml", path.display())));
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    Ok(stem.chars().map(|c| if fits(c) { c } else { '_' }).collect())
}

/// The template with its name in it, and above each key what it means.
fn render(name: &str, file: &str, tables: &[TableDoc]) -> String {
    let mut out = String::new();
    let mut table = Section::new("", tables);
    for line in TEMPLATE.lines() {
        let line = line.replace("{name}", name).replace("{file}", file);
        if let Some(header) = line.strip_prefix('[') {
            table.end(&mut out);
            let header = header.trim_matches(['[', ']']);
            table = Section::new(header.strip_prefix("arm.").unwrap_or(header), tables);
        } else if let Some((key, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            table.explain(key.trim(), &mut out);
        }
        out.push_str(&line);
        out.push('\n');
    }
    table.end(&mut out);
    out
}

/// The keys of the table that is being written, and which of them have been.
struct Section<'a> {
    keys: &'a [KeyDoc],
    written: Vec<String>,
}

impl<'a> Section<'a> {
    fn new(name: &str, tables: &'a [TableDoc]) -> Self {
        let keys = tables.iter().find(|table| table.name == name).map_or(&[][..], |table| &table.keys);
        Self { keys, written: Vec::new() }
    }

    fn explain(&mut self, key: &str, out: &mut String) {
        if let Some(doc) = self.keys.iter().find(|doc| doc.key == key) {
            out.push_str(&comment(&format!("{} ({})", doc.meaning, doc.kind)));
        }
        self.written.push(key.to_owned());
    }

    /// Keys that this file does without, such as `steps` beside `epochs`.
    fn end(&mut self, out: &mut String) {
        let rest: Vec<&KeyDoc> =
            self.keys.iter().filter(|doc| !doc.key.starts_with('[') && !self.written.contains(&doc.key)).collect();
        if rest.is_empty() {
            return;
        }
        // Above the blank line and the words that lead to the next table.
        let lead = out.rfind("\n\n").map_or(String::new(), |at| out.split_off(at + 1));
        out.push_str("# Not in this file:\n");
        for doc in rest {
            out.push_str(&comment(&format!("  {} = ({}) {}", doc.key, doc.kind, doc.meaning)));
        }
        out.push_str(&lead);
    }
}

fn comment(text: &str) -> String {
    format!("{}\n", wrap(text, WIDTH, "# "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(key: &str) -> KeyDoc {
        KeyDoc { key: key.to_owned(), kind: "number".to_owned(), meaning: format!("Meaning of {key}.") }
    }

    #[test]
    fn every_key_is_explained_once_and_those_left_out_are_named() {
        let keys = ["epochs", "steps", "batch"].map(doc).to_vec();
        let text = render("mine", "mine.toml", &[TableDoc { name: "train", about: "", keys }]);
        assert!(text.contains("# Meaning of epochs. (number)\nepochs "), "{text}");
        assert!(text.contains("# Not in this file:\n# steps = (number) Meaning of steps.\n\n[optim]"), "{text}");
        assert_eq!(text.matches("Meaning of batch.").count(), 1);
        assert!(text.starts_with("# mine: "));
        let table: toml::Table = text.parse().expect("TOML");
        assert_eq!(table["name"].as_str(), Some("mine"));
    }

    #[test]
    fn the_templates_tables_have_all_keys_of_the_structs_but_alternatives() {
        let text = render("mine", "mine.toml", &tables());
        let of_tables = text.lines().skip_while(|line| *line != "[data]");
        let left_out: Vec<&str> = of_tables
            .filter_map(|line| line.strip_prefix("# ")?.split_once(" = (").map(|(key, _)| key.trim()))
            .collect();
        let alternatives = ["steps", "momentum"];
        let optional = [
            "classes",
            "image_size",
            "channels",
            "normalization",
            "random_erasing",
            "root",
            "crop_ratio",
            "random_resized_crop",
            "rand_augment",
            "workers",
            "broken",
            "registers",
            "position",
            "rope_base",
            "pre_norm",
            "mlp",
            "class_token",
            "class_depth",
            "pretrained",
            "pretrained_sha256",
        ];
        let other: Vec<_> =
            left_out.iter().filter(|key| !alternatives.contains(*key) && !optional.contains(*key)).collect();
        assert_eq!(other, [&""; 0], "the template lacks a key that every file needs");
        for table in tables() {
            for key in table.keys {
                assert!(!key.meaning.is_empty(), "{} has no doc comment", key.key);
            }
        }
    }

    #[test]
    fn a_name_has_only_letters_that_a_folder_takes() {
        assert_eq!(sweep_name(Path::new("configs/my sweep.toml")).unwrap(), "my_sweep");
        assert!(sweep_name(Path::new("notes.txt")).is_err());
    }
}
