//! Reading and expanding: extends, profiles, arms, `--set`, axes, what ends in the plan.

use reslab_sweep::{METRICS, Overrides, ProfileChoice, filter, load};

use crate::common::*;

#[test]
fn a_plan_holds_arms_times_grid_times_seeds_in_file_order() {
    let arm = "[[arm]]\nname = \"ls\"\nresidual = { kind = \"layer_scale\", init = { sweep = [1e-1, 1e-5] } }\n";
    let files = Files::arms(&format!("{PLAIN}{arm}[grid]\n\"optim.lr\" = [3e-4, 1e-3]\n"));
    let plan = files.plan();
    let told: Vec<String> = plan.runs.iter().map(|run| format!("{} {}", run.arm, run.seed)).collect();
    let arms = ["plain[lr=3e-4]", "plain[lr=1e-3]", "ls[init=1e-1,lr=3e-4]", "ls[init=1e-1,lr=1e-3]"];
    let arms = arms.iter().chain(&["ls[init=1e-5,lr=3e-4]", "ls[init=1e-5,lr=1e-3]"]);
    let expected: Vec<String> = arms.flat_map(|arm| [format!("{arm} 0"), format!("{arm} 1")]).collect();
    assert_eq!(told, expected);
    let run = run_of(&plan, "ls[init=1e-5,lr=3e-4]", 1);
    assert_eq!((run.family.as_str(), run.parameters, run.device_kind.as_str(), run.threads), ("ls", 8, "cpu", 1));
    assert_eq!(run.name_without(|axis| axis.grid), "ls[init=1e-5]");
    let axes: Vec<_> = run.axes.iter().map(|a| (a.key.as_str(), a.label.as_str(), a.value.as_str(), a.grid)).collect();
    assert_eq!(axes, [("residual.init", "init", "1e-5", false), ("optim.lr", "lr", "3e-4", true)]);
    assert_eq!(run.folder, format!("runs/ls_init=1e-5_lr=3e-4_-s1-{}", &run.id[..8]));
    assert_eq!(run.config["optim"]["lr"].as_float(), Some(3e-4));
    assert_eq!(run.config["residual"], "kind = \"layer_scale\"\ninit = 1e-5".parse::<toml::Table>().unwrap().into());
}

#[test]
fn a_plan_holds_what_the_file_asks_and_where_it_came_from() {
    let files = Files::arms(&format!("{PLAIN}[grid]\noptim.lr = [1e-3]\n")).put("readme", "");
    let plan = files.plan_with(&["select=[\"optim.lr\"]", "model.depth=3"], None).unwrap();
    assert_eq!((plan.name.as_str(), plan.question.as_str(), plan.metric.as_str()), ("tiny", "Does it?", "test/top1"));
    assert_eq!((plan.seeds, plan.select, plan.profile), (vec![0, 1], vec!["optim.lr".to_owned()], None));
    assert_eq!(plan.set, ["select=[\"optim.lr\"]", "model.depth=3"]);
    assert_eq!(plan.source.path, "x.toml", "no absolute path in a plan");
    let sha = reslab_record::sha256_hex(&std::fs::read(files.path("x.toml")).unwrap());
    assert_eq!(plan.source.sha256, sha);
    assert_eq!(plan.versions["reslab"], "0");
}

#[test]
fn extends_is_relative_to_the_file_and_merges_by_key() {
    let top = format!("extends = \"base/vit.toml\"\nname = \"top\"\n[model]\nwidth = 16\n{PLAIN}");
    let base = "extends = \"deep/root.toml\"\n[train]\nsteps = 99\n";
    let files = Files::new(&top).put("base/vit.toml", base).put("base/deep/root.toml", HEAD);
    let plan = files.plan();
    let config = config(&plan, "plain");
    assert_eq!(plan.name, "top");
    assert_eq!(config["model"], "kind = \"vit\"\ndepth = 2\nwidth = 16".parse::<toml::Table>().unwrap().into());
    assert_eq!(config["train"], "steps = 99\nbatch = 4".parse::<toml::Table>().unwrap().into());
}

#[test]
fn arms_of_an_extended_file_are_replaced_whole() {
    let other = "[[arm]]\nname = \"other\"\nresidual = { kind = \"plain\" }\n";
    let files = Files::new(&format!("extends = \"base.toml\"\nbaseline = \"other\"\n{other}"));
    let files = files.put("base.toml", &format!("{HEAD}{PLAIN}"));
    assert_eq!(arms(&files.plan()), ["other"]);
}

#[test]
fn a_profile_applies_on_its_device_kind_or_when_named() {
    let text = format!("{PLAIN}[profile.cpu]\nmodel.width = 4\n[profile.small]\ntrain.steps = 1\n");
    let files = Files::arms(&text);
    let width = |plan: &reslab_record::Plan| config(plan, "plain")["model"]["width"].as_integer();
    let auto = files.plan();
    assert_eq!((auto.profile.as_deref(), width(&auto)), (Some("cpu"), Some(4)));
    let none = files.plan_with(&[], Some("none")).unwrap();
    assert_eq!((none.profile.as_deref(), width(&none)), (None, Some(8)));
    let named = files.plan_with(&[], Some("small")).unwrap();
    assert_eq!((named.profile.as_deref(), width(&named)), (Some("small"), Some(8)), "only the one named");
    let on_cuda = load(&files.path("x.toml"), &Overrides::default(), "cuda").unwrap();
    assert_eq!((on_cuda.profile(), on_cuda.announcement()), (None, None));
    let line = files.load(&[], None).unwrap().announcement().unwrap();
    assert!(line.contains("profile `cpu`") && line.contains("--profile none"), "{line}");
}

#[test]
fn a_profile_writes_over_the_file_an_arm_over_the_profile_and_set_over_all() {
    let arm = format!("{PLAIN}model.width = 2\n");
    let files = Files::arms(&format!("{arm}[profile.cpu]\nmodel.width = 4\nmodel.depth = 5\nseeds = [7]\n"));
    let plan = files.plan();
    assert_eq!(plan.seeds, [7]);
    assert_eq!(config(&plan, "plain")["model"]["width"].as_integer(), Some(2));
    assert_eq!(config(&plan, "plain")["model"]["depth"].as_integer(), Some(5));
    let plan = files.plan_with(&["model.width=6", "seeds=[9]"], None).unwrap();
    assert_eq!(plan.seeds, [9]);
    assert_eq!(config(&plan, "plain")["model"]["width"].as_integer(), Some(6));
}

#[test]
fn another_kind_replaces_the_table_in_arms_grids_and_set() {
    let sgd = "optim = { kind = \"sgd\", lr = 0.1, momentum = 0.9 }";
    let files = Files::arms(&format!("{PLAIN}{sgd}\n"));
    let expected: toml::Table = sgd.parse().unwrap();
    assert_eq!(config(&files.plan(), "plain")["optim"], expected["optim"], "no betas of adamw are left");
    let files = Files::arms(&format!("{PLAIN}[grid]\noptim = [{{ kind = \"sgd\", lr = 0.1 }}, {{ lr = 0.5 }}]\n"));
    let plan = files.plan();
    assert_eq!(arms(&plan), ["plain[optim={kind=sgd,lr=0.1}]", "plain[optim={lr=0.5}]"]);
    assert_eq!(config(&plan, "plain[optim={kind=sgd,lr=0.1}]")["optim"].as_table().unwrap().len(), 2);
    assert_eq!(config(&plan, "plain[optim={lr=0.5}]")["optim"].as_table().unwrap().len(), 3);
}

#[test]
fn two_axes_multiply_and_a_zip_walks_together() {
    let arm =
        "[[arm]]\nname = \"a\"\nresidual = { kind = { sweep = [\"x\", \"y\"] }, init = { sweep = [1.0, 2.0] } }\n";
    let zip = "[[arm]]\nname = \"b\"\nresidual.kind = \"x\"\n[arm.zip]\nresidual.init = [1.0, 2.0]\n\"model.depth\" = [4, 5]\n";
    let files = Files::arms(&format!("{arm}{zip}"));
    let plan = files.plan_with(&["baseline=a[kind=x,init=1.0]"], None).unwrap_or_else(|e| panic!("{e}"));
    let names = ["a[kind=x,init=1.0]", "a[kind=x,init=2.0]", "a[kind=y,init=1.0]", "a[kind=y,init=2.0]"];
    assert_eq!(arms(&plan)[..4], names);
    assert_eq!(arms(&plan)[4..], ["b[init=1.0,depth=4]", "b[init=2.0,depth=5]"]);
    assert_eq!(config(&plan, "b[init=2.0,depth=5]")["model"]["depth"].as_integer(), Some(5));
}

#[test]
fn a_zip_of_the_file_is_a_factor_like_the_grid() {
    let zip = "[zip]\noptim.lr = [1e-3, 1e-2]\ntrain.batch = [4, 8]\n[grid]\nmodel.depth = [1, 2]\n";
    let plan = Files::arms(&format!("{PLAIN}{zip}")).plan();
    let names = arms(&plan);
    assert_eq!(names[..2], ["plain[lr=1e-3,batch=4,depth=1]", "plain[lr=1e-3,batch=4,depth=2]"]);
    assert_eq!(names.len(), 4);
    assert!(plan.runs.iter().all(|run| run.axes.iter().all(|axis| axis.grid)));
    assert_eq!(plan.baseline, "plain");
}

#[test]
fn a_list_is_one_value_of_an_axis() {
    let plan = Files::arms(&format!("{PLAIN}[grid]\noptim.betas = [[0.9, 0.95], [0.9, 0.999]]\n")).plan();
    assert_eq!(arms(&plan), ["plain[betas=[0.9,0.95]]", "plain[betas=[0.9,0.999]]"]);
}

#[test]
fn drop_path_none_takes_off_what_the_file_says_for_all() {
    let shared = "[drop_path]\nrate = 0.1\nmode = \"sample\"\n";
    let off = "[[arm]]\nname = \"off\"\nresidual = { kind = \"plain\" }\ndrop_path = \"none\"\n";
    let plan = Files::arms(&format!("{shared}{PLAIN}{off}")).plan();
    assert_eq!(config(&plan, "plain")["drop_path"]["rate"].as_float(), Some(0.1));
    assert!(!config(&plan, "off").contains_key("drop_path"));
    let absent = Files::arms(PLAIN).plan();
    assert_eq!(run_of(&plan, "off", 0).id, run_of(&absent, "plain", 0).id, "the same run as one that never had it");
}

#[test]
fn a_set_axis_or_an_axis_set_away_works() {
    let files = Files::arms("[[arm]]\nname = \"a\"\nresidual = { kind = \"x\", init = { sweep = [1.0, 2.0] } }\n");
    let one = files.plan_with(&["residual.init=0.5", "baseline=a"], None).unwrap();
    assert_eq!(arms(&one), ["a"]);
    let plain = Files::arms(PLAIN);
    let plan = plain.plan_with(&["optim.lr={ sweep = [1e-1, 2e-1] }", "baseline=plain[lr=1e-1]"], None).unwrap();
    assert_eq!(arms(&plan), ["plain[lr=1e-1]", "plain[lr=2e-1]"]);
    let plan = plain.plan_with(&["grid.optim.lr=[5e-1, 7e-1]"], None).unwrap();
    assert_eq!(arms(&plan), ["plain[lr=5e-1]", "plain[lr=7e-1]"]);
}

#[test]
fn a_filter_picks_by_any_of_an_arms_names_and_leaves_the_plan_whole() {
    let ls = "[[arm]]\nname = \"ls\"\nresidual = { kind = \"x\", init = { sweep = [1.0, 2.0] } }\n";
    let plan = Files::arms(&format!("{PLAIN}{ls}[grid]\noptim.lr = [0.1, 0.2]\n")).plan();
    let count = |arms: &[&str], seeds: &[u64]| {
        let arms: Vec<String> = arms.iter().map(|s| (*s).to_owned()).collect();
        filter(&plan, &arms, seeds).unwrap().len()
    };
    assert_eq!(plan.runs.len(), 12);
    assert_eq!(count(&[], &[]), 12);
    assert_eq!(count(&["ls"], &[]), 8);
    assert_eq!(count(&["ls[init=1.0]"], &[]), 4);
    assert_eq!(count(&["ls[init=1.0,lr=0.2]"], &[1]), 1);
    assert_eq!(count(&["plain", "ls[init=2.0]"], &[0]), 4);
}

#[test]
fn every_metric_of_the_list_is_taken() {
    let files = Files::arms(PLAIN);
    for metric in METRICS {
        assert_eq!(files.plan_with(&[&format!("metric={metric}")], None).unwrap().metric, metric);
    }
}

#[test]
fn profile_choices_come_from_the_option() {
    assert_eq!(ProfileChoice::from_option(None), ProfileChoice::Auto);
    assert_eq!(ProfileChoice::from_option(Some("none")), ProfileChoice::None);
    assert_eq!(ProfileChoice::from_option(Some("cpu")), ProfileChoice::Named("cpu".into()));
}
