//! What stands above a table, so that it can stand alone: question, data, seeds, device, code, file.

use std::collections::BTreeSet;
use std::path::Path;

use crate::origin;
use crate::sweep::{Run, Sweep};

/// What a table is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// The sweep's name.
    pub name: String,
    /// Its lines, each a word and what it says.
    pub lines: Vec<(&'static str, String)>,
}

impl Heading {
    pub(crate) fn new(sweep: &Sweep) -> Self {
        let plan = &sweep.plan;
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = vec![("Question", words(&plan.question))];
        let mut add = |word, text: String| {
            if !text.is_empty() {
                lines.push((word, text));
            }
        };
        add("Data", shared(sweep, &["data.dataset", "data.train_images", "data.val_images"]));
        let model = ["model.kind", "model.depth", "model.width", "model.num_heads", "model.patch_size"];
        add("Network", shared(sweep, &model));
        let train = ["train.steps", "train.epochs", "train.batch", "train.clip", "train.precision", "train.report"];
        add("Training", shared(sweep, &train));
        let optim = ["optim.kind", "optim.lr", "optim.weight_decay", "optim.warmup_steps", "optim.schedule"];
        add("Optimizer", shared(sweep, &optim));
        let seeds: Vec<String> = plan.seeds.iter().map(u64::to_string).collect();
        add("Seeds", format!("{} (n = {})", seeds.join(", "), seeds.len()));
        add("Metric", format!("{}; baseline: {}", plan.metric, plan.baseline));
        add("Device", distinct(sweep, device));
        add("Code", distinct(sweep, code));
        add("Config", config(sweep));
        Self { name: plan.name.clone(), lines }
    }
}

/// The values of `keys` that all runs share: `dataset digits, train_images 1200`.
fn shared(sweep: &Sweep, keys: &[&str]) -> String {
    let value = |run: &Run, key: &str| -> Option<String> {
        let (table, key) = key.split_once('.')?;
        match run.planned.config.get(table)?.get(key)? {
            toml::Value::String(word) => Some(word.clone()),
            value => Some(value.to_string()),
        }
    };
    let mut found = Vec::new();
    for key in keys {
        let mut values = sweep.runs.iter().map(|run| value(run, key));
        let Some(Some(first)) = values.next() else { continue };
        if values.all(|other| other.as_ref() == Some(&first)) {
            found.push(format!("{} {first}", key.split_once('.').map_or(*key, |(_, key)| key)));
        }
    }
    found.join(", ")
}

/// What the runs' environments say, each different thing once.
fn distinct(sweep: &Sweep, say: fn(&reslab_record::Env) -> String) -> String {
    let all: BTreeSet<String> = sweep.runs.iter().filter_map(|run| run.env.as_ref()).map(say).collect();
    all.into_iter().collect::<Vec<_>>().join("; ")
}

pub(crate) fn device(env: &reslab_record::Env) -> String {
    // cuda:0 and cuda:1 of one machine are the same kind of device.
    let kind = env.device.split(':').next().unwrap_or_default();
    let name = env.device_name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    format!("{kind}{name}, {} thread{} a run", env.threads, if env.threads == 1 { "" } else { "s" })
}

pub(crate) fn code(env: &reslab_record::Env) -> String {
    let commit = env.git_commit.as_ref().map_or("unknown", |commit| short(commit, 12));
    format!("commit {commit}{}, reslab {}, libtorch {}", origin::changes(env), env.reslab, env.libtorch)
}

/// The first digits of a hash.
pub(crate) fn short(hash: &str, digits: usize) -> &str {
    hash.get(..digits).unwrap_or(hash)
}

fn config(sweep: &Sweep) -> String {
    let plan = &sweep.plan;
    let path = Path::new(&plan.source.path);
    let name = if path.is_absolute() {
        path.file_name().unwrap_or_default().to_string_lossy()
    } else {
        path.to_string_lossy()
    };
    let mut text = format!("{name} (sha256 {})", short(&plan.source.sha256, 12));
    if let Some(profile) = &plan.profile {
        text += &format!(", profile {profile}");
    }
    if !plan.set.is_empty() {
        text += &format!(", with {}", plan.set.join(", "));
    }
    text
}
