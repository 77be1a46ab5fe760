//! Comparisons of arms, paired by seed: the primary contrast by itself, all with the baseline after Holm's correction, and
//! the two arms that are closest.

use reslab_record::Plan;

use crate::arm::{Pair, paired};
use crate::entry::Entry;
use crate::fisher::fisher_exact;
use crate::holm::holm;
use crate::metric::Metric;
use crate::power::seeds_to_tell;
use crate::probability::probability_paired;
use crate::sign_flip::{SignFlip, sign_flip};
use crate::stats::{Summary, mean, standard_deviation, summarize};
use crate::table::{Group, same_point};

/// A p value of at most this makes a finding.
pub const LEVEL: f64 = 0.05;
/// The seed of whatever is drawn for a table, so that equal records give equal bytes.
pub(crate) const SEED: u64 = 0;

/// What the comparisons of a table say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// The contrast that the study was made for, if it was named before the runs and is about the table's metric.
    pub primary: Option<Contrast>,
    /// All others with the baseline, in plan order.
    pub with_baseline: Vec<Contrast>,
    /// The two arms whose mean difference is the smallest.
    pub closest: Option<Closest>,
}

/// An arm and what it is compared with, over the seeds that both have.
#[derive(Debug, Clone, PartialEq)]
pub struct Contrast {
    /// The arm, as in the table.
    pub arm: String,
    /// What it is compared with.
    pub baseline: String,
    /// Indices in [`crate::Table::rows`] of the arm's runs: one, or one per point of the grid that the contrast is over.
    pub rows: Vec<usize>,
    /// arm - baseline per seed (over several points: their mean); two diverged runs differ by 0.
    pub difference: Option<Summary>,
    /// The exact test of those differences.
    pub sign_flip: Option<SignFlip>,
    /// Its p after Holm's correction; `None` for the primary contrast, which is tested alone.
    pub holm: Option<f64>,
    /// Share of seeds at which the arm is above, ties as a half.
    pub probability: Option<f64>,
    /// Fisher's exact p of the counts of diverged runs, where a run diverged.
    pub fisher: Option<f64>,
    /// What can be said.
    pub finding: Finding,
}

/// What a comparison says. The first three need a p (Holm-adjusted, but for the primary contrast) of at most [`LEVEL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The arm has the better mean.
    Better,
    /// The arm has the worse mean.
    Worse,
    /// The means differ, in a figure of which neither end is the better one.
    Differs,
    /// The runs do not tell.
    Undecided,
}

impl Finding {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Differs => "differs",
            Self::Undecided => "undecided",
        }
    }

    pub(crate) fn new(p: Option<f64>, difference: Option<&Summary>, metric: &Metric) -> Self {
        match (p, difference) {
            (Some(p), Some(d)) if p <= LEVEL && d.mean != 0.0 => match metric.better() {
                Some(better) if d.mean * better > 0.0 => Self::Better,
                Some(_) => Self::Worse,
                None => Self::Differs,
            },
            _ => Self::Undecided,
        }
    }
}

/// Two arms, and how many seeds would tell them apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Closest {
    /// Their names, as in the table.
    pub arms: [String; 2],
    /// Pairs of runs.
    pub n: usize,
    /// Mean of first - second.
    pub mean: f64,
    /// Standard deviation of the differences.
    pub sd: f64,
    /// Seeds by [`seeds_to_tell`]; `None` for equal means, or more than [`crate::MOST_SEEDS`].
    pub seeds: Option<usize>,
}

/// Compares the entries of a table.
pub(crate) fn compare_entries(entries: &[Entry], plan: &Plan, metric: &Metric, baseline: &str) -> Comparison {
    let names = primary_names(plan, metric);
    let primary = names.and_then(|names| primary(entries, names, metric));
    let is_primary = |entry: &Entry| {
        let pair = [entry.base.as_str(), baseline];
        names.is_some_and(|names| pair.iter().all(|name| names.iter().any(|n| n == name)))
    };
    let others = entries.iter().filter(|entry| entry.base != baseline && !is_primary(entry));
    let mut with_baseline: Vec<Contrast> = others.map(|entry| with(entry, entries, metric, baseline)).collect();
    let adjusted = holm(&with_baseline.iter().map(|c| c.sign_flip.map(|test| test.p)).collect::<Vec<_>>());
    for (contrast, p) in with_baseline.iter_mut().zip(adjusted) {
        contrast.holm = p;
        contrast.finding = Finding::new(p, contrast.difference.as_ref(), metric);
    }
    Comparison { primary, with_baseline, closest: closest(entries, metric) }
}

/// The names of the primary contrast; `None` where there is none, it was named behind results, or about another metric.
fn primary_names<'a>(plan: &'a Plan, metric: &Metric) -> Option<&'a [String; 2]> {
    let study = plan.study.as_ref()?;
    (study.done_before == 0 && plan.metric == metric.name()).then_some(&study.primary)
}

/// The primary contrast: over all points of the factors where both stand, as one comparison.
fn primary(entries: &[Entry], [arm, other]: &[String; 2], metric: &Metric) -> Option<Contrast> {
    let mut points = Vec::new();
    for entry in entries.iter().filter(|entry| entry.base == *arm) {
        points.push((entry, partner(entry, entries, other)?));
    }
    let both: Option<Vec<_>> = points.iter().map(|(a, b)| Some((a.at?.1, b.at?.1))).collect();
    let mut contrast = measure(&both.unwrap_or_default(), metric);
    contrast.arm.clone_from(arm);
    contrast.baseline.clone_from(other);
    contrast.rows = points.iter().filter_map(|(entry, _)| Some(entry.at?.0)).collect();
    let p = contrast.sign_flip.map(|test| test.p);
    contrast.finding = Finding::new(p, contrast.difference.as_ref(), metric);
    (!points.is_empty()).then_some(contrast)
}

fn with(entry: &Entry, entries: &[Entry], metric: &Metric, baseline: &str) -> Contrast {
    let both = partner(entry, entries, baseline).and_then(|other| Some((entry.at?.1, other.at?.1)));
    let mut contrast = measure(both.as_slice(), metric);
    contrast.arm.clone_from(&entry.name);
    contrast.baseline = baseline.to_owned();
    contrast.rows = entry.at.iter().map(|at| at.0).collect();
    contrast
}

/// The arm `base` at the same factors.
pub(crate) fn partner<'e, 'a>(entry: &Entry, entries: &'e [Entry<'a>], base: &str) -> Option<&'e Entry<'a>> {
    entries.iter().find(|other| other.base == base && same_point(&other.factors, &entry.factors))
}

/// The figures of a contrast, over one point or several.
fn measure(points: &[(&Group, &Group)], metric: &Metric) -> Contrast {
    let pairs = averaged(&points.iter().map(|(a, b)| paired(a, b, metric)).collect::<Vec<_>>());
    let differences: Vec<f64> = pairs.iter().map(|pair| pair.difference).collect();
    let count = |groups: &mut dyn Iterator<Item = &&Group>| {
        let finished: Vec<_> = groups.flat_map(|group| group.iter()).filter_map(|run| run.finished()).collect();
        (finished.iter().filter(|f| f.diverged).count(), finished.len())
    };
    let (arm, baseline) = (count(&mut points.iter().map(|p| &p.0)), count(&mut points.iter().map(|p| &p.1)));
    Contrast {
        arm: String::new(),
        baseline: String::new(),
        rows: Vec::new(),
        difference: summarize(&differences, pairs.iter().filter(|pair| pair.diverged).count()),
        sign_flip: sign_flip(&differences, SEED),
        holm: None,
        probability: probability_paired(&differences),
        fisher: (arm.0 + baseline.0 > 0).then(|| fisher_exact(arm, baseline)),
        finding: Finding::Undecided,
    }
}

/// Per seed that has all points, the mean over them.
fn averaged(points: &[Vec<Pair>]) -> Vec<Pair> {
    let Some(first) = points.first() else { return Vec::new() };
    let of_seed = |seed: u64| -> Option<Pair> {
        let at = |point: &Vec<Pair>| point.iter().find(|pair| pair.seed == seed).copied();
        let all: Vec<Pair> = points.iter().map(at).collect::<Option<_>>()?;
        let difference = mean(&all.iter().map(|pair| pair.difference).collect::<Vec<_>>())?;
        Some(Pair { seed, difference, diverged: all.iter().any(|pair| pair.diverged) })
    };
    first.iter().filter_map(|pair| of_seed(pair.seed)).collect()
}

/// Among all pairs of arms at the same factors, with at least two pairs of runs and none diverged.
fn closest(entries: &[Entry], metric: &Metric) -> Option<Closest> {
    let mut closest: Option<Closest> = None;
    for (index, first) in entries.iter().enumerate() {
        for second in entries[index + 1..].iter().filter(|second| same_point(&second.factors, &first.factors)) {
            let (Some(a), Some(b)) = (first.at, second.at) else { continue };
            let pairs = paired(a.1, b.1, metric);
            let differences: Vec<f64> = pairs.iter().map(|pair| pair.difference).collect();
            let Some(mean) = mean(&differences) else { continue };
            let is_usable = differences.len() > 1 && !pairs.iter().any(|pair| pair.diverged);
            if is_usable && closest.as_ref().is_none_or(|known| mean.abs() < known.mean.abs()) {
                let arms = [first.name.clone(), second.name.clone()];
                let sd = standard_deviation(&differences, mean);
                closest = Some(Closest { arms, n: differences.len(), mean, sd, seeds: None });
            }
        }
    }
    let found = closest?;
    Some(Closest { seeds: seeds_to_tell(found.mean, found.sd), ..found })
}
