//! Versions that their authors have withdrawn ("yanked"). A lock file keeps them, and cargo builds them without a word; but
//! for a package without a lock file it refuses them by name.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::Outcome::{Passed, Skipped};
use super::{Outcome, Package, cargo, is_registry, stderr};

/// Lets cargo resolve a package that needs exactly the locked versions, and nothing else.
pub(super) fn check(packages: &[Package]) -> Result<Outcome> {
    let mut left: Vec<&Package> = packages.iter().filter(|package| is_registry(package)).collect();
    let (count, mut yanked) = (left.len(), Vec::new());
    loop {
        let Some(refusal) = refusal(&left)? else { break };
        // Cargo names one at a time; without it the next one shows.
        let Some(index) = left.iter().position(|package| names(&refusal, package)) else {
            return Ok(Skipped(format!("cargo could not ask its registry: {refusal}")));
        };
        let package = left.swap_remove(index);
        yanked.push(format!("{} {}", package.name, package.version));
    }
    if yanked.is_empty() {
        return Ok(Passed(format!("none of {count} versions was withdrawn")));
    }
    bail!("withdrawn by their authors: {}; `cargo update` takes others", yanked.join(", "))
}

/// Cargo's refusal of these versions, if it refuses them.
fn refusal(packages: &[&Package]) -> Result<Option<String>> {
    let folder = std::env::temp_dir().join(format!("reslab-yanked-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    let outcome = resolve(&folder, packages);
    fs::remove_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    outcome
}

fn resolve(folder: &Path, packages: &[&Package]) -> Result<Option<String>> {
    fs::write(folder.join("Cargo.toml"), manifest(packages))?;
    fs::write(folder.join("lib.rs"), "")?;
    let output = cargo().arg("generate-lockfile").current_dir(folder).output()?;
    Ok((!output.status.success()).then(|| stderr(&output)))
}

/// A package that needs all of them, several versions of one crate under names of their own.
fn manifest(packages: &[&Package]) -> String {
    let mut text = "[package]\nname = \"locked\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
                    [lib]\npath = \"lib.rs\"\n[workspace]\n[dependencies]\n"
        .to_owned();
    for (nth, Package { name, version, .. }) in packages.iter().enumerate() {
        let entry = format!("d{nth} = {{ package = \"{name}\", version = \"={version}\", default-features = false }}");
        writeln!(text, "{entry}").expect("a String takes all");
    }
    text
}

/// Whether cargo refuses this very version because it is yanked.
fn names(refusal: &str, package: &Package) -> bool {
    let requirement = format!("`{} = \"={}\"`", package.name, package.version);
    refusal.contains(&requirement) && refusal.contains(&format!("version {} is yanked", package.version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str) -> Package {
        Package { name: name.into(), version: version.into(), licence: None, source: Some("registry+x".into()) }
    }

    /// As cargo 1.95 says it.
    const REFUSAL: &str = "error: failed to select a version for the requirement `once_cell = \"=1.20.0\"`\n  \
                           version 1.20.0 is yanked\nlocation searched: an index\nrequired by package `locked v0.0.0`";

    #[test]
    fn a_yanked_version_is_known_by_cargos_words() {
        assert!(names(REFUSAL, &package("once_cell", "1.20.0")));
        assert!(!names(REFUSAL, &package("once_cell", "1.20.1")) && !names(REFUSAL, &package("cell", "1.20.0")));
        let network = "error: failed to get `once_cell` as a dependency of package `locked v0.0.0`";
        assert!(!names(network, &package("once_cell", "1.20.0")));
    }

    #[test]
    fn two_versions_of_one_crate_stand_beside_each_other() {
        let (one, two) = (package("rand", "0.8.5"), package("rand", "0.9.1"));
        let table: toml::Table = manifest(&[&one, &two]).parse().unwrap();
        assert_eq!(table["dependencies"]["d1"]["version"].as_str(), Some("=0.9.1"));
        assert_eq!(table["dependencies"]["d0"]["package"].as_str(), Some("rand"));
    }

    /// Asks the registry, through cargo: once_cell 1.20.0 was withdrawn by its authors in 2024.
    #[test]
    fn the_registry_is_asked_and_a_withdrawn_version_is_found_among_good_ones() {
        let (good, bad) = (package("cfg-if", "1.0.0"), package("once_cell", "1.20.0"));
        match check(&[good.clone(), bad]) {
            Err(error) => assert!(error.to_string().contains("authors: once_cell 1.20.0;"), "{error}"),
            Ok(Skipped(why)) => {
                println!("skipped: no registry: {why}");
                return;
            }
            Ok(Passed(text)) => panic!("{text}"),
        }
        assert_eq!(check(&[good]).unwrap(), Passed("none of 1 versions was withdrawn".into()), "control");
    }
}
