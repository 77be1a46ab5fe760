//! What every table is as text: a heading, parts, and lines below them.

use crate::heading::Heading;
use crate::section::Section;
use crate::tex::tex;
use crate::text::{escape_markdown, markdown, terminal, wrap};

/// A table that is ready to be written down.
pub(crate) struct Document<'a> {
    pub(crate) heading: &'a Heading,
    pub(crate) sections: Vec<Section>,
    /// What the comparisons say.
    pub(crate) findings: &'a [String],
    /// What must be known of the runs.
    pub(crate) notes: Vec<String>,
    /// How to read the columns; a terminal leaves it out.
    pub(crate) legend: &'a [String],
}

/// Said on a terminal, which shows no legend, where a cell is of two seeds.
pub(crate) const RANGE: &str =
    "[a, b] beside a mean of two seeds is their range: the smaller and the larger value, no interval.";

impl Document<'_> {
    /// Aligned for a terminal.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n", self.heading.name, self.heading.lines.first().map_or("", |l| &l.1));
        text.extend(self.sections.iter().map(terminal));
        let range = self.sections.iter().any(|section| section.has_range).then(|| RANGE.to_owned());
        for note in self.findings.iter().chain(&range).chain(&self.notes) {
            text += &format!("\n{}", wrap(note));
        }
        text
    }

    /// Markdown that stands by itself.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = format!("# {}\n\n", escape_markdown(&self.heading.name));
        for (word, what) in &self.heading.lines {
            text += &format!("- {word}: {}\n", escape_markdown(what));
        }
        for section in &self.sections {
            text += &format!("\n## {}\n\n{}", section.title, markdown(section));
        }
        for (title, lines) in [("Findings", self.findings), ("Notes", &self.notes), ("How to read it", self.legend)] {
            if !lines.is_empty() {
                text += &format!("\n## {title}\n\n");
                text.extend(lines.iter().map(|line| format!("- {}\n", escape_markdown(line))));
            }
        }
        text
    }

    /// Plain LaTeX tables, one per part.
    pub(crate) fn to_tex(&self) -> String {
        self.sections.iter().map(|section| tex(section, &self.heading.name)).collect()
    }
}
