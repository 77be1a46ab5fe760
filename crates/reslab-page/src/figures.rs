//! The plots of reslab-plot as figures of the page.

use maud::{Markup, PreEscaped, html};
use reslab_plot::{Plot, Plots};

/// The page draws these itself, with values under the pointer.
const DRAWN_BY_SCRIPT: [&str; 3] = ["loss", "val_accuracy", "grad_norm"];
/// This one belongs to the answer.
const DIFFERENCES: &str = "differences";

/// The paired differences, which stand with the findings.
pub(crate) fn differences(plots: &Plots) -> Option<Markup> {
    plots.drawn.iter().find(|plot| plot.name == DIFFERENCES).map(figure)
}

/// The other plots; nothing where there are none.
pub(crate) fn others(plots: &Plots) -> Option<Markup> {
    let shown = |plot: &&Plot| plot.name != DIFFERENCES && !DRAWN_BY_SCRIPT.contains(&plot.name);
    let shown: Vec<&Plot> = plots.drawn.iter().filter(shown).collect();
    let left_out = plots.left_out.iter().filter(|(name, _)| !DRAWN_BY_SCRIPT.contains(name));
    let left_out: Vec<String> = left_out.map(|(name, why)| format!("{name} ({why})")).collect();
    (!shown.is_empty()).then(|| {
        html! {
            @for plot in shown { (figure(plot)) }
            @if !left_out.is_empty() { p.soft { "Left out: " (left_out.join(", ")) "." } }
        }
    })
}

fn figure(plot: &Plot) -> Markup {
    html! {
        figure.plot id={ "plot-" (plot.name) } {
            div.scroll tabindex="0" role="region" aria-label=(plot.title) { (PreEscaped(&plot.svg)) }
            figcaption { (caption(plot.name)) }
        }
    }
}

/// What to look for.
fn caption(name: &str) -> &'static str {
    match name {
        "differences" => {
            "Points right of the line are above the baseline. An interval that leaves out zero is no finding: the \
             tests decide."
        }
        "learning_rate" => {
            "A flat curve is a join that forgives a wrong rate; where a curve turns up, training became unstable."
        }
        "depth" => "A join that keeps deep networks trainable holds its accuracy to the right.",
        "update_ratio" => {
            "How much each join adds to its stream. Even colours: all blocks take part. Dark bands: blocks that do little."
        }
        "gamma" => {
            "Learned scales from start to end of training. Alone they say little: what is added is the update ratio."
        }
        "residual_rms" => "How the stream grows from block to block, early, midway and late in training.",
        "gate_mean" => "How far the gates are open, on the mean over tokens.",
        "gate_saturated" => "The share of gates at an end of their range, where they learn little.",
        "cosine" => "Above zero a join adds along its stream, below zero it takes from it.",
        _ => "",
    }
}
