//! `reslab config-docs` (hidden): writes docs/config.md from the doc comments of the config structs.

use crate::outcome::Exit;
use crate::terminal::say;
use anyhow::{Context, Result};
use reslab_config::{KeyDoc, keys};
use reslab_residual::Registry;
use std::fmt::Write;
use std::path::PathBuf;

/// Arguments of `config-docs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file to write; standard output without it
    file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    let text = render(registry);
    match &arguments.file {
        Some(file) => std::fs::write(file, text).with_context(|| format!("{}: cannot be written", file.display()))?,
        None => say(text.trim_end()),
    }
    Ok(Exit::Done)
}

/// A table of a sweep file.
pub(crate) struct TableDoc {
    /// As it stands in a file: `[data]`; empty for the keys above all tables.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) about: &'static str,
    /// Its keys.
    pub(crate) keys: Vec<KeyDoc>,
}

/// The tables that every run has, in the order of a sweep file.
pub(crate) fn tables() -> Vec<TableDoc> {
    let table =
        |name, about, keys: Vec<KeyDoc>| TableDoc { name, about, keys: keys.into_iter().map(explained).collect() };
    vec![
        table("", "What is asked, of whom, and how often.", frame()),
        table("data", "Which images, how many, and how they are augmented.", keys::<reslab_data::DataConfig>()),
        table("model", "The network; its only other part is the arm's strategy.", model()),
        table("train", "How long, how much at once, and what is recorded.", keys::<reslab_train::TrainConfig>()),
        table("optim", "The optimizer, by its `kind`.", keys::<reslab_train::OptimConfig>()),
        table(
            "drop_path",
            "Stochastic depth, per arm; an arm without this table drops nothing.",
            keys::<reslab_residual::DropPathConfig>(),
        ),
        table(
            "finetune",
            "What becomes of the weights of `model.pretrained`; only beside that key.",
            keys::<reslab_train::FinetuneConfig>(),
        ),
    ]
}

/// The keys of `[model]`, those that name a pretrained file included, which are read before the others.
fn model() -> Vec<KeyDoc> {
    let mut keys = keys::<reslab_model::ModelConfig>();
    keys.push(doc(
        "pretrained",
        "string",
        "A checkpoint to take over: a safetensors file, its index, or a folder, of timm, transformers, the authors of DINOv2, DINOv3, DeiT-III and CaiT, \
         or a run's own. All keys above that it tells may be left out. Needs the table `[finetune]`. Absent: a new network.",
    ));
    keys.push(doc(
        "pretrained_sha256",
        "string",
        "Checksum of that file, which the plan writes: another content is refused, and a run's id is of the content, not of the path.",
    ));
    keys
}

/// A tag has no field, and so no doc comment of its own.
fn explained(mut key: KeyDoc) -> KeyDoc {
    if key.key == "kind" && key.meaning.is_empty() {
        key.meaning = "Which one; the other keys of the table follow from it.".to_owned();
    }
    key
}

fn doc(key: &str, kind: &str, meaning: &str) -> KeyDoc {
    KeyDoc { key: key.to_owned(), kind: kind.to_owned(), meaning: meaning.to_owned() }
}

/// The keys that say what is asked; reslab-sweep reads them from files that extend one another, so no struct holds them.
fn frame() -> Vec<KeyDoc> {
    vec![
        doc("extends", "string", "A file, named from this one's folder, that this one is merged over. Optional."),
        doc("name", "string", "Name of the sweep and of its folder in results/."),
        doc("question", "string", "What the sweep is to answer, in one sentence; it stands above the table."),
        doc(
            "baseline",
            "string",
            "Name of the arm that the others are compared with, at the same grid point and seeds.",
        ),
        doc(
            "seeds",
            "list of integer",
            "Seeds of every arm. For one seed, all arms share initial values, batch order and augmentation.",
        ),
        doc(
            "metric",
            METRICS,
            "What the comparison is about. `train/loss` is the mean over the last step's batch alone; the table's final loss is steadier.",
        ),
        doc(
            "select",
            "list of string",
            "Keys of axes whose value is chosen per arm on the validation split: `[\"optim.lr\"]`. Optional.",
        ),
        doc(
            "study.primary",
            "list of 2 strings",
            "The one comparison that the sweep is made for, `[\"arm\", \"baseline\"]`, by names without axes of `[grid]`. It is \
             tested alone, all others are exploratory. Name it before the first run: a later one is marked as late. Optional.",
        ),
        doc(
            "[[arm]]",
            "tables",
            "What is compared: `name`, `residual`, perhaps `drop_path`, and keys of any table below for this arm only.",
        ),
        doc("[residual]", "table", "The strategy of every arm that names none of its own. Optional."),
        doc(
            "[drop_path]",
            "table",
            "Drop path of every arm that says nothing of it; an arm's `drop_path = \"none\"` has none. Optional.",
        ),
        doc("[grid]", "table", "Factors crossed with every arm: `\"optim.lr\" = [1e-3, 4e-3]`. Optional."),
        doc("[zip]", "table", "As `[grid]`, but its lists are walked together. Optional."),
        doc(
            "[profile.NAME]",
            "table",
            "Merged over the file where runs are on the device kind NAME, or with `--profile NAME`. Optional.",
        ),
    ]
}

/// The metrics that every finished run has.
const METRICS: &str = r#""test/top1" | "test/top5" | "test/loss" | "val/top1" | "val/loss" | "train/loss""#;

/// docs/config.md.
pub(crate) fn render(registry: &Registry) -> String {
    let mut page = String::from(HEAD);
    for table in tables() {
        let title = if table.name.is_empty() { "Top of the file".to_owned() } else { format!("`[{}]`", table.name) };
        let _ = write!(page, "\n## {title}\n\n{}\n\n{}", table.about, key_table(&table.keys));
    }
    page.push_str("\n## `residual`, by its `kind`\n\nOne strategy per arm. `reslab strategies NAME` shows its equation and an example.\n");
    for variant in registry.iter() {
        let _ = write!(page, "\n### `{}`\n\n{}\n", variant.name, variant.summary);
        let keys = (variant.keys)();
        if !keys.is_empty() {
            let _ = write!(page, "\n{}", key_table(&keys));
        }
        let _ = write!(page, "\n```toml\n[residual]\n{}\n```\n", variant.example.trim());
    }
    page + include_str!("../../templates/merging.md")
}

const HEAD: &str = "\
# The keys of a sweep file

Generated from the doc comments in the code by `cargo run -- config-docs docs/config.md`; a test checks that it is current.

All keys are required where they apply: no default hides in the program. Off is written `0` or `\"none\"`. An unknown key is
refused, with the nearest known one. `reslab init FILE` writes a complete file with these words as comments.
";

fn key_table(keys: &[KeyDoc]) -> String {
    let mut table = String::from("| key | type | meaning |\n|---|---|---|\n");
    let cell = |text: &str| text.replace('|', "\\|");
    for key in keys {
        let _ = writeln!(table, "| `{}` | {} | {} |", key.key, cell(&key.kind), cell(&key.meaning));
    }
    table
}
