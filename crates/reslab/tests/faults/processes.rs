//! Processes of the program: started with their words in files, killed, and looked for.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::support::Place;

/// Longer than anything here takes on a machine that does other things too.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A process of the program that was started and not waited for.
pub struct Started {
    pub child: Child,
    pub since: Instant,
    out: PathBuf,
    err: PathBuf,
}

/// Starts the program in `place`; what it says goes to files that start with `name`.
pub fn start(place: &Place, name: &str, arguments: &[&str]) -> Started {
    start_command(place, name, place.command(arguments))
}

/// As [`start`], with a command that was prepared.
pub fn start_command(place: &Place, name: &str, mut command: Command) -> Started {
    let (out, err) = (place.at(format!("{name}.out")), place.at(format!("{name}.err")));
    let file = |path: &Path| File::create(path).expect("a file for its words");
    let child = command.stdout(file(&out)).stderr(file(&err)).spawn().expect("it starts");
    Started { child, since: Instant::now(), out, err }
}

impl Started {
    pub fn signal(&self, signal: i32) {
        send(self.child.id(), signal);
    }

    /// Its end, which must come in time.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        wait_until("the program ends", || self.child.try_wait().expect("it is ours").is_some());
        self.child.wait().expect("it is ours")
    }

    #[track_caller]
    pub fn expect(&mut self, code: i32) -> &mut Self {
        let status = self.end();
        assert_eq!(status.code(), Some(code), "{status}\n{}", self.words());
        self
    }

    /// Waits for something that it does; false where it ends before.
    #[track_caller]
    pub fn waits_until(&mut self, mut is_so: impl FnMut() -> bool) -> bool {
        let began = Instant::now();
        while !is_so() {
            if self.child.try_wait().expect("it is ours").is_some() {
                return false;
            }
            assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain\n{}", self.words());
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// Kills it; false where it ended by itself before.
    #[track_caller]
    pub fn kill(&mut self) -> bool {
        self.signal(libc::SIGKILL);
        self.end().code().is_none()
    }

    /// All that it said, the table first.
    pub fn words(&self) -> String {
        let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
        read(&self.out) + &read(&self.err)
    }
}

impl Drop for Started {
    /// A test that fails leaves nothing running.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn send(pid: u32, signal: i32) {
    // SAFETY: a plain system call; the process is ours, or is gone.
    unsafe { libc::kill(pid as i32, signal) };
}

/// Waits for something that must come.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The processes that a sweep in this place started: they stand in its folder, and compute or time a run.
pub fn workers(place: &Place) -> Vec<u32> {
    let here = place.at("").canonicalize().expect("the place is there");
    let is_worker = |pid: &u32| {
        let entry = PathBuf::from(format!("/proc/{pid}"));
        let arguments = std::fs::read(entry.join("cmdline")).unwrap_or_default();
        let command = arguments.split(|b| *b == 0).nth(1).unwrap_or_default();
        (command == b"exec-run" || command == b"exec-probe")
            && std::fs::read_link(entry.join("cwd")).is_ok_and(|cwd| cwd == here)
    };
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_worker).collect()
}

/// Waits until no run goes on in this place, and says how long that took.
#[track_caller]
pub fn wait_for_workers(place: &Place) -> Duration {
    let began = Instant::now();
    wait_until("no run goes on without its sweep", || workers(place).is_empty());
    began.elapsed()
}
