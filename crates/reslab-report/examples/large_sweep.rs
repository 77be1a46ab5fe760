//! Writes the records of a large sweep that was never computed, to measure `reslab report` on:
//! `cargo run -p reslab-report --example large_sweep -- DIR [RUNS] [STEPS]`; experiments/report-time says more.

use reslab_record::{
    Axis, Branch, Done, Env, EvalRow, LayerRow, Outcome, PLAN_FORMAT, Plan, PlannedRun, ProbeRow, RecordError, RunDir,
    Source, Split, StepRow, Timing, Weights,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const DEPTH: u64 = 48;
const EVERY: u64 = 500;
const RATES: [&str; 4] = ["3e-4", "1e-3", "3e-3", "1e-2"];
const SEEDS: u64 = 5;
const ARMS: [&str; 4] = ["plain", "layer_scale", "drop_path", "gated"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("which folder?")?);
    let runs: u64 = arguments.next().map_or(Ok(200), |runs| runs.parse())?;
    let steps: u64 = arguments.next().map_or(Ok(10_000), |steps| steps.parse())?;
    let plan = plan(runs, steps)?;
    std::fs::create_dir_all(&dir)?;
    plan.write(&dir)?;
    for (index, run) in plan.runs.iter().enumerate() {
        write(&dir, run, &mut Noise(index as u64 + 1), steps)?;
    }
    println!("{}: {} runs of {steps} steps", dir.display(), plan.runs.len());
    Ok(())
}

fn plan(runs: u64, steps: u64) -> Result<Plan, toml::de::Error> {
    let config = |rate: &str| {
        format!(
            "data = {{ dataset = 'fashion-mnist', train_images = 54000, val_images = 6000 }}\nmodel = {{ depth = {DEPTH}, width = 64 }}\n\
         train = {{ steps = {steps}, eval_every = {EVERY}, telemetry_every = {EVERY}, ema_decay = 0.0 }}\noptim = {{ kind = 'adamw', lr = {rate} }}"
        )
    };
    let run = |index: u64| -> Result<PlannedRun, toml::de::Error> {
        let (seed, rate) = (index % SEEDS, RATES[(index / SEEDS) as usize % RATES.len()]);
        let arm = (index / SEEDS) as usize / RATES.len();
        let family =
            format!("{}{}", ARMS[arm % ARMS.len()], if arm < ARMS.len() { String::new() } else { arm.to_string() });
        let axis = Axis { key: "optim.lr".into(), label: "lr".into(), value: rate.into(), grid: true };
        let mut run = PlannedRun {
            id: format!("{index:016x}"),
            arm: String::new(),
            folder: format!("runs/{family}_lr={rate}_-s{seed}"),
            family,
            seed,
            device_kind: "cpu".into(),
            threads: 1,
            parameters: 2_404_234,
            flops_per_image: 1e6,
            axes: vec![axis],
            config: toml::from_str(&config(rate))?,
        };
        run.arm = run.name_without(|_| false);
        Ok(run)
    };
    Ok(Plan {
        format: PLAN_FORMAT,
        name: "large".into(),
        question: "How long does a report take?".into(),
        baseline: "plain".into(),
        metric: "test/top1".into(),
        seeds: (0..SEEDS).collect(),
        select: vec!["optim.lr".into()],
        profile: None,
        set: Vec::new(),
        study: None,
        source: Source { path: "large.toml".into(), sha256: "00".into() },
        versions: BTreeMap::new(),
        runs: (0..runs).map(run).collect::<Result<_, _>>()?,
    })
}

fn write(sweep: &Path, run: &PlannedRun, noise: &mut Noise, steps: u64) -> Result<(), RecordError> {
    let dir = RunDir::create(&run.dir(sweep))?;
    dir.write_config(&run.config)?;
    let device = || "cpu".to_owned();
    dir.write_env(&Env {
        reslab: "0.1.0".into(),
        libtorch: "2.11.0".into(),
        device: device(),
        threads: 1,
        ..Env::default()
    })?;
    let rows: Vec<StepRow> = (0..steps).map(|step| step_row(step, steps, noise)).collect();
    dir.steps()?.append_all(&rows)?;
    let sites = (0..DEPTH).flat_map(|block| [(block, Branch::Attention), (block, Branch::Mlp)]);
    let at = (0..steps).step_by(EVERY as usize);
    let layers: Vec<LayerRow> = at
        .flat_map(|step| sites.clone().map(move |site| (step, site)))
        .map(|(step, site)| layer_row(step, site, noise))
        .collect();
    dir.layers()?.append_all(&layers)?;
    let looks = || (1..=steps / EVERY).map(|k| k * EVERY - 1);
    let probes: Vec<ProbeRow> = looks()
        .flat_map(|step| (0..DEPTH).map(move |block| (step, block)))
        .map(|(step, block)| probe_row(step, block, noise))
        .collect();
    dir.probes()?.append_all(&probes)?;
    let top1 = 0.7 + 0.02 * noise.next();
    let eval =
        |step, split| EvalRow { step, split, weights: Weights::Raw, loss: 0.7, top1, top5: 0.99, images: 10_000 };
    let evals: Vec<EvalRow> =
        looks().map(|step| eval(step, Split::Val)).chain([eval(steps - 1, Split::Test)]).collect();
    dir.evals()?.append_all(&evals)?;
    let (seconds, images_per_s, peak_memory_bytes) = (600.0, 1000.0, 1 << 30);
    dir.write_timing(&Timing {
        seconds,
        images_per_s,
        peak_memory_bytes,
        checkpoint_seconds: 1.0,
        device: device(),
        threads: 1,
    })?;
    dir.write_done(&done(run, steps, top1))
}

fn done(run: &PlannedRun, steps: u64, top1: f64) -> Done {
    let metrics = [("test/top1", top1), ("val/top1", top1), ("test/loss", 0.7), ("probe/attention_entropy", 0.5)];
    Done {
        id: run.id.clone(),
        arm: run.arm.clone(),
        seed: run.seed,
        outcome: Outcome::Finished,
        steps,
        metrics: metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        parameters: run.parameters,
        num_classes: 10,
        effective_drop_rate: None,
        micro_batches: None,
    }
}

fn step_row(step: u64, steps: u64, noise: &mut Noise) -> StepRow {
    let done = step as f64 / steps as f64;
    let spike = if noise.next() < 2e-4 { 30.0 } else { 1.0 };
    StepRow {
        step,
        epoch: step as f64 * 64.0 / 54_000.0,
        loss: 2.3 * (-3.0 * done).exp() + 0.2 * noise.next(),
        lr: 1e-3 * (1.0 - done),
        grad_norm: (1.0 + noise.next()) * spike,
        grad_norm_attention: Some(noise.next()),
        grad_norm_mlp: Some(noise.next()),
        grad_norm_gamma: Some(noise.next()),
        grad_norm_embedding: Some(noise.next()),
        grad_norm_head: Some(noise.next()),
        weight_update_norm: step.is_multiple_of(EVERY).then(|| noise.next()),
        images_per_s: 1000.0 + noise.next(),
        seconds: step as f64 * 0.064,
    }
}

fn layer_row(step: u64, (block, branch): (u64, Branch), noise: &mut Noise) -> LayerRow {
    let mut some = || Some(0.01 + noise.next());
    LayerRow {
        step,
        block,
        branch,
        residual_rms: some(),
        branch_rms: some(),
        update_rms: some(),
        ratio: some(),
        ratio_p10: some(),
        ratio_p90: some(),
        cosine: some(),
        gamma_mean: some(),
        gamma_rms: some(),
        gamma_abs: some(),
        gamma_min: some(),
        gamma_max: some(),
        gamma_flipped: some(),
        gate_mean: None,
        gate_std: None,
        gate_saturated: None,
    }
}

fn probe_row(step: u64, block: u64, noise: &mut Noise) -> ProbeRow {
    let mut some = || Some(noise.next());
    let (attention_logit_max, attention_entropy, token_similarity) = (some(), some(), some());
    let (residual_rms_attention, residual_rms_mlp) = (some(), some());
    ProbeRow {
        step,
        block,
        attention_logit_max,
        attention_entropy,
        token_similarity,
        residual_rms_attention,
        residual_rms_mlp,
    }
}

/// Numbers from 0 to 1 with a float32's digits, always the same.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        reslab_record::widen((self.0 >> 40) as f32 / (1 << 24) as f32)
    }
}
