//! A network that learns: data, weights and optimizer of one run, and one training step.
//!
//! Shapes: B batch, C channels, H height, W width, P parameters.

use reslab_data::{Augment, Batch, Order, Splits, Targets};
use reslab_model::Vit;
use reslab_record::{Split, Weights};
use reslab_residual::{DrawStep, DropPath, LayerTelemetry, Masks, Pass, ProbeFigures, SiteFigures};
use reslab_torch::tch::{Device, Kind, Reduction, Tensor, no_grad_guard};
use reslab_torch::{Optimizer, Parameter, Scope, autocast_bf16, foreach};

use crate::config::Precision;
use crate::ema::{Ema, assign, copies, with_weights};
use crate::evaluate::{Scores, evaluate, probe};
use crate::finetune::{StartReport, is_trained, take_over};
use crate::groups::optimizer;
use crate::{RunConfig, TrainError};

/// Whether a step looks into its joins. Looking changes no bit of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Loss and gradient norms only.
    Step,
    /// The figures of every join, and the size of the weights' update, too.
    Layers,
}

/// What one step measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Mean loss over the batch.
    pub loss: f64,
    /// Global 2-norm of the gradients before clipping.
    pub grad_norm: f64,
    /// Learning rate.
    pub lr: f64,
    /// 2-norm of each parameter's gradient, in network order.
    pub grad_norms: Vec<f64>,
    /// Norm of the weights' update / norm of the weights; [`Watch::Layers`] only.
    pub weight_update_norm: Option<f64>,
    /// One entry per join, in network order; [`Watch::Layers`] only.
    pub layers: Option<Vec<SiteFigures>>,
}

impl Measured {
    /// What [`fetch`] brought, taken apart.
    fn of(values: &[f32], parameters: usize, lr: f64, telemetry: &LayerTelemetry) -> Self {
        let grad_norms: Vec<f64> = values[1..=parameters].iter().copied().map(f64::from).collect();
        let watched = values[1 + parameters..].split_first();
        Self {
            loss: f64::from(values[0]),
            grad_norm: grad_norms.iter().map(|norm| norm * norm).sum::<f64>().sqrt(),
            lr,
            grad_norms,
            weight_update_norm: watched.map(|(update, _)| f64::from(*update)),
            layers: watched.map(|(_, figures)| telemetry.decode(figures)),
        }
    }

    /// Whether loss and gradient are numbers that a run can go on with.
    pub fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.grad_norm.is_finite()
    }
}

/// Data, weights and optimizer of one run.
#[derive(Debug)]
pub struct Learner<'a> {
    config: &'a RunConfig,
    seed: u64,
    device: Device,
    splits: Splits,
    order: Order,
    augment: Augment,
    /// All of the network's, trained or not: what is saved.
    pub(crate) parameters: Vec<Parameter>,
    weights: Vec<Tensor>,
    /// Those that the optimizer steps.
    trained: Vec<Parameter>,
    start: Option<StartReport>,
    vit: Vit,
    pub(crate) optimizer: Optimizer,
    pub(crate) ema: Option<Ema>,
}

impl<'a> Learner<'a> {
    /// Builds the network of `config` at its initial weights, or at those of a pretrained file, and, where its strategy
    /// asks for it, calibrates it on the first batch.
    ///
    /// # Errors
    /// Where the strategy refuses the network, or an optimizer group would miss a parameter.
    pub fn new(config: &'a RunConfig, splits: Splits, seed: u64, device: Device) -> Result<Self, TrainError> {
        reslab_torch::set_deterministic(config.train.deterministic);
        let scope = Scope::new(seed, Kind::Float, device);
        let vit = Vit::new(&scope, &config.model, config.strategy.as_ref(), config.input())?;
        let parameters = scope.parameters();
        let weights: Vec<Tensor> = parameters.iter().map(|p| p.tensor.shallow_clone()).collect();
        let order = Order::new(seed, splits.train.len(), config.train.batch as usize)?;
        let augment = Augment::new(&config.data, seed, splits.shape, &splits.norm)?;
        let start = match config.pretrained() {
            None => None,
            Some(path) => Some(take_over(config, &vit, path, (&splits, &augment))?),
        };
        let trained = trained(config, &parameters);
        let optimizer = optimizer(config, &trained)?;
        let mut learner = Self {
            config,
            seed,
            device,
            splits,
            order,
            augment,
            parameters,
            weights,
            trained,
            start,
            vit,
            optimizer,
            ema: None,
        };
        // A network that was taken over has learned what a calibration would be for.
        if learner.start.is_none() {
            let first = learner.batch(0)?;
            learner.vit.calibrate(&first.images)?;
        }
        // It starts from the weights that step 0 starts from.
        learner.ema = (config.train.ema_decay > 0.0).then(|| Ema::new(config.train.ema_decay, &learner.weights));
        Ok(learner)
    }

    /// One optimizer step, `step` counted from 0: everything random in it is a function of seed and step.
    ///
    /// # Errors
    /// Where the device refuses the optimizer's work.
    pub fn step(&mut self, step: u64, watch: Watch) -> Result<Measured, TrainError> {
        let batch = self.batch(step)?;
        let masks = self.masks(step);
        self.optimizer.zero_grad();
        let (loss, telemetry) = self.backward(&batch, masks, watch);

        let grads = foreach::grads(&self.trained);
        let norms = foreach::norms(&grads); // [P]
        if self.config.train.clip > 0.0 {
            foreach::clip_(&grads, &norms.norm(), self.config.train.clip);
        }
        // Gammas are read here, as they were in this step's forward pass.
        let before = (watch == Watch::Layers).then(|| (telemetry.stack(), copies(&self.weights)));
        let lr = self.config.optim.lr_at(step, self.config.steps());
        self.optimizer.step(lr)?;
        self.vit.constrain();
        if let Some(ema) = &mut self.ema {
            ema.update(&self.weights, step);
        }
        let watched = before.map(|(figures, before)| [relative_update(&self.weights, &before), figures.view([-1])]);
        let values = fetch(&loss, &norms, watched);
        Ok(Measured::of(&values, self.trained.len(), lr, &telemetry))
    }

    /// Scores of the trained weights, or of their average, on a split.
    ///
    /// # Errors
    /// Where the device refuses.
    pub fn evaluate(&self, split: Split, weights: Weights) -> Result<Scores, TrainError> {
        let split = match split {
            Split::Val => &self.splits.val,
            Split::Test => &self.splits.test,
        };
        let scores = || evaluate(&self.vit, split, &self.augment, &self.config.train);
        match (weights, &self.ema) {
            (Weights::Ema, Some(ema)) => with_weights(&self.weights, ema.weights(), scores),
            _ => scores(),
        }
    }

    /// Looks into the trained weights with the first batch of the validation split, which is the same for every seed and
    /// arm. It changes no bit of them.
    ///
    /// # Errors
    /// Where the device refuses.
    pub fn probe(&self) -> Result<ProbeFigures, TrainError> {
        probe(&self.vit, &self.splits.val, &self.augment, &self.config.train)
    }

    /// Lines for the log about data that were not told yet: images that can't be read.
    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        self.splits.take_notices()
    }

    /// Whether there are images to validate on.
    pub(crate) fn validates(&self) -> bool {
        !self.splits.val.is_empty()
    }

    /// The kinds of weights that this run evaluates.
    pub fn kinds_of_weights(&self) -> Vec<Weights> {
        let ema = self.ema.is_some().then_some(Weights::Ema);
        [Weights::Raw].into_iter().chain(ema).collect()
    }

    /// Trainable parameters.
    pub fn num_parameters(&self) -> u64 {
        self.trained.iter().map(|p| p.tensor.numel() as u64).sum()
    }

    /// `decay 300, no_decay 200`: tensors per optimizer group.
    pub(crate) fn group_counts(&self) -> String {
        let groups = self.optimizer.groups().map(|g| format!("{} {}", g.name, g.parameters.len()));
        groups.collect::<Vec<_>>().join(", ")
    }

    /// The parameters that are trained, in network order.
    pub(crate) fn trained(&self) -> &[Parameter] {
        &self.trained
    }

    /// What taking over a pretrained network has made of it; `None` for a new one.
    pub fn start(&self) -> Option<&StartReport> {
        self.start.as_ref()
    }

    pub(crate) fn config(&self) -> &RunConfig {
        self.config
    }

    pub(crate) fn weights(&self) -> &[Tensor] {
        &self.weights
    }

    pub(crate) fn set_weights(&mut self, weights: &[Tensor]) {
        assign(&self.weights, weights);
    }

    /// Passes over the training images when `step` is done.
    pub fn epoch_after(&self, step: u64) -> f64 {
        self.order.epoch(step + 1)
    }

    fn batch(&mut self, step: u64) -> Result<Batch, TrainError> {
        Ok(self.augment.train(&self.splits.train, &mut self.order, step)?)
    }

    fn masks(&self, step: u64) -> Vec<Masks> {
        let (train, model) = (&self.config.train, &self.config.model);
        let at = DrawStep {
            seed: self.seed,
            step,
            depth: model.depth,
            batch: train.batch,
            micro_batches: train.accumulate,
            device: self.device,
        };
        DropPath::draw(&self.config.drop_path, &at)
    }

    /// Adds up the gradients of the batch; gives its mean loss, on the device, and what was seen of the joins.
    fn backward(&self, batch: &Batch, masks: Vec<Masks>, watch: Watch) -> (Tensor, LayerTelemetry) {
        let parts = self.config.train.accumulate;
        let size = self.config.train.batch / parts;
        let mut total = Tensor::zeros([], (Kind::Float, self.device));
        let mut telemetry = LayerTelemetry::default();
        for (part, masks) in (0..parts).zip(masks) {
            let mut pass = Pass::train(masks).observe(watch == Watch::Layers);
            let loss = self.loss(&batch.narrow(part * size, size), &mut pass) / parts as f64;
            loss.backward();
            total += loss.detach();
            telemetry.merge(pass.take_telemetry());
        }
        (total, telemetry)
    }

    /// Mean loss of a micro-batch, `[]`.
    fn loss(&self, batch: &Batch, pass: &mut Pass) -> Tensor {
        let logits = {
            let _precision = autocast_bf16(batch.images.device(), self.config.train.precision == Precision::Bf16);
            self.vit.forward(&batch.images, pass).to_kind(Kind::Float)
        };
        cross_entropy(&logits, &batch.targets, self.config.train.label_smoothing)
    }
}

/// The parameters that are trained; the others ask for no gradient, so that none is computed for them.
fn trained(config: &RunConfig, parameters: &[Parameter]) -> Vec<Parameter> {
    let Some(finetune) = &config.finetune else { return parameters.to_vec() };
    let (trained, held): (Vec<&Parameter>, _) = parameters.iter().partition(|p| is_trained(finetune, p));
    for parameter in held {
        let _ = parameter.tensor.set_requires_grad(false);
    }
    trained.into_iter().cloned().collect()
}

/// logits: [B, classes] -> []: mean of `-sum t log softmax(logits)`, `t = (1 - smoothing) target + smoothing / classes`.
fn cross_entropy(logits: &Tensor, targets: &Targets, smoothing: f64) -> Tensor {
    let targets = match targets {
        Targets::Hard(labels) => labels, // [B]
        Targets::Soft(shares) => shares, // [B, classes]
    };
    logits.cross_entropy_loss::<Tensor>(targets, None, Reduction::Mean, -100, smoothing)
}

/// [1]: norm(after - before) / norm(before) over all weights.
fn relative_update(after: &[Tensor], before: &[Tensor]) -> Tensor {
    let _no_grad = no_grad_guard();
    (foreach::distance(after, before) / foreach::norm(before)).view([1])
}

/// Loss, gradient norms and, on a watched step, the update's size and the joins' figures: one copy to the host.
fn fetch(loss: &Tensor, norms: &Tensor, watched: Option<[Tensor; 2]>) -> Vec<f32> {
    let mut parts = vec![loss.view([1]), norms.shallow_clone()];
    parts.extend(watched.into_iter().flatten());
    Vec::try_from(Tensor::cat(&parts, 0)).expect("a vector of float32")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_and_soft_targets_are_smoothed_alike() {
        let logits = [[1f32, -2.0, 0.5], [0.0, 3.0, -1.0]];
        let shares = [[0.7f32, 0.0, 0.3], [0.0, 1.0, 0.0]];
        let by_hand = |targets: &[[f32; 3]; 2], smoothing: f64| {
            let row = |(logits, targets): (&[f32; 3], &[f32; 3])| -> f64 {
                let log_sum = logits.iter().map(|l| f64::from(*l).exp()).sum::<f64>().ln();
                let smooth = |t: f32| (1.0 - smoothing) * f64::from(t) + smoothing / 3.0;
                logits.iter().zip(targets).map(|(l, t)| smooth(*t) * (log_sum - f64::from(*l))).sum()
            };
            logits.iter().zip(targets).map(row).sum::<f64>() / 2.0
        };
        let one_hot = [[1f32, 0.0, 0.0], [0.0, 1.0, 0.0]];
        let hard = Targets::Hard(Tensor::from_slice(&[0i64, 1]));
        for (targets, dense) in [(hard, one_hot), (Targets::Soft(Tensor::from_slice2(&shares)), shares)] {
            for smoothing in [0.0, 0.1] {
                let loss = cross_entropy(&Tensor::from_slice2(&logits), &targets, smoothing).double_value(&[]);
                assert!((loss - by_hand(&dense, smoothing)).abs() < 1e-6, "{targets:?}, smoothing {smoothing}");
                assert!((loss - by_hand(&dense, smoothing + 0.05)).abs() > 1e-3, "control: smoothing is felt");
            }
        }
        assert!((by_hand(&one_hot, 0.1) - by_hand(&shares, 0.1)).abs() > 1e-2, "control: the targets differ");
    }
}

#[cfg(test)]
#[path = "learner_pairing_tests.rs"]
mod pairing;
