//! Where the runs of one table come from: code, libtorch, devices. What differs is said, with the arms that it is true of.

use reslab_record::Env;
use std::collections::BTreeSet;

use crate::heading::{self, device, short};
use crate::sweep::{Run, Sweep};

/// One thing that runs may differ in.
struct Origin {
    /// Runs come from several of these.
    several: &'static str,
    /// A run was continued with another of these.
    another: &'static str,
    say: fn(&Env) -> String,
}

const ORIGINS: [Origin; 3] = [
    Origin { several: "versions of the code", another: "by other code than began it", say: code },
    Origin { several: "versions of libtorch", another: "with another libtorch than began it", say: libtorch },
    Origin { several: "devices", another: "on another device than began it", say: device },
];

/// A line for each thing in which the runs differ.
pub(crate) fn notes(sweep: &Sweep) -> Vec<String> {
    let mixed = ORIGINS.iter().filter_map(|origin| mixed(sweep, origin));
    mixed.chain(ORIGINS.iter().filter_map(|origin| continued(sweep, origin))).collect()
}

/// A line for each thing in which the runs of two sweeps, A and B, differ.
pub(crate) fn between(a: &Sweep, b: &Sweep) -> Vec<String> {
    let line = |origin: &Origin| {
        let [one, other] = [a, b].map(|sweep| {
            let said: BTreeSet<String> = sweep.runs.iter().filter_map(|run| run.env.as_ref()).map(origin.say).collect();
            said.into_iter().collect::<Vec<_>>().join(", ")
        });
        (one != other).then(|| format!("Warning: other {}: A {one} | B {other}.", origin.several))
    };
    ORIGINS.iter().filter_map(line).collect()
}

/// Code and device of all these runs, each different one once.
pub(crate) fn of(runs: &[&Run]) -> String {
    let mut found: Vec<String> = Vec::new();
    for env in runs.iter().filter_map(|run| run.env.as_ref()) {
        let text = format!("{}, on {}", heading::code(env), device(env));
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found.join("; ")
}

/// The version of the code that a run's records name: `8412a09`, `8412a09 with changes (diff 1a2b3c4d)`.
fn code(env: &Env) -> String {
    let commit = match &env.git_commit {
        Some(commit) => short(commit, 7).to_owned(),
        None => format!("reslab {}, commit unknown", env.reslab),
    };
    commit + &changes(env)
}

/// What was not committed, in words; empty where nothing was.
pub(crate) fn changes(env: &Env) -> String {
    match (env.git_dirty, &env.git_diff_sha256) {
        (Some(true), Some(diff)) => format!(" with changes (diff {})", short(diff, 8)),
        (Some(true), None) => " with changes".to_owned(),
        _ => String::new(),
    }
}

fn libtorch(env: &Env) -> String {
    env.libtorch.clone()
}

fn mixed(sweep: &Sweep, origin: &Origin) -> Option<String> {
    let mut found: Vec<(String, Vec<&Run>)> = Vec::new();
    for run in &sweep.runs {
        let Some(what) = run.env.as_ref().map(origin.say) else { continue };
        match found.iter_mut().find(|(known, _)| *known == what) {
            Some((_, runs)) => runs.push(run),
            None => found.push((what, vec![run])),
        }
    }
    if found.len() < 2 {
        return None;
    }
    let told: Vec<String> = found.iter().map(|(what, runs)| format!("{what} ({})", arms(sweep, runs))).collect();
    Some(format!("Warning: the runs come from {} {}: {}.", found.len(), origin.several, told.join("; ")))
}

/// `plain, gated s0 s1`: an arm all of whose recorded runs are among `runs` goes by its name alone.
fn arms(sweep: &Sweep, runs: &[&Run]) -> String {
    let mut arms: Vec<&str> = Vec::new();
    runs.iter().for_each(|run| {
        if !arms.contains(&run.planned.arm.as_str()) {
            arms.push(&run.planned.arm);
        }
    });
    let one = |arm: &&str| {
        let all = sweep.runs.iter().filter(|run| run.planned.arm == **arm && run.env.is_some()).count();
        let of_arm: Vec<&&Run> = runs.iter().filter(|run| run.planned.arm == **arm).collect();
        let seeds: String = of_arm.iter().map(|run| format!(" s{}", run.planned.seed)).collect();
        if of_arm.len() == all { (*arm).to_owned() } else { format!("{arm}{seeds}") }
    };
    arms.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn continued(sweep: &Sweep, origin: &Origin) -> Option<String> {
    let one = |run: &Run| {
        let mut found: Vec<String> = run.earlier_envs.iter().chain(&run.env).map(origin.say).collect();
        found.dedup();
        (found.len() > 1).then(|| format!("{} ({})", run.label(), found.join(", then ")))
    };
    let told: Vec<String> = sweep.runs.iter().filter_map(one).collect();
    (!told.is_empty()).then(|| format!("Warning: continued {}: {}.", origin.another, told.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_the_code_is_commit_and_changes() {
        let env = |dirty, diff: Option<&str>| Env {
            git_commit: Some("0123456789abcdef".into()),
            git_dirty: Some(dirty),
            git_diff_sha256: diff.map(str::to_owned),
            ..Env::default()
        };
        assert_eq!(code(&env(false, None)), "0123456");
        assert_eq!(code(&env(true, Some("aabbccddeeff"))), "0123456 with changes (diff aabbccdd)");
        assert_eq!(code(&env(true, None)), "0123456 with changes");
        assert_eq!(code(&Env { reslab: "0.1.0".into(), ..Env::default() }), "reslab 0.1.0, commit unknown");
    }
}
