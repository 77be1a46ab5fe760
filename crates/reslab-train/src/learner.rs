//! A network that learns: data, weights and optimizer of one run, and one training step.
//!
//! Shapes: B batch, C channels, H height, W width, P parameters.

use reslab_data::{Augment, Batch, Order, Splits, Targets};
use reslab_model::Vit;
use reslab_record::{Split, Weights};
use reslab_residual::{DrawStep, DropPath, LayerTelemetry, Masks, Pass, SiteFigures};
use reslab_torch::tch::{Device, Kind, Reduction, Tensor, no_grad_guard};
use reslab_torch::{Optimizer, Parameter, Scope, autocast_bf16, foreach};

use crate::config::Precision;
use crate::ema::{Ema, assign, copies, with_weights};
use crate::evaluate::{Scores, evaluate};
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
    pub(crate) parameters: Vec<Parameter>,
    weights: Vec<Tensor>,
    vit: Vit,
    pub(crate) optimizer: Optimizer,
    pub(crate) ema: Option<Ema>,
}

impl<'a> Learner<'a> {
    /// Builds the network of `config` at its initial weights and, where its strategy asks for it, calibrates it on the
    /// first batch.
    ///
    /// # Errors
    /// Where the strategy refuses the network, or an optimizer group would miss a parameter.
    pub fn new(config: &'a RunConfig, splits: Splits, seed: u64, device: Device) -> Result<Self, TrainError> {
        reslab_torch::set_deterministic(config.train.deterministic);
        let scope = Scope::new(seed, Kind::Float, device);
        let vit = Vit::new(&scope, &config.model, config.strategy.as_ref(), config.input())?;
        let parameters = scope.parameters();
        let weights: Vec<Tensor> = parameters.iter().map(|p| p.tensor.shallow_clone()).collect();
        let ema = (config.train.ema_decay > 0.0).then(|| Ema::new(config.train.ema_decay, &weights));
        let optimizer = optimizer(&config.optim, config.strategy.as_ref(), &parameters)?;
        let order = Order::new(seed, splits.train.len(), config.train.batch as usize)?;
        let augment = Augment::new(&config.data, seed, splits.shape, &splits.norm)?;
        let mut learner =
            Self { config, seed, device, splits, order, augment, parameters, weights, vit, optimizer, ema };
        let first = learner.batch(0)?;
        learner.vit.calibrate(&first.images)?;
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

        let grads = foreach::grads(&self.parameters);
        let norms = foreach::norms(&grads); // [P]
        if self.config.train.clip > 0.0 {
            foreach::clip_(&grads, &norms.norm(), self.config.train.clip);
        }
        let before = (watch == Watch::Layers).then(|| copies(&self.weights));
        let lr = self.config.optim.lr_at(step, self.config.steps());
        self.optimizer.step(lr)?;
        self.vit.constrain();
        if let Some(ema) = &mut self.ema {
            ema.update(&self.weights, step);
        }
        let update = before.map(|before| relative_update(&self.weights, &before));
        Ok(fetch(&loss, &norms, update, &telemetry, lr))
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

    /// The kinds of weights that this run evaluates.
    pub fn kinds_of_weights(&self) -> Vec<Weights> {
        let ema = self.ema.is_some().then_some(Weights::Ema);
        [Weights::Raw].into_iter().chain(ema).collect()
    }

    /// Trainable parameters.
    pub fn num_parameters(&self) -> u64 {
        self.weights.iter().map(|w| w.numel() as u64).sum()
    }

    /// `decay 300, no_decay 200`: tensors per optimizer group.
    pub(crate) fn group_counts(&self) -> String {
        let groups = self.optimizer.groups().map(|g| format!("{} {}", g.name, g.parameters.len()));
        groups.collect::<Vec<_>>().join(", ")
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
        (step + 1) as f64 / self.order.steps_per_epoch() as f64
    }

    fn batch(&mut self, step: u64) -> Result<Batch, TrainError> {
        Ok(self.augment.train(&self.splits.train, &self.order.indices(step), step)?)
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
            let _precision = autocast_bf16(self.config.train.precision == Precision::Bf16);
            self.vit.forward(&batch.images, pass).to_kind(Kind::Float)
        };
        let targets = match &batch.targets {
            Targets::Hard(labels) => labels, // [B]
            Targets::Soft(shares) => shares, // [B, classes]
        };
        logits.cross_entropy_loss::<Tensor>(targets, None, Reduction::Mean, -100, self.config.train.label_smoothing)
    }
}

/// [1]: norm(after - before) / norm(before) over all weights.
fn relative_update(after: &[Tensor], before: &[Tensor]) -> Tensor {
    let _no_grad = no_grad_guard();
    (foreach::distance(after, before) / foreach::norm(before)).view([1])
}

/// Everything that a step measured, in one copy from device to host.
fn fetch(loss: &Tensor, norms: &Tensor, update: Option<Tensor>, telemetry: &LayerTelemetry, lr: f64) -> Measured {
    let parameters = norms.size()[0] as usize;
    let watched = update.is_some();
    let mut parts = vec![loss.view([1]), norms.shallow_clone()];
    if let Some(update) = update {
        parts.extend([update, telemetry.stack().view([-1])]);
    }
    let values = Vec::<f32>::try_from(Tensor::cat(&parts, 0)).expect("a vector of float32");
    let grad_norms: Vec<f64> = values[1..=parameters].iter().copied().map(f64::from).collect();
    let rest = &values[1 + parameters..];
    Measured {
        loss: f64::from(values[0]),
        grad_norm: grad_norms.iter().map(|norm| norm * norm).sum::<f64>().sqrt(),
        lr,
        grad_norms,
        weight_update_norm: watched.then(|| f64::from(rest[0])),
        layers: watched.then(|| telemetry.decode(&rest[1..])),
    }
}
