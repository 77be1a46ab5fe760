//! From a folder of records to the files of its plots: what stands in them, and that they repeat.

mod support;

use reslab_plot::plots;
use reslab_report::{Options, read_sweep, table};
use std::path::Path;
use support::*;

#[test]
fn every_plot_has_a_title_axes_with_units_all_arms_and_n() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), &arms(), |_| Vec::new());
    let plots = draw(dir.path());
    let of = |name: &'static str, title: &'static str, axes: [&'static str; 2]| (name, title, axes);
    let step = "optimizer step";
    let cases = [
        of("loss", "Training loss against step", [step, "training loss, mean of 20 steps (nats)"]),
        of("val_accuracy", "Validation accuracy against step", [step, "validation accuracy, top-1 (%)"]),
        of("grad_norm", "Gradient norm against step", [step, "gradient norm (log)"]),
        of("residual_rms", "Size of the residual by depth", ["block (attention, then MLP)", "residual rms (no unit)"]),
        of("update_ratio", "Update ratio per layer over training", [step, "block"]),
        of("cosine", "Cosine between update and residual per layer over training", [step, "block"]),
        of("attention_logit_max", "Largest attention logit per block over training", [step, "block"]),
        of("attention_entropy", "Attention entropy per block over training", [step, "block"]),
        of("token_similarity", "Likeness of tokens per block over training", [step, "block"]),
    ];
    for (name, title, axes) in cases {
        let texts = texts(svg(&plots, name));
        for want in [title, axes[0], axes[1], "plain", "layer_scale", "gated", "demo"] {
            assert!(texts.contains(&want), "{name} lacks {want}: {texts:?}");
        }
        assert_eq!(texts.iter().filter(|text| text.starts_with("n = 3")).count(), 3, "{name}: n of every arm");
        let says_band = texts.join(" ").contains("Band: from the smallest to the largest seed.");
        assert_eq!(says_band, axes[1] != "block", "{name} says what its band is, if it has one");
    }
    let forest = texts(svg(&plots, "differences"));
    for want in ["Difference in test/top1 to plain, paired by seed", "difference in test/top1 (percentage points)"] {
        assert!(forest.contains(&want), "{forest:?}");
    }
    // .01 per letter of the arm's name: layer_scale is 6 letters longer than plain, in every seed.
    assert!(forest.contains(&"+6.00 \u{b1} 0.00 (n = 3)"), "{forest:?}");
    let left_out: Vec<&str> = plots.left_out.iter().map(|(name, _)| *name).collect();
    assert_eq!(left_out, ["learning_rate", "depth"]);
}

#[test]
fn only_arms_that_have_a_gamma_or_a_gate_get_a_panel_for_it() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), &arms(), |_| Vec::new());
    let plots = draw(dir.path());
    let has = |name: &str, arm: &str| texts(svg(&plots, name)).contains(&arm);
    // The gate's learned number is the end of its range, no gamma.
    assert!(has("gamma", "layer_scale") && !has("gamma", "gated") && !has("gamma", "plain"));
    assert!(has("gamma", "Without a gamma: plain, gated."));
    assert!(has("gate_mean", "gated") && !has("gate_mean", "layer_scale"));
    assert!(has("gate_saturated", "Without a gate: plain, layer_scale."));
}

/// A spike of 40 times the norm in each of the three gated runs, and none elsewhere.
#[test]
fn spikes_are_marked_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), &arms(), |_| Vec::new());
    let plots = draw(dir.path());
    let grad_norm = svg(&plots, "grad_norm");
    let vermilion = grad_norm.matches("fill=\"#d55e00\"").count();
    assert_eq!(vermilion, 1 + 3, "one in the legend, three in a panel");
    let texts = texts(grad_norm);
    assert_eq!(texts.iter().filter(|text| **text == "n = 3, 0 spikes").count(), 2, "{texts:?}");
    assert!(texts.contains(&"n = 3, 3 spikes") && texts.contains(&"spike"), "{texts:?}");
    assert!(
        texts.contains(&"Each point of a line is the mean of 2 steps; the band has all of their range."),
        "{texts:?}"
    );
}

#[test]
fn a_grid_gives_lines_with_dashes_and_marks_and_a_curve_of_the_learning_rate() {
    let dir = tempfile::tempdir().unwrap();
    let rates = ["1e-3", "4e-3", "1e-2"].map(|lr| Fake { lr, ..RUN });
    let gated = rates.clone().map(|run| Fake { arm: "gated", gate: Some(0.1), ..run });
    sweep(dir.path(), &three_seeds(&[rates, gated].concat()), |run| vec![axis("optim.lr", run.lr)]);
    let plots = draw(dir.path());
    let accuracy = svg(&plots, "val_accuracy");
    let labels = texts(accuracy);
    for want in ["lr=1e-3", "lr=4e-3", "lr=1e-2", "plain", "gated", "n = 3 each"] {
        assert!(labels.contains(&want), "{labels:?}");
    }
    // Legend and two panels: a dash of its own for the second and third line, round marks for the first alone.
    for dash in ["7 3", "2 2"] {
        assert_eq!(accuracy.matches(&format!("stroke-dasharray=\"{dash}\"")).count(), 3, "{dash}");
    }
    assert_eq!(accuracy.matches("<circle").count(), 1 + 2 * 2);
    let curve = texts(svg(&plots, "learning_rate"));
    for want in
        ["Final loss against learning rate", "learning rate (log)", "final training loss (nats)", "1e-2", "n = 3"]
    {
        assert!(curve.contains(&want), "{curve:?}");
    }
    assert_eq!(plots.left_out.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["depth", "gamma"]);
}

#[test]
fn accuracy_is_drawn_against_depth_where_that_varies() {
    let dir = tempfile::tempdir().unwrap();
    let depths = [2, 4, 8].map(|depth| Fake { depth, ..RUN });
    sweep(dir.path(), &three_seeds(&depths), |run| vec![axis("model.depth", &run.depth.to_string())]);
    let plots = draw(dir.path());
    let texts = texts(svg(&plots, "depth"));
    for want in ["test/top1 against depth", "depth (blocks)", "test/top1 (%)", "2", "4", "8", "n = 3"] {
        assert!(texts.contains(&want), "{texts:?}");
    }
}

#[test]
fn the_same_records_give_the_same_bytes_wherever_the_folder_is() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let plots = dirs.each_ref().map(|dir| {
        sweep(dir.path(), &arms(), |_| Vec::new());
        draw(dir.path())
    });
    assert_eq!(plots[0], plots[1]);
    assert_eq!(plots[0], draw(dirs[0].path()), "and once more");
    for plot in &plots[0].drawn {
        let path = dirs[0].path().join("plots").join(plot.name);
        assert_eq!(std::fs::read_to_string(path.with_extension("svg")).unwrap(), plot.svg);
        assert_eq!(std::fs::read(path.with_extension("png")).unwrap(), plot.png);
    }
    // Negative control: another figure gives other bytes.
    let other = tempfile::tempdir().unwrap();
    let runs: Vec<Fake> = arms().into_iter().map(|run| Fake { spike: 41.0 * run.spike, ..run }).collect();
    sweep(other.path(), &runs, |_| Vec::new());
    assert_ne!(svg(&draw(other.path()), "grad_norm"), svg(&plots[0], "grad_norm"));
}

/// The plots that are published in results/ (.gitignore names them) are those of the records beside them.
#[test]
fn published_plots_are_drawn_again_byte_by_byte() {
    let published: [(&str, &[&str]); 2] = [
        ("depth48-cpu", &["differences", "update_ratio"]),
        ("lr_grid-cpu", &["differences", "grad_norm", "learning_rate"]),
    ];
    for (sweep, names) in published {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results").join(sweep);
        let read = read_sweep(&dir).unwrap();
        let drawn = plots(&dir, &read, &table(&read, &Options::default()).unwrap()).unwrap();
        for name in names {
            let file = format!("plots/{name}.svg");
            let is_same = std::fs::read_to_string(dir.join(&file)).unwrap() == svg(&drawn, name);
            assert!(is_same, "{sweep}/{file}: `reslab report results/{sweep}` writes another");
        }
    }
}
