//! Two sweeps against each other: what is paired, what is not, and what is said about how they differ.

mod support;

use reslab_record::{Env, Plan, PlannedRun, RunDir};
use reslab_report::{Sweep, View, compare_sweeps, read_sweep};
use serde_json::Value;
use support::{Fake, lr, plan, planned};

fn runs(arm: &str, seeds: std::ops::Range<u64>) -> Vec<PlannedRun> {
    seeds.map(|seed| planned(arm, &[], seed)).collect()
}

fn write(plan: &Plan, scores: &[f64]) -> (tempfile::TempDir, Sweep) {
    let dir = tempfile::tempdir().unwrap();
    plan.write(dir.path()).unwrap();
    plan.runs.iter().zip(scores).for_each(|(run, test)| Fake::trained(*test, *test).write(dir.path(), run));
    let sweep = read_sweep(dir.path()).unwrap();
    (dir, sweep)
}

fn compare(a: &Sweep, b: &Sweep) -> View {
    compare_sweeps(("old", a), ("new", b), None).unwrap()
}

fn rows(view: &View) -> Vec<Value> {
    let json: Value = serde_json::from_str(&view.to_json()).unwrap();
    json["parts"][0]["rows"].as_array().unwrap().clone()
}

/// The lines below the table, as they stand in JSON.
fn lines(view: &View, key: &str) -> Vec<String> {
    let json: Value = serde_json::from_str(&view.to_json()).unwrap();
    json[key].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn assert_close(got: &Value, want: f64) {
    assert!((got.as_f64().unwrap() - want).abs() < 1e-9, "got {got}, want {want}");
}

/// Seven seeds of two arms: plain is better by .01 in each, 2 of 2^7 patterns; gated by chance: the same p for one sign.
#[test]
fn arms_of_one_name_are_paired_by_seed_and_judged_together() {
    let arms = |plain: f64, gated: f64| {
        let of = |base: f64| (0..7).map(move |seed| base + 0.001 * f64::from(seed * seed % 5)).collect::<Vec<_>>();
        [of(plain), of(gated)].concat()
    };
    let both = plan([runs("plain", 0..7), runs("gated", 0..7)].concat());
    let (a, b) = (write(&both, &arms(0.70, 0.70)), write(&both, &arms(0.71, 0.69)));
    let view = compare(&a.1, &b.1);
    let rows = rows(&view);
    let [plain, gated] = &rows[..] else { panic!("{rows:?}") };
    assert_close(&plain["difference"]["mean"], 0.01);
    assert_close(&gated["difference"]["mean"], -0.01);
    assert_eq!((&plain["test"], &plain["p"], &plain["holm_p"]), (&"paired".into(), &0.015625.into(), &0.03125.into()));
    assert_eq!(
        (&plain["p_above"], &plain["finding"], &gated["finding"]),
        (&1.0.into(), &"better".into(), &"worse".into())
    );
    let found = lines(&view, "findings");
    assert_eq!(
        found[0],
        "B against A, with a Holm-adjusted sign-flip p of at most 0.05 over 2 arms: better: plain; worse: gated."
    );
    assert!(found[1].contains("it takes n = 7."), "{found:?}");
    let text = view.to_text();
    assert!(text.starts_with("new against old: test/top1 of B = new against A = old\n"), "{text}");
    assert!(text.contains("+1.00 +- 0.00 (n=7)"), "{text}");
    // Negative control: six seeds and two arms reach .0625 at best.
    let few = plan([runs("plain", 0..6), runs("gated", 0..6)].concat());
    let scores = |plain: f64, gated: f64| [vec![plain; 6], vec![gated; 6]].concat();
    let (a, b) = (write(&few, &scores(0.7, 0.7)), write(&few, &scores(0.71, 0.69)));
    let view = compare(&a.1, &b.1);
    for word in ["better", "worse", "significant"] {
        assert!(!view.to_text().contains(word), "{}", view.to_text());
    }
    assert!(lines(&view, "findings")[1].ends_with("it takes n = 7: read this as a screening."));
}

/// By hand: of .73 .74 .75 (seeds 3 to 5) and .70 .71 .72 the difference is .03; deviations of .01 on both sides:
/// error sqrt(2 x .0001 / 3) = .0081650, 4 degrees of freedom, t = 3.674, p = .0213; t(4) = 2.776445: half-width .022669.
#[test]
fn other_seeds_are_compared_unpaired_and_that_is_said() {
    let (a, b) = (
        write(&plan([runs("plain", 0..3), runs("gated", 0..3)].concat()), &[0.70, 0.71, 0.72, 0.5, 0.6, 0.7]),
        write(&plan([runs("plain", 3..6), runs("gated", 0..3)].concat()), &[0.73, 0.74, 0.75, 0.5, 0.6, 0.7]),
    );
    let view = compare(&a.1, &b.1);
    let rows = rows(&view);
    assert_eq!((&rows[0]["test"], &rows[1]["test"]), (&"Welch".into(), &"paired".into()));
    assert_close(&rows[0]["difference"]["mean"], 0.03);
    let half = rows[0]["difference"]["high"].as_f64().unwrap() - 0.03;
    assert!((half - 0.022_669).abs() < 1e-6, "{half}");
    assert!((rows[0]["p"].as_f64().unwrap() - 0.021_3).abs() < 1e-4, "{}", rows[0]);
    assert_eq!(rows[0]["p_above"], 1.0);
    assert_eq!(rows[0]["finding"], "undecided", "no word without an exact test");
    let notes = lines(&view, "notes");
    assert!(
        notes.contains(
            &"plain: unpaired (Welch's t test, which makes no finding), since the runs have seeds 0 1 2 and 3 4 5."
                .to_owned()
        ),
        "{notes:?}"
    );
    assert!(!notes.iter().any(|note| note.starts_with("gated: unpaired")), "negative control");
    assert!(view.to_text().contains("(n=3 and 3)"), "{}", view.to_text());
}

#[test]
fn another_grid_point_is_no_pair_and_arms_of_one_sweep_alone_are_named() {
    let at = |arm: &str, rate: f64, text: &str| {
        let run = move |seed| {
            let mut run = planned(arm, &[lr(text)], seed);
            run.config["optim"].as_table_mut().unwrap().insert("lr".to_owned(), rate.into());
            run
        };
        (0..2).map(run).collect::<Vec<_>>()
    };
    let scores = [0.7, 0.8, 0.6, 0.7];
    let a = write(&plan([at("plain", 1e-3, "1e-3"), at("gated", 1e-3, "1e-3")].concat()), &scores);
    let b = write(&plan([at("plain", 4e-3, "4e-3"), at("plain", 1e-3, "1e-3")].concat()), &scores);
    let view = compare(&a.1, &b.1);
    assert_eq!(rows(&view).len(), 1);
    assert_eq!((&rows(&view)[0]["arm"], &rows(&view)[0]["test"]), (&"plain[lr=1e-3]".into(), &"paired".into()));
    let notes = lines(&view, "notes");
    assert_eq!(notes[..2], ["Only in A: gated[lr=1e-3].", "Only in B: plain[lr=4e-3]."]);
    // One point on either side is compared, but not paired.
    let b = write(&plan(at("plain", 4e-3, "4e-3")), &scores);
    let view = compare(&a.1, &b.1);
    assert_eq!(rows(&view)[0]["test"], "Welch");
    let notes = lines(&view, "notes").join("\n");
    assert!(notes.contains("since the runs have optim.lr 0.001 and 0.004."), "{notes}");
    assert!(notes.contains("Config differs (A | B): optim.lr 0.001 | 0.004."), "{notes}");
    // The same rate, written as an axis or fixed in the file, is the same point.
    let fixed = PlannedRun { axes: Vec::new(), arm: "plain".into(), ..at("plain", 1e-3, "1e-3")[0].clone() };
    let b = write(
        &plan(vec![
            fixed.clone(),
            PlannedRun { seed: 1, folder: "runs/x".into(), id: "plain[lr=1e-3]-1".into(), ..fixed },
        ]),
        &scores,
    );
    assert_eq!(rows(&compare(&a.1, &b.1))[0]["test"], "paired");
}

#[test]
fn a_diverged_run_scores_chance_and_takes_interval_and_p_of_welch() {
    let a = write(&plan(runs("plain", 0..2)), &[0.7, 0.8]);
    let three = plan(runs("plain", 2..4));
    let b = write(&three, &[0.7, 0.8]);
    std::fs::remove_dir_all(three.runs[0].dir(b.0.path())).unwrap();
    Fake::non_finite().write(b.0.path(), &three.runs[0]);
    let row = &rows(&compare(&a.1, &read_sweep(b.0.path()).unwrap()))[0];
    // (.1 + .8) / 2 - .75.
    assert_close(&row["difference"]["mean"], -0.3);
    assert_eq!(
        (&row["difference"]["interval"], &row["difference"]["diverged"], &row["p"]),
        (&"none".into(), &1.into(), &Value::Null)
    );
}

#[test]
fn what_differs_in_code_device_data_and_config_is_said_and_equal_runs_too() {
    let both = plan(runs("plain", 0..2));
    let a = write(&both, &[0.7, 0.8]);
    let b = write(&both, &[0.7, 0.8]);
    let notes = lines(&compare(&a.1, &b.1), "notes");
    assert_eq!(notes, ["2 runs stand in both sweeps by the same id: they compute the same."], "negative control");
    let mut other = both.clone();
    for run in &mut other.runs {
        run.id += "x";
        run.threads = 4;
        run.config["data"]["train_images"] = 99.into();
        run.config["train"]["steps"] = 200.into();
        run.config["train"].as_table_mut().unwrap().remove("clip").unwrap();
    }
    let b = write(&other, &[0.7, 0.8]);
    for run in &other.runs {
        let run = RunDir::open(&run.dir(b.0.path())).unwrap();
        let env = run.read_env().unwrap().unwrap();
        let env = Env { libtorch: "2.12.0".into(), git_commit: Some("fedcba98".into()), threads: 4, ..env };
        std::fs::write(run.path().join("env.json"), serde_json::to_string(&env).unwrap()).unwrap();
    }
    let notes = lines(&compare(&a.1, &read_sweep(b.0.path()).unwrap()), "notes");
    let want = [
        "Warning: other versions of the code: A 0123456 | B fedcba9.",
        "Warning: other versions of libtorch: A 2.11.0 | B 2.12.0.",
        "Warning: other devices: A cpu, 1 thread a run | B cpu, 4 threads a run.",
        "Data differs (A | B): data.train_images 1200 | 99.",
        "Config differs (A | B): run.threads 1 | 4.",
        "Config differs (A | B): train.clip 1.0 | none.",
    ];
    assert_eq!(notes, want);
}

#[test]
fn a_metric_that_one_lacks_is_refused_and_unfinished_runs_are_said() {
    let a = write(&plan(runs("plain", 0..2)), &[0.7, 0.8]);
    let b = write(&plan([runs("plain", 0..2), runs("gated", 0..1)].concat()), &[0.7]);
    let error = compare_sweeps(("a", &a.1), ("b", &b.1), Some("test/top9")).unwrap_err().to_string();
    assert!(error.contains("no run has recorded `test/top9`"), "{error}");
    let view = compare(&a.1, &b.1);
    let notes = lines(&view, "notes");
    assert!(notes.contains(&"B: plain: 1 of 2 seeds done.".to_owned()) && notes[0] == "Only in B: gated.", "{notes:?}");
    assert!(view.to_text().contains("70.00 (n=1 of 2)"), "{}", view.to_text());
    let empty = write(&plan(runs("plain", 0..2)), &[]);
    assert_eq!(lines(&compare(&a.1, &empty.1), "findings"), ["No arm has results in both sweeps under the same name."]);
}

/// One table model: the same figures in all five forms.
#[test]
fn every_form_holds_the_comparison() {
    let both = plan(runs("a|b", 0..3).into_iter().chain(runs("plain", 0..3)).collect());
    let (a, b) = (write(&both, &[0.70, 0.71, 0.72, 0.5, 0.5, 0.5]), write(&both, &[0.72, 0.74, 0.74, 0.5, 0.5, 0.5]));
    let view = compare(&a.1, &b.1);
    assert!(
        view.to_markdown()
            .contains("| a\\|b  | 71.00 +- 2.48 | 73.33 +- 2.87 | +2.33 +- 1.43 (n=3) | paired | 0.250 |"),
        "{}",
        view.to_markdown()
    );
    assert!(view.to_markdown().contains("## How to read it"));
    assert!(view.to_tex().contains("a$|$b & 71.00 $\\pm$ 2.48 &"), "{}", view.to_tex());
    let csv = view.to_csv();
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    assert_eq!(
        (head[0], head[1], head[6], head[11], head.last()),
        ("arm", "a_mean", "b_mean", "difference_mean", Some(&"finding"))
    );
    assert_eq!(csv.lines().count(), 3);
    assert!(view.to_text().lines().all(|line| line.len() <= 120 && line.is_ascii()), "{}", view.to_text());
}
