//! Bold in LaTeX: the best of a column, only where every paired interval leaves out 0.

mod support;

use reslab_record::Plan;
use reslab_report::{Options, Table, read_sweep, table};
use std::path::Path;
use support::{Fake, lr, plan, planned};

fn sweep(dir: &Path, plan: &Plan, fakes: &[Fake], metric: Option<&str>) -> Table {
    plan.write(dir).unwrap();
    for (run, fake) in plan.runs.iter().zip(fakes) {
        fake.write(dir, run);
    }
    let options = Options { metric: metric.map(str::to_owned), baseline: None };
    table(&read_sweep(dir).unwrap(), &options).unwrap()
}

/// Three seeds of plain, up and down; the scores of `up`, and what its table calls best.
fn best(up: [f64; 3], metric: Option<&str>) -> (Vec<String>, String) {
    let dir = tempfile::tempdir().unwrap();
    let plan =
        plan(["plain", "up", "down"].iter().flat_map(|arm| (0..3).map(|seed| planned(arm, &[], seed))).collect());
    let scores = [[0.70, 0.71, 0.72], up, [0.60, 0.61, 0.62]].concat();
    let table =
        sweep(dir.path(), &plan, &scores.iter().map(|test| Fake::trained(*test, *test)).collect::<Vec<_>>(), metric);
    let best = table.rows.iter().flat_map(|row| row.best.iter().map(|m| format!("{} {}", row.arm, m.name())));
    (best.collect(), table.to_tex())
}

/// up - plain is .02, .03, .02: mean .02333, half-width 4.302653 x .005774 / sqrt(3) = .01434. Of .02, .05, .00 the same
/// mean has a half-width of .0625.
#[test]
fn the_best_is_bold_where_the_interval_to_every_other_arm_leaves_out_zero() {
    let (found, tex) = best([0.72, 0.74, 0.74], None);
    assert_eq!(found, ["up test/top1", "up val/top1"]);
    assert!(tex.contains("up & \\textbf{73.33} $\\pm$"), "{tex}");
    assert_eq!(tex.matches("textbf").count(), 2);
    let (found, tex) = best([0.72, 0.76, 0.72], None);
    assert!(
        found.is_empty() && !tex.contains("textbf"),
        "negative control: the largest mean alone is not enough: {tex}"
    );
}

/// test/loss is .7 in every run.
#[test]
fn equal_arms_have_no_best_and_a_smaller_loss_is_the_better() {
    let (found, tex) = best([0.72, 0.74, 0.74], Some("test/loss"));
    assert_eq!(found, ["up test/top1", "up val/top1"], "and no loss is best");
    assert!(tex.contains("0.7000 $\\pm$ 0.0000") && !tex.contains("textbf{0.7"), "{tex}");
}

#[test]
fn two_seeds_one_arm_or_a_diverged_run_have_no_best() {
    let dir = tempfile::tempdir().unwrap();
    let two = plan(["plain", "up"].iter().flat_map(|arm| (0..2).map(|seed| planned(arm, &[], seed))).collect());
    let fakes = [0.1, 0.1, 0.9, 0.9].map(|test| Fake::trained(0.5, test));
    assert!(sweep(dir.path(), &two, &fakes, None).rows.iter().all(|row| row.best.is_empty()), "a range is no interval");
    let dir = tempfile::tempdir().unwrap();
    let alone = plan((0..3).map(|seed| planned("plain", &[], seed)).collect());
    let fakes = [0.1, 0.1, 0.1].map(|test| Fake::trained(0.5, test));
    assert!(sweep(dir.path(), &alone, &fakes, None).rows[0].best.is_empty(), "there is nothing that it beats");
    let dir = tempfile::tempdir().unwrap();
    let three = plan(["plain", "up"].iter().flat_map(|arm| (0..3).map(|seed| planned(arm, &[], seed))).collect());
    let mut fakes: Vec<Fake> = [0.1, 0.1, 0.1, 0.9, 0.9, 0.9].iter().map(|test| Fake::trained(*test, *test)).collect();
    assert_eq!(sweep(dir.path(), &three, &fakes, None).rows[1].best.len(), 2, "negative control");
    let dir = tempfile::tempdir().unwrap();
    fakes[0] = Fake::non_finite();
    assert!(sweep(dir.path(), &three, &fakes, None).rows.iter().all(|row| row.best.is_empty()));
}

/// gated wins at 4e-3, its chosen point, and loses at 1e-3.
#[test]
fn among_chosen_points_the_chosen_are_compared_and_among_all_those_of_one_point() {
    let dir = tempfile::tempdir().unwrap();
    let arm = |name: &str, rate: &str| (0..3).map(|seed| planned(name, &[lr(rate)], seed)).collect::<Vec<_>>();
    let runs = [arm("plain", "1e-3"), arm("plain", "4e-3"), arm("gated", "1e-3"), arm("gated", "4e-3")].concat();
    let mut plan = plan(runs);
    plan.select = vec!["optim.lr".into()];
    let means = [0.70, 0.60, 0.50, 0.80];
    let fakes = means.iter().flat_map(|mean| [0.0, 0.001, 0.002].map(|d| Fake::trained(mean + d, mean + d)));
    let table = sweep(dir.path(), &plan, &fakes.collect::<Vec<_>>(), None);
    let rows: Vec<bool> = table.rows.iter().map(|row| !row.best.is_empty()).collect();
    assert_eq!(rows, [true, false, false, true], "plain at 1e-3, gated at 4e-3");
    let chosen: Vec<bool> =
        table.selection.as_ref().unwrap().rows.iter().map(|choice| !choice.best.is_empty()).collect();
    assert_eq!(chosen, [false, true], "plain's own best is 10 points below");
    let tex = table.to_tex();
    assert!(tex.contains("gated & lr=4e-3 & \\textbf{80.10}") && tex.contains("\nplain & lr=1e-3 & 70.10"), "{tex}");
}

#[test]
fn a_metric_that_is_not_aimed_at_has_no_best_no_better_and_no_empty_column() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(["plain", "gated"].iter().flat_map(|arm| (0..6).map(|seed| planned(arm, &[], seed))).collect());
    let fakes: Vec<Fake> = (0..12).map(|k| Fake::trained(0.5, 0.7 + 0.01 * f64::from(k))).collect();
    sweep(dir.path(), &plan, &fakes, None);
    for (index, run) in plan.runs.iter().enumerate() {
        let path = run.dir(dir.path()).join("done.json");
        let mut done: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        done["metrics"]["probe/attention_entropy"] = (0.5 + 0.1 * f64::from(u8::from(index > 5))).into();
        std::fs::write(&path, done.to_string()).unwrap();
    }
    let options = Options { metric: Some("probe/attention_entropy".into()), baseline: None };
    let table = table(&read_sweep(dir.path()).unwrap(), &options).unwrap();
    let shown: Vec<&str> = table.rows[0].metrics.iter().map(|(metric, _)| metric.name()).collect();
    assert_eq!(shown, ["probe/attention_entropy", "test/top1", "val/top1"], "there is no val/attention_entropy");
    assert!(table.notes.iter().all(|note| !note.starts_with("Without")), "{:?}", table.notes);
    let gated = &table.comparison.with_baseline[0];
    assert_eq!((gated.holm, gated.finding.word()), (Some(0.03125), "differs"));
    assert!(table.findings[0].ends_with("differs: gated."), "{:?}", table.findings);
    let is_best = |row: &reslab_report::ArmRow| row.best.iter().any(|metric| metric.name().starts_with("probe"));
    assert!(!table.rows.iter().any(is_best) && table.rows[1].best.len() == 1);
}
