//! Tables of chosen columns and of two axes, in every form.

mod support;

use reslab_record::{Axis, Plan, PlannedRun};
use reslab_report::{Columns, Options, Table, View, read_sweep, table_with};
use std::path::Path;
use support::{Fake, lr, plan, planned};

fn depth(value: &str) -> Axis {
    Axis { key: "model.depth".into(), label: "depth".into(), value: value.into(), grid: true }
}

fn write(dir: &Path, plan: &Plan, fakes: &[Fake]) {
    plan.write(dir).unwrap();
    for (run, fake) in plan.runs.iter().zip(fakes) {
        fake.write(dir, run);
    }
}

fn pick(dir: &Path, names: &[&str]) -> Result<View, String> {
    let sweep = read_sweep(dir).unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let columns = Columns::parse(&sweep, &names).map_err(|error| error.to_string())?;
    Ok(table_with(&sweep, &Options::default(), &columns.metrics()).unwrap().pick(&columns))
}

fn table(dir: &Path) -> Table {
    reslab_report::table(&read_sweep(dir).unwrap(), &Options::default()).unwrap()
}

/// The first line of a text that starts with a name, in its cells.
fn row(text: &str, name: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in\n{text}"));
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

/// Scores .70 .71 .72 and .72 .74 .74 of plain and of layer scale, a final loss of .5.
fn two_arms(dir: &Path) {
    let runs = (0..3).map(|seed| planned("plain", &[], seed));
    let runs: Vec<PlannedRun> = runs.chain((0..3).map(|seed| planned("ls", &[], seed))).collect();
    let scores = [0.70, 0.71, 0.72, 0.72, 0.74, 0.74];
    write(dir, &plan(runs), &scores.map(|test| Fake::trained(0.5, test)));
}

#[test]
fn chosen_columns_stand_in_the_order_asked_for_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    two_arms(dir.path());
    let names = ["test/top1", "test/loss", "difference", "sign_flip_p", "final_loss", "parameters", "seeds", "devices"];
    let view = pick(dir.path(), &names).unwrap();
    // d = .02, .03, .02: t(2) x .57735 / sqrt(3) = 1.434.
    let want =
        ["73.33 +- 2.87 (n=3, 0 diverged)", "0.7000 +- 0.0000", "+2.33 +- 1.43 (n=3)", "0.250", "0.500 +- 0.000"];
    let text = view.to_text();
    assert_eq!(row(&text, "ls")[1..], [&want[..], &["1,234,567", "3", "cpu, 1 thread"]].concat());
    assert_eq!(row(&text, "plain")[3], "baseline");
    assert!(!text.contains("spikes") && !text.contains("max grad"), "nothing else: {text}");
    let markdown = view.to_markdown();
    assert!(markdown.contains("| ls    | 73.33 +- 2.87 (n=3, 0 diverged) |"), "{markdown}");
    assert!(markdown.contains("## Findings") && markdown.contains("- Question: "), "it stands by itself");
    let tex = view.to_tex();
    assert!(tex.contains("ls & \\textbf{73.33} $\\pm$ 2.87 (n=3, 0 diverged) & 0.7000 $\\pm$"), "{tex}");
    let csv = view.to_csv();
    let head = csv.lines().next().unwrap();
    assert!(
        head.starts_with(
            "arm,test/top1_mean,test/top1_low,test/top1_high,test/top1_n,test/top1_diverged,test/loss_mean"
        )
    );
    assert!(head.ends_with(",sign_flip_p,final_loss_mean,final_loss_low,final_loss_high,final_loss_n,final_loss_diverged,parameters,seeds,devices"));
    assert!(csv.lines().nth(2).unwrap().starts_with("ls,0.73333333"), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&view.to_json()).unwrap();
    let ls = &json["parts"][0]["rows"][1];
    assert_eq!((&ls["arm"], &ls["test/top1"]["n"], &ls["test/top1"]["best"]), (&"ls".into(), &3.into(), &true.into()));
    assert_eq!(ls["sign_flip_p"], 0.25);
}

#[test]
fn an_unknown_column_is_refused_with_the_known_ones() {
    let dir = tempfile::tempdir().unwrap();
    two_arms(dir.path());
    let error = pick(dir.path(), &["test/top1", "test/top9"]).unwrap_err();
    assert!(
        error.starts_with(
            "--columns: no column is named `test/top9`; there are test/loss, test/top1, val/top1, seeds, "
        )
    );
    for known in ["difference", "holm_p", "final_loss", "paper"] {
        assert!(error.contains(known), "{error}");
        assert!(pick(dir.path(), &[known]).is_ok());
    }
}

/// Every column that the message names can be asked for, also where nothing has run.
#[test]
fn every_column_can_be_shown() {
    let dir = tempfile::tempdir().unwrap();
    two_arms(dir.path());
    let error = pick(dir.path(), &["?"]).unwrap_err();
    let all: Vec<&str> = error.split("there are ").nth(1).unwrap().split(", ").collect();
    assert!(all.len() > 20);
    let empty = tempfile::tempdir().unwrap();
    write(empty.path(), &plan(vec![planned("plain", &[], 0), planned("gated", &[], 0)]), &[]);
    for (dir, names) in [(&dir, &all[..]), (&empty, &all[3..])] {
        let view = pick(dir.path(), names).unwrap();
        let json: serde_json::Value = serde_json::from_str(&view.to_json()).unwrap();
        assert_eq!(json["parts"][0]["rows"][0].as_object().unwrap().len(), 1 + names.len());
        assert!(view.to_csv().lines().count() == 3 && !view.to_text().is_empty() && !view.to_tex().is_empty());
    }
}

/// Two depths, three seeds, of which plain's last at depth 12 diverged and gated's last at depth 4 is not done.
fn grid(dir: &Path) -> Plan {
    let at = |arm: &str, d: &str| (0..3).map(|seed| planned(arm, &[depth(d)], seed)).collect::<Vec<_>>();
    let runs = [at("plain", "4"), at("plain", "12"), at("gated", "4"), at("gated", "12")].concat();
    let plan = plan(runs);
    let mut fakes: Vec<Fake> =
        [0.5, 0.51, 0.52, 0.6, 0.6, 0.6, 0.55, 0.57, 0.0, 0.71, 0.72, 0.73].map(|test| Fake::trained(0.5, test)).into();
    fakes[5] = Fake::non_finite();
    write(dir, &plan, &fakes);
    std::fs::remove_file(plan.runs[8].dir(dir).join("done.json")).unwrap();
    plan
}

#[test]
fn two_axes_make_a_table_of_means_over_seeds() {
    let dir = tempfile::tempdir().unwrap();
    grid(dir.path());
    let view = table(dir.path()).cross("arm", "model.depth").unwrap();
    let text = view.to_text();
    assert!(text.contains("\ntest/top1 %, arm by model.depth\n"), "{text}");
    assert_eq!(row(&text, "arm "), ["arm", "4", "12"]);
    // (.6 + .6 + .1) / 3; of two seeds the range.
    assert_eq!(row(&text, "plain"), ["plain", "51.00 +- 2.48", "43.33 (n=3, 1 diverged)"]);
    assert_eq!(row(&text, "gated"), ["gated", "56.00 [55.00, 57.00] (n=2 of 3)", "72.00 +- 2.48"]);
    assert!(text.contains("[a, b] beside a mean of two seeds is their range"), "{text}");
    assert!(view.to_markdown().contains("| gated | 56.00 [55.00, 57.00] (n=2 of 3) |"));
    assert!(view.to_tex().contains("plain & 51.00 $\\pm$ 2.48 & 43.33 (n=3, 1 diverged) \\\\\n"), "{}", view.to_tex());
    let csv = view.to_csv();
    assert!(csv.starts_with("arm,model.depth = 4_mean,"), "{csv}");
    let fields: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
    assert_eq!((fields[0], fields[4], fields[9], fields[10]), ("plain", "3", "3", "1"));
    let json: serde_json::Value = serde_json::from_str(&view.to_json()).unwrap();
    assert_eq!(json["parts"][0]["rows"][1]["model.depth = 4"]["interval"], "range");
    // Turned, and by the short name of the axis.
    let turned = table(dir.path()).cross("depth", "arm").unwrap().to_text();
    assert_eq!(row(&turned, "model.depth "), ["model.depth", "plain", "gated"]);
    assert_eq!(row(&turned, "12 "), ["12", "43.33 (n=3, 1 diverged)", "72.00 +- 2.48"]);
}

#[test]
fn an_axis_that_is_not_there_is_refused_with_those_that_are() {
    let dir = tempfile::tempdir().unwrap();
    grid(dir.path());
    let error = |rows, cols| table(dir.path()).cross(rows, cols).unwrap_err().to_string();
    assert_eq!(error("arm", "model.width"), "--cols: no axis is named `model.width`; there are arm, model.depth");
    assert_eq!(error("seed", "arm"), "--rows: no axis is named `seed`; there are arm, model.depth");
    assert_eq!(error("depth", "model.depth"), "--rows and --cols: both are `model.depth`; a table needs two axes");
}

/// Depth 4 and 12, rates 1e-3 and 4e-3; validation likes 4e-3 for gated and 1e-3 for plain.
fn depths_and_rates() -> (Vec<PlannedRun>, Vec<Fake>) {
    let mut runs = Vec::new();
    let mut fakes = Vec::new();
    for (arm, val) in [("plain", [0.9, 0.1]), ("gated", [0.1, 0.9])] {
        for d in ["4", "12"] {
            for (index, rate) in ["1e-3", "4e-3"].into_iter().enumerate() {
                for seed in 0..3 {
                    runs.push(planned(arm, &[depth(d), lr(rate)], seed));
                    fakes.push(Fake::trained(val[index], 0.1 * (index + 1) as f64));
                }
            }
        }
    }
    (runs, fakes)
}

#[test]
fn a_third_axis_makes_parts_unless_it_is_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let (runs, fakes) = depths_and_rates();
    let mut plan = plan(runs);
    write(dir.path(), &plan, &fakes);
    let open = table(dir.path()).cross("arm", "depth").unwrap();
    let titles = |view: &View| {
        view.to_markdown().lines().filter(|l| l.starts_with("## test")).map(str::to_owned).collect::<Vec<_>>()
    };
    let want =
        ["## test/top1 %, arm by model.depth; optim.lr = 1e-3", "## test/top1 %, arm by model.depth; optim.lr = 4e-3"];
    assert_eq!(titles(&open), want);
    assert_eq!(open.to_csv().lines().count(), 1 + 4, "told apart by a first column");
    assert!(open.to_csv().starts_with("part,arm,"));
    let by_arm = table(dir.path()).cross("depth", "lr").unwrap();
    assert_eq!(titles(&by_arm)[1], "## test/top1 %, model.depth by optim.lr; arm = gated");

    plan.select = vec!["optim.lr".into()];
    plan.write(dir.path()).unwrap();
    let chosen = table(dir.path()).cross("arm", "depth").unwrap();
    assert_eq!(titles(&chosen), ["## test/top1 %, arm by model.depth"]);
    assert_eq!(row(&chosen.to_text(), "plain"), ["plain", "10.00 +- 0.00", "10.00 +- 0.00"], "at 1e-3");
    assert_eq!(row(&chosen.to_text(), "gated"), ["gated", "20.00 +- 0.00", "20.00 +- 0.00"], "at 4e-3");
    assert!(chosen.to_text().contains("Grid: optim.lr = 1e-3; optim.lr = 4e-3."));
    // What is chosen can be looked at as an axis.
    let all = table(dir.path()).cross("lr", "arm").unwrap();
    assert_eq!(titles(&all).len(), 2);
    let of_chosen = pick(dir.path(), &["test/top1", "difference"]).unwrap();
    assert!(
        of_chosen
            .to_csv()
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("Chosen per arm on val/top1: optim.lr,\"plain[depth=4,lr=1e-3]\","),
        "{}",
        of_chosen.to_csv()
    );
    assert_eq!(of_chosen.to_csv().lines().count(), 1 + 4 + 8);
    assert_eq!(row(&of_chosen.to_text(), "gated")[2], "+10.00 +- 0.00 (n=3)");
}
