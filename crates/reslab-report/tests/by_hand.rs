//! One small sweep from its raw files to its p values, every number worked out by hand.
//!
//! Each run leaves four rows of steps.csv and, after 100 test images, one of evals.csv; its done.json says the same, and
//! what it says otherwise is named. Three arms, six seeds; test accuracies, and the differences to plain in points:
//!
//! | seed  | plain | gated | d  | ls   | d    |
//! |-------|-------|-------|----|------|------|
//! | 0     | .70   | .73   | +3 | .71  | +1   |
//! | 1     | .71   | .73   | +2 | .69  | -2   |
//! | 2     | .69   | .72   | +3 | .71  | +2   |
//! | 3     | .72   | .74   | +2 | .75  | +3   |
//! | 4     | .70   | .74   | +4 | .70  | 0    |
//! | 5     | .71   | .72   | +1 | .10  | -61  |
//!
//! The loss of ls at seed 5 is NaN at its last step: the run diverged and scores chance, .10, whatever it recorded (.90).

mod support;

use reslab_record::{Plan, PlannedRun, Study};
use reslab_report::{Finding, Interval, Options, Table, read_sweep, table};
use std::fs;
use std::path::Path;
use support::{plan, planned};

const PLAIN: [f64; 6] = [0.70, 0.71, 0.69, 0.72, 0.70, 0.71];
const GATED: [f64; 6] = [0.73, 0.73, 0.72, 0.74, 0.74, 0.72];
const LS: [f64; 6] = [0.71, 0.69, 0.71, 0.75, 0.70, 0.90];

/// The first three of four steps; the final loss is the mean of all, as they are fewer than 20: (2.3 + 1.3 + .8 + .4) / 4 = 1.2.
const STEPS: &str = "\
step,epoch,loss,lr,grad_norm,images_per_s,seconds
0,0.1,2.3,0.001,1.5,100,0.1
1,0.2,1.3,0.001,2.5,100,0.2
2,0.3,0.8,0.001,1.0,100,0.3
";

const EVALS: &str = "step,split,weights,loss,top1,top5,images\n";

/// Four steps, no validation, no telemetry.
const CONFIG: &str = r#"
data = { dataset = "digits", val_images = 0 }
model = { depth = 3 }
train = { steps = 4, eval_every = 0, telemetry_every = 0, ema_decay = 0.0 }
"#;

fn write_run(dir: &Path, arm: &str, seed: usize, test: f64, last_loss: &str) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("steps.csv"), format!("{STEPS}3,0.4,{last_loss},0.001,1.0,100,0.4\n")).unwrap();
    fs::write(dir.join("layers.csv"), "step,block,branch\n").unwrap();
    let is_finite = last_loss != "NaN";
    let tested = if is_finite { format!("3,test,raw,0.9,{test},1.0,100\n") } else { String::new() };
    fs::write(dir.join("evals.csv"), format!("{EVALS}{tested}")).unwrap();
    let outcome = if is_finite { r#""finished""# } else { r#""non_finite", "non_finite_step": 3"# };
    let done = format!(
        r#"{{ "id": "{arm}-{seed}", "arm": "{arm}", "seed": {seed}, "outcome": {outcome}, "steps": 4,
        "metrics": {{ "test/top1": {test} }}, "parameters": 1234567, "num_classes": 10, "effective_drop_rate": null }}"#
    );
    fs::write(dir.join("done.json"), done).unwrap();
}

fn sweep(dir: &Path, study: Option<Study>) -> Table {
    let arms = [("plain", PLAIN), ("gated", GATED), ("ls", LS)];
    let config: toml::Table = toml::from_str(CONFIG).unwrap();
    let runs = arms.iter().flat_map(|(arm, _)| (0..6).map(|seed| planned(arm, &[], seed)));
    let runs = runs.map(|run| PlannedRun { config: config.clone(), ..run });
    let plan = Plan { study, ..plan(runs.collect()) };
    plan.write(dir).unwrap();
    for (arm, scores) in arms {
        for (seed, score) in scores.into_iter().enumerate() {
            let run = plan.runs.iter().find(|run| run.arm == arm && run.seed == seed as u64).unwrap();
            write_run(&run.dir(dir), arm, seed, score, if (arm, seed) == ("ls", 5) { "NaN" } else { "0.4" });
        }
    }
    table(&read_sweep(dir).unwrap(), &Options::default()).unwrap()
}

/// The raw rows are what counts: one changed digit of a loss, or one right answer more, is felt.
#[test]
fn a_changed_raw_row_is_felt() {
    let dir = tempfile::tempdir().unwrap();
    let table = sweep(dir.path(), None);
    // The files of six seeds of three arms are whole, and done.json says what evals.csv says, but for the diverged run.
    let records: Vec<&String> =
        table.notes.iter().filter(|note| note.contains(".csv") || note.contains("done")).collect();
    assert_eq!(records, ["Records: done.json: test/top1 is 0.9, which no row of evals.csv has (ls s5)."]);
    let run = planned("gated", &[], 2).dir(dir.path());
    let change = |file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(run.join(file)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(run.join(file), text.replace(from, to)).unwrap();
        reslab_report::table(&read_sweep(dir.path()).unwrap(), &Options::default()).unwrap()
    };
    // (1.2 x 5 + 1.225) / 6.
    assert_close(change("steps.csv", ",1.3,", ",1.4,").rows[1].final_loss.unwrap().mean, 7.225 / 6.0, 1e-12);
    let named = change("evals.csv", "0.72", "0.73").notes;
    assert!(named.iter().any(|note| note.contains("test/top1 is 0.72, which no row of evals.csv has (gated s2)")));
    // Seed 2 differs by -3 instead of 3: sums of 3, 2, -3, 2, 4, 1 that are at least 9 away from 0. Of the 15 in all,
    // what is turned may add up to 3 at most: nothing, 1, 2, 2, 1 + 2 twice, 3 twice: 8 of 64, and 8 on the other side.
    let p = change("done.json", "0.72", "0.66").comparison.with_baseline[0].sign_flip.unwrap().p;
    assert_eq!(p, 16.0 / 64.0);
}

#[track_caller]
fn assert_close(got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance, "got {got}, want {want}");
}

#[test]
fn from_raw_files_to_p_values() {
    let dir = tempfile::tempdir().unwrap();
    let table = sweep(dir.path(), None);
    assert_eq!(table.rows.iter().map(|row| row.diverged).collect::<Vec<_>>(), [0, 0, 1]);
    assert_close(table.rows[0].final_loss.unwrap().mean, 1.2, 1e-12);
    // Of .70, .71, .69, .72, .70, .71 the mean is 4.23 / 6; the largest gradient norm stands at step 1.
    assert_close(table.rows[0].metrics[0].1.unwrap().mean, 0.705, 1e-12);
    assert_eq!(table.rows[0].largest_grad_norm, Some(2.5));
    let [gated, ls] = &table.comparison.with_baseline[..] else { panic!() };

    // Mean of 3, 2, 3, 2, 4, 1: 15 / 6 = 2.5. Squares about it: .25 + .25 + .25 + .25 + 2.25 + 2.25 = 5.5, deviation
    // sqrt(5.5 / 5) = 1.048809, t(5) = 2.570582: half-width 2.570582 x 1.048809 / sqrt(6) = 1.100657.
    let d = gated.difference.unwrap();
    assert_close(d.mean, 0.025, 1e-12);
    assert_close(d.high.unwrap() - d.mean, 0.011_006_57, 1e-7);
    // All six have one sign: only that pattern and its mirror reach |15|, 2 of 2^6.
    assert_eq!(gated.sign_flip.unwrap().p, 2.0 / 64.0);
    assert_eq!(gated.probability, Some(1.0));

    // Mean of 1, -2, 2, 3, 0, -61: -57 / 6 = -9.5; with a diverged pair there is no t interval.
    let d = ls.difference.unwrap();
    assert_close(d.mean, -0.095, 1e-12);
    assert_eq!((d.n, d.diverged, d.interval), (6, 1, Interval::None));
    // |sum| is at least 57 where the signed sum of 1, 2, 2, 3 is at least -4 towards the side of 61. Of its 16 patterns two
    // are below: -8, and -6 (the 1 turned); a turned 2 or 3 gives -4 or -2. The 0 doubles both counts: 14 of 16.
    assert_eq!(ls.sign_flip.unwrap().p, 14.0 / 16.0);
    // Above at seeds 0, 2 and 3, equal at seed 4: (3 + .5) / 6.
    assert_close(ls.probability.unwrap(), 3.5 / 6.0, 1e-15);

    // Holm over two: the smaller p twice, then the larger once.
    assert_eq!((gated.holm, ls.holm), (Some(2.0 * 0.03125), Some(0.875)));
    // So six seeds and two comparisons find nothing: .0625 > .05. It takes seven: 2 x 2^(1-7) = .03125.
    assert_eq!((gated.finding, ls.finding), (Finding::Undecided, Finding::Undecided));
    // Fisher, 1 of 6 against 0 of 6: one diverged run falls to either arm with .5; both tables are as likely: p = 1.
    assert_eq!(gated.fisher, None, "none diverged");
    assert_close(ls.fisher.unwrap(), 1.0, 1e-12);
    assert_eq!(
        table.findings,
        [
            "No comparison with plain has a Holm-adjusted p of at most .05.",
            "With n = 6 seeds an exact two-sided sign-flip test cannot go below p = 0.03125; for p = .05 after Holm's \
             correction over 2 comparisons it takes n = 7: read this as a screening.",
            // Pairs with ls have a diverged run. 2.5 / 1.048809 = 2.38 deviations: power .59 with 3 pairs, .87 with 4.
            "Closest: plain and gated, mean difference -2.50 points, sd 1.05 (n = 6). If both are as estimated, it takes 4 \
             seeds to tell them apart (80 % power, paired t at .05, noncentral t).",
        ]
    );
}

/// Named before the runs, the same comparison is tested alone: .03125 is at most .05.
#[test]
fn a_primary_contrast_is_tested_alone() {
    let dir = tempfile::tempdir().unwrap();
    let primary = ["gated".to_owned(), "plain".to_owned()];
    let table = sweep(dir.path(), Some(Study { primary: primary.clone(), done_before: 0 }));
    let contrast = table.comparison.primary.as_ref().unwrap();
    assert_eq!((contrast.sign_flip.unwrap().p, contrast.holm, contrast.finding), (0.03125, None, Finding::Better));
    // The rest is exploratory, and Holm's family is one smaller.
    let [ls] = &table.comparison.with_baseline[..] else { panic!() };
    assert_eq!((ls.arm.as_str(), ls.holm), ("ls", Some(0.875)));
    let markdown = table.to_markdown();
    for needed in [
        "\n## Primary contrast: gated against plain\n",
        "| gated | +2.50 +- 1.10 (n=6) |       0.031 |           1.00 |  better |\n",
        "\n## Comparison with plain (exploratory)\n",
        "| ls  | -9.50 (n=6, 1 diverged) |       0.875 |  0.875 |           0.58 |    1.000 | undecided |\n",
        "- Primary contrast, named before the runs and tested alone: gated - plain on test/top1 is +2.50 +- 1.10 (n=6), \
         sign-flip p = 0.031: better.\n",
        "- No exploratory comparison with plain has",
    ] {
        assert!(markdown.contains(needed), "no {needed:?} in\n{markdown}");
    }
    // Negative control: named when results were there, it is one of two again.
    let late = sweep(dir.path(), Some(Study { primary, done_before: 3 }));
    assert_eq!((late.comparison.primary.as_ref(), late.comparison.with_baseline.len()), (None, 2));
    let markdown = late.to_markdown();
    assert!(!markdown.contains(" better") && markdown.contains("when 3 of 18 runs had their result"), "{markdown}");
}
