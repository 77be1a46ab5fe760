//! What a run writes down of its code and its place, before it computes anything.

mod support;

use reslab_record::{Env, Plan, PlannedRun, RunDir, sha256_hex};
use support::Place;

const ONE: [&str; 6] = ["sweep", "tiny.toml", "--arm", "plain", "--seeds", "0"];

/// A sweep with one run that is done, and that run.
fn one_run() -> (Place, PlannedRun, RunDir) {
    let place = Place::new();
    place.call(&ONE).expect(0);
    let run = Plan::read(&place.at("results/tiny")).expect("a plan").runs.remove(0);
    let dir = RunDir::open(&run.dir(&place.at("results/tiny"))).expect("its folder");
    (place, run, dir)
}

/// The columns of steps.csv are not those of this program: the run fails when it opens its records, before it loads data.
#[test]
fn config_code_versions_device_and_seed_are_written_before_anything_is_computed() {
    let (place, run, dir) = one_run();
    std::fs::remove_dir_all(dir.path()).expect("removed");
    std::fs::create_dir(dir.path()).expect("made anew");
    std::fs::write(dir.path().join("steps.csv"), "step,accuracy\n1,0.5\n").expect("written");
    place.call(&ONE).expect(1);
    let log = std::fs::read_to_string(dir.log_path()).expect("a log");
    assert!(log.contains("its header is not that of this version") && !log.contains("parameters ("), "{log}");

    assert_eq!(dir.read_config().expect("config.toml"), run.config);
    let env = dir.read_env().expect("env.json").expect("it is there");
    assert_eq!((env.device.as_str(), env.threads, env.seed), ("cpu", 1, 0));
    assert_eq!(env.reslab, env!("CARGO_PKG_VERSION"));
    assert!(env.libtorch.starts_with("2.11.") && env.device_name.is_some(), "{env:?}");
    if env.git_commit.is_none() {
        println!("skipped: no git, or no checkout");
        return;
    }
    let diff = std::fs::read(dir.path().join("code.diff")).ok();
    assert_eq!(env.git_diff_sha256, diff.as_deref().map(sha256_hex), "its checksum is that of the file");
    assert_eq!(env.git_dirty, Some(diff.is_some()), "{env:?}");
}

#[test]
fn a_run_that_other_code_goes_on_with_says_so_in_the_table() {
    let (place, _, dir) = one_run();
    let began = Env { git_commit: Some("fedcba98".into()), ..dir.read_env().expect("env.json").expect("it is there") };
    std::fs::remove_file(dir.path().join("done.json")).expect("removed");
    std::fs::write(dir.path().join("env.json"), serde_json::to_string(&began).expect("JSON")).expect("written");
    let called = place.call(&ONE).expect(0);
    let log = std::fs::read_to_string(dir.log_path()).expect("a log");
    assert!(log.contains(", from step 40"), "it goes on from its last checkpoint:\n{log}");
    assert_eq!(dir.read_earlier_envs().expect("readable"), [began]);
    assert!(called.out.contains("continued by other code than began it: plain s0 (fedcba9"), "{}", called.out);

    // Without a checkpoint it begins anew, and nothing of the other code is left in it.
    std::fs::remove_file(dir.path().join("done.json")).expect("removed");
    for name in ["checkpoint.safetensors", "checkpoint.prev.safetensors"] {
        let _ = std::fs::remove_file(dir.path().join(name));
    }
    let anew = place.call(&ONE).expect(0);
    assert_eq!(dir.read_earlier_envs().expect("readable"), []);
    assert!(!anew.out.contains("continued"), "{}", anew.out);
}
