//! From a folder of records to its page: what stands in it, that it repeats, how large it is, and what becomes of it where
//! records are hostile, damaged or missing.

mod support;

use reslab_page::{PAGE_FILE, write_page};
use reslab_record::*;
use reslab_report::{Options, read_sweep, table};
use std::fs;
use std::path::Path;
use std::time::Instant;
use support::{Fake, finished, page_of, plan, published};

/// The text of a page, elements' ends as bars.
fn text(page: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for c in page.chars() {
        match c {
            '<' => is_tag = true,
            '>' if is_tag => {
                is_tag = false;
                text.push('|');
            }
            _ if !is_tag => text.push(c),
            _ => {}
        }
    }
    while text.contains("||") {
        text = text.replace("||", "|");
    }
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

#[test]
fn every_figure_of_table_csv_stands_in_the_page_as_it_is() {
    for name in ["depth48-cpu", "lr_grid-cpu"] {
        let (page, table) = page_of(&published(name));
        // An empty cell leaves no text between its ends.
        let text = text(&page);
        let csv = table.to_csv();
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        for row in reader.records().map(|row| row.unwrap()) {
            let filled: Vec<String> =
                row.iter().filter(|field| !field.is_empty()).map(|f| f.replace('-', "\u{2212}")).collect();
            let want = format!("|{}|", filled[1..].join("|"));
            let have = text.replace("|-", "|\u{2212}").replace("e-", "e\u{2212}");
            assert!(have.contains(&want), "{name}: {want}");
        }
        assert!(!text.contains("|0.7427000001|"), "negative control");
    }
}

/// 0.7427 +- 0.0263 of the baseline, as in table.md.
#[test]
fn the_answer_stands_first_and_the_tables_show_what_table_md_shows() {
    let (page, table) = page_of(&published("depth48-cpu"));
    let text = text(&page);
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is missing"));
    assert!(place("Which residual scaling keeps") < place(&table.findings[0]));
    assert!(place(&table.findings[0]) < place("74.27 \u{b1} 2.63"));
    for finding in table.findings.iter().chain(&table.legend) {
        place(finding);
    }
    for part in
        ["24 runs, and all have their result.", "cargo run -- reproduce DIR", "9054d9a51d14", "depth = 48", "AMD EPYC"]
    {
        place(part);
    }
}

/// Every text that comes from records carries markup that would end a script, a style or an attribute.
#[test]
fn text_from_records_is_never_markup() {
    const EVIL: &str = "</script></style></title>\"'><img src=x onerror=\"document.title='hit'\">&lt;";
    let dir = tempfile::tempdir().unwrap();
    let mut plan = plan(&["plain", EVIL], 2);
    plan.name = EVIL.into();
    plan.question = EVIL.into();
    plan.source.path = EVIL.into();
    plan.profile = Some(EVIL.into());
    plan.set = vec![EVIL.into()];
    plan.write(dir.path()).unwrap();
    for run in &plan.runs {
        let fake = Fake::default();
        fake.write_unfinished(dir.path(), run).log(EVIL).unwrap();
        match run.seed {
            0 => fake.write(dir.path(), run),
            _ => RunDir::open(&run.dir(dir.path()))
                .unwrap()
                .write_failed(&Failed { class: FailureClass::Bug, message: EVIL.into(), last_step: None })
                .unwrap(),
        }
        fs::write(run.dir(dir.path()).join("config.toml"), EVIL).unwrap();
    }
    let (page, _) = page_of(dir.path());
    assert!(!page.contains("<img"), "{}", &page[page.find("<img").unwrap()..][..200]);
    for (tag, want) in
        [("<script", 2), ("</script", 2), ("<style", 1), ("</style", 1), ("</title>", count(&page, "<title>"))]
    {
        assert_eq!(count(&page, tag), want, "{tag}");
    }
    assert!(count(&page, "&lt;img") > 10 && page.contains("\\u003c/script>"), "it is there, as text");
}

fn count(page: &str, what: &str) -> usize {
    page.matches(what).count()
}

/// The only addresses are names of XML's vocabulary, which nothing asks for.
#[test]
fn the_page_asks_for_nothing_from_elsewhere() {
    let (page, _) = page_of(&published("depth48-cpu"));
    let without = page.replace("http://www.w3.org/2000/svg", "");
    for address in ["http:", "https:", "//cdn", "src=", "url(", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!without.contains(address), "{address}");
    }
    for link in without.split("href=\"").skip(1) {
        assert!(link.starts_with('#') || link.starts_with("data:image/png;base64,"), "{}", &link[..40]);
    }
    assert!(page.contains("default-src 'none'; script-src 'sha256-"));
}

#[test]
fn equal_records_give_equal_bytes_wherever_they_are() {
    let dir = finished(&["plain", "gated"], 2);
    let (first, _) = page_of(dir.path());
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("moved");
    fs::rename(dir.path(), &moved).unwrap();
    assert!(page_of(&moved).0 == first);
    assert!(!first.contains("/home/someone") && !first.contains(moved.to_str().unwrap()), "no path of a machine");

    let write = || {
        let sweep = read_sweep(&moved).unwrap();
        let table = table(&sweep, &Options::default()).unwrap();
        write_page(&moved, &sweep, &table, &reslab_plot::plots(&moved, &sweep, &table).unwrap()).unwrap();
        fs::metadata(moved.join(PAGE_FILE)).unwrap().modified().unwrap()
    };
    assert_eq!(write(), write(), "a page that is there already is left alone");
    assert!(fs::read_to_string(moved.join(PAGE_FILE)).unwrap() == first);
}

#[test]
fn a_sweep_that_goes_on_says_how_far_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(&["plain", "gated"], 2);
    plan.write(dir.path()).unwrap();
    let (page, _) = page_of(dir.path());
    assert!(page.contains("<b>0 of 4 runs have their result</b>") && page.contains("No run has recorded a step yet."));

    Fake::default().write(dir.path(), &plan.runs[0]);
    Fake::default().write_unfinished(dir.path(), &plan.runs[1]);
    // A row that is being written: no damage while the run goes on.
    append(&plan.runs[1].dir(dir.path()).join("steps.csv"), "200,0.9,1.");
    let (page, _) = page_of(dir.path());
    assert!(page.contains("<b>1 of 4 runs have their result</b>") && page.contains("what it says is provisional"));
    let found: Vec<&str> =
        page.split("<li>").filter_map(|item| item.split_once("</li>")).map(|(item, _)| item).collect();
    assert!(
        page.contains("No result yet; steps up to 199 are recorded.") && !page.contains("records incomplete"),
        "{found:?}"
    );

    for run in &plan.runs[1..] {
        Fake::default().write(dir.path(), run);
    }
    assert!(!page_of(dir.path()).0.contains("provisional"));
}

fn append(path: &Path, text: &str) {
    let before = fs::read_to_string(path).unwrap();
    fs::write(path, before + text).unwrap();
}

/// Each run lacks or tears something else; each is named, and what is left is shown.
#[test]
fn damaged_and_missing_records_are_named_and_break_nothing() {
    let dir = finished(&["plain", "gated"], 6);
    let of = |arm: &str, seed: u64, name: &str| dir.path().join(format!("runs/{arm}-s{seed}/{name}"));
    append(&of("plain", 0, "evals.csv"), "209,val,ra");
    append(&of("plain", 1, "steps.csv"), "200,0.9,1.");
    append(&of("plain", 2, "steps.csv"), "200,1.0,NaN,NaN,NaN,,,,,,,NaN,NaN\n");
    fs::remove_file(of("plain", 3, "steps.csv")).unwrap();
    fs::remove_file(of("plain", 4, "evals.csv")).unwrap();
    fs::write(of("plain", 5, "done.json"), "{ torn").unwrap();
    fs::remove_file(of("gated", 0, "config.toml")).unwrap();
    fs::remove_file(of("gated", 1, "log.txt")).unwrap();
    fs::write(of("gated", 2, "env.json"), "{\"reslab\": \"0.0.1\", \"libtorch\": \"2.0.0\"}").unwrap();
    fs::write(of("gated", 3, "layers.csv"), "what\n1\n").unwrap();
    fs::remove_dir_all(of("gated", 4, "")).unwrap();
    fs::write(of("gated", 5, "steps.csv"), [0xff, 0xfe, b'\n', 0, b'\n']).unwrap();
    let (page, _) = page_of(dir.path());
    let text = text(&page);
    for named in [
        "evals.csv: the last line is torn and was left out",
        "steps.csv: the last line is torn and was left out",
        "steps.csv: ends at step 200, but the run had 200 steps",
        "steps.csv: missing",
        "evals.csv: missing",
        "done.json: damaged",
        "config.toml: missing or not readable; what was planned is shown",
        "log.txt: missing or not readable",
        "the runs come from 2 versions of libtorch",
        "layers.csv: damaged from line 2 on",
        "Not begun, or no step is recorded.",
        "steps.csv: damaged from line 2 on",
    ] {
        assert!(text.contains(named), "{named}");
    }
    assert!(text.contains("10 of 12 runs have their result"));
}

#[test]
fn a_run_that_was_not_finite_is_drawn_to_its_end() {
    let dir = finished(&["plain", "gated"], 2);
    let run = dir.path().join("runs/gated-s1");
    let mut done: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(run.join("done.json")).unwrap()).unwrap();
    done["outcome"] = "non_finite".into();
    done["non_finite_step"] = 200.into();
    fs::write(run.join("done.json"), done.to_string()).unwrap();
    append(&run.join("steps.csv"), "200,1.0,NaN,0.001,inf,,,,,,,1,1\n");
    let (page, _) = page_of(dir.path());
    assert!(page.contains("loss or gradient norm was not finite at step 200"));
    let data = data(&page);
    let run = &data["runs"].as_array().unwrap()[3];
    assert_eq!(run["end"], 200);
    let loss = &data["series"][run["curves"]["loss"].as_u64().unwrap() as usize];
    assert_eq!(loss["y"].as_array().unwrap().last(), Some(&serde_json::Value::Null));
}

fn data(page: &str) -> serde_json::Value {
    let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    serde_json::from_str(&page[start..start + page[start..].find("</script>").unwrap()]).unwrap()
}

/// The bound that the page is made for: 24 runs of 10,000 steps with telemetry every 500. A spike of one step in one of them
/// must be in what is drawn.
#[test]
fn twenty_four_runs_of_ten_thousand_steps_are_under_three_megabytes_and_keep_their_spike() {
    let arms = ["plain", "a", "bb", "ccc", "dddd", "eeeee", "ffffff", "ggggggg"];
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(&arms, 3);
    plan.write(dir.path()).unwrap();
    let spike = (7_777, 41.5);
    for (index, run) in plan.runs.iter().enumerate() {
        let spike = (index == 10).then_some(spike);
        Fake { steps: 10_000, spike, telemetry_every: 500, ..Fake::default() }.write(dir.path(), run);
    }
    let started = Instant::now();
    let (page, _) = page_of(dir.path());
    println!("{} bytes, {:.1} s with reading and plots", page.len(), started.elapsed().as_secs_f64());
    assert!(page.len() < 3_000_000, "{} bytes", page.len());

    let data = data(&page);
    let run = &data["runs"][10];
    let series = &data["series"][run["curves"]["loss"].as_u64().unwrap() as usize];
    let list = |key: &str| series[key].as_array().unwrap().clone();
    let at = list("y").iter().position(|y| y.as_f64() == Some(spike.1)).expect("the spike is drawn");
    assert_eq!(list("x")[..=at].iter().map(|x| x.as_u64().unwrap()).sum::<u64>(), spike.0);
    assert!(list("x").len() < 1_000 && data["thinned"] == true);
    assert!(page.contains("Training loss spiked at step 7777"), "and told");
    let rates = data["runs"].as_array().unwrap().iter().map(|run| run["curves"]["lr"].as_u64().unwrap());
    assert_eq!(rates.collect::<std::collections::BTreeSet<_>>().len(), 1, "a curve that all runs share stands once");
}
