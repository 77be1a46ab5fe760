//! `plan.toml`: the frozen plan of a sweep, written before its first run and read by everything after it.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::file;
use crate::{RecordError, Result};

/// The version of the layout of `plan.toml` that this program writes.
pub const PLAN_FORMAT: u32 = 1;

/// A sweep, expanded: what will run, and what the runs are to show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Layout of this file: [`PLAN_FORMAT`].
    pub format: u32,
    /// The sweep's name.
    pub name: String,
    /// The question that the sweep is to answer.
    pub question: String,
    /// The arm that the others are compared with, by its name without grid axes ([`PlannedRun::name_without`]).
    pub baseline: String,
    /// The metric that the comparison is about: `test/top1`.
    pub metric: String,
    /// The seeds; all arms share them.
    pub seeds: Vec<u64>,
    /// Keys of the axes whose value is chosen per arm on the validation split: `optim.lr`.
    pub select: Vec<String>,
    /// The profile that was merged over the file; absent where the file was taken as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Overrides as given on the command line, in order: `optim.lr=1e-3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// What was said of the comparisons before the runs; absent where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<Study>,
    /// The sweep file.
    pub source: Source,
    /// Versions of what planned it: `reslab`, `libtorch`, ...
    pub versions: BTreeMap<String, String>,
    /// The runs, in the order of the tables: arms in file order, then grid points, then seeds.
    #[serde(rename = "run", default)]
    pub runs: Vec<PlannedRun>,
}

/// The one comparison that a sweep is made for. It is tested alone; all others are exploratory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The arm and what it is compared with, by their names without grid axes.
    pub primary: [String; 2],
    /// How many runs had a result when this comparison was named: above 0 it was not named before its runs.
    #[serde(default)]
    pub done_before: u64,
}

/// The file that a plan was expanded from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The file as named by the user, or its name alone where that was absolute.
    pub path: String,
    /// Checksum of its bytes, in hex.
    pub sha256: String,
}

/// One run: an arm with a seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedRun {
    /// Hash of what the run computes; names the run whatever it is called.
    pub id: String,
    /// The arm's full name, axes and grid included: `gated[initial_gain=0.1,lr=3e-4]`.
    pub arm: String,
    /// The arm's name in the sweep file: `gated`.
    pub family: String,
    /// The seed.
    pub seed: u64,
    /// The run's folder, relative to the sweep's: `runs/plain-s0-1a2b3c4d`.
    pub folder: String,
    /// `cpu` or `cuda`.
    pub device_kind: String,
    /// Threads that the run computes with.
    pub threads: u32,
    /// Trainable parameters of its network.
    pub parameters: u64,
    /// Floating-point operations of one image's forward pass (a multiply-add is two).
    pub flops_per_image: f64,
    /// The values of its axes, in the order of the name.
    #[serde(rename = "axis", default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
    /// The resolved configuration: data, model, train, optim, residual, drop_path.
    pub config: toml::Table,
}

/// One axis of a sweep at one of its values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The full dotted key: `optim.lr`.
    pub key: String,
    /// The key as it stands in names, its shortest distinct last part: `lr`.
    pub label: String,
    /// The value as it stands in the sweep file: `3e-4`.
    pub value: String,
    /// Whether it comes from `[grid]`, that is, whether every arm has it.
    pub grid: bool,
}

impl PlannedRun {
    /// The arm's name without the axes that `hide` picks: all runs of a row of a table share it.
    pub fn name_without(&self, hide: impl Fn(&Axis) -> bool) -> String {
        let shown: Vec<String> =
            self.axes.iter().filter(|a| !hide(a)).map(|a| format!("{}={}", a.label, a.value)).collect();
        if shown.is_empty() { self.family.clone() } else { format!("{}[{}]", self.family, shown.join(",")) }
    }

    /// The run's folder on disk, inside the sweep's folder `sweep`.
    pub fn dir(&self, sweep: &Path) -> PathBuf {
        sweep.join(&self.folder)
    }
}

impl Plan {
    /// The plan's file in a sweep's folder.
    pub fn path(sweep: &Path) -> PathBuf {
        sweep.join("plan.toml")
    }

    /// Reads `plan.toml` of a sweep's folder.
    ///
    /// # Errors
    /// Names the file: missing, not readable, or not a plan of a known format.
    pub fn read(sweep: &Path) -> Result<Self> {
        let path = Self::path(sweep);
        let text = file::read_text(&path)?;
        let damaged = |problem: String| {
            RecordError::parse(
                &path,
                format!(
                    "no plan that can be used: {problem}\nMove it away (plan.prev.toml may be the one before it) and call \
                     `reslab sweep` again: it is made anew from the sweep file, and runs that are there are taken up"
                ),
            )
        };
        let plan: Plan = toml::from_str(&text).map_err(|e| damaged(e.to_string().trim().to_owned()))?;
        if plan.format != PLAN_FORMAT {
            let problem = format!("format {} of a plan; this program knows {PLAN_FORMAT}", plan.format);
            return Err(RecordError::parse(&path, problem));
        }
        plan.check().map_err(damaged)?;
        Ok(plan)
    }

    /// What no plan of this program is like: a run that stands in it twice would count twice, and a folder elsewhere is
    /// not the sweep's.
    fn check(&self) -> std::result::Result<(), String> {
        let mut ids = BTreeSet::new();
        let mut folders = BTreeSet::new();
        for run in &self.runs {
            let named = || format!("run {} ({} with seed {})", run.id, run.arm, run.seed);
            let mut parts = Path::new(&run.folder).components();
            let inside = [parts.next(), parts.next(), parts.next()];
            if !matches!(inside, [Some(Component::Normal(runs)), Some(Component::Normal(_)), None] if runs == "runs") {
                return Err(format!("{}: its folder is not one inside runs/: {:?}", named(), run.folder));
            }
            if !ids.insert(&run.id) || !folders.insert(&run.folder) {
                return Err(format!("{} stands in it twice, or shares its folder with another run", named()));
            }
        }
        Ok(())
    }

    /// Writes `plan.toml` by rename; one that stood there before is kept as `plan.prev.toml`, unless it is equal.
    ///
    /// # Errors
    /// Names the file and what could not be done with it.
    pub fn write(&self, sweep: &Path) -> Result<()> {
        let path = Self::path(sweep);
        let text = toml::to_string(self).map_err(|e| RecordError::parse(&path, e))?;
        match file::read_text(&path) {
            Ok(old) if old == text => return Ok(()),
            Ok(old) => file::write_atomic(&sweep.join("plan.prev.toml"), old.as_bytes())?,
            Err(_) => {}
        }
        file::write_atomic(&path, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(key: &str, value: &str, grid: bool) -> Axis {
        let label = key.rsplit('.').next().unwrap().to_owned();
        Axis { key: key.into(), label, value: value.into(), grid }
    }

    fn plan() -> Plan {
        let run = PlannedRun {
            id: "1a2b3c4d5e6f".into(),
            arm: "gated[initial_gain=0.1,lr=3e-4]".into(),
            family: "gated".into(),
            seed: 2,
            folder: "runs/gated_initial_gain=0.1_lr=3e-4_-s2-1a2b3c4d".into(),
            device_kind: "cpu".into(),
            threads: 1,
            parameters: 9_007_199_254_740_993,
            flops_per_image: 1.5e9,
            axes: vec![axis("residual.initial_gain", "0.1", false), axis("optim.lr", "3e-4", true)],
            config: toml::from_str("[optim]\nlr = 3e-4\nbetas = [0.9, 0.999]\n[data]\ndataset = \"digits\"").unwrap(),
        };
        Plan {
            format: PLAN_FORMAT,
            name: "demo".into(),
            question: "a \"b\"?\nc".into(),
            baseline: "plain".into(),
            metric: "test/top1".into(),
            seeds: vec![0, 2],
            select: vec!["optim.lr".into()],
            profile: Some("cpu".into()),
            set: vec![],
            study: Some(Study { primary: ["gated[initial_gain=0.1]".into(), "plain".into()], done_before: 0 }),
            source: Source { path: "configs/demo.toml".into(), sha256: "00".into() },
            versions: BTreeMap::from([("reslab".into(), "0.1.0".into())]),
            runs: vec![
                run.clone(),
                PlannedRun {
                    id: "6f5e4d3c2b1a".into(),
                    axes: vec![],
                    family: "plain".into(),
                    arm: "plain".into(),
                    folder: "runs/plain-s2-6f5e4d3c".into(),
                    ..run
                },
            ],
        }
    }

    #[test]
    fn a_plan_comes_back_as_it_was_and_the_old_one_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("plan.prev.toml");
        let mut plan = plan();
        plan.write(dir.path()).unwrap();
        assert_eq!(Plan::read(dir.path()).unwrap(), plan);
        plan.write(dir.path()).unwrap();
        assert!(!old.exists(), "nothing changed");
        let before = std::fs::read(Plan::path(dir.path())).unwrap();
        plan.profile = None;
        plan.write(dir.path()).unwrap();
        assert_eq!(Plan::read(dir.path()).unwrap(), plan);
        assert_eq!(std::fs::read(old).unwrap(), before);
    }

    #[test]
    fn a_plan_without_a_study_is_read_and_written_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan { study: None, ..plan() };
        plan.write(dir.path()).unwrap();
        let text = std::fs::read_to_string(Plan::path(dir.path())).unwrap();
        assert!(!text.contains("study"), "{text}");
        assert_eq!(Plan::read(dir.path()).unwrap(), plan);
    }

    #[test]
    fn names_are_composed_of_family_and_shown_axes() {
        let plan = plan();
        let run = &plan.runs[0];
        assert_eq!(run.name_without(|_| false), run.arm);
        assert_eq!(run.name_without(|axis| axis.grid), "gated[initial_gain=0.1]");
        assert_eq!(run.name_without(|_| true), "gated");
        assert_eq!(plan.runs[1].name_without(|_| false), "plain");
    }

    #[test]
    fn a_plan_that_would_count_a_run_twice_or_read_elsewhere_is_refused_with_what_helps() {
        let refused = |change: fn(&mut Plan)| {
            let dir = tempfile::tempdir().unwrap();
            let mut plan = plan();
            change(&mut plan);
            plan.write(dir.path()).unwrap();
            let error = Plan::read(dir.path()).unwrap_err().to_string();
            assert!(error.contains("plan.toml") && error.contains("Move it away"), "{error}");
            error
        };
        assert!(refused(|plan| plan.runs.push(plan.runs[0].clone())).contains("twice"));
        assert!(refused(|plan| plan.runs[1].folder = plan.runs[0].folder.clone()).contains("shares its folder"));
        for folder in ["elsewhere/plain", "runs", "runs/../../x", "/runs/plain", "runs/a/b", "", "../runs/plain"] {
            let dir = tempfile::tempdir().unwrap();
            let mut plan = plan();
            plan.runs[1].folder = folder.to_owned();
            plan.write(dir.path()).unwrap();
            let error = Plan::read(dir.path()).unwrap_err().to_string();
            assert!(error.contains("not one inside runs/"), "{folder}: {error}");
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(Plan::path(dir.path()), "format = 1\nname = \"de").unwrap();
        let error = Plan::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("Move it away"), "{error}");
    }

    #[test]
    fn another_format_and_a_missing_plan_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = Plan::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("plan.toml: cannot read: No such file"), "{error}");
        Plan { format: 99, ..plan() }.write(dir.path()).unwrap();
        let error = Plan::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("format 99 of a plan"), "{error}");
    }
}
