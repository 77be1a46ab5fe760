//! Everything that a sweep file can get wrong: refused with file, arm and key, all at once, and nothing written.

use std::path::Path;

use reslab_sweep::{Overrides, ProfileChoice, filter, load};

use crate::common::*;

/// `HEAD` with a piece replaced, and one plain arm.
fn with(from: &str, to: &str) -> Files {
    assert!(HEAD.contains(from), "{from}");
    Files::new(&format!("{}{PLAIN}", HEAD.replace(from, to)))
}

#[test]
fn the_frame_is_checked_key_by_key() {
    for (from, to, error) in [
        ("name = \"tiny\"\n", "", "x.toml: name: missing"),
        ("\"tiny\"", "3", "x.toml: name: must be a text in quotes, but is 3"),
        ("\"tiny\"", "\"..\"", "x.toml: name: \"..\" cannot be the name of a folder"),
        ("\"tiny\"", "\"a\\nb\"", "x.toml: name: must be one line of plain characters, but is \"a\\nb\""),
        ("\"Does it?\"", "[1]", "x.toml: question: must be a text in quotes, but is a list"),
        ("baseline = \"plain\"\n", "", "x.toml: baseline: missing"),
        ("\"plain\"", "\"plian\"", "x.toml: baseline: no arm \"plian\"; did you mean `plain`? (arms: plain)"),
        ("[0, 1]", "[]", "x.toml: seeds: must be a list of whole numbers of at least 0, but is []"),
        ("[0, 1]", "[0, -1]", "x.toml: seeds: must be a list of whole numbers of at least 0, but is [0,-1]"),
        ("[0, 1]", "3", "x.toml: seeds: must be a list of whole numbers of at least 0, but is 3"),
        ("[0, 1]", "[0, 1, 0]", "x.toml: seeds: 0 stands twice"),
        ("seeds = [0, 1]\n", "", "x.toml: seeds: missing"),
        (
            "test/top1",
            "test/topl",
            "x.toml: metric: no metric `test/topl`; did you mean `test/top1`? (known: test/top1",
        ),
        ("metric = \"test/top1\"\n", "", "x.toml: metric: missing"),
        (
            "metric",
            "select = [\"optim.lr\"]\nmetric",
            "x.toml: select: `optim.lr` is no axis of [grid] (the file has no [grid])",
        ),
        ("metric", "select = 3\nmetric", "x.toml: select: must be a list of keys of [grid], but is 3"),
        (
            "[data]",
            "[study]\nprimary = [\"plain\", \"plain\"]\n[data]",
            "x.toml: study.primary: compares \"plain\" with itself",
        ),
        (
            "[data]",
            "[study]\nprimary = [\"plain\", \"plian\"]\n[data]",
            "x.toml: study.primary: no arm \"plian\"; did you mean `plain`? (arms: plain)",
        ),
        (
            "[data]",
            "[study]\nprimary = [\"plain\"]\n[data]",
            "x.toml: study.primary: must be the names of two arms, [\"arm\", \"baseline\"], but is [plain]",
        ),
        (
            "[data]",
            "[study]\nprimery = [\"plain\", \"b\"]\n[data]",
            "x.toml: study.primery: unknown key `primery` in [study]; did you mean `primary`? Known: primary",
        ),
        ("[data]", "[study]\n[data]", "x.toml: study: says nothing; it needs primary = [\"arm\", \"baseline\"]"),
        ("metric", "study = 3\nmetric", "x.toml: study: must be a table, but is 3"),
        (
            "[data]",
            "[dato]",
            "x.toml: dato: unknown key `dato` in a sweep file; did you mean `data`? Known: extends, name",
        ),
        ("[train]", "train = 3\n[zzz]", "x.toml: zzz: unknown key `zzz` in a sweep file. Known: "),
    ] {
        let errors = with(from, to).errors();
        assert!(errors.contains(error), "{error}\n{errors}");
    }
}

#[test]
fn arms_are_checked_key_by_key() {
    for (arms, error) in [
        ("", "x.toml: arm: missing; a sweep has at least one [[arm]]"),
        ("arm = []\n", "x.toml: arm: must be tables, at least one, written [[arm]]"),
        ("[arm]\nname = \"plain\"\n", "x.toml: arm: must be tables, at least one, written [[arm]]"),
        ("[[arm]]\nresidual.kind = \"plain\"\n", "x.toml: arm.name: the 1. [[arm]] has no name"),
        ("[[arm]]\nname = \"\"\n", "x.toml: arm.name: the 1. [[arm]] has no name"),
        ("[[arm]]\nname = \"a\\tb\"\n", "x.toml: arm.name: the 1. [[arm]] has a name with a line feed, a tab"),
        (
            "[[arm]]\nname = \"plain\"\nresidul.kind = 3\n",
            "x.toml: arm \"plain\": residul: unknown key `residul` in an arm; did you mean `residual`?",
        ),
        ("[[arm]]\nname = \"plain\"\nseeds = [3]\n", "x.toml: arm \"plain\": seeds: unknown key `seeds` in an arm"),
        (
            "[[arm]]\nname = \"plain\"\nresidual = \"plain\"\n",
            "x.toml: arm \"plain\": residual: must be a table, but is \"plain\"",
        ),
        ("[[arm]]\nname = \"plain\"\n", "x.toml: arm \"plain\": residual: missing"),
        (&format!("{PLAIN}{PLAIN}"), "x.toml: arm: two arms are named \"plain\""),
        (
            &format!("{PLAIN}{}", PLAIN.replace("\"plain\"\nres", "\"twin\"\nres")),
            "x.toml: arm \"twin\": is the same run as arm \"plain\"",
        ),
    ] {
        let text = if arms.starts_with("arm =") { format!("{arms}{HEAD}") } else { format!("{HEAD}{arms}") };
        let errors = Files::new(&text).errors();
        assert!(errors.contains(error), "{error}\n{errors}");
    }
}

#[test]
fn axes_are_checked() {
    let arm = |value: &str| format!("{PLAIN}[[arm]]\nname = \"b\"\nresidual.kind = \"x\"\nresidual.init = {value}\n");
    for (text, error) in [
        (arm("{ sweep = [] }"), "arm \"b\": residual.init: must be a list of at least one value"),
        (arm("{ sweep = 3 }"), "arm \"b\": residual.init: must be a list of values, but is 3"),
        (
            arm("{ sweep = [1], step = 2 }"),
            "arm \"b\": residual.init: an axis is a table with exactly the one key `sweep`, but here is also `step`",
        ),
        (arm("{ sweep = [{ sweep = [1] }] }"), "arm \"b\": residual.init: an axis inside an axis"),
        (arm("[{ sweep = [1] }]"), "arm \"b\": residual.init: an axis inside a list"),
        (arm("{ sweep = [1.0, 1.0] }"), "arm \"b[init=1.0]\": stands twice"),
        (arm("{ sweep = [1.0, 1e0] }"), "arm \"b[init=1e0]\": is the same run as arm \"b[init=1.0]\""),
        (format!("{PLAIN}[grid]\noptim.lr = 3\n"), "x.toml: grid.optim.lr: must be a list of values, but is 3"),
        (format!("{PLAIN}[grid]\noptim.lr = []\n"), "x.toml: grid.optim.lr: must be a list of at least one value"),
        (
            format!("{PLAIN}[grid]\nopitm.lr = [1]\n"),
            "x.toml: grid.opitm: unknown key `opitm` in [grid] and [zip]; did you mean `optim`?",
        ),
        (format!("{PLAIN}[grid]\nseeds = [1]\n"), "x.toml: grid.seeds: unknown key"),
        (
            format!("{PLAIN}[zip]\noptim.lr = [1, 2]\ntrain.batch = [1]\n"),
            "x.toml: zip: its lists are walked together and must be equally long, but are optim.lr: 2, train.batch: 1",
        ),
        (format!("{PLAIN}[zip]\noptim.lr = [1]\n[grid]\noptim.lr = [2]\n"), "optim.lr: stands in [grid] and in [zip]"),
        (
            format!("{PLAIN}optim.lr = 1.0\n[grid]\noptim.lr = [2.0]\n"),
            "x.toml: arm \"plain\": optim.lr: stands in the arm and in [grid] or [zip]",
        ),
        (
            format!("{PLAIN}zip.optim.lr = [1.0]\n[grid]\noptim.lr = [2.0]\n"),
            "arm \"plain\": optim.lr: is an axis of the arm's zip and of the whole sweep",
        ),
        (
            format!("wd = {{ sweep = [1] }}\n{PLAIN}"),
            "x.toml: optim.wd: { sweep = [..] } stands in an arm; for all arms write it under [grid]: \"optim.wd\" = [..]",
        ),
        (
            format!("{PLAIN}[grid]\noptim.lr = [{0}]\nmodel.depth = [{0}]\ntrain.batch = [{0}]\n", "0,".repeat(30)),
            "arm \"plain\": its axes multiply to more than 10000 points",
        ),
    ] {
        let errors = Files::arms(&text).errors();
        assert!(errors.contains(error), "{error}\n{errors}");
    }
}

#[test]
fn the_baseline_is_named_with_its_own_axes_and_without_the_grids() {
    let arm = "[[arm]]\nname = \"ls\"\nresidual = { kind = \"x\", init = { sweep = [1.0, 2.0] } }\n[grid]\noptim.lr = [1.0]\n";
    let files = Files::arms(arm);
    let errors = files.errors_with(&["baseline=ls"]);
    assert!(errors.contains("baseline: no arm \"ls\"; did you mean `ls[init=1.0]`?"), "{errors}");
    let errors = files.errors_with(&["baseline=\"ls[init=1.0,lr=1.0]\""]);
    assert!(errors.contains("no arm \"ls[init=1.0,lr=1.0]\"; did you mean `ls[init=1.0]`?"), "{errors}");
    assert!(files.plan_with(&["baseline=\"ls[init=1.0]\""], None).is_ok());
    let errors = files.errors_with(&["select=[\"optim.rl\"]", "baseline=\"ls[init=1.0]\""]);
    assert_eq!(errors, "x.toml: select: `optim.rl` is no axis of [grid]; did you mean `optim.lr`? (axes: optim.lr)");
}

#[test]
fn a_key_is_selected_once_and_a_zip_as_a_whole() {
    let files = Files::arms(&format!("{PLAIN}[zip]\noptim.lr = [1.0, 2.0]\ntrain.batch = [1, 2]\n"));
    let errors = files.errors_with(&["select=[\"optim.lr\"]"]);
    assert_eq!(
        errors,
        "x.toml: select: `optim.lr` is walked together with `train.batch` in [zip]: name both, or neither"
    );
    assert!(files.plan_with(&["select=[\"train.batch\", \"optim.lr\"]"], None).is_ok());
    let errors = files.errors_with(&["select=[\"optim.lr\", \"train.batch\", \"optim.lr\"]"]);
    assert_eq!(errors, "x.toml: select: `optim.lr` stands twice");
}

#[test]
fn what_is_chosen_or_shown_on_validation_needs_a_validation_split() {
    let other = "[[arm]]\nname = \"b\"\nresidual = { kind = \"y\" }\n";
    let files = Files::arms(&format!("{PLAIN}{other}[grid]\noptim.lr = [1.0, 2.0]\n"));
    let (select, none) = ("select=[\"optim.lr\"]", "data.val_images=0");
    let lines = [
        "--set: data.val_images: is 0, but `select` chooses optim.lr on the validation split; give it images, or drop \
         `select`",
        "--set: data.val_images: is 0, but the metric `val/top1` is one of the validation split; give it images, or take \
         a metric of test",
    ];
    assert_eq!(files.errors_with(&[select, none]), lines[0]);
    assert_eq!(files.errors_with(&["metric=val/top1", none]), lines[1]);
    assert_eq!(files.errors_with(&[select, "metric=val/top1", none]), lines.join("\n"));
    assert!(files.plan_with(&[none], None).is_ok(), "nothing is chosen or shown on it");
    assert!(files.plan_with(&[select, "metric=val/top1", "data.val_images=1"], None).is_ok());
    let of_one = other.to_owned() + "data.val_images = 0\n";
    let errors = Files::arms(&format!("{PLAIN}{of_one}[grid]\noptim.lr = [1.0, 2.0]\n")).errors_with(&[select]);
    assert!(errors.starts_with("x.toml: arm \"b\": data.val_images: is 0, but `select`"), "{errors}");
}

#[test]
fn a_broken_baseline_is_told_by_its_own_error_alone() {
    let broken = PLAIN.replace("residual =", "residul =");
    let other = "[[arm]]\nname = \"b\"\nresidual = { kind = \"y\" }\n";
    let errors = Files::arms(&format!("{broken}{other}")).errors();
    assert!(errors.starts_with("x.toml: arm \"plain\": residul: unknown key"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn all_errors_come_at_once_and_the_same_one_of_all_arms_once() {
    let arms = "[[arm]]\nname = \"ls\"\nresidual = { kind = \"x\", init = { sweep = [1.0, nan] }, hiden = 3 }\n[[arm]]\nname = \"odd\"\nresidual = { kind = \"y\" }\nmodel.width = 7\n";
    let text = format!("{}{PLAIN}{arms}", HEAD.replace("steps = 10", "stepz = 10").replace("test/top1", "nope"));
    let errors = Files::new(&text).errors();
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(
        lines,
        [
            "x.toml: metric: no metric `nope` (known: test/top1, test/top5, test/loss, val/top1, val/loss, train/loss)",
            "x.toml: train.stepz: unknown key `stepz`",
            "x.toml: arm \"ls\": residual.hiden: unknown key `hiden`",
            "x.toml: arm \"ls[init=nan]\": residual.init: must be finite, but is nan",
            "x.toml: arm \"odd\": model.width: must be even, but is 7",
        ]
    );
}

#[test]
fn an_error_names_the_file_that_the_key_stands_in() {
    let files =
        Files::new(&format!("extends = \"base.toml\"\n{PLAIN}")).put("base.toml", &HEAD.replace("steps", "stepz"));
    // One arm only: its errors carry its name.
    let expected = [
        "--set: arm \"plain\": model.widht: unknown key `widht`",
        "base.toml: arm \"plain\": train.stepz: unknown key `stepz`",
    ];
    assert_eq!(files.errors_with(&["model.widht=3"]).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn extends_refuses_circles_and_files_that_are_not_there() {
    let circle = Files::new("extends = \"b.toml\"")
        .put("b.toml", "extends = \"c.toml\"")
        .put("c.toml", "extends = \"./b.toml\"");
    assert!(circle.errors().contains("c.toml: extends: ./b.toml extends itself, in a circle"), "{}", circle.errors());
    let itself = Files::new("extends = \"x.toml\"");
    assert!(itself.errors().contains("x.toml: extends: x.toml extends itself"), "{}", itself.errors());
    let missing = Files::new("extends = \"base/none.toml\"");
    assert!(
        missing.errors().contains("x.toml: extends: base/none.toml: cannot be read: No such file"),
        "{}",
        missing.errors()
    );
    for (path, shown) in [("/dev/zero", "\"/dev/zero\" is no file"), ("", "\"\" is no file"), (".", "\".\" is no file")]
    {
        let errors = Files::new(&format!("extends = \"{path}\"")).errors();
        assert!(errors.starts_with(&format!("x.toml: extends: {shown}; it must be the path of one")), "{errors}");
    }
    let number = Files::new("extends = 3");
    assert!(number.errors().contains("x.toml: extends: must be the path of a file, but is 3"), "{}", number.errors());
    let broken = Files::new("extends = \"b.toml\"").put("b.toml", "a = = 3");
    assert!(broken.errors().starts_with("b.toml: line 1, column 5: "), "{}", broken.errors());
    let absent = load(Path::new("nowhere/x.toml"), &Overrides::default(), "cpu").unwrap_err().to_string();
    assert!(absent.starts_with("nowhere/x.toml: cannot be read: No such file"), "{absent}");
}

#[test]
fn a_file_that_is_no_text_is_refused() {
    let files = Files::new("");
    std::fs::write(files.path("x.toml"), [b'a', 0xff]).unwrap();
    assert!(files.errors().contains("x.toml: is not UTF-8 text (byte 1)"));
}

#[test]
fn profiles_are_checked_whether_chosen_or_not() {
    let files = Files::arms(&format!("{PLAIN}[profile.gpu]\nmodl.width = 3\n[profile]\nodd = 3\n"));
    let errors = files.errors();
    assert!(
        errors.contains("x.toml: profile.gpu.modl: unknown key `modl` in a profile; did you mean `model`?"),
        "{errors}"
    );
    assert!(errors.contains("x.toml: profile.odd: must be a table"), "{errors}");
    let errors = Files::arms(&format!("{PLAIN}[profile.none]\nmodel.width = 2\n")).errors();
    assert!(errors.starts_with("x.toml: profile.none: `--profile none` takes the file as it stands"), "{errors}");
    let files = Files::arms(&format!("{PLAIN}[profile.small]\nmodel.width = 2\n"));
    let choice = Overrides { profile: ProfileChoice::Named("smal".into()), ..Overrides::default() };
    let file = load(&files.path("x.toml"), &choice, "cpu").unwrap();
    let errors = reslab_sweep::expand(&file, &check, &target()).unwrap_err().to_string();
    assert_eq!(errors, "--profile: no profile `smal`; did you mean `small`? (the file has: small)");
}

#[test]
fn overrides_are_checked() {
    let files = Files::arms(&format!("{PLAIN}[grid]\noptim.lr = [1.0, 2.0]\n"));
    for (set, error) in [
        ("optim", "--set: optim: must be key=value"),
        ("optmi.lr=3", "--set: optmi: unknown key `optmi` in --set; did you mean `optim`?"),
        ("arm=[]", "--set: arm: cannot be given by --set"),
        ("extends=\"x\"", "--set: extends: cannot be given by --set"),
        (
            "optim.lr=3",
            "--set: arm \"plain\": optim.lr: is an axis of [grid] or [zip]; give the axis other values, such as --set grid.optim.lr=[3]",
        ),
        ("optim=3", "--set: arm \"plain\": optim: must be a table, but is 3"),
        ("name=", "--set: name=: must be key=value"),
        ("name=two words", "`two words` is no TOML value"),
        ("metric=test/none", "--set: metric: no metric `test/none`"),
    ] {
        let errors = files.errors_with(&[set]);
        assert!(errors.contains(error), "{error}\n{errors}");
    }
}

#[test]
fn filters_name_the_nearest_arm_and_the_seeds_there_are() {
    let plan = Files::arms(PLAIN).plan();
    let errors = filter(&plan, &["plian".to_owned()], &[5]).unwrap_err().to_string();
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines[0], "--arm: no arm \"plian\"; did you mean `plain`? (arms: plain)");
    assert_eq!(
        lines[1],
        "--seeds: seed 5 is not in the plan (seeds = [0, 1]); --seeds only filters: add it in the file"
    );
}

#[test]
fn nothing_is_written_by_reading_and_expanding() {
    let files = with("test/top1", "nope");
    files.errors();
    Files::plan(&Files::arms(PLAIN));
    let names: Vec<_> = std::fs::read_dir(files.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["x.toml"]);
}
