//! Damaged, lost and moved files of a run that was killed half-way, and clocks that jump.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use reslab_record::Checkpoint;

use crate::processes::start;
use crate::records::{Files, assert_same, place, read, rows, runs, starts};
use crate::support::Place;

const RUN: [&str; 10] = ["run", "faults.toml", "--arm", "plain", "--seed", "0", "--threads", "1", "--out", "here"];
const CHECKPOINT: &str = "checkpoint.safetensors";
const PREVIOUS: &str = "checkpoint.prev.safetensors";
/// Steps between two checkpoints in faults.toml.
const EVERY: u64 = 5;
/// How often a run may be faster than what is to kill it.
const TRIES: usize = 5;

/// A run that was killed after its 30th step, and the records that it must end in.
struct Killed {
    place: Place,
    expected: Files,
}

/// A copy of a killed run, to be damaged.
struct Copy {
    place: Place,
    run: PathBuf,
    /// The step of its checkpoint.
    step: u64,
}

/// A place with a run that was killed after its 30th step; none where it was done before.
fn half_way() -> Option<Place> {
    let place = place();
    let mut started = start(&place, "run", &RUN);
    let run = || runs(&place.at("here/faults")).into_iter().next();
    started.waits_until(|| run().is_some_and(|run| rows(&run, "steps.csv") >= 30));
    started.kill().then_some(place)
}

impl Killed {
    fn new() -> Self {
        let undisturbed = place();
        undisturbed.call(&RUN).expect(0);
        let expected = read(&undisturbed.run_dir("here/faults", "plain"));
        let place = (0..TRIES).find_map(|_| half_way()).expect("it was always done before it could be killed");
        Self { place, expected }
    }

    fn copy(&self) -> Copy {
        let place = place();
        copy(&self.place.at("here"), &place.at("here"));
        let run = place.run_dir("here/faults", "plain");
        let step = Checkpoint::read(&run).checkpoint.expect("it has one").step;
        assert!(step >= 25, "{step}");
        Copy { place, run, step }
    }
}

impl Copy {
    /// The same command: it must go on at step `from`, and end in the records of an undisturbed run, but for files that
    /// it set aside.
    #[track_caller]
    fn goes_on(&self, from: u64, expected: &Files, what: &str) {
        self.place.call(&RUN).expect(0);
        assert_eq!(starts(&self.run).last(), Some(&from), "{what}: {}", self.log());
        let mut files = read(&self.run);
        files.retain(|name, _| !name.to_str().is_some_and(|name| name.contains(".broken.")));
        assert_same(&files, expected, what);
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.run.join("log.txt")).unwrap_or_default()).into_owned()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("readable").flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("readable");
    change(&mut bytes);
    fs::write(path, bytes).expect("writable");
}

/// Keeps the first `lines` lines and `bytes` bytes of the next one.
fn cut(path: &Path, lines: usize, bytes: usize) {
    change(path, |text| {
        let ends: Vec<usize> = text.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1).collect();
        assert!(ends.len() > lines, "{} has only {} lines", path.display(), ends.len());
        text.truncate(ends[lines - 1] + bytes);
    });
}

/// What is done to a run's folder, and the step that it then goes on from, given that of its checkpoint.
type Damage = (&'static str, fn(&Path), fn(u64) -> u64);

#[test]
fn whatever_file_is_damaged_or_lost_the_run_ends_in_the_same_records() {
    let damages: [Damage; 19] = [
        ("steps.csv torn in its last line", |run| change(&run.join("steps.csv"), |b| b.truncate(b.len() - 9)), same),
        ("steps.csv torn in its first line", |run| cut(&run.join("steps.csv"), 1, 5), anew),
        ("steps.csv torn before the checkpoint", |run| cut(&run.join("steps.csv"), 12, 7), anew),
        ("steps.csv ends in zeros", |run| change(&run.join("steps.csv"), |b| b.extend([0; 500])), same),
        ("steps.csv has a line of zeros", |run| cut_to_zeros(&run.join("steps.csv")), anew),
        ("steps.csv lost", |run| fs::remove_file(run.join("steps.csv")).expect("there"), anew),
        ("layers.csv torn before the checkpoint", |run| cut(&run.join("layers.csv"), 20, 7), anew),
        ("layers.csv empty", |run| change(&run.join("layers.csv"), Vec::clear), anew),
        ("evals.csv torn before the checkpoint", |run| cut(&run.join("evals.csv"), 4, 7), anew),
        ("evals.csv lost", |run| fs::remove_file(run.join("evals.csv")).expect("there"), anew),
        ("the checkpoint torn", |run| change(&run.join(CHECKPOINT), |b| b.truncate(b.len() / 2)), before),
        ("the checkpoint empty", |run| change(&run.join(CHECKPOINT), Vec::clear), before),
        ("a bit of the checkpoint flipped", |run| change(&run.join(CHECKPOINT), |b| b[90_000] ^= 1), before),
        ("the checkpoint lost", |run| fs::remove_file(run.join(CHECKPOINT)).expect("there"), before),
        ("the checkpoint not readable", |run| put_folder(&run.join(CHECKPOINT)), before),
        ("the one before it torn", |run| change(&run.join(PREVIOUS), |b| b.truncate(9)), same),
        ("both checkpoints torn", |run| both(run, |b| b.truncate(b.len() - 1)), anew),
        ("small files torn", |run| small(run, b"{\"class\": \"bu"), same),
        ("small files lost", small_lost, same),
    ];
    let killed = Killed::new();
    for (what, damage, from) in damages {
        let copy = killed.copy();
        damage(&copy.run);
        copy.goes_on(from(copy.step), &killed.expected, what);
    }
    killed.copy().goes_on(killed.copy().step, &killed.expected, "no damage at all");
}

fn same(step: u64) -> u64 {
    step
}

fn before(step: u64) -> u64 {
    step - EVERY
}

fn anew(_: u64) -> u64 {
    0
}

fn cut_to_zeros(path: &Path) {
    change(path, |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle..middle + 200].fill(0);
    });
}

fn put_folder(path: &Path) {
    fs::remove_file(path).expect("there");
    fs::create_dir(path).expect("made");
}

fn both(run: &Path, damage: fn(&mut Vec<u8>)) {
    change(&run.join(CHECKPOINT), damage);
    change(&run.join(PREVIOUS), damage);
}

fn small(run: &Path, bytes: &[u8]) {
    for name in ["config.toml", "env.json", "timing.json", "failed.json", "log.txt"] {
        fs::write(run.join(name), bytes).expect("written");
    }
    fs::write(run.join(".reslab-Abc123.tmp"), bytes).expect("written");
    fs::write(run.join(format!("{CHECKPOINT}.tmp")), bytes).expect("written");
}

fn small_lost(run: &Path) {
    for name in ["config.toml", "env.json", "timing.json", "log.txt", "lock"] {
        fs::remove_file(run.join(name)).expect("there");
    }
}

/// A torn newest checkpoint must not take the place of the intact one before it: until the next one stands there, that
/// is all that the run has.
#[test]
fn a_torn_checkpoint_never_pushes_the_intact_one_out() {
    let killed = Killed::new();
    // Torn, and killed as soon as the next checkpoint is there.
    let torn = || {
        let copy = killed.copy();
        change(&copy.run.join(CHECKPOINT), |bytes| bytes.truncate(1000));
        let mut started = start(&copy.place, "run", &RUN);
        started.waits_until(|| Checkpoint::read_file(&copy.run.join(CHECKPOINT)).is_ok());
        started.kill().then_some(copy)
    };
    let copy = (0..TRIES).find_map(|_| torn()).expect("always too late");
    let newest = Checkpoint::read_file(&copy.run.join(CHECKPOINT)).expect("intact").step;
    let previous = Checkpoint::read_file(&copy.run.join(PREVIOUS)).expect("the one before it is intact").step;
    assert_eq!(previous, newest - EVERY);
    change(&copy.run.join(CHECKPOINT), |bytes| bytes.truncate(1000));
    copy.goes_on(previous, &killed.expected, "torn twice");
    assert!(copy.log().contains("passed over a checkpoint"), "{}", copy.log());
}

#[test]
fn a_results_folder_can_be_moved_between_two_calls() {
    let killed = Killed::new();
    let copy = killed.copy();
    fs::create_dir_all(copy.place.at("on/another")).expect("a folder");
    fs::rename(copy.place.at("here"), copy.place.at("on/another/disk")).expect("moved");
    let arguments = [&RUN[..9], &["on/another/disk"]].concat();
    copy.place.call(&arguments).expect(0);
    let run = copy.place.run_dir("on/another/disk/faults", "plain");
    assert_eq!(starts(&run).last(), Some(&copy.step));
    assert_same(&read(&run), &killed.expected, "moved");
    assert!(!copy.place.at("here").exists(), "something was written where it stood before");
}

#[test]
fn no_state_is_taken_from_the_times_of_files() {
    let killed = Killed::new();
    let year = Duration::from_secs(365 * 86400);
    let now = SystemTime::now();
    for (what, time) in [("far in the future", now + 30 * year), ("long ago", SystemTime::UNIX_EPOCH + year)] {
        let copy = killed.copy();
        touch(&copy.place.at("here"), time);
        copy.goes_on(copy.step, &killed.expected, what);
        touch(&copy.place.at("here"), time);
        let sweep = ["sweep", "faults.toml", "--threads", "1", "--out", "here", "--arm", "plain", "--seeds", "0"];
        let again = copy.place.call(&sweep).expect(0);
        assert!(again.err.contains("all 1 runs are done"), "{what}: {}", again.err);
    }
}

fn touch(dir: &Path, time: SystemTime) {
    for entry in fs::read_dir(dir).expect("readable").flatten() {
        if entry.path().is_dir() {
            touch(&entry.path(), time);
        } else {
            let file = fs::File::options().append(true).open(entry.path()).expect("writable");
            file.set_modified(time).expect("its time can be set");
        }
    }
    fs::File::open(dir).and_then(|dir| dir.set_modified(time)).expect("a folder's too");
}

/// A failure that cannot be read may be one that comes again; a result that cannot be read is nobody's to overwrite.
#[test]
fn a_sweep_names_the_torn_end_of_a_run_and_what_to_do() {
    let place = place();
    let sweep = ["sweep", "faults.toml", "--threads", "1", "--out", "here", "--arm", "plain", "--seeds", "0"];
    place.call(&sweep).expect(0);
    let run = place.run_dir("here/faults", "plain");
    let expected = read(&run);

    change(&run.join("done.json"), |bytes| bytes.truncate(20));
    let torn = fs::read(run.join("done.json")).expect("there");
    let called = place.call(&sweep).expect(1);
    assert!(called.err.contains("done.json") && called.err.contains("move the run's folder away"), "{}", called.err);
    assert_eq!(fs::read(run.join("done.json")).expect("there"), torn, "it was written over");
    fs::rename(&run, place.at("aside")).expect("moved away");
    place.call(&sweep).expect(0);
    assert_same(&read(&run), &expected, "computed anew");

    fs::remove_file(run.join("done.json")).expect("there");
    fs::write(run.join("failed.json"), "{\"class\": \"kil").expect("written");
    let called = place.call(&sweep).expect(1);
    assert!(called.err.contains("failed.json") && called.err.contains("--retry-failed"), "{}", called.err);
    place.call(&[&sweep[..], &["--retry-failed"]].concat()).expect(0);
    assert_same(&read(&run), &expected, "tried again");
}

/// What a run has written can be taken from under it while it goes on: every write still succeeds.
#[test]
fn rows_that_are_lost_while_the_run_goes_on_are_noticed_and_computed_again() {
    let undisturbed = place();
    let sweep = ["sweep", "faults.toml", "--threads", "1", "--out", "here", "--arm", "plain", "--seeds", "0"];
    undisturbed.call(&sweep).expect(0);
    let expected = read(&undisturbed.run_dir("here/faults", "plain"));
    for file in ["evals.csv", "probes.csv", "layers.csv", "steps.csv"] {
        let disturbed = || {
            let place = place();
            let mut started = start(&place, "sweep", &sweep);
            let run = || runs(&place.at("here/faults")).into_iter().next();
            started.waits_until(|| run().is_some_and(|run| rows(&run, "evals.csv") >= 1));
            // It may be done by now.
            let path = run().expect("it has a folder").join(file);
            fs::remove_file(&path).expect("there");
            started.expect(0);
            let words = started.words();
            (words.contains("retry 1 of 2") && words.contains(file)).then_some(place)
        };
        let place = (0..TRIES).find_map(|_| disturbed()).expect("it was always done before its rows were taken");
        let run = place.run_dir("here/faults", "plain");
        assert_same(&read(&run), &expected, file);
        // From the checkpoint where that covers no lost row, else anew.
        assert_eq!(starts(&run).len(), 2, "{file}");
    }
}
