//! A table by columns: what chosen columns, two axes and two sweeps are shown as, in every form.

use serde_json::{Map, Value, json};

use crate::cell::{self, Style};
use crate::data::{maybe_infinite, number, summary};
use crate::document::Document;
use crate::heading::Heading;
use crate::section::Section;
use crate::stats::{Interval, Summary};

/// A table by columns.
#[derive(Debug, Clone)]
pub struct View {
    pub(crate) heading: Heading,
    pub(crate) parts: Vec<Part>,
    pub(crate) findings: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) legend: Vec<String>,
    /// Lines below the LaTeX tables, which have no notes: where published values come from.
    pub(crate) feet: Vec<String>,
}

/// One part of a view.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) title: String,
    /// What the rows are: `arm`.
    pub(crate) corner: String,
    pub(crate) columns: Vec<Column>,
    /// A name, and a cell for every column.
    pub(crate) rows: Vec<(String, Vec<Cell>)>,
}

/// A column, by its name for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) title: String,
}

/// A cell; all cells of a column are of one kind.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Words(String),
    Count(u64),
    Number { value: Option<f64>, show: fn(Option<f64>) -> String },
    Summary { summary: Option<Summary>, shown: String, is_best: bool },
    Published(Option<Published>),
}

/// A published value, in the unit of the records.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The value.
    pub value: f64,
    /// As it stands in the file.
    pub shown: String,
    /// Where it was published.
    pub source: String,
}

impl Cell {
    /// Of a figure over seeds, shown by `show`.
    pub(crate) fn summary(summary: Option<Summary>, show: fn(Option<&Summary>, Style) -> String, style: Style) -> Self {
        Self::Summary { shown: show(summary.as_ref(), style), summary, is_best: false }
    }

    fn text(&self) -> String {
        match self {
            Self::Words(words) if words.is_empty() => cell::NONE.to_owned(),
            Self::Words(words) => words.clone(),
            Self::Count(count) => cell::thousands(*count),
            Self::Number { value, show } => show(*value),
            Self::Summary { shown, .. } => shown.clone(),
            Self::Published(published) => published.as_ref().map_or(cell::NONE.to_owned(), |p| p.shown.clone()),
        }
    }

    /// The cell in columns of a CSV file.
    fn fields(&self, name: &str) -> Vec<(String, String)> {
        let one = |value: String| vec![(name.to_owned(), value)];
        match self {
            Self::Words(words) => one(words.clone()),
            Self::Count(count) => one(count.to_string()),
            Self::Number { value, .. } => one(number(*value)),
            Self::Summary { summary: s, .. } => vec![
                (format!("{name}_mean"), number(s.map(|s| s.mean))),
                (format!("{name}_low"), number(s.and_then(|s| s.low))),
                (format!("{name}_high"), number(s.and_then(|s| s.high))),
                (format!("{name}_n"), s.map_or(0, |s| s.n).to_string()),
                (format!("{name}_diverged"), s.map_or(0, |s| s.diverged).to_string()),
            ],
            Self::Published(p) => vec![
                (name.to_owned(), number(p.as_ref().map(|p| p.value))),
                (format!("{name}_source"), p.as_ref().map_or(String::new(), |p| p.source.clone())),
            ],
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Words(words) if words.is_empty() => Value::Null,
            Self::Words(words) => json!(words),
            Self::Count(count) => json!(count),
            Self::Number { value, .. } => maybe_infinite(*value),
            Self::Summary { summary: s, is_best, .. } => {
                let mut value = summary(s.as_ref());
                if *is_best {
                    value["best"] = json!(true);
                }
                value
            }
            Self::Published(p) => json_published(p.as_ref()),
        }
    }
}

pub(crate) fn json_published(published: Option<&Published>) -> Value {
    published.map_or(Value::Null, |p| json!({"value": p.value, "source": p.source}))
}

impl View {
    /// Aligned for a terminal.
    pub fn to_text(&self) -> String {
        self.document().to_text()
    }

    /// Markdown that stands by itself.
    pub fn to_markdown(&self) -> String {
        self.document().to_markdown()
    }

    /// LaTeX tables (package booktabs).
    pub fn to_tex(&self) -> String {
        self.document().to_tex()
    }

    /// One row per row, in the units of the records; several parts are told apart by a first column.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut is_first = true;
        for part in &self.parts {
            for (name, cells) in &part.rows {
                let mut fields = vec![(part.corner.clone(), name.clone())];
                if self.parts.len() > 1 {
                    fields.insert(0, ("part".to_owned(), part.title.clone()));
                }
                fields.extend(part.columns.iter().zip(cells).flat_map(|(column, cell)| cell.fields(&column.name)));
                if is_first {
                    writer.write_record(fields.iter().map(|(name, _)| name)).expect("a vector can be written");
                }
                is_first = false;
                writer.write_record(fields.iter().map(|(_, value)| value)).expect("parts have the same columns");
            }
        }
        String::from_utf8(writer.into_inner().expect("a vector can be written")).expect("fields are text")
    }

    /// Everything as one JSON object.
    pub fn to_json(&self) -> String {
        let row = |part: &Part, (name, cells): &(String, Vec<Cell>)| -> Value {
            let cells = part.columns.iter().zip(cells).map(|(column, cell)| (column.name.clone(), cell.json()));
            let lead = (part.corner.clone(), json!(name));
            std::iter::once(lead).chain(cells).collect::<Map<_, _>>().into()
        };
        let parts = self.parts.iter().map(|part| {
            let rows: Vec<Value> = part.rows.iter().map(|cells| row(part, cells)).collect();
            json!({"title": part.title, "rows": rows})
        });
        let heading: Map<String, Value> =
            self.heading.lines.iter().map(|(word, what)| (word.to_lowercase(), json!(what))).collect();
        let view = json!({
            "name": self.heading.name,
            "heading": heading,
            "parts": parts.collect::<Vec<_>>(),
            "findings": self.findings,
            "notes": self.notes,
        });
        serde_json::to_string_pretty(&view).expect("a view has only strings and finite numbers") + "\n"
    }

    fn document(&self) -> Document<'_> {
        let sections = self.parts.iter().map(|part| part.section(&self.feet)).collect();
        let (findings, legend) = (&self.findings[..], &self.legend[..]);
        Document { heading: &self.heading, sections, findings, notes: self.notes.clone(), legend }
    }
}

impl Part {
    fn section(&self, feet: &[String]) -> Section {
        let titles = self.columns.iter().map(|column| column.title.clone());
        let cells = || {
            self.rows
                .iter()
                .enumerate()
                .flat_map(|(row, (_, cells))| cells.iter().enumerate().map(move |(at, cell)| (row, at, cell)))
        };
        let is_best = |cell: &Cell| matches!(cell, Cell::Summary { is_best: true, .. });
        let is_range =
            |cell: &Cell| matches!(cell, Cell::Summary { summary: Some(s), .. } if s.interval == Interval::Range);
        Section {
            title: self.title.clone(),
            header: std::iter::once(self.corner.clone()).chain(titles).collect(),
            rows: self
                .rows
                .iter()
                .map(|(name, cells)| std::iter::once(name.clone()).chain(cells.iter().map(Cell::text)).collect())
                .collect(),
            best: cells().filter(|(_, _, cell)| is_best(cell)).map(|(row, at, _)| (row, 1 + at)).collect(),
            feet: feet.to_vec(),
            has_range: cells().any(|(_, _, cell)| is_range(cell)),
        }
    }
}
