//! pip, run in sight: a bar on a terminal, its lines and a sign of life without one.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::python::Python;
use crate::ui::{bar, draws, say, size};

/// The newest Python that torch 2.11.0 has wheels for; to a newer one the wheel of 3.12 is given, since only its C++
/// libraries are used.
const NEWEST_WITH_WHEELS: (u32, u32) = (3, 14);

/// Without a terminal, a sign of life is printed this often.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);

/// How many of pip's last lines an error shows.
const LAST_LINES: usize = 12;

/// Installs `packages` without their dependencies below `target`; pip's own temporary files go below `scratch`, on the
/// same disk (a small /tmp is common). `expected`: bytes written in all, for the bar.
pub(crate) fn install(python: &Python, packages: &[&str], target: &Path, scratch: &Path, expected: u64) -> Result<()> {
    fs::create_dir_all(scratch).with_context(|| format!("{}", scratch.display()))?;
    let mut command = Command::new(&python.exe);
    command.args(arguments(python.version, packages, target));
    // A user's own settings of these would contradict --target.
    command.envs([("PIP_USER", "0"), ("PIP_REQUIRE_VIRTUALENV", "0"), ("PIP_ROOT_USER_ACTION", "ignore")]);
    command.env("PYTHONUNBUFFERED", "1");
    command.env("TMPDIR", scratch).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("{} could not be started", python.exe.display()))?;
    let watched = scratch.parent().unwrap_or(scratch);
    watch(child, watched, expected)
}

fn arguments(version: (u32, u32), packages: &[&str], target: &Path) -> Vec<OsString> {
    let fixed = "-m pip install --disable-pip-version-check --no-input --no-compile --progress-bar off --no-deps \
                 --only-binary=:all: --target";
    let mut arguments: Vec<OsString> = fixed.split_whitespace().map(OsString::from).collect();
    arguments.push(target.into());
    if version > NEWEST_WITH_WHEELS {
        let tags = "--python-version 3.12 --implementation cp --abi cp312 --abi none --platform manylinux_2_28_x86_64 \
                    --platform manylinux_2_27_x86_64 --platform manylinux_2_25_x86_64 --platform manylinux_2_18_x86_64 \
                    --platform manylinux2014_x86_64 --platform manylinux2010_x86_64 --platform manylinux1_x86_64";
        arguments.extend(tags.split_whitespace().map(OsString::from));
    }
    arguments.extend(packages.iter().map(OsString::from));
    arguments
}

/// Shows pip's progress until it ends.
fn watch(mut child: Child, folder: &Path, expected: u64) -> Result<()> {
    let (sender, lines) = mpsc::channel();
    let stdout = child.stdout.take().expect("stdout is piped");
    let stderr = child.stderr.take().expect("stderr is piped");
    let readers = [read_lines(stdout, sender.clone()), read_lines(stderr, sender)];
    let last = show(&lines, folder, expected);
    let status = child.wait().context("waiting for pip")?;
    for reader in readers {
        reader.join().expect("a reader of pip's lines does not panic");
    }
    if status.success() {
        return Ok(());
    }
    let last: String = last.iter().map(|line| format!("\n  {line}")).collect();
    bail!(
        "pip did not install libtorch ({status}). Its last lines:{last}\nWithout network: copy .libtorch/ from another \
         checkout, or set LIBTORCH to a libtorch 2.11.0 that is here. `cargo setup` can be run again at any time"
    )
}

fn read_lines(stream: impl Read + Send + 'static, sender: Sender<String>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    })
}

/// Until both streams are closed; gives back the last lines.
fn show(lines: &Receiver<String>, folder: &Path, expected: u64) -> VecDeque<String> {
    let (bar, mut last) = (bar(expected), VecDeque::new());
    let mut sign = Instant::now();
    loop {
        match lines.recv_timeout(Duration::from_millis(300)) {
            Ok(line) => {
                let line = line.trim().to_string();
                if draws() {
                    bar.set_message(line.clone());
                } else if line.starts_with("Downloading") || line.starts_with("Installing") {
                    say("pip", &line);
                }
                last.push_back(line);
                if last.len() > LAST_LINES {
                    last.pop_front();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if draws() {
            bar.set_position(folder_bytes(folder));
        } else if sign.elapsed() > SIGN_OF_LIFE {
            let written = size(folder_bytes(folder));
            say("pip", &format!("{written} of about {} written", size(expected)));
            sign = Instant::now();
        }
    }
    bar.finish_and_clear();
    last
}

/// Size of all files below a folder; files that vanish meanwhile count nothing.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => folder_bytes(&entry.path()),
        Ok(_) => entry.metadata().map(|metadata| metadata.len()).unwrap_or(0),
        Err(_) => 0,
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(version: (u32, u32)) -> String {
        let arguments = arguments(version, &["torch==2.11.0"], Path::new("there"));
        arguments.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_python_without_wheels_of_its_own_is_given_those_of_another() {
        let plain = text((3, 11));
        assert!(plain.ends_with("--no-deps --only-binary=:all: --target there torch==2.11.0"), "{plain}");
        assert!(!plain.contains("--abi") && !text((3, 14)).contains("--abi"));
        assert!(text((3, 15)).contains("--abi cp312"));
    }

    #[test]
    fn a_failing_pip_is_quoted() {
        let temp = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo Collecting; echo 'ERROR: no such host' >&2; exit 3"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let error = watch(child, temp.path(), 1).unwrap_err().to_string();
        assert!(error.contains("\n  ERROR: no such host") && error.contains("LIBTORCH"), "{error}");
    }
}
