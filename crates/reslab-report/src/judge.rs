//! The verdicts of a reproduction: each run, and each arm's mean, against what chance can do.

use crate::chance::{Spread, by_chance, paired, sampling_noise};
use crate::contrast::LEVEL;
use crate::holm::holm;
use crate::metric::Metric;
use crate::reproduction::{ArmPair, Cell, Equality, Pair, Twice, Verdict, diverged};
use crate::stats::{mean, summarize};
use crate::sweep::Finished;

/// An arm's runs that were computed twice, and what is recorded of the arm.
pub(crate) struct Group<'a> {
    pub(crate) arm: String,
    pub(crate) runs: Vec<&'a Twice<'a>>,
    /// All recorded seeds of the arm, those that were not computed anew included.
    pub(crate) recorded: Vec<&'a Finished>,
    /// Images that the metric is a share of, where it is one.
    pub(crate) images: Option<u64>,
}

/// A figure of the comparison.
struct Figure<'a> {
    of: &'a dyn Fn(&Finished) -> Option<f64>,
    /// Whether it is the metric, whose noise by sampling images is known.
    is_metric: bool,
}

/// The cells and arms of all groups that have any, judged together.
pub(crate) fn judge(groups: &[Group<'_>], metric: &Metric) -> (Vec<Cell>, Vec<ArmPair>) {
    let of_metric = |finished: &Finished| finished.done.metrics.get(metric.name()).copied();
    let of_loss = |finished: &Finished| finished.final_loss;
    let metric = Scale::new(groups, Figure { of: &of_metric, is_metric: true });
    let loss = Scale::new(groups, Figure { of: &of_loss, is_metric: false });
    let (mut cells, mut arms) = (Vec::new(), Vec::new());
    for group in groups.iter().filter(|group| !group.runs.is_empty()) {
        cells.extend(group.runs.iter().map(|twice| Cell {
            arm: group.arm.clone(),
            seed: twice.run.planned.seed,
            equality: twice.equality,
            diverged: diverged(twice),
            metric: metric.cell(group, twice),
            final_loss: loss.cell(group, twice),
        }));
        let ((metric, metric_difference), (final_loss, final_loss_difference)) = (metric.arm(group), loss.arm(group));
        let arm = group.arm.clone();
        arms.push(ArmPair { arm, metric, final_loss, metric_difference, final_loss_difference });
    }
    correct(&mut cells, &mut arms);
    (cells, arms)
}

/// Holm's correction over all that was judged by chance: the more is looked at, the more differs by chance.
fn correct(cells: &mut [Cell], arms: &mut [ArmPair]) {
    let cells = cells.iter_mut().flat_map(|cell| [&mut cell.metric, &mut cell.final_loss]);
    let arms = arms.iter_mut().flat_map(|arm| [&mut arm.metric, &mut arm.final_loss]);
    let mut judged: Vec<&mut Pair> = cells.chain(arms).filter(|pair| pair.p.is_some()).collect();
    let p: Vec<Option<f64>> = judged.iter().map(|pair| pair.p).collect();
    for (pair, adjusted) in judged.iter_mut().zip(holm(&p)) {
        pair.adjusted = adjusted;
        pair.verdict = if adjusted.is_some_and(|p| p <= LEVEL) { Verdict::Different } else { Verdict::Within };
    }
}

/// What chance does to one figure of each arm.
struct Scale<'a> {
    figure: Figure<'a>,
    /// Its spreads over the seeds of each arm that has two.
    spreads: Vec<Spread>,
}

impl<'a> Scale<'a> {
    fn new(groups: &[Group<'_>], figure: Figure<'a>) -> Self {
        let spreads = groups.iter().filter_map(|group| spread(group, figure.of)).collect();
        Self { figure, spreads }
    }

    fn spread(&self, group: &Group<'_>) -> Option<Spread> {
        Spread::among(spread(group, self.figure.of), &self.spreads)
    }

    fn noise(&self, group: &Group<'_>, recorded: f64, reproduced: f64) -> Option<f64> {
        let images = group.images.filter(|_| self.figure.is_metric)?;
        Some(sampling_noise(((recorded + reproduced) / 2.0).clamp(0.0, 1.0), images))
    }

    fn cell(&self, group: &Group<'_>, twice: &Twice<'_>) -> Pair {
        let recorded = (self.figure.of)(twice.recorded);
        let reproduced = twice.reproduced.and_then(self.figure.of);
        let pair = |verdict| Pair { recorded, reproduced, p: None, adjusted: None, verdict };
        match (twice.equality, diverged(twice)) {
            _ if twice.reproduced.is_none() => return pair(Verdict::NotDone),
            (Equality::Records | Equality::Metrics, _) => return pair(Verdict::Identical),
            (_, (true, true)) => return pair(Verdict::Within),
            // Where seeds of the arm go either way, chance decides which.
            (_, (a, b)) if a != b => {
                let either = group.recorded.iter().any(|f| f.diverged) && group.recorded.iter().any(|f| !f.diverged);
                return pair(if either { Verdict::Within } else { Verdict::Different });
            }
            _ => {}
        }
        let p = recorded
            .zip(reproduced)
            .and_then(|(a, b)| by_chance(b - a, 1, self.spread(group), self.noise(group, a, b)));
        Pair { p, ..pair(Verdict::NotJudged) }
    }

    /// The means over the seeds that are done twice and diverged in neither; and their paired differences.
    fn arm(&self, group: &Group<'_>) -> (Pair, Option<crate::Summary>) {
        let both = group.runs.iter().filter(|twice| diverged(twice) == (false, false));
        let values: Vec<(f64, f64)> = both
            .filter_map(|twice| (self.figure.of)(twice.recorded).zip(twice.reproduced.and_then(self.figure.of)))
            .collect();
        let differences: Vec<f64> = values.iter().map(|(a, b)| b - a).collect();
        let (recorded, reproduced): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
        let (recorded, reproduced) = (mean(&recorded), mean(&reproduced));
        let identical = group.runs.iter().all(|twice| twice.equality != Equality::None);
        // One run is judged in its cell, and no second time.
        let p = match (recorded, reproduced) {
            (Some(a), Some(b)) if !identical && differences.len() > 1 => self.mean_p(group, &differences, (a, b)),
            _ => None,
        };
        let verdict = if identical { Verdict::Identical } else { Verdict::NotJudged };
        (Pair { recorded, reproduced, p, adjusted: None, verdict }, summarize(&differences, 0))
    }

    /// Too far from 0 for chance, or too much of one mind: the smaller p, times two.
    fn mean_p(&self, group: &Group<'_>, differences: &[f64], means: (f64, f64)) -> Option<f64> {
        let (n, noise) = (differences.len(), self.noise(group, means.0, means.1));
        let far = by_chance(means.1 - means.0, n, self.spread(group), noise);
        let resolution = group.images.filter(|_| self.figure.is_metric).map_or(0.0, |images| 1.0 / images as f64);
        match (far, paired(differences, resolution)) {
            (Some(far), Some(agreed)) => Some((2.0 * far.min(agreed)).min(1.0)),
            (far, agreed) => far.or(agreed),
        }
    }
}

/// The spread of a figure over all recorded seeds of an arm, and over the same with what was computed anew in the place
/// of what was recorded. Diverged runs have no part in it.
fn spread(group: &Group<'_>, figure: &dyn Fn(&Finished) -> Option<f64>) -> Option<Spread> {
    let steady = |of: &[&Finished]| -> Vec<f64> {
        of.iter().filter(|finished| !finished.diverged).filter_map(|finished| figure(finished)).collect()
    };
    let newest = |recorded: &&'_ Finished| {
        let twice = group.runs.iter().find(|twice| std::ptr::eq(twice.recorded, *recorded));
        twice.and_then(|twice| twice.reproduced)
    };
    let anew: Vec<&Finished> = group.recorded.iter().map(|run| newest(run).unwrap_or(run)).collect();
    Spread::of(&steady(&group.recorded), &steady(&anew))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{Run, Status};
    use reslab_record::{Done, Outcome, PlannedRun};

    const METRIC: &str = "test/top1";
    const ARMS: usize = 8;
    const SEEDS: usize = 3;

    fn finished(top1: f64) -> Finished {
        Finished {
            done: Done {
                id: String::new(),
                arm: String::new(),
                seed: 0,
                outcome: Outcome::Finished,
                steps: 100,
                metrics: [(METRIC.to_owned(), top1)].into(),
                parameters: 1,
                num_classes: 10,
                effective_drop_rate: None,
                micro_batches: None,
            },
            non_finite: false,
            diverged: false,
            not_trained: false,
            first_loss: None,
            final_loss: Some(1.0 - top1),
            largest_grad_norm: None,
            spike_score: None,
            grad_spike_score: None,
            spike_episodes: Vec::new(),
            grad_spike_episodes: Vec::new(),
            update_ratio: None,
        }
    }

    fn run() -> Run {
        let planned = PlannedRun {
            id: String::new(),
            arm: String::new(),
            family: String::new(),
            seed: 0,
            folder: String::new(),
            device_kind: "cpu".to_owned(),
            threads: 1,
            parameters: 1,
            flops_per_image: 1.0,
            axes: Vec::new(),
            config: toml::Table::new(),
        };
        let (status, env, earlier_envs, timing, problems) = (Status::Unfinished, None, Vec::new(), None, Vec::new());
        Run { planned, status, env, earlier_envs, timing, problems }
    }

    /// Whether anything is called different in a sweep of 8 arms and 3 seeds, recorded and anew, with 10,000 images.
    fn is_called_different(arms: &[[[f64; SEEDS]; 2]]) -> bool {
        let run = run();
        let made: Vec<[Vec<Finished>; 2]> =
            arms.iter().map(|two| two.map(|scores| scores.map(finished).to_vec())).collect();
        let twice: Vec<Vec<Twice>> = made
            .iter()
            .map(|[old, new]| {
                let pairs = old.iter().zip(new);
                pairs
                    .map(|(recorded, new)| {
                        let is_equal = recorded.final_loss == new.final_loss;
                        let equality = if is_equal { Equality::Records } else { Equality::None };
                        Twice { recorded, reproduced: Some(new), equality, run: &run, anew: &run }
                    })
                    .collect()
            })
            .collect();
        let groups: Vec<Group> = twice
            .iter()
            .map(|runs| Group {
                arm: String::new(),
                runs: runs.iter().collect(),
                recorded: runs.iter().map(|twice| twice.recorded).collect(),
                images: Some(10_000),
            })
            .collect();
        let (cells, arms) = judge(&groups, &Metric::new(METRIC));
        let pairs = cells.iter().map(|cell| cell.metric).chain(arms.iter().map(|arm| arm.metric));
        pairs
            .chain(cells.iter().map(|cell| cell.final_loss))
            .chain(arms.iter().map(|arm| arm.final_loss))
            .any(|pair| pair.verdict == Verdict::Different)
    }

    /// Numbers of a normal distribution, always the same.
    fn normals() -> impl FnMut() -> f64 {
        let mut state = 1_u64;
        let mut uniform = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        move || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
    }

    /// Of 1000 sweeps in which nothing but chance differs at most 5 % may be called different; with 4 standard errors
    /// 78. Spreads differ between arms: their logarithms have a standard deviation of 1.
    #[test]
    fn chance_alone_is_seldom_called_different() {
        let mut normal = normals();
        let mut called = 0;
        for _ in 0..1000 {
            let arm = |_| {
                let spread = 0.01 * normal().exp();
                [(); 2].map(|()| [(); SEEDS].map(|()| 0.75 + spread * normal()))
            };
            called += usize::from(is_called_different(&(0..ARMS).map(arm).collect::<Vec<_>>()));
        }
        assert!(called <= 78, "{called} of 1000");
    }

    /// One arm lost eight points, where seeds differ by one, and the others are as recorded: of 1000 such sweeps at
    /// least 900 are told.
    #[test]
    fn a_loss_of_eight_points_in_one_arm_is_told() {
        let mut normal = normals();
        let mut called = 0;
        for _ in 0..1000 {
            let arm = |index| {
                let old = [(); SEEDS].map(|()| 0.75 + 0.01 * normal());
                let new = if index == 0 { [(); SEEDS].map(|()| 0.67 + 0.01 * normal()) } else { old };
                [old, new]
            };
            called += usize::from(is_called_different(&(0..ARMS).map(arm).collect::<Vec<_>>()));
        }
        assert!(called >= 900, "{called} of 1000");
    }
}
