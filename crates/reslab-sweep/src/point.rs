//! One point of a sweep: an arm with a value for each of its axes, resolved to the tables of a run.

use reslab_record::Axis as PlannedAxis;

use crate::axes::{self, Axis};
use crate::error::SweepError;
use crate::keys::RUN_TABLES;
use crate::names::labels;
use crate::node::{self, Map, Node};
use crate::reader::Arm;
use crate::set;
use crate::source::SweepFile;

/// The most points that one arm may have; more is a slip of the pen.
const MOST: usize = 10_000;

/// An arm at one value of each axis.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    /// The arm's name in the file.
    pub family: String,
    /// In the order of the name.
    pub axes: Vec<PlannedAxis>,
    /// The resolved tables, in the order of [`RUN_TABLES`].
    pub tables: Map,
}

impl Point {
    /// The full name: `gated[initial_gain=0.1,lr=3e-4]`.
    pub(crate) fn name(&self) -> String {
        self.name_of(|_| true)
    }

    /// The name without the axes that every arm has.
    pub(crate) fn name_without_factors(&self) -> String {
        self.name_of(|axis| !axis.grid)
    }

    fn name_of(&self, show: impl Fn(&PlannedAxis) -> bool) -> String {
        let shown: Vec<String> =
            self.axes.iter().filter(|a| show(a)).map(|a| format!("{}={}", a.label, a.value)).collect();
        if shown.is_empty() { self.family.clone() } else { format!("{}[{}]", self.family, shown.join(",")) }
    }
}

/// One axis' values at a point.
struct Choice<'a> {
    key: &'a str,
    value: &'a Node,
    axis: &'a Axis,
}

/// All points of an arm: its own axes first, then those of every arm, the last running fastest.
pub(crate) fn points_of(file: &SweepFile, arm: &Arm) -> Result<Vec<Point>, Vec<SweepError>> {
    let axes: Vec<&Axis> = arm.axes.iter().chain(&file.factors).collect();
    let Some(combinations) = axes::product(&axes, MOST) else {
        let problem = format!("its axes multiply to more than {MOST} points");
        return Err(vec![SweepError::new(&file.file, "", problem).in_arm(&arm.name)]);
    };
    let mut points = Vec::new();
    let mut errors: Vec<SweepError> = Vec::new();
    for combination in combinations {
        let choices: Vec<Choice<'_>> = axes
            .iter()
            .zip(combination)
            .flat_map(|(axis, at)| {
                axis.keys.iter().zip(&axis.points[at]).map(|(key, value)| Choice { key, value, axis })
            })
            .collect();
        match resolve(file, arm, &choices) {
            Ok(tables) => points.push(Point { family: arm.name.clone(), axes: planned_axes(file, &choices), tables }),
            Err(found) => errors.extend(found.into_iter().filter(|e| !errors.contains(e)).collect::<Vec<_>>()),
        }
    }
    if errors.is_empty() { Ok(points) } else { Err(errors) }
}

/// Shared tables, then the arm's own with its axes' values in place, then the axes that stand apart.
fn resolve(file: &SweepFile, arm: &Arm, choices: &[Choice<'_>]) -> Result<Map, Vec<SweepError>> {
    let mut own = arm.own.clone();
    for choice in choices.iter().filter(|c| c.axis.in_place) {
        node::replace(&mut own, choice.key, choice.value.clone());
    }
    let apart: Vec<&Choice<'_>> = choices.iter().filter(|c| !c.axis.in_place).collect();
    let mut errors = Vec::new();
    for (index, choice) in apart.iter().enumerate() {
        let place = if choice.axis.is_factor { "[grid] or [zip]" } else { "the arm's zip" };
        if let Some(node) = node::get(&own, choice.key) {
            let problem = if &*node.origin == set::ORIGIN {
                format!(
                    "is an axis of {place}; give the axis other values, such as --set grid.{}=[{}]",
                    choice.key,
                    node.text()
                )
            } else {
                format!("stands in the arm and in {place}, which would overwrite it; remove one of the two")
            };
            errors.push(SweepError::new(&*node.origin, choice.key, problem).in_arm(&arm.name));
        } else if apart[..index].iter().any(|other| other.key == choice.key) {
            let problem = "is an axis of the arm's zip and of the whole sweep; remove one of the two";
            errors.push(SweepError::new(&*choice.value.origin, choice.key, problem).in_arm(&arm.name));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut tables = file.shared.clone();
    node::merge(&mut tables, own);
    for choice in apart {
        node::merge(&mut tables, node::nest(choice.key, choice.value.clone()));
    }
    // `drop_path = "none"` in an arm takes off what its file says for all: the same run as one that never had it.
    if tables.get("drop_path").and_then(Node::as_str) == Some("none") {
        tables.remove("drop_path");
    }
    Ok(RUN_TABLES.iter().filter_map(|key| Some(((*key).to_owned(), tables.get(*key)?.clone()))).collect())
}

fn planned_axes(file: &SweepFile, choices: &[Choice<'_>]) -> Vec<PlannedAxis> {
    let (factors, own): (Vec<_>, Vec<_>) = choices.iter().partition(|c: &&Choice<'_>| c.axis.is_factor);
    let ordered: Vec<&Choice<'_>> = if file.factors_lead { [factors, own].concat() } else { [own, factors].concat() };
    let keys: Vec<&str> = ordered.iter().map(|c| c.key).collect();
    let labels = labels(&keys);
    let planned = |(choice, label): (&&Choice<'_>, String)| PlannedAxis {
        key: choice.key.to_owned(),
        label,
        value: choice.value.text(),
        grid: choice.axis.is_factor,
    };
    ordered.iter().zip(labels).map(planned).collect()
}
