//! Who is at work in a folder on a network file system, where a lock may not reach from one host to another.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::file::write_atomic;
use crate::{RecordError, Result};

const FILE: &str = "heartbeat.json";
/// How often a heart beats.
const BEAT_EVERY: Duration = Duration::from_secs(20);
/// A heart that has not beaten for this long is dead. Hosts whose clocks differ by more can't share a folder.
const ALIVE_FOR: Duration = Duration::from_secs(180);

/// What a process at work writes down of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heartbeat {
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// Seconds since 1970, UTC.
    pub(crate) time: u64,
}

impl Heartbeat {
    fn now() -> Self {
        Self { host: host(), pid: std::process::id(), time: unix_seconds() }
    }

    /// The heartbeat in a folder, if another host's process is alive by it. One that can't be read is none: it is written by
    /// rename, so it is no process's.
    pub(crate) fn of_another_host(dir: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(dir.join(FILE)).ok()?;
        let beat: Self = serde_json::from_str(&text).ok()?;
        let age = unix_seconds().abs_diff(beat.time);
        (beat.host != host() && age < ALIVE_FOR.as_secs()).then_some(beat)
    }
}

/// Writes the heartbeat of this process into a folder until it is dropped.
#[derive(Debug)]
pub(crate) struct Heart {
    path: PathBuf,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        beat(&path)?;
        let (stop, stopped) = channel();
        let to = path.clone();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(BEAT_EVERY) == Err(RecvTimeoutError::Timeout) {
                // A beat that is missed is made up for by the next; the run itself meets a lasting error when it writes.
                let _ = beat(&to);
            }
        });
        Ok(Self { path, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn beat(path: &Path) -> Result<()> {
    let text = serde_json::to_string(&Heartbeat::now()).map_err(|e| RecordError::parse(path, e))?;
    write_atomic(path, text.as_bytes())
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(dir: &Path, host: &str, time: u64) {
        let beat = Heartbeat { host: host.into(), pid: 7, time };
        std::fs::write(dir.join(FILE), serde_json::to_string(&beat).unwrap()).unwrap();
    }

    #[test]
    fn only_a_fresh_beat_of_another_host_counts() {
        let dir = tempfile::tempdir().unwrap();
        let alive = || Heartbeat::of_another_host(dir.path()).is_some();
        assert!(!alive(), "no heartbeat");
        put(dir.path(), "elsewhere", unix_seconds() - 20);
        assert!(alive());
        put(dir.path(), "elsewhere", unix_seconds() + 60);
        assert!(alive(), "clocks differ a little");
        put(dir.path(), "elsewhere", unix_seconds() - 200);
        assert!(!alive(), "it has stopped");
        put(dir.path(), &host(), unix_seconds());
        assert!(!alive(), "on this host the kernel's lock decides");
        std::fs::write(dir.path().join(FILE), "{\"host\":").unwrap();
        assert!(!alive());
    }

    #[test]
    fn a_heart_names_host_process_and_time_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let heart = Heart::start(dir.path()).unwrap();
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        let beat: Heartbeat = serde_json::from_str(&text).unwrap();
        assert_eq!((beat.host.as_str(), beat.pid), (host().as_str(), std::process::id()));
        assert!(unix_seconds().abs_diff(beat.time) < 60);
        drop(heart);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
