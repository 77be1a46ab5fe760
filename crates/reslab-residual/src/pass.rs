//! What lives for one forward pass.

use std::collections::BTreeMap;

use tch::Tensor;

use crate::drop_path::Dropped;
use crate::telemetry::{Gate, LayerTelemetry, Probe, SiteWatch};
use crate::{Masks, Site};

/// Training or evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Drop path acts.
    Train,
    /// Nothing random acts.
    Eval,
}

/// What lives for one forward pass: mode, this step's masks, a memory for what later joins need, and telemetry.
#[derive(Debug)]
pub struct Pass {
    mode: Mode,
    masks: Masks,
    memory: BTreeMap<String, Tensor>,
    telemetry: Option<LayerTelemetry>,
    watch: Option<SiteWatch>,
    probe: Option<Probe>,
}

impl Pass {
    /// A pass of evaluation.
    pub fn eval() -> Pass {
        Pass::new(Mode::Eval, Masks::none())
    }

    /// A pass of training with this micro-batch's masks ([`Masks::none`] without drop path).
    pub fn train(masks: Masks) -> Pass {
        Pass::new(Mode::Train, masks)
    }

    fn new(mode: Mode, masks: Masks) -> Pass {
        Pass { mode, masks, memory: BTreeMap::new(), telemetry: None, watch: None, probe: None }
    }

    /// Turns telemetry on for this pass, or off. It changes no bit of the forward pass or of the gradients.
    #[must_use]
    pub fn observe(mut self, on: bool) -> Pass {
        self.telemetry = on.then(LayerTelemetry::default);
        self
    }

    /// Also looks at attention and tokens of every block, which costs more than telemetry.
    #[must_use]
    pub fn probing(mut self) -> Pass {
        self.probe = Some(Probe::default());
        self
    }

    /// What the probe saw; it is off afterwards. Empty where it never was on.
    pub fn take_probe(&mut self) -> Probe {
        self.probe.take().unwrap_or_default()
    }

    /// Tells the probe a block's attention logits, `[B, H, N, N]`. The closure runs only when it is on, without gradient.
    pub fn record_attention(&mut self, logits: impl FnOnce() -> Tensor) {
        if let Some(probe) = &mut self.probe {
            tch::no_grad(|| probe.attention(&logits()));
        }
    }

    /// Tells the probe the stream behind a block, `[B, N, S]`.
    pub fn record_block(&mut self, residual: &Tensor) {
        if let Some(probe) = &mut self.probe {
            tch::no_grad(|| probe.tokens(residual));
        }
    }

    /// Training or evaluation.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether telemetry is on.
    pub fn observing(&self) -> bool {
        self.telemetry.is_some()
    }

    /// What was observed; telemetry is off afterwards. Empty where it never was on.
    pub fn take_telemetry(&mut self) -> LayerTelemetry {
        self.telemetry.take().unwrap_or_default()
    }

    /// Keeps a tensor for later joins of this pass (x0, first values, earlier updates).
    /// A strategy that does so says it in [`crate::Strategy::uses_memory`].
    pub fn remember(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.memory.insert(name.into(), tensor);
    }

    /// What was kept under a name.
    pub fn recall(&self, name: &str) -> Option<&Tensor> {
        self.memory.get(name)
    }

    /// Tells telemetry this join's update (after gamma or gate, before drop path's division), where `forward` does not
    /// go through `update`. The closure runs only when telemetry is on, without gradient.
    pub fn record_update(&mut self, update: impl FnOnce() -> Tensor) {
        if let Some(watch) = &mut self.watch {
            watch.update = Some(tch::no_grad(update));
        }
    }

    /// Tells telemetry this join's gate: `gate = bound * share`, share in (0, 1), `[B, N, 1 or D]`.
    /// The closure runs only when telemetry is on, without gradient.
    pub fn record_gate(&mut self, gate: impl FnOnce() -> Gate) {
        if let Some(watch) = &mut self.watch {
            watch.gate = Some(tch::no_grad(gate));
        }
    }

    pub(crate) fn dropped(&self, site: Site) -> Dropped {
        self.masks.at(site).share()
    }

    /// Starts to watch a join that the residual `[B, N, S]` enters, when telemetry is on.
    pub(crate) fn begin(&mut self, residual: &Tensor) {
        if let Some(probe) = &mut self.probe {
            tch::no_grad(|| probe.residual(residual));
        }
        self.watch = self.telemetry.is_some().then(SiteWatch::default);
    }

    /// Tells telemetry the branch's output.
    pub(crate) fn record_branch(&mut self, branch: impl FnOnce() -> Tensor) {
        if let Some(watch) = &mut self.watch {
            watch.branch = Some(tch::no_grad(branch));
        }
    }

    /// The join is done: what was watched becomes a part of the telemetry.
    pub(crate) fn watched(&mut self) -> Option<(SiteWatch, &mut LayerTelemetry)> {
        Some((self.watch.take()?, self.telemetry.as_mut()?))
    }
}
