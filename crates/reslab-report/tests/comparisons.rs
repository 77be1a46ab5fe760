//! What stands in the parts of a table that compare, and when.

mod support;

use reslab_record::{Axis, Plan, Study};
use reslab_report::{Finding, Options, Table, read_sweep, table};
use std::path::Path;
use support::{Fake, lr, plan, planned};

fn sweep(dir: &Path, plan: &Plan, fakes: &[Fake]) -> Table {
    plan.write(dir).unwrap();
    for (run, fake) in plan.runs.iter().zip(fakes) {
        fake.write(dir, run);
    }
    table(&read_sweep(dir).unwrap(), &Options::default()).unwrap()
}

fn seeds(arms: &[&str], n: u64) -> Plan {
    plan(arms.iter().flat_map(|arm| (0..n).map(move |seed| planned(arm, &[], seed))).collect())
}

fn study(arm: &str, baseline: &str) -> Option<Study> {
    Some(Study { primary: [arm.into(), baseline.into()], done_before: 0 })
}

/// Runs of an arm that scores `test` more by a hundredth per seed.
fn arm(test: f64, n: usize) -> impl Iterator<Item = Fake> {
    (0..n).map(move |seed| Fake::trained(0.5, test + seed as f64 / 100.0))
}

fn depth(value: &str) -> Axis {
    Axis { key: "model.depth".into(), label: "depth".into(), value: value.into(), grid: true }
}

/// Seven seeds, two comparisons, all differences of one sign: p = 2^-6, twice that is .03125.
#[test]
fn better_and_worse_are_said_where_holms_p_allows_it() {
    let dir = tempfile::tempdir().unwrap();
    let fakes = |n| arm(0.7, n).chain(arm(0.8, n)).chain(arm(0.6, n)).collect::<Vec<_>>();
    let found = sweep(dir.path(), &seeds(&["plain", "up", "down"], 7), &fakes(7));
    let findings: Vec<Finding> = found.comparison.with_baseline.iter().map(|c| c.finding).collect();
    assert_eq!(findings, [Finding::Better, Finding::Worse]);
    let want = "Against plain, with a Holm-adjusted p of at most .05 over 2 comparisons: better: up; worse: down.";
    assert_eq!(found.findings[0], want);
    assert!(found.findings[1].ends_with("it takes n = 7."), "{:?}", found.findings);
    // Negative control: with six seeds Holm's p is .0625.
    let dir = tempfile::tempdir().unwrap();
    let few = sweep(dir.path(), &seeds(&["plain", "up", "down"], 6), &fakes(6));
    assert!(few.comparison.with_baseline.iter().all(|c| c.holm == Some(0.0625) && c.finding == Finding::Undecided));
    let text = few.to_markdown().split("## How to read it").next().unwrap().to_owned();
    for word in ["better", "worse", "significant"] {
        assert!(!text.contains(word), "{word} in\n{text}");
    }
}

#[test]
fn a_lower_loss_is_the_better_one() {
    let dir = tempfile::tempdir().unwrap();
    let plan = seeds(&["plain", "gated"], 6);
    sweep(dir.path(), &plan, &arm(0.7, 6).chain(arm(0.8, 6)).collect::<Vec<_>>());
    let mut loss = 0.9;
    for run in &plan.runs {
        let done = run.dir(dir.path()).join("done.json");
        let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&done).unwrap()).unwrap();
        json["metrics"]["train/loss"] = loss.into();
        std::fs::write(&done, json.to_string()).unwrap();
        loss -= 0.01;
    }
    let options = Options { metric: Some("train/loss".into()), baseline: None };
    let table = table(&read_sweep(dir.path()).unwrap(), &options).unwrap();
    let gated = &table.comparison.with_baseline[0];
    assert!(gated.difference.unwrap().mean < 0.0);
    assert_eq!((gated.holm, gated.finding, gated.probability), (Some(0.03125), Finding::Better, Some(0.0)));
}

#[test]
fn a_primary_contrast_need_not_be_with_the_baseline_and_leaves_its_mirror_out_of_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let fakes: Vec<Fake> = arm(0.7, 6).chain(arm(0.8, 6)).chain(arm(0.6, 6)).collect();
    sweep(dir.path(), &seeds(&["plain", "up", "down"], 6), &fakes);
    let of = |study: Option<Study>| sweep(dir.path(), &Plan { study, ..seeds(&["plain", "up", "down"], 6) }, &[]);
    let arms = |table: &Table| table.comparison.with_baseline.iter().map(|c| c.arm.clone()).collect::<Vec<_>>();
    let other = of(study("down", "up"));
    assert_eq!(other.comparison.primary.as_ref().unwrap().finding, Finding::Worse);
    assert_eq!(arms(&other), ["up", "down"]);
    let mirror = of(study("plain", "up"));
    assert_eq!(mirror.comparison.primary.as_ref().unwrap().finding, Finding::Worse);
    assert_eq!(arms(&mirror), ["down"]);
    // With another metric than it was named for, nothing is tested alone.
    let options = Options { metric: Some("test/loss".into()), baseline: None };
    let by_loss = table(&read_sweep(dir.path()).unwrap(), &options).unwrap();
    assert_eq!((by_loss.comparison.primary.as_ref(), arms(&by_loss).len()), (None, 2));
    assert!(by_loss.findings[0].contains("is about test/top1"), "{:?}", by_loss.findings);
    // test/loss is .7 in all runs: all equal.
    assert!(by_loss.comparison.with_baseline.iter().all(|c| c.holm == Some(1.0) && c.probability == Some(0.5)));
    assert!(by_loss.findings.last().unwrap().ends_with("No number of seeds tells equal means apart."));
}

/// Over two depths: seed 0 differs by .10 and .30, seed 1 by .20 and .20: both .20 on the mean.
#[test]
fn over_several_points_a_primary_contrast_is_one_test_of_the_means_per_seed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |arm: &str, d: &str| (0..2).map(|seed| planned(arm, &[depth(d)], seed)).collect::<Vec<_>>();
    let runs = [at("plain", "12"), at("plain", "48"), at("gated", "12"), at("gated", "48")].concat();
    let scores = [0.5, 0.5, 0.4, 0.5, 0.6, 0.7, 0.7, 0.7];
    let plan = Plan { study: study("gated", "plain"), ..plan(runs) };
    let table = sweep(dir.path(), &plan, &scores.map(|test| Fake::trained(0.5, test)));
    let primary = table.comparison.primary.as_ref().unwrap();
    let d = primary.difference.unwrap();
    assert!((d.mean - 0.2).abs() < 1e-12 && d.high.unwrap() - d.low.unwrap() < 1e-12, "{d:?}");
    assert_eq!((primary.sign_flip.unwrap().n, primary.rows.clone()), (2, vec![2, 3]));
    assert!(table.comparison.with_baseline.is_empty());
    assert!(table.findings[0].contains("With n = 2 the test cannot go below p = 0.5; it takes n = 6."));
}

/// Of gated's .6, .7, .7, .7 the middle two: .70; of plain's .4, .5, .5, .5: .50. gated is above in every pair.
#[test]
fn over_depths_there_are_interquartile_means() {
    let dir = tempfile::tempdir().unwrap();
    let at = |arm: &str, d: &str| (0..2).map(|seed| planned(arm, &[depth(d)], seed)).collect::<Vec<_>>();
    let runs = [at("plain", "12"), at("plain", "48"), at("gated", "12"), at("gated", "48")].concat();
    let scores = [0.5, 0.5, 0.4, 0.5, 0.6, 0.7, 0.7, 0.7];
    let table = sweep(dir.path(), &plan(runs.clone()), &scores.map(|test| Fake::trained(0.5, test)));
    let markdown = table.to_markdown();
    assert!(markdown.contains("## Over all points: model.depth\n"), "{markdown}");
    assert!(markdown.contains("| gated |      2 | 70.00 [65.00, 70.00] | 1.00 [1.00, 1.00] |"), "{markdown}");
    assert!(markdown.contains("| plain |      2 | 50.00 [45.00, 50.00] |          baseline |"), "{markdown}");
    assert!(markdown.contains("(2000 resamples, seed 0)"), "{markdown}");
    assert_eq!(markdown, sweep(dir.path(), &plan(runs), &[]).to_markdown(), "the same bytes again");
    // Learning rates are no such points.
    let dir = tempfile::tempdir().unwrap();
    let runs = ["1e-3", "4e-3"].map(|rate| planned("plain", &[lr(rate)], 0)).to_vec();
    assert_eq!(sweep(dir.path(), &plan(runs), &[Fake::trained(0.5, 0.7)]).over_points, None);
}

/// Losses 2.3 at step 0, .5 at the end; plain's run at 1e-2 diverges.
#[test]
fn learning_rates_have_a_largest_stable_one_and_a_sensitivity() {
    let dir = tempfile::tempdir().unwrap();
    let grid = |arm: &str| ["1e-3", "4e-3", "1e-2"].map(|rate| planned(arm, &[lr(rate)], 0)).to_vec();
    let plan = plan([grid("plain"), grid("gated")].concat());
    let fine = || Fake::trained(0.5, 0.7);
    let table = sweep(dir.path(), &plan, &[fine(), fine(), Fake::non_finite(), fine(), fine(), fine()]);
    // (0 + 0 + (2.3 - .5)) / 3 = .6.
    let markdown = table.to_markdown();
    assert!(markdown.contains("| plain | 1e-3 4e-3 1e-2 |           4e-3 |       0.600 |"), "{markdown}");
    assert!(markdown.contains("| gated | 1e-3 4e-3 1e-2 |           1e-2 |       0.000 |"), "{markdown}");
    assert!(markdown.contains("within 0.1 of its own best"), "{markdown}");
    // A seed is missing: neither is known.
    std::fs::remove_dir_all(plan.runs[0].dir(dir.path())).unwrap();
    let table = reslab_report::table(&read_sweep(dir.path()).unwrap(), &Options::default()).unwrap();
    assert_eq!((table.rates[0].largest_stable.as_ref(), table.rates[0].sensitivity), (None, None));
}

#[test]
fn an_arm_that_misses_seeds_is_compared_over_those_it_has_and_counts_in_the_family() {
    let dir = tempfile::tempdir().unwrap();
    let fakes: Vec<Fake> = arm(0.7, 7).chain(arm(0.8, 7)).chain(arm(0.6, 3)).collect();
    let table = sweep(dir.path(), &seeds(&["plain", "up", "down", "none"], 7), &fakes);
    let [up, down, none] = &table.comparison.with_baseline[..] else { panic!() };
    assert_eq!((up.holm, up.finding), (Some(3.0 / 64.0), Finding::Better), "times three, not two");
    assert_eq!((down.sign_flip.unwrap().p, down.difference.unwrap().n, down.holm), (0.25, 3, Some(0.5)));
    assert_eq!((none.sign_flip, none.holm, none.difference), (None, None, None));
    let with_study = Plan { study: study("none", "plain"), ..seeds(&["plain", "up", "down", "none"], 7) };
    assert!(sweep(dir.path(), &with_study, &[]).findings[0].ends_with("none - plain; its runs are not done."));
    let partly = Plan { study: study("down", "plain"), ..with_study };
    let findings = sweep(dir.path(), &partly, &[]).findings;
    assert!(findings[0].contains("Only 3 of 7 seeds are done: this is not its test yet."), "{findings:?}");
}

/// Both of a pair diverged: the differences are 0, and Fisher has 3 of 3 against 3 of 3.
#[test]
fn where_all_diverged_nothing_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let table = sweep(dir.path(), &seeds(&["plain", "gated"], 3), &[(); 6].map(|()| Fake::non_finite()));
    let gated = &table.comparison.with_baseline[0];
    assert_eq!((gated.sign_flip.unwrap().p, gated.holm, gated.probability), (1.0, Some(1.0), Some(0.5)));
    assert!((gated.fisher.unwrap() - 1.0).abs() < 1e-12);
    assert_eq!(table.comparison.closest, None);
    let dir = tempfile::tempdir().unwrap();
    let one = sweep(dir.path(), &seeds(&["plain", "gated"], 1), &[Fake::trained(0.5, 0.7), Fake::trained(0.5, 0.8)]);
    assert_eq!(one.comparison.with_baseline[0].sign_flip.unwrap().p, 1.0, "one seed");
    assert_eq!(one.comparison.closest, None, "without a deviation");
}

#[test]
fn spikes_have_a_part_of_their_own_where_there_are_any() {
    let dir = tempfile::tempdir().unwrap();
    let mut spiky = Fake::trained(0.5, 0.7);
    // From step 100 on the loss is .5, so that at step 190 the 128 before are 38 times 2.3 and 90 times .5: mean 1.034.
    spiky.losses[190] = 99.0;
    let table = sweep(dir.path(), &seeds(&["plain", "gated"], 1), &[Fake::trained(0.5, 0.7), spiky]);
    let markdown = table.to_markdown();
    assert!(markdown.contains("## Spikes (arms without any are left out)\n"), "{markdown}");
    assert!(markdown.contains("| gated |             1 |      98.0 |             1 |"), "{markdown}");
    assert_eq!(markdown.matches("| plain ").count(), 2, "accuracy and stability only");
}

#[test]
fn csv_and_json_carry_the_comparisons() {
    let dir = tempfile::tempdir().unwrap();
    let grid = |arm: &str| (0..6).map(|seed| planned(arm, &[], seed)).collect::<Vec<_>>();
    let plan = Plan { study: study("gated", "plain"), ..plan([grid("plain"), grid("gated"), grid("ls")].concat()) };
    let fakes: Vec<Fake> = arm(0.7, 6).chain(arm(0.8, 6)).chain(arm(0.6, 6)).collect();
    let table = sweep(dir.path(), &plan, &fakes);
    let csv = table.to_csv();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    let field =
        |row: usize, name: &str| rows[row][headers.iter().position(|header| header == name).unwrap()].to_owned();
    let of = |name: &str| [0, 1, 2].map(|row| field(row, name));
    assert_eq!(of("primary_sign_flip_p"), ["", "0.03125", ""]);
    assert_eq!(of("primary_finding"), ["", "1", ""]);
    assert_eq!(of("primary_difference_n"), ["0", "6", "0"]);
    assert_eq!(of("sign_flip_p"), ["", "", "0.03125"]);
    assert_eq!(of("holm_p"), ["", "", "0.03125"]);
    assert_eq!(of("finding"), ["", "", "-1"]);
    assert_eq!(of("p_above_baseline"), ["", "", "0"]);
    assert_eq!(of("fisher_p"), ["", "", ""]);
    assert_eq!(of("spike_episodes"), ["0", "0", "0"]);
    let json: serde_json::Value = serde_json::from_str(&table.to_json()).unwrap();
    assert_eq!(json["comparison"]["primary"]["sign_flip_p"], 0.03125);
    assert_eq!(json["comparison"]["primary"]["finding"], "better");
    assert_eq!(json["comparison"]["with_baseline"][0]["holm_p"], 0.03125);
    assert_eq!(json["comparison"]["closest"]["n"], 6);
    assert_eq!(json["findings"].as_array().unwrap().len(), table.findings.len());
    let tex = table.to_tex();
    assert!(
        tex.contains("% demo: Primary contrast: gated against plain\n") && tex.contains("& better \\\\\n"),
        "{tex}"
    );
    for line in table.to_text().lines() {
        assert!(line.len() <= 118, "{} columns: {line}", line.len());
    }
}
