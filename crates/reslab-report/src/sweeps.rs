//! Two sweeps against each other: the same arms, paired by seed where that can be.

use std::collections::BTreeSet;

use crate::ReportError;
use crate::arm::paired;
use crate::cell::{self, Style};
use crate::contrast::{Finding, LEVEL, SEED};
use crate::entry::{Entry, entries};
use crate::findings::what_n_allows;
use crate::heading::Heading;
use crate::holm::holm;
use crate::metric::Metric;
use crate::origin;
use crate::paper::look_up;
use crate::probability::{probability_above, probability_paired};
use crate::section::title_of;
use crate::settings::settings;
use crate::sign_flip::sign_flip;
use crate::stats::{Summary, summarize};
use crate::sweep::Sweep;
use crate::table::{Group, Options, Table, group, same_point, table};
use crate::view::{Cell, Column, Part, View};
use crate::welch::welch;

/// A sweep, and its table by the metric of the comparison.
struct Side<'a> {
    name: &'a str,
    sweep: &'a Sweep,
    table: Table,
}

/// An arm of both sweeps.
pub(crate) struct Match<'a> {
    pub(crate) arm: String,
    /// Its runs in the first sweep and in the second.
    pub(crate) runs: [&'a Group<'a>; 2],
    /// Its rows in their tables.
    rows: [usize; 2],
    test: Test,
    /// Second - first.
    difference: Option<Summary>,
    p: Option<f64>,
    holm: Option<f64>,
    /// Probability that a run of the second is above one of the first.
    above: Option<f64>,
    finding: Finding,
}

/// How the runs of two arms are compared.
enum Test {
    Paired,
    /// By Welch's t test, since they are no pairs: why.
    Welch(String),
}

/// Compares the arms that two sweeps have under the same name; `a` and `b` are what they are called and what was read. The
/// metric is `metric`, or else that of the first plan. Runs of the same seed at the same grid point are pairs; arms without
/// such are compared by Welch's t test.
///
/// # Errors
/// The metric is in no record of one of them.
pub fn compare_sweeps(a: (&str, &Sweep), b: (&str, &Sweep), metric: Option<&str>) -> Result<View, ReportError> {
    let metric = Metric::new(metric.unwrap_or(&a.1.plan.metric));
    let options = Options { metric: Some(metric.name().to_owned()), baseline: None };
    let [a, b] = [a, b].map(|(name, sweep)| table(sweep, &options).map(|table| Side { name, sweep, table }));
    let (a, b) = (a?, b?);
    let groups = [group(&a.sweep.runs), group(&b.sweep.runs)];
    let entries = [a.entries(&groups[0]), b.entries(&groups[1])];
    let pairs = pair_up(&entries);
    let mut matches: Vec<Match> = pairs.iter().filter_map(|(one, other)| compare(one, other, &metric)).collect();
    judge(&mut matches, &metric);

    let part = part(&[&a, &b], &matches, &metric);
    let mut notes = alone(&entries, &pairs);
    notes.extend(matches.iter().filter_map(Match::unpaired));
    notes.extend(origin::between(a.sweep, b.sweep));
    notes.extend(settings(&matches));
    notes.extend(same_runs(&a, &b));
    for (letter, side) in [("A", &a), ("B", &b)] {
        notes.extend(side.table.notes.iter().map(|note| format!("{letter}: {note}")));
    }
    Ok(View {
        heading: heading(&a, &b, &metric),
        parts: vec![part],
        findings: findings(&matches),
        notes,
        legend: LEGEND.map(str::to_owned).to_vec(),
        feet: Vec::new(),
    })
}

const LEGEND: [&str; 4] = [
    "A and B: mean +- half-width of the 95 % t interval over seeds (accuracies in percent); for n = 2 the range in brackets; no \
     interval for n = 1 or where a run diverged. A diverged run scores chance; it is never left out. Where a sweep selects, \
     an arm is taken at its own chosen point.",
    "B - A, paired: over the seeds that both have at the same grid point, with the exact sign-flip p of the differences. \
     Welch: the runs are no pairs; difference of the means and p by Welch's t test over all of them.",
    "Holm p: corrected for all arms of the table. P(B > A): share of the seeds (Welch: of all pairs of runs) at which B is above, \
     ties as a half.",
    "Better and worse, said of B, need a Holm p of at most .05 from an exact sign-flip test: an unpaired comparison stays undecided.",
];

impl<'a> Side<'a> {
    fn entries<'g>(&self, groups: &'g [Group<'g>]) -> Vec<Entry<'g>> {
        entries(&self.sweep.plan, &self.table.rows, groups, self.table.selection.as_ref())
    }
}

type Both<'e, 'g> = (&'e Entry<'g>, &'e Entry<'g>);

/// The entries of the same arm: at the same factors, or where each sweep has but one of that name.
fn pair_up<'e, 'g>([a, b]: &'e [Vec<Entry<'g>>; 2]) -> Vec<Both<'e, 'g>> {
    let alone = |entries: &[Entry], base: &str| entries.iter().filter(|entry| entry.base == base).count() == 1;
    let of = |one: &'e Entry<'g>| {
        let mut same = b.iter().filter(|other| other.base == one.base);
        let exact = same.clone().find(|other| same_point(&other.factors, &one.factors));
        let single = || same.next().filter(|_| alone(a, &one.base) && alone(b, &one.base));
        Some((one, exact.or_else(single)?))
    };
    a.iter().filter_map(of).collect()
}

fn compare<'g>(a: &Entry<'g>, b: &Entry<'g>, metric: &Metric) -> Option<Match<'g>> {
    let ((row_a, runs_a), (row_b, runs_b)) = (a.at?, b.at?);
    let pairs = paired(runs_b, runs_a, metric);
    let scores = |runs: &Group| -> Vec<(f64, bool)> {
        runs.iter().filter_map(|run| run.finished()).filter_map(|f| Some((f.score(metric)?, f.diverged))).collect()
    };
    let (scores_a, scores_b) = (scores(runs_a), scores(runs_b));
    let is_pairs = pairs.len() > 1 || (pairs.len(), scores_a.len(), scores_b.len()) == (1, 1, 1);
    let why = points(runs_a, runs_b).or((!is_pairs).then(|| format!("seeds {} and {}", seeds(runs_a), seeds(runs_b))));
    let mut found = Match {
        arm: a.name.clone(),
        runs: [runs_a, runs_b],
        rows: [row_a, row_b],
        test: Test::Paired,
        difference: None,
        p: None,
        holm: None,
        above: None,
        finding: Finding::Undecided,
    };
    match why {
        None => {
            let differences: Vec<f64> = pairs.iter().map(|pair| pair.difference).collect();
            found.difference = summarize(&differences, pairs.iter().filter(|pair| pair.diverged).count());
            found.p = sign_flip(&differences, SEED).map(|test| test.p);
            found.above = probability_paired(&differences);
        }
        Some(why) => {
            let values = |scores: &[(f64, bool)]| scores.iter().map(|(value, _)| *value).collect::<Vec<_>>();
            let diverged = scores_a.iter().chain(&scores_b).filter(|(_, diverged)| *diverged).count();
            let result = welch(&values(&scores_b), &values(&scores_a), diverged);
            found.difference = result.map(|(difference, _)| difference);
            found.p = result.and_then(|(_, p)| p);
            found.above = probability_above(&values(&scores_b), &values(&scores_a));
            found.test = Test::Welch(why);
        }
    }
    Some(found)
}

/// The axes of either whose values in the runs differ, in words; `None` where the runs are at the same point.
fn points(a: &Group, b: &Group) -> Option<String> {
    let (a, b) = (&a[0].planned, &b[0].planned);
    let keys: BTreeSet<&str> = a.axes.iter().chain(&b.axes).map(|axis| axis.key.as_str()).collect();
    let differs = keys.into_iter().filter_map(|key| {
        let values = [a, b].map(|run| look_up(&run.config, key));
        let [one, other] = values.map(|value| value.map_or("none".to_owned(), ToString::to_string));
        (one != other).then(|| format!("{key} {one} and {other}"))
    });
    let differs: Vec<String> = differs.collect();
    (!differs.is_empty()).then(|| differs.join(", "))
}

fn seeds(runs: &Group) -> String {
    let done = runs.iter().filter(|run| run.finished().is_some());
    let seeds: Vec<String> = done.map(|run| run.planned.seed.to_string()).collect();
    if seeds.is_empty() { "none".to_owned() } else { seeds.join(" ") }
}

fn judge(matches: &mut [Match], metric: &Metric) {
    let adjusted = holm(&matches.iter().map(|found| found.p).collect::<Vec<_>>());
    for (found, p) in matches.iter_mut().zip(adjusted) {
        found.holm = p;
        // The rule asks for an exact test, which takes pairs.
        if matches!(found.test, Test::Paired) {
            found.finding = Finding::new(p, found.difference.as_ref(), metric);
        }
    }
}

impl Match<'_> {
    fn unpaired(&self) -> Option<String> {
        let Test::Welch(why) = &self.test else { return None };
        Some(format!("{}: unpaired (Welch's t test, which makes no finding), since the runs have {why}.", self.arm))
    }

    fn cells(&self, sides: &[&Side; 2], metric: &Metric) -> Vec<Cell> {
        let style = Style::of(metric);
        let summaries = [0, 1].map(|at| sides[at].table.rows[self.rows[at]].metric(metric).copied());
        let [a, b] = [0, 1].map(|at| {
            let planned = sides[at].table.rows[self.rows[at]].planned;
            let shown = cell::seen(summaries[at].as_ref(), style, planned);
            Cell::Summary { shown, summary: summaries[at], is_best: false }
        });
        let difference = match &self.test {
            Test::Paired => Cell::summary(self.difference, cell::difference, style.signed()),
            Test::Welch(_) => {
                let [of_a, of_b] = summaries.map(|summary| summary.map_or(0, |s| s.n));
                let shown = cell::short(self.difference.as_ref(), style.signed());
                Cell::Summary {
                    shown: format!("{shown} (n={of_a} and {of_b})"),
                    summary: self.difference,
                    is_best: false,
                }
            }
        };
        let test = if matches!(self.test, Test::Paired) { "paired" } else { "Welch" };
        vec![
            a,
            b,
            difference,
            Cell::Words(test.to_owned()),
            Cell::Number { value: self.p, show: cell::p_value },
            Cell::Number { value: self.holm, show: cell::p_value },
            Cell::Number { value: self.above, show: cell::share },
            Cell::Words(self.finding.word().to_owned()),
        ]
    }
}

fn part(sides: &[&Side; 2], matches: &[Match], metric: &Metric) -> Part {
    let columns = [
        ("a", "A"),
        ("b", "B"),
        ("difference", "B - A"),
        ("test", "test"),
        ("p", "p"),
        ("holm_p", "Holm p"),
        ("p_above", "P(B > A)"),
        ("finding", "finding"),
    ];
    let column = |(name, title): (&str, &str)| Column { name: name.to_owned(), title: title.to_owned() };
    Part {
        title: format!("{}, B against A", title_of(metric)),
        corner: "arm".to_owned(),
        columns: columns.map(column).to_vec(),
        rows: matches.iter().map(|found| (found.arm.clone(), found.cells(sides, metric))).collect(),
    }
}

fn heading(a: &Side, b: &Side, metric: &Metric) -> Heading {
    let about = |side: &Side| {
        let plan = &side.sweep.plan;
        let seeds: Vec<String> = plan.seeds.iter().map(u64::to_string).collect();
        format!("{} (sweep {}, seeds {})", side.name, plan.name, seeds.join(" "))
    };
    let lines = vec![
        ("Compared", format!("{} of B = {} against A = {}", metric.name(), b.name, a.name)),
        ("A", about(a)),
        ("B", about(b)),
    ];
    Heading { name: format!("{} against {}", b.name, a.name), lines }
}

fn findings(matches: &[Match]) -> Vec<String> {
    if matches.iter().all(|found| found.difference.is_none()) {
        return vec!["No arm has results in both sweeps under the same name.".to_owned()];
    }
    let with = |finding: Finding| {
        let names: Vec<&str> = matches.iter().filter(|f| f.finding == finding).map(|f| f.arm.as_str()).collect();
        (!names.is_empty()).then(|| format!("{}: {}", finding.word(), names.join(", ")))
    };
    let found: Vec<String> = [Finding::Better, Finding::Worse, Finding::Differs].into_iter().filter_map(with).collect();
    let first = match found.is_empty() {
        true => format!("No arm of B differs from that of A with a Holm-adjusted sign-flip p of at most {LEVEL}."),
        false => format!(
            "B against A, with a Holm-adjusted sign-flip p of at most {LEVEL} over {} arms: {}.",
            matches.len(),
            found.join("; ")
        ),
    };
    let is_paired = |found: &&Match| matches!(found.test, Test::Paired);
    let paired = matches.iter().filter(is_paired).filter_map(|found| found.difference).map(|d| d.n).max();
    std::iter::once(first).chain(paired.map(|n| what_n_allows(n, matches.len(), false))).collect()
}

/// The arms that only one sweep has, or has results of.
fn alone([a, b]: &[Vec<Entry>; 2], pairs: &[Both]) -> Vec<String> {
    let is_in = |entry: &Entry, side: usize| {
        pairs.iter().any(|pair| std::ptr::eq(if side == 0 { pair.0 } else { pair.1 }, entry))
    };
    let of = |letter: &str, side: usize, entries: &[Entry]| {
        let names: Vec<&str> = entries.iter().filter(|e| !is_in(e, side)).map(|e| e.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("Only in {letter}: {}.", names.join(", ")))
    };
    let open = pairs.iter().filter(|(a, b)| a.at.is_none() || b.at.is_none()).map(|(a, _)| a.name.as_str());
    let open: Vec<&str> = open.collect();
    let open = (!open.is_empty()).then(|| format!("Not compared, since no point is chosen yet: {}.", open.join(", ")));
    [of("A", 0, a), of("B", 1, b), open].into_iter().flatten().collect()
}

/// Runs that both have by the same id: they computed the same.
fn same_runs(a: &Side, b: &Side) -> Option<String> {
    let ids = |side: &Side| -> BTreeSet<String> {
        side.sweep.runs.iter().filter(|run| run.finished().is_some()).map(|run| run.planned.id.clone()).collect()
    };
    let same = ids(a).intersection(&ids(b)).count();
    let (runs, stand) = if same == 1 { ("run", "stands") } else { ("runs", "stand") };
    (same > 0).then(|| format!("{same} {runs} {stand} in both sweeps by the same id: they compute the same."))
}
