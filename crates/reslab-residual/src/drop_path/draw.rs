//! The draws of one step: made on the host, uploaded once, split into micro-batches.
//!
//! There is one uniform u(seed, step, site, sample). `sample` keeps u < keep_prob, `subset` keeps the s samples with
//! the smallest u, `batch` takes the u of sample 0 for all. So what is kept at a higher rate is kept at a lower one,
//! and the modes are coupled.

use reslab_torch::stream;
use tch::{Device, Tensor};

use super::{DropMode, DropPathConfig, subset_size};
use crate::Site;

/// The step that is drawn for.
#[derive(Debug, Clone, Copy)]
pub struct DrawStep {
    /// The run's seed.
    pub seed: u64,
    /// Optimizer step from 0.
    pub step: u64,
    /// Number of blocks.
    pub depth: usize,
    /// Samples of the logical batch: all micro-batches together.
    pub batch: i64,
    /// Equal parts that the batch is split into; 1 without gradient accumulation.
    pub micro_batches: i64,
    /// Where the tensors go.
    pub device: Device,
}

/// Draws masks.
#[derive(Debug, Clone, Copy)]
pub struct DropPath;

impl DropPath {
    /// The masks of one step, one per micro-batch. They are drawn for the logical batch, so that splitting a batch
    /// changes nothing: with `subset` the kept samples of a join may then be spread unevenly over the micro-batches
    /// (and a micro-batch without any skips the join), while their number over the step is exact.
    ///
    /// # Panics
    /// When the micro-batches don't divide the batch.
    pub fn draw(config: &DropPathConfig, at: &DrawStep) -> Vec<Masks> {
        assert!(at.micro_batches > 0 && at.batch % at.micro_batches == 0, "micro-batches divide the batch");
        if config.rate == 0.0 {
            return (0..at.micro_batches).map(|_| Masks::none()).collect();
        }
        let draws: Vec<Vec<f64>> = (0..2 * at.depth).map(|site| uniforms(at, site, config.mode)).collect();
        match config.mode {
            DropMode::Sample => sample(config, at, &draws),
            DropMode::Subset => subset(config, at, &draws),
            DropMode::Batch => batch(config, at, &draws),
        }
    }
}

/// u(seed, step, site, sample) of one site. `batch` needs the first only.
fn uniforms(at: &DrawStep, site: usize, mode: DropMode) -> Vec<f64> {
    let mut stream = stream(at.seed, "drop_path", &[at.step, site as u64]);
    let samples = if mode == DropMode::Batch { 1 } else { at.batch };
    (0..samples).map(|_| stream.uniform()).collect()
}

fn keep_prob(config: &DropPathConfig, at: &DrawStep, site: usize) -> f64 {
    1.0 - config.rate_at(site / 2, at.depth)
}

fn sample(config: &DropPathConfig, at: &DrawStep, draws: &[Vec<f64>]) -> Vec<Masks> {
    let sites = draws.len() as i64;
    let mut mask = Vec::with_capacity(draws.len() * at.batch as usize);
    for (site, u) in draws.iter().enumerate() {
        let keep_prob = keep_prob(config, at, site);
        mask.extend(u.iter().map(|u| f32::from(*u < keep_prob)));
    }
    let all = Tensor::from_slice(&mask).view([sites, at.batch, 1, 1]).to_device(at.device);
    let size = at.batch / at.micro_batches;
    let part = |micro: i64| {
        let decision = |site: usize| {
            let start = site * at.batch as usize + (micro * size) as usize;
            let kept = mask[start..start + size as usize].iter().filter(|m| **m == 1.0).count();
            let keep_prob = keep_prob(config, at, site);
            if keep_prob == 1.0 {
                return Dropped::Nothing;
            }
            Dropped::Sample { mask: all.get(site as i64).narrow(0, micro * size, size), keep_prob, kept }
        };
        Masks { sites: (0..draws.len()).map(decision).collect() }
    };
    (0..at.micro_batches).map(part).collect()
}

fn subset(config: &DropPathConfig, at: &DrawStep, draws: &[Vec<f64>]) -> Vec<Masks> {
    let size = at.batch / at.micro_batches;
    let mut indices: Vec<i64> = Vec::new();
    // Per micro-batch and site: where its kept indices stand in `indices`, or nothing where nothing is dropped.
    let mut ranges = vec![Vec::with_capacity(draws.len()); at.micro_batches as usize];
    let mut scales = Vec::with_capacity(draws.len());
    for (site, u) in draws.iter().enumerate() {
        let rate = config.rate_at(site / 2, at.depth);
        let count = subset_size(at.batch, rate);
        let kept = smallest(u, count as usize);
        scales.push(at.batch as f64 / count as f64);
        for (micro, ranges) in ranges.iter_mut().enumerate() {
            let first = micro as i64 * size;
            let start = indices.len();
            indices.extend(kept.iter().filter(|i| (first..first + size).contains(*i)).map(|i| i - first));
            ranges.push((rate > 0.0).then_some((start, indices.len() - start)));
        }
    }
    let all = Tensor::from_slice(&indices).to_device(at.device);
    let decision = |site: usize, range: Option<(usize, usize)>| match range {
        None => Dropped::Nothing,
        Some((_, 0)) => Dropped::All,
        Some((start, len)) => {
            Dropped::Subset { indices: all.narrow(0, start as i64, len as i64), scale: scales[site], kept: len }
        }
    };
    let part = |ranges: Vec<_>| Masks {
        sites: ranges.into_iter().enumerate().map(|(site, range)| decision(site, range)).collect(),
    };
    ranges.into_iter().map(part).collect()
}

/// The positions of the `count` smallest values, in ascending order of position.
fn smallest(u: &[f64], count: usize) -> Vec<i64> {
    let mut order: Vec<usize> = (0..u.len()).collect();
    order.sort_by(|a, b| u[*a].total_cmp(&u[*b]));
    let mut kept: Vec<i64> = order[..count].iter().map(|i| *i as i64).collect();
    kept.sort_unstable();
    kept
}

fn batch(config: &DropPathConfig, at: &DrawStep, draws: &[Vec<f64>]) -> Vec<Masks> {
    let decision = |site: usize| match keep_prob(config, at, site) {
        1.0 => Dropped::Nothing,
        keep_prob if draws[site][0] < keep_prob => Dropped::Kept { keep_prob },
        _ => Dropped::All,
    };
    (0..at.micro_batches).map(|_| Masks { sites: (0..draws.len()).map(decision).collect() }).collect()
}

/// What drop path does at every site in one forward pass.
#[derive(Debug)]
pub struct Masks {
    /// By [`Site::index`]; empty: nothing is dropped anywhere.
    sites: Vec<Dropped>,
}

/// What drop path does at one site.
#[derive(Debug)]
pub(crate) enum Dropped {
    /// All samples go the plain way.
    Nothing,
    /// A mask of 0 and 1, `[B, 1, 1]`; `kept` of them are 1.
    Sample { mask: Tensor, keep_prob: f64, kept: usize },
    /// Only the samples `indices` are computed, `[s]`, and scaled.
    Subset { indices: Tensor, scale: f64, kept: usize },
    /// The whole batch is kept, and scaled by 1 / keep_prob.
    Kept { keep_prob: f64 },
    /// The join is left out for the whole batch.
    All,
}

impl Masks {
    /// Nothing is dropped: rate 0, and evaluation.
    pub fn none() -> Masks {
        Masks { sites: Vec::new() }
    }

    /// How many of `batch` samples a site keeps; the whole batch where nothing is dropped.
    pub fn kept(&self, site: Site, batch: usize) -> usize {
        match self.at(site) {
            Dropped::Nothing | Dropped::Kept { .. } => batch,
            Dropped::Sample { kept, .. } | Dropped::Subset { kept, .. } => *kept,
            Dropped::All => 0,
        }
    }

    /// Which of `batch` samples a site keeps, in ascending order. It waits for the device: for tests and inspection.
    pub fn kept_samples(&self, site: Site, batch: usize) -> Vec<i64> {
        let all = 0..batch as i64;
        match self.at(site) {
            Dropped::Nothing | Dropped::Kept { .. } => all.collect(),
            Dropped::Sample { mask, .. } => all.filter(|sample| mask.double_value(&[*sample, 0, 0]) == 1.0).collect(),
            Dropped::Subset { indices, .. } => Vec::try_from(indices).expect("indices are a vector of i64"),
            Dropped::All => Vec::new(),
        }
    }

    pub(crate) fn at(&self, site: Site) -> &Dropped {
        self.sites.get(site.index()).unwrap_or(&Dropped::Nothing)
    }
}

impl Dropped {
    /// A copy that shares the tensors.
    pub(crate) fn share(&self) -> Dropped {
        match self {
            Dropped::Nothing => Dropped::Nothing,
            Dropped::Sample { mask, keep_prob, kept } => {
                Dropped::Sample { mask: mask.shallow_clone(), keep_prob: *keep_prob, kept: *kept }
            }
            Dropped::Subset { indices, scale, kept } => {
                Dropped::Subset { indices: indices.shallow_clone(), scale: *scale, kept: *kept }
            }
            Dropped::Kept { keep_prob } => Dropped::Kept { keep_prob: *keep_prob },
            Dropped::All => Dropped::All,
        }
    }
}
