//! What the records of a run with a result must hold, by its resolved configuration: what they do not is named.

use reslab_record::{Done, EvalRow, Limits, Outcome, Row, Rows, Split, Weights};

use crate::metric::Metric;

/// Why a done.json cannot be that of a run of this configuration: it is no result then.
pub(crate) fn refuse(done: &Done, limits: &Limits) -> Option<String> {
    let steps = done.steps;
    if done.num_classes == 0 {
        return Some("0 classes".to_owned());
    }
    match (limits.steps(), done.outcome) {
        (Some(planned), Outcome::Finished) if steps < planned => {
            Some(format!("finished after {steps} steps, but the config has {planned}"))
        }
        (Some(planned), _) if steps > planned => Some(format!("{steps} steps, but the config has {planned}")),
        _ => None,
    }
}

/// Takes out the metrics of a finished run that are no figures. A loss stays: not finite, it says that the run diverged.
pub(crate) fn clean(done: &mut Done, problems: &mut Vec<String>) {
    if done.outcome != Outcome::Finished {
        return;
    }
    done.metrics.retain(|name, value| {
        let metric = Metric::new(name.as_str());
        let why = match *value {
            x if !x.is_finite() && !metric.is_loss() => format!("{x} in a run that says finished"),
            x if metric.is_accuracy() && !(0.0..=1.0).contains(&x) => format!("{x}, and not from 0 to 1"),
            _ => return true,
        };
        problems.push(format!("done.json: {name} is {why}: left out"));
        false
    });
}

/// How often a run looks at what, by its configuration; `None` where that does not say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    /// Evaluations on the validation split.
    looks: Option<u64>,
    /// Evaluations at each of them, and of the test split: of the weights as trained, and of their average.
    weights: u64,
    /// Steps with telemetry.
    watched: Option<u64>,
    depth: Option<u64>,
    finished: bool,
    /// Whether the program that computed the run looked into the network at all: earlier ones did not.
    probes: bool,
}

impl Schedule {
    /// Of the run that ended as `done` says.
    pub(crate) fn new(config: &toml::Table, done: &Done, limits: &Limits) -> Self {
        let get = |table: &str, key: &str| config.get(table)?.get(key);
        let number = |table: &str, key: &str| u64::try_from(get(table, key)?.as_integer()?).ok();
        let finished = done.outcome == Outcome::Finished;
        let validates = get("data", "val_images").map(|images| images.as_integer() != Some(0));
        // One follows the last step of every interval but the run's last; the end has its own.
        let on_the_way = number("train", "eval_every")
            .map(|every| done.steps.saturating_sub(1).checked_div(every).unwrap_or(0))
            .map(|looks| looks + u64::from(finished));
        let looks = validates.zip(on_the_way).map(|(validates, looks)| if validates { looks } else { 0 });
        let every = number("train", "telemetry_every");
        let has_average = get("train", "ema_decay").and_then(toml::Value::as_float).is_some_and(|decay| decay > 0.0);
        Self {
            looks,
            weights: if has_average { 2 } else { 1 },
            watched: every.map(|every| if every == 0 { 0 } else { done.steps.div_ceil(every) }),
            depth: limits.depth(),
            finished,
            probes: every != Some(0) && done.metrics.keys().any(|name| name.starts_with("probe/")),
        }
    }

    /// Rows of evals.csv.
    pub(crate) fn evals(&self) -> Option<u64> {
        Some(self.weights * (self.looks? + u64::from(self.finished)))
    }

    /// Rows of probes.csv; 0 where there need be no such file.
    pub(crate) fn probes(&self) -> Option<u64> {
        if self.probes { self.looks?.checked_mul(self.depth?) } else { Some(0) }
    }

    /// Rows of layers.csv.
    pub(crate) fn layers(&self) -> Option<u64> {
        self.watched?.checked_mul(2)?.checked_mul(self.depth?)
    }
}

/// What is wrong with a file, or that it has another number of rows than `expected`.
pub(crate) fn complaint<R: Row>(read: &Rows<R>, expected: Option<u64>) -> Option<String> {
    let found = read.rows.len() as u64;
    let differs = expected.filter(|expected| *expected != found);
    read.problem.clone().or(differs.map(|expected| {
        let rows = if found == 1 { "row" } else { "rows" };
        format!("{}: {found} {rows}, but by its config the run has {expected}", R::FILE)
    }))
}

/// The metrics of a result that no evaluation has, though evals.csv is whole.
pub(crate) fn unfounded(done: &Done, evals: &Rows<EvalRow>) -> Vec<String> {
    let figure = |row: &EvalRow, name: &str| match name {
        "loss" => Some(row.loss),
        "top1" => Some(row.top1),
        "top5" => Some(row.top5),
        _ => None,
    };
    let is_founded = |name: &str, value: f64| -> Option<bool> {
        let (split, name) = name.split_once('/')?;
        let split = [Split::Val, Split::Test].into_iter().find(|known| known.to_string() == split)?;
        let (name, weights) = match name.strip_suffix("_ema") {
            Some(name) => (name, Weights::Ema),
            None => (name, Weights::Raw),
        };
        let known = ["loss", "top1", "top5"].contains(&name);
        let mut rows = evals.rows.iter().filter(|row| (row.split, row.weights) == (split, weights));
        known.then(|| rows.any(|row| figure(row, name).is_some_and(|found| found.to_bits() == value.to_bits())))
    };
    if evals.problem.is_some() {
        return Vec::new();
    }
    let unfounded = done.metrics.iter().filter(|(name, value)| is_founded(name, **value) == Some(false));
    unfounded.map(|(name, value)| format!("done.json: {name} is {value}, which no row of evals.csv has")).collect()
}
