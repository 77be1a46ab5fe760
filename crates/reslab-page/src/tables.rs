//! Tables that can be sorted, from the same cells that table.md has.

use maud::{Markup, html};
use reslab_report::{Section, Table};

use crate::curves::Arm;

/// A part of the report as a table with a heading.
pub(crate) fn section(section: &Section, arms: &[Arm]) -> Markup {
    html! {
        section {
            h3 { (section.title) }
            (sortable(&section.title, &section.header, &section.rows, arms))
        }
    }
}

/// A table in a frame of its own, which scrolls where it is wider than the page. A row that is one of `arms` has the mark
/// of its curves.
pub(crate) fn sortable(title: &str, header: &[String], rows: &[Vec<String>], arms: &[Arm]) -> Markup {
    linked(title, header, rows, arms, &[])
}

/// The same where the name of each row leads to a place of the page.
pub(crate) fn linked(title: &str, header: &[String], rows: &[Vec<String>], arms: &[Arm], links: &[String]) -> Markup {
    let is_number: Vec<bool> = (0..header.len()).map(|column| is_numeric(rows, column)).collect();
    html! {
        div.scroll tabindex="0" role="region" aria-label=(title) {
            table.sortable {
                caption.hidden { (title) }
                thead { tr {
                    @for (name, is_number) in header.iter().zip(&is_number) {
                        th scope="col" class=[is_number.then_some("number")] aria-sort="none" {
                            button type="button" { (signs(name)) span.arrow aria-hidden="true" {} }
                        }
                    }
                } }
                tbody { @for (index, row) in rows.iter().enumerate() { (body_row(row, &is_number, arms, links.get(index))) } }
            }
        }
    }
}

fn body_row(row: &[String], is_number: &[bool], arms: &[Arm], link: Option<&String>) -> Markup {
    let name = row.first().map_or("", String::as_str);
    let arm = arms.iter().find(|arm| arm.name == name);
    html! {
        tr {
            th scope="row" data-sort=(name) {
                span.arm {
                    @if let Some(arm) = arm { (swatch(arm)) }
                    @if let Some(place) = link { a href={ "#" (place) } { (breakable(name)) } } @else { span { (breakable(name)) } }
                }
            }
            @for (cell, is_number) in row.iter().zip(is_number).skip(1) {
                @let figure = number(cell);
                td class=[is_number.then_some("number")] data-sort=[figure] { (body_cell(cell)) }
            }
        }
    }
}

/// A name that may be broken before its axes and a plus, and between its axes.
fn breakable(name: &str) -> Markup {
    let is_start = |at: usize| name[at..].starts_with(['[', '+']) || name[..at].ends_with(',');
    let starts: Vec<usize> = (1..name.len()).filter(|at| name.is_char_boundary(*at) && is_start(*at)).collect();
    let mut from = 0;
    let ends = starts.into_iter().chain([name.len()]);
    let parts = ends.map(|end| &name[std::mem::replace(&mut from, end)..end]);
    html! { @for (index, part) in parts.enumerate() { @if index > 0 { wbr; } (part) } }
}

/// The cell, with what it says of n in smaller letters, and what was found as a word that stands out.
fn body_cell(cell: &str) -> Markup {
    if matches!(cell, "better" | "worse") {
        return html! { strong class=(cell) { (cell) } };
    }
    match cell.split_once(" (n=") {
        Some((figure, n)) => html! { (signs(figure)) " " span.n { "(n=" (n) } },
        None => html! { (signs(cell)) },
    }
}

/// The mark of an arm's curves: their colour and dashes.
fn swatch(arm: &Arm) -> Markup {
    html! {
        svg.swatch.{ "line" (arm.line) }.{ "dash" (arm.dash) } viewBox="0 0 26 8" preserveAspectRatio="xMinYMid slice" width="26" height="8" aria-hidden="true" {
            path d="M1 4H25" {}
        }
    }
}

/// table.csv as it stands: every figure with all its digits.
pub(crate) fn every_figure(table: &Table) -> Markup {
    let text = table.to_csv();
    let mut records = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut rows = records.records().filter_map(Result::ok).map(|row| row.iter().map(str::to_owned).collect());
    let header: Vec<String> = rows.next().unwrap_or_default();
    let rows: Vec<Vec<String>> = rows.collect();
    html! {
        details.figures {
            summary { "Every figure, with all its digits (table.csv)" }
            p.soft {
                "Accuracies here are shares from 0 to 1; an empty cell is a figure that is not defined. The columns are defined in docs/records.md."
            }
            (sortable("Every figure", &header, &rows, &[]))
        }
    }
}

/// A plus-minus and a minus as typographers write them.
fn signs(text: &str) -> String {
    let text = text.replace("+-", "\u{b1}");
    match text.strip_prefix('-') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => format!("\u{2212}{rest}"),
        _ => text,
    }
}

/// Whether all cells of a column that say anything begin with a number; so are columns that say nothing anywhere.
fn is_numeric(rows: &[Vec<String>], column: usize) -> bool {
    let says = |cell: &&String| !matches!(cell.as_str(), "" | "-" | "baseline");
    let mut cells = rows.iter().filter_map(|row| row.get(column)).filter(says);
    column > 0 && cells.all(|cell| number(cell).is_some())
}

/// The number that a cell begins with, as a sort takes it: `74.27` of `74.27 +- 2.63 (n=3)`, `2404234` of `2,404,234`.
fn number(cell: &str) -> Option<String> {
    let word = cell.split([' ', '/']).next().unwrap_or_default().replace(',', "");
    let starts = word.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let value: f64 = word.parse().ok()?;
    match (starts, value.is_infinite()) {
        (true, _) => Some(word.trim_start_matches('+').to_owned()),
        (_, true) => Some(if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sort_takes_the_number_that_a_cell_begins_with() {
        let cases = [
            ("74.27 +- 2.63 (n=3, 0 diverged)", Some("74.27")),
            ("+2.04 +- 1.88", Some("2.04")),
            ("-0.79 +- 1.75", Some("-0.79")),
            ("2,404,234", Some("2404234")),
            ("1/3", Some("1")),
            ("4.57e6", Some("4.57e6")),
            ("inf", Some("Infinity")),
            ("NaN", None),
            ("baseline", None),
            ("lr=1e-3", None),
            ("-", None),
            ("", None),
        ];
        for (cell, want) in cases {
            assert_eq!(number(cell).as_deref(), want, "{cell}");
        }
    }
}
