//! The tables `[train]` and `[optim]`, checked.

use reslab_config::{ConfigError, require};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::Interval;

/// The table `[train]`: how long, how much at once, and what is recorded on the way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Optimizer steps of the run. Exactly one of `steps` and `epochs` stands in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Passes over the training images; an incomplete last batch of a pass is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Images per optimizer step (the logical batch, all micro-batches together).
    pub batch: i64,
    /// Micro-batches that a batch is split into; their gradients are added up. 1: the batch goes through at once.
    pub accumulate: i64,
    /// Largest global gradient norm; longer gradients are scaled down to it. 0: no clipping.
    pub clip: f64,
    /// Label smoothing, in [0, 1): this share of the target is spread over all classes. 0: none.
    pub label_smoothing: f64,
    /// Arithmetic of the forward pass: `bf16` is autocast and needs CUDA; weights stay float32.
    pub precision: Precision,
    /// Optimizer steps between two evaluations on the validation split. 0: only at the end.
    pub eval_every: u64,
    /// Optimizer steps between two rows per layer in layers.csv. 0: none.
    pub telemetry_every: u64,
    /// Optimizer steps between two checkpoints, or a time such as `"10 min"`. 0: only when the run is interrupted.
    pub checkpoint_every: Interval,
    /// Decay d of the moving average of the weights, min(d, (1+t)/(10+t)) at step t. 0: no average.
    pub ema_decay: f64,
    /// Which weights the run's figures are of: those after the last step, or those of the best validation accuracy seen.
    pub report: ReportWeights,
    /// Deterministic algorithms on CUDA (slower); the CPU is deterministic at a fixed number of threads.
    pub deterministic: bool,
}

/// Arithmetic of the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Single precision throughout.
    Fp32,
    /// bfloat16 autocast on CUDA.
    Bf16,
}

/// Which weights a run reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportWeights {
    /// Those after the last step.
    Last,
    /// Those of the evaluation with the best validation accuracy.
    BestVal,
}

impl TrainConfig {
    /// Reads and checks the table.
    ///
    /// # Errors
    /// Names the key, what must hold and what came.
    pub fn parse(table: &toml::Table) -> Result<Self, ConfigError> {
        let config: Self = reslab_config::parse("train", table)?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        require(self.steps.is_some() != self.epochs.is_some(), "train.steps", || {
            let came = if self.steps.is_some() { "both" } else { "neither" };
            format!("exactly one of train.steps and train.epochs must be given, but {came} came")
        })?;
        at_least_one("train.steps", self.steps)?;
        at_least_one("train.epochs", self.epochs)?;
        at_least_one("train.batch", u64::try_from(self.batch).ok().or(Some(0)))?;
        require(self.accumulate >= 1 && self.batch % self.accumulate == 0, "train.accumulate", || {
            format!("must be at least 1 and divide train.batch = {}, but is {}", self.batch, self.accumulate)
        })?;
        require(self.clip.is_finite() && self.clip >= 0.0, "train.clip", || {
            format!("must be a finite norm, or 0 for no clipping, but is {}", self.clip)
        })?;
        unit_interval("train.label_smoothing", self.label_smoothing)?;
        unit_interval("train.ema_decay", self.ema_decay)
    }

    /// Refuses an average over a longer time than a quarter of the run: it would mostly hold the start.
    pub(crate) fn check_ema(&self, steps: u64) -> Result<(), ConfigError> {
        let window = 1.0 / (1.0 - self.ema_decay);
        require(self.ema_decay == 0.0 || window <= steps as f64 / 4.0, "train.ema_decay", || {
            let largest = 1.0 - 4.0 / steps as f64;
            format!(
                "{} averages over 1/(1-d) = {window:.0} steps, more than a quarter of the run's {steps}; at most {largest:.4}, or 0 for none",
                self.ema_decay
            )
        })
    }
}

/// The table `[optim]`, by its `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum OptimConfig {
    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101).
    AdamW {
        /// Peak learning rate, reached after the warm-up.
        lr: f64,
        /// Decay rates of the two moments, each in [0, 1).
        betas: [f64; 2],
        /// Added to the root of the second moment.
        eps: f64,
        /// Decoupled weight decay, times the learning rate; weights only, never gamma, biases, norms, positions or tokens.
        weight_decay: f64,
        /// Steps over which the learning rate rises linearly to its peak. 0: none.
        warmup_steps: u64,
        /// Course of the learning rate after the warm-up; `cosine` and `linear` reach 0 one step after the last.
        schedule: Schedule,
    },
    /// Gradient descent with momentum.
    Sgd {
        /// Peak learning rate, reached after the warm-up.
        lr: f64,
        /// Momentum, in [0, 1). 0: none.
        momentum: f64,
        /// Weight decay, added to the gradient; weights only, never gamma, biases, norms, positions or tokens.
        weight_decay: f64,
        /// Steps over which the learning rate rises linearly to its peak. 0: none.
        warmup_steps: u64,
        /// Course of the learning rate after the warm-up; `cosine` and `linear` reach 0 one step after the last.
        schedule: Schedule,
    },
}

/// Course of the learning rate after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// Half a cosine, to 0 one step after the last.
    Cosine,
    /// A straight line, to 0 one step after the last.
    Linear,
    /// The peak throughout.
    Constant,
}

impl OptimConfig {
    /// Reads and checks the table.
    ///
    /// # Errors
    /// Names the key, what must hold and what came.
    pub fn parse(table: &toml::Table) -> Result<Self, ConfigError> {
        let config: Self = reslab_config::parse("optim", table)?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        positive("optim.lr", self.lr())?;
        let decay = self.weight_decay();
        require(decay.is_finite() && decay >= 0.0, "optim.weight_decay", || {
            format!("must be finite and at least 0, but is {decay}")
        })?;
        match self {
            Self::AdamW { betas, eps, .. } => {
                unit_interval("optim.betas", betas[0])?;
                unit_interval("optim.betas", betas[1])?;
                positive("optim.eps", *eps)
            }
            Self::Sgd { momentum, .. } => unit_interval("optim.momentum", *momentum),
        }
    }

    /// Peak learning rate.
    pub fn lr(&self) -> f64 {
        match self {
            Self::AdamW { lr, .. } | Self::Sgd { lr, .. } => *lr,
        }
    }

    /// Weight decay of the groups that have one.
    pub fn weight_decay(&self) -> f64 {
        match self {
            Self::AdamW { weight_decay, .. } | Self::Sgd { weight_decay, .. } => *weight_decay,
        }
    }

    fn warmup_and_schedule(&self) -> (u64, Schedule) {
        match self {
            Self::AdamW { warmup_steps, schedule, .. } | Self::Sgd { warmup_steps, schedule, .. } => {
                (*warmup_steps, *schedule)
            }
        }
    }

    pub(crate) fn check_warmup(&self, steps: u64) -> Result<(), ConfigError> {
        let (warmup, _) = self.warmup_and_schedule();
        require(warmup < steps, "optim.warmup_steps", || {
            format!("must be below the run's {steps} steps, but is {warmup}")
        })
    }

    /// Learning rate of `step` (from 0) in a run of `steps`: `peak (step+1)/warmup` while warming up.
    pub fn lr_at(&self, step: u64, steps: u64) -> f64 {
        let (warmup, schedule) = self.warmup_and_schedule();
        if step < warmup {
            return self.lr() * (step + 1) as f64 / warmup as f64;
        }
        let done = (step - warmup) as f64 / (steps - warmup) as f64;
        self.lr()
            * match schedule {
                Schedule::Constant => 1.0,
                Schedule::Linear => 1.0 - done,
                // libm: the same bits on every machine
                Schedule::Cosine => 0.5 * (1.0 + libm::cos(std::f64::consts::PI * done)),
            }
    }
}

fn at_least_one(key: &str, value: Option<u64>) -> Result<(), ConfigError> {
    require(value != Some(0), key, || "must be at least 1".to_owned())
}

fn unit_interval(key: &str, value: f64) -> Result<(), ConfigError> {
    require((0.0..1.0).contains(&value), key, || format!("must be in [0, 1), but is {value}"))
}

fn positive(key: &str, value: f64) -> Result<(), ConfigError> {
    require(value.is_finite() && value > 0.0, key, || format!("must be finite and above 0, but is {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adamw(schedule: &str) -> OptimConfig {
        let text = format!(
            "kind = \"adamw\"\nlr = 1.0\nbetas = [0.9, 0.999]\neps = 1e-8\nweight_decay = 0.0\nwarmup_steps = 4\nschedule = \"{schedule}\""
        );
        OptimConfig::parse(&text.parse().unwrap()).unwrap()
    }

    #[test]
    fn warms_up_then_falls_to_zero_along_the_schedule() {
        let at = |schedule, step| adamw(schedule).lr_at(step, 12);
        assert_eq!([0, 1, 2, 3].map(|step| at("cosine", step)), [0.25, 0.5, 0.75, 1.0]);
        assert_eq!(at("cosine", 4), 1.0);
        // A quarter of the way: (1 + cos 45 deg) / 2, where a line is at .75; and the last step is not yet at 0.
        assert!((at("cosine", 6) - 0.853_553_390_593_273_8).abs() < 1e-12);
        assert!((at("cosine", 8) - 0.5).abs() < 1e-12, "half-way");
        assert!((at("linear", 6) - 0.75).abs() < 1e-12);
        assert!((at("linear", 11) - 0.125).abs() < 1e-12);
        assert_eq!(at("constant", 11), 1.0);
    }

    #[test]
    fn names_the_key_of_a_wrong_value_and_the_nearest_of_a_typo() {
        let parse = |text: &str| OptimConfig::parse(&text.parse().unwrap()).unwrap_err().to_string();
        let rest = "eps = 1e-8\nweight_decay = 0.0\nwarmup_steps = 4\nschedule = \"cosine\"";
        let range = parse(&format!("kind = \"adamw\"\nlr = 1.0\nbetas = [0.9, 1.5]\n{rest}"));
        assert_eq!(range, "optim.betas: must be in [0, 1), but is 1.5");
        let typo = parse(&format!("kind = \"adamw\"\nlr = 1.0\nbeta = [0.9, 0.999]\n{rest}"));
        assert!(typo.starts_with("optim.beta: unknown key `beta`; did you mean `betas`?"), "{typo}");
        let other_kind = parse(&format!("kind = \"sgd\"\nlr = 1.0\nbetas = [0.9, 0.999]\nmomentum = 0.9\n{rest}"));
        assert!(other_kind.contains("unknown key"), "{other_kind}");
    }

    #[test]
    fn an_average_longer_than_a_quarter_of_the_run_is_refused() {
        let text = "steps = 100\nbatch = 8\naccumulate = 1\nclip = 0.0\nlabel_smoothing = 0.0\nprecision = \"fp32\"\neval_every = 0\n\
                    telemetry_every = 0\ncheckpoint_every = 0\nema_decay = 0.97\nreport = \"last\"\ndeterministic = false";
        let config = TrainConfig::parse(&text.parse().unwrap()).unwrap();
        assert!(config.check_ema(134).is_ok());
        let refused = config.check_ema(100).unwrap_err().to_string();
        assert!(refused.contains("33 steps") && refused.contains("0.9600"), "{refused}");
    }
}
