//! The page of a published sweep in headless Chromium: what a reader does with pointer and keys, on a wide screen and on a
//! phone, in light and dark, and what axe-core says of it.

mod driver;
#[path = "../support/mod.rs"]
mod support;

use driver::{Browser, ENTER, LEFT, TAB, with_page};
use flate2::read::GzDecoder;
use reslab_record::sha256_hex;
use reslab_report::Table;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read;
use std::sync::OnceLock;

/// depth48-cpu of the repository.
fn depth48() -> &'static (String, Table) {
    static PAGE: OnceLock<(String, Table)> = OnceLock::new();
    PAGE.get_or_init(|| support::page_of(&support::published("depth48-cpu")))
}

#[test]
fn the_page_opens_without_an_error_and_loads_nothing() {
    with_page(&depth48().0, |browser| {
        assert_eq!(browser.console(), Vec::<Value>::new());
        assert_eq!(browser.value("performance.getEntriesByType('resource').length"), 0);
        assert_eq!(browser.value("document.querySelectorAll('#chart svg path.strong').length"), 24);
        // Negative control: an error is seen, and the policy keeps a script out that is not the page's.
        browser.run(
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hit = 1'}))",
        );
        assert_eq!(browser.value("window.hit"), Value::Null);
        assert_eq!(browser.console().len(), 1);
    });
}

/// The texts of a column of a table.
fn column(table: &str, index: usize) -> String {
    format!(
        "[...document.querySelectorAll('{table} tbody tr')].map(row => row.cells[{index}].innerText.replace(/\\s+/g, ' ').trim())"
    )
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

const ACCURACY: &str = "#results section:first-of-type table";

#[test]
fn a_click_on_a_column_sorts_by_it_and_another_one_turns_it_round() {
    with_page(&depth48().0, |browser| {
        let (names, figures) = (column(ACCURACY, 0), column(ACCURACY, 1));
        let plan = texts(&browser.value(&names));
        assert_eq!((plan[0].as_str(), plan[7].as_str()), ("plain", "gated"));

        let head = format!("{ACCURACY} thead th:nth-child(2)");
        browser.click(&format!("{head} button"));
        let number = |text: &String| text.split(' ').next().unwrap().parse::<f64>().unwrap();
        let sorted: Vec<f64> = texts(&browser.value(&figures)).iter().map(number).collect();
        assert!(sorted.windows(2).all(|pair| pair[0] >= pair[1]) && sorted[0] == 76.31, "{sorted:?}");
        assert_eq!(texts(&browser.value(&names))[0], "layer_scale[init=1e-1]", "the rows went along");
        assert_eq!(browser.value(&format!("document.querySelector('{head}').ariaSort")), "descending");

        browser.click(&format!("{head} button"));
        let turned: Vec<f64> = texts(&browser.value(&figures)).iter().map(number).collect();
        assert!(turned.windows(2).all(|pair| pair[0] <= pair[1]), "{turned:?}");
        let sorts =
            browser.value(&format!("[...document.querySelectorAll('{ACCURACY} thead th')].map(th => th.ariaSort)"));
        assert_eq!(sorts, json!(["none", "ascending", "none", "none"]));

        // Differences are signed, and the baseline has none: it stands behind them, either way.
        for _ in 0..2 {
            browser.click(&format!("{ACCURACY} thead th:nth-child(4) button"));
            assert_eq!(texts(&browser.value(&names))[7], "plain");
        }
        assert_eq!(texts(&browser.value(&names))[0], "layer_scale+drop_path");
        browser.click(&format!("{ACCURACY} thead th:first-child button"));
        let by_name = texts(&browser.value(&names));
        assert_eq!([&by_name[0], &by_name[1], &by_name[7]], ["drop_path", "gated", "plain"]);
    });
}

#[test]
fn the_tables_have_the_numbers_of_table_csv() {
    let (page, table) = depth48();
    with_page(page, |browser| {
        let text = table.to_csv();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let rows: Vec<Vec<String>> =
            reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
        // What is shown: rounded, and of a row's own arm.
        let at = |name: &str| header.iter().position(|column| column == name).unwrap();
        let shown = texts(&browser.value(&column(ACCURACY, 1)));
        let names = texts(&browser.value(&column(ACCURACY, 0)));
        for (index, row) in rows.iter().enumerate() {
            let figure = |name: &str| row[at(name)].parse::<f64>().unwrap();
            let (mean, high) = (figure("test/top1_mean"), figure("test/top1_high"));
            let want = format!(
                "{:.2} \u{b1} {:.2} (n={}, {} diverged)",
                100.0 * mean,
                100.0 * (high - mean),
                row[at("test/top1_n")],
                row[at("diverged")]
            );
            assert_eq!((&names[index], &shown[index]), (&row[0], &want));
        }
        // All figures, with all digits.
        browser.run("document.querySelector('details.figures').open = true");
        let cells = "[...document.querySelectorAll('details.figures tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))";
        let cells = browser.value(cells);
        let cells: Vec<Vec<String>> = cells.as_array().unwrap().iter().map(texts).collect();
        assert_eq!(cells[0], header);
        let minus = |row: &Vec<String>| row.iter().map(|cell| cell.replacen('\u{2212}', "-", 1)).collect::<Vec<_>>();
        assert_eq!(cells[1..].iter().map(minus).collect::<Vec<_>>(), rows);
    });
}

const LINES: &str = "document.querySelectorAll('#chart svg path.strong').length";

#[test]
fn arms_and_seeds_are_switched_on_and_off() {
    with_page(&depth48().0, |browser| {
        let first_arm = "#chart .legend tbody tr:first-child button";
        browser.click(first_arm);
        assert_eq!(browser.value(LINES), 21);
        assert_eq!(browser.value(&format!("document.querySelector('{first_arm}').ariaPressed")), "false");
        browser.click("#chart .legend thead th:nth-child(3) button");
        assert_eq!(browser.value(LINES), 14, "seed 1 of seven arms");
        browser.click(first_arm);
        assert_eq!(browser.value(LINES), 16);
        browser.click("#chart .buttons button:last-child");
        assert_eq!(browser.value(LINES), 0);
        browser.click("#chart .buttons button:first-child");
        assert_eq!(browser.value(LINES), 24);
        // Each figure has its curves.
        for figure in 1..=4 {
            browser.click(&format!("#chart .choice label:nth-of-type({figure})"));
            assert_eq!(browser.value(LINES), 24, "figure {figure}");
            let d = browser.value("[...document.querySelectorAll('#chart svg path')].every(path => !path.getAttribute('d').includes('NaN'))");
            assert_eq!(d, true);
        }
        assert_eq!(browser.console(), Vec::<Value>::new());
    });
}

/// Row 120 of plain's steps.csv, seed 0: the value under the pointer is the recorded one.
#[test]
fn values_stand_under_the_pointer_and_at_the_slider() {
    let steps = std::fs::read_to_string(support::published("depth48-cpu/runs/plain-s0-f8b2c456/steps.csv")).unwrap();
    let loss = |step: usize| steps.lines().nth(step + 1).unwrap().split(',').nth(2).unwrap().parse::<f64>().unwrap();
    with_page(&depth48().0, |browser| {
        browser.click("#chart .buttons button:last-child");
        browser.click("#chart .legend tbody tr:first-child button");
        for seed in [3, 4] {
            browser.click(&format!("#chart .legend thead th:nth-child({seed}) button"));
        }
        browser.point("#chart svg[role=img]", 40, 10);
        let tip = browser.value("document.querySelector('.tip:not([hidden])').innerText");
        let tip = tip.as_str().unwrap().to_owned();
        let (label, reading) = tip.split_once('\n').unwrap();
        assert_eq!(label, "plain, seed 0");
        let (step, value) = reading.strip_prefix("step ").unwrap().split_once(": ").unwrap();
        let value: f64 = value.split(',').next().unwrap().parse().unwrap();
        let want = loss(step.parse().unwrap());
        assert!((value - want).abs() < 1e-5 * want, "{tip}: {want} is recorded");

        browser.run("const s = document.querySelector('#at-step'); s.value = 120; s.dispatchEvent(new Event('input'))");
        let cell = texts(&browser.value(&column("#chart .legend", 1)))[0].parse::<f64>().unwrap();
        assert!((cell - loss(120)).abs() < 1e-3, "{cell}: {} is recorded", loss(120));
        assert!((loss(120) - loss(121)).abs() > 1e-3, "negative control");
    });
}

/// Everything that can be used, by what the page says of it; of a group of radio buttons the chosen one.
const USABLE: &str = "[...document.querySelectorAll('a[href], button, input, summary, [tabindex=\"0\"]')]
    .filter(e => e.checkVisibility() && !(e.type === 'radio' && !e.checked))";

#[test]
fn the_keyboard_reaches_and_works_everything() {
    with_page(&depth48().0, |browser| {
        let all = browser.value(&format!("(window.all = {USABLE}).length")).as_u64().unwrap();
        assert!(all > 100, "{all}");
        let mut reached = BTreeSet::new();
        for press in 0..all + 5 {
            browser.press(TAB);
            let at = browser.run(FOCUSED);
            if press == 0 {
                assert_eq!(at["text"], "Skip to the answer");
            }
            assert_eq!(at["seen"], true, "no sign of focus at {}", at["text"]);
            reached.extend(at["at"].as_i64().filter(|at| *at >= 0));
        }
        let missed: Vec<u64> = (0..all).filter(|at| !reached.contains(&(*at as i64))).collect();
        let names = browser.value(&format!("{missed:?}.map(at => all[at].outerHTML.slice(0, 120))"));
        assert!(missed.is_empty(), "not reached: {names}");

        // Sort, switch, read and open, by keys alone.
        browser.run(&format!("document.querySelector('{ACCURACY} thead th:nth-child(2) button').focus()"));
        browser.press(ENTER);
        assert_eq!(
            browser.value(&format!("document.querySelector('{ACCURACY} thead th:nth-child(2)').ariaSort")),
            "descending"
        );
        browser.run("document.querySelector('#chart .legend tbody button').focus()");
        browser.press(' ');
        assert_eq!(browser.value(LINES), 21);
        browser.run("document.querySelector('#at-step').focus()");
        browser.press(LEFT);
        assert_eq!(browser.value("document.querySelector('#chart output').innerText"), "step 298");
        browser.run("document.querySelector('details.run summary').focus()");
        browser.press(ENTER);
        assert_eq!(browser.value("document.querySelector('details.run').open"), true);
        browser.run("document.querySelector('#runs table a').focus()");
        browser.press(ENTER);
        let named = "document.querySelector(`[id=\"${decodeURIComponent(location.hash.slice(1))}\"]`).open";
        assert_eq!(browser.value(named), true);
    });
}

/// What has the focus, and whether that can be seen: an outline of its own or of what stands for it.
const FOCUSED: &str = "
    const e = document.activeElement;
    const outlined = e => e && getComputedStyle(e).outlineStyle !== 'none' && parseFloat(getComputedStyle(e).outlineWidth) >= 1;
    return {at: all.indexOf(e), text: e.innerText.slice(0, 60), seen: e === document.body || outlined(e) || outlined(e.nextElementSibling)};";

/// On a phone tables scroll in their frames, and nothing else is wider than the page.
#[test]
fn nothing_overflows_a_page_of_400_pixels() {
    with_page(&depth48().0, |browser| {
        browser.show(400, "light");
        browser.run("for (const one of document.querySelectorAll('details')) one.open = true");
        let widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]";
        let widths = browser.value(widths);
        assert!(widths[0] == widths[1] && widths[1].as_u64().unwrap() <= 400, "{widths}");
        let framed = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length";
        assert!(browser.value(framed).as_u64().unwrap() > 5);
        let chart = browser.value("document.querySelector('#chart svg').getBoundingClientRect().width");
        assert!(chart.as_f64().unwrap() > 300.0, "{chart}");
        // Negative control.
        browser.run("document.querySelector('main').append(Object.assign(document.createElement('pre'), {style: 'width: 500px'}))");
        assert!(browser.value("document.documentElement.scrollWidth").as_u64().unwrap() > 400);
    });
}

/// axe-core 4.14.1, as its registry has it.
fn axe() -> String {
    let mut source = Vec::new();
    GzDecoder::new(&include_bytes!("../axe/axe.min.js.gz")[..]).read_to_end(&mut source).unwrap();
    assert_eq!(sha256_hex(&source), "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c");
    String::from_utf8(source).unwrap()
}

fn violations(browser: &Browser) -> Vec<String> {
    let script = "const done = arguments[arguments.length - 1];
        axe.run(document, {resultTypes: ['violations']}).then(
            found => done(found.violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.target}: ${n.failureSummary}`))),
            error => done([String(error)]));";
    texts(&browser.run_async(script))
}

#[test]
fn axe_finds_no_fault_in_light_and_dark_wide_and_narrow() {
    let axe = axe();
    with_page(&depth48().0, |browser| {
        for (width, scheme) in [(1400, "light"), (1400, "dark"), (400, "light"), (400, "dark")] {
            browser.show(width, scheme);
            browser.run("for (const one of [...document.querySelectorAll('details')].filter((_, at) => at < 4)) one.open = true");
            browser.run(&axe);
            let found = violations(browser);
            assert!(found.is_empty(), "{width} {scheme}:\n{}", found.join("\n"));
        }
        // Negative control: a picture without words, and grey on grey.
        browser.run("document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=\"data:,\"><p style=\"color:#888;background:#999\">grey</p>')");
        let found = violations(browser).join("\n");
        assert!(found.contains("image-alt") && found.contains("color-contrast"), "{found}");
    });
}

/// The page of a sweep that goes on has the parts that a finished one lacks, and texts of records that would be scripts.
#[test]
fn an_unfinished_page_is_as_sound_and_runs_no_text() {
    const EVIL: &str = "</script><img src=x onerror=\"window.hit = 1\"><script>window.hit = 2</script>";
    let dir = tempfile::tempdir().unwrap();
    let plan = support::plan(&["plain", EVIL], 3);
    plan.write(dir.path()).unwrap();
    for run in &plan.runs[..4] {
        support::Fake::default().write_unfinished(dir.path(), run).log(EVIL).unwrap();
        support::Fake::default().write(dir.path(), run);
    }
    let page = support::page_of(dir.path()).0;
    let axe = axe();
    with_page(&page, |browser| {
        browser.run("for (const one of document.querySelectorAll('details')) one.open = true");
        assert_eq!(browser.value("window.hit"), Value::Null);
        assert_eq!(browser.value("document.images.length"), 0);
        assert_eq!(browser.console(), Vec::<Value>::new());
        let name = texts(&browser.value(&column("#chart .legend", 0)));
        assert_eq!(name[1], EVIL);
        assert_eq!(browser.value("document.querySelector('.reload').checkVisibility()"), true);
        browser.run(&axe);
        let found = violations(browser);
        assert!(found.is_empty(), "{}", found.join("\n"));
    });
}
