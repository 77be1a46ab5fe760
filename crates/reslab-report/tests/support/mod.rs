//! Sweeps made by hand: a plan, and runs whose records hold known numbers.

#![allow(dead_code)] // each test file uses its part

use reslab_record::*;
use std::collections::BTreeMap;
use std::path::Path;

/// An axis of `optim.lr` in `[grid]`.
pub fn lr(value: &str) -> Axis {
    Axis { key: "optim.lr".into(), label: "lr".into(), value: value.into(), grid: true }
}

/// An axis of an arm's own.
pub fn init(value: &str) -> Axis {
    Axis { key: "residual.init".into(), label: "init".into(), value: value.into(), grid: false }
}

const CONFIG: &str = r#"
data = { dataset = "digits", train_images = 1200 }
model = { depth = 3, width = 8 }
train = { steps = 200, clip = 1.0 }
optim = { kind = "adamw", weight_decay = 0.05 }
"#;

pub fn planned(family: &str, axes: &[Axis], seed: u64) -> PlannedRun {
    let mut run = PlannedRun {
        id: String::new(),
        arm: String::new(),
        family: family.into(),
        seed,
        folder: String::new(),
        device_kind: "cpu".into(),
        threads: 1,
        parameters: 1_234_567,
        flops_per_image: 1e6,
        axes: axes.to_vec(),
        config: toml::from_str(CONFIG).unwrap(),
    };
    run.arm = run.name_without(|_| false);
    run.id = format!("{}-{seed}", run.arm);
    run.folder = format!("runs/{}-s{seed}", run.arm.replace(['[', ']', ','], "_"));
    run
}

pub fn plan(runs: Vec<PlannedRun>) -> Plan {
    let mut seeds: Vec<u64> = runs.iter().map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    Plan {
        format: PLAN_FORMAT,
        name: "demo".into(),
        question: "Does it\ntrain?".into(),
        baseline: "plain".into(),
        metric: "test/top1".into(),
        seeds,
        select: vec![],
        profile: Some("cpu".into()),
        set: vec![],
        study: None,
        source: Source { path: "/home/someone/configs/demo.toml".into(), sha256: "0123456789abcdef".into() },
        versions: BTreeMap::new(),
        runs,
    }
}

/// A run's records, with everything that a report reads.
pub struct Fake {
    pub losses: Vec<f64>,
    pub top1: (f64, f64),
    pub outcome: Outcome,
    pub images_per_s: f64,
}

impl Fake {
    /// A run that trains: its loss falls from 2.3 to 0.5, and it scores `val` and `test`.
    pub fn trained(val: f64, test: f64) -> Self {
        let losses = (0..200).map(|step| if step < 100 { 2.3 } else { 0.5 }).collect();
        Self { losses, top1: (val, test), outcome: Outcome::Finished, images_per_s: 100.0 }
    }

    /// A run that ends with a loss that is not finite at step 3.
    pub fn non_finite() -> Self {
        let losses = vec![2.3, 9.0, 99.0, f64::NAN];
        Self { losses, top1: (0.9, 0.9), outcome: Outcome::NonFinite { step: 3 }, images_per_s: 100.0 }
    }

    /// A run that goes to its end with a loss far above its start.
    pub fn diverged() -> Self {
        Self { losses: (0..200).map(|step| if step == 0 { 2.3 } else { 3.0 }).collect(), ..Self::trained(0.3, 0.3) }
    }

    /// A run that stays at ln 10 = 2.3026.
    pub fn not_trained() -> Self {
        Self { losses: vec![2.3; 200], ..Self::trained(0.1, 0.1) }
    }

    pub fn write(&self, sweep: &Path, run: &PlannedRun) {
        let dir = RunDir::create(&run.dir(sweep)).unwrap();
        dir.write_env(&Env {
            reslab: "0.1.0".into(),
            libtorch: "2.11.0".into(),
            git_commit: Some("0123456789abcdef0123".into()),
            git_dirty: Some(false),
            device: "cpu".into(),
            threads: 1,
            seed: run.seed,
            ..Env::default()
        })
        .unwrap();
        let mut steps = dir.steps().unwrap();
        let mut layers = dir.layers().unwrap();
        for (step, loss) in self.losses.iter().enumerate() {
            steps.append(&self.step_row(step as u64, *loss)).unwrap();
            if step % 100 == 0 {
                layers.append_all(&layer_rows(step as u64)).unwrap();
            }
        }
        let row = |split, top1| {
            let (step, weights, loss, top5, images) = (199, Weights::Raw, 0.7, 1.0, 10_000);
            EvalRow { step, split, weights, loss, top1, top5, images }
        };
        let mut evals = dir.evals().unwrap();
        evals.append_all(&[row(Split::Val, self.top1.0), row(Split::Test, self.top1.1)]).unwrap();
        dir.write_config(&run.config).unwrap();
        let (device, threads) = ("cpu".to_owned(), 1);
        let (images_per_s, peak_memory_bytes) = (self.images_per_s, 5 << 20);
        dir.write_timing(&Timing {
            seconds: 12.34,
            images_per_s,
            peak_memory_bytes,
            checkpoint_seconds: 0.0,
            device,
            threads,
        })
        .unwrap();
        let metrics = [("val/top1", self.top1.0), ("test/top1", self.top1.1), ("test/loss", 0.7)];
        dir.write_done(&Done {
            id: run.id.clone(),
            arm: run.arm.clone(),
            seed: run.seed,
            outcome: self.outcome,
            steps: self.losses.len() as u64,
            metrics: metrics.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
            parameters: run.parameters,
            num_classes: 10,
            effective_drop_rate: None,
            micro_batches: None,
        })
        .unwrap();
    }

    fn step_row(&self, step: u64, loss: f64) -> StepRow {
        StepRow {
            step,
            epoch: step as f64 / 10.0,
            loss,
            lr: 1e-3,
            grad_norm: 1.0 + step as f64 / 100.0,
            grad_norm_attention: None,
            grad_norm_mlp: None,
            grad_norm_gamma: None,
            grad_norm_embedding: None,
            grad_norm_head: None,
            weight_update_norm: None,
            images_per_s: self.images_per_s,
            seconds: step as f64 / self.images_per_s,
        }
    }
}

/// Three blocks; the last third is block 2, whose ratios are 0.2 and 0.4.
fn layer_rows(step: u64) -> Vec<LayerRow> {
    let blank = |block, branch, ratio| LayerRow {
        step,
        block,
        branch,
        residual_rms: None,
        branch_rms: None,
        update_rms: None,
        ratio: Some(ratio),
        ratio_p10: None,
        ratio_p90: None,
        cosine: None,
        gamma_mean: None,
        gamma_rms: None,
        gamma_abs: None,
        gamma_min: None,
        gamma_max: None,
        gamma_flipped: None,
        gate_mean: None,
        gate_std: None,
        gate_saturated: None,
    };
    let ratio = |block| if block == 2 { 0.2 } else { 7.0 };
    (0..3)
        .flat_map(|block| {
            [blank(block, Branch::Attention, ratio(block)), blank(block, Branch::Mlp, 2.0 * ratio(block))]
        })
        .collect()
}
