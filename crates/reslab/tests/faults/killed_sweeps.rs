//! A sweep's own process, killed with SIGKILL again and again; and its runs, killed under it.

use std::path::Path;
use std::time::Duration;

use crate::processes::{Started, send, start, wait_for_workers, wait_until, workers};
use crate::random::{Random, kills};
use crate::records::{Files, assert_same, done, place, read_results, rows, runs, starts};
use crate::support::Place;

const SWEEP: [&str; 8] = ["sweep", "faults.toml", "--threads", "1", "--jobs", "2", "--out", "here"];
/// Runs of faults.toml.
const RUNS: usize = 4;
/// Steps of each.
const STEPS: usize = 60;
/// How long a run may go on when its sweep is gone, on a machine that is busy: it does the step that it is at, and saves.
const ORPHAN: Duration = Duration::from_secs(10);

/// An undisturbed sweep: its records, and the time to the first step of its first run.
fn undisturbed() -> (Files, Duration) {
    let place = place();
    let sweep = place.at("here/faults");
    let mut started = start(&place, "sweep", &SWEEP);
    wait_until("the first step", || steps(&sweep) > 0);
    let start_up = started.since.elapsed();
    started.expect(0);
    assert_eq!(done(&sweep), RUNS);
    assert!(["table.md", "table.csv", "plan.toml"].iter().all(|name| sweep.join(name).is_file()));
    (read_results(&sweep), start_up)
}

/// Rows in the steps.csv of all runs.
fn steps(sweep: &Path) -> usize {
    runs(sweep).iter().map(|run| rows(run, "steps.csv")).sum()
}

/// Kills the sweep: in its start-up, or so many steps later, or near its end; not where it ends before. Gives the
/// processes that it had.
fn kill(started: &mut Started, place: &Place, random: &mut Random, start_up: Duration) -> Option<Vec<u32>> {
    let sweep = place.at("here/faults");
    let goal = steps(&sweep) + random.below(100) as usize;
    let (delay, goal) = match random.below(4) {
        0 => (random.delay(start_up), 0),
        // Most of what is left is evaluation and the tables.
        _ if goal > RUNS * STEPS => (random.delay(3 * start_up), 0),
        _ => (random.delay(Duration::from_millis(30)), goal),
    };
    if !started.waits_until(|| steps(&sweep) >= goal) {
        return None;
    }
    std::thread::sleep(delay);
    let children = workers(place);
    started.kill().then_some(children)
}

#[test]
fn a_killed_sweep_leaves_no_orphan_and_ends_in_the_records_of_an_undisturbed_one() {
    let mut random = Random::new(2);
    let (expected, start_up) = undisturbed();
    let goal = kills(40).div_ceil(10) * 3;
    let (mut killed, mut resumed, mut sweeps, mut longest) = (0, 0, 0, Duration::ZERO);
    while killed < goal {
        let place = place();
        let sweep = place.at("here/faults");
        for attempt in 0.. {
            assert!(attempt < 60, "it gets nowhere: {} steps", steps(&sweep));
            let mut started = start(&place, "sweep", &SWEEP);
            let killed_now = (killed < goal).then(|| kill(&mut started, &place, &mut random, start_up)).flatten();
            let Some(children) = killed_now else {
                started.expect(0);
                if done(&sweep) == RUNS {
                    break;
                }
                continue;
            };
            killed += 1;
            match random.below(3) {
                // The machine went down: nobody saves anything.
                0 => children.iter().for_each(|child| send(*child, libc::SIGKILL)),
                // The user is quick: the next sweep comes while runs of this one still save.
                1 => continue,
                _ => {}
            }
            let took = wait_for_workers(&place);
            assert!(took < ORPHAN, "runs went on for {took:?} without their sweep");
            longest = longest.max(took);
        }
        sweeps += 1;
        resumed += runs(&sweep).iter().flat_map(|run| starts(run)).filter(|from| *from > 0).count();
        assert_same(&read_results(&sweep), &expected, &format!("sweep {sweeps}, {killed} kills so far"));
    }
    println!("{killed} kills over {sweeps} sweeps, {resumed} starts of runs from a checkpoint");
    println!("no run outlived its sweep by more than {longest:.1?}");
    assert!(resumed > 0 || killed < 30, "no run went on from a checkpoint");
}

/// Somebody, or the system out of memory, ends a run and not its sweep.
#[test]
fn a_run_killed_under_its_sweep_stops_no_other_and_comes_out_the_same() {
    let (expected, _) = undisturbed();
    let place = place();
    let sweep = place.at("here/faults");
    let mut started = start(&place, "sweep", &SWEEP);
    let is_at_work = || runs(&sweep).iter().any(|run| run.join("checkpoint.safetensors").exists());
    wait_until("a run at work", is_at_work);
    send(*workers(&place).first().expect("it is at work"), libc::SIGKILL);
    let code = started.end().code().expect("the sweep itself goes on");
    let words = started.words();
    assert!(words.contains("killed") && words.contains("SIGKILL"), "{words}");
    // With retries the sweep brings it to its end at once.
    match code {
        0 => assert_eq!(done(&sweep), RUNS, "{words}"),
        1 => {
            assert_eq!(done(&sweep), RUNS - 1, "the others are done: {words}");
            assert!(words.contains("log.txt"), "{words}");
        }
        other => panic!("exit code {other}: {words}"),
    }
    place.call(&SWEEP).expect(0);
    assert_same(&read_results(&sweep), &expected, "after the same command");
}
