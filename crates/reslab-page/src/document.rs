//! The page as a whole.

use base64::{Engine, prelude::BASE64_STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use reslab_plot::{Plots, line_colours};
use reslab_report::{Status, Sweep, Table};
use sha2::{Digest, Sha256};
use std::path::Path;

use crate::curves::{Arm, Curves, arms};
use crate::records::{self, Records};
use crate::{figures, reproduce, runs, tables};

const STYLE: &str = include_str!("assets/page.css");
const SCRIPT: &str = concat!(
    "'use strict';\n",
    include_str!("assets/tables.js"),
    include_str!("assets/scale.js"),
    include_str!("assets/curves.js"),
    include_str!("assets/runs.js")
);

/// The page of the sweep in folder `dir`, of which `sweep`, `table` and `plots` were made. Equal records give equal bytes.
pub fn page(dir: &Path, sweep: &Sweep, table: &Table, plots: &Plots) -> String {
    let records = records::read(dir, sweep);
    let arms = arms(table);
    let curves = Curves::new(sweep, table, &records);
    let plan = &sweep.plan;
    let question = plan.question.split_whitespace().collect::<Vec<_>>().join(" ");
    let question = if question.is_empty() { plan.name.clone() } else { question };
    let parts = Parts {
        answer: answer(table, plots),
        results: results(table, &arms),
        curves: curves_part(&curves),
        plots: figures::others(plots),
        runs: runs_part(sweep, table, &records, &arms),
        reproduce: reproduce::section(sweep),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="color-scheme" content="light dark";
                title { (plan.name) ": " (question) }
                style { (PreEscaped(colours())) (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#answer" { "Skip to the answer" }
                (head(sweep, &question))
                (navigation(&parts))
                main tabindex="-1" { (parts.all()) }
                footer { p { "Written by reslab from the records of this sweep. One file; it asks for nothing from elsewhere." } }
                script type="application/json" id="data" { (PreEscaped(curves.to_json())) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string() + "\n"
}

/// Nothing is loaded from anywhere, and no script runs but the page's own: a second wall behind the escaping of texts.
fn policy() -> String {
    let script = BASE64_STANDARD.encode(Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// The colours of lines, as in the plots; those that are not seen well on a dark page are lighter there.
fn colours() -> String {
    const DARK: [(&str, &str); 3] = [("#000000", "#f2f2f2"), ("#0072b2", "#3b93d3"), ("#56b4e9", "#8fd0f7")];
    let light = line_colours();
    let dark = light.iter().map(|colour| DARK.iter().find(|(from, _)| from == colour).map_or(&**colour, |(_, to)| *to));
    let (mut colours, mut dark_colours, mut classes) = (String::new(), String::new(), String::new());
    for (index, (light, dark)) in light.iter().zip(dark).enumerate() {
        colours += &format!("--line{index}:{light};");
        dark_colours += &format!("--line{index}:{dark};");
        classes += &format!(".line{index}{{stroke:var(--line{index});color:var(--line{index})}}");
    }
    format!(":root{{{colours}}}@media(prefers-color-scheme:dark){{:root{{{dark_colours}}}}}{classes}\n")
}

struct Parts {
    answer: Markup,
    results: Markup,
    curves: Markup,
    plots: Option<Markup>,
    runs: Markup,
    reproduce: Markup,
}

impl Parts {
    fn all(&self) -> Markup {
        html! {
            section #answer { h2 { "What was found" } (self.answer) }
            section #results { h2 { "Results" } (self.results) }
            section #curves { h2 { "Curves" } (self.curves) }
            @if let Some(plots) = &self.plots { section #plots { h2 { "Inside the network" } (plots) } }
            section #runs { h2 { "Runs" } (self.runs) }
            section #reproduce { h2 { "How to reproduce" } (self.reproduce) }
        }
    }
}

fn navigation(parts: &Parts) -> Markup {
    let all = [
        ("answer", "Answer"),
        ("results", "Results"),
        ("curves", "Curves"),
        ("plots", "Network"),
        ("runs", "Runs"),
        ("reproduce", "Reproduce"),
    ];
    html! {
        nav aria-label="Parts of this page" { ul {
            @for (id, name) in all.iter().filter(|(id, _)| *id != "plots" || parts.plots.is_some()) {
                li { a href={ "#" (id) } { (name) } }
            }
        } }
    }
}

/// Name, question, and how far the sweep is.
fn head(sweep: &Sweep, question: &str) -> Markup {
    let plan = &sweep.plan;
    let count = |is: fn(&Status) -> bool| sweep.runs.iter().filter(|run| is(&run.status)).count();
    let done = count(|status| matches!(status, Status::Done(_)));
    let failed = count(|status| matches!(status, Status::Failed(_)));
    let all = sweep.runs.len();
    html! {
        header.top {
            p.eyebrow { "reslab sweep " b { (plan.name) } @if let Some(profile) = &plan.profile { ", profile " (profile) } }
            h1 { (question) }
            @if done == all {
                p.status { (all) " runs, and all have their result." }
            } @else {
                div.status.partial {
                    p {
                        b { (done) " of " (all) " runs have their result" }
                        @if failed > 0 { ", " (failed) " failed" }
                        ". While the sweep runs this page is written anew as runs finish: what it says is provisional."
                    }
                    button.reload type="button" hidden { "Load it again" }
                }
            }
        }
    }
}

fn answer(table: &Table, plots: &Plots) -> Markup {
    let (lead, rest) =
        table.findings.split_first().map_or(("No run has a result to compare yet.", &[][..]), |(a, b)| (a, b));
    let notes: Vec<String> = [table.grid_lines(), table.notes.clone()].concat();
    html! {
        p.lead { (lead) }
        @for finding in rest { p { (finding) } }
        @if !notes.is_empty() {
            aside.notes aria-label="What must be known of these runs" {
                h3 { "What must be known of these runs" }
                ul { @for note in &notes { li { (note) } } }
            }
        }
        @if let Some(differences) = figures::differences(plots) { (differences) }
        (about(table))
    }
}

/// What stands above table.md: data, network, training, device, code.
fn about(table: &Table) -> Markup {
    let lines = table.heading.lines.iter().filter(|(word, _)| *word != "Question");
    html! {
        div.card {
            h3 { "What was run" }
            dl.facts { @for (word, what) in lines { div { dt { (word) } dd { (what) } } } }
        }
    }
}

fn results(table: &Table, arms: &[Arm]) -> Markup {
    html! {
        p.soft { "A column's name sorts by it." }
        @for section in table.sections() { (tables::section(&section, arms)) }
        (tables::section(&table.timing(), arms))
        details { summary { "How to read the tables" } ul { @for line in &table.legend { li { (line) } } } }
        (tables::every_figure(table))
    }
}

fn curves_part(curves: &Curves) -> Markup {
    if curves.is_empty() {
        return html! { p { "No run has recorded a step yet." } };
    }
    html! {
        div #chart {}
        noscript { p { "The curves need JavaScript. The same figures stand in plots/loss.svg, val_accuracy.svg and grad_norm.svg beside this page." } }
    }
}

fn runs_part(sweep: &Sweep, table: &Table, records: &[Records], arms: &[Arm]) -> Markup {
    html! {
        (runs::overview(sweep, table, arms))
        p.buttons { button.unfold type="button" hidden aria-pressed="false" { "Open all runs" } }
        @for (run, records) in sweep.runs.iter().zip(records) { (runs::details(run, records)) }
    }
}
