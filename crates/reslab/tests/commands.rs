//! The smaller commands from the outside.

mod support;

use support::{Place, json};

#[test]
fn a_file_from_init_passes_plan_and_is_never_overwritten() {
    let place = Place::new();
    place.call(&["init", "mine.toml"]).expect(0);
    let text = std::fs::read_to_string(place.at("mine.toml")).expect("written");
    let planned = place.call(&["plan", "mine.toml"]).expect(0);
    assert!(planned.out.starts_with("mine: ") && planned.out.contains("layer_scale[init=1e-5]"), "{}", planned.out);
    let again = place.call(&["init", "mine.toml"]).expect(2);
    assert!(again.err.contains("mine.toml: exists"), "{}", again.err);
    assert_eq!(std::fs::read_to_string(place.at("mine.toml")).expect("there"), text);
}

#[test]
fn a_plan_counts_parameters_and_writes_nothing() {
    let place = Place::new();
    let before = place.files();
    let planned = place.call(&["plan", "tiny.toml"]).expect(0);
    assert!(place.files() == before, "plan wrote something");
    assert!(planned.out.contains("4 runs of 2 arms"), "{}", planned.out);
    let parameters = |arm: &str| {
        let line = planned.out.lines().find(|line| line.starts_with(arm)).unwrap_or_else(|| panic!("{}", planned.out));
        let word = line.split_whitespace().nth(3).expect("the fourth word");
        word.replace(',', "").parse::<u64>().expect("a count")
    };
    // D = 16, 2 blocks, hidden 32, patches of 16 pixels, 4 tokens, mean pooling, 10 classes, by hand.
    let block = (16 * 48 + 48) + (16 * 16 + 16) + (16 * 32 + 32) + (32 * 16 + 16) + 2 * 2 * 16;
    assert_eq!(parameters("plain "), (16 * 16 + 16) + 4 * 16 + 2 * block + 2 * 16 + (16 * 10 + 10));
    // LayerScale adds 2D per block.
    assert_eq!(parameters("layer_scale "), parameters("plain ") + 2 * 2 * 16);
}

#[test]
fn one_run_in_this_process_stands_where_the_sweep_looks_for_it() {
    let place = Place::new();
    let short = ["tiny.toml", "--set", "train.steps=10", "--out", "here"];
    let called = place.call(&[&["run"], &short[..], &["--arm", "layer_scale", "--seed", "1"]].concat()).expect(0);
    assert!(called.out.contains("test/top1"), "{}", called.out);
    let done = json(&place.run_dir("here/tiny", "layer_scale-s1").join("done.json"));
    assert_eq!((&done["steps"], &done["outcome"]), (&10.into(), &"finished".into()), "{done}");
    let dry = place.call(&[&["sweep"], &short[..], &["--dry-run"]].concat()).expect(0);
    assert!(dry.out.contains("3 of them would start now"), "{}", dry.out);
}

#[test]
fn strategies_are_listed_and_shown_with_equation_source_and_example() {
    let place = Place::new();
    let list = place.call(&["strategies"]).expect(0);
    for name in ["plain", "layer_scale", "input_gate"] {
        assert!(list.out.lines().any(|line| line.starts_with(name)), "{}", list.out);
    }
    let one = place.call(&["strategies", "layer_scale"]).expect(0);
    for part in ["y = x + gamma * f(x)", "arXiv:2103.17239", "init", "kind = \"layer_scale\""] {
        assert!(one.out.contains(part), "no {part:?} in:\n{}", one.out);
    }
}

#[test]
fn the_doctor_finds_libtorch_and_determinism() {
    let called = Place::new().call(&["doctor"]).expect(0);
    for part in ["libtorch     2.11.", "cpu ", "disk", "digits: embedded"] {
        assert!(called.out.contains(part), "no {part:?} in:\n{}", called.out);
    }
    let said: Vec<&str> = called.out.lines().filter(|line| line.contains("determinism ")).collect();
    let parts = [
        "gave the same bits, with 1 thread and with 2 (tried)",
        "bits as 1 (tried)|bits than 1 (tried)",
        "(not tried)",
    ];
    for part in parts.into_iter().chain(["CUBLAS_WORKSPACE_CONFIG"]) {
        let found = said.iter().any(|line| part.split('|').any(|either| line.contains(either)));
        assert!(found, "no {part:?} in:\n{}", called.out);
    }
}

#[test]
fn the_bench_compares_arms_and_variations_as_json() {
    let place = Place::new();
    let rounds = ["--rounds", "2", "--steps", "2", "--json"];
    let versus = ["--arm", "plain", "--arm", "layer_scale", "--versus", "train.telemetry_every=0"];
    let called = place.call(&[&["bench", "tiny.toml"], &rounds[..], &versus[..]].concat()).expect(0);
    let report: serde_json::Value = serde_json::from_str(&called.out).expect("JSON");
    let arms = report["arms"].as_array().expect("arms");
    let names: Vec<&str> = arms.iter().map(|arm| arm["arm"].as_str().expect("a name")).collect();
    assert_eq!(names, ["plain", "layer_scale", "plain, train.telemetry_every=0"]);
    assert_eq!(arms[0]["speed_over_first"], 1.0);
    for arm in arms {
        assert!(arm["images_per_s"].as_f64().expect("a number") > 0.0, "{arm}");
        assert!((0.0..1.0).contains(&arm["share_of_peak"].as_f64().expect("a number")), "{arm}");
    }
    assert!(!place.at("results").exists(), "bench wrote something");
}

#[test]
fn the_page_of_config_keys_is_current() {
    let place = Place::new();
    let now = place.call(&["config-docs"]).expect(0).out;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md");
    let committed = std::fs::read_to_string(page).unwrap_or_default();
    assert!(now == committed, "docs/config.md is stale: cargo run -- config-docs docs/config.md");
}
