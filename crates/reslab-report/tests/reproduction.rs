//! A recorded sweep against one computed anew: what is equal, what chance allows, what differs.

mod support;

use reslab_record::{Outcome, Plan, PlannedRun};
use reslab_report::{Equality, Reproduction, Verdict, compare, write_reproduction};
use std::path::Path;
use support::{Fake, plan, planned};

/// Scores of the seeds of one arm, as recorded and anew.
type Scores = (&'static str, Vec<Fake>, Vec<Fake>);

fn scores(values: &[f64]) -> Vec<Fake> {
    values.iter().map(|test| loss_like(Fake::trained(0.5, *test))).collect()
}

/// A final loss that goes with the accuracy: 1 - accuracy.
fn loss_like(fake: Fake) -> Fake {
    let last = 1.0 - fake.top1.1;
    Fake { losses: (0..200).map(|step| if step < 100 { 2.3 } else { last }).collect(), ..fake }
}

fn write(dir: &Path, plan: &Plan, runs: &[Option<&Fake>]) {
    plan.write(dir).unwrap();
    for (run, fake) in plan.runs.iter().zip(runs) {
        if let Some(fake) = fake {
            fake.write(dir, run);
        }
    }
}

struct Both {
    recorded: tempfile::TempDir,
    anew: tempfile::TempDir,
    plan: Plan,
}

impl Both {
    fn new(arms: &[Scores]) -> Self {
        let runs =
            |arm: &Scores| (0..arm.1.len() as u64).map(|seed| planned(arm.0, &[], seed)).collect::<Vec<PlannedRun>>();
        let plan = plan(arms.iter().flat_map(runs).collect());
        let both = Self { recorded: tempfile::tempdir().unwrap(), anew: tempfile::tempdir().unwrap(), plan };
        let old: Vec<Option<&Fake>> = arms.iter().flat_map(|arm| &arm.1).map(Some).collect();
        let new = |arm: &'_ Scores| -> Vec<Option<usize>> {
            (0..arm.1.len()).map(|i| (i < arm.2.len()).then_some(i)).collect()
        };
        let new: Vec<Option<&Fake>> =
            arms.iter().flat_map(|arm| new(arm).into_iter().map(|i| i.map(|i| &arm.2[i]))).collect();
        write(both.recorded.path(), &both.plan, &old);
        write(both.anew.path(), &both.plan, &new);
        both
    }

    fn compare(&self) -> Reproduction {
        let ids: Vec<String> = self.plan.runs.iter().map(|run| run.id.clone()).collect();
        compare(self.recorded.path(), self.anew.path(), &ids).unwrap()
    }
}

fn reproduce(arms: &[Scores]) -> Reproduction {
    Both::new(arms).compare()
}

fn verdicts(got: &Reproduction) -> Vec<Verdict> {
    got.cells.iter().map(|cell| cell.metric.verdict).collect()
}

const PLAIN: [f64; 3] = [0.741, 0.752, 0.735];
const GATED: [f64; 3] = [0.771, 0.765, 0.780];

#[test]
fn equal_records_are_identical_whatever_the_times() {
    let slower = || scores(&PLAIN).into_iter().map(|fake| Fake { images_per_s: 7.0, ..fake }).collect();
    let got = reproduce(&[("plain", scores(&PLAIN), slower())]);
    assert!(got.cells.iter().all(|cell| cell.equality == Equality::Records && cell.metric.p.is_none()));
    assert_eq!((verdicts(&got), got.arms[0].metric.verdict), (vec![Verdict::Identical; 3], Verdict::Identical));
    assert!(got.holds() && got.notes.is_empty(), "{:?}", got.notes);
    assert_eq!(got.conclusion(), "Reproduced: 3 of 3 runs have equal records.");
}

/// A loss in the middle of steps.csv that changes neither the final loss nor a metric.
#[test]
fn equal_metrics_with_other_records_are_said_to_be_that() {
    let mut other = scores(&PLAIN);
    other[1].losses[50] = 2.2;
    let got = reproduce(&[("plain", scores(&PLAIN), other)]);
    let equalities: Vec<Equality> = got.cells.iter().map(|cell| cell.equality).collect();
    assert_eq!(equalities, [Equality::Records, Equality::Metrics, Equality::Records]);
    assert!(got.holds());
    assert!(got.to_csv().contains("plain,1,test/top1,1,0.752,0.752,0,,,,,identical metrics\n"), "{}", got.to_csv());
}

/// Each seed moves by less than the seeds differ; all three by one right answer of 10,000 is no agreement either.
#[test]
fn what_another_rounding_does_is_within_the_interval() {
    let other = [0.748, 0.739, 0.744];
    let got = reproduce(&[("plain", scores(&PLAIN), scores(&other)), ("gated", scores(&GATED), scores(&GATED))]);
    assert_eq!(verdicts(&got)[..3], [Verdict::Within; 3], "{got:?}");
    assert_eq!(verdicts(&got)[3..], [Verdict::Identical; 3]);
    assert_eq!([got.arms[0].metric.verdict, got.arms[1].metric.verdict], [Verdict::Within, Verdict::Identical]);
    assert!(
        got.holds() && got.conclusion().ends_with("3 differ by no more than chance allows."),
        "{}",
        got.conclusion()
    );
    let one_more: Vec<f64> = PLAIN.iter().map(|x| x + 1e-4).collect();
    assert!(reproduce(&[("plain", scores(&PLAIN), scores(&one_more))]).arms[0].metric.verdict == Verdict::Within);
}

/// The one run that is off would hide in the spread that it makes, were that all that is looked at.
#[test]
fn one_changed_record_is_different() {
    let doctored = [0.1, PLAIN[1], PLAIN[2]];
    let others = || ("gated", scores(&GATED), scores(&GATED));
    for (old, new) in [(doctored, PLAIN), (PLAIN, doctored)] {
        let got = reproduce(&[("plain", scores(&old), scores(&new)), others()]);
        assert_eq!(verdicts(&got)[..2], [Verdict::Different, Verdict::Identical], "{got:?}");
    }
}

/// A learning rate four times as high cost plain 7.6 points in results/lr_grid-cpu (74.27 and 66.65).
#[test]
fn another_learning_rate_is_different() {
    let worse = [0.651, 0.709, 0.639];
    let got = reproduce(&[("plain", scores(&PLAIN), scores(&worse)), ("gated", scores(&GATED), scores(&GATED))]);
    assert_eq!(got.arms[0].metric.verdict, Verdict::Different, "{got:?}");
    assert!(!got.holds());
    assert!(
        got.conclusion().starts_with("Not reproduced: 3 of 6 runs have equal records; different: "),
        "{}",
        got.conclusion()
    );
    assert!(got.conclusion().contains("mean of plain (test/top1"), "{}", got.conclusion());
}

/// One point in every seed is no more than their spread, and yet no chance: rounding has no direction.
#[test]
fn small_differences_that_are_always_the_same_are_different() {
    let shifted: Vec<f64> = PLAIN.iter().zip([0.0100, 0.0101, 0.0099]).map(|(x, d)| x + d).collect();
    let got = reproduce(&[("plain", scores(&PLAIN), scores(&shifted))]);
    assert_eq!(verdicts(&got), [Verdict::Within; 3]);
    assert_eq!(got.arms[0].metric.verdict, Verdict::Different, "{got:?}");
}

/// With one seed only the noise of 10,000 test images is known: 1.96 sqrt(2 x .74 x .26 / 10000) = .0122.
#[test]
fn one_seed_is_judged_by_the_noise_of_its_test_images_and_its_loss_is_not() {
    let one = |new: f64| reproduce(&[("plain", scores(&[0.741]), scores(&[new]))]);
    assert_eq!(verdicts(&one(0.752)), [Verdict::Within]);
    let far = one(0.755);
    assert_eq!((verdicts(&far), far.cells[0].final_loss.verdict), (vec![Verdict::Different], Verdict::NotJudged));
    assert_eq!(far.arms[0].metric.p, None, "one run is judged once");
    assert!(far.to_text().contains("not judged"), "{}", far.to_text());
}

#[test]
fn diverged_runs_are_compared_by_that_alone() {
    let with = |first: Fake| {
        let mut fakes = scores(&PLAIN);
        fakes[0] = first;
        fakes
    };
    let step = |step| Fake { outcome: Outcome::NonFinite { step }, ..Fake::non_finite() };
    let both = reproduce(&[("plain", with(step(3)), with(step(2)))]);
    assert_eq!(verdicts(&both), [Verdict::Within, Verdict::Identical, Verdict::Identical]);
    assert_eq!(both.notes[1], "Diverged in both, and compared by that alone: plain s0.");
    assert!(both.holds());
    let now = reproduce(&[("plain", scores(&PLAIN), with(step(3)))]);
    assert_eq!((verdicts(&now)[0], now.holds()), (Verdict::Different, false));
    assert_eq!(now.notes[1], "Diverged anew, but not as recorded: plain s0.");
    let then = reproduce(&[("plain", with(step(3)), scores(&PLAIN))]);
    assert_eq!(verdicts(&then)[0], Verdict::Within, "recorded seeds of the arm go either way");
    let all = || (0..3).map(|_| Fake::non_finite()).collect();
    let never = reproduce(&[("plain", all(), scores(&PLAIN))]);
    assert_eq!(verdicts(&never), [Verdict::Different; 3]);
}

#[test]
fn what_has_no_new_result_is_said_and_what_was_not_recorded_is_left_out() {
    let got = reproduce(&[("plain", scores(&PLAIN), scores(&PLAIN[..2]))]);
    assert_eq!(verdicts(&got), [Verdict::Identical, Verdict::Identical, Verdict::NotDone]);
    assert!(!got.holds() && got.conclusion().starts_with("Not reproduced yet: 2 of 3"), "{}", got.conclusion());
    let both = Both::new(&[("plain", scores(&PLAIN), scores(&PLAIN))]);
    std::fs::remove_file(both.plan.runs[1].dir(both.recorded.path()).join("done.json")).unwrap();
    let got = both.compare();
    assert_eq!(got.cells.iter().map(|cell| cell.seed).collect::<Vec<_>>(), [0, 2]);
    let one = compare(both.recorded.path(), both.anew.path(), &[both.plan.runs[2].id.clone()]).unwrap();
    assert_eq!(one.cells.len(), 1);
}

#[test]
fn runs_that_should_be_equal_and_are_not_are_named() {
    let both = Both::new(&[("plain", scores(&PLAIN), scores(&[0.742, 0.752, 0.735]))]);
    let should = "Not equal, though code, libtorch, threads and the processor's name are those of the record.";
    assert!(both.compare().notes[0].starts_with(should) && both.compare().notes[0].ends_with(": plain s0."));
    for run in &both.plan.runs {
        let path = run.dir(both.recorded.path()).join("env.json");
        let text = std::fs::read_to_string(&path).unwrap().replace("0123456789abcdef0123", "fedcba98");
        std::fs::write(path, text).unwrap();
    }
    let got = both.compare();
    assert!(got.notes.is_empty(), "other code may round otherwise: {:?}", got.notes);
    assert!(got.origins[0].1.starts_with("commit fedcba98") && got.origins[1].1.starts_with("commit 0123456789ab"));
}

#[test]
fn a_plan_that_says_otherwise_than_the_records_is_named() {
    let both = Both::new(&[("plain", scores(&PLAIN), scores(&PLAIN))]);
    let path = both.plan.runs[2].dir(both.recorded.path()).join("config.toml");
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replace("clip = 1.0", "clip = 2.0")).unwrap();
    let want = "The plan, which was run, says otherwise than the record's config.toml: plain s2.";
    assert_eq!(both.compare().notes, [want]);
}

#[test]
fn the_files_hold_the_comparison_without_dates_and_places() {
    let both = Both::new(&[
        ("plain", scores(&PLAIN), scores(&[0.742, 0.752, 0.735])),
        ("a|b", scores(&GATED), scores(&GATED)),
    ]);
    let got = both.compare();
    write_reproduction(&got, both.anew.path()).unwrap();
    let markdown = std::fs::read_to_string(both.anew.path().join("reproduce.md")).unwrap();
    for part in [
        "# demo, reproduced\n\nReproduced: 5 of 6",
        "| plain s0 ",
        "a\\|b",
        "+0.03 ",
        "- Recorded: commit",
        "## How to read it",
    ] {
        assert!(markdown.contains(part), "no {part:?} in\n{markdown}");
    }
    assert!(!markdown.contains("/tmp") && markdown.is_ascii(), "{markdown}");
    let csv = std::fs::read_to_string(both.anew.path().join("reproduce.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 2 * 6 + 2 * 2, "two figures of every run and arm");
    assert_eq!((&rows[0][4], &rows[0][5], &rows[0][11]), ("0.741", "0.742", "within interval"));
    assert!(rows[0][9].parse::<f64>().unwrap() <= rows[0][10].parse().unwrap(), "the adjusted p is the larger one");
    for line in got.to_text().lines() {
        assert!(line.len() <= 118, "{line}");
    }
}
