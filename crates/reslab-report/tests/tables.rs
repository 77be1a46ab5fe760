//! From a folder of records to the table's cells, every number worked out by hand.

mod support;

use reslab_record::{Failed, FailureClass, Plan, RunDir};
use reslab_report::{Interval, Metric, Options, ReportError, Table, read_sweep, table, write_tables};
use std::path::Path;
use support::{Fake, init, lr, plan, planned};

fn sweep(dir: &Path, plan: &Plan, fakes: &[Fake]) -> Table {
    plan.write(dir).unwrap();
    for (run, fake) in plan.runs.iter().zip(fakes) {
        fake.write(dir, run);
    }
    table(&read_sweep(dir).unwrap(), &Options::default()).unwrap()
}

fn three_seeds(arms: &[&str]) -> Plan {
    plan(arms.iter().flat_map(|arm| (0..3).map(move |seed| planned(arm, &[], seed))).collect())
}

/// The cells of a row of the Markdown table `title`.
fn cells(table: &Table, title: &str, arm: &str) -> Vec<String> {
    let markdown = table.to_markdown();
    let part = markdown.split(&format!("## {title}")).nth(1).unwrap_or_else(|| panic!("no {title} in {markdown}"));
    let line = part.lines().find(|line| line.starts_with(&format!("| {arm} "))).unwrap_or_else(|| panic!("no {arm}"));
    line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
}

/// plain .70 .71 .72, gated .72 .72 .75. Means .71 and .73; d = .02 .01 .03, mean .02, deviation .01, so half-width
/// 4.302653 x .01 / sqrt(3) = .024841; the deviation of .72 .72 .75 is .017321, its half-width .043027.
#[test]
fn means_intervals_and_paired_differences() {
    let dir = tempfile::tempdir().unwrap();
    let runs = [0.70, 0.71, 0.72, 0.72, 0.72, 0.75].map(|test| Fake::trained(0.5, test));
    let table = sweep(dir.path(), &three_seeds(&["plain", "gated"]), &runs);
    let want = ["plain", "71.00 +- 2.48 (n=3, 0 diverged)", "50.00 +- 0.00", "baseline"];
    assert_eq!(cells(&table, "Accuracy", "plain"), want);
    let want = ["gated", "73.00 +- 4.30 (n=3, 0 diverged)", "50.00 +- 0.00", "+2.00 +- 2.48"];
    assert_eq!(cells(&table, "Accuracy", "gated"), want);
    // Loss .5 at the end; largest norm 1 + 1.99; ratio (.2 + .4) / 2. The step down at 100 is no spike up.
    let want = ["plain", "0/3", "0/3", "0/3", "0.500 +- 0.000", "2.99", "0.00", "0.300", "1,234,567"];
    assert_eq!(cells(&table, "Stability", "plain"), want);
    assert_eq!(table.rows[0].timing.images_per_s, Some(100.0));
    assert_eq!(table.rows[0].timing.peak_memory_bytes, Some(5 << 20));
    assert!(table.notes.is_empty(), "{:?}", table.notes);
}

/// Unpaired, the same numbers would give another interval: pairing removes what the seeds share.
#[test]
fn pairing_is_by_seed_and_not_by_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = three_seeds(&["plain", "gated"]);
    plan.runs[3..].reverse();
    let runs = [0.70, 0.71, 0.72, 0.75, 0.72, 0.72].map(|test| Fake::trained(0.5, test));
    let table = sweep(dir.path(), &plan, &runs);
    assert_eq!(cells(&table, "Accuracy", "gated")[3], "+2.00 +- 2.48");
    // Negative control: gated's values on other seeds give d = .05, .01, .00.
    let other = tempfile::tempdir().unwrap();
    let runs = [0.70, 0.71, 0.72, 0.75, 0.72, 0.72].map(|test| Fake::trained(0.5, test));
    let table = sweep(other.path(), &three_seeds(&["plain", "gated"]), &runs);
    assert_eq!(cells(&table, "Accuracy", "gated")[3], "+2.00 +- 6.57");
}

#[test]
fn a_diverged_run_scores_chance_and_takes_the_interval() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = [0.70, 0.80].map(|test| Fake::trained(0.5, test));
    let runs = [a, b, Fake::diverged(), Fake::trained(0.5, 0.7), Fake::non_finite(), Fake::non_finite()];
    let table = sweep(dir.path(), &three_seeds(&["plain", "gated"]), &runs);
    // (.70 + .80 + .10) / 3, and (.7 + .1 + .1) / 3.
    assert_eq!(cells(&table, "Accuracy", "plain")[1], "53.33 (n=3, 1 diverged)");
    // d = 0, -.7, 0: the two diverged runs of seed 2 differ by 0.
    assert_eq!(
        cells(&table, "Accuracy", "gated")[1..],
        ["30.00 (n=3, 2 diverged)", "23.33", "-23.33 (n=3, 2 diverged)"]
    );
    let plain = cells(&table, "Stability", "plain");
    // (.5 + .5 + ln 10) / 3.
    assert_eq!(plain[1..5], ["0/3", "1/3", "0/3", "1.101"]);
    let gated = cells(&table, "Stability", "gated");
    assert_eq!(gated[1..4], ["2/3", "2/3", "0/3"]);
    assert_eq!(table.notes, ["Diverged: plain s2; gated s1 (not finite at step 3); gated s2 (not finite at step 3)."],);
    let csv = table.to_csv();
    assert!(csv.lines().nth(2).unwrap().starts_with("gated,3,3,0,2,2,0,"), "{csv}");
}

#[test]
fn two_seeds_give_a_range_and_one_gives_a_number() {
    let dir = tempfile::tempdir().unwrap();
    let runs = vec![planned("plain", &[], 0), planned("plain", &[], 1), planned("one", &[], 0)];
    let fakes = [Fake::trained(0.5, 0.7), Fake::trained(0.5, 0.8), Fake::trained(0.5, 0.9)];
    let table = sweep(dir.path(), &plan(runs), &fakes);
    assert_eq!(cells(&table, "Accuracy", "plain")[1], "75.00 [70.00, 80.00] (n=2, range, 0 diverged)");
    assert_eq!(cells(&table, "Accuracy", "one")[1..], ["90.00 (n=1, 0 diverged)", "50.00", "+20.00"]);
    assert!(
        table
            .findings
            .iter()
            .any(|line| line.contains("n = 2 seeds") && line.contains("p = 0.5;") && line.contains("n = 6")),
        "{:?}",
        table.findings
    );
}

#[test]
fn unfinished_failed_and_untrained_runs_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let plan = three_seeds(&["plain", "gated"]);
    plan.write(dir.path()).unwrap();
    Fake::trained(0.5, 0.7).write(dir.path(), &plan.runs[0]);
    Fake::not_trained().write(dir.path(), &plan.runs[1]);
    let failed = RunDir::create(&plan.runs[3].dir(dir.path())).unwrap();
    let message = "no memory on host-17 in /secret".to_owned();
    failed.write_failed(&Failed { class: FailureClass::OutOfMemory, message, last_step: Some(41) }).unwrap();
    let table = write_tables(dir.path()).unwrap();
    assert_eq!(cells(&table, "Accuracy", "plain")[1], "2 of 3");
    assert_eq!(cells(&table, "Accuracy", "gated")[1..], ["0 of 3", "-", "-", "-"]);
    assert_eq!(
        table.notes,
        [
            "plain: 2 of 3 seeds done.",
            "gated: 0 of 3 seeds done.",
            "Failed, no result: gated s0 (out of memory, last step 41; runs/gated-s0/log.txt).",
            "Not trained: plain s1.",
        ],
    );
    let markdown = std::fs::read_to_string(dir.path().join("table.md")).unwrap();
    assert!(!markdown.contains("secret") && !markdown.contains("/home"), "no absolute path: {markdown}");
}

#[test]
fn a_point_is_chosen_on_validation_and_never_on_test() {
    let dir = tempfile::tempdir().unwrap();
    let arm = |name: &str, rate: &str| (0..2).map(|seed| planned(name, &[lr(rate)], seed)).collect::<Vec<_>>();
    let runs = [arm("plain", "1e-3"), arm("plain", "4e-3"), arm("gated", "1e-3"), arm("gated", "4e-3")].concat();
    let mut plan = plan(runs);
    plan.select = vec!["optim.lr".into()];
    let points =
        [(0.80, 0.70), (0.80, 0.72), (0.70, 0.90), (0.85, 0.90), (0.6, 0.6), (0.6, 0.6), (0.9, 0.8), (0.9, 0.8)];
    let table = sweep(dir.path(), &plan, &points.map(|(val, test)| Fake::trained(val, test)));
    // plain: validation .80 against .775, though test says the other; gated: .6 against .9.
    let title = "Chosen per arm on val/top1: optim.lr";
    let want =
        ["plain", "lr=1e-3", "71.00 [70.00, 72.00] (n=2, range, 0 diverged)", "80.00 [80.00, 80.00]", "baseline"];
    assert_eq!(cells(&table, title, "plain"), want);
    // Against plain at plain's own rate: d = .10, .08.
    assert_eq!(cells(&table, title, "gated")[1], "lr=4e-3");
    assert_eq!(cells(&table, title, "gated")[4], "+9.00 [+8.00, +10.00]");
    // In the table of all points, against plain at the same rate: d = -.10, -.10.
    assert_eq!(cells(&table, "All points", "gated[lr=4e-3]")[3], "-10.00 [-10.00, -10.00]");
    assert_eq!(cells(&table, "All points", "plain[lr=4e-3]")[3], "baseline");
    assert!(table.to_markdown().contains("- Grid: optim.lr = 1e-3; optim.lr = 4e-3.\n"), "{}", table.to_markdown());
    let csv = table.to_csv();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let at = reader.headers().unwrap().iter().position(|name| name == "selected").unwrap();
    let selected: Vec<String> = reader.records().map(|row| row.unwrap()[at].to_owned()).collect();
    assert_eq!(selected, ["1", "0", "0", "1"]);
}

#[test]
fn a_point_without_all_its_seeds_is_not_chosen_and_differing_grids_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let runs = vec![
        planned("plain", &[lr("1e-3")], 0),
        planned("plain", &[lr("4e-3")], 0),
        planned("gated", &[lr("1e-3")], 0),
        planned("gated", &[lr("9e-3")], 0),
    ];
    let mut plan = plan(runs);
    plan.select = vec!["optim.lr".into()];
    let table = sweep(dir.path(), &plan, &[Fake::trained(0.5, 0.5)]);
    let title = "Chosen per arm on val/top1: optim.lr";
    assert_eq!(cells(&table, title, "plain")[1], "lr=1e-3 (1/2)");
    assert_eq!(cells(&table, title, "gated"), ["gated", "(0/2)", "-", "-", "-", "-"]);
    let grid = &table.selection.as_ref().unwrap().grid;
    assert_eq!(grid[1], "gated: optim.lr = 1e-3; optim.lr = 9e-3 (the grids differ)");
}

#[test]
fn a_choice_at_an_end_of_the_grid_is_said_by_number_and_not_by_place() {
    let dir = tempfile::tempdir().unwrap();
    let points = |arm: &str| ["4e-3", "1e-3", "1e-2"].map(|rate| planned(arm, &[lr(rate)], 0)).to_vec();
    let mut plan = plan([points("plain"), points("ls"), points("gated")].concat());
    plan.select = vec!["optim.lr".into()];
    let validation = [[0.4, 0.5, 0.4], [0.4, 0.4, 0.5], [0.5, 0.4, 0.4]].concat();
    let table = sweep(dir.path(), &plan, &validation.iter().map(|val| Fake::trained(*val, 0.5)).collect::<Vec<_>>());
    let markdown = table.to_markdown();
    let want = "- At an end of the grid, so that a better value may lie beyond it: plain (lr=1e-3), ls (lr=1e-2).\n";
    assert!(markdown.contains(want), "{markdown}");
    assert!(markdown.contains("(in the chosen part, of each arm's own point to the baseline's own)"), "{markdown}");
    assert!(markdown.contains("over 2 comparisons it takes n = 7"), "{markdown}");
}

/// Seed 1 of plain's better point has no validation accuracy; seed 0 alone would win with .9.
#[test]
fn a_point_is_not_chosen_on_some_of_its_seeds() {
    let dir = tempfile::tempdir().unwrap();
    let runs =
        ["1e-3", "4e-3"].iter().flat_map(|rate| (0..2).map(|seed| planned("plain", &[lr(rate)], seed))).collect();
    let mut plan = plan(runs);
    plan.select = vec!["optim.lr".into()];
    sweep(dir.path(), &plan, &[0.9, 0.9, 0.5, 0.5].map(|val| Fake::trained(val, 0.5)));
    let chosen =
        || table(&read_sweep(dir.path()).unwrap(), &Options::default()).unwrap().selection.unwrap().rows[0].row;
    assert_eq!(chosen(), Some(0));
    let done = plan.runs[1].dir(dir.path()).join("done.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&done).unwrap()).unwrap();
    json["metrics"].as_object_mut().unwrap().remove("val/top1").unwrap();
    std::fs::write(&done, json.to_string()).unwrap();
    assert_eq!(chosen(), Some(1));
}

#[test]
fn grid_axes_are_factors_and_own_axes_make_arms() {
    let dir = tempfile::tempdir().unwrap();
    let arms = |rate: &str| vec![planned("plain", &[lr(rate)], 0), planned("ls", &[init("1e-5"), lr(rate)], 0)];
    let runs = [0.5, 0.6, 0.7, 0.9].map(|test| Fake::trained(0.5, test));
    let table = sweep(dir.path(), &plan([arms("1e-3"), arms("4e-3")].concat()), &runs);
    assert_eq!(cells(&table, "Accuracy", "ls[init=1e-5,lr=1e-3]")[3], "+10.00");
    assert_eq!(cells(&table, "Accuracy", "ls[init=1e-5,lr=4e-3]")[3], "+20.00");
    let read = read_sweep(dir.path()).unwrap();
    let options = Options { baseline: Some("ls[init=1e-5]".into()), ..Options::default() };
    let other = reslab_report::table(&read, &options).unwrap();
    assert_eq!(cells(&other, "Accuracy", "plain[lr=4e-3]")[3], "-20.00");
    assert!(other.to_text().contains("vs ls[init=1e-5]"));
}

#[test]
fn the_metric_can_be_another_and_unknown_names_are_refused_with_the_known_ones() {
    let dir = tempfile::tempdir().unwrap();
    let runs = [0.70, 0.71, 0.72].map(|test| Fake::trained(0.5, test));
    sweep(dir.path(), &three_seeds(&["plain"]), &runs);
    let read = read_sweep(dir.path()).unwrap();
    let with = |metric: &str, baseline: &str| {
        table(&read, &Options { metric: Some(metric.into()), baseline: Some(baseline.into()) })
    };
    let by_loss = with("test/loss", "plain").unwrap();
    assert_eq!(cells(&by_loss, "Accuracy", "plain")[1], "0.7000 +- 0.0000 (n=3, 0 diverged)");
    assert_eq!(by_loss.rows[0].metric(&Metric::new("test/loss")).unwrap().interval, Interval::T95);
    let error = with("test/top9", "plain").unwrap_err();
    assert!(matches!(error, ReportError::UnknownMetric { .. }));
    assert_eq!(
        error.to_string(),
        "metric: no run has recorded `test/top9`; recorded are test/loss, test/top1, val/top1"
    );
    let error = with("test/top1", "plane").unwrap_err();
    assert_eq!(error.to_string(), "baseline: no arm is named `plane`; there are plain");
}

#[test]
fn a_sweep_in_which_all_diverged_or_none_began_has_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let table = sweep(dir.path(), &three_seeds(&["plain"]), &[]);
    assert_eq!(cells(&table, "Accuracy", "plain")[1], "0 of 3");
    let dir = tempfile::tempdir().unwrap();
    let all = [(); 3].map(|()| Fake::non_finite());
    let table = sweep(dir.path(), &three_seeds(&["plain"]), &all);
    assert_eq!(cells(&table, "Accuracy", "plain")[1], "10.00 (n=3, 3 diverged)");
    assert_eq!(cells(&table, "Stability", "plain")[5], "1.03", "three steps were recorded");
}
