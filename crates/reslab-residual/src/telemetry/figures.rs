//! The figures of all sites in a few kernels, and their way back on the host.

use tch::{Device, Kind, Tensor};

use super::{Gate, SiteFigures, SiteRecord};

/// Values per site: three rms, ratio and its percentiles, cosine, the tokens that ratio and cosine are over, six of
/// gamma, three of the gate.
pub(super) const COLUMNS: usize = 18;
const TOKEN_COLUMNS: usize = 9;

/// `[2 L, COLUMNS]`. Where a figure is not defined its value is of no meaning: [`decode`] knows.
pub(super) fn stack(sites: &[SiteRecord], device: Device) -> Tensor {
    if sites.is_empty() {
        return Tensor::zeros([0, COLUMNS as i64], (Kind::Float, device));
    }
    Tensor::cat(&[token_columns(sites, device), gamma_columns(sites, device), gate_columns(sites, device)], 1)
}

/// `[2 L, 9]`.
fn token_columns(sites: &[SiteRecord], device: Device) -> Tensor {
    let rows = Tensor::stack(&padded(sites, device), 0).unbind(1); // five of [2 L, T]
    let [residual, branch, update, product, counted] = &rows[..] else { unreachable!("five rows per site") };
    let zero = Tensor::zeros([], (Kind::Float, device));
    let counted = counted.not_equal(0.0);
    let sum = |x: &Tensor| x.sum_dim_intlist([1i64].as_slice(), false, Kind::Float);
    let tokens = sum(&counted.to_kind(Kind::Float));
    let rms = |x: &Tensor| (sum(&x.square().where_self(&counted, &zero)) / &tokens).sqrt();

    // A ratio to nothing and the angle of nothing are not defined: such tokens are left out. NaN stays in.
    let with_residual = counted.logical_and(&residual.not_equal(0.0));
    let with_both = with_residual.logical_and(&update.not_equal(0.0));
    let ratio_tokens = sum(&with_residual.to_kind(Kind::Float));
    let cosine_tokens = sum(&with_both.to_kind(Kind::Float));
    let ratios = update / residual;
    let ratio = sum(&ratios.where_self(&with_residual, &zero)) / &ratio_tokens;
    let cosine = sum(&(product / (residual * update)).where_self(&with_both, &zero)) / &cosine_tokens;
    let infinity = Tensor::full([], f64::INFINITY, (Kind::Float, device));
    let (sorted, _) = ratios.where_self(&with_residual, &infinity).sort(1, false);
    let quantile = |q: f64| quantile(&sorted, &ratio_tokens, q).where_self(&ratio.isnan().logical_not(), &ratio);
    let (p10, p90) = (quantile(0.1), quantile(0.9));
    Tensor::stack(&[rms(residual), rms(branch), rms(update), ratio, p10, p90, cosine, ratio_tokens, cosine_tokens], 1)
}

/// Each site's `[5, T]`, filled up with tokens that don't count where sites differ in T.
fn padded(sites: &[SiteRecord], device: Device) -> Vec<Tensor> {
    let rows = |site: &SiteRecord| match &site.tokens[..] {
        [] => Tensor::zeros([5, 1], (Kind::Float, device)),
        [one] => one.shallow_clone(),
        many => Tensor::cat(many, 1),
    };
    let rows: Vec<Tensor> = sites.iter().map(rows).collect();
    let longest = rows.iter().map(|r| r.size()[1]).max().unwrap_or(1);
    let pad = |r: Tensor| match longest - r.size()[1] {
        0 => r,
        missing => r.constant_pad_nd([0, missing]),
    };
    rows.into_iter().map(pad).collect()
}

/// The q-quantile of the first `count` of each row of `sorted`, linear between order statistics. `[2 L, T] -> [2 L]`.
fn quantile(sorted: &Tensor, count: &Tensor, q: f64) -> Tensor {
    let position = ((count - 1.0).clamp_min(0.0) * q).unsqueeze(1); // [2 L, 1]
    let (below, above) = (position.floor(), position.ceil());
    let at = |index: &Tensor| sorted.gather(1, &index.to_kind(Kind::Int64), false);
    let low = at(&below);
    // Equal ends first: between two infinities (rows of which nothing counts) lies NaN, which nobody reads.
    (&low + (at(&above) - &low) * (position - below)).squeeze_dim(1)
}

/// `[2 L, 6]`: mean, rms, mean abs, min, max, share with a flipped sign.
fn gamma_columns(sites: &[SiteRecord], device: Device) -> Tensor {
    let values = |site: &SiteRecord| match &site.gamma {
        Some(gamma) => gamma.value.to_kind(Kind::Float).view(-1),
        None => Tensor::zeros([1], (Kind::Float, device)),
    };
    let values: Vec<Tensor> = sites.iter().map(values).collect();
    if values.iter().all(|v| v.size() == values[0].size()) {
        return gamma_figures(&Tensor::stack(&values, 0), sites);
    }
    let rows = values.iter().zip(sites).map(|(v, site)| gamma_figures(&v.unsqueeze(0), std::slice::from_ref(site)));
    Tensor::cat(&rows.collect::<Vec<_>>(), 0)
}

/// gamma `[sites, D] -> [sites, 6]`.
fn gamma_figures(gamma: &Tensor, sites: &[SiteRecord]) -> Tensor {
    let mean = |x: &Tensor| x.mean_dim([1i64].as_slice(), false, Kind::Float);
    let (negative, positive) = (mean(&gamma.lt(0.0).to_kind(Kind::Float)), mean(&gamma.gt(0.0).to_kind(Kind::Float)));
    // All sites of a network start alike; where they don't, each row picks its own.
    let starts_negative = |site: &SiteRecord| site.gamma.as_ref().is_some_and(|g| g.init < 0.0);
    let flipped = if sites.iter().any(starts_negative) {
        let picks = sites
            .iter()
            .enumerate()
            .map(|(i, site)| if starts_negative(site) { positive.get(i as i64) } else { negative.get(i as i64) });
        Tensor::stack(&picks.collect::<Vec<_>>(), 0)
    } else {
        negative
    };
    let (min, max) = (gamma.amin([1i64].as_slice(), false), gamma.amax([1i64].as_slice(), false));
    Tensor::stack(&[mean(gamma), mean(&gamma.square()).sqrt(), mean(&gamma.abs()), min, max, flipped], 1)
}

/// `[2 L, 3]`: mean, std over tokens, share saturated.
fn gate_columns(sites: &[SiteRecord], device: Device) -> Tensor {
    if sites.iter().all(|site| site.gates.is_empty()) {
        return Tensor::zeros([sites.len() as i64, 3], (Kind::Float, device));
    }
    let rows = sites.iter().map(|site| match &site.gates[..] {
        [] => Tensor::zeros([3], (Kind::Float, device)),
        gates => gate_figures(gates, site.kept as f64),
    });
    Tensor::stack(&rows.collect::<Vec<_>>(), 0)
}

/// One site's gate over its `kept` samples: `[3]`.
fn gate_figures(gates: &[(Gate, Option<Tensor>)], kept: f64) -> Tensor {
    let tokens = kept * gates[0].0.share.size()[1] as f64;
    // Sum over the kept samples and all tokens, per channel: [channels].
    let sum = |of: &dyn Fn(&Tensor) -> Tensor| {
        let parts = gates.iter().map(|(gate, mask)| {
            let values = of(&gate.share);
            let values = mask.as_ref().map_or_else(|| values.shallow_clone(), |m| &values * m);
            values.sum_dim_intlist([0i64, 1].as_slice(), false, Kind::Float)
        });
        parts.reduce(|a, b| a + b).expect("a site with a gate")
    };
    let bound = gates[0].0.bound.to_kind(Kind::Float);
    let mean = sum(&|s| s.shallow_clone()) / tokens;
    // Two passes: a gate that has hardly moved has a std far below its mean's rounding.
    let variance = sum(&|s| (s - &mean).square()) / tokens;
    let saturated = sum(&|s| s.lt(0.05).logical_or(&s.gt(0.95)).to_kind(Kind::Float)) / tokens;
    let over_channels = |x: Tensor| x.mean(Kind::Float);
    let (mean, std) = (over_channels(mean) * &bound, over_channels(variance.sqrt()) * bound.abs());
    Tensor::stack(&[mean, std, over_channels(saturated)], 0)
}

/// One site's row of values as figures.
pub(super) fn decode(site: &SiteRecord, row: &[f32]) -> SiteFigures {
    let value = |column: usize, defined: bool| defined.then(|| f64::from(row[column]));
    let seen = site.kept > 0;
    let (ratio, cosine) = (seen && row[7] > 0.0, seen && row[8] > 0.0);
    let gamma = site.gamma.is_some();
    let gate = !site.gates.is_empty();
    let g = TOKEN_COLUMNS;
    SiteFigures {
        residual_rms: value(0, seen),
        branch_rms: value(1, seen && site.has_branch),
        update_rms: value(2, seen),
        ratio: value(3, ratio),
        ratio_p10: value(4, ratio),
        ratio_p90: value(5, ratio),
        cosine: value(6, cosine),
        gamma_mean: value(g, gamma),
        gamma_rms: value(g + 1, gamma),
        gamma_abs: value(g + 2, gamma),
        gamma_min: value(g + 3, gamma),
        gamma_max: value(g + 4, gamma),
        gamma_flipped: value(g + 5, site.gamma.as_ref().is_some_and(|g| g.init != 0.0)),
        gate_mean: value(g + 6, gate),
        gate_std: value(g + 7, gate),
        gate_saturated: value(g + 8, gate),
    }
}
