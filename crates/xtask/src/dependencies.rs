//! `cargo xtask check-dependencies`: what the crates of Cargo.lock are allowed to be.
//!
//! Licences, sources and banned crates are told by `cargo metadata`; withdrawn versions by the registry, asked through
//! cargo itself; known vulnerabilities by `cargo audit`, where it is installed and its database can be reached.

mod licence;
mod yanked;

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::ui::say;

/// Crates that must not be here, and why.
const BANNED: [(&str, &str); 4] = [
    ("serde-pickle", "a pickle is a program; checkpoints are safetensors"),
    ("repugnant-pickle", "a pickle is a program; checkpoints are safetensors"),
    ("pyo3", "reslab runs without Python"),
    ("cpython", "reslab runs without Python"),
];

/// What a check came to.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// All is well, in words.
    Passed(String),
    /// It could not be made, and why.
    Skipped(String),
}

use Outcome::{Passed, Skipped};

/// A crate of Cargo.lock, as `cargo metadata` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
    licence: Option<String>,
    /// None: a crate of this workspace.
    source: Option<String>,
}

/// Runs all checks. One that can't be made is said, and fails nothing: a registry or a database may be out of reach.
pub(crate) fn check() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = packages(&root)?;
    let problems = problems(&packages);
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    say("licences", &format!("{} crates: all from one registry, none banned, licences as listed", packages.len()));
    tell("yanked", &yanked::check(&packages)?);
    tell("audit", &audit(&root)?);
    Ok(())
}

fn tell(label: &str, outcome: &Outcome) {
    match outcome {
        Passed(text) => say(label, text),
        Skipped(why) => say(label, &format!("skipped: {why}")),
    }
}

fn packages(root: &Path) -> Result<Vec<Package>> {
    let mut cargo = cargo();
    let output = cargo.args(["metadata", "--locked", "--format-version", "1"]).current_dir(root).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", stderr(&output));
    let metadata: Value = serde_json::from_slice(&output.stdout).context("what cargo metadata says")?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let package = |value: &Value| {
        Some(Package {
            name: text(&value["name"])?,
            version: text(&value["version"])?,
            licence: text(&value["license"]),
            source: text(&value["source"]),
        })
    };
    let list = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    list.iter().map(package).collect::<Option<Vec<_>>>().context("every package has a name and a version")
}

/// What is wrong with the crates, a line each.
fn problems(packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    let registry = packages.iter().find_map(|package| package.source.as_ref());
    for package in packages {
        let name = format!("{} {}", package.name, package.version);
        if let Some((_, why)) = BANNED.iter().find(|(banned, _)| *banned == package.name) {
            found.push(format!("{name} is banned: {why}"));
        }
        if package.source.is_some() && (package.source.as_ref() != registry || !is_registry(package)) {
            found.push(format!("{name} comes from somewhere else than the others: {:?}", package.source));
        }
        match &package.licence {
            None => found.push(format!("{name} states no licence")),
            Some(licence) => match licence::is_allowed(licence) {
                Ok(true) => {}
                Ok(false) => found.push(format!(
                    "{name} is under `{licence}`, which is not on the list of crates/xtask/src/dependencies/licence.rs"
                )),
                Err(problem) => found.push(format!("{name}: its licence `{licence}` can't be read: {problem}")),
            },
        }
    }
    found
}

fn is_registry(package: &Package) -> bool {
    package.source.as_ref().is_some_and(|source| source.starts_with("registry+") || source.starts_with("sparse+"))
}

/// Known vulnerabilities. The database is a git repository elsewhere, which is not everywhere to be had.
fn audit(root: &Path) -> Result<Outcome> {
    if !cargo().args(["audit", "--version"]).output()?.status.success() {
        return Ok(Skipped(
            "no cargo-audit here (cargo install cargo-audit); known vulnerabilities were not looked for".into(),
        ));
    }
    let output = cargo().args(["audit", "--color", "never"]).current_dir(root).output()?;
    audited(output.status.success(), &stderr(&output), &String::from_utf8_lossy(&output.stdout))
}

fn audited(success: bool, errors: &str, report: &str) -> Result<Outcome> {
    if success {
        return Ok(Passed("no known vulnerability".into()));
    }
    match errors.lines().find(|line| line.contains("couldn't fetch advisory database")) {
        Some(line) => Ok(Skipped(format!("{line}; known vulnerabilities were not looked for"))),
        None => bail!("cargo audit:\n{report}{errors}"),
    }
}

/// The cargo that runs this program.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, licence: Option<&str>, source: Option<&str>) -> Package {
        let own = |text: &str| text.to_owned();
        Package { name: own(name), version: own("1.2.3"), licence: licence.map(own), source: source.map(own) }
    }

    #[test]
    fn the_crates_of_this_workspace_pass() {
        let packages = packages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
        assert!(packages.len() > 100 && packages.iter().any(|package| package.name == "torch-sys"));
        assert_eq!(problems(&packages), Vec::<String>::new());
    }

    #[test]
    fn another_source_a_banned_crate_and_a_licence_off_the_list_are_named() {
        let registry = Some("registry+here");
        let found = problems(&[
            package("ours", Some("MIT"), None),
            package("good", Some("MIT OR GPL-3.0-only"), registry),
            package("git", Some("MIT"), Some("git+there")),
            package("other", Some("MIT"), Some("registry+there")),
            package("serde-pickle", Some("MIT"), registry),
            package("viral", Some("GPL-3.0-only"), registry),
            package("bare", None, registry),
            package("odd", Some("MIT AND ("), registry),
        ]);
        let parts = [
            "git 1.2.3 comes",
            "other 1.2.3 comes",
            "banned: a pickle",
            "`GPL-3.0-only`",
            "bare 1.2.3 states",
            "be read",
        ];
        assert_eq!(found.len(), parts.len(), "{found:?}");
        for (found, part) in found.iter().zip(parts) {
            assert!(found.contains(part), "{found} lacks {part}");
        }
    }

    /// The words are those of cargo-audit 0.22.
    #[test]
    fn a_database_out_of_reach_is_a_skip_and_a_finding_is_none() {
        let unreachable = "error: couldn't fetch advisory database: git operation failed: failed to prepare fetch";
        assert!(matches!(audited(false, unreachable, ""), Ok(Skipped(why)) if why.contains("couldn't fetch")));
        assert!(audited(false, "error: 1 vulnerability found!", "ID: RUSTSEC-2020-0000").is_err());
        assert!(matches!(audited(true, "", ""), Ok(Passed(_))));
    }
}
