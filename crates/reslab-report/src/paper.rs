//! Published values to set beside ours: a small TOML file, whose values are put to the rows that they are about.

use reslab_record::RecordError;
use serde::Deserialize;
use std::path::Path;

use crate::ReportError;
use crate::metric::Metric;
use crate::sweep::Sweep;
use crate::table::Table;
use crate::view::Published;

/// A file of published values.
#[derive(Debug, Clone)]
pub struct Paper {
    path: String,
    file: File,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    source: String,
    metric: String,
    #[serde(rename = "value", default)]
    values: Vec<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    arm: String,
    #[serde(default)]
    at: toml::Table,
    value: toml::Value,
    source: Option<String>,
}

/// Published values beside the rows of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedValues {
    /// Of each row of the table, in its order.
    pub rows: Vec<Option<Published>>,
    /// Where they come from, each source once.
    pub sources: Vec<String>,
}

impl Paper {
    /// Reads a file of published values.
    ///
    /// # Errors
    /// The file, and the key that is wrong in it.
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        let shown = path.display().to_string();
        let fail = |problem: String| ReportError::Paper { path: shown.clone(), problem };
        let text = std::fs::read_to_string(path)
            .map_err(|source| ReportError::Record(RecordError::Io { path: path.to_owned(), action: "read", source }))?;
        let file: File = toml::from_str(&text).map_err(|e| fail(e.to_string().trim().to_owned()))?;
        let paper = Self { path: shown.clone(), file };
        paper.check().map_err(fail)?;
        Ok(paper)
    }

    fn check(&self) -> Result<(), String> {
        let File { source, metric, values } = &self.file;
        for (key, words) in [("source", source), ("metric", metric)] {
            if words.trim().is_empty() {
                return Err(format!("{key}: expected words, found none"));
            }
        }
        if values.is_empty() {
            return Err("value: expected at least one [[value]] with arm and value, found none".to_owned());
        }
        for (index, value) in values.iter().enumerate() {
            let number = number(&value.value).filter(|x| x.is_finite());
            let number =
                number.ok_or_else(|| format!("{}: expected a number, found {}", key(index, "value"), value.value))?;
            if Metric::new(metric.as_str()).is_accuracy() && !(number == 0.0 || (number > 1.0 && number <= 100.0)) {
                return Err(format!(
                    "{}: expected an accuracy in percent, above 1 and at most 100, found {number}",
                    key(index, "value")
                ));
            }
            let same = |other: &&Value| (&other.arm, &other.at) == (&value.arm, &value.at);
            if let Some(first) = values[..index].iter().position(|other| same(&other)) {
                return Err(format!("value {}: value {} is of the same arm and point", index + 1, first + 1));
            }
        }
        Ok(())
    }

    /// Where a value comes from.
    fn source<'a>(&'a self, value: &'a Value) -> &'a str {
        value.source.as_deref().unwrap_or(&self.file.source)
    }
}

impl Table {
    /// Sets published values beside the rows that they are about: those of the arm whose runs have what `at` says.
    ///
    /// # Errors
    /// They are of another metric than the table, a key of `at` is in no run's configuration, or no row is meant by any.
    pub fn set_paper(&mut self, sweep: &Sweep, paper: &Paper) -> Result<(), ReportError> {
        let fail = |problem: String| ReportError::Paper { path: paper.path.clone(), problem };
        let placed = self.place(sweep, paper).map_err(fail)?;
        let mut sources: Vec<&str> = Vec::new();
        for source in placed.iter().flatten().map(|value| paper.source(value)) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        let percent = if self.metric.is_accuracy() { 100.0 } else { 1.0 };
        let publish = |value: &Value| {
            let source = paper.source(value);
            let mark = sources.iter().position(|known| *known == source).filter(|_| sources.len() > 1);
            let mark = mark.map_or(String::new(), |at| format!(" [{}]", at + 1));
            let number = number(&value.value).unwrap_or(f64::NAN);
            Published { value: number / percent, shown: format!("{}{mark}", value.value), source: source.to_owned() }
        };
        let rows = placed.iter().map(|value| value.map(publish)).collect();
        let is_unused = |value: &&Value| !placed.iter().flatten().any(|used| std::ptr::eq(*used, *value));
        let unused: Vec<String> = paper.file.values.iter().filter(is_unused).map(words).collect();
        self.published = Some(PublishedValues { rows, sources: sources.into_iter().map(str::to_owned).collect() });
        self.notes.extend(self.feet());
        if !unused.is_empty() {
            self.notes.push(format!("paper, but of no arm and point here: {}.", unused.join("; ")));
        }
        Ok(())
    }

    /// The value of each row; an error in words.
    fn place<'p>(&self, sweep: &Sweep, paper: &'p Paper) -> Result<Vec<Option<&'p Value>>, String> {
        let File { metric, values, .. } = &paper.file;
        if metric != self.metric.name() {
            let own = self.metric.name();
            return Err(format!(
                "metric: the values are of {metric}, but the table is of {own}; --metric {metric} makes it one of theirs"
            ));
        }
        let configs: Vec<&toml::Table> = self.rows.iter().map(|row| config(sweep, &row.arm)).collect();
        let keys = values.iter().enumerate().flat_map(|(index, value)| value.at.keys().map(move |key| (index, key)));
        let mut unknown = keys.filter(|(_, key)| !configs.iter().any(|config| look_up(config, key).is_some()));
        if let Some((index, name)) = unknown.next() {
            let (key, axes) = (key(index, &format!("at.\"{name}\"")), self.axes().join(", "));
            return Err(format!(
                "{key}: expected a key of the runs' configuration, which has none of this name; the sweep's axes are {axes}"
            ));
        }
        let is_of = |value: &Value, row: usize| {
            let holds =
                |(key, want): (&String, &toml::Value)| look_up(configs[row], key).is_some_and(|x| is_same(x, want));
            [&self.rows[row].base, &self.rows[row].arm].contains(&&value.arm) && value.at.iter().all(holds)
        };
        // The one that says most of the point is meant.
        let of_row = |row: usize| values.iter().filter(|value| is_of(value, row)).max_by_key(|value| value.at.len());
        let placed: Vec<Option<&Value>> = (0..self.rows.len()).map(of_row).collect();
        if placed.iter().all(Option::is_none) {
            let mut arms: Vec<&str> = self.rows.iter().map(|row| row.base.as_str()).collect();
            arms.dedup();
            let (n, arms) = (values.len(), arms.join(", "));
            return Err(format!(
                "value: none of the {n} values is of an arm and point of this sweep, whose arms are {arms}"
            ));
        }
        Ok(placed)
    }

    /// Where the published values come from, a line per source.
    pub(crate) fn feet(&self) -> Vec<String> {
        let sources = self.published.as_ref().map_or(&[][..], |published| &published.sources);
        let line = |(index, source): (usize, &String)| match sources.len() {
            1 => format!("paper: {source}"),
            _ => format!("paper [{}]: {source}", index + 1),
        };
        sources.iter().enumerate().map(line).collect()
    }

    /// `arm`, and the keys of the grid.
    fn axes(&self) -> Vec<&str> {
        let mut keys = vec![crate::grid::ARM];
        for axis in self.rows.iter().flat_map(|row| &row.point) {
            if !keys.contains(&axis.key.as_str()) {
                keys.push(&axis.key);
            }
        }
        keys
    }
}

fn key(index: usize, key: &str) -> String {
    format!("value {}: {key}", index + 1)
}

fn words(value: &Value) -> String {
    let at: Vec<String> = value.at.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    if at.is_empty() { value.arm.clone() } else { format!("{} at {}", value.arm, at.join(", ")) }
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|x| x as f64))
}

fn is_same(found: &toml::Value, want: &toml::Value) -> bool {
    match (number(found), number(want)) {
        (Some(found), Some(want)) => found == want,
        _ => found == want,
    }
}

/// The resolved configuration of a row's runs.
fn config<'a>(sweep: &'a Sweep, arm: &str) -> &'a toml::Table {
    let run = sweep.runs.iter().find(|run| run.planned.arm == arm).expect("a table's rows are runs of its sweep");
    &run.planned.config
}

/// A dotted key.
pub(crate) fn look_up<'a>(config: &'a toml::Table, key: &str) -> Option<&'a toml::Value> {
    match key.split_once('.') {
        Some((table, rest)) => look_up(config.get(table)?.as_table()?, rest),
        None => config.get(key),
    }
}
