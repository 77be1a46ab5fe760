//! Sweep files and `--set` that are odd, changed at random, or arbitrary: no panic, every error says where it is, and
//! what is accepted has distinct names and survives being written. Cases are the same in every run; more: `fuzz/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed};
use reslab_record::Plan;
use reslab_sweep::SweepErrors;

use crate::common::*;

fn cases(count: u32) -> Config {
    Config { cases: count, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() }
}

/// A plan keeps what the interface promises of it; a refusal says where, one line per error.
fn holds(read: Result<Plan, SweepErrors>) {
    match read {
        Ok(plan) => {
            let distinct = |of: &dyn Fn(&reslab_record::PlannedRun) -> String| {
                plan.runs.iter().map(of).collect::<BTreeSet<_>>().len() == plan.runs.len()
            };
            assert!(distinct(&|run| format!("{} {}", run.arm, run.seed)), "two runs of one name: {:?}", arms(&plan));
            assert!(distinct(&|run| run.folder.clone()), "two runs in one folder");
            assert!(distinct(&|run| run.id.clone()), "two runs of one id");
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-=+_".contains(c);
            for run in &plan.runs {
                let name = run.folder.strip_prefix("runs/").unwrap();
                assert!(name.len() < 120 && name.chars().all(plain) && !name.starts_with("..-s"), "{name}");
            }
            let dir = tempfile::tempdir().unwrap();
            plan.write(dir.path()).unwrap();
            // As text, in which NaN equals NaN; tables may come after values, so both are written.
            let text = |plan: &Plan| toml::to_string(plan).unwrap();
            assert_eq!(text(&Plan::read(dir.path()).unwrap()), text(&plan));
        }
        Err(SweepErrors(errors)) => {
            assert!(!errors.is_empty());
            for error in errors {
                let text = error.to_string();
                let line = !text.chars().any(char::is_control);
                assert!(line, "an error is one line: {text:?}");
                let deep = error.problem.contains("nested too deeply");
                assert!(!error.key.is_empty() || error.arm.is_some() || deep, "no key and no arm: {text}");
            }
        }
    }
}

const KEYS: [&str; 24] = [
    "name",
    "seeds",
    "metric",
    "select",
    "baseline",
    "extends",
    "arm",
    "grid",
    "zip",
    "profile",
    "kind",
    "lr",
    "init",
    "sweep",
    "residual",
    "optim.lr",
    "\"optim.lr\"",
    "model.width",
    "drop_path",
    "\"\"",
    "a.b.c",
    "\"a..b\"",
    "\"\\n\"",
    "data",
];
const VALUES: [&str; 24] = [
    "1",
    "-1",
    "0",
    "1e-5",
    "nan",
    "inf",
    "1e999",
    "9223372036854775807",
    "0x1F",
    "\"plain\"",
    "\"\"",
    "\"a\\nb\"",
    "true",
    "[]",
    "[1, 2]",
    "[\"a\", \"a\"]",
    "{}",
    "{ sweep = [1, 2] }",
    "{ sweep = [] }",
    "[{ sweep = [1] }]",
    "{ kind = \"x\", init = { sweep = [0.0, -0.0, 1e-1] } }",
    "1979-05-27",
    "\"none\"",
    "\"\\u0007\u{e9}\"",
];
const HEADS: [&str; 10] = [
    "[[arm]]",
    "[grid]",
    "[zip]",
    "[profile.cpu]",
    "[data]",
    "[optim]",
    "[[arm.zip]]",
    "[arm]",
    "[\"a.b\"]",
    "[[grid]]",
];

fn line() -> impl Strategy<Value = String> {
    let pair = (select(&KEYS[..]), select(&VALUES[..])).prop_map(|(key, value)| format!("{key} = {value}"));
    prop_oneof![4 => pair, 2 => select(&HEADS[..]).prop_map(str::to_owned), 1 => "[ -~\\n\\t]{0,12}"]
}

/// All files of configs/, by their path below it.
fn configs() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap().map(Result::unwrap) {
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "toml") {
                found.push((path.display().to_string(), fs::read_to_string(entry.path()).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// `text` with one of its lines replaced, doubled, or broken in its middle.
fn changed(text: &str, (at, how): (&Index, usize), by: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = at.index(lines.len());
    let key = lines[at].split('=').next().unwrap_or_default().to_owned();
    let value = by.split_once('=').map_or(by, |(_, value)| value);
    match how {
        0 => lines[at] = by.to_owned(),
        1 => lines.insert(at, by.to_owned()),
        2 => lines.insert(at, lines[at].clone()),
        3 => drop(lines.remove(at)),
        4 => lines[at] = format!("{key}={value}"),
        _ => lines[at] = lines[at].replace(['=', '"', '['], by.get(..1).unwrap_or_default()),
    }
    lines.join("\n")
}

/// The sweep file `name` of configs/, changed, beside the others as they are.
fn changed_config(name: &str, text: &str) -> Files {
    let start = Files { dir: tempfile::tempdir().unwrap() };
    let files = configs().iter().fold(start, |files, (path, text)| files.put(path, text));
    files.put(name, text).put("x.toml", text)
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn any_text_is_a_plan_or_errors_that_say_where(lines in vec(line(), 0..12), head in any::<bool>()) {
        let text = lines.join("\n");
        let text = if head { format!("{HEAD}{PLAIN}{text}\n") } else { text };
        holds(Files::new(&text).plan_with(&[], None));
    }

    #[test]
    fn any_characters_are_a_plan_or_errors_that_say_where(text in any::<String>()) {
        holds(Files::new(&text).plan_with(&[], None));
        holds(Files::arms(&format!("{PLAIN}{text}")).plan_with(&[], None));
    }

    #[test]
    fn any_set_is_taken_or_refused_with_its_place(
        entry in any::<String>(), key in select(&KEYS[..]), value in prop_oneof!["[ -~]{0,20}", any::<String>(), select(&VALUES[..]).prop_map(str::to_owned)]
    ) {
        let files = Files::arms(PLAIN);
        holds(files.plan_with(&[&entry], None));
        holds(files.plan_with(&[&format!("{key}={value}")], None));
        holds(files.plan_with(&[&format!("optim.lr={value}"), &entry], None));
    }
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn the_configs_of_the_repository_survive_changes(
        which in any::<Index>(), changes in vec((any::<Index>(), 0..6_usize, line()), 1..4), cuda in any::<bool>()
    ) {
        let (name, text) = which.get(&configs()).clone();
        let text = changes.iter().fold(text, |text, (at, how, by)| changed(&text, (at, *how), by));
        let profile = if cuda { Some("none") } else { None };
        holds(changed_config(&name, &text).plan_with(&[], profile));
    }

    #[test]
    fn distinct_arms_have_distinct_names_and_folders_whatever_they_are_called(
        names in proptest::collection::btree_set("[a-zA-Z0-9/_. \\[\\]=,+\u{e9}\u{4e2d}-]{1,90}", 1..5),
        values in vec(select(vec!["1", "1.0", "1e0", "0.5", "5e-1", "\"1\"", "\"a,b=c\"", "[1]", "-0.0", "0"]), 0..4)
    ) {
        let axis = if values.is_empty() { "0".to_owned() } else { format!("{{ sweep = [{}] }}", values.join(", ")) };
        let arm = |(nth, name): (usize, &String)| {
            let name = toml::Value::String(name.clone());
            format!("[[arm]]\nname = {name}\nresidual = {{ kind = \"k{nth}\", hidden = {axis} }}\n")
        };
        let text: String = names.iter().enumerate().map(arm).collect();
        let read = Files::arms(&format!("{PLAIN}{text}")).plan_with(&[], None);
        if values.len() < 2 && !names.contains("plain") && names.iter().all(|n| !n.trim().is_empty()) {
            prop_assert!(read.is_ok(), "{:?}", read.err());
        }
        holds(read);
    }
}

#[test]
fn depth_without_end_is_refused_and_not_followed() {
    let deep = 100_000;
    let dotted = format!("a{}", ".a".repeat(deep));
    for text in [
        format!("a = {}", "[".repeat(deep)),
        "a = {b = ".repeat(deep),
        format!("{dotted} = 1"),
        format!("[{dotted}]"),
        format!("\"{dotted}\" = 1"),
        format!("[\"{dotted}\"]\n\"{dotted}\" = 1"),
    ] {
        holds(Files::new(&text).plan_with(&[], None));
        holds(Files::arms(PLAIN).plan_with(&[&text.replacen(" = ", "=", 1)], None));
    }
}
