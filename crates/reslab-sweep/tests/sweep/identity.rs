//! What a run's id depends on, clause by clause of the design's "Identity".

use std::collections::BTreeMap;

use reslab_record::Plan;
use reslab_sweep::{Target, expand};

use crate::common::*;

const LS: &str = "[[arm]]\nname = \"ls\"\nresidual = { kind = \"x\", init = { sweep = [1e-1, 1e-5] } }\n";

/// Id by arm and seed.
fn ids(plan: &Plan) -> BTreeMap<(String, u64), String> {
    plan.runs.iter().map(|run| ((run.arm.clone(), run.seed), run.id.clone())).collect()
}

fn id_of(text: &str) -> String {
    Files::new(text).plan().runs[0].id.clone()
}

#[test]
fn adding_a_seed_or_an_arm_or_an_axis_value_keeps_every_id() {
    let base = ids(&Files::arms(&format!("{PLAIN}{LS}")).plan());
    let more_seeds = Files::arms(&format!("{PLAIN}{LS}")).plan_with(&["seeds=[5, 1, 9, 0]"], None).unwrap();
    let more_arms = Files::arms(&format!(
        "[[arm]]\nname = \"first\"\nresidual = {{ kind = \"y\" }}\n{LS}{PLAIN}{}",
        LS.replace("\"ls\"", "\"z\"").replace("\"x\"", "\"w\"")
    ));
    let more_values = Files::arms(&format!("{PLAIN}{}", LS.replace("[1e-1,", "[1e-9, 1e-1,")));
    for plan in [more_seeds, more_arms.plan(), more_values.plan()] {
        let now = ids(&plan);
        assert!(now.len() > base.len());
        assert!(base.iter().all(|(run, id)| now.get(run) == Some(id)), "{base:?} {now:?}");
    }
}

#[test]
fn ids_do_not_depend_on_names_metric_baseline_question_or_paths() {
    let plain = format!("{HEAD}{PLAIN}");
    let base = id_of(&plain);
    for (from, to) in [
        ("\"tiny\"", "\"huge\""),
        ("\"plain\"\nseeds", "\"renamed\"\nseeds"),
        ("\"Does it?\"", "\"Or not?\""),
        ("test/top1", "val/loss"),
    ] {
        let mut text = plain.replace(from, to);
        assert_ne!(text, plain);
        text = text.replace(
            "name = \"plain\"",
            if to.contains("renamed") { "name = \"renamed\"" } else { "name = \"plain\"" },
        );
        assert_eq!(id_of(&text), base, "{to}");
    }
    let study = format!("{HEAD}[study]\nprimary = [\"b\", \"plain\"]\n{PLAIN}{}", PLAIN.replace("plain", "b"));
    let study = Files::new(&study).plan();
    assert_eq!(study.study.unwrap().primary, ["b", "plain"]);
    assert_eq!(study.runs[0].id, base, "nor on the primary contrast");
    let elsewhere = Files::new(&format!("extends = \"a/b.toml\"\n{PLAIN}")).put("a/b.toml", HEAD);
    assert_eq!(elsewhere.plan().runs[0].id, base);
    let by_grid = Files::arms(&format!("{PLAIN}[grid]\noptim.lr = [1e-3, 2e-3]\n")).plan();
    assert_eq!(by_grid.runs[0].id, base, "the way to a value makes no difference");
}

#[test]
fn ids_depend_on_every_table_seed_device_kind_and_threads() {
    let files = Files::arms(PLAIN);
    let base = files.plan().runs[0].id.clone();
    let mut seen = vec![base, files.plan().runs[1].id.clone()];
    for set in [
        "data.dataset=mnist",
        "model.depth=3",
        "train.steps=11",
        "optim.lr=1.1e-3",
        "residual.init=0.0",
        "drop_path.rate=0.0",
    ] {
        seen.push(files.plan_with(&[set], None).unwrap().runs[0].id.clone());
    }
    let file = files.load(&[], None).unwrap();
    for target in [Target { device_kind: "cuda".into(), ..target() }, Target { threads: 2, ..target() }] {
        seen.push(expand(&file, &check, &target).unwrap().runs[0].id.clone());
    }
    let distinct: std::collections::BTreeSet<&String> = seen.iter().collect();
    assert_eq!(distinct.len(), 10, "{seen:?}");
    let newer = Target { versions: [("reslab".into(), "9".into())].into(), ..target() };
    assert_eq!(expand(&file, &check, &newer).unwrap().runs[0].id, seen[0], "a version is no part of it");
}

#[test]
fn the_writing_of_a_number_makes_no_difference() {
    let files = Files::arms(PLAIN);
    let id = |set: &str| files.plan_with(&[set], None).unwrap().runs[0].id.clone();
    assert_eq!(id("optim.lr=1e-3"), id("optim.lr=0.001"));
    assert_eq!(id("optim.lr=1"), id("optim.lr=1.0"));
    assert_eq!(id("optim.lr=1e-3"), files.plan().runs[0].id, "and an override that changes nothing changes nothing");
}

/// As the checksum of a file: what the check writes into the tables is frozen with the run, and another value is another run.
#[test]
fn what_the_check_completes_is_part_of_the_run() {
    let file = Files::arms(PLAIN).load(&[], None).unwrap();
    let plan = |sum: &str| {
        let check = |table: &mut toml::Table| {
            let facts = check(table)?;
            table["residual"].as_table_mut().unwrap().insert("sha256".into(), sum.into());
            Ok(facts)
        };
        expand(&file, &check, &target()).unwrap()
    };
    assert_eq!(plan("0a").runs[0].config["residual"]["sha256"].as_str(), Some("0a"));
    assert_eq!(plan("0a").runs[0].id, plan("0a").runs[0].id);
    assert_ne!(plan("0a").runs[0].id, plan("0b").runs[0].id);
}
