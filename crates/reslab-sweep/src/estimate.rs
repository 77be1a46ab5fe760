//! How long a sweep takes here: a few real steps of each distinct network, then the runs laid over the slots.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::ExitStatus;

use reslab_record::{Failed, FailureClass, PlannedRun, Progress};
use toml::Value;

use crate::classify::classify;
use crate::identity::canonical;
use crate::job::Start;
use crate::pool::{Happening, Pool, Slot};
use crate::span::span;
use crate::stop::Stop;

/// Bytes of a probe's standard error that are read.
const STDERR: u64 = 64 * 1024;

/// What a probe of one network measured, with as many at once as there are slots.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// The arm that was probed, for all runs of the same cost.
    pub arm: String,
    /// Seconds per step and evaluated images per second; or why the probe gave none.
    pub result: Result<Cost, Failed>,
    key: String,
}

/// What a network costs here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Seconds per training step.
    pub seconds_per_step: f64,
    /// Images per second in evaluation.
    pub eval_images_per_s: f64,
    /// Peak memory, bytes.
    pub peak_memory_bytes: u64,
}

/// What a run has to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Training steps.
    pub steps: u64,
    /// Images evaluated, all evaluations together.
    pub eval_images: u64,
}

/// How long the runs take here.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Wall seconds of all runs; `None` if the cost of one is not known.
    pub seconds: Option<f64>,
    /// Runs.
    pub runs: usize,
    /// Runs at once.
    pub at_once: usize,
    /// Seconds of each run, in the order given; `None` where its probe failed.
    pub run_seconds: Vec<Option<f64>>,
    /// The probes behind it.
    pub probes: Vec<Probe>,
}

/// What two runs share if they cost the same: network, data, batch and what acts on the branches; not rates, seeds or steps.
fn cost_key(run: &PlannedRun) -> String {
    let mut key = toml::Table::new();
    for table in ["model", "data", "residual", "drop_path"] {
        key.extend(run.config.get(table).map(|value| (table.to_owned(), value.clone())));
    }
    let train = run.config.get("train").and_then(Value::as_table);
    for name in ["batch", "accumulate", "precision", "ema_decay", "deterministic"] {
        key.extend(train.and_then(|t| t.get(name)).map(|value| (format!("train.{name}"), value.clone())));
    }
    let optim = run.config.get("optim").and_then(|optim| optim.get("kind"));
    key.extend(optim.map(|kind| ("optim.kind".to_owned(), kind.clone())));
    canonical(&Value::Table(key))
}

/// The first run of each distinct network.
pub fn networks(runs: &[PlannedRun]) -> Vec<&PlannedRun> {
    let mut keys: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for run in runs {
        let key = cost_key(run);
        if !keys.contains(&key) {
            keys.push(key);
            found.push(run);
        }
    }
    found
}

/// Probes each distinct network; a child prints one [`Progress::Probe`]. All places are busy meanwhile, as they will be
/// later: with few networks, some are probed again, and the slower figure counts. A probe that dies is told, not an
/// error. When asked to stop, it ends its children and returns what it has.
pub fn probe(
    runs: &[PlannedRun],
    slots: &[Slot],
    start: &Start<'_>,
    on_probe: &mut dyn FnMut(&Probe),
    stop: &Stop,
) -> Vec<Probe> {
    let networks = networks(runs);
    let mut pool = Pool::new(slots);
    // No more places will be busy than there are runs.
    let places = slots.iter().map(|slot| slot.jobs).sum::<usize>().min(runs.len()).max(1);
    let tasks: Vec<&PlannedRun> =
        networks.iter().cycle().take(networks.len().next_multiple_of(places)).copied().collect();
    let mut queue: VecDeque<usize> = (0..tasks.len()).collect();
    let mut heard: Vec<Heard> = tasks.iter().map(|_| Heard::default()).collect();
    let mut probes: Vec<Probe> = Vec::new();
    let mut tell = |run: &PlannedRun, result: Result<Cost, Failed>| {
        let probe = Probe { arm: run.arm.clone(), result, key: cost_key(run) };
        match probes.iter_mut().find(|known| known.key == probe.key) {
            Some(known) => known.take_slower(probe),
            None => {
                on_probe(&probe);
                probes.push(probe);
            }
        }
    };
    while stop.presses() == 0 {
        while stop.presses() == 0
            && let Some(place) = pool.free_place()
            && let Some(index) = queue.pop_front()
        {
            let mut command = start(tasks[index], pool.slot(place));
            let started = heard[index].attach(&mut command).and_then(|()| pool.start(index, place, command));
            if let Err(e) = started {
                tell(tasks[index], Err(Failed { class: FailureClass::Bug, message: e.to_string(), last_step: None }));
            }
        }
        if pool.is_idle() {
            break;
        }
        for happening in pool.poll() {
            match happening {
                Happening::Line { task, line } => heard[task].line(&line),
                Happening::Ended { task, status } => tell(tasks[task], heard[task].end(status)),
            }
        }
    }
    probes
}

impl Probe {
    fn take_slower(&mut self, other: Probe) {
        if let (Ok(known), Ok(more)) = (&mut self.result, other.result) {
            known.seconds_per_step = known.seconds_per_step.max(more.seconds_per_step);
            known.eval_images_per_s = known.eval_images_per_s.min(more.eval_images_per_s);
            known.peak_memory_bytes = known.peak_memory_bytes.max(more.peak_memory_bytes);
        }
    }
}

/// What a probe's child said.
#[derive(Default)]
struct Heard {
    cost: Option<Cost>,
    stderr: Option<File>,
}

impl Heard {
    /// Leads standard error to a file that vanishes with it: a probe leaves nothing behind.
    fn attach(&mut self, command: &mut std::process::Command) -> io::Result<()> {
        let file = tempfile::tempfile()?;
        command.stderr(file.try_clone()?);
        self.stderr = Some(file);
        Ok(())
    }

    fn line(&mut self, line: &str) {
        if let Some(Progress::Probe { seconds_per_step, eval_images_per_s, peak_memory_bytes }) =
            Progress::from_line(line)
        {
            self.cost = Some(Cost { seconds_per_step, eval_images_per_s, peak_memory_bytes });
        }
    }

    fn end(&mut self, status: ExitStatus) -> Result<Cost, Failed> {
        self.cost.ok_or_else(|| {
            let mut bytes = Vec::new();
            if let Some(mut file) = self.stderr.take() {
                let start = file.metadata().map_or(0, |m| m.len().saturating_sub(STDERR));
                // Without its words the failure is told by its exit code alone.
                let _ = file.seek(SeekFrom::Start(start)).and_then(|_| file.take(STDERR).read_to_end(&mut bytes));
            }
            classify(status, &String::from_utf8_lossy(&bytes), None)
        })
    }
}

impl Estimate {
    /// Lays the runs over the slots in the order in which they are started, each where a place is free first.
    pub fn new(runs: &[PlannedRun], slots: &[Slot], probes: &[Probe], work: &dyn Fn(&PlannedRun) -> Work) -> Self {
        let cost = |run: &PlannedRun| {
            let key = cost_key(run);
            probes.iter().find(|probe| probe.key == key).and_then(|probe| probe.result.as_ref().ok())
        };
        let run_seconds: Vec<Option<f64>> = runs.iter().map(|run| Some(cost(run)?.seconds(work(run)))).collect();
        let at_once = slots.iter().map(|slot| slot.jobs).sum::<usize>().min(runs.len());
        let all: Option<Vec<f64>> = run_seconds.iter().copied().collect();
        let seconds = all.filter(|_| at_once > 0).map(|all| laid_out(&all, at_once));
        Self { seconds, runs: runs.len(), at_once, run_seconds, probes: probes.to_vec() }
    }

    /// Estimate and actual side by side, once the runs have ended; `None` where there was no estimate.
    pub fn beside(&self, actual_seconds: f64) -> Option<String> {
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0)?;
        let ratio = actual_seconds / seconds;
        Some(format!("estimated {}, took {} ({ratio:.2} x)", span(seconds), span(actual_seconds)))
    }
}

impl Cost {
    /// Seconds of a run that has this much to do.
    pub fn seconds(&self, work: Work) -> f64 {
        let evals = if work.eval_images == 0 { 0.0 } else { work.eval_images as f64 / self.eval_images_per_s };
        work.steps as f64 * self.seconds_per_step + evals
    }
}

/// When the last of these ends, each started where a place is free first.
fn laid_out(seconds: &[f64], places: usize) -> f64 {
    let mut busy_until = vec![0.0_f64; places];
    for seconds in seconds {
        if let Some(first) = busy_until.iter_mut().min_by(|a, b| a.total_cmp(b)) {
            *first += seconds;
        }
    }
    busy_until.into_iter().fold(0.0, f64::max)
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs, {} at once: ", self.runs, self.at_once)?;
        match self.seconds {
            Some(seconds) => write!(f, "about {}", span(seconds)),
            None => {
                let unknown = self.run_seconds.iter().filter(|s| s.is_none()).count();
                write!(f, "no estimate, since {unknown} of them could not be probed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_laid_where_a_place_is_free_first() {
        assert_eq!(laid_out(&[3.0, 1.0, 1.0, 1.0], 2), 3.0);
        assert_eq!(laid_out(&[1.0, 1.0, 3.0], 2), 4.0);
        assert_eq!(laid_out(&[1.0, 2.0], 1), 3.0);
        assert_eq!(laid_out(&[], 2), 0.0);
    }

    #[test]
    fn a_run_costs_its_steps_and_its_evaluations() {
        let cost = Cost { seconds_per_step: 0.5, eval_images_per_s: 100.0, peak_memory_bytes: 0 };
        assert_eq!(cost.seconds(Work { steps: 10, eval_images: 200 }), 7.0);
        let no_evals = Cost { eval_images_per_s: 0.0, ..cost };
        assert_eq!(no_evals.seconds(Work { steps: 10, eval_images: 0 }), 5.0);
    }
}
