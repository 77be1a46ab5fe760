//! How a command ends: exit codes, and errors that mean that nothing was started.

use reslab_record::RecordError;
use std::fmt::{self, Display};
use std::process::ExitCode;

/// How a command ended, as its exit code tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is done; a diverged run is a result, not a failure.
    Done,
    /// At least one run failed, or a check did not hold.
    Failed,
    /// Bad usage or config; nothing was started and nothing written.
    Usage,
    /// The run is another process's: told by a run's process to its sweep.
    Locked,
    /// The disk refused, and not even that could be recorded: told by a run's process to its sweep.
    Io,
    /// Stopped by this signal.
    Signal(i32),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Locked => u8::try_from(reslab_sweep::EXIT_LOCKED).unwrap_or(1),
            Exit::Io => u8::try_from(reslab_sweep::EXIT_IO).unwrap_or(1),
            Exit::Signal(signal) => 128 + u8::try_from(signal).unwrap_or(2),
        })
    }
}

/// One or more errors of usage or config, all found before anything was started.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) Vec<String>);

impl Usage {
    /// One error of usage.
    pub(crate) fn error(message: impl Display) -> anyhow::Error {
        anyhow::Error::new(Self(vec![message.to_string()]))
    }

    /// Several of them, to be shown together.
    pub(crate) fn all<E: Display>(messages: impl IntoIterator<Item = E>) -> anyhow::Error {
        anyhow::Error::new(Self(messages.into_iter().map(|m| m.to_string()).collect()))
    }
}

impl Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Usage {}

/// An error before anything was started: one of usage where the call itself can't be right (a plan that can't be read, a
/// file where a folder is to be), and of the place (a full disk) otherwise.
pub(crate) fn not_begun(error: RecordError) -> anyhow::Error {
    use std::io::ErrorKind::{AlreadyExists, InvalidFilename, NotADirectory, NotFound};
    match &error {
        RecordError::Parse { .. } => Usage::error(error),
        RecordError::Io { source, .. }
            if [AlreadyExists, InvalidFilename, NotADirectory, NotFound].contains(&source.kind()) =>
        {
            Usage::error(format!("{error}; `--out` names a folder, which may be new"))
        }
        _ => error.into(),
    }
}

/// The lines to print for `error`, and the exit code that goes with it.
pub(crate) fn explain(error: &anyhow::Error) -> (Vec<String>, Exit) {
    match error.downcast_ref::<Usage>() {
        Some(usage) => (usage.0.clone(), Exit::Usage),
        None => (vec![with_causes(error)], Exit::Failed),
    }
}

/// The error and its causes, each but once: some errors of libraries tell their cause themselves.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn an_error_of_usage_keeps_its_code_and_all_its_lines_and_others_keep_their_causes() {
        let (lines, exit) = explain(&Usage::all(["a.toml: x", "a.toml: y"]));
        assert_eq!((lines.len(), exit), (2, Exit::Usage));
        let io = std::fs::read("/nowhere/at/all").context("cannot read plan").unwrap_err();
        let (lines, exit) = explain(&io);
        assert_eq!(exit, Exit::Failed);
        assert!(lines[0].starts_with("cannot read plan: "), "{lines:?}");
        let told = reslab_record::RunDir::open(std::path::Path::new("/nowhere")).unwrap_err();
        let (lines, _) = explain(&anyhow::Error::new(told));
        assert_eq!(lines[0].matches("No such file").count(), 1, "{lines:?}");
    }
}
