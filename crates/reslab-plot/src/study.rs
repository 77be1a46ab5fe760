//! A sweep's records as the plots need them: the series of each run, and the runs of each line and panel.

use reslab_record::{
    Axis, Branch, EvalRow, LayerRow, Limits, Outcome, PlannedRun, ProbeRow, Split, StepRow, Weights, read_rows_within,
};
use reslab_report::{Run, SpikeRule, Sweep, Table, spike_score};
use std::path::Path;

/// A sweep with the rows of its runs.
pub(crate) struct Study<'a> {
    pub sweep: &'a Sweep,
    pub table: &'a Table,
    /// Of each run of the sweep, in its order.
    pub records: Vec<Records>,
}

/// The rows of one run, cut down to what is plotted. What is missing or damaged is simply not there: the table names it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    pub steps: Vec<u64>,
    pub loss: Vec<f64>,
    pub grad_norm: Vec<f64>,
    /// Step and norm of each spike of the gradient norm.
    pub spikes: Vec<(f64, f64)>,
    /// Step and accuracy on the validation split.
    pub accuracy: Vec<(f64, f64)>,
    pub joins: Vec<Join>,
    pub blocks: Vec<Block>,
}

/// The figures of one join at one step; NaN where one is not defined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Join {
    pub step: u64,
    pub block: u64,
    pub branch: Branch,
    figures: [f64; 6],
}

/// A figure of joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    Ratio,
    Gamma,
    ResidualRms,
    GateMean,
    GateSaturated,
    Cosine,
}

/// The figures of one block on the probe batch at one step; NaN where one is not defined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub step: u64,
    pub block: u64,
    figures: [f64; 3],
}

/// A figure of blocks on the probe batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    LogitMax,
    Entropy,
    Similarity,
}

impl Block {
    fn new(row: &ProbeRow) -> Self {
        // In the order of `Probe`.
        let figures = [row.attention_logit_max, row.attention_entropy, row.token_similarity];
        Self { step: row.step, block: row.block, figures: figures.map(|figure| figure.unwrap_or(f64::NAN)) }
    }

    pub fn get(&self, figure: Probe) -> f64 {
        self.figures[figure as usize]
    }
}

impl Join {
    fn new(row: &LayerRow) -> Self {
        // A gate's learned number is the end of its range and multiplies nothing by itself: drawn as a gamma it would be
        // the largest of all.
        let gamma_abs = row.gamma_abs.filter(|_| row.gate_mean.is_none());
        // In the order of `Figure`.
        let figures = [row.ratio, gamma_abs, row.residual_rms, row.gate_mean, row.gate_saturated, row.cosine];
        let LayerRow { step, block, branch, .. } = *row;
        Self { step, block, branch, figures: figures.map(|figure| figure.unwrap_or(f64::NAN)) }
    }

    pub fn get(&self, figure: Figure) -> f64 {
        self.figures[figure as usize]
    }
}

impl Records {
    fn read(dir: &Path, planned: &PlannedRun) -> Self {
        let limits = Limits::of(&planned.config);
        let steps = read_rows_within::<StepRow>(dir, &limits).rows;
        let evals = read_rows_within::<EvalRow>(dir, &limits).rows;
        let layers = read_rows_within::<LayerRow>(dir, &limits).rows;
        let on_validation = |row: &&EvalRow| row.split == Split::Val && row.weights == Weights::Raw;
        let grad_norm: Vec<f64> = steps.iter().map(|row| row.grad_norm).collect();
        Self {
            steps: steps.iter().map(|row| row.step).collect(),
            loss: steps.iter().map(|row| row.loss).collect(),
            spikes: spikes(&steps, &grad_norm),
            grad_norm,
            accuracy: evals.iter().filter(on_validation).map(|row| (row.step as f64, row.top1)).collect(),
            joins: layers.iter().map(Join::new).collect(),
            blocks: read_rows_within::<ProbeRow>(dir, &limits).rows.iter().map(Block::new).collect(),
        }
    }

    /// Step and figure of each step.
    pub fn series(&self, figures: &[f64]) -> Vec<(f64, f64)> {
        self.steps.iter().map(|step| *step as f64).zip(figures.iter().copied()).collect()
    }
}

/// The finite spikes by the table's rule, asked for one value at a time.
fn spikes(steps: &[StepRow], norms: &[f64]) -> Vec<(f64, f64)> {
    let rule = SpikeRule::OLMO_CORE;
    let windows = norms.windows(rule.window + 1).zip(&steps[rule.window.min(steps.len())..]);
    let found = windows.filter(|(window, _)| spike_score(window, rule) == Some(1.0));
    found.map(|(_, row)| (row.step as f64, row.grad_norm)).filter(|(_, norm)| norm.is_finite()).collect()
}

/// The runs of a line: one arm at one point, over seeds.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// The point, as `lr=1e-3`; empty where there is none.
    pub label: String,
    /// Places in [`Study::records`] and in the sweep's runs.
    pub runs: Vec<usize>,
}

/// A panel: one arm with its lines.
#[derive(Debug, Clone)]
pub(crate) struct Arm {
    pub name: String,
    /// Its name without its point.
    pub base: String,
    pub is_baseline: bool,
    pub lines: Vec<Line>,
}

impl<'a> Study<'a> {
    /// Reads the rows of every run, in threads: a run's rows are read by themselves.
    pub fn read(dir: &Path, sweep: &'a Sweep, table: &'a Table) -> Self {
        let read = |run: &Run| Records::read(&run.planned.dir(dir), &run.planned);
        Self { sweep, table, records: reslab_report::map_parallel(&sweep.runs, read) }
    }

    /// Whether an axis pairs an arm with the baseline, as in the table.
    fn is_point(&self, axis: &Axis) -> bool {
        axis.grid || self.sweep.plan.select.contains(&axis.key)
    }

    /// The arms in plan order, with one line per point.
    pub fn arms(&self) -> Vec<Arm> {
        self.arms_by(|_| false)
    }

    /// The same where the axes that `hide` picks stand neither in the arm's name nor in the line's.
    pub fn arms_by(&self, hide: impl Fn(&Axis) -> bool) -> Vec<Arm> {
        let mut arms: Vec<Arm> = Vec::new();
        for (index, run) in self.sweep.runs.iter().enumerate() {
            let name = run.planned.name_without(|axis| self.is_point(axis) || hide(axis));
            let label = point(&run.planned, |axis| self.is_point(axis) && !hide(axis));
            let arm = match arms.iter().position(|arm| arm.name == name) {
                Some(at) => &mut arms[at],
                None => {
                    let is_baseline = name == self.table.baseline;
                    arms.push(Arm { base: name.clone(), name, is_baseline, lines: Vec::new() });
                    arms.last_mut().expect("an arm was just pushed")
                }
            };
            match arm.lines.iter_mut().find(|line| line.label == label) {
                Some(line) => line.runs.push(index),
                None => arm.lines.push(Line { label, runs: vec![index] }),
            }
        }
        arms
    }

    /// Every arm at every point by itself, as the rows of the table.
    pub fn rows(&self) -> Vec<Arm> {
        let arms = self.arms().into_iter();
        arms.flat_map(|arm| {
            arm.lines.into_iter().map(move |line| Arm {
                name: self.sweep.runs[line.runs[0]].planned.arm.clone(),
                base: arm.base.clone(),
                is_baseline: arm.is_baseline,
                lines: vec![Line { label: String::new(), ..line }],
            })
        })
        .collect()
    }

    /// How many points every arm has; 0 where that differs.
    pub fn points(&self) -> usize {
        let counts: Vec<usize> = self.arms().iter().map(|arm| arm.lines.len()).collect();
        if counts.windows(2).all(|pair| pair[0] == pair[1]) { counts.first().copied().unwrap_or(0) } else { 0 }
    }

    /// The sweep's name and profile.
    pub fn subject(&self) -> String {
        let plan = &self.sweep.plan;
        plan.profile.as_ref().map_or(plan.name.clone(), |profile| format!("{}, profile {profile}", plan.name))
    }

    /// How many of these runs are diverged.
    pub fn diverged(&self, runs: &[usize]) -> usize {
        runs.iter().filter(|run| self.sweep.runs[**run].finished().is_some_and(|f| f.diverged)).count()
    }

    /// Whether a run ended since loss or gradient norm was not finite.
    pub fn is_non_finite(&self, run: usize) -> bool {
        let finished = self.sweep.runs[run].finished();
        finished.is_some_and(|f| matches!(f.done.outcome, Outcome::NonFinite { .. }))
    }

    /// Classes of the data, where a run has recorded them.
    pub fn classes(&self) -> Option<f64> {
        self.sweep.runs.iter().find_map(Run::finished).map(|f| f.done.num_classes as f64)
    }
}

fn point(run: &PlannedRun, shown: impl Fn(&Axis) -> bool) -> String {
    let shown = run.axes.iter().filter(|axis| shown(axis));
    shown.map(|axis| format!("{}={}", axis.label, axis.value)).collect::<Vec<_>>().join(", ")
}
