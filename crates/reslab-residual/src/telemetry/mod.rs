//! What is measured at the joins of one forward pass (docs/records.md, layers.csv).
//!
//! While the pass runs, each join leaves five small numbers per token on the device; the figures are computed for all
//! sites together in [`LayerTelemetry::stack`], and the caller makes the one copy to the host and gives it to
//! [`LayerTelemetry::decode`]. All of it runs without gradient, in float32, beside the forward pass.
//!
//! Shapes: B batch, N tokens, D width, S width of the stream, T kept tokens of a site, L blocks.

mod figures;
mod probe;

pub use probe::{BlockFigures, Probe, ProbeFigures};
use tch::{Device, Kind, Tensor};

use crate::drop_path::Dropped;
use crate::{Gamma, Site};

/// The figures of one site at one step. `None`: not defined there.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SiteFigures {
    /// sqrt(mean x^2) of the residual entering the join.
    pub residual_rms: Option<f64>,
    /// The same of the branch's output, before gamma or gate.
    pub branch_rms: Option<f64>,
    /// The same of the update, before division by keep_prob.
    pub update_rms: Option<f64>,
    /// Mean over tokens of norm(update) / norm(residual).
    pub ratio: Option<f64>,
    /// Its 10th percentile over tokens (linear between order statistics).
    pub ratio_p10: Option<f64>,
    /// Its 90th percentile.
    pub ratio_p90: Option<f64>,
    /// Mean over tokens of cos(update, residual); tokens with a zero update are left out.
    pub cosine: Option<f64>,
    /// Mean of gamma.
    pub gamma_mean: Option<f64>,
    /// sqrt(mean gamma^2).
    pub gamma_rms: Option<f64>,
    /// Mean of |gamma|.
    pub gamma_abs: Option<f64>,
    /// Smallest gamma.
    pub gamma_min: Option<f64>,
    /// Largest gamma.
    pub gamma_max: Option<f64>,
    /// Share of gammas whose sign is not that at step 0; not defined where they start at 0.
    pub gamma_flipped: Option<f64>,
    /// Mean of the gate over tokens and channels.
    pub gate_mean: Option<f64>,
    /// Standard deviation of the gate over tokens (divisor T), mean over channels.
    pub gate_std: Option<f64>,
    /// Share of gate values below 5 % or above 95 % of their range.
    pub gate_saturated: Option<f64>,
}

/// A gate as telemetry sees it: `gate = bound * share`.
#[derive(Debug)]
pub struct Gate {
    /// In (0, 1), `[B, N, 1 or D]`.
    pub share: Tensor,
    /// The end of the gate's range, `[]`.
    pub bound: Tensor,
}

impl Gate {
    /// A gate whose range is (0, 1).
    pub fn unit(share: &Tensor) -> Gate {
        Gate { share: share.shallow_clone(), bound: Tensor::ones([], (Kind::Float, share.device())) }
    }
}

/// What a join said while it ran.
#[derive(Debug, Default)]
pub(crate) struct SiteWatch {
    pub branch: Option<Tensor>,
    pub update: Option<Tensor>,
    pub gate: Option<Gate>,
}

/// Which tokens a join saw.
pub(crate) struct Seen<'a> {
    /// The residual of what was seen, `[B or s, N, S]`.
    residual: &'a Tensor,
    /// What came out, where the update was not told.
    joined: Option<&'a Tensor>,
    /// 0 or 1 per sample, `[B, 1, 1]`, where some of them were dropped.
    mask: Option<Tensor>,
    /// Samples that count.
    kept: usize,
}

impl<'a> Seen<'a> {
    /// Every sample of the tensor.
    pub fn whole(residual: &'a Tensor) -> Self {
        Seen { residual, joined: None, mask: None, kept: residual.size()[0] as usize }
    }
    /// Those that a mask of 0 and 1 keeps.
    pub fn masked(residual: &'a Tensor, mask: Tensor, kept: usize) -> Self {
        Seen { residual, joined: None, mask: Some(mask), kept }
    }
    /// None: the join was left out.
    pub fn nothing(residual: &'a Tensor) -> Self {
        Seen { residual, joined: None, mask: None, kept: 0 }
    }
    /// Those that were not dropped, out of a tensor of the whole batch.
    pub fn dropped(residual: &'a Tensor, dropped: &Dropped) -> Self {
        match dropped {
            Dropped::Nothing | Dropped::Kept { .. } => Seen::whole(residual),
            Dropped::All => Seen::nothing(residual),
            Dropped::Sample { mask, kept, .. } => Seen::masked(residual, mask.shallow_clone(), *kept),
            Dropped::Subset { indices, kept, .. } => {
                let zeros = Tensor::zeros([residual.size()[0], 1, 1], (Kind::Float, residual.device()));
                Seen::masked(residual, zeros.index_fill(0, indices, 1.0), *kept)
            }
        }
    }
    /// The same tokens with what came out of the join.
    pub fn joined(self, joined: &'a Tensor) -> Self {
        Seen { joined: Some(joined), ..self }
    }
}

/// What one site left, over one or several micro-batches.
#[derive(Debug, Default)]
struct SiteRecord {
    /// Rows residual rms, branch rms, update rms, mean of residual * update, counted; each `[5, T]`.
    tokens: Vec<Tensor>,
    /// With the mask of its samples.
    gates: Vec<(Gate, Option<Tensor>)>,
    gamma: Option<Gamma>,
    kept: usize,
    has_branch: bool,
}

/// What the joins of a pass left on the device.
#[derive(Debug)]
pub struct LayerTelemetry {
    /// By [`Site::index`].
    sites: Vec<SiteRecord>,
    device: Device,
}

impl Default for LayerTelemetry {
    fn default() -> Self {
        LayerTelemetry { sites: Vec::new(), device: Device::Cpu }
    }
}

impl LayerTelemetry {
    /// Adds what a join of this pass saw. The caller holds a no-grad guard.
    pub(crate) fn add(&mut self, site: Site, watch: SiteWatch, seen: Seen, gamma: Option<Gamma>) {
        self.device = seen.residual.device();
        while self.sites.len() <= site.index() {
            self.sites.push(SiteRecord::default());
        }
        let record = &mut self.sites[site.index()];
        record.gamma = gamma.map(|g| Gamma { value: g.value.detach(), init: g.init });
        record.kept += seen.kept;
        if seen.kept == 0 {
            return;
        }
        let residual = seen.residual.to_kind(Kind::Float);
        let update = watch
            .update
            .unwrap_or_else(|| seen.joined.map_or_else(|| seen.residual.zeros_like(), |y| y - seen.residual));
        let update = update.to_kind(Kind::Float);
        let residual_rms = rms(&residual); // [B, N]
        let branch_rms = watch.branch.as_ref().map(rms);
        record.has_branch |= branch_rms.is_some();
        let counted = match &seen.mask {
            Some(mask) => mask.squeeze_dim(2).to_kind(Kind::Float).expand_as(&residual_rms),
            None => residual_rms.ones_like(),
        };
        let product = (&residual * &update).mean_dim([-1i64].as_slice(), false, Kind::Float);
        let branch_rms = branch_rms.unwrap_or_else(|| residual_rms.zeros_like());
        let rows = [residual_rms, branch_rms, rms(&update), product, counted];
        record.tokens.push(Tensor::stack(&rows, 0).flatten(1, -1)); // [5, T]
        if let Some(gate) = watch.gate {
            let gate = Gate { share: gate.share.detach().to_kind(Kind::Float), bound: gate.bound.detach() };
            record.gates.push((gate, seen.mask));
        }
    }

    /// Adds what another micro-batch of the same step saw.
    pub fn merge(&mut self, other: LayerTelemetry) {
        if self.sites.is_empty() {
            *self = other;
            return;
        }
        for (record, more) in self.sites.iter_mut().zip(other.sites) {
            record.tokens.extend(more.tokens);
            record.gates.extend(more.gates);
            record.kept += more.kept;
            record.has_branch |= more.has_branch;
        }
    }

    /// The figures of all sites on the device, float32 `[2 L, columns]`: to be copied to the host once, alone or behind
    /// other values, and then given to [`LayerTelemetry::decode`]. Called before the optimizer's step, since gammas are
    /// read here.
    pub fn stack(&self) -> Tensor {
        tch::no_grad(|| figures::stack(&self.sites, self.device))
    }

    /// How many values [`LayerTelemetry::stack`] gives.
    pub fn len(&self) -> usize {
        self.sites.len() * figures::COLUMNS
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// The figures by [`Site::index`] out of the stacked values on the host, row by row.
    ///
    /// # Panics
    /// When there are not [`LayerTelemetry::len`] values.
    pub fn decode(&self, values: &[f32]) -> Vec<SiteFigures> {
        assert_eq!(values.len(), self.len(), "telemetry is decoded from its own stack");
        self.sites.iter().zip(values.chunks(figures::COLUMNS)).map(|(site, row)| figures::decode(site, row)).collect()
    }
}

/// sqrt(mean over the last dimension of x^2): `[B, N, D] -> [B, N]`.
fn rms(x: &Tensor) -> Tensor {
    let width = *x.size().last().expect("a branch gives [B, N, D]");
    x.to_kind(Kind::Float).linalg_norm(2, [-1i64].as_slice(), false, None) / (width as f64).sqrt()
}
