//! A run, killed with SIGKILL again and again: at random times, and while it writes a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use reslab_record::{CHECKPOINT_FILE, CHECKPOINT_PREV_FILE, Checkpoint};

use crate::processes::{Started, start, wait_until};
use crate::random::{Random, kills};
use crate::records::{Files, assert_same, place, read, rows, runs, starts};

const ARMS: [&str; 2] = ["plain", "layer_scale"];

/// Steps of the run and steps between two evaluations, as faults.toml has them.
const STEPS: u64 = 60;
const EVAL_EVERY: usize = 7;

/// When a run is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// So long after its start: mostly before its first step.
    Start(Duration),
    /// So long after it wrote so many steps.
    Step(u64, Duration),
    /// At the next sight of this, after it wrote so many steps.
    Sight(u64, Sight),
}

/// What can be seen of a process at work.
#[derive(Debug, Clone, Copy)]
enum Sight {
    /// A checkpoint is being written.
    Checkpoint,
    /// A small file is being written.
    SmallFile,
    /// A row has come to evals.csv: another one follows it at once.
    Eval,
}

impl Moment {
    /// For a run that goes on at step `from`: within the next 15 steps, so that a run is killed often.
    fn pick(random: &mut Random, from: u64, start_up: Duration) -> Self {
        if from == STEPS {
            // Only the end is left: evaluations, a checkpoint, the last files. Most starts are to come through.
            return match random.below(4) {
                0 => Self::Sight(STEPS, Sight::Checkpoint),
                1 => Self::Sight(STEPS, Sight::Eval),
                _ => Self::Start(random.delay(3 * start_up)),
            };
        }
        let step = (from + random.below(15)).min(STEPS);
        match random.below(10) {
            0 | 1 => Self::Start(random.delay(start_up)),
            2 | 3 => Self::Sight(step, Sight::Checkpoint),
            4 => Self::Sight(step, Sight::SmallFile),
            5 => Self::Sight(step, Sight::Eval),
            _ => Self::Step(step, random.delay(Duration::from_millis(5))),
        }
    }

    /// Waits for it; false where the process ends before.
    fn wait(self, run: &Path, started: &mut Started) -> bool {
        let (step, delay) = match self {
            Self::Start(delay) => (0, delay),
            Self::Step(step, delay) => (step, delay),
            Self::Sight(step, _) => (step, Duration::ZERO),
        };
        if step > 0 && !started.waits_until(|| rows(run, "steps.csv") as u64 >= step) {
            return false;
        }
        std::thread::sleep(delay);
        match self {
            Self::Sight(_, sight) => {
                let evals = rows(run, "evals.csv");
                started.waits_until(|| sight.is_there(run, evals))
            }
            _ => true,
        }
    }
}

impl Sight {
    fn is_there(self, run: &Path, evals: usize) -> bool {
        match self {
            Self::Checkpoint => run.join(format!("{CHECKPOINT_FILE}.tmp")).exists(),
            Self::SmallFile => has_partial(run),
            Self::Eval => rows(run, "evals.csv") > evals,
        }
    }
}

fn has_partial(run: &Path) -> bool {
    let entries = std::fs::read_dir(run).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(".reslab-"))
}

/// What a kill interrupted, as far as the files tell.
fn stage(run: &Path, has_begun: bool) -> &'static str {
    let whole = |name: &str| std::fs::read(run.join(name)).unwrap_or_default().last().is_none_or(|b| *b == b'\n');
    let (steps, evals) = (rows(run, "steps.csv"), rows(run, "evals.csv"));
    let has = |name: &str| run.join(name).exists();
    if has(&format!("{CHECKPOINT_FILE}.tmp")) || (has(CHECKPOINT_PREV_FILE) && !has(CHECKPOINT_FILE)) {
        "a checkpoint's writing"
    } else if has_partial(run) || !whole("steps.csv") || !whole("evals.csv") || !whole("layers.csv") {
        "a record's writing"
    } else if !has_begun {
        "start-up"
    } else if evals < 2 * (steps / EVAL_EVERY) || steps as u64 == STEPS {
        "an evaluation"
    } else {
        "training"
    }
}

fn arguments(arm: &str) -> [&str; 10] {
    ["run", "faults.toml", "--arm", arm, "--seed", "0", "--threads", "1", "--out", "here"]
}

/// An undisturbed run: its records, the name of its folder, and the time to its first step.
struct Undisturbed {
    files: Files,
    folder: String,
    start_up: Duration,
}

fn undisturbed(arm: &str) -> Undisturbed {
    let place = place();
    let mut started = start(&place, "run", &arguments(arm));
    let first = || runs(&place.at("here/faults")).first().is_some_and(|run| rows(run, "steps.csv") > 0);
    wait_until("the first step", first);
    let start_up = started.since.elapsed();
    started.expect(0);
    let run = place.run_dir("here/faults", arm);
    assert_eq!(starts(&run), [0]);
    let folder = run.file_name().expect("it has one").to_str().expect("UTF-8").to_owned();
    Undisturbed { files: read(&run), folder, start_up }
}

#[test]
fn a_run_killed_at_any_moment_ends_in_the_records_of_an_undisturbed_one() {
    let mut random = Random::new(1);
    let references = ARMS.map(undisturbed);
    let (mut killed, mut resumed, mut finished) = (0, 0, 0);
    let mut stages: BTreeMap<&str, u64> = BTreeMap::new();
    let goal = kills(100);
    while killed < goal {
        let which = finished % ARMS.len();
        let expected = &references[which];
        let place = place();
        let run = place.at("here/faults/runs").join(&expected.folder);
        for attempt in 0.. {
            assert!(attempt < 100, "it gets nowhere: {:?}", starts(&run));
            let saved = Checkpoint::read(&run).checkpoint.map_or(0, |checkpoint| checkpoint.step);
            let before = starts(&run).len();
            let mut started = start(&place, "run", &arguments(ARMS[which]));
            let moment = Moment::pick(&mut random, saved, expected.start_up);
            let is_killed = killed < goal && moment.wait(&run, &mut started) && started.kill();
            // No step that a checkpoint holds is computed again.
            for from in &starts(&run)[before..] {
                assert_eq!(*from, saved, "{moment:?}, starts: {:?}", starts(&run));
                resumed += u64::from(*from > 0);
            }
            if !is_killed {
                started.expect(0);
                break;
            }
            killed += 1;
            *stages.entry(stage(&run, starts(&run).len() > before)).or_default() += 1;
        }
        finished += 1;
        let when = format!("run {finished}, arm {}, {killed} kills so far; starts: {:?}", ARMS[which], starts(&run));
        assert_same(&read(&run), &expected.files, &when);
    }
    // Many kinds of moments were met, or this shows less than it says. How many of each is up to the machine's load.
    assert!(killed < 100 || stages.len() >= 4, "{stages:?}");
    println!("{killed} kills over {finished} runs, {resumed} starts from a checkpoint; they interrupted {stages:?}");
    assert!(resumed > killed / 10, "few starts went on from a checkpoint: {resumed} of {killed}");
}
