//! `reslab reproduce` from the outside: equal on the same build, and different where a plan or a record was changed.

mod support;

use support::{Place, json};

const SWEEP: [&str; 4] = ["sweep", "tiny.toml", "--set", "seeds=[0,1,2]"];

/// A sweep of two arms and three seeds in `here/tiny`.
fn recorded() -> Place {
    let place = Place::new();
    place.call(&[&SWEEP[..], &["--out", "here"]].concat()).expect(0);
    place
}

fn edit(path: &std::path::Path, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(path).expect("readable");
    let changed = text.replace(from, to);
    assert_ne!(changed, text, "{from} stands in {}", path.display());
    std::fs::write(path, changed).expect("written");
    text
}

#[test]
fn the_same_program_gives_the_same_bytes_and_what_was_changed_is_different() {
    let place = recorded();
    // The plan is all that is needed, and the recorded folder is only read.
    std::fs::remove_file(place.at("tiny.toml")).expect("removed");
    let before = place.files();
    let first = place.call(&["reproduce", "here/tiny", "--arm", "plain"]).expect(0);
    assert!(first.out.contains("Reproduced: 3 of 3 runs have equal records."), "{}\n{}", first.out, first.err);
    assert!(first.err.contains("estimate: 3 runs"), "{}", first.err);
    let kept: Vec<_> = place.files().into_iter().filter(|(path, _)| path.starts_with(place.at("here"))).collect();
    assert!(kept == before, "the recorded folder was written to");
    let anew = place.at("results/tiny-reproduced");
    let written = std::fs::read_to_string(anew.join("reproduce.md")).expect("written");
    assert!(written.contains("3 of 3 runs have equal records") && anew.join("reproduce.csv").is_file(), "{written}");

    // A second call starts what is missing, a third one nothing.
    let all = place.call(&["reproduce", "here/tiny"]).expect(0);
    assert!(all.err.contains("6 runs, 3 done, 3 to start"), "{}", all.err);
    assert!(all.out.contains("Reproduced: 6 of 6 runs have equal records."), "{}", all.out);
    let again = place.call(&["reproduce", "here/tiny", "--jobs", "1"]).expect(0);
    assert!(again.err.contains("nothing was started") && again.out == all.out, "{}", again.err);

    // A record that says otherwise.
    let done = place.run_dir("here/tiny", "plain-s0").join("done.json");
    let top1 = json(&done)["metrics"]["test/top1"].to_string();
    let text = edit(&done, &format!("\"test/top1\": {top1}"), "\"test/top1\": 0.1");
    let other = place.call(&["reproduce", "here/tiny"]).expect(1);
    assert!(other.out.contains("Not reproduced: 5 of 6 runs have equal records; different: plain s0"), "{}", other.out);
    std::fs::write(done, text).expect("written");

    // A plan with another learning rate: what is computed anew is another thing than was recorded.
    edit(&place.at("here/tiny/plan.toml"), "lr = 0.005", "lr = 0.00005");
    let other = place.call(&["reproduce", "here/tiny", "--arm", "plain", "--out", "there"]).expect(1);
    assert!(other.out.contains("Not reproduced: 0 of 3 runs have equal records; different: "), "{}", other.out);
    assert!(other.out.contains("mean of plain (test/top1, final loss)"), "{}", other.out);
    assert!(other.out.contains("says otherwise than the record's config.toml"), "{}", other.out);
    let refused = place.call(&["reproduce", "here/tiny", "--out", "results/tiny-reproduced"]).expect(2);
    assert!(refused.err.contains("holds another plan"), "{}", refused.err);
}

#[test]
fn what_cannot_be_reproduced_here_is_refused_before_anything_is_written() {
    let place = Place::new();
    place.call(&["run", "tiny.toml", "--arm", "plain", "--seed", "0", "--out", "here"]).expect(0);
    let before = place.files();
    let refused = |arguments: &[&str], parts: &[&str]| {
        let before = place.files();
        let called = place.call(&[&["reproduce"], arguments].concat()).expect(2);
        for part in parts {
            assert!(called.err.contains(part), "no {part:?} in:\n{}", called.err);
        }
        assert!(called.out.is_empty() && place.files() == before, "{}", called.out);
    };
    refused(&["nowhere"], &["nowhere", "no plan.toml"]);
    refused(&["here/tiny", "--out", "here/tiny"], &["here/tiny: lies in the recorded folder"]);
    refused(&["here/tiny", "--out", "here/tiny/runs/new"], &["lies in the recorded folder"]);
    refused(&["here/tiny", "--out", "here"], &["here: is not empty and no sweep's folder"]);
    refused(&["here/tiny", "--arm", "plian"], &["plian", "did you mean `plain`"]);
    refused(&["here/tiny", "--arm", "layer_scale"], &["none of these runs has a recorded result"]);
    refused(&["here/tiny", "--device", "cuda:99"], &["cuda:99"]);
    let plan = place.at("here/tiny/plan.toml");
    let text = edit(&plan, "kind = \"plain\"", "kind = \"plane\"");
    refused(&["here/tiny"], &["plain-s0", "did you mean `plain`"]);
    std::fs::write(&plan, &text).expect("written");
    edit(&plan, "folder = \"runs/", "folder = \"runs/../../../");
    refused(&["here/tiny"], &["its folder is not one inside runs/"]);
    std::fs::write(&plan, &text).expect("written");
    if !std::path::Path::new("/proc/driver/nvidia/version").exists() {
        edit(&plan, "device_kind = \"cpu\"", "device_kind = \"cuda\"");
        refused(&["here/tiny"], &["recorded on cuda", "no cuda device is here", "reslab doctor"]);
        std::fs::write(&plan, &text).expect("written");
    }
    assert!(place.files() == before);
    let one = place.call(&["reproduce", "here/tiny", "--seeds", "0"]).expect(0);
    assert!(one.err.contains("left out, since no result is recorded of them: layer_scale-s0"), "{}", one.err);
    assert!(one.out.contains("Reproduced: 1 of 1 runs have equal records."), "{}", one.out);
}
