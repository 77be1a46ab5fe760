//! What a run writes while it goes: rows, log lines, and the files at its end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reslab_record::{
    Branch, Done, EvalRow, EvalWriter, LayerRow, LayerWriter, Outcome, ProbeRow, ProbeWriter, Progress, RunDir, Split,
    StepRow, StepWriter, Timing, Weights, clear_partials, widen,
};
use reslab_residual::{BlockFigures, ProbeFigures, SiteFigures};
use reslab_torch::peak_memory;

use crate::evaluate::Scores;
use crate::gradients::{Part, Parts};
use crate::learner::{Learner, Measured};
use crate::{Job, TrainError};

/// The metric that a step itself gives.
const TRAIN_LOSS: &str = "train/loss";

/// The open records of one run.
pub(crate) struct Records<'a> {
    job: &'a Job<'a>,
    dir: RunDir,
    steps: StepWriter,
    evals: EvalWriter,
    probes: ProbeWriter,
    layers: LayerWriter,
    parts: Parts,
    started: Instant,
    /// End of the last step's work; evaluations and checkpoints in between are not part of a step's time.
    resumed: Instant,
    /// Images per second of each step.
    speeds: Vec<f64>,
    /// What earlier processes of this run took.
    earlier_seconds: f64,
    /// Time that went into checkpoints, of earlier processes too.
    checkpoint_seconds: f64,
    first_step: u64,
    metrics: BTreeMap<String, f64>,
}

impl<'a> Records<'a> {
    /// Opens the run's folder and writes down what will be computed, where and by which code.
    pub(crate) fn start(job: &'a Job) -> Result<Self, TrainError> {
        let dir = RunDir::create(&job.dir)?;
        clear_partials(&job.dir)?;
        dir.clear_failed()?;
        dir.write_config(&job.table)?;
        dir.write_env(&job.env)?;
        let earlier = dir.read_timing().ok().flatten();
        let now = Instant::now();
        Ok(Self {
            job,
            steps: dir.steps()?,
            evals: dir.evals()?,
            probes: dir.probes()?,
            layers: dir.layers()?,
            dir,
            parts: Parts::default(),
            started: now,
            resumed: now,
            speeds: Vec::new(),
            earlier_seconds: earlier.as_ref().map_or(0.0, |timing| timing.seconds),
            checkpoint_seconds: earlier.as_ref().map_or(0.0, |timing| timing.checkpoint_seconds),
            first_step: 0,
            metrics: BTreeMap::new(),
        })
    }

    /// The network is built and stands at `step`.
    pub(crate) fn began(&mut self, learner: &Learner, step: u64) -> Result<(), TrainError> {
        self.parts = Parts::of(learner.trained());
        self.first_step = step;
        self.resume_steps();
        if step == 0 {
            self.dir.forget_earlier_envs()?;
        }
        if let Some(start) = learner.start() {
            for line in [&start.loaded, &start.line()] {
                self.log(line)?;
            }
            self.metrics.extend(start.metrics());
        }
        let from = if step == 0 { String::new() } else { format!(", from step {step}") };
        self.log(&format!(
            "{} seed {}: {} parameters ({}), {} steps{from}",
            self.job.arm,
            self.job.seed,
            learner.num_parameters(),
            learner.group_counts(),
            self.job.config.steps(),
        ))
    }

    /// One line to log.txt.
    pub(crate) fn log(&self, line: &str) -> Result<(), TrainError> {
        Ok(self.dir.log(line)?)
    }

    /// Lines to log.txt.
    pub(crate) fn log_all(&self, lines: Vec<String>) -> Result<(), TrainError> {
        lines.iter().try_for_each(|line| self.log(line))
    }

    /// Writes a step's rows.
    pub(crate) fn step(&mut self, learner: &Learner, step: u64, measured: &Measured) -> Result<Progress, TrainError> {
        let config = self.job.config;
        let images_per_s = config.batch() as f64 / self.resumed.elapsed().as_secs_f64();
        self.speeds.push(images_per_s);
        let part = |part| self.parts.norm(part, &measured.grad_norms).map(narrow);
        self.steps.append(&StepRow {
            step,
            epoch: learner.epoch_after(step),
            loss: narrow(measured.loss),
            lr: measured.lr,
            grad_norm: narrow(measured.grad_norm),
            grad_norm_attention: part(Part::Attention),
            grad_norm_mlp: part(Part::Mlp),
            grad_norm_gamma: part(Part::Gamma),
            grad_norm_embedding: part(Part::Embedding),
            grad_norm_head: part(Part::Head),
            weight_update_norm: measured.weight_update_norm.map(narrow),
            images_per_s: round(images_per_s),
            seconds: round(self.seconds()),
        })?;
        if let Some(layers) = &measured.layers {
            let rows: Vec<LayerRow> =
                layers.iter().enumerate().map(|(site, figures)| layer_row(step, site, figures)).collect();
            self.layers.append_all(&rows)?;
        }
        self.set_train_loss(narrow(measured.loss));
        let event = Progress::Step {
            step,
            steps: config.steps(),
            loss: measured.loss,
            lr: measured.lr,
            images_per_s,
            seconds_left: self.seconds_left(step),
        };
        self.resume_steps();
        Ok(event)
    }

    /// Wall time of all processes of this run so far.
    fn seconds(&self) -> f64 {
        self.earlier_seconds + self.started.elapsed().as_secs_f64()
    }

    /// What was done since the last step is no part of the next one's time.
    pub(crate) fn resume_steps(&mut self) {
        self.resumed = Instant::now();
    }

    /// A checkpoint was written, which took this long.
    pub(crate) fn saved(&mut self, took: Duration) {
        self.checkpoint_seconds += took.as_secs_f64();
        self.resume_steps();
    }

    fn seconds_left(&self, step: u64) -> f64 {
        let done = (step + 1 - self.first_step) as f64;
        self.started.elapsed().as_secs_f64() / done * (self.job.config.steps() - step - 1) as f64
    }

    /// Writes an evaluation's row; what is evaluated last is what is reported.
    pub(crate) fn evaluation(
        &mut self,
        step: u64,
        split: Split,
        weights: Weights,
        scores: Scores,
    ) -> Result<Progress, TrainError> {
        let Scores { loss, top1, top5, images } = scores;
        self.evals.append(&EvalRow { step, split, weights, loss, top1, top5, images })?;
        self.set_metrics(split, weights, scores);
        self.resume_steps();
        Ok(Progress::Eval { step, split, weights, top1, loss })
    }

    /// Writes what a look into the network found.
    pub(crate) fn probe(&mut self, step: u64, found: &ProbeFigures) -> Result<(), TrainError> {
        let rows: Vec<ProbeRow> =
            found.blocks.iter().enumerate().map(|(block, figures)| probe_row(step, block, figures)).collect();
        self.probes.append_all(&rows)?;
        for (name, value) in probe_metrics(found) {
            match value {
                Some(value) => self.metrics.insert(format!("probe/{name}"), narrow(value)),
                None => self.metrics.remove(&format!("probe/{name}")),
            };
        }
        self.resume_steps();
        Ok(())
    }

    /// The validation scores that go with the weights that are reported.
    pub(crate) fn choose(&mut self, reported: Option<(Option<u64>, Scores)>) {
        let Some((step, scores)) = reported else { return };
        self.set_metrics(Split::Val, Weights::Raw, scores);
        if let Some(step) = step {
            self.metrics.insert("val/best_step".to_owned(), step as f64);
        }
    }

    fn set_metrics(&mut self, split: Split, weights: Weights, scores: Scores) {
        let suffix = if weights == Weights::Ema { "_ema" } else { "" };
        for (name, value) in [("loss", scores.loss), ("top1", scores.top1), ("top5", scores.top5)] {
            self.metrics.insert(format!("{split}/{name}{suffix}"), value);
        }
    }

    /// Mean loss of the last step's batch, if one was done.
    pub(crate) fn train_loss(&self) -> Option<f64> {
        self.metrics.get(TRAIN_LOSS).copied()
    }

    /// Takes the loss of the step before the one that the run goes on with.
    pub(crate) fn set_train_loss(&mut self, loss: f64) {
        self.metrics.insert(TRAIN_LOSS.to_owned(), loss);
    }

    /// Removes all rows of `step` and after, for the run to go on there. Whether all rows before it are there.
    pub(crate) fn cut_back(&mut self, step: u64) -> Result<bool, TrainError> {
        let evaluated = self.job.config.last_evaluated(step);
        let [steps, evals, probes, layers] = [
            self.steps.cut_back(step)?,
            self.evals.cut_back(evaluated)?,
            self.probes.cut_back(evaluated)?,
            self.layers.cut_back(step)?,
        ];
        let expected = self.job.config.rows_before(step);
        let whole = [steps.kept, evals.kept, probes.kept, layers.kept] == expected;
        for torn in [steps, evals, probes, layers].into_iter().filter_map(|cut| cut.torn) {
            self.log(&format!("a row was torn, and is computed again: {torn}"))?;
        }
        Ok(whole)
    }

    /// All rows on disk, so that a checkpoint never stands for rows that are not there; and the time so far.
    pub(crate) fn sync(&mut self) -> Result<(), TrainError> {
        self.steps.sync()?;
        self.evals.sync()?;
        self.probes.sync()?;
        self.layers.sync()?;
        Ok(self.dir.write_timing(&self.timing())?)
    }

    /// Writes the files of the end; done.json is the last.
    pub(crate) fn end(&mut self, learner: &Learner, outcome: Outcome, steps: u64) -> Result<(), TrainError> {
        self.sync()?;
        self.log(&match outcome {
            Outcome::Finished => "finished".to_owned(),
            Outcome::NonFinite { step } => {
                format!("loss or gradient not finite at step {step}: the run ends, as a result")
            }
        })?;
        if outcome == Outcome::Finished {
            self.dir.drop_previous_checkpoint()?;
        }
        let config = self.job.config;
        let rate = config.drop_path.effective_rate(config.model.depth, config.batch());
        self.dir.write_done(&Done {
            id: self.job.id.clone(),
            arm: self.job.arm.clone(),
            seed: self.job.seed,
            outcome,
            steps,
            metrics: std::mem::take(&mut self.metrics),
            parameters: learner.num_parameters(),
            num_classes: config.input().classes as u64,
            effective_drop_rate: (config.drop_path.rate > 0.0).then_some(rate),
            micro_batches: config.micro_batches,
        })?;
        Ok(())
    }

    fn timing(&self) -> Timing {
        let mut speeds = self.speeds.clone();
        speeds.sort_by(f64::total_cmp);
        Timing {
            seconds: round(self.seconds()),
            images_per_s: round(speeds.get(speeds.len() / 2).copied().unwrap_or(0.0)),
            peak_memory_bytes: peak_memory(self.job.device),
            checkpoint_seconds: round(self.checkpoint_seconds),
            device: self.job.env.device.clone(),
            threads: self.job.env.threads,
        }
    }
}

fn probe_row(step: u64, block: usize, figures: &BlockFigures) -> ProbeRow {
    let [residual_rms_attention, residual_rms_mlp] = figures.residual_rms.map(|rms| rms.map(narrow));
    ProbeRow {
        step,
        block: block as u64,
        attention_logit_max: figures.attention_logit_max.map(narrow),
        attention_entropy: figures.attention_entropy.map(narrow),
        token_similarity: figures.token_similarity.map(narrow),
        residual_rms_attention,
        residual_rms_mlp,
    }
}

/// A look into the network in four numbers; `None`: not defined there.
fn probe_metrics(found: &ProbeFigures) -> [(&'static str, Option<f64>); 4] {
    let of =
        |figure: fn(&BlockFigures) -> Option<f64>| -> Option<Vec<f64>> { found.blocks.iter().map(figure).collect() };
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let largest = |values: Vec<f64>| values.into_iter().reduce(|a, b| if a >= b || a.is_nan() { a } else { b });
    [
        ("attention_logit_max", of(|block| block.attention_logit_max).and_then(largest)),
        ("attention_entropy", of(|block| block.attention_entropy).map(mean)),
        ("token_similarity", found.blocks.last().and_then(|block| block.token_similarity)),
        ("stream_growth", found.stream_growth),
    ]
}

fn layer_row(step: u64, site: usize, figures: &SiteFigures) -> LayerRow {
    let f = |value: Option<f64>| value.map(narrow);
    LayerRow {
        step,
        block: site as u64 / 2,
        branch: if site.is_multiple_of(2) { Branch::Attention } else { Branch::Mlp },
        residual_rms: f(figures.residual_rms),
        branch_rms: f(figures.branch_rms),
        update_rms: f(figures.update_rms),
        ratio: f(figures.ratio),
        ratio_p10: f(figures.ratio_p10),
        ratio_p90: f(figures.ratio_p90),
        cosine: f(figures.cosine),
        gamma_mean: f(figures.gamma_mean),
        gamma_rms: f(figures.gamma_rms),
        gamma_abs: f(figures.gamma_abs),
        gamma_min: f(figures.gamma_min),
        gamma_max: f(figures.gamma_max),
        gamma_flipped: f(figures.gamma_flipped),
        gate_mean: f(figures.gate_mean),
        gate_std: f(figures.gate_std),
        gate_saturated: f(figures.gate_saturated),
    }
}

/// The digits that a float32 figure has; more would be noise in the file.
fn narrow(value: f64) -> f64 {
    widen(value as f32)
}

/// Three digits behind the point: times are not exact.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
