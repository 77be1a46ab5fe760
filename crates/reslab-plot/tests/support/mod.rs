//! Sweeps made by hand: a plan, and runs whose rows hold known figures.

#![allow(dead_code)] // each test file uses its part

use reslab_plot::{Plots, write_plots};
use reslab_record::*;
use reslab_report::{Options, read_sweep, table};
use std::collections::BTreeMap;
use std::path::Path;

/// What a run of a test leaves.
#[derive(Clone)]
pub struct Fake {
    pub arm: &'static str,
    pub lr: &'static str,
    pub depth: i64,
    pub seed: u64,
    pub steps: u64,
    /// Factor on the gradient norm at step 150.
    pub spike: f64,
    pub gamma: Option<f64>,
    pub gate: Option<f64>,
    pub non_finite: bool,
    pub evals: bool,
    pub telemetry: bool,
    pub done: bool,
    /// What stands for every figure in every other block and step.
    pub odd: Option<f64>,
}

pub const RUN: Fake = Fake {
    arm: "plain",
    lr: "1e-3",
    depth: 4,
    seed: 0,
    steps: 200,
    spike: 1.0,
    gamma: None,
    gate: None,
    non_finite: false,
    evals: true,
    telemetry: true,
    done: true,
    odd: None,
};

/// These runs with seeds 0, 1 and 2.
pub fn three_seeds(runs: &[Fake]) -> Vec<Fake> {
    runs.iter().flat_map(|run| (0..3).map(|seed| Fake { seed, ..run.clone() })).collect()
}

pub fn axis(key: &str, value: &str) -> Axis {
    let label = key.rsplit('.').next().unwrap().to_owned();
    Axis { key: key.into(), label, value: value.into(), grid: true }
}

impl Fake {
    fn planned(&self, axes: &[Axis]) -> PlannedRun {
        let config = format!("model = {{ depth = {} }}\noptim = {{ lr = {} }}", self.depth, self.lr);
        let mut run = PlannedRun {
            id: String::new(),
            arm: String::new(),
            family: self.arm.into(),
            seed: self.seed,
            folder: format!("runs/{}-{}-{}-{}", self.arm.replace('/', "_"), self.lr, self.depth, self.seed),
            device_kind: "cpu".into(),
            threads: 1,
            parameters: 1,
            flops_per_image: 1.0,
            axes: axes.to_vec(),
            config: toml::from_str(&config).unwrap(),
        };
        run.arm = run.name_without(|_| false);
        run.id = run.folder.clone();
        run
    }

    fn write(&self, sweep: &Path, run: &PlannedRun) {
        let dir = RunDir::create(&run.dir(sweep)).unwrap();
        let mut steps = dir.steps().unwrap();
        let rows: Vec<StepRow> = (0..self.steps).map(|step| self.step(step)).collect();
        steps.append_all(&rows).unwrap();
        if self.telemetry {
            let joins = (0..self.steps).step_by(10).flat_map(|step| self.joins(step));
            dir.layers().unwrap().append_all(&joins.collect::<Vec<_>>()).unwrap();
        }
        if self.evals {
            let top1 = |step: u64| 0.5 + 0.001 * step as f64 + 0.01 * self.seed as f64;
            let row = |step| EvalRow {
                step,
                split: Split::Val,
                weights: Weights::Raw,
                loss: 1.0,
                top1: top1(step),
                top5: 1.0,
                images: 9,
            };
            dir.evals().unwrap().append_all(&[row(99), row(199)]).unwrap();
            if self.telemetry {
                let rows = [99, 199].into_iter().flat_map(|step| self.probes(step));
                dir.probes().unwrap().append_all(&rows.collect::<Vec<_>>()).unwrap();
            }
        }
        if self.done {
            let outcome = if self.non_finite { Outcome::NonFinite { step: self.steps - 1 } } else { Outcome::Finished };
            let metrics =
                [("val/top1", 0.7), ("test/top1", 0.6 + 0.02 * self.seed as f64 + 0.01 * self.arm.len() as f64)];
            dir.write_done(&Done {
                id: run.id.clone(),
                arm: run.arm.clone(),
                seed: run.seed,
                outcome,
                steps: self.steps,
                metrics: metrics.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
                parameters: 1,
                num_classes: 10,
                effective_drop_rate: None,
                micro_batches: None,
            })
            .unwrap();
        }
    }

    fn step(&self, step: u64) -> StepRow {
        let at = step as f64;
        let odd = |figure: f64| self.odd.filter(|_| step % 2 == 1).unwrap_or(figure);
        let is_bad = self.non_finite && step + 1 == self.steps;
        let wobble = 1.0 + 0.1 * (step % 7) as f64 + 0.05 * self.seed as f64;
        StepRow {
            step,
            epoch: at,
            loss: odd(if is_bad { f64::NAN } else { 2.3 - 0.008 * at + 0.1 * self.seed as f64 }),
            lr: 1e-3,
            grad_norm: odd(if is_bad { f64::INFINITY } else { wobble * if step == 150 { self.spike } else { 1.0 } }),
            grad_norm_attention: None,
            grad_norm_mlp: None,
            grad_norm_gamma: None,
            grad_norm_embedding: None,
            grad_norm_head: None,
            weight_update_norm: None,
            images_per_s: 1.0,
            seconds: at,
        }
    }

    fn probes(&self, step: u64) -> Vec<ProbeRow> {
        let row = |block: u64| ProbeRow {
            step,
            block,
            attention_logit_max: self.odd.or(Some((1 + block) as f64 + 0.01 * step as f64)),
            attention_entropy: self.odd.or(Some(0.9 - 0.1 * block as f64)),
            token_similarity: self.odd.or(Some(0.2 * block as f64)),
            residual_rms_attention: None,
            residual_rms_mlp: None,
        };
        (0..self.depth as u64).map(row).collect()
    }

    fn joins(&self, step: u64) -> Vec<LayerRow> {
        let row = |block: u64, branch: Branch| LayerRow {
            step,
            block,
            branch,
            residual_rms: Some(0.5 + 0.1 * block as f64),
            branch_rms: None,
            update_rms: None,
            ratio: Some(0.01 * (1 + block + step) as f64),
            ratio_p10: None,
            ratio_p90: None,
            // Not defined where an update is zero.
            cosine: (step > 0).then_some(0.1 * block as f64 - 0.1),
            gamma_mean: self.gamma,
            gamma_rms: self.gamma,
            gamma_abs: self.gamma,
            gamma_min: self.gamma,
            gamma_max: self.gamma,
            gamma_flipped: None,
            gate_mean: self.gate,
            gate_std: self.gate,
            gate_saturated: self.gate.map(|_| 0.0),
        };
        let blocks = 0..self.depth as u64;
        let mut rows: Vec<_> =
            blocks.flat_map(|block| [row(block, Branch::Attention), row(block, Branch::Mlp)]).collect();
        if self.odd.is_some() {
            for row in rows.iter_mut().step_by(2) {
                row.ratio = self.odd;
                (row.residual_rms, row.cosine, row.gamma_abs) = (self.odd, self.odd, self.odd);
                (row.gate_mean, row.gate_saturated) = (self.odd, self.odd);
            }
        }
        rows
    }
}

pub fn sweep(dir: &Path, runs: &[Fake], axes: impl Fn(&Fake) -> Vec<Axis>) {
    let planned: Vec<PlannedRun> = runs.iter().map(|run| run.planned(&axes(run))).collect();
    let plan = Plan {
        format: PLAN_FORMAT,
        name: "demo".into(),
        question: "Does it train?".into(),
        baseline: "plain".into(),
        metric: "test/top1".into(),
        seeds: vec![0, 1, 2],
        select: vec![],
        profile: None,
        set: vec![],
        study: None,
        source: Source { path: "demo.toml".into(), sha256: "00".into() },
        versions: BTreeMap::new(),
        runs: planned,
    };
    plan.write(dir).unwrap();
    for (fake, run) in runs.iter().zip(&plan.runs) {
        fake.write(dir, run);
    }
}

pub fn draw(dir: &Path) -> Plots {
    let sweep = read_sweep(dir).unwrap();
    let table = table(&sweep, &Options::default()).unwrap();
    write_plots(dir, &sweep, &table).unwrap()
}

/// The texts of a plot, and how often a piece of SVG occurs in it.
pub fn svg<'a>(plots: &'a Plots, name: &str) -> &'a str {
    let found = plots.drawn.iter().find(|plot| plot.name == name);
    &found.unwrap_or_else(|| panic!("no {name}; left out: {:?}", plots.left_out)).svg
}

pub fn texts(svg: &str) -> Vec<&str> {
    let parts = svg.split("<text ").skip(1);
    parts.map(|part| part.split_once('>').unwrap().1.split("</text>").next().unwrap()).collect()
}

pub fn arms() -> Vec<Fake> {
    let layer_scale = Fake { arm: "layer_scale", gamma: Some(1e-5), ..RUN };
    let gated = Fake { arm: "gated", gamma: Some(0.2), gate: Some(0.1), spike: 40.0, ..RUN };
    three_seeds(&[RUN, layer_scale, gated])
}
