//! Bad usage and bad configs: exit code 2, one line that says what to do, and nothing written.

mod support;

use support::Place;

/// Calls the program, which must refuse; nothing may be written.
#[track_caller]
fn refused(arguments: &[&str], parts: &[&str]) {
    let place = Place::new();
    let before = place.files();
    let called = place.call(arguments).expect(2);
    for part in parts {
        assert!(called.err.contains(part), "no {part:?} in:\n{}", called.err);
    }
    assert!(called.out.is_empty(), "{}", called.out);
    assert!(!called.err.contains("backtrace") && !called.err.contains("panicked"), "{}", called.err);
    assert!(place.files() == before, "something was written");
}

#[test]
fn a_typo_in_a_key_is_refused_with_the_nearest_one() {
    refused(&["sweep", "tiny.toml", "--set", "model.dpeth=3"], &["model.dpeth", "did you mean `depth`"]);
    refused(&["sweep", "tiny.toml", "--set", "modell.depth=3"], &["did you mean `model`"]);
    refused(&["sweep", "tiny.toml", "--set", "train.clip=-1"], &["train.clip", "but is -1"]);
}

#[test]
fn all_errors_of_a_file_come_at_once_and_name_file_and_arm() {
    let place = Place::new();
    let text = std::fs::read_to_string(place.at("tiny.toml")).expect("readable");
    let text = text.replace("kind = \"layer_scale\"", "kind = \"layerscale\"").replace("flip ", "flipp ");
    std::fs::write(place.at("bad.toml"), text).expect("writable");
    let called = place.call(&["sweep", "bad.toml"]).expect(2);
    for part in
        ["bad.toml: ", "arm \"layer_scale\"", "did you mean `layer_scale`?", "data.flipp", "did you mean `flip`"]
    {
        assert!(called.err.contains(part), "no {part:?} in:\n{}", called.err);
    }
    assert!(!place.at("results").exists());
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    refused(&["sweep", "tiny.toml", "--arm", "plian"], &["plian", "did you mean `plain`"]);
    refused(&["sweep", "tiny.toml", "--seeds", "7"], &["seed 7"]);
    refused(&["sweep", "nowhere.toml"], &["nowhere.toml"]);
    refused(&["sweep", "tiny.toml", "--device", "gpu"], &["auto, cpu, cuda"]);
    refused(&["sweep", "tiny.toml", "--device", "cuda:99"], &["cuda:99"]);
    refused(&["sweep", "tiny.toml", "--profile", "gpu"], &["gpu"]);
    refused(&["strategies", "layerscale"], &["did you mean `layer_scale`"]);
    refused(&["data", "fetch", "fashion"], &["did you mean `fashion-mnist`"]);
    refused(&["data", "fetch", "imagefolder"], &["a folder of your own", "data.root"]);
    refused(&["report", "nowhere"], &["nowhere", "no plan.toml", "reslab sweep"]);
    refused(&["swep", "tiny.toml"], &["sweep"]);
    refused(&[], &["Usage"]);
}

#[test]
fn bf16_on_the_cpu_is_refused_when_it_is_to_run_and_shown_when_it_is_only_planned() {
    let bf16 = ["tiny.toml", "--device", "cpu", "--set", "train.precision=\"bf16\""];
    refused(&[&["sweep"], &bf16[..]].concat(), &["train.precision", "fp32"]);
    let place = Place::new();
    let planned = place.call(&[&["plan"], &bf16[..]].concat()).expect(0);
    assert!(planned.out.contains("4 runs of 2 arms") && planned.out.contains("train.precision"), "{}", planned.out);
}

#[test]
fn data_that_cannot_be_had_is_told_with_the_ways_to_get_it_before_anything_is_written() {
    // A data set that no folder of this machine should hold.
    let data = ["--set", "data.dataset=\"cifar100\"", "--offline"];
    let place = Place::new();
    let here = place.call(&["data", "list"]).expect(0);
    if here.out.contains("cifar100") && here.out.split("cifar100").nth(1).is_some_and(|text| text.contains("here: ")) {
        println!("skipped: CIFAR-100 is on this machine");
        return;
    }
    refused(&[&["sweep", "tiny.toml"], &data[..]].concat(), &["cifar100", "--data-dir", "1. ", "2. ", "3. "]);
}

#[test]
fn files_that_are_not_the_published_ones_are_refused_before_anything_is_written() {
    let place = Place::new();
    let folder = place.at("files/mnist");
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = [("train-images-idx3", 47_040_016), ("train-labels-idx1", 60_008), ("t10k-images-idx3", 7_840_016)];
    for (name, bytes) in files.into_iter().chain([("t10k-labels-idx1", 10_008)]) {
        // The right length, and holes for content.
        let file = std::fs::File::create(folder.join(format!("{name}-ubyte"))).expect("a file");
        file.set_len(bytes).expect("its length");
    }
    let set = ["--set", "data.dataset=\"mnist\"", "--set", "model.patch_size=7", "--data-dir", "files", "--offline"];
    let called = place.call(&[&["sweep", "tiny.toml"], &set[..]].concat()).expect(2);
    assert!(called.err.contains("files/mnist/train-images-idx3-ubyte"), "{}", called.err);
    assert!(called.err.contains("not the published file"), "{}", called.err);
    assert!(!place.at("results").exists(), "nothing is written");
}

#[test]
fn a_plan_that_is_damaged_or_lies_is_refused_with_what_helps_and_what_was_done_is_kept() {
    let place = Place::new();
    let sweep = ["sweep", "tiny.toml", "--set", "train.steps=6", "--arm", "plain", "--seeds", "0", "--out", "out"];
    place.call(&sweep).expect(0);
    let path = place.at("out/tiny/plan.toml");
    let whole = std::fs::read_to_string(&path).expect("a plan");
    let (head, runs) = whole.split_at(whole.find("[[run]]").expect("it has runs"));
    let first = &runs[..runs[1..].find("[[run]]").expect("it has several") + 1];
    let damages = [
        (whole[..whole.len() * 2 / 3].to_owned(), "no plan that can be used"),
        (format!("{head}{first}{runs}"), "stands in it twice"),
        (whole.replacen("folder = \"runs/", "folder = \"../runs/", 1), "not one inside runs/"),
    ];
    for (damaged, told) in damages {
        std::fs::write(&path, &damaged).expect("writable");
        for arguments in [&sweep[..], &["report", "out/tiny"], &["reproduce", "out/tiny"]] {
            let called = place.call(arguments).expect(2);
            assert!(called.err.contains(told) && called.err.contains("plan.toml"), "{}", called.err);
            assert!(called.err.contains("Move it away"), "{}", called.err);
        }
        assert_eq!(std::fs::read_to_string(&path).expect("a plan"), damaged, "it was written over");
    }
    std::fs::remove_file(&path).expect("there");
    let again = place.call(&sweep).expect(0);
    assert!(again.err.contains("1 runs, 1 done"), "{}", again.err);
    assert_eq!(std::fs::read_to_string(&path).expect("a plan"), whole, "it is made anew");
}

#[test]
fn a_place_that_cannot_be_a_folder_is_refused() {
    let place = Place::new();
    std::fs::write(place.at("file"), "").expect("writable");
    std::os::unix::fs::symlink("nowhere", place.at("dangling")).expect("a link");
    for out in ["file", "dangling", &"x".repeat(300)] {
        for arguments in [&["sweep", "tiny.toml"][..], &["run", "tiny.toml", "--arm", "plain", "--seed", "0"]] {
            let called = place.call(&[arguments, &["--out", out]].concat()).expect(2);
            assert!(called.err.contains(out) && called.err.contains("names a folder"), "{}", called.err);
        }
    }
}

#[test]
fn two_sweeps_whose_names_give_one_folder_are_kept_apart() {
    let place = Place::new();
    let text = std::fs::read_to_string(place.at("tiny.toml")).expect("readable");
    let named = |name: &str| text.replacen("\"tiny\"", &format!("{name:?}"), 1);
    std::fs::write(place.at("slash.toml"), named("a/b")).expect("writable");
    std::fs::write(place.at("line.toml"), named("a_b")).expect("writable");
    let set = ["--set", "train.steps=6", "--seeds", "0", "--arm", "plain", "--out", "out"];
    place.call(&[&["sweep", "slash.toml"], &set[..]].concat()).expect(0);
    let plan = std::fs::read(place.at("out/a_b/plan.toml")).expect("a plan");
    let called = place.call(&[&["sweep", "line.toml"], &set[..]].concat()).expect(2);
    assert!(called.err.contains("the sweep \"a/b\"") && called.err.contains("\"a_b\""), "{}", called.err);
    assert_eq!(std::fs::read(place.at("out/a_b/plan.toml")).expect("a plan"), plan);
}

#[test]
fn a_file_without_end_is_no_sweep_file() {
    refused(&["plan", "/dev/zero"], &["/dev/zero", "no sweep file"]);
    refused(&["plan", "tiny.toml", "--set", "residual={kind=\"plain\",init=3}"], &["unknown key `init`. Known: none"]);
}
