//! Sweeps made by hand, and the page of a folder.

#![allow(dead_code)] // each test file uses its part

use reslab_page::page;
use reslab_record::*;
use reslab_report::{Options, Table, read_sweep, table};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub fn planned(arm: &str, seed: u64) -> PlannedRun {
    let letters = arm.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let folder = format!("runs/{}-s{seed}", letters.collect::<String>());
    PlannedRun {
        id: format!("{arm}-{seed}"),
        arm: arm.into(),
        family: arm.into(),
        seed,
        folder,
        device_kind: "cpu".into(),
        threads: 1,
        parameters: 1_234_567,
        flops_per_image: 1e6,
        axes: vec![],
        config: toml::from_str("data = { dataset = \"digits\" }\nmodel = { depth = 12 }").unwrap(),
    }
}

/// A plan of these arms, the first of them the baseline.
pub fn plan(arms: &[&str], seeds: u64) -> Plan {
    Plan {
        format: PLAN_FORMAT,
        name: "demo".into(),
        question: "Does it\ntrain?".into(),
        baseline: arms[0].into(),
        metric: "test/top1".into(),
        seeds: (0..seeds).collect(),
        select: vec![],
        profile: None,
        set: vec![],
        study: None,
        source: Source { path: "/home/someone/configs/demo.toml".into(), sha256: "0123456789abcdef".into() },
        versions: BTreeMap::new(),
        runs: arms.iter().flat_map(|arm| (0..seeds).map(|seed| planned(arm, seed))).collect(),
    }
}

/// A finished run's records: a loss that falls in noise.
pub struct Fake {
    pub steps: u64,
    pub top1: f64,
    /// Step and loss of a spike.
    pub spike: Option<(u64, f64)>,
    /// Rows of layers.csv at every so many steps.
    pub telemetry_every: usize,
}

impl Default for Fake {
    fn default() -> Self {
        Self { steps: 200, top1: 0.7, spike: None, telemetry_every: 50 }
    }
}

impl Fake {
    pub fn write(&self, sweep: &Path, run: &PlannedRun) {
        let dir = self.write_unfinished(sweep, run);
        let metrics = [("val/top1", self.top1 + 0.01), ("test/top1", self.top1), ("val/loss", 1.0)];
        let end = |split, top1| EvalRow { split, top1, loss: 1.0, ..eval(self.steps - 1) };
        dir.evals().unwrap().append_all(&[end(Split::Val, self.top1 + 0.01), end(Split::Test, self.top1)]).unwrap();
        dir.write_timing(&Timing {
            seconds: 12.0,
            images_per_s: 345.0,
            peak_memory_bytes: 64 << 20,
            checkpoint_seconds: 0.0,
            device: "cpu".into(),
            threads: 1,
        })
        .unwrap();
        dir.write_done(&Done {
            id: run.id.clone(),
            arm: run.arm.clone(),
            seed: run.seed,
            outcome: Outcome::Finished,
            steps: self.steps,
            metrics: metrics.map(|(name, value)| (name.to_owned(), value)).into(),
            parameters: run.parameters,
            num_classes: 10,
            effective_drop_rate: None,
            micro_batches: None,
        })
        .unwrap();
    }

    /// The same before its end.
    pub fn write_unfinished(&self, sweep: &Path, run: &PlannedRun) -> RunDir {
        let dir = RunDir::create(&run.dir(sweep)).unwrap();
        dir.write_config(&run.config).unwrap();
        let env = Env { reslab: "0.1.0".into(), libtorch: "2.11.0".into(), device: "cpu".into(), ..Env::default() };
        dir.write_env(&Env { git_commit: Some("8412a090add9629ac8b836ba4548826304905abc".into()), threads: 1, ..env })
            .unwrap();
        dir.log(&format!("{} seed {} begins", run.arm, run.seed)).unwrap();
        // No two runs have the same noise: equal curves would stand once.
        let mut state = run.id.bytes().fold(7, |state: u64, byte| state.wrapping_mul(31) + u64::from(byte));
        let rows: Vec<StepRow> = (0..self.steps).map(|step| self.step(step, &mut state)).collect();
        dir.steps().unwrap().append_all(&rows).unwrap();
        let evals: Vec<EvalRow> = (9..self.steps).step_by(10).map(eval).collect();
        dir.evals().unwrap().append_all(&evals).unwrap();
        let layers: Vec<LayerRow> = (0..self.steps)
            .step_by(self.telemetry_every)
            .flat_map(|step| (0..12).map(move |block| layer(step, block)))
            .collect();
        dir.layers().unwrap().append_all(&layers).unwrap();
        dir
    }

    fn step(&self, step: u64, state: &mut u64) -> StepRow {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = widen((*state >> 40) as f32 / 16_777_216.0);
        let at = step as f64 / self.steps as f64;
        let loss = self.spike.filter(|spike| spike.0 == step).map_or(2.3 - 1.8 * at + 0.3 * noise, |spike| spike.1);
        StepRow {
            step,
            epoch: at,
            loss: widen(loss as f32),
            lr: widen((1e-3 * (1.0 - at)) as f32),
            grad_norm: widen((1.0 + noise) as f32),
            grad_norm_attention: Some(0.5),
            grad_norm_mlp: Some(0.5),
            grad_norm_gamma: None,
            grad_norm_embedding: Some(0.5),
            grad_norm_head: Some(0.5),
            weight_update_norm: None,
            images_per_s: 345.0,
            seconds: at,
        }
    }
}

fn eval(step: u64) -> EvalRow {
    let top1 = 0.1 + 0.6 * (step as f64 / (step as f64 + 50.0));
    EvalRow { step, split: Split::Val, weights: Weights::Raw, loss: 1.0, top1, top5: 0.9, images: 1000 }
}

fn layer(step: u64, block: u64) -> LayerRow {
    let figure = Some(0.01 * (1 + block) as f64);
    LayerRow {
        step,
        block,
        branch: Branch::Mlp,
        residual_rms: figure,
        branch_rms: figure,
        update_rms: figure,
        ratio: figure,
        ratio_p10: figure,
        ratio_p90: figure,
        cosine: Some(0.1),
        gamma_mean: None,
        gamma_rms: None,
        gamma_abs: None,
        gamma_min: None,
        gamma_max: None,
        gamma_flipped: None,
        gate_mean: None,
        gate_std: None,
        gate_saturated: None,
    }
}

/// A finished sweep of these arms.
pub fn finished(arms: &[&str], seeds: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(arms, seeds);
    plan.write(dir.path()).unwrap();
    for (index, run) in plan.runs.iter().enumerate() {
        Fake { top1: 0.7 + 0.001 * index as f64, ..Fake::default() }.write(dir.path(), run);
    }
    dir
}

/// The page of a sweep's folder, and its table.
pub fn page_of(dir: &Path) -> (String, Table) {
    let sweep = read_sweep(dir).unwrap();
    let table = table(&sweep, &Options::default()).unwrap();
    let plots = reslab_plot::plots(dir, &sweep, &table).unwrap();
    (page(dir, &sweep, &table, &plots), table)
}

/// A published sweep of the repository.
pub fn published(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results").join(name)
}
