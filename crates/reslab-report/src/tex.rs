//! LaTeX: plain tables for the package booktabs.

use crate::section::Section;

/// A part as a `tabular`.
pub(crate) fn tex(section: &Section, name: &str) -> String {
    let width = section.header.len();
    let mut text = format!("% {}: {}\n", one_line(name), one_line(&section.title));
    if !section.best.is_empty() {
        text += "% Bold: better than every other arm at the same point, each by a paired 95 % interval that leaves out 0.\n";
    }
    text += &format!("\\begin{{tabular}}{{l{}}}\n\\toprule\n", "r".repeat(width.saturating_sub(1)));
    text += &line(section.header.iter().map(|cell| escape(cell)));
    text += "\\midrule\n";
    for (row, cells) in section.rows.iter().enumerate() {
        text +=
            &line(
                cells.iter().enumerate().map(|(column, cell)| {
                    if section.best.contains(&(row, column)) { bold(cell) } else { escape(cell) }
                }),
            );
    }
    text += "\\bottomrule\n";
    for foot in &section.feet {
        text += &line([format!("\\multicolumn{{{width}}}{{l}}{{\\footnotesize {}}}", escape(foot))].into_iter());
    }
    text + "\\end{tabular}\n\n"
}

/// The value alone is bold: interval and n say how sure it is.
fn bold(cell: &str) -> String {
    let (value, rest) = cell.split_once(' ').map_or((cell, String::new()), |(value, rest)| (value, format!(" {rest}")));
    format!("\\textbf{{{}}}{}", escape(value), escape(&rest))
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let row = cells.collect::<Vec<_>>().join(" & ");
    // Behind the \\ of the row above, a bracket or a star would be taken for its argument.
    let guard = if row.starts_with(['[', '*']) { "{}" } else { "" };
    format!("{guard}{row} \\\\\n")
}

/// What stands in a comment must not leave it.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Characters that LaTeX takes for commands, or sets as others in its old encoding; +- as the sign, and a minus before a
/// number as a minus.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '+' if rest.peek() == Some(&'-') => {
                rest.next();
                escaped += "$\\pm$";
            }
            '-' if !before.is_alphanumeric() && before != '-' && rest.peek().is_some_and(char::is_ascii_digit) => {
                escaped += "$-$";
            }
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', c]),
            '<' | '>' | '|' => escaped.extend(['$', c, '$']),
            '~' => escaped += "\\textasciitilde{}",
            '^' => escaped += "\\textasciicircum{}",
            '\\' => escaped += "\\textbackslash{}",
            '"' => escaped += "\\textquotedbl{}",
            _ if c.is_whitespace() => escaped.push(' '),
            _ => escaped.push(c),
        }
        before = c;
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(rows: &[&[&str]], best: &[(usize, usize)]) -> Section {
        let strings = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        Section {
            title: "Accuracy\n\\evil".to_owned(),
            header: strings(&["arm", "P(arm > plain)"]),
            rows: rows.iter().map(|row| strings(row)).collect(),
            best: best.to_vec(),
            feet: vec!["paper: A & B, 50 %".to_owned()],
            has_range: false,
        }
    }

    #[test]
    fn whatever_a_name_holds_stays_a_word() {
        let text = tex(&section(&[&["[a|b]_%{#}$~^\\", "-0.79 +- 1.75"], &["*x-1e-5", "-"]], &[]), "demo\nx");
        let want = "% demo x: Accuracy \\evil\n\\begin{tabular}{lr}\n\\toprule\narm & P(arm $>$ plain) \\\\\n\\midrule\n\
                    {}[a$|$b]\\_\\%\\{\\#\\}\\$\\textasciitilde{}\\textasciicircum{}\\textbackslash{} & $-$0.79 $\\pm$ 1.75 \\\\\n\
                    {}*x-1e-5 & - \\\\\n\\bottomrule\n\
                    \\multicolumn{2}{l}{\\footnotesize paper: A \\& B, 50 \\%} \\\\\n\\end{tabular}\n\n";
        assert_eq!(text, want);
    }

    #[test]
    fn the_value_of_the_best_is_bold_and_it_is_said_what_that_means() {
        let text = tex(&section(&[&["plain", "70.00 +- 1.00 (n=3)"], &["gated", "80.00"]], &[(0, 1), (1, 1)]), "demo");
        assert!(text.contains("plain & \\textbf{70.00} $\\pm$ 1.00 (n=3) \\\\\n"), "{text}");
        assert!(text.contains("gated & \\textbf{80.00} \\\\\n") && text.contains("% Bold: "), "{text}");
        let none = tex(&section(&[&["plain", "70.00"]], &[]), "demo");
        assert!(!none.contains("textbf") && !none.contains("Bold"), "negative control: {none}");
    }
}
