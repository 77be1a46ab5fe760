//! What becomes of plots where records are missing, damaged, odd or absurd.

mod support;

use std::collections::BTreeMap;
use support::*;

/// The figures of a run that ended early go into no mean after its end: the others stand by themselves, thin.
#[test]
fn a_run_that_is_not_finite_is_marked_and_the_survivors_are_not_averaged() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = three_seeds(&[RUN, Fake { arm: "wild", ..RUN }]);
    (runs[4].non_finite, runs[4].steps) = (true, 60);
    sweep(dir.path(), &runs, |_| Vec::new());
    let plots = draw(dir.path());
    let texts = texts(svg(&plots, "loss"));
    for want in ["not finite: the run ended", "single seeds, where not all are there", "n = 3, 1 diverged"] {
        assert!(texts.contains(&want), "{texts:?}");
    }
    let thin = svg(&plots, "loss").matches("stroke-width=\"0.7\"").count();
    assert_eq!(thin, 1 + 2, "one in the legend, two survivors");
    assert!(!svg(&plots, "loss").contains("NaN"), "no figure that is not a number reaches the file");
}

#[test]
fn a_plot_without_records_is_left_out_with_its_reason_and_its_old_files_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), &arms(), |_| Vec::new());
    draw(dir.path());
    let old = dir.path().join("plots/update_ratio.png");
    assert!(old.is_file());
    let bare: Vec<Fake> = arms().into_iter().map(|run| Fake { evals: false, telemetry: false, ..run }).collect();
    std::fs::remove_dir_all(dir.path().join("runs")).unwrap();
    sweep(dir.path(), &bare, |_| Vec::new());
    let plots = draw(dir.path());
    assert!(!old.exists());
    let why: BTreeMap<&str, &str> = plots.left_out.iter().map(|(name, why)| (*name, why.as_str())).collect();
    assert_eq!(why["update_ratio"], "no run has recorded telemetry");
    assert_eq!(why["gate_mean"], "no run has recorded a gate");
    assert_eq!(why["attention_entropy"], "no run has recorded probes");
    assert_eq!(why["val_accuracy"], "no run has recorded it");
    assert_eq!(plots.drawn.iter().map(|plot| plot.name).collect::<Vec<_>>(), ["differences", "loss", "grad_norm"]);
}

#[test]
fn an_arm_without_telemetry_says_so_in_its_panel() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = arms();
    runs.iter_mut().filter(|run| run.arm == "gated").for_each(|run| (run.telemetry, run.evals) = (false, false));
    sweep(dir.path(), &runs, |_| Vec::new());
    let plots = draw(dir.path());
    assert!(texts(svg(&plots, "update_ratio")).contains(&"no telemetry"));
    assert!(texts(svg(&plots, "update_ratio")).contains(&"n = 0 of 3"));
    assert!(texts(svg(&plots, "token_similarity")).contains(&"no probes"));
    assert!(texts(svg(&plots, "val_accuracy")).contains(&"no records"));
}

#[test]
fn one_seed_unbegun_runs_and_damaged_rows_break_nothing() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), &[RUN, Fake { arm: "gated", gate: Some(0.5), done: false, steps: 90, ..RUN }], |_| Vec::new());
    let gated = dir.path().join("runs/gated-1e-3-4-0");
    let mut rows = std::fs::read_to_string(gated.join("steps.csv")).unwrap();
    rows += "90,rubbish\n91,";
    std::fs::write(gated.join("steps.csv"), rows).unwrap();
    let plots = draw(dir.path());
    let loss = texts(svg(&plots, "loss"));
    assert_eq!(loss.iter().filter(|text| **text == "n = 1").count(), 2, "{loss:?}");
    assert!(!loss.contains(&"smallest to largest seed"), "one seed has no band");
    assert!(texts(svg(&plots, "grad_norm")).contains(&"n = 1, 0 spikes"));

    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), &three_seeds(&[RUN]), |_| Vec::new());
    std::fs::remove_dir_all(dir.path().join("runs")).unwrap();
    let plots = draw(dir.path());
    assert!(plots.drawn.is_empty());
    assert_eq!(plots.left_out.len(), 15);
}

#[test]
fn all_runs_diverged_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let wild = Fake { non_finite: true, steps: 1, evals: false, ..RUN };
    sweep(dir.path(), &three_seeds(&[wild.clone(), Fake { arm: "gated", ..wild }]), |_| Vec::new());
    let plots = draw(dir.path());
    assert!(plots.drawn.iter().any(|plot| plot.name == "differences"), "both score chance: {:?}", plots.left_out);
    assert!(plots.left_out.iter().any(|(name, _)| *name == "loss"));
}

#[test]
fn names_are_escaped_and_never_cut() {
    let dir = tempfile::tempdir().unwrap();
    let name = "a<b>&\"c\" with a name that is longer than its panel is wide, and then some more of it";
    sweep(dir.path(), &three_seeds(&[RUN, Fake { arm: name, ..RUN }]), |_| Vec::new());
    let escaped =
        "a&lt;b&gt;&amp;&quot;c&quot; with a name that is longer than its panel is wide, and then some more of it";
    for plot in draw(dir.path()).drawn {
        if plot.name != "gamma" {
            assert!(plot.svg.contains(escaped), "{}", plot.name);
        }
    }
}

/// A gamma that starts at 0 has updates of 0; a run near its end may have figures of any size.
#[test]
fn figures_of_any_size_break_nothing() {
    let figures =
        [0.0, -0.0, -3.0, 5e-324, 1e-300, 1e300, f64::MAX, -f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for figure in figures {
        let dir = tempfile::tempdir().unwrap();
        let odd = Fake { arm: "odd", odd: Some(figure), ..RUN };
        // Alone, beside usual runs, and beside one of another arm.
        let mut runs = three_seeds(&[RUN, odd.clone(), Fake { arm: "one", ..RUN }]);
        runs[7].odd = Some(figure);
        sweep(dir.path(), &runs, |_| Vec::new());
        let plots = draw(dir.path());
        assert!(plots.drawn.len() >= 6, "{figure:e}: {:?}", plots.left_out);
        for plot in plots.drawn {
            assert!(!plot.svg.contains("NaN") && !plot.svg.contains("=\"inf"), "{figure:e}: {}", plot.name);
        }
        let dir = tempfile::tempdir().unwrap();
        sweep(dir.path(), &[Fake { arm: "plain", ..odd }], |_| Vec::new());
        draw(dir.path());
    }
}

/// Numbers that parse and cannot be true: the table names them as damage, and no plot makes places or amounts of them.
#[test]
fn steps_and_blocks_beyond_the_config_end_no_plot_and_are_not_drawn() {
    let cases = [
        ("layers.csv", 1, ["18446744073709551615", "4000000000", "4"]),
        ("steps.csv", 0, ["18446744073709551615", "9007199254740992", "x"]),
        ("evals.csv", 0, ["18446744073709551615", "9007199254740992", "-1"]),
    ];
    for (file, column, values) in cases {
        for value in values {
            let dir = tempfile::tempdir().unwrap();
            sweep(dir.path(), &three_seeds(&[RUN]), |_| Vec::new());
            let path = dir.path().join("runs/plain-1e-3-4-0").join(file);
            let text = std::fs::read_to_string(&path).unwrap();
            let last = text.lines().last().unwrap();
            let mut fields: Vec<&str> = last.split(',').collect();
            fields[column] = value;
            std::fs::write(&path, text.replace(last, &fields.join(","))).unwrap();
            let plots = draw(dir.path());
            assert!(plots.drawn.len() >= 6, "{file} {value}: {:?}", plots.left_out);
            for plot in plots.drawn {
                let is_drawn = value.len() > 5 && plot.svg.contains(&value[..5]);
                assert!(plot.svg.len() < 1_000_000 && !is_drawn, "{file} {value}: {}", plot.name);
            }
        }
    }
}
