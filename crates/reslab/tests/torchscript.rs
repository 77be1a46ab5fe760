//! Joins from PyTorch, from the outside: a run is the module's content, and what can't be used is refused at the plan.

mod support;

use support::Place;

/// A place whose sweep has the arms plain and gate, the latter from this module.
fn place_with(module: &str) -> Place {
    let place = Place::new();
    let text = std::fs::read_to_string(place.at("tiny.toml")).expect("readable");
    let text = text.replace("\"layer_scale\"\nresidual", "\"gate\"\nresidual");
    let text = text.replace("kind = \"layer_scale\", init = 0.0", "kind = \"torchscript\", path = \"gate.pt\"");
    std::fs::write(place.at("gates.toml"), text.replace("\"tiny\"", "\"gates\"")).expect("writable");
    put(&place, module);
    place
}

fn put(place: &Place, module: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../reslab-residual/");
    std::fs::copy(format!("{folder}{module}"), place.at("gate.pt")).expect("the module is there");
}

const GATE: &str = "tests/torchscript/gate_16.pt";
const SCALE: &str = "modules/scale.pt";

#[test]
fn another_module_under_the_same_name_is_another_run() {
    let place = place_with(GATE);
    let run = ["run", "gates.toml", "--arm", "gate", "--seed", "0"];
    place.call(&run).expect(0);
    let first = place.run_dir("results/gates", "gate-s0");
    let config = std::fs::read_to_string(first.join("config.toml")).expect("written");
    assert!(config.contains("sha256 = \""), "{config}");
    assert!(place.call(&run).expect(0).err.contains("is done; nothing was started"));
    put(&place, SCALE);
    let called = place.call(&run).expect(0);
    assert!(!called.err.contains("nothing was started"), "{}", called.err);
    let runs = std::fs::read_dir(place.at("results/gates/runs")).expect("readable").count();
    assert_eq!(runs, 2, "the run of the other module stands beside the first");
}

#[test]
fn a_module_that_changes_under_its_plan_fails_its_runs() {
    let place = place_with(GATE);
    place.call(&["sweep", "gates.toml", "--arm", "gate", "--seeds", "0"]).expect(0);
    let plan = std::fs::read_to_string(place.at("results/gates/plan.toml")).expect("written");
    let runs = place.at("results/gates/runs");
    let id = |plan: &str| {
        let at = plan.find("arm = \"gate\"").expect("the arm is planned");
        let line = plan[..at].lines().rev().find(|line| line.starts_with("id = ")).expect("a run has an id");
        line.split('"').nth(1).expect("in quotes").to_owned()
    };
    std::fs::remove_dir_all(&runs).expect("removable");
    put(&place, SCALE);
    place.call(&["exec-run", "--sweep", "results/gates", "--id", &id(&plan), "--device", "cpu"]).expect(1);
    let folder = place.run_dir("results/gates", "gate-s0");
    let failed = std::fs::read_to_string(folder.join("failed.json")).expect("written");
    assert!(failed.contains("residual.sha256") && failed.contains("plan it again"), "{failed}");
}

#[test]
fn a_module_that_cannot_be_used_is_refused_with_file_and_arm_before_anything_is_written() {
    for (module, reason) in [
        (
            "tests/torchscript/one_argument.pt",
            "residual.path: gate.pt: can't be used as a module: its method is `forward(",
        ),
        ("tests/torchscript/buffer.pt", "residual.path: gate.pt: can't be used as a module: it has the buffer `mean`"),
        ("tests/torchscript/gate.pt", "residual: gate.pt: tried on tensors [2, 3, 16], the module fails: "),
        (
            "tests/torchscript/random.pt",
            "residual: gate.pt: tried on tensors [2, 3, 16], the module gives another update",
        ),
        ("Cargo.toml", "residual.path: gate.pt: can't be used as a module: "),
    ] {
        let place = place_with(module);
        let before = place.files();
        let called = place.call(&["sweep", "gates.toml"]).expect(2);
        assert!(called.err.contains(reason) && called.err.contains("arm \"gate\""), "{module}:\n{}", called.err);
        assert!(place.files() == before, "something was written");
    }
    let place = place_with(GATE);
    std::fs::remove_file(place.at("gate.pt")).expect("removable");
    let called = place.call(&["plan", "gates.toml"]).expect(2);
    assert!(called.err.contains("residual.path: gate.pt: cannot be read: No such file"), "{}", called.err);
}
