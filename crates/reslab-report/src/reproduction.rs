//! A recorded sweep against the same runs, computed anew: which are equal, which differ no more than chance allows, and
//! which differ.

use std::path::Path;

use reslab_record::{EvalRow, read_rows, same_records};

use crate::ReportError;
use crate::judge::{Group, judge};
use crate::metric::Metric;
use crate::origin;
use crate::stats::Summary;
use crate::sweep::{Finished, Run, Sweep, read_sweep};

/// How equal the records of two computations of one run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Equality {
    /// All records have equal bytes, but for columns of times.
    Records,
    /// All metrics, the number of steps and the final loss are equal to the last bit.
    Metrics,
    /// Something differs.
    None,
}

/// What is said of a figure in two computations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The runs are equal.
    Identical,
    /// It differs by no more than chance allows.
    Within,
    /// It differs by more.
    Different,
    /// Nothing is known of chance: a loss, and no arm has two seeds.
    NotJudged,
    /// There is no new result.
    NotDone,
}

/// One figure, as recorded and as computed anew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// As recorded: of a run, or the mean of an arm.
    pub recorded: Option<f64>,
    /// As computed anew.
    pub reproduced: Option<f64>,
    /// Two-sided p of the difference by chance alone, where that decides.
    pub p: Option<f64>,
    /// The same after Holm's correction over all that were judged.
    pub adjusted: Option<f64>,
    /// What it means.
    pub verdict: Verdict,
}

/// One run, computed twice.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The arm's full name, its grid point included.
    pub arm: String,
    /// The seed.
    pub seed: u64,
    /// How equal the records are.
    pub equality: Equality,
    /// Whether the recorded run diverged, and whether the new one did: such runs are compared by that alone.
    pub diverged: (bool, bool),
    /// The metric of the comparison.
    pub metric: Pair,
    /// The final training loss.
    pub final_loss: Pair,
}

/// One arm's means over the seeds that were computed twice, without diverged runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmPair {
    /// The arm's full name.
    pub arm: String,
    /// Means of the metric.
    pub metric: Pair,
    /// Means of the final training loss.
    pub final_loss: Pair,
    /// Paired differences of the metric, new - recorded.
    pub metric_difference: Option<Summary>,
    /// Paired differences of the final loss.
    pub final_loss_difference: Option<Summary>,
}

/// A recorded sweep against its reproduction.
#[derive(Debug, Clone, PartialEq)]
pub struct Reproduction {
    /// The sweep's name.
    pub name: String,
    /// The metric of the comparison.
    pub metric: Metric,
    /// Which code recorded it where, and which reproduced it where.
    pub origins: Vec<(&'static str, String)>,
    /// All runs, in plan order.
    pub cells: Vec<Cell>,
    /// All arms, in plan order.
    pub arms: Vec<ArmPair>,
    /// What must be known beside the figures.
    pub notes: Vec<String>,
}

/// A run's two computations.
pub(crate) struct Twice<'a> {
    pub(crate) recorded: &'a Finished,
    pub(crate) reproduced: Option<&'a Finished>,
    pub(crate) equality: Equality,
    pub(crate) run: &'a Run,
    pub(crate) anew: &'a Run,
}

/// Compares the runs with these ids in the sweep's folder `recorded` with those in `reproduced`. Chance is judged from
/// all seeds that are recorded. Runs without a recorded result are left out.
///
/// # Errors
/// One of the plans can't be read.
pub fn compare(recorded: &Path, reproduced: &Path, ids: &[String]) -> Result<Reproduction, ReportError> {
    let (old, new) = (read_sweep(recorded)?, read_sweep(reproduced)?);
    let metric = Metric::new(old.plan.metric.as_str());
    let runs: Vec<Twice> = old.runs.iter().filter_map(|run| twice(run, &new, ids, (recorded, reproduced))).collect();
    let (cells, arms) = judge(&groups(&old, &runs, &metric, recorded), &metric);
    let notes = notes(&old, &runs, recorded);
    let origins = origins(&runs);
    Ok(Reproduction { name: old.plan.name, metric, origins, cells, arms, notes })
}

impl Reproduction {
    /// Whether there is a new result of every run, and none differs by more than chance allows.
    pub fn holds(&self) -> bool {
        let bad = |pair: &Pair| matches!(pair.verdict, Verdict::Different | Verdict::NotDone);
        let cells = self.cells.iter().flat_map(|cell| [&cell.metric, &cell.final_loss]);
        !cells.chain(self.arms.iter().flat_map(|arm| [&arm.metric, &arm.final_loss])).any(bad)
    }
}

fn twice<'a>(run: &'a Run, new: &'a Sweep, ids: &[String], dirs: (&Path, &Path)) -> Option<Twice<'a>> {
    let recorded = run.finished().filter(|_| ids.contains(&run.planned.id))?;
    let anew = new.runs.iter().find(|other| other.planned.id == run.planned.id)?;
    let reproduced = anew.finished();
    let equality = match reproduced {
        Some(_) if same_records(&run.planned.dir(dirs.0), &anew.planned.dir(dirs.1)) => Equality::Records,
        Some(other) if same_metrics(recorded, other) => Equality::Metrics,
        _ => Equality::None,
    };
    Some(Twice { recorded, reproduced, equality, run, anew })
}

fn same_metrics(a: &Finished, b: &Finished) -> bool {
    let bits = |f: &Finished| -> Vec<(String, u64)> {
        f.done.metrics.iter().map(|(name, value)| (name.clone(), value.to_bits())).collect()
    };
    (a.done.outcome, a.done.steps) == (b.done.outcome, b.done.steps)
        && bits(a) == bits(b)
        && a.final_loss.map(f64::to_bits) == b.final_loss.map(f64::to_bits)
}

/// The runs of each arm, with all that is recorded of the arm.
fn groups<'a>(old: &'a Sweep, runs: &'a [Twice<'a>], metric: &Metric, dir: &Path) -> Vec<Group<'a>> {
    let mut arms: Vec<&str> = Vec::new();
    old.runs.iter().for_each(|run| {
        if !arms.contains(&run.planned.arm.as_str()) {
            arms.push(&run.planned.arm);
        }
    });
    let group = |arm: &str| Group {
        arm: arm.to_owned(),
        runs: runs.iter().filter(|twice| twice.run.planned.arm == arm).collect(),
        recorded: old.runs.iter().filter(|run| run.planned.arm == arm).filter_map(Run::finished).collect(),
        images: images(old, arm, metric, dir),
    };
    arms.into_iter().map(group).collect()
}

/// Images that the metric is a share of.
fn images(old: &Sweep, arm: &str, metric: &Metric, dir: &Path) -> Option<u64> {
    let split = metric.name().split('/').next().filter(|_| metric.is_accuracy())?;
    let of_arm = old.runs.iter().filter(|run| run.planned.arm == arm);
    let of_run = |run: &Run| {
        let rows = read_rows::<EvalRow>(&run.planned.dir(dir)).rows;
        rows.iter().rev().find(|row| row.split.to_string() == split).map(|row| row.images)
    };
    of_arm.filter_map(of_run).find(|images| *images > 0)
}

fn origins(runs: &[Twice]) -> Vec<(&'static str, String)> {
    let old: Vec<&Run> = runs.iter().map(|twice| twice.run).collect();
    let new: Vec<&Run> = runs.iter().map(|twice| twice.anew).collect();
    let mut lines = vec![("Recorded", origin::of(&old)), ("Reproduced", origin::of(&new))];
    lines.retain(|(_, text)| !text.is_empty());
    lines
}

fn notes(old: &Sweep, runs: &[Twice], dir: &Path) -> Vec<String> {
    let list = |what: &str, holds: &dyn Fn(&Twice) -> bool| {
        let labels: Vec<String> = runs.iter().filter(|twice| holds(twice)).map(|twice| twice.run.label()).collect();
        (!labels.is_empty()).then(|| format!("{what}: {}.", labels.join("; ")))
    };
    let by_same = |twice: &Twice| {
        let on_cpu = twice.run.env.as_ref().is_some_and(|env| env.device == "cpu");
        on_cpu && twice.run.env == twice.anew.env && twice.reproduced.is_some()
    };
    let damaged: Vec<String> =
        old.runs.iter().flat_map(|run| run.problems.iter().map(|p| format!("{p} ({})", run.label()))).collect();
    let config = |twice: &Twice| {
        reslab_record::RunDir::open(&twice.run.planned.dir(dir))
            .and_then(|records| records.read_config())
            .is_ok_and(|config| config != twice.run.planned.config)
    };
    [
        list(
            "Not equal, though code, libtorch, threads and the processor's name are those of the record. On a CPU that \
             gives equal bits, unless processors of one name compute differently or records were changed",
            &|twice| twice.equality == Equality::None && by_same(twice),
        ),
        list("The plan, which was run, says otherwise than the record's config.toml", &config),
        list("Diverged in both, and compared by that alone", &|twice| diverged(twice) == (true, true)),
        list("Diverged as recorded, but not anew", &|twice| diverged(twice) == (true, false)),
        list("Diverged anew, but not as recorded", &|twice| diverged(twice) == (false, true)),
        list("No new result", &|twice| twice.reproduced.is_none()),
        (!damaged.is_empty()).then(|| format!("Recorded: {}.", damaged.join("; "))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether the two computations diverged; one that is not done did as the recorded one.
pub(crate) fn diverged(twice: &Twice) -> (bool, bool) {
    let recorded = twice.recorded.diverged;
    (recorded, twice.reproduced.map_or(recorded, |finished| finished.diverged))
}
