//! plan.toml: written and read, torn and odd.

use std::fs;
use std::path::PathBuf;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use reslab_record::{Axis, PLAN_FORMAT, Plan, PlannedRun, Source, Study};
use toml::Value;

use super::allocation::peak_of;
use super::cases;

/// Any TOML value but NaN, which is not equal to itself.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::String),
        any::<i64>().prop_map(Value::Integer),
        any::<f64>().prop_filter("equal to itself", |f| !f.is_nan()).prop_map(Value::Float),
        Just(Value::Float(f64::INFINITY)),
        any::<bool>().prop_map(Value::Boolean),
        Just(Value::Datetime("1979-05-27T07:32:00Z".parse().unwrap())),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![vec(inner.clone(), 0..3).prop_map(Value::Array), table(inner).prop_map(Value::Table)]
    })
}

fn table(value: impl Strategy<Value = Value>) -> impl Strategy<Value = toml::Table> {
    btree_map(any::<String>(), value, 0..4).prop_map(|map| map.into_iter().collect())
}

fn run() -> impl Strategy<Value = PlannedRun> {
    let axis = (any::<String>(), any::<String>(), any::<bool>()).prop_map(|(key, value, grid)| Axis {
        label: key.clone(),
        key,
        value,
        grid,
    });
    let words = vec(any::<String>(), 5);
    let count = || 0..=i64::MAX as u64;
    (words, count(), any::<u32>(), any::<f32>(), vec(axis, 0..3), table(value())).prop_map(
        |(words, count, threads, flops, axes, config)| PlannedRun {
            id: words[0].clone(),
            arm: words[1].clone(),
            family: words[2].clone(),
            seed: count,
            folder: words[3].clone(),
            device_kind: words[4].clone(),
            threads,
            parameters: count,
            flops_per_image: if flops.is_nan() { 0.0 } else { flops.into() },
            axes,
            config,
        },
    )
}

/// No run stands in a plan twice, and each has a folder of its own inside runs/.
fn apart(mut runs: Vec<PlannedRun>) -> Vec<PlannedRun> {
    for (index, run) in runs.iter_mut().enumerate() {
        run.id = format!("{}{index}", run.id);
        run.folder = format!("runs/{}{index}", run.folder.replace('/', "_"));
    }
    runs
}

fn plan() -> impl Strategy<Value = Plan> {
    let (words, texts) = (vec(any::<String>(), 6), vec(any::<String>(), 0..3));
    let versions = btree_map(any::<String>(), any::<String>(), 0..3);
    (words, texts, versions, vec(run(), 0..3).prop_map(apart), proptest::option::of(any::<String>())).prop_map(
        |(words, texts, versions, runs, profile)| Plan {
            format: PLAN_FORMAT,
            name: words[0].clone(),
            question: words[1].clone(),
            baseline: words[2].clone(),
            metric: words[3].clone(),
            seeds: runs.iter().map(|run| run.seed).collect(),
            select: texts.clone(),
            profile,
            set: texts,
            study: (!words[5].is_empty())
                .then(|| Study { primary: [words[0].clone(), words[2].clone()], done_before: words[5].len() as u64 }),
            source: Source { path: words[4].clone(), sha256: words[5].clone() },
            versions,
            runs,
        },
    )
}

fn published() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../results/depth48-cpu/plan.toml");
    fs::read_to_string(path).expect("a published plan")
}

/// Reads a text as a plan, with memory in proportion to it.
fn read(text: &[u8]) -> Result<Plan, String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(Plan::path(dir.path()), text).unwrap();
    let (plan, peak) = peak_of(|| Plan::read(dir.path()).map_err(|e| e.to_string()));
    assert!(peak <= 256 * text.len() + (64 << 10), "{} bytes took {peak}", text.len());
    if let Err(error) = &plan {
        assert!(error.contains("plan.toml: "), "{error}");
    }
    plan
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn a_plan_that_is_written_and_read_is_the_same(plan in plan()) {
        let dir = tempfile::tempdir().unwrap();
        plan.write(dir.path()).unwrap();
        let read = Plan::read(dir.path()).map_err(|e| e.to_string());
        prop_assert_eq!(read.as_ref(), Ok(&plan));
        let bytes = fs::read(Plan::path(dir.path())).unwrap();
        read.unwrap().write(dir.path()).unwrap();
        prop_assert_eq!(fs::read(Plan::path(dir.path())).unwrap(), bytes, "and is written the same again");
    }

    #[test]
    fn a_published_plan_with_anything_in_it_is_read_or_refused(
        at in any::<prop::sample::Index>(), cut in 0..60_usize, with in "[\\[\\]{}=.\"'#\n a-z0-9-]{0,12}"
    ) {
        let text = published();
        let at = at.index(text.len().min(8000));
        let changed = format!("{}{with}{}", &text[..at], &text[(at + cut).min(text.len())..8000]);
        let _ = read(changed.as_bytes());
    }

    #[test]
    fn any_bytes_are_refused(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&bytes).is_err());
    }
}

#[test]
fn depth_without_end_is_refused_and_not_followed() {
    let deep = 100_000;
    let dotted = format!("a{} = 1", ".a".repeat(deep));
    for text in [format!("a = {}", "[".repeat(deep)), "a = {b = ".repeat(deep), dotted.clone(), format!("[{dotted}")] {
        assert!(read(text.as_bytes()).is_err());
    }
    assert!(read(published().as_bytes()).is_ok(), "control");
}
