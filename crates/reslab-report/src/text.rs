//! The table for people: aligned text for a terminal, Markdown, LaTeX.

use crate::section::{Section, sections, timing};
use crate::table::Table;

/// Columns of a terminal that notes are wrapped to.
const WIDTH: usize = 118;

impl Table {
    /// Aligned for a terminal, figures that depend on time included.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n", self.heading.name, self.heading.lines.first().map_or("", |l| &l.1));
        for section in sections(self).iter().chain([&timing(self)]) {
            text += &format!("\n{}\n", section.title);
            let widths = widths(section);
            let rule: usize = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
            text += &line(&section.header, &widths, "  ");
            text += &format!("{}\n", "-".repeat(rule));
            for row in &section.rows {
                text += &line(row, &widths, "  ");
            }
        }
        for note in self.grid_lines().iter().chain(&self.notes) {
            text += &format!("\n{}", wrap(note));
        }
        text
    }

    /// Markdown that stands by itself; without figures that depend on time ([`Table::timing_markdown`]).
    pub fn to_markdown(&self) -> String {
        let mut text = format!("# {}\n\n", escape_markdown(&self.heading.name));
        for (word, what) in &self.heading.lines {
            text += &format!("- {word}: {}\n", escape_markdown(what));
        }
        for section in sections(self) {
            text += &format!("\n## {}\n\n{}", section.title, markdown(&section));
        }
        let list = |title: &str, lines: &[String]| -> String {
            let lines: String = lines.iter().map(|line| format!("- {}\n", escape_markdown(line))).collect();
            if lines.is_empty() { lines } else { format!("\n## {title}\n\n{lines}") }
        };
        text += &list("Notes", &[self.grid_lines(), self.notes.clone()].concat());
        text += &list("How to read it", &self.legend);
        text
    }

    /// Images per second and memory as Markdown.
    pub fn timing_markdown(&self) -> String {
        let section = timing(self);
        let about = "These figures depend on the machine and on what else it did.";
        format!("# {}: {}\n\n{about}\n\n{}", escape_markdown(&self.heading.name), section.title, markdown(&section))
    }

    /// Plain LaTeX tables (package booktabs), one per part.
    pub fn to_tex(&self) -> String {
        let mut text = String::new();
        for section in sections(self) {
            let row = |cells: &[String]| -> String {
                cells.iter().map(|cell| escape_tex(cell)).collect::<Vec<_>>().join(" & ") + " \\\\\n"
            };
            text += &format!("% {}: {}\n", self.heading.name, section.title);
            text += &format!("\\begin{{tabular}}{{l{}}}\n\\toprule\n", "r".repeat(section.header.len() - 1));
            text += &row(&section.header);
            text += "\\midrule\n";
            text.extend(section.rows.iter().map(|cells| row(cells)));
            text += "\\bottomrule\n\\end{tabular}\n\n";
        }
        text
    }

    /// What the choice was made from.
    fn grid_lines(&self) -> Vec<String> {
        let Some(selection) = &self.selection else { return Vec::new() };
        let best = if selection.metric.is_loss() { "lowest" } else { "highest" };
        let mut lines = vec![format!(
            "Chosen per arm: the point with the {best} mean {} over seeds, among those with all seeds done; the test split \
             has no part in it.",
            selection.metric.name()
        )];
        lines.extend(selection.grid.iter().map(|grid| format!("Grid: {grid}.")));
        lines
    }
}

fn widths(section: &Section) -> Vec<usize> {
    let mut widths: Vec<usize> = section.header.iter().map(|cell| cell.chars().count()).collect();
    for row in &section.rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
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

fn markdown(section: &Section) -> String {
    let escape = |cells: &[String]| cells.iter().map(|cell| escape_markdown(cell)).collect::<Vec<_>>();
    let escaped = Section {
        title: String::new(),
        header: escape(&section.header),
        rows: section.rows.iter().map(|row| escape(row)).collect(),
    };
    let widths: Vec<usize> = widths(&escaped).into_iter().map(|width| width.max(3)).collect();
    let row = |cells: &[String]| format!("| {} |\n", line(cells, &widths, " | ").trim_end_matches('\n'));
    let pad = |cells: &[String]| {
        let mut cells = cells.to_vec();
        let (last, width) = (cells.len() - 1, widths[cells.len() - 1]);
        cells[last] = format!("{:>width$}", cells[last]);
        row(&cells)
    };
    let rule: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(index, width)| if index == 0 { "-".repeat(*width) } else { "-".repeat(width - 1) + ":" })
        .collect();
    let rows: String = escaped.rows.iter().map(|cells| pad(cells)).collect();
    pad(&escaped.header) + &pad(&rule) + &rows
}

/// Brackets of `gated[lr=3e-4]` and stars are words here, not links or emphasis; a bar would end the cell.
fn escape_markdown(text: &str) -> String {
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

fn escape_tex(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', c]),
            '~' => escaped += "\\textasciitilde{}",
            '^' => escaped += "\\textasciicircum{}",
            '\\' => escaped += "\\textbackslash{}",
            _ => escaped.push(c),
        }
    }
    escaped.replace("+-", "$\\pm$")
}

fn wrap(text: &str) -> String {
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
