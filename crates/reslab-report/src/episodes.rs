//! Spikes that are close together, as one episode: how large it is, and how long it lasts.

use crate::stability::{Spike, SpikeRule, Spikes, spikes};

/// Spikes less than this many steps apart are one episode.
pub const APART: usize = 10;

/// Spikes that are close together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Episode {
    /// Index of its first spike.
    pub start: usize,
    /// Index of its last spike.
    pub last: usize,
    /// Spikes in it.
    pub spikes: usize,
    /// How far its furthest spike is from the mean of the values before the first; infinite where one is not finite.
    pub size: f64,
    /// Steps from the first spike to the first value behind the last one that the first one's rule would not call a spike;
    /// `None` where there is none.
    pub steps_to_recover: Option<usize>,
}

/// Episodes of several runs, taken together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EpisodeCount {
    /// How many.
    pub episodes: usize,
    /// The largest size.
    pub largest: Option<f64>,
    /// The most steps to recover, of those that did.
    pub longest: Option<usize>,
    /// How many did not recover.
    pub lasting: usize,
}

impl EpisodeCount {
    pub(crate) fn of<'a>(episodes: impl Iterator<Item = &'a Episode>) -> Self {
        episodes.fold(Self::default(), |all, one| Self {
            episodes: all.episodes + 1,
            largest: Some(all.largest.map_or(one.size, |largest| largest.max(one.size))),
            longest: all.longest.max(one.steps_to_recover),
            lasting: all.lasting + usize::from(one.steps_to_recover.is_none()),
        })
    }
}

/// The episodes of `values`, one value per step, in their order.
pub fn spike_episodes(values: &[f64], rule: SpikeRule) -> Vec<Episode> {
    gather(values, &spikes(values, rule), rule)
}

/// The episodes of spikes that are known.
pub(crate) fn gather(values: &[f64], spikes: &Spikes, rule: SpikeRule) -> Vec<Episode> {
    let mut episodes: Vec<Vec<Spike>> = Vec::new();
    for spike in spikes.found.iter().copied() {
        match episodes.last_mut() {
            Some(episode) if episode.last().is_some_and(|last| spike.at - last.at < APART) => episode.push(spike),
            _ => episodes.push(vec![spike]),
        }
    }
    episodes.iter().filter_map(|spikes| episode(values, spikes, rule)).collect()
}

fn episode(values: &[f64], spikes: &[Spike], rule: SpikeRule) -> Option<Episode> {
    let (first, last) = (spikes.first()?, spikes.last()?.at);
    let away = |at: usize| if values[at].is_finite() { rule.sides.away(values[at], first.mean) } else { f64::INFINITY };
    let size = spikes.iter().map(|spike| away(spike.at)).reduce(f64::max)?;
    let recovered = (last + 1..values.len()).find(|at| away(*at) <= first.limit);
    let steps_to_recover = recovered.map(|at| at - first.at);
    Some(Episode { start: first.at, last, spikes: spikes.len(), size, steps_to_recover })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stability::{Sides, spike_score};

    /// Before value 4 of 1, 3, 1, 3 stand mean 2 and deviation 1.1547; with a threshold of 2 a spike is above 4.309.
    const RULE: SpikeRule = SpikeRule { window: 4, threshold: 2.0, sides: Sides::Above };

    fn after_calm(values: &[f64]) -> Vec<Episode> {
        spike_episodes(&[&[1.0, 3.0, 1.0, 3.0], values].concat(), RULE)
    }

    #[test]
    fn an_episode_by_hand() {
        // 9 is 7 above 2. Then 5 is no spike to the rule (9 is in its window), but above 4.309 still; 4 is not.
        let got = after_calm(&[9.0, 5.0, 4.0, 1.0]);
        assert_eq!(got, [Episode { start: 4, last: 4, spikes: 1, size: 7.0, steps_to_recover: Some(2) }]);
        assert_eq!(after_calm(&[9.0, 5.0]), [Episode { steps_to_recover: None, ..got[0] }], "it ends too early to say");
        assert_eq!(after_calm(&[4.0, 2.0]), []);
    }

    /// 1, 3, 1, 3 again and again between two spikes of 9, so that the second is one as well.
    #[test]
    fn spikes_closer_than_ten_steps_are_one_episode() {
        let with = |between: usize| {
            let calm = (0..between).map(|i| if i % 2 == 0 { 1.0 } else { 3.0 });
            after_calm(&[[9.0].to_vec(), calm.collect(), [12.0, 1.0].to_vec()].concat())
        };
        let near = with(8);
        assert_eq!(near, [Episode { start: 4, last: 13, spikes: 2, size: 10.0, steps_to_recover: Some(10) }]);
        let far = with(9);
        assert_eq!(far.iter().map(|e| (e.start, e.spikes)).collect::<Vec<_>>(), [(4, 1), (14, 1)], "10 apart are two");
    }

    #[test]
    fn episodes_of_several_runs_are_counted_together() {
        let runs = [after_calm(&[9.0, 5.0, 4.0, 1.0]), after_calm(&[12.0, 9.0]), after_calm(&[2.0])].concat();
        let want = EpisodeCount { episodes: 2, largest: Some(10.0), longest: Some(2), lasting: 1 };
        assert_eq!(EpisodeCount::of(runs.iter()), want);
        assert_eq!(EpisodeCount::of([].iter()), EpisodeCount::default());
    }

    #[test]
    fn a_value_that_is_not_finite_is_a_spike_without_a_size() {
        let got = after_calm(&[f64::NAN, 2.0]);
        assert_eq!(got, [Episode { start: 4, last: 4, spikes: 1, size: f64::INFINITY, steps_to_recover: Some(1) }]);
    }

    #[test]
    fn down_counts_where_the_rule_says_both() {
        let values = [1.0, 3.0, 1.0, 3.0, -9.0, 2.0];
        assert_eq!(spike_episodes(&values, RULE), []);
        let both = spike_episodes(&values, SpikeRule { sides: Sides::Both, ..RULE });
        assert_eq!(both, [Episode { start: 4, last: 4, spikes: 1, size: 11.0, steps_to_recover: Some(1) }]);
    }

    #[test]
    fn episodes_hold_the_spikes_of_the_score() {
        let values: Vec<f64> =
            (0..400_u32).map(|i| f64::from(i * i % 17) + if i % 97 == 96 { 99.0 } else { 0.0 }).collect();
        let rule = SpikeRule { window: 64, threshold: 3.0, sides: Sides::Above };
        let spikes: usize = spike_episodes(&values, rule).iter().map(|episode| episode.spikes).sum();
        assert!(spikes >= 3);
        assert_eq!(spike_score(&values, rule), Some(spikes as f64 / (400 - 64) as f64));
        assert_eq!(spike_episodes(&[1.0; 100], rule), [], "all equal");
        assert_eq!(spike_episodes(&[1.0], rule), [], "no value has a window before it");
    }
}
