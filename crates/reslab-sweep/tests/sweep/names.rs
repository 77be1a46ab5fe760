//! Names of arms, of runs' folders and of sweeps' folders.

use crate::common::*;

#[test]
fn values_stand_in_names_as_they_are_written_in_the_file() {
    let arm =
        "[[arm]]\nname = \"ls\"\nresidual = { kind = \"x\", init = { sweep = [1e-5, 0.10, 3E-4, 1_0.0, 0, inf] } }\n";
    let files = Files::arms(&format!("{PLAIN}{arm}"));
    // inf is refused by the check, and its error carries the name.
    assert_eq!(files.errors(), "x.toml: arm \"ls[init=inf]\": residual.init: must be finite, but is inf");
    let files = Files::arms(&format!("{PLAIN}{}", arm.replace(", inf", "")));
    let expected = ["plain", "ls[init=1e-5]", "ls[init=0.10]", "ls[init=3E-4]", "ls[init=1_0.0]", "ls[init=0]"];
    assert_eq!(arms(&files.plan()), expected);
}

#[test]
fn strings_stand_in_names_without_quotes() {
    let arm = "[[arm]]\nname = \"d\"\nresidual.kind = \"plain\"\ndrop_path = { rate = 0.1, mode = { sweep = [\"sample\", 'subset'] } }\n";
    let plan = Files::arms(&format!("{PLAIN}{arm}")).plan();
    assert_eq!(arms(&plan)[1..], ["d[mode=sample]", "d[mode=subset]"]);
}

#[test]
fn keys_stand_in_file_order_with_their_shortest_distinct_last_segments() {
    let arm = "[[arm]]\nname = \"a\"\nmodel.width = { sweep = [2] }\nresidual = { width = 4, kind = { sweep = [\"x\"] } }\noptim.lr = { sweep = [1.0] }\n";
    let grid = "[grid]\ntrain.batch = [1]\ndata.kind = [\"z\"]\n";
    let plan =
        Files::arms(&format!("{arm}{grid}")).plan_with(&["baseline=a[width=2,residual.kind=x,lr=1.0]"], None).unwrap();
    assert_eq!(arms(&plan), ["a[width=2,residual.kind=x,lr=1.0,batch=1,data.kind=z]"]);
}

#[test]
fn a_grid_before_the_arms_comes_first_in_names() {
    let arm = "[[arm]]\nname = \"a\"\nresidual = { kind = \"x\", init = { sweep = [1.0] } }\n";
    let plan =
        Files::arms(&format!("[grid]\noptim.lr = [1e-3]\n{arm}")).plan_with(&["baseline=a[init=1.0]"], None).unwrap();
    assert_eq!(arms(&plan), ["a[lr=1e-3,init=1.0]"]);
    assert_eq!(plan.runs[0].name_without(|axis| axis.grid), "a[init=1.0]");
}

#[test]
fn folders_hold_plain_characters_and_long_names_are_cut_but_stay_distinct() {
    let long = "x".repeat(300);
    let arm = |end: &str| format!("[[arm]]\nname = \"{long}{end}\"\nresidual = {{ kind = \"{end}\" }}\n");
    let odd = "[[arm]]\nname = \"a/b: \\\"c\\\" + d\"\nresidual = { kind = \"odd\" }\n";
    let plan = Files::arms(&format!("{PLAIN}{}{}{odd}", arm("1"), arm("2"))).plan();
    let folders: std::collections::BTreeSet<&str> = plan.runs.iter().map(|run| run.folder.as_str()).collect();
    assert_eq!(folders.len(), plan.runs.len());
    for folder in folders {
        let name = folder.strip_prefix("runs/").unwrap();
        assert!(name.len() < 110, "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || ".-=+_".contains(c)), "{name}");
    }
    assert!(run_of(&plan, "a/b: \"c\" + d", 0).folder.starts_with("runs/a_b___c__+_d-s0-"));
}

#[test]
fn a_sweeps_folder_tells_profile_and_overrides() {
    let files = Files::arms(&format!("{PLAIN}[profile.cpu]\nmodel.depth = 1\n"));
    let folder = |set: &[&str], profile: Option<&str>| files.load(set, profile).unwrap().folder_name();
    assert_eq!(folder(&[], None), "tiny-cpu");
    assert_eq!(folder(&[], Some("none")), "tiny");
    let set = folder(&["optim.lr=1e-2"], None);
    let hash = set.strip_prefix("tiny-cpu+").unwrap();
    assert!(hash.len() == 4 && hash.chars().all(|c| c.is_ascii_hexdigit()), "{set}");
    assert_eq!(set, folder(&["\"optim.lr\" = 0.01"], None), "the writing makes no difference");
    assert_ne!(set, folder(&["optim.lr=1e-3"], None));
    let two = folder(&["optim.lr=1e-2", "model.depth=3"], None);
    assert_ne!(two, set);
    assert_eq!(two, folder(&["model.depth=3", "optim.lr=1e-2"], None), "nor does the order");
    assert_eq!(files.load(&["optim.lr=1e-2"], None).unwrap().folder_name_without_set(), "tiny-cpu");
}
