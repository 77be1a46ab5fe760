//! An arm over a grid of learning rates: the largest stable one, and how much the rate matters.

/// Loss (nats) within which a run's end is as good as its best: what [`largest_stable_rate`] is called with for tables.
pub const AS_GOOD: f64 = 0.1;

/// The runs of an arm at one learning rate.
#[derive(Debug, Clone, PartialEq)]
pub struct RatePoint {
    /// The learning rate.
    pub rate: f64,
    /// One per seed, in the same order at every rate; `None` where the run has no result.
    pub runs: Vec<Option<RateRun>>,
}

/// What a run's loss says of its learning rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateRun {
    /// Training loss at step 0.
    pub first: f64,
    /// Final training loss.
    pub last: f64,
    /// Whether it diverged.
    pub diverged: bool,
}

impl RateRun {
    /// Its loss as it counts: that of step 0 where it diverged or ended above it.
    fn counted(self) -> f64 {
        if self.diverged { self.first } else { self.last.min(self.first) }
    }
}

/// Per seed, the mean over the grid of min(final loss, loss at step 0) - the seed's lowest; a diverged run counts as the
/// loss at step 0 (after Wortsman et al. 2023). `None` where a run is missing, a seed diverged at every rate, or the grid has
/// fewer than two rates.
pub fn rate_sensitivity(points: &[RatePoint]) -> Option<Vec<f64>> {
    let seeds = complete(points)?;
    let of_seed = |runs: &Vec<RateRun>| {
        let best = best(runs)?;
        Some(runs.iter().map(|run| run.counted() - best).sum::<f64>() / runs.len() as f64)
    };
    seeds.iter().map(of_seed).collect()
}

/// The largest learning rate at which every seed ends within `within` of its own best final loss, with no unstable rate
/// below it. A rate is unstable where a seed diverged, or where it is above the best rate (that of the lowest mean) and a
/// seed ends further off; a smaller rate at which the loss falls slowly is no instability. `None` where there is no such
/// rate, a run is missing, or the grid has fewer than two rates.
pub fn largest_stable_rate(points: &[RatePoint], within: f64) -> Option<f64> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let seeds = complete(&points)?;
    let sum_at = |at: usize| seeds.iter().map(|runs| runs[at].counted()).sum::<f64>();
    let best_at = (0..points.len()).min_by(|a, b| sum_at(*a).total_cmp(&sum_at(*b)))?;
    let limits: Vec<f64> = seeds.iter().map(|runs| best(runs).map(|best| best + within)).collect::<Option<_>>()?;
    let mut largest = None;
    for (at, point) in points.iter().enumerate() {
        let diverges = seeds.iter().any(|runs| runs[at].diverged);
        let is_as_good = !diverges && seeds.iter().zip(&limits).all(|(runs, limit)| runs[at].last <= *limit);
        if diverges || (at > best_at && !is_as_good) {
            break;
        }
        if is_as_good {
            largest = Some(point.rate);
        }
    }
    largest
}

/// The runs per seed, in the order of the points; `None` where one is missing.
fn complete(points: &[RatePoint]) -> Option<Vec<Vec<RateRun>>> {
    let seeds = points.first().map(|point| point.runs.len()).filter(|seeds| *seeds > 0 && points.len() > 1)?;
    (0..seeds).map(|seed| points.iter().map(|point| *point.runs.get(seed)?).collect()).collect()
}

/// The lowest final loss of a seed among the runs that did not diverge.
fn best(runs: &[RateRun]) -> Option<f64> {
    runs.iter().filter(|run| !run.diverged).map(|run| run.counted()).reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_close;

    fn point(rate: f64, losses: &[f64]) -> RatePoint {
        let run = |loss: &f64| Some(RateRun { first: 2.3, last: *loss, diverged: loss.is_nan() });
        RatePoint { rate, runs: losses.iter().map(run).collect() }
    }

    const DIVERGED: f64 = f64::NAN;

    /// By hand. Seed 0 ends at .7, .5, .9, diverged: best .5, so (.2 + 0 + .4 + 1.8) / 4 = .6. Seed 1 at .6, .5, 2.4, 2.2:
    /// 2.4 counts as the 2.3 of step 0, so (.1 + 0 + 1.8 + 1.7) / 4 = .9.
    #[test]
    fn sensitivity_by_hand() {
        let grid = [
            point(1e-3, &[0.7, 0.6]),
            point(4e-3, &[0.5, 0.5]),
            point(1e-2, &[0.9, 2.4]),
            point(4e-2, &[DIVERGED, 2.2]),
        ];
        let got = rate_sensitivity(&grid).unwrap();
        assert_close(got[0], 0.6, 1e-12);
        assert_close(got[1], 0.9, 1e-12);
        let flat = [point(1e-3, &[0.5]), point(4e-3, &[0.5])];
        assert_eq!(rate_sensitivity(&flat), Some(vec![0.0]), "all equal");
    }

    /// Best at 4e-3. At 1e-3 the loss is further off than .1, but below the best rate: slow, not unstable. At 1e-2 seed 1 is
    /// .15 off.
    #[test]
    fn the_largest_stable_rate_by_hand() {
        let grid = [point(1e-3, &[0.7, 0.6]), point(4e-3, &[0.5, 0.5]), point(1e-2, &[0.55, 0.65])];
        assert_eq!(largest_stable_rate(&grid, 0.1), Some(4e-3));
        assert_eq!(largest_stable_rate(&grid, 0.2), Some(1e-2), "the setting matters");
        let mut turned = grid.to_vec();
        turned.reverse();
        assert_eq!(largest_stable_rate(&turned, 0.1), Some(4e-3), "rates count, not places");
    }

    #[test]
    fn nothing_above_an_unstable_rate_is_stable() {
        let worse = [point(1.0, &[0.5, 0.5]), point(2.0, &[0.5, 0.7]), point(3.0, &[0.5, 0.5])];
        assert_eq!(largest_stable_rate(&worse, 0.1), Some(1.0));
        let diverges = [point(1.0, &[DIVERGED, 0.6]), point(2.0, &[0.5, 0.5])];
        assert_eq!(largest_stable_rate(&diverges, 0.1), None, "also below the best rate");
        let late = [point(1.0, &[0.55, 0.55]), point(2.0, &[0.5, 0.5]), point(3.0, &[0.4, DIVERGED])];
        assert_eq!(largest_stable_rate(&late, 0.2), Some(2.0));
    }

    #[test]
    fn edges_one_rate_one_seed_a_missing_run_and_all_diverged() {
        let one_rate = [point(1.0, &[0.5, 0.5])];
        assert_eq!((largest_stable_rate(&one_rate, 0.1), rate_sensitivity(&one_rate)), (None, None));
        let mut missing = [point(1.0, &[0.5]), point(2.0, &[0.6])];
        assert_eq!(largest_stable_rate(&missing, 0.2), Some(2.0), "one seed");
        missing[1].runs[0] = None;
        assert_eq!((largest_stable_rate(&missing, 0.2), rate_sensitivity(&missing)), (None, None));
        let diverged = [point(1.0, &[DIVERGED]), point(2.0, &[DIVERGED])];
        assert_eq!((largest_stable_rate(&diverged, 0.1), rate_sensitivity(&diverged)), (None, None));
        assert_eq!((largest_stable_rate(&[], 0.1), rate_sensitivity(&[])), (None, None));
    }
}
