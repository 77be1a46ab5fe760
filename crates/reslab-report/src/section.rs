//! A table as strings: the one form that all text outputs are made from.

use crate::arm::ArmRow;
use crate::cell::{self, Style};
use crate::metric::Metric;
use crate::parts;
use crate::pick::PAPER;
use crate::select::Chosen;
use crate::stats::{Interval, Summary};
use crate::table::Table;

/// A part of the table: a title, a header and rows of cells. The first column is left-aligned, the others right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    /// What it is headed.
    pub title: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// The cells of each row, as many as the header has.
    pub rows: Vec<Vec<String>>,
    /// Row and column of the cells that are the best of their column.
    pub best: Vec<(usize, usize)>,
    /// Lines below the table, for forms that have no notes.
    pub feet: Vec<String>,
    /// Whether a cell is of two seeds, whose range stands in brackets.
    pub has_range: bool,
}

impl Table {
    /// The parts that do not depend on time, in the order of reading.
    pub fn sections(&self) -> Vec<Section> {
        sections(self)
    }

    /// Images per second and memory.
    pub fn timing(&self) -> Section {
        timing(self)
    }
}

impl Section {
    pub(crate) fn new<const N: usize>(title: &str, header: [String; N]) -> Self {
        Self { title: title.to_owned(), header: header.into(), ..Self::default() }
    }
}

/// The parts that do not depend on time, in the order of reading.
pub(crate) fn sections(table: &Table) -> Vec<Section> {
    let mut sections = Vec::new();
    if let Some(selection) = &table.selection {
        let title = format!("Chosen per arm on {}: {}", selection.metric.name(), selection.keys.join(", "));
        let mut section = results(&title, table);
        section.header.insert(1, "chosen".to_owned());
        section.rows = selection.rows.iter().map(|choice| chosen(table, choice)).collect();
        let best = selection.rows.iter().map(|choice| &choice.best);
        section.best = best_cells(table, best, 1 + lead(table));
        add_paper(&mut section, table, selection.rows.iter().map(|choice| choice.row));
        sections.push(section);
        sections.extend(parts::comparisons(table));
    }
    let mut all = results(if table.selection.is_some() { "All points" } else { "Accuracy" }, table);
    all.rows = table.rows.iter().map(|row| result(table, row)).collect();
    all.best = best_cells(table, table.rows.iter().map(|row| &row.best), lead(table));
    all.has_range = table.rows.iter().any(has_range);
    add_paper(&mut all, table, (0..table.rows.len()).map(Some));
    sections.push(all);
    if table.selection.is_none() {
        sections.extend(parts::comparisons(table));
    }
    sections.extend(parts::over_points(table));
    sections.extend(parts::rates(table));
    sections.push(stability(table));
    sections.extend(parts::spikes(table));
    sections
}

/// Images per second and memory: a part of its own, since it is not the same twice.
pub(crate) fn timing(table: &Table) -> Section {
    let header = ["arm", "images/s", "peak MiB", "seconds a run", "device"].map(str::to_owned);
    let mut section = Section::new("Time and memory", header);
    for row in &table.rows {
        let t = &row.timing;
        let mebibytes = t.peak_memory_bytes.map_or(cell::NONE.to_owned(), |b| cell::thousands(b >> 20));
        let seconds = t.seconds.map_or(cell::NONE.to_owned(), |s| format!("{s:.1}"));
        let images = t.images_per_s.map_or(cell::NONE.to_owned(), |x| cell::thousands(x.round() as u64));
        let devices = if t.devices.is_empty() { cell::NONE.to_owned() } else { t.devices.join("; ") };
        section.rows.push(vec![row.arm.clone(), images, mebibytes, seconds, devices]);
    }
    section
}

pub(crate) fn title_of(metric: &Metric) -> String {
    if metric.is_accuracy() { format!("{} %", metric.name()) } else { metric.name().to_owned() }
}

fn results(title: &str, table: &Table) -> Section {
    let mut section = Section::new(title, ["arm".to_owned()]);
    if is_incomplete(table) {
        section.header.push("seeds".to_owned());
    }
    section.header.extend(columns(table).iter().map(title_of));
    section.header.push(format!("vs {}", table.baseline));
    section
}

/// Sets the published values beside a section's rows, which are these of the table.
fn add_paper(section: &mut Section, table: &Table, rows: impl Iterator<Item = Option<usize>>) {
    let Some(published) = &table.published else { return };
    section.header.push(PAPER.to_owned());
    section.feet = table.feet();
    for (cells, row) in section.rows.iter_mut().zip(rows) {
        let value = row.and_then(|row| published.rows[row].as_ref());
        cells.push(value.map_or(cell::NONE.to_owned(), |value| value.shown.clone()));
    }
}

/// The columns before the first metric's.
fn lead(table: &Table) -> usize {
    1 + usize::from(is_incomplete(table))
}

/// Where the best of each metric stand, the first metric in column `lead`.
fn best_cells<'a>(table: &Table, best: impl Iterator<Item = &'a Vec<Metric>>, lead: usize) -> Vec<(usize, usize)> {
    let columns = columns(table);
    let at = |metric: &Metric| columns.iter().position(|column| column == metric);
    best.enumerate()
        .flat_map(|(row, best)| best.iter().filter_map(at).map(move |column| (row, lead + column)))
        .collect()
}

fn has_range(row: &ArmRow) -> bool {
    let metrics = row.metrics.iter().filter_map(|(_, summary)| summary.as_ref());
    metrics.chain(&row.difference).chain(&row.final_loss).any(|summary| summary.interval == Interval::Range)
}

/// Only then a column says how many seeds are done: else every cell's n does.
fn is_incomplete(table: &Table) -> bool {
    table.rows.iter().any(|row| row.done < row.planned)
}

fn columns(table: &Table) -> Vec<Metric> {
    table.rows.first().map_or(Vec::new(), |row| row.metrics.iter().map(|(metric, _)| metric.clone()).collect())
}

fn result(table: &Table, row: &ArmRow) -> Vec<String> {
    let mut cells = vec![row.arm.clone()];
    if is_incomplete(table) {
        cells.push(if row.done == row.planned {
            row.done.to_string()
        } else {
            format!("{} of {}", row.done, row.planned)
        });
    }
    for (index, (metric, summary)) in row.metrics.iter().enumerate() {
        let style = Style::of(metric);
        let show = if index > 0 && is_like_first(row, *summary) { cell::short } else { cell::full };
        cells.push(show(summary.as_ref(), style));
    }
    cells.push(versus(table, row, row.is_baseline, row.difference));
    cells
}

/// What the first cell of a row says of n and divergence is not said again.
fn is_like_first(row: &ArmRow, summary: Option<Summary>) -> bool {
    is_alike(row.metrics.first().and_then(|(_, summary)| *summary), summary)
}

pub(crate) fn is_alike(a: Option<Summary>, b: Option<Summary>) -> bool {
    a.zip(b).is_some_and(|(a, b)| (a.n, a.diverged) == (b.n, b.diverged))
}

fn versus(table: &Table, row: &ArmRow, is_baseline: bool, difference: Option<Summary>) -> String {
    let style = Style::of(&table.metric).signed();
    match difference {
        _ if is_baseline => "baseline".to_owned(),
        Some(d) if is_like_first(row, difference) && d.diverged == 0 => cell::short(Some(&d), style),
        d => cell::difference(d.as_ref(), style),
    }
}

fn chosen(table: &Table, choice: &Chosen) -> Vec<String> {
    let mut point: Vec<String> = choice.values.iter().map(|axis| format!("{}={}", axis.label, axis.value)).collect();
    if choice.complete < choice.points {
        point.push(format!("({}/{})", choice.complete, choice.points));
    }
    let point = point.join(" ");
    let Some(row) = choice.row.map(|row| &table.rows[row]) else {
        let width = columns(table).len() + 3 + usize::from(is_incomplete(table));
        let mut cells = vec![cell::NONE.to_owned(); width];
        cells[0].clone_from(&choice.arm);
        cells[1] = point;
        return cells;
    };
    let mut cells = result(table, row);
    cells[0].clone_from(&choice.arm);
    cells.pop();
    cells.push(versus(table, row, choice.is_baseline, choice.difference));
    cells.insert(1, point);
    cells
}

fn stability(table: &Table) -> Section {
    let header = [
        "arm",
        "non-finite",
        "diverged",
        "not trained",
        "final loss",
        "max grad norm",
        "spikes %",
        "update ratio",
        "parameters",
    ];
    let mut section = Section::new("Stability", header.map(str::to_owned));
    for row in &table.rows {
        let of = |count: usize| format!("{count}/{}", row.done);
        section.rows.push(vec![
            row.arm.clone(),
            of(row.non_finite),
            of(row.diverged),
            of(row.not_trained),
            cell::short(row.final_loss.as_ref(), Style::FINAL_LOSS),
            cell::three_digits(row.largest_grad_norm),
            cell::percent(row.spike_score),
            cell::three_digits(row.update_ratio),
            cell::thousands(row.parameters),
        ]);
    }
    section
}
