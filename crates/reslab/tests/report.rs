//! `report` and `compare` from the outside: looks at a sweep's folder that write nothing but what they are asked to.

mod support;

use support::Place;

/// Sweeps of two arms and two seeds, each of its number of steps.
fn swept(sweeps: &[(&str, &str)]) -> Place {
    let place = Place::new();
    for (out, steps) in sweeps {
        place.call(&["sweep", "tiny.toml", "--set", steps, "--out", out]).expect(0);
    }
    place
}

#[test]
fn looks_at_a_folder_print_what_was_asked_for_and_change_nothing() {
    let place = swept(&[("a", "train.steps=10")]);
    let table = std::fs::read_to_string(place.at("a/tiny/table.md")).expect("a table");
    assert!(!table.contains("Records:"), "a real run's records are whole: {table}");
    let before = place.files();
    let columns = place
        .call(&["report", "a/tiny", "--columns", "test/top1,probe/attention_entropy,finding", "--format", "csv"])
        .expect(0);
    assert!(columns.out.starts_with("arm,test/top1_mean,") && columns.out.lines().count() == 3, "{}", columns.out);
    let probe = place.call(&["report", "a/tiny", "--metric", "probe/attention_entropy"]).expect(0);
    assert!(!probe.out.contains("val/attention_entropy") && probe.out.contains("is their range"), "{}", probe.out);
    let unknown = place.call(&["report", "a/tiny", "--columns", "test/top9"]).expect(2);
    assert!(unknown.err.contains("no column is named `test/top9`; there are probe/"), "{}", unknown.err);
    let axes = place.call(&["report", "a/tiny", "--rows", "arm", "--cols", "model.depth"]).expect(2);
    assert!(axes.err.contains("--cols: no axis is named `model.depth`; there are arm"), "{}", axes.err);
    place.call(&["report", "a/tiny", "--rows", "arm"]).expect(2);
    let paper = place.call(&["report", "a/tiny", "--paper", "none.toml"]).expect(2);
    assert!(paper.err.contains("none.toml: cannot read"), "{}", paper.err);
    assert!(place.files() == before, "a look wrote something");
}

#[test]
fn a_table_can_be_written_into_a_file() {
    let place = swept(&[("a", "train.steps=10")]);
    let before = place.files().len();
    std::fs::write(
        place.at("paper.toml"),
        "source = \"A 2021\"\nmetric = \"test/top1\"\n[[value]]\narm = \"plain\"\nvalue = 50.5\n",
    )
    .expect("written");
    let called =
        place.call(&["report", "a/tiny", "--paper", "paper.toml", "--format", "json", "--out", "table.json"]).expect(0);
    assert!(called.out.is_empty() && called.err.contains("wrote table.json"), "{}{}", called.out, called.err);
    let table = support::json(&place.at("table.json"));
    assert_eq!(table["rows"][0]["paper"], serde_json::json!({"value": 0.505, "source": "A 2021"}));
    assert_eq!(place.files().len(), before + 2);
}

#[test]
fn two_sweeps_are_compared_and_a_folder_that_is_none_is_refused() {
    let place = swept(&[("a", "train.steps=10"), ("b", "train.steps=12")]);
    let before = place.files();
    let called = place.call(&["compare", "a/tiny", "b/tiny"]).expect(0);
    for part in ["b/tiny against a/tiny", "paired", "train.steps 10 | 12", "layer_scale", "read this as a screening"] {
        assert!(called.out.contains(part), "no {part:?} in\n{}", called.out);
    }
    let csv = place.call(&["compare", "a/tiny", "b/tiny", "--format", "csv", "--metric", "test/loss"]).expect(0);
    assert!(csv.out.starts_with("arm,a_mean,"), "{}", csv.out);
    for (folders, named) in [(["a/tiny", "nowhere"], "nowhere"), (["a", "b/tiny"], "a: no sweep's folder")] {
        let refused = place.call(&[&["compare"], &folders[..]].concat()).expect(2);
        assert!(refused.err.contains(named), "{}", refused.err);
    }
    assert!(place.call(&["compare", "a/tiny", "b/tiny", "--metric", "x"]).expect(2).err.contains("recorded are"));
    assert!(place.files() == before, "compare wrote something");
}
