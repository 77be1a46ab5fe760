//! From a folder of records to the files of its plots: what stands in them, that they repeat, and what becomes of them
//! where records are missing.

use reslab_plot::{Plots, plots, write_plots};
use reslab_record::*;
use reslab_report::{Options, read_sweep, table};
use std::collections::BTreeMap;
use std::path::Path;

/// What a run of a test leaves.
#[derive(Clone)]
struct Fake {
    arm: &'static str,
    lr: &'static str,
    depth: i64,
    seed: u64,
    steps: u64,
    /// Factor on the gradient norm at step 150.
    spike: f64,
    gamma: Option<f64>,
    gate: Option<f64>,
    non_finite: bool,
    evals: bool,
    telemetry: bool,
    done: bool,
    /// What stands for every figure in every other block and step.
    odd: Option<f64>,
}

const RUN: Fake = Fake {
    arm: "plain",
    lr: "1e-3",
    depth: 4,
    seed: 0,
    steps: 200,
    spike: 1.0,
    gamma: None,
    gate: None,
    non_finite: false,
    evals: true,
    telemetry: true,
    done: true,
    odd: None,
};

/// These runs with seeds 0, 1 and 2.
fn three_seeds(runs: &[Fake]) -> Vec<Fake> {
    runs.iter().flat_map(|run| (0..3).map(|seed| Fake { seed, ..run.clone() })).collect()
}

fn axis(key: &str, value: &str) -> Axis {
    let label = key.rsplit('.').next().unwrap().to_owned();
    Axis { key: key.into(), label, value: value.into(), grid: true }
}

impl Fake {
    fn planned(&self, axes: &[Axis]) -> PlannedRun {
        let config = format!("model = {{ depth = {} }}\noptim = {{ lr = {} }}", self.depth, self.lr);
        let mut run = PlannedRun {
            id: String::new(),
            arm: String::new(),
            family: self.arm.into(),
            seed: self.seed,
            folder: format!("runs/{}-{}-{}-{}", self.arm.replace('/', "_"), self.lr, self.depth, self.seed),
            device_kind: "cpu".into(),
            threads: 1,
            parameters: 1,
            flops_per_image: 1.0,
            axes: axes.to_vec(),
            config: toml::from_str(&config).unwrap(),
        };
        run.arm = run.name_without(|_| false);
        run.id = run.folder.clone();
        run
    }

    fn write(&self, sweep: &Path, run: &PlannedRun) {
        let dir = RunDir::create(&run.dir(sweep)).unwrap();
        let mut steps = dir.steps().unwrap();
        let rows: Vec<StepRow> = (0..self.steps).map(|step| self.step(step)).collect();
        steps.append_all(&rows).unwrap();
        if self.telemetry {
            let joins = (0..self.steps).step_by(10).flat_map(|step| self.joins(step));
            dir.layers().unwrap().append_all(&joins.collect::<Vec<_>>()).unwrap();
        }
        if self.evals {
            let top1 = |step: u64| 0.5 + 0.001 * step as f64 + 0.01 * self.seed as f64;
            let row = |step| EvalRow {
                step,
                split: Split::Val,
                weights: Weights::Raw,
                loss: 1.0,
                top1: top1(step),
                top5: 1.0,
                images: 9,
            };
            dir.evals().unwrap().append_all(&[row(99), row(199)]).unwrap();
            if self.telemetry {
                let rows = [99, 199].into_iter().flat_map(|step| self.probes(step));
                dir.probes().unwrap().append_all(&rows.collect::<Vec<_>>()).unwrap();
            }
        }
        if self.done {
            let outcome = if self.non_finite { Outcome::NonFinite { step: self.steps - 1 } } else { Outcome::Finished };
            let metrics =
                [("val/top1", 0.7), ("test/top1", 0.6 + 0.02 * self.seed as f64 + 0.01 * self.arm.len() as f64)];
            dir.write_done(&Done {
                id: run.id.clone(),
                arm: run.arm.clone(),
                seed: run.seed,
                outcome,
                steps: self.steps,
                metrics: metrics.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
                parameters: 1,
                num_classes: 10,
                effective_drop_rate: None,
                micro_batches: None,
            })
            .unwrap();
        }
    }

    fn step(&self, step: u64) -> StepRow {
        let at = step as f64;
        let odd = |figure: f64| self.odd.filter(|_| step % 2 == 1).unwrap_or(figure);
        let is_bad = self.non_finite && step + 1 == self.steps;
        let wobble = 1.0 + 0.1 * (step % 7) as f64 + 0.05 * self.seed as f64;
        StepRow {
            step,
            epoch: at,
            loss: odd(if is_bad { f64::NAN } else { 2.3 - 0.008 * at + 0.1 * self.seed as f64 }),
            lr: 1e-3,
            grad_norm: odd(if is_bad { f64::INFINITY } else { wobble * if step == 150 { self.spike } else { 1.0 } }),
            grad_norm_attention: None,
            grad_norm_mlp: None,
            grad_norm_gamma: None,
            grad_norm_embedding: None,
            grad_norm_head: None,
            weight_update_norm: None,
            images_per_s: 1.0,
            seconds: at,
        }
    }

    fn probes(&self, step: u64) -> Vec<ProbeRow> {
        let row = |block: u64| ProbeRow {
            step,
            block,
            attention_logit_max: self.odd.or(Some((1 + block) as f64 + 0.01 * step as f64)),
            attention_entropy: self.odd.or(Some(0.9 - 0.1 * block as f64)),
            token_similarity: self.odd.or(Some(0.2 * block as f64)),
            residual_rms_attention: None,
            residual_rms_mlp: None,
        };
        (0..self.depth as u64).map(row).collect()
    }

    fn joins(&self, step: u64) -> Vec<LayerRow> {
        let row = |block: u64, branch: Branch| LayerRow {
            step,
            block,
            branch,
            residual_rms: Some(0.5 + 0.1 * block as f64),
            branch_rms: None,
            update_rms: None,
            ratio: Some(0.01 * (1 + block + step) as f64),
            ratio_p10: None,
            ratio_p90: None,
            // Not defined where an update is zero.
            cosine: (step > 0).then_some(0.1 * block as f64 - 0.1),
            gamma_mean: self.gamma,
            gamma_rms: self.gamma,
            gamma_abs: self.gamma,
            gamma_min: self.gamma,
            gamma_max: self.gamma,
            gamma_flipped: None,
            gate_mean: self.gate,
            gate_std: self.gate,
            gate_saturated: self.gate.map(|_| 0.0),
        };
        let blocks = 0..self.depth as u64;
        let mut rows: Vec<_> =
            blocks.flat_map(|block| [row(block, Branch::Attention), row(block, Branch::Mlp)]).collect();
        if self.odd.is_some() {
            for row in rows.iter_mut().step_by(2) {
                row.ratio = self.odd;
                (row.residual_rms, row.cosine, row.gamma_abs) = (self.odd, self.odd, self.odd);
                (row.gate_mean, row.gate_saturated) = (self.odd, self.odd);
            }
        }
        rows
    }
}

fn sweep(dir: &Path, runs: &[Fake], axes: impl Fn(&Fake) -> Vec<Axis>) {
    let planned: Vec<PlannedRun> = runs.iter().map(|run| run.planned(&axes(run))).collect();
    let plan = Plan {
        format: PLAN_FORMAT,
        name: "demo".into(),
        question: "Does it train?".into(),
        baseline: "plain".into(),
        metric: "test/top1".into(),
        seeds: vec![0, 1, 2],
        select: vec![],
        profile: None,
        set: vec![],
        study: None,
        source: Source { path: "demo.toml".into(), sha256: "00".into() },
        versions: BTreeMap::new(),
        runs: planned,
    };
    plan.write(dir).unwrap();
    for (fake, run) in runs.iter().zip(&plan.runs) {
        fake.write(dir, run);
    }
}

fn draw(dir: &Path) -> Plots {
    let sweep = read_sweep(dir).unwrap();
    let table = table(&sweep, &Options::default()).unwrap();
    write_plots(dir, &sweep, &table).unwrap()
}

/// The texts of a plot, and how often a piece of SVG occurs in it.
fn svg<'a>(plots: &'a Plots, name: &str) -> &'a str {
    let found = plots.drawn.iter().find(|plot| plot.name == name);
    &found.unwrap_or_else(|| panic!("no {name}; left out: {:?}", plots.left_out)).svg
}

fn texts(svg: &str) -> Vec<&str> {
    let parts = svg.split("<text ").skip(1);
    parts.map(|part| part.split_once('>').unwrap().1.split("</text>").next().unwrap()).collect()
}

fn arms() -> Vec<Fake> {
    let layer_scale = Fake { arm: "layer_scale", gamma: Some(1e-5), ..RUN };
    let gated = Fake { arm: "gated", gamma: Some(0.2), gate: Some(0.1), spike: 40.0, ..RUN };
    three_seeds(&[RUN, layer_scale, gated])
}

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
