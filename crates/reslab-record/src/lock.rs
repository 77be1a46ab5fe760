//! Who is at work in a folder: a lock that the kernel frees when its process ends, however it ends.
//!
//! On a network file system that lock may not be seen by other hosts: there its owner also leaves a heartbeat.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::filesystem::network_file_system;
use crate::heartbeat::{Heart, Heartbeat};
use crate::{RecordError, Result};

/// The lock's file in a folder. It stays there: what counts is whether it is locked.
const FILE: &str = "lock";
/// A look at a lock ([`is_locked`]) holds it shared for microseconds; an owner waits that out.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// The exclusive lock of a run's or a sweep's folder, held until this is dropped or the process ends.
#[derive(Debug)]
pub struct RunLock {
    _heart: Option<Heart>,
    _file: File,
}

/// Where a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Medium {
    Local,
    Network,
}

impl Medium {
    fn of(dir: &Path) -> Self {
        if network_file_system(dir).is_some() { Self::Network } else { Self::Local }
    }
}

impl RunLock {
    /// Takes the lock of folder `dir`.
    ///
    /// # Errors
    /// [`RecordError::Locked`] where another holds it; else names the file.
    pub fn acquire(dir: &Path) -> Result<Self> {
        Self::acquire_on(dir, Medium::of(dir))
    }

    /// As [`RunLock::acquire`], but waits for an owner that is soon done.
    ///
    /// # Errors
    /// [`RecordError::Locked`] where another still holds it after `patience`; else names the file.
    pub fn wait(dir: &Path, patience: Duration) -> Result<Self> {
        let end = Instant::now() + patience;
        loop {
            match Self::acquire(dir) {
                Err(RecordError::Locked { .. }) if Instant::now() < end => std::thread::sleep(PAUSE),
                other => return other,
            }
        }
    }

    fn acquire_on(dir: &Path, medium: Medium) -> Result<Self> {
        let path = dir.join(FILE);
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(RecordError::io(&path, "open"))?;
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) if medium == Medium::Local => return Ok(Self { _heart: None, _file: file }),
                Ok(()) if Heartbeat::of_another_host(dir).is_some() => break,
                Ok(()) => return Ok(Self { _heart: Some(Heart::start(dir)?), _file: file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(e)) => return Err(RecordError::io(&path, "lock")(e)),
            }
        }
        Err(RecordError::Locked { path })
    }
}

/// Whether a process holds the lock of folder `dir`.
///
/// # Errors
/// Names the file, where the lock cannot be looked at.
pub fn is_locked(dir: &Path) -> Result<bool> {
    is_locked_on(dir, Medium::of(dir))
}

fn is_locked_on(dir: &Path, medium: Medium) -> Result<bool> {
    if medium == Medium::Network && Heartbeat::of_another_host(dir).is_some() {
        return Ok(true);
    }
    let path = dir.join(FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(RecordError::io(&path, "open")(e)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(e)) => Err(RecordError::io(&path, "look at")(e)),
    }
}

/// What is known of a run from its folder alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunState {
    /// `done.json` is there.
    Done,
    /// A process holds its lock.
    Running,
    /// `failed.json` is there, and nobody is at work.
    Failed,
    /// It was started, and nobody is at work.
    Partial,
    /// No record of it.
    Absent,
}

/// The state of the run in folder `dir`.
///
/// # Errors
/// Names the lock, where it cannot be looked at.
pub fn run_state(dir: &Path) -> Result<RunState> {
    let has = |name: &str| PathBuf::from(dir).join(name).exists();
    Ok(if has("done.json") {
        RunState::Done
    } else if is_locked(dir)? {
        RunState::Running
    } else if has("failed.json") {
        RunState::Failed
    } else if has("config.toml") {
        RunState::Partial
    } else {
        RunState::Absent
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    const ENV: &str = "RESLAB_TEST_LOCK_DIR";

    /// Not a test of its own: the child process of the others, which holds a lock until it is killed.
    #[test]
    fn holds_a_lock_where_it_is_told_to() {
        let Ok(dir) = std::env::var(ENV) else { return };
        let _lock = RunLock::acquire(Path::new(&dir)).unwrap();
        println!("locked");
        std::thread::sleep(Duration::from_secs(60));
    }

    fn child(dir: &Path) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lock::tests::holds_a_lock_where_it_is_told_to", "--nocapture"])
            .env(ENV, dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(|l| l.ok()).any(|l| l.contains("locked")), "the child got the lock");
        child
    }

    #[test]
    fn one_process_at_a_time_and_the_kernel_frees_the_lock_of_a_killed_one() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_locked(dir.path()).unwrap());
        let mut child = child(dir.path());
        assert!(is_locked(dir.path()).unwrap());
        assert_eq!(run_state(dir.path()).unwrap(), RunState::Running);
        let error = RunLock::acquire(dir.path()).unwrap_err();
        assert!(matches!(&error, RecordError::Locked { .. }), "{error}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_locked(dir.path()).unwrap());
        RunLock::acquire(dir.path()).expect("the lock is free again");
    }

    #[test]
    fn on_a_network_another_hosts_heartbeat_holds_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let lock = RunLock::acquire_on(dir.path(), Medium::Network).unwrap();
        let own = std::fs::read_to_string(dir.path().join("heartbeat.json")).unwrap();
        drop(lock);
        let beat: Heartbeat = serde_json::from_str(&own).unwrap();
        let other = Heartbeat { host: format!("not-{}", beat.host), ..beat };
        std::fs::write(dir.path().join("heartbeat.json"), serde_json::to_string(&other).unwrap()).unwrap();
        assert!(is_locked_on(dir.path(), Medium::Network).unwrap());
        assert!(!is_locked_on(dir.path(), Medium::Local).unwrap(), "control: the lock itself is free");
        let error = RunLock::acquire_on(dir.path(), Medium::Network).unwrap_err();
        assert!(matches!(error, RecordError::Locked { .. }), "{error}");
        std::fs::write(
            dir.path().join("heartbeat.json"),
            serde_json::to_string(&Heartbeat { time: 1, ..other }).unwrap(),
        )
        .unwrap();
        RunLock::acquire_on(dir.path(), Medium::Network).expect("that host is gone");
    }

    #[test]
    fn an_owner_that_is_soon_done_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let lock = RunLock::acquire(dir.path()).unwrap();
        let error = RunLock::wait(dir.path(), Duration::ZERO).unwrap_err();
        assert!(matches!(error, RecordError::Locked { .. }), "{error}");
        std::thread::scope(|scope| {
            scope.spawn(|| RunLock::wait(dir.path(), Duration::from_secs(60)).expect("it is freed in time"));
            std::thread::sleep(Duration::from_millis(400));
            drop(lock);
        });
    }

    #[test]
    fn looking_at_a_lock_never_keeps_its_owner_out() {
        let dir = tempfile::tempdir().unwrap();
        drop(RunLock::acquire(dir.path()).unwrap());
        let end = Instant::now() + Duration::from_millis(300);
        let mut taken = 0;
        std::thread::scope(|scope| {
            let look = || {
                while Instant::now() < end {
                    is_locked(dir.path()).unwrap();
                    std::thread::yield_now();
                }
            };
            scope.spawn(look);
            while Instant::now() < end {
                drop(RunLock::acquire(dir.path()).unwrap());
                taken += 1;
            }
        });
        assert!(taken > 10, "{taken}");
    }

    #[test]
    fn a_state_is_what_is_on_disk_and_done_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let state = || run_state(dir.path()).unwrap();
        assert_eq!(run_state(&dir.path().join("nowhere")).unwrap(), RunState::Absent);
        assert_eq!(state(), RunState::Absent);
        std::fs::write(dir.path().join("config.toml"), "").unwrap();
        assert_eq!(state(), RunState::Partial);
        std::fs::write(dir.path().join("failed.json"), "").unwrap();
        assert_eq!(state(), RunState::Failed);
        let lock = RunLock::acquire(dir.path()).unwrap();
        assert_eq!(state(), RunState::Running, "a failed run is tried again");
        std::fs::write(dir.path().join("done.json"), "").unwrap();
        assert_eq!(state(), RunState::Done);
        drop(lock);
        assert_eq!(state(), RunState::Done);
    }
}
