//! The curves as data for the page's script.

use reslab_plot::SMOOTH_STEPS;
use reslab_record::{Outcome, widen};
use reslab_report::{Sweep, Table};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::records::{Curve, Records};

/// All that the script draws. Runs of one sweep often share a curve (that of the learning rate): each stands here once.
#[derive(Serialize)]
pub(crate) struct Curves {
    arms: Vec<Arm>,
    /// As text: a script's numbers have 53 bits.
    seeds: Vec<String>,
    figures: Vec<Figure>,
    series: Vec<Series>,
    runs: Vec<Run>,
    thinned: bool,
    /// Steps of a mean.
    mean_of: f64,
}

/// A figure that can be chosen.
#[derive(Serialize)]
struct Figure {
    key: &'static str,
    name: &'static str,
    unit: &'static str,
    log: bool,
    /// The key of its mean of several steps, where there is one.
    mean: Option<&'static str>,
}

/// An arm at one point of the grid, and how its curves look.
#[derive(Serialize)]
pub(crate) struct Arm {
    pub name: String,
    /// Place of its colour among [`reslab_plot::line_colours`].
    pub line: usize,
    /// Which of the four dashes.
    pub dash: usize,
}

/// A curve: the first step and the distances from each to the next; the figures, null where one is not finite.
#[derive(Serialize, PartialEq)]
struct Series {
    x: Vec<u64>,
    y: Vec<Option<f64>>,
}

#[derive(Serialize)]
struct Run {
    arm: usize,
    seed: String,
    /// By the figure's key: the place in `series`.
    curves: BTreeMap<&'static str, usize>,
    /// By the figure's key: first steps of spike episodes.
    spikes: BTreeMap<&'static str, Vec<u64>>,
    /// The step at which loss or gradient norm was not finite.
    end: Option<u64>,
}

/// Looks of lines in page.css.
const LINES: usize = 7;
const DASHES: usize = 4;

/// A curve of a run, by the key of its figure.
type Pick = (&'static str, fn(&Records) -> &Curve, f64);

const FIGURES: [Figure; 4] = [
    Figure { key: "loss", name: "Training loss", unit: "nats", log: false, mean: Some("loss_mean") },
    Figure { key: "accuracy", name: "Validation accuracy", unit: "%", log: false, mean: None },
    Figure { key: "grad_norm", name: "Gradient norm", unit: "", log: true, mean: Some("grad_norm_mean") },
    Figure { key: "lr", name: "Learning rate", unit: "", log: false, mean: None },
];

const CURVES: [Pick; 6] = [
    ("loss", |records| &records.loss, 1.0),
    ("loss_mean", |records| &records.loss_mean, 1.0),
    ("accuracy", |records| &records.accuracy, 100.0),
    ("grad_norm", |records| &records.grad_norm, 1.0),
    ("grad_norm_mean", |records| &records.grad_norm_mean, 1.0),
    ("lr", |records| &records.lr, 1.0),
];

impl Curves {
    pub fn new(sweep: &Sweep, table: &Table, records: &[Records]) -> Self {
        let mut known = Known::default();
        let arms = arms(table);
        let runs = sweep.runs.iter().zip(records).map(|(run, records)| {
            let curves = CURVES.iter().filter_map(|(key, curve, factor)| {
                let curve = curve(records);
                (!curve.is_empty()).then(|| (*key, known.place(Series::new(curve, *factor))))
            });
            let [loss, grad_norm] = &records.spikes;
            let firsts = [("loss", loss), ("grad_norm", grad_norm)]
                .map(|(key, episodes)| (key, episodes.iter().map(|episode| episode.first).collect()));
            let end = run.finished().and_then(|finished| match finished.done.outcome {
                Outcome::NonFinite { step } => Some(step),
                Outcome::Finished => None,
            });
            let arm = arms.iter().position(|arm| arm.name == run.planned.arm).unwrap_or(0);
            Run { arm, seed: run.planned.seed.to_string(), curves: curves.collect(), spikes: firsts.into(), end }
        });
        let runs: Vec<Run> = runs.collect();
        let has = |figure: &Figure| runs.iter().any(|run| run.curves.contains_key(figure.key));
        let figures = FIGURES.into_iter().filter(has).collect();
        let seeds: BTreeSet<u64> = sweep.runs.iter().map(|run| run.planned.seed).collect();
        let seeds = seeds.iter().map(u64::to_string).collect();
        let thinned = records.iter().any(|records| records.is_thinned);
        Self { arms, seeds, figures, series: known.series, runs, thinned, mean_of: SMOOTH_STEPS }
    }

    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    /// JSON that may stand in a script element: no `<`, so that no text in it can end the element.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_value(self).map(|value| value.to_string());
        json.expect("numbers and strings are JSON").replace('<', "\\u003c")
    }
}

/// The rows of the table as arms with a look. Where every arm has several points, an arm has its colour and a point its
/// dashes; else colours come first.
pub(crate) fn arms(table: &Table) -> Vec<Arm> {
    let mut bases: Vec<&str> = Vec::new();
    let mut points: Vec<String> = Vec::new();
    let places: Vec<(usize, usize)> = table
        .rows
        .iter()
        .map(|row| {
            let labels: Vec<String> = row.point.iter().map(|axis| format!("{}={}", axis.key, axis.value)).collect();
            (place(&mut bases, row.base.as_str()), place(&mut points, labels.join(",")))
        })
        .collect();
    let look = |index: usize, (base, point): (usize, usize)| {
        if points.len() > 1 { (base, point) } else { (index, index / LINES) }
    };
    let arms = table.rows.iter().zip(places).enumerate().map(|(index, (row, at))| {
        let (line, dash) = look(index, at);
        Arm { name: row.arm.clone(), line: line % LINES, dash: dash % DASHES }
    });
    arms.collect()
}

/// Where `what` stands in the list, at whose end it is put if it does not.
fn place<T: PartialEq>(list: &mut Vec<T>, what: T) -> usize {
    list.iter().position(|known| *known == what).unwrap_or_else(|| {
        list.push(what);
        list.len() - 1
    })
}

impl Series {
    fn new(curve: &Curve, factor: f64) -> Self {
        let mut before = 0;
        let mut x = Vec::with_capacity(curve.len());
        for (step, _) in curve {
            // Records that are out of order are drawn where the step before them stands.
            x.push(step.saturating_sub(before));
            before = before.max(*step);
        }
        Self { x, y: curve.iter().map(|(_, y)| shown(y * factor)).collect() }
    }
}

/// The digits of a float32, which is what most figures were; `None` where there is none to draw.
fn shown(y: f64) -> Option<f64> {
    let short = widen(y as f32);
    Some(if short.is_finite() { short } else { y }).filter(|y| y.is_finite())
}

/// Series that there are already.
#[derive(Default)]
struct Known {
    series: Vec<Series>,
    places: HashMap<String, usize>,
}

impl Known {
    fn place(&mut self, series: Series) -> usize {
        let key = serde_json::to_string(&series).expect("numbers are JSON");
        *self.places.entry(key).or_insert_with(|| {
            self.series.push(series);
            self.series.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_distances_and_figures_and_a_gap_is_null() {
        let series = Series::new(&vec![(3, 0.5), (5, f64::NAN), (9, 0.1_f32.into()), (7, 1e300)], 1.0);
        assert_eq!(series.x, [3, 2, 4, 0]);
        assert_eq!(series.y, [Some(0.5), None, Some(0.1), Some(1e300)]);
    }

    #[test]
    fn equal_curves_stand_once() {
        let mut known = Known::default();
        let series = |y: f64| Series::new(&vec![(0, y), (1, y)], 1.0);
        assert_eq!([1.0, 2.0, 1.0].map(|y| known.place(series(y))), [0, 1, 0]);
    }
}
