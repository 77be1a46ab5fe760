//! What each plot of lines is about.

use reslab_report::{Metric, Run};

use crate::curves::{Curves, Line, Lines};
use crate::figure::{Axis, Figure};
use crate::scale::{Scale, Tick};
use crate::scene::Mark;
use crate::series::smooth;
use crate::study::{Arm, Records, Study};

/// Steps that the training loss is smoothed over, as in the table's final loss.
pub const SMOOTH_STEPS: f64 = 20.0;
const STEP: &str = "optimizer step";
const READ: &str = "Line: mean over n seeds. Band: from the smallest to the largest seed.";

/// Training loss against step.
pub(crate) fn loss(study: &Study) -> Result<Figure, String> {
    let arms = lines(study, study.arms(), |records| smooth(&records.series(&records.loss), SMOOTH_STEPS));
    // Twice the loss of a guess: what lies above has diverged, and would flatten the rest.
    let cut = study.classes().map(|classes| 2.0 * libm::log(classes));
    against_step(study, arms, |curves| Curves {
        title: "Training loss against step".to_owned(),
        about: format!("Smoothed: each figure is the mean of the {SMOOTH_STEPS} steps up to it. {READ}"),
        y: format!("training loss, mean of {SMOOTH_STEPS} steps (nats)"),
        cut,
        ..curves
    })
}

/// Validation accuracy against step.
pub(crate) fn accuracy(study: &Study) -> Result<Figure, String> {
    let percent = |records: &Records| records.accuracy.iter().map(|(x, y)| (*x, 100.0 * y)).collect();
    let arms = lines(study, study.arms(), percent);
    against_step(study, arms, |curves| Curves {
        title: "Validation accuracy against step".to_owned(),
        about: format!("Top-1 on the validation split, weights as trained. {READ}"),
        x: with_room(curves.x),
        y: "validation accuracy, top-1 (%)".to_owned(),
        ..curves
    })
}

/// Gradient norm against step, with spikes.
pub(crate) fn grad_norm(study: &Study) -> Result<Figure, String> {
    // A panel per point: bands of a figure that is this noisy hide each other.
    let mut arms = lines(study, study.rows(), |records| records.series(&records.grad_norm));
    let mut judged = false;
    for (lines, arm) in arms.iter_mut().zip(study.rows()) {
        for (line, runs) in lines.lines.iter_mut().zip(&arm.lines) {
            let records = || runs.runs.iter().map(|run| &study.records[*run]);
            line.events = records().flat_map(|records| records.spikes.iter().copied()).collect();
            judged |= records().any(|records| records.steps.len() > 128);
        }
        let spikes = lines.lines.iter().map(|line| line.events.len()).sum::<usize>();
        let spikes = format!("{spikes} spike{}", if spikes == 1 { "" } else { "s" });
        if judged {
            lines.detail = if lines.detail.is_empty() { spikes } else { format!("{spikes}, {}", lines.detail) };
        }
    }
    let rule = if judged {
        "Spike: more than 6 standard deviations above the mean of the 128 steps before, in one seed."
    } else {
        "No run has the 129 steps that it takes to tell a spike."
    };
    against_step(study, arms, |curves| Curves {
        title: "Gradient norm against step".to_owned(),
        about: format!("2-norm of all gradients, before clipping. {READ} {rule}"),
        y: "gradient norm (log)".to_owned(),
        log: true,
        x: with_room(curves.x),
        events: Some((Mark::Arrow, "spike")),
        per_arm: study.points(),
        ..curves
    })
}

/// Final loss against learning rate, where that is an axis.
pub(crate) fn learning_rate(study: &Study) -> Result<Figure, String> {
    let arms = against(study, "optim.lr", |run| run.finished()?.scored_loss())
        .ok_or("no arm has more than one learning rate")?;
    let x = arms_x(&arms);
    Curves {
        title: "Final loss against learning rate".to_owned(),
        about: format!(
            "Training loss, mean of the last {SMOOTH_STEPS} steps; a diverged run counts as a guess, ln C, and is marked. {READ}"
        ),
        x: marked("learning rate (log)", &x, Scale::log(x.iter().copied()).ok_or("no rate is positive")?),
        y: "final training loss (nats)".to_owned(),
        ..blank(study, arms)
    }
    .figure()
}

/// The metric against depth, where that varies.
pub(crate) fn depth(study: &Study) -> Result<Figure, String> {
    let metric = &study.table.metric;
    let factor = if metric.is_accuracy() { 100.0 } else { 1.0 };
    let arms = against(study, "model.depth", |run| Some(factor * run.finished()?.score(metric)?))
        .ok_or("no arm has more than one depth")?;
    let x = arms_x(&arms);
    let scale = Scale::linear(x.iter().copied()).ok_or("no depth is known")?;
    Curves {
        title: format!("{} against depth", metric.name()),
        about: format!("A diverged run counts as chance, and is marked. {READ}"),
        x: marked("depth (blocks)", &x, scale),
        y: unit(metric),
        ..blank(study, arms)
    }
    .figure()
}

/// A metric's axis: `test/top1 (%)`.
pub(crate) fn unit(metric: &Metric) -> String {
    let unit = if metric.is_accuracy() {
        " (%)"
    } else if metric.is_loss() {
        " (nats)"
    } else {
        ""
    };
    format!("{}{unit}", metric.name())
}

fn blank(study: &Study, arms: Vec<Lines>) -> Curves {
    Curves {
        title: String::new(),
        about: String::new(),
        x: Axis::new(STEP, Scale::Linear { low: 0.0, high: 1.0 }),
        per_arm: 0,
        y: String::new(),
        log: false,
        cut: None,
        baseline: study.table.baseline.clone(),
        events: Some((Mark::Cross, "diverged run")),
        arms,
    }
}

fn against_step(study: &Study, arms: Vec<Lines>, about: impl FnOnce(Curves) -> Curves) -> Result<Figure, String> {
    let last = arms_x(&arms).into_iter().fold(0.0, f64::max);
    let scale = Scale::Linear { low: 0.0, high: last.max(1.0) };
    let blank = Curves { x: Axis::new(STEP, scale), events: None, ..blank(study, arms) };
    about(blank).figure()
}

/// The same axis with room for a mark at the last step.
fn with_room(axis: Axis) -> Axis {
    let (low, high) = axis.scale.ends();
    Axis { scale: Scale::Linear { low, high: 1.03 * high }, ..axis }
}

fn arms_x(arms: &[Lines]) -> Vec<f64> {
    arms.iter().flat_map(|arm| &arm.lines).flat_map(|line| line.seeds.iter().flatten().map(|p| p.0)).collect()
}

/// An axis that is marked at the figures there are, where those are few.
fn marked(title: &str, x: &[f64], scale: Scale) -> Axis {
    let mut values = x.to_vec();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let small = values.iter().any(|x| *x < 0.01);
    let label = |x: &f64| if small { format!("{x:e}") } else { x.to_string() };
    let ticks = values.iter().map(|value| Tick { value: *value, label: label(value) });
    Axis { marked: if values.len() <= 6 { ticks.collect() } else { Vec::new() }, ..Axis::new(title, scale) }
}

/// The lines of these arms, one series per run.
fn lines(study: &Study, arms: Vec<Arm>, series: impl Fn(&Records) -> Vec<(f64, f64)>) -> Vec<Lines> {
    let line = |line: &crate::study::Line| {
        let seeds: Vec<Vec<(f64, f64)>> = line.runs.iter().map(|run| series(&study.records[*run])).collect();
        let ended = line.runs.iter().zip(&seeds).filter(|(run, _)| study.is_non_finite(**run));
        let ends = ended.filter_map(|(_, series)| series.iter().rfind(|point| point.1.is_finite()).copied()).collect();
        Line { label: line.label.clone(), seeds, events: Vec::new(), ends }
    };
    arms.iter().map(|arm| named(study, arm, arm.lines.iter().map(line).collect())).collect()
}

/// The lines of every arm against an axis: per seed one point for each of the axis's values. `None` where no arm has
/// two of them.
fn against(study: &Study, key: &str, figure: impl Fn(&Run) -> Option<f64>) -> Option<Vec<Lines>> {
    let arms = study.arms_by(|axis| axis.key == key);
    let panels: Vec<Lines> = arms
        .iter()
        .map(|arm| {
            let lines = arm.lines.iter().map(|line| line_against(study, line, key, &figure));
            named(study, arm, lines.collect())
        })
        .collect();
    let varies = |line: &Line| line.seeds.iter().any(|series| series.windows(2).any(|pair| pair[0].0 < pair[1].0));
    panels.iter().flat_map(|arm| &arm.lines).any(varies).then_some(panels)
}

fn line_against(study: &Study, line: &crate::study::Line, key: &str, figure: impl Fn(&Run) -> Option<f64>) -> Line {
    let mut seeds: Vec<(u64, Vec<(f64, f64)>)> = Vec::new();
    let mut events = Vec::new();
    for run in line.runs.iter().map(|run| &study.sweep.runs[*run]) {
        let Some(x) = configured(run, key) else { continue };
        let point = (x, figure(run).unwrap_or(f64::NAN));
        if run.finished().is_some_and(|finished| finished.diverged) {
            events.push(point);
        }
        match seeds.iter_mut().find(|(seed, _)| *seed == run.planned.seed) {
            Some((_, series)) => series.push(point),
            None => seeds.push((run.planned.seed, vec![point])),
        }
    }
    for (_, series) in &mut seeds {
        series.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let seeds = seeds.into_iter().map(|(_, series)| series).collect();
    Line { label: line.label.clone(), seeds, events, ends: Vec::new() }
}

/// A number of a run's resolved configuration.
fn configured(run: &Run, key: &str) -> Option<f64> {
    let (table, name) = key.split_once('.')?;
    let value = run.planned.config.get(table)?.get(name)?;
    value.as_float().or_else(|| value.as_integer().map(|x| x as f64))
}

fn named(study: &Study, arm: &Arm, lines: Vec<Line>) -> Lines {
    let runs: Vec<usize> = arm.lines.iter().flat_map(|line| line.runs.iter().copied()).collect();
    let detail = match study.diverged(&runs) {
        0 => String::new(),
        diverged => format!("{diverged} diverged"),
    };
    Lines { name: arm.name.clone(), is_baseline: arm.is_baseline, lines, detail }
}
