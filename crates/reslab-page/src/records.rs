//! What the page needs of each run's folder beside the table: curves, spikes, configuration, the end of the log.

use reslab_plot::{SMOOTH_STEPS, smooth};
use reslab_record::{EvalRow, Row, Split, StepRow, Weights, read_rows};
use reslab_report::{Episode, Run, Status, Sweep};
use serde::{Deserialize, Serialize};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::decimate::decimate;

/// Stretches of all curves of a figure together: about 3 points each, so that the page of a large sweep stays small.
const ALL_BUCKETS: usize = 9_600;
/// Stretches of one curve, at least and at most.
const BUCKETS: (usize, usize) = (50, 400);
/// Lines of a log that are shown, and bytes that they are looked for in.
const LOG_LINES: usize = 30;
const LOG_BYTES: u64 = 16_384;

/// Step and figure; NaN where it is not finite.
pub(crate) type Curve = Vec<(u64, f64)>;

/// One run's folder.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub loss: Curve,
    /// The loss as the mean of 20 steps.
    pub loss_mean: Curve,
    pub grad_norm: Curve,
    /// The gradient norm as the mean of 20 steps.
    pub grad_norm_mean: Curve,
    pub lr: Curve,
    /// On the validation split, from 0 to 1.
    pub accuracy: Curve,
    /// Spike episodes of the loss, then of the gradient norm.
    pub spikes: [Vec<SpikeEpisode>; 2],
    /// Step of the last row.
    pub last_step: Option<u64>,
    /// Whether curves lack points that are recorded.
    pub is_thinned: bool,
    /// config.toml as it stands.
    pub config: Option<String>,
    /// The last lines of log.txt, and whether there are more.
    pub log: Option<(String, bool)>,
    /// What is missing or damaged, and is not told by the table.
    pub problems: Vec<String>,
}

/// An episode of spikes by steps.
#[derive(Debug, PartialEq)]
pub(crate) struct SpikeEpisode {
    pub first: u64,
    pub last: u64,
    pub episode: Episode,
}

/// The columns of steps.csv that are drawn; the others are passed over.
#[derive(Debug, Serialize, Deserialize)]
struct Step {
    step: u64,
    loss: f64,
    lr: f64,
    grad_norm: f64,
}

impl Row for Step {
    const FILE: &'static str = StepRow::FILE;
    const HEADER: &'static [&'static str] = &["step", "loss", "lr", "grad_norm"];
    fn step(&self) -> u64 {
        self.step
    }
}

/// The records of every run of the sweep, in its order.
pub(crate) fn read(dir: &Path, sweep: &Sweep) -> Vec<Records> {
    let buckets = (ALL_BUCKETS / sweep.runs.len().max(1)).clamp(BUCKETS.0, BUCKETS.1);
    reslab_report::map_parallel(&sweep.runs, |run| Records::read(&run.planned.dir(dir), run, buckets))
}

impl Records {
    fn read(dir: &Path, run: &Run, buckets: usize) -> Self {
        let mut records = Self::default();
        if !dir.is_dir() {
            return records;
        }
        records.read_texts(dir);
        records.read_curves(dir, run, buckets);
        records
    }

    fn read_texts(&mut self, dir: &Path) {
        match std::fs::read(dir.join("config.toml")) {
            Ok(bytes) => self.config = Some(printable(&bytes)),
            Err(_) => self.problems.push("config.toml: missing or not readable; what was planned is shown".to_owned()),
        }
        match tail(&dir.join("log.txt")) {
            Ok(log) => self.log = Some(log),
            Err(_) => self.problems.push("log.txt: missing or not readable".to_owned()),
        }
    }

    fn read_curves(&mut self, dir: &Path, run: &Run, buckets: usize) {
        let steps = read_rows::<Step>(dir);
        let evals = read_rows::<EvalRow>(dir);
        // The last line of a run that goes on may be half written, and one that has just begun has no files: no damage.
        // Of finished runs the table tells of steps.csv.
        match run.status {
            Status::Done(_) => self.problems.extend(evals.problem),
            Status::Failed(_) => self.problems.extend(steps.problem.into_iter().chain(evals.problem)),
            Status::Unfinished => {}
        }
        let steps = steps.rows;
        self.last_step = steps.last().map(|row| row.step);
        if let Status::Done(finished) = &run.status {
            let by_steps =
                |episodes: &[Episode]| episodes.iter().filter_map(|e| SpikeEpisode::new(e, &steps)).collect();
            self.spikes = [by_steps(&finished.spike_episodes), by_steps(&finished.grad_spike_episodes)];
        }
        let mut thin = |curve: Curve| {
            let few = decimate(&curve, buckets);
            self.is_thinned |= few.len() < curve.len();
            few
        };
        let figure = |figure: fn(&Step) -> f64| steps.iter().map(|row| (row.step, figure(row))).collect();
        let mean = |figure: fn(&Step) -> f64| {
            let points: Vec<(f64, f64)> = steps.iter().map(|row| (row.step as f64, figure(row))).collect();
            smooth(&points, SMOOTH_STEPS).into_iter().map(|(x, y)| (x as u64, y)).collect()
        };
        self.loss = thin(figure(|row| row.loss));
        self.loss_mean = thin(mean(|row| row.loss));
        self.grad_norm_mean = thin(mean(|row| row.grad_norm));
        self.grad_norm = thin(figure(|row| row.grad_norm));
        self.lr = thin(figure(|row| row.lr));
        let on_validation = |row: &&EvalRow| row.split == Split::Val && row.weights == Weights::Raw;
        self.accuracy = thin(evals.rows.iter().filter(on_validation).map(|row| (row.step, row.top1)).collect());
    }
}

impl SpikeEpisode {
    /// `None` where the rows are not those that the episode was found in.
    fn new(episode: &Episode, steps: &[Step]) -> Option<Self> {
        let step = |at: usize| steps.get(at).map(|row| row.step);
        Some(Self { first: step(episode.start)?, last: step(episode.last)?, episode: *episode })
    }
}

/// The last lines of a file, without reading all of a long one.
fn tail(path: &Path) -> std::io::Result<(String, bool)> {
    let mut file = std::fs::File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    let text = printable(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(LOG_LINES);
    Ok((lines[first..].join("\n"), first > 0 || start > 0))
}

/// Text without what a page can't hold or shows as something else: control characters of a terminal, torn letters.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_the_end_is_shown_and_that_there_is_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.txt");
        let lines = |n: usize| (0..n).map(|k| format!("line {k} \u{1b}[31mred\u{0}\n")).collect::<String>();
        std::fs::write(&path, lines(3)).unwrap();
        assert_eq!(tail(&path).unwrap(), ("line 0 [31mred\nline 1 [31mred\nline 2 [31mred".to_owned(), false));
        std::fs::write(&path, lines(100_000)).unwrap();
        let (text, has_more) = tail(&path).unwrap();
        assert!(has_more && text.lines().count() == LOG_LINES && text.ends_with("line 99999 [31mred"), "{text}");
        std::fs::write(&path, [0xff, b'a', 0xc3]).unwrap();
        assert_eq!(tail(&path).unwrap().0, "\u{fffd}a\u{fffd}");
    }
}
