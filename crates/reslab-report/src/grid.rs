//! A metric over two axes: arms by depth, say, as in CaiT's table.

use crate::ReportError;
use crate::arm::ArmRow;
use crate::cell::{self, Style};
use crate::section::title_of;
use crate::table::Table;
use crate::view::{Cell, Column, Part, View};

/// The axis of the arms themselves, by their names without grid axes.
pub(crate) const ARM: &str = "arm";

impl Table {
    /// The table's metric with one axis down and another across: `arm`, or a key of the grid (`model.depth`, or `depth` as it
    /// stands in names). Other axes that the sweep chooses per arm are at the chosen point; for each point of what is left
    /// there is a part.
    ///
    /// # Errors
    /// There is no such axis, or both are the same.
    pub fn cross(&self, down: &str, across: &str) -> Result<View, ReportError> {
        let axes = Axes::new(self, down, across)?;
        let mut parts: Vec<(String, Vec<usize>)> = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let rest = axes.rest(row);
            match parts.iter_mut().find(|(known, _)| *known == rest) {
                Some((_, members)) => members.push(index),
                None => parts.push((rest, vec![index])),
            }
        }
        let across = axes.distinct(self, 0..self.rows.len(), &axes.across);
        let has_paper = |column: &String| {
            let here = (0..self.rows.len()).filter(|at| axes.at(&self.rows[*at], &axes.across) == *column);
            self.published.as_ref().is_some_and(|p| here.into_iter().any(|at| p.rows[at].is_some()))
        };
        let across: Vec<(String, bool)> =
            across.into_iter().map(|column| (column.clone(), has_paper(&column))).collect();
        let mut view = self.view(parts.iter().map(|(rest, members)| axes.part(self, rest, members, &across)).collect());
        view.legend.push(
            "Each cell: mean and 95 % t interval over seeds; n and diverged runs are said where not all seeds are done or one diverged."
                .to_owned(),
        );
        Ok(view)
    }
}

struct Axes {
    down: String,
    across: String,
    /// Keys that are neither and are not chosen.
    rest: Vec<String>,
    /// Whether rows other than the chosen ones are left out.
    only_chosen: bool,
}

impl Axes {
    fn new(table: &Table, down: &str, across: &str) -> Result<Self, ReportError> {
        let mut known: Vec<(&str, &str)> = vec![(ARM, ARM)];
        for axis in table.rows.iter().flat_map(|row| &row.point) {
            if !known.contains(&(&axis.key, &axis.label)) {
                known.push((&axis.key, &axis.label));
            }
        }
        let find = |name: &str, option: &'static str| {
            let found = known.iter().find(|(key, _)| *key == name).or(known.iter().find(|(_, label)| *label == name));
            found.map(|(key, _)| (*key).to_owned()).ok_or_else(|| ReportError::UnknownAxis {
                option,
                axis: name.to_owned(),
                known: known.iter().map(|(key, _)| *key).collect::<Vec<_>>().join(", "),
            })
        };
        let (down, across) = (find(down, "rows")?, find(across, "cols")?);
        if down == across {
            return Err(ReportError::SameAxis { axis: down });
        }
        let chosen: &[String] = table.selection.as_ref().map_or(&[], |selection| &selection.keys);
        let only_chosen = !chosen.is_empty() && !chosen.contains(&down) && !chosen.contains(&across);
        let is_rest = |key: &str| key != down && key != across && !(only_chosen && chosen.iter().any(|c| c == key));
        let rest = known.iter().map(|(key, _)| *key).filter(|key| is_rest(key)).map(str::to_owned).collect();
        Ok(Self { down, across, rest, only_chosen })
    }

    /// A row's value on an axis.
    fn at(&self, row: &ArmRow, key: &str) -> String {
        if key == ARM {
            return row.base.clone();
        }
        row.point.iter().find(|axis| axis.key == key).map_or(cell::NONE.to_owned(), |axis| axis.value.clone())
    }

    /// Where a row stands on the axes that are not shown: `optim.lr = 1e-3`.
    fn rest(&self, row: &ArmRow) -> String {
        let rest = self.rest.iter().map(|key| format!("{key} = {}", self.at(row, key)));
        rest.collect::<Vec<_>>().join(", ")
    }

    fn distinct(&self, table: &Table, rows: impl Iterator<Item = usize>, key: &str) -> Vec<String> {
        let mut values = Vec::new();
        for value in rows.map(|row| self.at(&table.rows[row], key)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }

    /// The part of these rows; of each column, whether published values stand beside it.
    fn part(&self, table: &Table, rest: &str, members: &[usize], across: &[(String, bool)]) -> Part {
        let label =
            |value: &str| if self.across == ARM { value.to_owned() } else { format!("{} = {value}", self.across) };
        let mut columns = Vec::new();
        for (value, has_paper) in across {
            columns.push(Column { name: label(value), title: value.clone() });
            if *has_paper {
                columns.push(Column { name: format!("{} paper", label(value)), title: format!("{value} paper") });
            }
        }
        let row = |name: String| {
            let mut cells = Vec::new();
            for (value, has_paper) in across {
                let is_here = |at: &&usize| {
                    let row = &table.rows[**at];
                    self.at(row, &self.down) == name && self.at(row, &self.across) == *value
                };
                let here: Vec<usize> = members.iter().filter(is_here).copied().collect();
                cells.push(self.cell(table, &here));
                if *has_paper {
                    let published = table.published.as_ref();
                    cells.push(Cell::Published(here.iter().find_map(|at| published?.rows[*at].clone())));
                }
            }
            (name, cells)
        };
        let rows = self.distinct(table, members.iter().copied(), &self.down).into_iter().map(row).collect();
        let rest = if rest.is_empty() { String::new() } else { format!("; {rest}") };
        let title = format!("{}, {} by {}{rest}", title_of(&table.metric), self.down, self.across);
        Part { title, corner: self.down.clone(), columns, rows }
    }

    /// The cell of the rows that stand there: one, or the points that one is chosen from.
    fn cell(&self, table: &Table, here: &[usize]) -> Cell {
        let choices = table.selection.as_ref().filter(|_| self.only_chosen).map(|selection| &selection.rows);
        let choice =
            choices.and_then(|rows| rows.iter().find(|choice| choice.row.is_some_and(|row| here.contains(&row))));
        let index = if self.only_chosen { choice.and_then(|choice| choice.row) } else { here.first().copied() };
        let Some(row) = index.map(|index| &table.rows[index]) else {
            let shown = if here.is_empty() { cell::NONE } else { "not chosen yet" }.to_owned();
            return Cell::Summary { summary: None, shown, is_best: false };
        };
        let summary = row.metric(&table.metric).copied();
        let shown = cell::seen(summary.as_ref(), Style::of(&table.metric), row.planned);
        let best = choice.map_or(&row.best, |choice| &choice.best);
        Cell::Summary { summary, shown, is_best: best.contains(&table.metric) }
    }
}
