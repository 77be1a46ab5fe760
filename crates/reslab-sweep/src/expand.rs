//! A sweep file becomes a plan: arms x axes x grid x seeds, every point resolved and checked, all errors at once.

use std::collections::BTreeMap;

use reslab_config::ConfigError;
use reslab_record::{PLAN_FORMAT, Plan, PlannedRun, Study};

use crate::error::{SweepError, SweepErrors, hint};
use crate::identity::run_id;
use crate::names::run_folder;
use crate::node::{self, to_table};
use crate::point::{Point, points_of};
use crate::reader::Frame;
use crate::source::SweepFile;

/// What a network is, known without running it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts {
    /// Trainable parameters.
    pub parameters: u64,
    /// Floating-point operations of one image's forward pass (a multiply-add is two).
    pub flops_per_image: f64,
}

/// What the runs are planned for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `cpu` or `cuda`.
    pub device_kind: String,
    /// Threads per run.
    pub threads: u32,
    /// Versions of what plans: `reslab`, `libtorch`.
    pub versions: BTreeMap<String, String>,
}

/// Checks the resolved tables of one run: what its network is, or all that is wrong. It may write into them what they
/// name but do not hold, as the checksum of a file, which thereby becomes part of the run's id.
pub type Check<'a> = dyn Fn(&mut toml::Table) -> Result<Facts, Vec<ConfigError>> + 'a;

/// Expands and checks a sweep file. Nothing is written.
///
/// # Errors
/// Everything that is wrong with the file, its arms and their points, each once, with file, arm and key.
pub fn expand(file: &SweepFile, check: &Check<'_>, target: &Target) -> Result<Plan, SweepErrors> {
    let mut errors = file.problems.clone();
    let mut points = Vec::new();
    for arm in &file.arms {
        match points_of(file, arm) {
            Ok(found) => points.extend(found),
            Err(found) => errors.extend(found),
        }
    }
    let mut tables: Vec<toml::Table> = points.iter().map(|point| to_table(&point.tables)).collect();
    let (facts, found) = check_points(&file.file, &points, &mut tables, check);
    errors.extend(found);
    errors.extend(frame_errors(file, &points));
    errors.extend(without_validation(file, &points));
    errors.extend(twins(file, &points, &tables, target));
    SweepErrors::check(errors)?;
    let frame = &file.frame;
    let runs = points.iter().zip(&tables).zip(facts).flat_map(|((point, config), facts)| {
        frame.seeds.iter().map(move |seed| planned(point, config.clone(), facts, *seed, target))
    });
    Ok(Plan {
        format: PLAN_FORMAT,
        name: frame.name.clone(),
        question: frame.question.clone(),
        baseline: frame.baseline.clone(),
        metric: frame.metric.clone(),
        seeds: frame.seeds.clone(),
        select: frame.select.clone(),
        profile: file.profile.clone(),
        set: file.overrides.set.clone(),
        study: frame.primary.clone().map(|primary| Study { primary, done_before: 0 }),
        source: file.source.clone(),
        versions: target.versions.clone(),
        runs: runs.collect(),
    })
}

fn planned(point: &Point, config: toml::Table, facts: Facts, seed: u64, target: &Target) -> PlannedRun {
    let id = run_id(&config, seed, target);
    let arm = point.name();
    PlannedRun {
        folder: run_folder(&arm, seed, &id),
        id,
        arm,
        family: point.family.clone(),
        seed,
        device_kind: target.device_kind.clone(),
        threads: target.threads,
        parameters: facts.parameters,
        flops_per_image: facts.flops_per_image,
        axes: point.axes.clone(),
        config,
    }
}

/// Facts of all points (as far as they are right), and what is wrong with them. The check may complete their tables.
fn check_points(
    file: &str,
    points: &[Point],
    tables: &mut [toml::Table],
    check: &Check<'_>,
) -> (Vec<Facts>, Vec<SweepError>) {
    let mut facts = Vec::new();
    // One entry per different error, with the points that have it.
    let mut found: Vec<(SweepError, Vec<usize>)> = Vec::new();
    for (index, (point, table)) in points.iter().zip(tables).enumerate() {
        let mut problems = Vec::new();
        if !point.tables.contains_key("residual") {
            problems.push(ConfigError::new(
                "residual",
                "missing; every arm says its strategy: residual = { kind = \"plain\" }",
            ));
        }
        match check(table) {
            Ok(known) => facts.push(known),
            Err(more) => problems
                .extend(more.into_iter().filter(|e| e.key != "residual" || problems.is_empty()).collect::<Vec<_>>()),
        }
        for problem in problems {
            let origin = node::origin_of(&point.tables, &problem.key);
            let error = SweepError::of(origin.as_deref().unwrap_or(file), problem);
            match found.iter_mut().find(|(known, _)| *known == error) {
                Some((_, at)) if at.last() == Some(&index) => {}
                Some((_, at)) => at.push(index),
                None => found.push((error, vec![index])),
            }
        }
    }
    (facts, found.into_iter().flat_map(|(error, at)| spread(&error, &at, points)).collect())
}

/// An error of every arm is the file's; one of every point of an arm is the arm's; else it is the points'.
fn spread(error: &SweepError, at: &[usize], points: &[Point]) -> Vec<SweepError> {
    let is_one_arm = points.iter().all(|p| p.family == points[0].family);
    if at.len() == points.len() && !is_one_arm {
        return vec![error.clone()];
    }
    let mut names: Vec<String> = Vec::new();
    for index in at {
        let point = &points[*index];
        let is_whole = points.iter().enumerate().all(|(i, p)| p.family != point.family || at.contains(&i));
        let name = if is_whole { point.family.clone() } else { point.name() };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.iter().map(|name| error.clone().in_arm(name)).collect()
}

/// `baseline` and the primary contrast must name arms, `select` axes of the grid.
fn frame_errors(file: &SweepFile, points: &[Point]) -> Vec<SweepError> {
    let mut errors = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for name in points.iter().map(Point::name_without_factors) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let primary = file.frame.primary.iter().flatten().map(|name| ("study.primary", name));
    for (key, name) in std::iter::once(("baseline", &file.frame.baseline)).chain(primary) {
        // A broken arm has no points: its own errors say what to do, not one about its name.
        let is_broken = file.problems.iter().any(|p| p.arm.as_ref() == Some(name))
            || file.arms.iter().any(|arm| arm.name == *name && points.iter().all(|p| p.family != arm.name));
        if !name.is_empty() && !names.is_empty() && !names.contains(name) && !is_broken {
            let near = hint(name, names.iter().map(String::as_str));
            let problem = format!("no arm \"{name}\"{near} (arms: {})", names.join(", "));
            errors.push(SweepError::new(&file.file, key, problem));
        }
    }
    let axes: Vec<&str> = file.factors.iter().flat_map(|axis| axis.keys.iter().map(String::as_str)).collect();
    for (index, key) in file.frame.select.iter().enumerate() {
        if let Some(problem) = select_problem(file, key, &file.frame.select[..index], &axes) {
            errors.push(SweepError::new(&file.file, "select", problem));
        }
    }
    errors
}

/// What is wrong with one key of `select`; `before` are those before it, `axes` all that there are.
fn select_problem(file: &SweepFile, key: &str, before: &[String], axes: &[&str]) -> Option<String> {
    let is_it = |other: &String| other == key;
    if before.iter().any(is_it) {
        return Some(format!("`{key}` stands twice"));
    }
    let Some(axis) = file.factors.iter().find(|axis| axis.keys.iter().any(is_it)) else {
        let known =
            if axes.is_empty() { "the file has no [grid]".to_owned() } else { format!("axes: {}", axes.join(", ")) };
        return Some(format!("`{key}` is no axis of [grid]{} ({known})", hint(key, axes.iter().copied())));
    };
    // The rest of a zip would stay a factor with one value of the chosen key each: nothing to choose from.
    let rest = axis.keys.iter().find(|other| !file.frame.select.contains(other))?;
    Some(format!("`{key}` is walked together with `{rest}` in [zip]: name both, or neither"))
}

/// The key that says how many images the validation split has.
const VAL_IMAGES: &str = "data.val_images";

/// Whatever is chosen, or reported, on the validation split needs one.
fn without_validation(file: &SweepFile, points: &[Point]) -> Vec<SweepError> {
    let count = |point: &Point| node::get(&point.tables, VAL_IMAGES).map(node::Node::to_value);
    let at: Vec<usize> = (0..points.len()).filter(|i| count(&points[*i]) == Some(toml::Value::Integer(0))).collect();
    let Some(first) = at.first() else { return Vec::new() };
    let origin = node::origin_of(&points[*first].tables, VAL_IMAGES);
    let Frame { metric, select, .. } = &file.frame;
    let chosen = (!select.is_empty()).then(|| {
        format!(
            "is 0, but `select` chooses {} on the validation split; give it images, or drop `select`",
            select.join(", ")
        )
    });
    let shown = metric.starts_with("val/").then(|| {
        format!(
            "is 0, but the metric `{metric}` is one of the validation split; give it images, or take a metric of test"
        )
    });
    let problems = chosen.into_iter().chain(shown);
    let error = |problem| SweepError::new(origin.as_deref().unwrap_or(&file.file), VAL_IMAGES, problem);
    problems.flat_map(|problem| spread(&error(problem), &at, points)).collect()
}

/// Points of the same name, or that resolve to the same run.
fn twins(file: &SweepFile, points: &[Point], tables: &[toml::Table], target: &Target) -> Vec<SweepError> {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    let mut errors = Vec::new();
    for (index, (point, table)) in points.iter().zip(tables).enumerate() {
        let id = run_id(table, 0, target);
        let problem = match (names.insert(point.name(), index), ids.insert(id, index)) {
            (Some(_), _) => "stands twice: two points of the sweep have this name".to_owned(),
            (None, Some(twin)) => {
                format!(
                    "is the same run as arm \"{}\": their resolved configurations are equal; remove one",
                    points[twin].name()
                )
            }
            (None, None) => continue,
        };
        errors.push(SweepError::new(&file.file, "", problem).in_arm(&point.name()));
    }
    errors
}

/// The runs of a plan that `--arm` and `--seeds` pick (empty: all). An arm goes by its name in the file, which picks all
/// its points, or by its full name, with or without the axes of the grid.
///
/// # Errors
/// Names an arm or a seed that the plan does not have, with the nearest that it has.
pub fn filter(plan: &Plan, arms: &[String], seeds: &[u64]) -> Result<Vec<PlannedRun>, SweepErrors> {
    let names = |run: &PlannedRun| [run.family.clone(), run.name_without(|axis| axis.grid), run.arm.clone()];
    let mut errors = Vec::new();
    for arm in arms.iter().filter(|arm| !plan.runs.iter().any(|run| names(run).contains(arm))) {
        let mut known: Vec<String> = Vec::new();
        plan.runs.iter().flat_map(names).for_each(|name| {
            if !known.contains(&name) {
                known.push(name);
            }
        });
        let near = hint(arm, known.iter().map(String::as_str));
        errors.push(SweepError::new("--arm", "", format!("no arm \"{arm}\"{near} (arms: {})", known.join(", "))));
    }
    for seed in seeds.iter().filter(|seed| !plan.seeds.contains(seed)) {
        let problem = format!(
            "seed {seed} is not in the plan (seeds = {:?}); --seeds only filters: add it in the file",
            plan.seeds
        );
        errors.push(SweepError::new("--seeds", "", problem));
    }
    SweepErrors::check(errors)?;
    let wanted = |run: &&PlannedRun| {
        (arms.is_empty() || names(run).iter().any(|name| arms.contains(name)))
            && (seeds.is_empty() || seeds.contains(&run.seed))
    };
    Ok(plan.runs.iter().filter(wanted).cloned().collect())
}
