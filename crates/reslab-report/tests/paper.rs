//! Published values beside ours: where they are put, in every form, and what is refused.

mod support;

use reslab_record::{Axis, PlannedRun};
use reslab_report::{Columns, Options, Paper, Table, read_sweep, table};
use std::fs;
use std::path::Path;
use support::{Fake, plan, planned};

fn depth(value: &str) -> Axis {
    Axis { key: "model.depth".into(), label: "depth".into(), value: value.into(), grid: true }
}

/// Plain and layer scale at depths 12 and 24, one seed.
fn sweep(dir: &Path) {
    let run = |arm: &str, d: &str| {
        let mut run = planned(arm, &[depth(d)], 0);
        run.config["model"]["depth"] = d.parse::<i64>().unwrap().into();
        run
    };
    let runs: Vec<PlannedRun> =
        ["plain", "layer_scale"].iter().flat_map(|arm| [run(arm, "12"), run(arm, "24")]).collect();
    let plan = plan(runs);
    plan.write(dir).unwrap();
    plan.runs.iter().zip([0.70, 0.60, 0.71, 0.72]).for_each(|(run, test)| Fake::trained(0.5, test).write(dir, run));
}

const FILE: &str = r#"
source = "A et al. 2021, Table 1"
metric = "test/top1"

[[value]]
arm = "plain"
at = { "model.depth" = 24 }
value = 81.0

[[value]]
arm = "layer_scale"
at = { "model.depth" = 12 }
value = 80.55
source = "B 2022"

[[value]]
arm = "rezero"
at = { "model.depth" = 12 }
value = 78
"#;

fn with(dir: &Path, text: &str) -> Result<Table, String> {
    let path = dir.join("paper.toml");
    fs::write(&path, text).unwrap();
    let read = read_sweep(dir).unwrap();
    let mut table = table(&read, &Options::default()).unwrap();
    let paper = Paper::read(&path).map_err(|error| error.to_string())?;
    table.set_paper(&read, &paper).map_err(|error| error.to_string())?;
    Ok(table)
}

#[test]
fn published_values_stand_beside_the_rows_that_they_are_about_with_their_source() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path());
    let table = with(dir.path(), FILE).unwrap();
    let shown: Vec<Option<&str>> =
        table.published.as_ref().unwrap().rows.iter().map(|p| p.as_ref().map(|p| p.shown.as_str())).collect();
    assert_eq!(shown, [None, Some("81.0 [1]"), Some("80.55 [2]"), None]);
    let markdown = table.to_markdown();
    assert!(markdown.contains("| vs plain |     paper |\n"), "{markdown}");
    assert!(markdown.contains("| baseline |  81.0 [1] |\n"), "{markdown}");
    for line in [
        "- paper [1]: A et al. 2021, Table 1\n",
        "- paper [2]: B 2022\n",
        "- paper, but of no arm and point here: rezero at model.depth = 12.\n",
    ] {
        assert!(markdown.contains(line), "no {line:?} in\n{markdown}");
    }
    let tex = table.to_tex();
    assert!(
        tex.contains("& 80.55 [2] \\\\\n") && tex.contains("{\\footnotesize paper [1]: A et al. 2021, Table 1} \\\\\n"),
        "{tex}"
    );
    assert!(table.to_text().contains("paper [2]: B 2022"));
    let csv = table.to_csv();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let at = reader.headers().unwrap().iter().position(|name| name == "paper").unwrap();
    let rows: Vec<(String, String)> =
        reader.records().map(|row| row.unwrap()).map(|row| (row[at].to_owned(), row[at + 1].to_owned())).collect();
    assert_eq!(rows[1], ("0.81".to_owned(), "A et al. 2021, Table 1".to_owned()), "shares, as everywhere in it");
    assert_eq!(rows[0], (String::new(), String::new()));
    let json: serde_json::Value = serde_json::from_str(&table.to_json()).unwrap();
    assert_eq!(json["rows"][2]["paper"], serde_json::json!({"value": 0.8055, "source": "B 2022"}));
    // Without a file there is no such column.
    let bare = reslab_report::table(&read_sweep(dir.path()).unwrap(), &Options::default()).unwrap();
    assert!(!bare.to_csv().contains("paper") && !bare.to_markdown().contains("paper"), "negative control");
}

#[test]
fn two_axes_and_chosen_columns_have_them_too() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path());
    let one = FILE.replace("source = \"B 2022\"\n", "");
    let table = with(dir.path(), &one).unwrap();
    let crossed = table.cross("arm", "depth").unwrap();
    let text = crossed.to_text();
    let line = |name: &str| {
        text.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("plain"), "plain 70.00 - 60.00 81.0");
    assert_eq!(line("layer_scale"), "layer_scale 71.00 80.55 72.00 -");
    assert!(text.contains("paper: A et al. 2021, Table 1"), "{text}");
    assert!(crossed.to_csv().contains("model.depth = 24 paper,model.depth = 24 paper_source"), "{}", crossed.to_csv());
    assert!(crossed.to_tex().contains("\\multicolumn{5}{l}{\\footnotesize paper: A et al. 2021, Table 1}"));
    let sweep = read_sweep(dir.path()).unwrap();
    let columns =
        |names: &[&str]| Columns::parse(&sweep, &names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).unwrap();
    let head = |names: &[&str]| table.pick(&columns(names)).to_csv().lines().next().unwrap().to_owned();
    assert!(head(&["seeds"]).ends_with("seeds,paper,paper_source"), "last, where no place is chosen");
    assert!(head(&["paper", "seeds"]).starts_with("arm,paper,paper_source,seeds"));
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_file_and_key() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path());
    let with_value = |value: &str| FILE.replace("81.0", value);
    let cases = [
        (
            FILE.replace("source = \"A", "sauce = \"A"),
            "unknown field `sauce`, expected one of `source`, `metric`, `value`",
        ),
        (FILE.replace("metric = \"test/top1\"\n", ""), "missing field `metric`"),
        (
            FILE.replace("arm = \"plain\"", "name = \"plain\""),
            "unknown field `name`, expected one of `arm`, `at`, `value`, `source`",
        ),
        (FILE.replace("A et al. 2021, Table 1", " "), "source: expected words, found none"),
        (FILE.split("[[value]]").next().unwrap().to_owned(), "value: expected at least one [[value]]"),
        (with_value("\"81\""), "value 1: value: expected a number, found \"81\""),
        (with_value("nan"), "value 1: value: expected a number, found nan"),
        (with_value("0.81"), "value 1: value: expected an accuracy in percent, above 1 and at most 100, found 0.81"),
        (with_value("810"), "value 1: value: expected an accuracy in percent, above 1 and at most 100, found 810"),
        (
            FILE.replace("test/top1", "val/top1"),
            "metric: the values are of val/top1, but the table is of test/top1; --metric val/top1",
        ),
        (
            FILE.replacen("model.depth", "model.dept", 1),
            "value 1: at.\"model.dept\": expected a key of the runs' configuration",
        ),
        (
            FILE.replace("\"plain\"", "\"rezero\"").replace(" 24", " 12"),
            "value 3: value 1 is of the same arm and point",
        ),
        (
            FILE.replace("= 24", "= 36").replace("\"layer_scale\"", "\"ls\""),
            "value: none of the 3 values is of an arm and point of this sweep, whose arms are plain, layer_scale",
        ),
    ];
    for (text, want) in cases {
        let error = with(dir.path(), &text).unwrap_err();
        assert!(error.contains(want) && error.contains("paper.toml"), "no {want:?} in {error}");
    }
    let error = Paper::read(&dir.path().join("none.toml")).unwrap_err().to_string();
    assert!(error.contains("none.toml: cannot read: No such file"), "{error}");
}

/// A value without a point is of the arm wherever nothing more exact is published.
#[test]
fn the_value_that_says_most_of_the_point_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path());
    let table = with(dir.path(), &format!("{FILE}\n[[value]]\narm = \"plain\"\nvalue = 50.5\n")).unwrap();
    let shown: Vec<&str> =
        table.published.as_ref().unwrap().rows.iter().map(|p| p.as_ref().map_or("", |p| &p.shown)).collect();
    assert_eq!(shown[..2], ["50.5 [1]", "81.0 [1]"]);
}

/// The documented example is read; its arms are named as in the configs of this repository.
#[test]
fn the_documented_example_is_a_file_that_can_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("configs/paper/cait-depth.toml");
    Paper::read(&path).unwrap();
    let page = fs::read_to_string(root.join("docs/paper.md")).unwrap();
    assert!(page.contains("configs/paper/cait-depth.toml"));
}
