//! Who computes a run, when and beside which others changes nothing of it; and nobody computes it twice.

use std::time::Duration;

use crate::processes::{start, wait_for_workers};
use crate::random::Random;
use crate::records::{Files, assert_same, done, place, read_results, runs, starts};

const SWEEP: [&str; 6] = ["sweep", "faults.toml", "--threads", "1", "--out", "here"];
const RUNS: usize = 4;

fn with_jobs(jobs: &str) -> Files {
    let place = place();
    place.call(&[&SWEEP[..], &["--jobs", jobs]].concat()).expect(0);
    read_results(&place.at("here/faults"))
}

#[test]
fn one_job_and_two_give_the_same_bytes_and_so_does_another_order_of_arms() {
    let expected = with_jobs("1");
    assert_same(&with_jobs("2"), &expected, "--jobs 2");

    let place = place();
    let text = std::fs::read_to_string(place.at("faults.toml")).expect("there");
    let arms: Vec<&str> = text.split("[[arm]]").collect();
    let [head, plain, layer_scale] = arms[..] else { panic!("{} arms", arms.len() - 1) };
    let reversed = format!("{head}[[arm]]{layer_scale}\n[[arm]]{plain}").replace("[0, 1]", "[1, 0]");
    std::fs::write(place.at("faults.toml"), reversed).expect("written");
    place.call(&[&SWEEP[..], &["--jobs", "2"]].concat()).expect(0);
    // The plan and the rows of the tables follow the file; the runs do not.
    let of_runs = |files: Files| -> Files { files.into_iter().filter(|(name, _)| name.starts_with("runs")).collect() };
    let found = read_results(&place.at("here/faults"));
    assert_ne!(found[std::path::Path::new("table.csv")], expected[std::path::Path::new("table.csv")], "no other order");
    assert_same(&of_runs(found), &of_runs(expected), "arms and seeds in another order");
}

#[test]
fn two_sweeps_on_one_folder_do_every_run_once() {
    let mut random = Random::new(3);
    let expected = with_jobs("2");
    for round in 0..2 {
        let place = place();
        let sweep = place.at("here/faults");
        let arguments = [&SWEEP[..], &["--jobs", "1"]].concat();
        let mut first = start(&place, "first", &arguments);
        // At once, and later.
        std::thread::sleep(if round == 0 { Duration::ZERO } else { random.delay(Duration::from_secs(2)) });
        let mut second = start(&place, "second", &arguments);
        first.expect(0);
        second.expect(0);
        let words = format!("round {round}\n{}\n{}", first.words(), second.words());
        wait_for_workers(&place);
        assert_eq!(done(&sweep), RUNS, "{words}");
        for run in runs(&sweep) {
            assert_eq!(starts(&run), [0], "{}: {words}", run.display());
        }
        assert_same(&read_results(&sweep), &expected, &words);
        place.call(&arguments).expect(0);
        assert_same(&read_results(&sweep), &expected, "a third sweep, afterwards");
    }
}
