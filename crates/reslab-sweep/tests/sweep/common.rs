//! What the tests share: a folder with sweep files, a fake check, and runs that are shell scripts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use reslab_config::ConfigError;
use reslab_record::{Done, Outcome, Plan, PlannedRun};
use reslab_sweep::{
    Event, Facts, Job, OnFailure, Overrides, ProfileChoice, Retry, Slot, Stop, Summary, SweepErrors, SweepFile, Target,
    execute, expand, load,
};

/// A sweep file that is right, without arms.
pub const HEAD: &str = r#"
name = "tiny"
question = "Does it?"
baseline = "plain"
seeds = [0, 1]
metric = "test/top1"
[data]
dataset = "digits"
[model]
kind = "vit"
depth = 2
width = 8
[train]
steps = 10
batch = 4
[optim]
kind = "adamw"
lr = 1e-3
betas = [0.9, 0.999]
"#;

/// The one arm that most tests need.
pub const PLAIN: &str = "[[arm]]\nname = \"plain\"\nresidual = { kind = \"plain\" }\n";

/// A temporary folder with sweep files.
pub struct Files {
    pub dir: tempfile::TempDir,
}

impl Files {
    /// A folder with `x.toml`.
    pub fn new(text: &str) -> Self {
        let files = Self { dir: tempfile::tempdir().unwrap() };
        files.put("x.toml", text)
    }

    /// `HEAD` and these arms.
    pub fn arms(text: &str) -> Self {
        Self::new(&format!("{HEAD}{text}"))
    }

    pub fn put(self, name: &str, text: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn load(&self, set: &[&str], profile: Option<&str>) -> Result<SweepFile, SweepErrors> {
        let set = set.iter().map(|s| (*s).to_owned()).collect();
        load(&self.path("x.toml"), &Overrides { set, profile: ProfileChoice::from_option(profile) }, "cpu")
    }

    pub fn plan_with(&self, set: &[&str], profile: Option<&str>) -> Result<Plan, SweepErrors> {
        expand(&self.load(set, profile)?, &check, &target())
    }

    pub fn plan(&self) -> Plan {
        self.plan_with(&[], None).unwrap_or_else(|e| panic!("{e}"))
    }

    /// All errors, one per line, with the folder's own path taken off.
    pub fn errors(&self) -> String {
        self.errors_with(&[])
    }

    pub fn errors_with(&self, set: &[&str]) -> String {
        let errors = self.plan_with(set, None).expect_err("the file is wrong").to_string();
        errors.replace(&format!("{}/", self.dir.path().display()), "")
    }
}

pub fn target() -> Target {
    Target { device_kind: "cpu".into(), threads: 1, versions: [("reslab".into(), "0".into())].into() }
}

/// Stands for the model's crates: knows a few keys, and wants `residual.init` finite and `model.width` even.
pub fn check(table: &mut toml::Table) -> Result<Facts, Vec<ConfigError>> {
    let known =
        "dataset val_images kind depth width steps batch lr betas init rate mode schedule hidden precision momentum";
    let mut errors = Vec::new();
    for (name, inner) in table.iter() {
        for (key, value) in inner.as_table().into_iter().flatten() {
            let at = format!("{name}.{key}");
            if !known.split(' ').any(|k| k == key) {
                errors.push(ConfigError::new(at, format!("unknown key `{key}`")));
            } else if key == "init" && value.as_float().is_some_and(|v| !v.is_finite()) {
                errors.push(ConfigError::new(at, format!("must be finite, but is {value}")));
            } else if key == "width" && value.as_integer().is_some_and(|w| w % 2 == 1) {
                errors.push(ConfigError::new(at, format!("must be even, but is {value}")));
            }
        }
    }
    let width = table.get("model").and_then(|m| m.get("width")).and_then(toml::Value::as_integer).unwrap_or(0);
    if errors.is_empty() { Ok(Facts { parameters: width as u64, flops_per_image: 1.0 }) } else { Err(errors) }
}

/// Full names of the arms, once each, in plan order.
pub fn arms(plan: &Plan) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    plan.runs.iter().for_each(|run| {
        if !names.contains(&run.arm) {
            names.push(run.arm.clone());
        }
    });
    names
}

/// The run of an arm and a seed.
pub fn run_of<'a>(plan: &'a Plan, arm: &str, seed: u64) -> &'a PlannedRun {
    let found = plan.runs.iter().find(|run| run.arm == arm && run.seed == seed);
    found.unwrap_or_else(|| panic!("no {arm} {seed} among {:?}", arms(plan)))
}

/// The resolved tables of an arm.
pub fn config(plan: &Plan, arm: &str) -> toml::Table {
    run_of(plan, arm, plan.seeds[0]).config.clone()
}

/// A plan of arms `a`, `b`, ... with these seeds; every arm another width.
pub fn tiny_plan(count: u8, seeds: &str) -> Plan {
    let arm = |i: u8| {
        let name = char::from(b'a' + i);
        format!(
            "[[arm]]\nname = \"{name}\"\nresidual = {{ kind = \"plain\" }}\nmodel.width = {}\n",
            2 * (u32::from(i) + 1)
        )
    };
    let text: String = (0..count).map(arm).collect();
    let files = Files::arms(&text);
    files.plan_with(&[&format!("seeds={seeds}"), "baseline=a"], None).unwrap()
}

/// A run as a shell script: `$DIR` is its folder, `$ARM` and `$SEED` say which it is, `done_now` writes its result.
pub fn shell(sweep: &Path, run: &PlannedRun, script: &str) -> Command {
    let done = Done {
        id: run.id.clone(),
        arm: run.arm.clone(),
        seed: run.seed,
        outcome: Outcome::Finished,
        steps: 10,
        metrics: Default::default(),
        parameters: run.parameters,
        num_classes: 10,
        effective_drop_rate: None,
        micro_batches: None,
    };
    let lead = "done_now() { echo \"$DONE\" > $DIR/done.tmp; mv $DIR/done.tmp $DIR/done.json; }\n";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("{lead}{script}")]);
    command.env("DIR", run.dir(sweep)).env("ARM", &run.arm).env("SEED", run.seed.to_string());
    command.env("DONE", serde_json::to_string(&done).unwrap());
    command
}

/// What is told of a call of [`execute`].
#[derive(Debug, Default)]
pub struct Told {
    /// `started a 0`, `finished a 0`, ... in order.
    pub lines: Vec<String>,
    pub failed: Vec<reslab_record::Failed>,
}

impl Told {
    pub fn count(&self, lead: &str) -> usize {
        self.lines.iter().filter(|line| line.starts_with(lead)).count()
    }
}

/// How [`go`] runs a plan.
pub struct How<'a> {
    pub jobs: usize,
    pub on_failure: OnFailure,
    pub retry: Retry,
    pub retries: u32,
    pub hang_after: Option<Duration>,
    pub stop: &'a Stop,
    /// Called after every event, with what was told so far.
    pub then: &'a dyn Fn(&Told),
}

pub static NEVER: Stop = Stop::new();

impl Default for How<'_> {
    fn default() -> Self {
        Self {
            jobs: 2,
            on_failure: OnFailure::GoOn,
            retry: Retry::Pending,
            retries: 0,
            hang_after: None,
            stop: &NEVER,
            then: &|_| {},
        }
    }
}

/// Runs a plan with one script for all runs.
pub fn go(sweep: &Path, plan: &Plan, script: &str, how: &How<'_>) -> (Summary, Told) {
    let slots = [Slot { device: "cpu".into(), jobs: how.jobs }];
    let job = Job {
        sweep,
        runs: &plan.runs,
        slots: &slots,
        on_failure: how.on_failure,
        retry: how.retry,
        retries: how.retries,
        hang_after: how.hang_after,
    };
    let told = Mutex::new(Told::default());
    let mut on_event = |event: Event<'_>| {
        let mut told = told.lock().unwrap();
        let of = |run: &PlannedRun| format!("{} {}", run.arm, run.seed);
        let line = match event {
            Event::Started { run, device } => format!("started {} on {device}", of(run)),
            Event::Progress { run, progress } => format!("progress {} {}", of(run), progress.to_line()),
            Event::Finished { run, outcome } => format!("finished {} {outcome:?}", of(run)),
            Event::Failed { run, failed, log } => {
                assert!(log.ends_with("log.txt"));
                told.failed.push(failed.clone());
                format!("failed {} {}", of(run), failed.class)
            }
            Event::Again { run, failed, remedy } => format!("again {} {} {remedy:?}", of(run), failed.class),
            Event::Interrupted { run } => format!("interrupted {}", of(run)),
            Event::Skipped { run, why } => format!("skipped {} {why:?}", of(run)),
            Event::Stopping => "stopping".to_owned(),
        };
        told.lines.push(line);
        (how.then)(&told);
    };
    let summary = execute(&job, &|run, _| shell(sweep, run, script), &mut on_event, how.stop);
    (summary, told.into_inner().unwrap())
}
