//! Calls the built program in a folder of its own, without a single environment variable: it must need none.

#![allow(dead_code)] // Each test program uses its own part.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder with `tiny.toml` in it.
pub struct Place {
    dir: tempfile::TempDir,
}

/// What a call of the program left.
pub struct Called {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Place {
    pub fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().expect("a temporary folder") };
        std::fs::write(place.at("tiny.toml"), include_str!("tiny.toml")).expect("tiny.toml can be written");
        place
    }

    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reslab"));
        command.args(arguments).current_dir(self.dir.path()).env_clear().stdin(Stdio::null());
        command
    }

    pub fn call(&self, arguments: &[&str]) -> Called {
        let output = self.command(arguments).output().expect("the program starts");
        Called {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// All files below the folder, with their contents.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        collect(self.dir.path(), &mut found);
        found.sort();
        found
    }

    /// The only run folder whose name starts with `start`.
    pub fn run_dir(&self, sweep: &str, start: &str) -> PathBuf {
        let runs = std::fs::read_dir(self.at(sweep).join("runs")).expect("the sweep has runs");
        let fits = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
        let found: Vec<PathBuf> = runs.map(|entry| entry.expect("readable").path()).filter(fits).collect();
        assert_eq!(found.len(), 1, "run folders starting with {start}: {found:?}");
        found.into_iter().next().expect("one")
    }
}

impl Called {
    /// Fails the test with all that was printed, unless the exit code is this one.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }
}

fn collect(dir: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path()) {
        if entry.is_dir() {
            collect(&entry, found);
        } else {
            let bytes = std::fs::read(&entry).expect("readable");
            found.push((entry, bytes));
        }
    }
}

/// A JSON file.
pub fn json(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}
