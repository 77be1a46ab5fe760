use tch::{Device, Kind, Tensor};

use super::{DrawStep, DropMode, DropPath, DropPathConfig, Dropped, Masks, Schedule, subset_size};
use crate::{BranchKind, Site};

const BATCH: i64 = 16;
const DEPTH: usize = 3;

fn config(rate: f64, mode: DropMode) -> DropPathConfig {
    DropPathConfig { rate, schedule: Schedule::Uniform, mode }
}

fn at(step: u64, micro_batches: i64) -> DrawStep {
    DrawStep { seed: 11, step, depth: DEPTH, batch: BATCH, micro_batches, device: Device::Cpu }
}

fn sites() -> impl Iterator<Item = Site> {
    (0..DEPTH).flat_map(|block| {
        BranchKind::ALL.map(|kind| Site { block, depth: DEPTH, kind, width: 1, num_heads: 1, hidden: 1 })
    })
}

/// Factor on the update of each sample: 0 where it is dropped.
fn factors(masks: &Masks, site: Site, batch: i64) -> Vec<f64> {
    let all = Tensor::ones([batch], (Kind::Double, Device::Cpu));
    let factors = match masks.at(site) {
        Dropped::Nothing => all,
        Dropped::Sample { mask, keep_prob, .. } => mask.view(-1).to_kind(Kind::Double) / *keep_prob,
        Dropped::Subset { indices, scale, .. } => (all * 0.0).index_fill(0, indices, *scale),
        Dropped::Kept { keep_prob } => all / *keep_prob,
        Dropped::All => all * 0.0,
    };
    Vec::try_from(factors).unwrap()
}

fn whole(config: &DropPathConfig, step: u64) -> Masks {
    DropPath::draw(config, &at(step, 1)).pop().unwrap()
}

/// Mean and variance of a sample's factor are 1 and (1-k)/k: over n = 4000 steps x 16 samples x 6 sites for `sample`,
/// and n = 4000 x 6 for `batch`, where a site has one draw. The standard error of the mean is sqrt(v/n); that of the
/// variance is sqrt((m4 - v^2)/n) with the two-point distribution's m4. Control: another rate's variance is far off.
#[test]
fn the_mean_is_kept_and_the_variance_is_that_of_the_rate() {
    let rate = 0.3;
    let (keep, steps) = (1.0 - rate, 4000);
    let variance = rate / keep;
    let fourth = rate + keep * (1.0 / keep - 1.0f64).powi(4);
    for (mode, draws_per_site) in [(DropMode::Sample, BATCH as usize), (DropMode::Batch, 1)] {
        let config = config(rate, mode);
        let mut values = Vec::new();
        for step in 0..steps {
            let masks = whole(&config, step);
            values.extend(sites().flat_map(|site| factors(&masks, site, BATCH)[..draws_per_site].to_vec()));
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let spread = values.iter().map(|v| (v - 1.0).powi(2)).sum::<f64>() / n;
        let (se_mean, se_variance) = ((variance / n).sqrt(), ((fourth - variance * variance) / n).sqrt());
        assert!((mean - 1.0).abs() < 4.0 * se_mean, "{mode:?}: mean {mean} +- {se_mean}");
        assert!((spread - variance).abs() < 4.0 * se_variance, "{mode:?}: variance {spread} +- {se_variance}");
        let other: f64 = 0.35 / 0.65;
        assert!((spread - other).abs() > 4.0 * se_variance, "control: rate 0.35 would be seen");
    }
}

/// `subset` keeps each sample in s of B steps (here .6875), and the mean over the batch is exact at every step. The
/// standard error of a sample's share over n = 4000 x 6 draws is sqrt(p(1-p)/n) = .003.
#[test]
fn a_subset_keeps_the_mean_exactly_and_every_sample_equally_often() {
    let config = config(0.3, DropMode::Subset);
    let share = subset_size(BATCH, 0.3) as f64 / BATCH as f64;
    let mut kept = [0.0; BATCH as usize];
    let steps = 4000;
    for step in 0..steps {
        let masks = whole(&config, step);
        for site in sites() {
            let factors = factors(&masks, site, BATCH);
            assert!((factors.iter().sum::<f64>() - BATCH as f64).abs() < 1e-9);
            factors.iter().zip(&mut kept).for_each(|(f, kept)| *kept += f64::from(*f > 0.0));
        }
    }
    let n = (steps * 2 * DEPTH as u64) as f64;
    let se = (share * (1.0 - share) / n).sqrt();
    for kept in kept {
        assert!((kept / n - share).abs() < 4.0 * se, "{} and {share} +- {se}", kept / n);
    }
}

#[test]
fn what_a_higher_rate_keeps_a_lower_one_keeps_too() {
    for mode in [DropMode::Sample, DropMode::Subset, DropMode::Batch] {
        let (mut fewer, mut more) = (0, 0);
        for step in 0..50 {
            let (low, high) = (whole(&config(0.2, mode), step), whole(&config(0.6, mode), step));
            for site in sites() {
                for (low, high) in factors(&low, site, BATCH).into_iter().zip(factors(&high, site, BATCH)) {
                    assert!(high == 0.0 || low > 0.0, "{mode:?}");
                    more += i32::from(low > 0.0);
                    fewer += i32::from(high > 0.0);
                }
            }
        }
        assert!(fewer < more, "{mode:?}: control: the rates differ");
    }
}

#[test]
fn the_modes_are_coupled_through_the_same_uniforms() {
    for step in 0..50 {
        let [sample, subset, batch] =
            [DropMode::Sample, DropMode::Subset, DropMode::Batch].map(|mode| whole(&config(0.5, mode), step));
        for site in sites() {
            let [sample, subset, batch] = [&sample, &subset, &batch].map(|m| factors(m, site, BATCH));
            assert_eq!(sample[0] > 0.0, batch[0] > 0.0, "`batch` takes sample 0's draw");
            // Both keep the smallest u, so one set holds the other.
            let kept = |of: &[f64], and: &[f64]| of.iter().zip(and).filter(|(a, b)| **a > 0.0 && **b > 0.0).count();
            let both = kept(&sample, &subset);
            assert_eq!(both, kept(&sample, &sample).min(kept(&subset, &subset)));
        }
    }
}

#[test]
fn splitting_a_batch_changes_nothing() {
    for mode in [DropMode::Sample, DropMode::Subset, DropMode::Batch] {
        for schedule in [Schedule::Uniform, Schedule::Linear] {
            let config = DropPathConfig { rate: 0.7, schedule, mode };
            let (whole, parts) = (whole(&config, 9), DropPath::draw(&config, &at(9, 4)));
            for site in sites() {
                let joined: Vec<f64> = parts.iter().flat_map(|p| factors(p, site, BATCH / 4)).collect();
                assert_eq!(joined, factors(&whole, site, BATCH), "{mode:?}");
                let kept: usize = parts.iter().map(|p| p.kept(site, BATCH as usize / 4)).sum();
                assert_eq!(kept, whole.kept(site, BATCH as usize), "{mode:?}");
            }
        }
    }
}

#[test]
fn draws_differ_by_seed_step_and_site_and_by_nothing_else() {
    let config = config(0.5, DropMode::Sample);
    let site = |n| sites().nth(n).unwrap();
    let draw = |seed, step, n| {
        let masks = DropPath::draw(&config, &DrawStep { seed, ..at(step, 1) }).pop().unwrap();
        factors(&masks, site(n), BATCH)
    };
    assert_eq!(draw(1, 2, 3), draw(1, 2, 3));
    for other in [draw(2, 2, 3), draw(1, 3, 3), draw(1, 2, 4)] {
        assert_ne!(draw(1, 2, 3), other);
    }
}

#[test]
fn a_linear_schedule_drops_nothing_at_the_first_block() {
    for mode in [DropMode::Sample, DropMode::Subset, DropMode::Batch] {
        let masks = whole(&DropPathConfig { rate: 0.9, schedule: Schedule::Linear, mode }, 0);
        let first = sites().next().unwrap();
        assert!(matches!(masks.at(first), Dropped::Nothing), "{mode:?}");
    }
}
