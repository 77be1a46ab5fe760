//! The table for people: aligned text for a terminal, and Markdown.

use crate::document::Document;
use crate::section::{Section, sections, timing};
use crate::table::Table;

/// Columns of a terminal: notes are wrapped to them, and tables kept within them where names allow it.
const WIDTH: usize = 118;

impl Table {
    /// Aligned for a terminal, figures that depend on time included.
    pub fn to_text(&self) -> String {
        let mut document = self.document();
        document.sections.push(timing(self));
        document.to_text()
    }

    /// Markdown that stands by itself; without figures that depend on time ([`Table::timing_markdown`]).
    pub fn to_markdown(&self) -> String {
        self.document().to_markdown()
    }

    /// Plain LaTeX tables (package booktabs), one per part.
    pub fn to_tex(&self) -> String {
        self.document().to_tex()
    }

    fn document(&self) -> Document<'_> {
        let notes = [self.grid_lines(), self.notes.clone()].concat();
        let (heading, findings, legend) = (&self.heading, &self.findings[..], &self.legend[..]);
        Document { heading, sections: sections(self), findings, notes, legend }
    }

    /// Images per second and memory as Markdown.
    pub fn timing_markdown(&self) -> String {
        let section = timing(self);
        let about = "These figures depend on the machine and on what else it did.";
        format!("# {}: {}\n\n{about}\n\n{}", escape_markdown(&self.heading.name), section.title, markdown(&section))
    }

    /// What the choice was made from; nothing where the sweep does not select.
    pub fn grid_lines(&self) -> Vec<String> {
        let Some(selection) = &self.selection else { return Vec::new() };
        let best = if selection.metric.is_loss() { "lowest" } else { "highest" };
        let mut lines = vec![format!(
            "Chosen per arm: the point with the {best} mean {} over seeds, the first of equals, among those with all seeds \
             done; the test split has no part in it.",
            selection.metric.name()
        )];
        lines.extend(selection.grid.iter().map(|grid| format!("Grid: {grid}.")));
        let at_end = selection.rows.iter().flat_map(|choice| {
            choice.at_end.iter().map(|axis| format!("{} ({}={})", choice.arm, axis.label, axis.value))
        });
        let at_end = at_end.collect::<Vec<_>>().join(", ");
        if !at_end.is_empty() {
            lines.push(format!("At an end of the grid, so that a better value may lie beyond it: {at_end}."));
        }
        for choice in selection.rows.iter().filter(|choice| choice.complete < choice.points) {
            let (complete, points) = (choice.complete, choice.points);
            lines.push(format!("{}: the choice is provisional, {complete} of {points} points are done.", choice.arm));
        }
        lines
    }
}

/// The widest cell of each column.
fn widths<'a>(rows: impl Iterator<Item = &'a Vec<String>>) -> Vec<usize> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(row.len().max(widths.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

/// A part for a terminal. Where it is too wide, words of the header stand above each other; where it still is, names
/// stand above their axes.
pub(crate) fn terminal(section: &Section) -> String {
    let one_line = vec![section.header.clone()];
    let cut =
        |cell: &String| cell.rsplit_once(' ').map_or((String::new(), cell.clone()), |(a, b)| (a.into(), b.into()));
    let (upper, lower): (Vec<String>, Vec<String>) = section.header.iter().map(cut).unzip();
    let two_lines = vec![upper, lower];
    let broken: Vec<Vec<String>> = section.rows.iter().flat_map(|row| broken(row)).collect();

    let total = |widths: &[usize]| widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
    let forms = [(&one_line, &section.rows), (&two_lines, &section.rows), (&two_lines, &broken)];
    let mut forms = forms.map(|(header, rows)| (header, rows, widths(header.iter().chain(rows)))).into_iter();
    let last = forms.next_back().expect("there are three");
    let (header, rows, widths) = forms.find(|(_, _, widths)| total(widths) <= WIDTH).unwrap_or(last);

    let mut text = format!("\n{}\n", section.title);
    text.extend(header.iter().map(|cells| line(cells, &widths, "  ")));
    text += &format!("{}\n", "-".repeat(total(&widths)));
    text.extend(rows.iter().map(|row| line(row, &widths, "  ")));
    text
}

/// A row whose name ends in axes, as two: the axes stand under the name.
fn broken(row: &[String]) -> Vec<Vec<String>> {
    match row[0].split_once('[') {
        Some((name, axes)) => {
            let mut second = vec![String::new(); row.len()];
            second[0] = format!("  [{axes}");
            let first = std::iter::once(name.to_owned()).chain(row[1..].iter().cloned());
            vec![first.collect(), second]
        }
        None => vec![row.to_vec()],
    }
}

/// The first column left, the others right; no blanks at the end.
fn line(cells: &[String], widths: &[usize], between: &str) -> String {
    let padded: Vec<String> = cells
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(index, (cell, width))| if index == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") })
        .collect();
    padded.join(between).trim_end().to_owned() + "\n"
}

pub(crate) fn markdown(section: &Section) -> String {
    let escape = |cells: &[String]| cells.iter().map(|cell| escape_markdown(cell)).collect::<Vec<_>>();
    let rows = section.rows.iter().map(|row| escape(row)).collect();
    let escaped = Section { header: escape(&section.header), rows, ..Section::default() };
    let cells = std::iter::once(&escaped.header).chain(&escaped.rows);
    let widths: Vec<usize> = widths(cells).into_iter().map(|width| width.max(3)).collect();
    let row = |cells: &[String]| format!("| {} |\n", line(cells, &widths, " | ").trim_end_matches('\n'));
    let rule: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(index, width)| if index == 0 { "-".repeat(*width) } else { "-".repeat(width - 1) + ":" })
        .collect();
    let rows: String = escaped.rows.iter().map(|cells| row(cells)).collect();
    row(&escaped.header) + &row(&rule) + &rows
}

/// Brackets of `gated[lr=3e-4]` and stars are words here, not links or emphasis; a bar would end the cell.
pub(crate) fn escape_markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '<' | '`' | '\\' => escaped.extend(['\\', c]),
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(c),
        }
    }
    escaped
}

pub(crate) fn wrap(text: &str) -> String {
    let mut wrapped = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            wrapped += "\n  ";
            column = 2;
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped += word;
        column += length;
    }
    wrapped
}
