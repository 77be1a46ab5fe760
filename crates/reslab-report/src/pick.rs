//! Tables of columns that are chosen by name.

use crate::ReportError;
use crate::arm::ArmRow;
use crate::cell::{self, Style};
use crate::contrast::Contrast;
use crate::metric::Metric;
use crate::section::{is_alike, title_of};
use crate::select::Chosen;
use crate::sweep::{Run, Sweep};
use crate::table::Table;
use crate::view::{Cell, Column, Part, View};

/// Columns of a sweep's table, chosen by name.
#[derive(Debug, Clone)]
pub struct Columns(Vec<Pick>);

#[derive(Debug, Clone)]
enum Pick {
    Metric(Metric),
    Figure(&'static Figure),
}

/// A column that every sweep has.
struct Figure {
    /// As in table.csv.
    name: &'static str,
    /// `*` is the baseline's name.
    title: &'static str,
    cell: fn(&Place) -> Cell,
}

impl std::fmt::Debug for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Where a cell stands.
struct Place<'a> {
    table: &'a Table,
    index: usize,
    row: &'a ArmRow,
    /// The choice whose row it is, in the part of the chosen points.
    choice: Option<&'a Chosen>,
}

impl Place<'_> {
    fn contrast(&self) -> Option<&Contrast> {
        let comparison = &self.table.comparison;
        comparison.primary.iter().chain(&comparison.with_baseline).find(|contrast| contrast.rows.contains(&self.index))
    }
}

/// The name of the column of published values.
pub(crate) const PAPER: &str = "paper";

static FIGURES: [Figure; 26] = [
    Figure { name: "seeds", title: "seeds", cell: |at| Cell::Words(of(at.row.done, at.row.planned)) },
    Figure { name: "difference", title: "vs *", cell: difference },
    Figure {
        name: "sign_flip_p",
        title: "sign-flip p",
        cell: |at| p(at.contrast().and_then(|c| c.sign_flip).map(|t| t.p)),
    },
    Figure { name: "holm_p", title: "Holm p", cell: |at| p(at.contrast().and_then(|c| c.holm)) },
    Figure {
        name: "p_above_baseline",
        title: "P(arm > *)",
        cell: |at| Cell::Number { value: at.contrast().and_then(|c| c.probability), show: cell::share },
    },
    Figure { name: "fisher_p", title: "Fisher p", cell: |at| p(at.contrast().and_then(|c| c.fisher)) },
    Figure {
        name: "finding",
        title: "finding",
        cell: |at| Cell::Words(at.contrast().map_or("", |c| c.finding.word()).to_owned()),
    },
    Figure { name: "failed", title: "failed", cell: |at| Cell::Count(at.row.failed as u64) },
    Figure { name: "non_finite", title: "non-finite", cell: |at| Cell::Count(at.row.non_finite as u64) },
    Figure { name: "diverged", title: "diverged", cell: |at| Cell::Count(at.row.diverged as u64) },
    Figure { name: "not_trained", title: "not trained", cell: |at| Cell::Count(at.row.not_trained as u64) },
    Figure {
        name: "final_loss",
        title: "final loss",
        cell: |at| Cell::summary(at.row.final_loss, cell::short, Style::FINAL_LOSS),
    },
    Figure { name: "largest_grad_norm", title: "max grad norm", cell: |at| digits(at.row.largest_grad_norm) },
    Figure { name: "spike_score", title: "spikes %", cell: |at| percent(at.row.spike_score) },
    Figure { name: "grad_spike_score", title: "grad spikes %", cell: |at| percent(at.row.grad_spike_score) },
    Figure { name: "spike_episodes", title: "loss episodes", cell: |at| Cell::Count(at.row.episodes.episodes as u64) },
    Figure {
        name: "grad_spike_episodes",
        title: "gradient episodes",
        cell: |at| Cell::Count(at.row.grad_episodes.episodes as u64),
    },
    Figure { name: "update_ratio", title: "update ratio", cell: |at| digits(at.row.update_ratio) },
    Figure { name: "largest_stable_lr", title: "largest stable lr", cell: largest_stable },
    Figure { name: "lr_sensitivity", title: "lr sensitivity", cell: sensitivity },
    Figure { name: "parameters", title: "parameters", cell: |at| Cell::Count(at.row.parameters) },
    Figure { name: "images_per_s", title: "images/s", cell: |at| digits(at.row.timing.images_per_s) },
    Figure { name: "peak_memory_bytes", title: "peak bytes", cell: peak_memory },
    Figure { name: "seconds", title: "seconds a run", cell: |at| digits(at.row.timing.seconds) },
    Figure { name: "devices", title: "device", cell: |at| Cell::Words(at.row.timing.devices.join("; ")) },
    Figure {
        name: PAPER,
        title: PAPER,
        cell: |at| Cell::Published(at.table.published.as_ref().and_then(|p| p.rows[at.index].clone())),
    },
];

impl Columns {
    /// The columns of these names: metrics as recorded, and those of table.csv.
    ///
    /// # Errors
    /// A name is unknown: those that there are are listed.
    pub fn parse(sweep: &Sweep, names: &[String]) -> Result<Self, ReportError> {
        let mut recorded: Vec<&str> = Vec::new();
        for finished in sweep.runs.iter().filter_map(Run::finished) {
            recorded.extend(finished.done.metrics.keys().map(String::as_str));
        }
        recorded.push(&sweep.plan.metric);
        recorded.sort_unstable();
        recorded.dedup();
        let pick = |name: &String| {
            let figure = FIGURES.iter().find(|figure| figure.name == name).map(Pick::Figure);
            let metric = || recorded.contains(&name.as_str()).then(|| Pick::Metric(Metric::new(name.as_str())));
            figure.or_else(metric).ok_or_else(|| {
                let known = recorded.iter().copied().chain(FIGURES.iter().map(|figure| figure.name));
                ReportError::UnknownColumn { column: name.clone(), known: known.collect::<Vec<_>>().join(", ") }
            })
        };
        names.iter().map(pick).collect::<Result<_, _>>().map(Self)
    }

    /// The metrics among them: a table that is to show them must have been made with them.
    pub fn metrics(&self) -> Vec<Metric> {
        let metric = |pick: &Pick| if let Pick::Metric(metric) = pick { Some(metric.clone()) } else { None };
        self.0.iter().filter_map(metric).collect()
    }

    /// Whether published values are among them.
    pub fn has_paper(&self) -> bool {
        self.0.iter().any(|pick| matches!(pick, Pick::Figure(figure) if figure.name == PAPER))
    }
}

impl Table {
    /// This table with these columns alone; where the sweep selects, the chosen points stand in a part of their own. Published
    /// values come last unless a place is chosen for them.
    pub fn pick(&self, columns: &Columns) -> View {
        let mut picks = columns.0.clone();
        if self.published.is_some() && !columns.has_paper() {
            picks.extend(FIGURES.iter().filter(|figure| figure.name == PAPER).map(Pick::Figure));
        }
        let mut parts = Vec::new();
        if let Some(selection) = &self.selection {
            let title = format!("Chosen per arm on {}: {}", selection.metric.name(), selection.keys.join(", "));
            let chosen = selection.rows.iter().filter_map(|choice| Some((choice.row?, Some(choice))));
            parts.push(self.part(&title, &picks, chosen));
        }
        let title = if self.selection.is_some() { "All points" } else { "Arms" };
        parts.push(self.part(title, &picks, (0..self.rows.len()).map(|row| (row, None))));
        self.view(parts)
    }

    /// Parts with all that stands around them.
    pub(crate) fn view(&self, parts: Vec<Part>) -> View {
        View {
            heading: self.heading.clone(),
            parts,
            findings: self.findings.clone(),
            notes: [self.grid_lines(), self.notes.clone()].concat(),
            legend: self.legend.clone(),
            feet: self.feet(),
        }
    }

    fn part<'a>(
        &'a self,
        title: &str,
        picks: &[Pick],
        rows: impl Iterator<Item = (usize, Option<&'a Chosen>)>,
    ) -> Part {
        let column = |pick: &Pick| match pick {
            Pick::Metric(metric) => Column { name: metric.name().to_owned(), title: title_of(metric) },
            Pick::Figure(figure) => {
                Column { name: figure.name.to_owned(), title: figure.title.replace('*', &self.baseline) }
            }
        };
        let first = picks.iter().find_map(|pick| if let Pick::Metric(metric) = pick { Some(metric) } else { None });
        let row = |(index, choice): (usize, Option<&'a Chosen>)| {
            let place = Place { table: self, index, row: &self.rows[index], choice };
            (place.row.arm.clone(), picks.iter().map(|pick| place.cell(pick, first)).collect())
        };
        let (columns, rows) = (picks.iter().map(column).collect(), rows.map(row).collect());
        Part { title: title.to_owned(), corner: "arm".to_owned(), columns, rows }
    }
}

impl Place<'_> {
    fn cell(&self, pick: &Pick, first: Option<&Metric>) -> Cell {
        let metric = match pick {
            Pick::Figure(figure) => return (figure.cell)(self),
            Pick::Metric(metric) => metric,
        };
        let summary = self.row.metric(metric).copied();
        let best = self.choice.map_or(&self.row.best, |choice| &choice.best);
        // The first metric says n and divergence for all that have the same.
        let said = first.filter(|first| *first != metric).and_then(|first| self.row.metric(first)).copied();
        let show = if is_alike(said, summary) { cell::short } else { cell::full };
        let shown = show(summary.as_ref(), Style::of(metric));
        Cell::Summary { summary, shown, is_best: best.contains(metric) }
    }
}

fn of(done: usize, planned: usize) -> String {
    if done == planned { done.to_string() } else { format!("{done} of {planned}") }
}

fn p(value: Option<f64>) -> Cell {
    Cell::Number { value, show: cell::p_value }
}

fn digits(value: Option<f64>) -> Cell {
    Cell::Number { value, show: cell::three_digits }
}

fn percent(value: Option<f64>) -> Cell {
    Cell::Number { value, show: cell::percent }
}

fn peak_memory(at: &Place) -> Cell {
    let show = |bytes: Option<f64>| bytes.map_or(cell::NONE.to_owned(), |bytes| cell::thousands(bytes as u64));
    Cell::Number { value: at.row.timing.peak_memory_bytes.map(|bytes| bytes as f64), show }
}

fn difference(at: &Place) -> Cell {
    let (summary, is_baseline) = match at.choice {
        Some(choice) => (choice.difference, choice.is_baseline),
        None => (at.row.difference, at.row.is_baseline),
    };
    let shown = cell::difference(summary.as_ref(), Style::of(&at.table.metric).signed());
    Cell::Summary { summary, shown: if is_baseline { "baseline".to_owned() } else { shown }, is_best: false }
}

fn largest_stable(at: &Place) -> Cell {
    let rates = at.table.rates.iter().find(|rates| rates.rows.contains(&at.index));
    Cell::Words(rates.and_then(|rates| rates.largest_stable.clone()).unwrap_or_default())
}

fn sensitivity(at: &Place) -> Cell {
    let rates = at.table.rates.iter().find(|rates| rates.rows.contains(&at.index));
    Cell::summary(rates.and_then(|rates| rates.sensitivity), cell::short, Style::FINAL_LOSS)
}
