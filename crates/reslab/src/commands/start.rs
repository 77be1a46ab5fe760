//! `reslab start FILE`: what each arm makes of its pretrained network, before a step is taken. Trains and writes nothing.

use anyhow::Result;
use reslab_data::DataConfig;
use reslab_record::PlannedRun;
use reslab_residual::Registry;
use reslab_torch::{keep_freed_memory, open_device, set_threads};
use reslab_train::Learner;

use super::sweep::ensure_data;
use crate::columns::columns;
use crate::execution::config_of;
use crate::outcome::{Exit, Usage};
use crate::planning::{FileOptions, Fit, Selection};
use crate::sources::DataOptions;
use crate::terminal::{note, say};

/// Shown below the arguments.
pub(crate) const HELP: &str = "\
features changed: |F' - F| / |F| over the features F of the validation images with the file's gammas, and F' as the run would start; 0 is the same function. \
k-NN: share of the validation images that their nearest training images get right (finetune.knn), by F and by F'. Arms that differ in their optimizer \
alone are shown once.";

/// Arguments of `start`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    file: FileOptions,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    data: DataOptions,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    let planned = arguments.file.plan(registry, Fit::Required)?;
    let runs = distinct(planned.pick(&arguments.selection)?);
    if runs.is_empty() {
        return Err(Usage::error("no arm of this file takes over a pretrained network (finetune.weights = \"file\")"));
    }
    ensure_data(&runs, &arguments.data)?;
    let device = open_device(&planned.devices.names[0])?;
    set_threads(arguments.file.threads as i32);
    keep_freed_memory();
    let sources = arguments.data.sources();
    let mut rows = Vec::new();
    for run in &runs {
        note(format_args!("looking at {} ...", run.arm));
        let config = config_of(run, registry)?;
        let data = run.config.get("data").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        let splits = reslab_data::load(&DataConfig::parse(&data)?, &sources, device)?;
        let learner = Learner::new(&config, splits, run.seed, device)?;
        let Some(found) = learner.start() else { continue };
        note(&found.loaded);
        let percent = |value: f64| format!("{:.2} %", 100.0 * value);
        let [before, after] = found.knn.map_or(["-".to_owned(), "-".to_owned()], |knn| knn.map(percent));
        rows.push(vec![
            run.arm.clone(),
            percent(found.feature_change),
            format!("{:.4}", found.feature_cosine),
            before,
            after,
        ]);
    }
    columns(&["arm", ">features changed", ">cosine", ">k-NN before", ">k-NN after"], &rows).iter().for_each(say);
    Ok(Exit::Done)
}

/// One run per arm that takes over a file, of those that differ in more than their optimizer and seed.
fn distinct(runs: Vec<PlannedRun>) -> Vec<PlannedRun> {
    let mut seen: Vec<toml::Table> = Vec::new();
    let takes_over = |run: &PlannedRun| {
        let weights = run.config.get("finetune").and_then(|table| table.get("weights")).and_then(toml::Value::as_str);
        weights == Some("file")
    };
    let mut is_new = |run: &PlannedRun| {
        let mut config = run.config.clone();
        config.remove("optim");
        let is_new = !seen.contains(&config);
        if is_new {
            seen.push(config);
        }
        is_new
    };
    runs.into_iter().filter(takes_over).filter(&mut is_new).collect()
}
