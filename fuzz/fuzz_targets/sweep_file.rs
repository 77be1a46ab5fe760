//! A sweep file and `--set` options: lines that start with `--set ` are options, the others are the file.
//!
//! Held: no panic, no hang; every error is one line that says where; what is accepted has distinct names and folders, and
//! its plan is read back as it was written.
#![no_main]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use reslab_record::Plan;
use reslab_sweep::{Facts, Overrides, ProfileChoice, SweepErrors, Target, expand, load};

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| tempfile::tempdir().expect("a folder").keep());

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (options, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("--set "));
    let set = options.iter().map(|option| option["--set ".len()..].to_owned()).collect();
    let path = FOLDER.join("x.toml");
    fs::write(&path, lines.join("\n")).expect("written");

    let target = Target { device_kind: "cpu".into(), threads: 1, versions: Default::default() };
    let any = |_: &toml::Table| Ok(Facts { parameters: 1, flops_per_image: 1.0 });
    let overrides = Overrides { set, profile: ProfileChoice::Auto };
    match load(&path, &overrides, "cpu").and_then(|file| expand(&file, &any, &target)) {
        Ok(plan) => accepted(&plan),
        Err(SweepErrors(errors)) => {
            assert!(!errors.is_empty());
            for error in errors {
                let text = error.to_string();
                assert!(!text.chars().any(char::is_control), "{text:?}");
                let deep = error.problem.contains("nested too deeply");
                assert!(!error.key.is_empty() || error.arm.is_some() || deep, "{text}");
            }
        }
    }
});

fn accepted(plan: &Plan) {
    let folders: BTreeSet<&str> = plan.runs.iter().map(|run| run.folder.as_str()).collect();
    let names: BTreeSet<(&str, u64)> = plan.runs.iter().map(|run| (run.arm.as_str(), run.seed)).collect();
    assert_eq!((folders.len(), names.len()), (plan.runs.len(), plan.runs.len()));
    for folder in folders {
        let name = folder.strip_prefix("runs/").expect("in runs/");
        assert!(name.len() < 120 && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-=+_".contains(c)), "{name}");
    }
    // A thousand runs are written in tens of milliseconds; more tell no more.
    if plan.runs.len() <= 50 {
        plan.write(&FOLDER).expect("a plan can be written");
        let read = Plan::read(&FOLDER).expect("a plan can be read");
        assert_eq!(toml::to_string(&read).expect("TOML"), toml::to_string(plan).expect("TOML"));
    }
}
