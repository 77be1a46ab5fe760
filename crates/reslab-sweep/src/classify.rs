//! Why a child died that could not say so itself.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use reslab_record::{Failed, FailureClass, says_out_of_memory, without_frames};

use crate::span::span;

/// Exit code of a child whose folder could not be written to, so that it left no failed.json.
pub const EXIT_IO: i32 = 74;

/// Bytes of the end of a log that are looked at.
const TAIL: u64 = 64 * 1024;

/// Lines of it that are quoted.
const LINES: usize = 3;

/// Longest quote, characters.
const LONGEST: usize = 2000;

/// Signals by which the processor or the program itself says that it is broken.
const FAULTS: [i32; 6] = [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];

/// The failure of a child that ended with `status` after it wrote `said` to its log.
pub(crate) fn classify(status: ExitStatus, said: &str, last_step: Option<u64>) -> Failed {
    let lower = said.to_lowercase();
    let asked_to_end =
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].map(|signal| Some(128 + signal)).contains(&status.code());
    let class = if says_out_of_memory(said) {
        // Before the signal: an uncaught C++ exception of the allocator ends in SIGABRT.
        FailureClass::OutOfMemory
    } else if status.signal().is_some_and(|signal| !FAULTS.contains(&signal)) || asked_to_end {
        FailureClass::Killed
    } else if status.code() == Some(EXIT_IO)
        || lower.contains("no space left on device")
        || lower.contains("input/output error")
    {
        FailureClass::Io
    } else {
        FailureClass::Bug
    };
    let lines: Vec<String> = said.lines().map(without_frames).filter(|line| !line.is_empty()).collect();
    let quote = lines[lines.len().saturating_sub(LINES)..].join("\n");
    let quote: String = quote.chars().take(LONGEST).collect();
    let how = ending(status);
    let message = if quote.is_empty() { how } else { format!("{how}\n{quote}") };
    Failed { class, message, last_step }
}

/// The failure of a child that was ended since nothing was heard of it for `limit`.
pub(crate) fn hung(limit: Duration, last_step: Option<u64>) -> Failed {
    let message = format!("nothing was heard of it for {}, so it was ended", span(limit.as_secs_f64()));
    Failed { class: FailureClass::Hang, message, last_step }
}

fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("ended by signal {signal}{}", signal_name(signal)),
        (None, Some(EXIT_IO)) => "its folder could not be written to".to_owned(),
        (None, Some(0)) => "ended without a result, though with exit code 0".to_owned(),
        (None, code) => format!("ended with exit code {}", code.unwrap_or(-1)),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGKILL => " (SIGKILL; the system does that when memory runs out, or somebody did)",
        libc::SIGTERM => " (SIGTERM)",
        libc::SIGINT => " (SIGINT)",
        libc::SIGHUP => " (SIGHUP)",
        libc::SIGSEGV => " (SIGSEGV, a fault in native code)",
        libc::SIGABRT => " (SIGABRT, native code gave up)",
        _ => "",
    }
}

/// What was written to a log from byte `start` on, at most its last part.
pub(crate) fn tail(log: &Path, start: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(start.max(length.saturating_sub(TAIL))))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // Without a log there is nothing to quote; the failure itself is told all the same.
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(raw: i32, said: &str) -> FailureClass {
        classify(ExitStatus::from_raw(raw), said, None).class
    }

    #[test]
    fn a_dead_child_gets_the_class_of_its_ending() {
        let exit = |code: i32| code << 8;
        assert_eq!(class(libc::SIGKILL, ""), FailureClass::Killed);
        assert_eq!(class(libc::SIGTERM, ""), FailureClass::Killed);
        assert_eq!(class(exit(143), ""), FailureClass::Killed);
        assert_eq!(class(exit(129), ""), FailureClass::Killed);
        assert_eq!(class(libc::SIGSEGV, ""), FailureClass::Bug);
        assert_eq!(class(libc::SIGABRT, "c10::Error: CUDA Out of Memory. Tried"), FailureClass::OutOfMemory);
        assert_eq!(class(exit(1), "write: No space left on device (os error 28)"), FailureClass::Io);
        assert_eq!(class(exit(EXIT_IO), ""), FailureClass::Io);
        assert_eq!(class(exit(101), "thread panicked"), FailureClass::Bug);
        assert_eq!(class(exit(0), ""), FailureClass::Bug);
    }

    #[test]
    fn the_message_says_how_it_ended_and_quotes_the_last_lines() {
        let failed = classify(ExitStatus::from_raw(libc::SIGKILL), "a\nb\n\nc\nd\n\n", Some(7));
        assert!(failed.message.starts_with("ended by signal 9 (SIGKILL"), "{}", failed.message);
        assert!(failed.message.ends_with("\nb\nc\nd"), "{}", failed.message);
        assert_eq!(failed.last_step, Some(7));
    }

    #[test]
    fn a_tail_holds_only_what_was_written_since_the_start_and_not_all_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log.txt");
        std::fs::write(&log, "out of memory\nnew").unwrap();
        assert_eq!(tail(&log, 14), "new");
        std::fs::write(&log, "x".repeat(200_000)).unwrap();
        assert_eq!(tail(&log, 0).len() as u64, TAIL);
        assert_eq!(tail(&dir.path().join("none"), 0), "");
    }
}
