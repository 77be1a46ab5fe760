//! A sweep's folder for tests: runs of 200 steps, two seconds each, evaluated at every hundredth.

use super::Monitor;
use reslab_record::*;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

pub(super) const FINISHED: Outcome = Outcome::Finished;
pub(super) const NOT_FINITE: Outcome = Outcome::NonFinite { step: 8 };
/// More time than reading takes.
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) struct Board {
    dir: tempfile::TempDir,
    plan: Plan,
}

impl Board {
    pub(super) fn new(arms: &[&str], seeds: u64) -> Self {
        let board = Self { dir: tempfile::tempdir().unwrap(), plan: Self::plan(arms, seeds) };
        board.plan.write(board.dir()).unwrap();
        board
    }

    pub(super) fn plan(arms: &[&str], seeds: u64) -> Plan {
        let run = |arm: &str, seed| PlannedRun {
            id: format!("{arm}{seed}"),
            arm: arm.into(),
            family: arm.into(),
            seed,
            folder: format!("runs/{arm}-s{seed}"),
            device_kind: "cpu".into(),
            threads: 1,
            parameters: 1,
            flops_per_image: 1.0,
            axes: vec![],
            config: toml::from_str("train = { steps = 200 }").unwrap(),
        };
        Plan {
            format: PLAN_FORMAT,
            name: "demo".into(),
            question: "Does it train?".into(),
            baseline: "plain".into(),
            metric: "test/top1".into(),
            seeds: (0..seeds).collect(),
            select: vec![],
            profile: None,
            set: vec![],
            study: None,
            source: Source { path: "demo.toml".into(), sha256: "00".into() },
            versions: BTreeMap::new(),
            runs: arms.iter().flat_map(|arm| (0..seeds).map(move |seed| run(arm, seed))).collect(),
        }
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The folder, read to its end.
    pub(super) fn monitor(&self) -> Monitor {
        let mut monitor = Monitor::open(self.dir()).unwrap();
        assert!(!monitor.refresh(0, LONG));
        monitor
    }

    fn run(&self, at: usize) -> RunDir {
        RunDir::create(&self.plan.runs[at].dir(self.dir())).unwrap()
    }

    /// Appends steps to a run.
    pub(super) fn runs(&self, at: usize, steps: Range<u64>) -> &Self {
        let dir = self.run(at);
        dir.write_config(&self.plan.runs[at].config).unwrap();
        let env = Env { device: "cpu".into(), ..Env::default() };
        dir.write_env(&env).unwrap();
        let rows: Vec<StepRow> = steps.clone().map(|step| row(step, 2.0 - 0.005 * step as f64)).collect();
        dir.steps().unwrap().append_all(&rows).unwrap();
        let (split, weights) = (Split::Val, Weights::Raw);
        let eval = |step| EvalRow { step, split, weights, loss: 1.0, top1: 0.5, top5: 1.0, images: 9 };
        let evals: Vec<EvalRow> = steps.filter(|step| step % 100 == 99).map(eval).collect();
        dir.evals().unwrap().append_all(&evals).unwrap();
        self
    }

    /// Appends one step with a loss of 50.
    pub(super) fn spike(&self, at: usize, step: u64) -> &Self {
        self.run(at).steps().unwrap().append(&row(step, 50.0)).unwrap();
        self
    }

    pub(super) fn cut_back(&self, at: usize, step: u64) {
        self.run(at).steps().unwrap().cut_back(step).unwrap();
    }

    /// The lock of a run, as the process that is at it has it.
    pub(super) fn hold(&self, at: usize) -> RunLock {
        RunLock::acquire(self.run(at).path()).unwrap()
    }

    pub(super) fn finish(&self, at: usize, outcome: Outcome) {
        let run = &self.plan.runs[at];
        let steps = if outcome == FINISHED { 200 } else { 9 };
        let metrics = BTreeMap::from([("test/top1".to_owned(), 0.7)]);
        let done = Done {
            id: run.id.clone(),
            arm: run.arm.clone(),
            seed: run.seed,
            outcome,
            steps,
            metrics,
            parameters: 1,
            num_classes: 10,
            effective_drop_rate: None,
            micro_batches: None,
        };
        self.run(at).write_done(&done).unwrap();
    }

    pub(super) fn fail(&self, at: usize) {
        let failed = Failed { class: FailureClass::Hang, message: "no step for 30 min".into(), last_step: Some(8) };
        self.run(at).write_failed(&failed).unwrap();
    }

    pub(super) fn damage(&self, at: usize, name: &str, text: &str) {
        std::fs::write(self.plan.runs[at].dir(self.dir()).join(name), text).unwrap();
    }

    pub(super) fn append(&self, at: usize, name: &str, text: &str) {
        let path = self.plan.runs[at].dir(self.dir()).join(name);
        std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }
}

fn row(step: u64, loss: f64) -> StepRow {
    StepRow {
        step,
        epoch: step as f64,
        loss,
        lr: 1e-3,
        grad_norm: 1.5,
        grad_norm_attention: None,
        grad_norm_mlp: None,
        grad_norm_gamma: None,
        grad_norm_embedding: None,
        grad_norm_head: None,
        weight_update_norm: None,
        images_per_s: 100.0,
        seconds: 2.0 * (step + 1) as f64,
    }
}
