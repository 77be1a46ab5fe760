//! The runs of a plan, started one process each on the slots of this machine, watched to their end.
//!
//! The command of a run is handed in ([`Start`]): that is the seam for another executor over the same plan and folders.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use reslab_record::{Failed, FailureClass, Outcome, PlannedRun, Progress, RecordError, RunDir, RunState, run_state};

use crate::classify::{classify, tail};
use crate::pool::{Happening, Pool, Slot};
use crate::stop::Stop;
use crate::summary::{FailedRun, Summary};

/// Exit code of a child that found its run locked by another process, and wrote nothing.
pub const EXIT_LOCKED: i32 = 75;

/// The command that computes a run on a slot.
pub type Start<'a> = dyn Fn(&PlannedRun, &Slot) -> Command + 'a;

/// What is to be executed, where and how.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The sweep's folder.
    pub sweep: &'a Path,
    /// The runs, from the frozen plan.
    pub runs: &'a [PlannedRun],
    /// Devices, and how many runs each takes at once.
    pub slots: &'a [Slot],
    /// What a failure means for the other runs.
    pub on_failure: OnFailure,
    /// Which runs are started.
    pub retry: Retry,
}

/// What a failed run means for the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing.
    #[default]
    GoOn,
    /// They save and end, and no other is started.
    StopAll,
}

/// Which runs are started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Retry {
    /// All that are not done, but for failures that would come again (a bug, memory, a hang).
    #[default]
    Pending,
    /// Only those that failed, for whatever reason.
    FailedOnly,
}

/// What happens while a sweep runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// A run's process was started.
    Started {
        /// The run.
        run: &'a PlannedRun,
        /// Where.
        device: &'a str,
    },
    /// A run said something.
    Progress {
        /// The run.
        run: &'a PlannedRun,
        /// What.
        progress: Progress,
    },
    /// A run has its result.
    Finished {
        /// The run.
        run: &'a PlannedRun,
        /// Which.
        outcome: Outcome,
    },
    /// A run ended without a result.
    Failed {
        /// The run.
        run: &'a PlannedRun,
        /// Why.
        failed: Failed,
        /// Where all that it printed stands.
        log: PathBuf,
    },
    /// A run was asked to stop; it goes on from its checkpoint next time.
    Interrupted {
        /// The run.
        run: &'a PlannedRun,
    },
    /// A run is not started.
    Skipped {
        /// The run.
        run: &'a PlannedRun,
        /// Why.
        why: Skip,
    },
    /// All runs were asked to save and end.
    Stopping,
}

/// Why a run is not started.
#[derive(Debug, Clone, PartialEq)]
pub enum Skip {
    /// It is done; the outcome, where its record can be read.
    Done(Option<Outcome>),
    /// It failed before, in a way that would come again; or its result cannot be read.
    Failed(Failed),
    /// Another process is at it.
    Elsewhere,
    /// It did not fail, and only failed runs are asked for.
    NotFailed,
}

/// The runs that [`execute`] would start now, in the order of the start: all arms of the first seed come first.
pub fn pending(sweep: &Path, runs: &[PlannedRun], retry: Retry) -> Vec<PlannedRun> {
    order(runs).into_iter().map(|i| &runs[i]).filter(|run| look(run, sweep, retry).is_none()).cloned().collect()
}

/// Starts what is to be started and comes back when nothing runs any more. `on_event` is called on this thread, and the
/// children are told to end when this thread does.
pub fn execute(job: &Job<'_>, start: &Start<'_>, on_event: &mut dyn FnMut(Event<'_>), stop: &Stop) -> Summary {
    let began = Instant::now();
    let mut executor = Executor {
        job,
        pool: Pool::new(job.slots),
        watched: job.runs.iter().map(|_| Watched::default()).collect(),
        summary: Summary::default(),
        on_event,
        phase: Phase::Going,
    };
    let queue = executor.queue();
    executor.go(queue, start, stop);
    let mut summary = executor.summary;
    summary.wall = began.elapsed();
    summary.signal = stop.signal();
    summary
}

/// Run numbers: by seed in order of appearance, then in plan order, so that a table has all its rows early.
fn order(runs: &[PlannedRun]) -> Vec<usize> {
    let mut seeds: Vec<u64> = Vec::new();
    for run in runs {
        if !seeds.contains(&run.seed) {
            seeds.push(run.seed);
        }
    }
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|i| seeds.iter().position(|seed| *seed == runs[*i].seed));
    order
}

/// Why a run is not to be started, from what is on disk.
fn look(run: &PlannedRun, sweep: &Path, retry: Retry) -> Option<Skip> {
    let dir = &run.dir(sweep);
    let record = RunDir::open(dir).ok();
    match run_state(dir).unwrap_or(RunState::Absent) {
        RunState::Done => Some(done(run, dir)),
        RunState::Running => Some(Skip::Elsewhere),
        RunState::Failed if retry == Retry::Pending => {
            let unreadable =
                Failed { class: FailureClass::Bug, message: "failed.json cannot be read".to_owned(), last_step: None };
            let failed = record.and_then(|r| r.read_failed().ok()?).unwrap_or(unreadable);
            let comes_again = !matches!(failed.class, FailureClass::Killed | FailureClass::Io);
            comes_again.then_some(Skip::Failed(failed))
        }
        RunState::Partial | RunState::Absent if retry == Retry::FailedOnly => Some(Skip::NotFailed),
        RunState::Failed | RunState::Partial | RunState::Absent => None,
    }
}

/// Whether a run has its result: a done.json that can be read and is its own.
pub fn is_done(run: &PlannedRun, sweep: &Path) -> bool {
    let dir = run.dir(sweep);
    dir.join("done.json").exists() && matches!(done(run, &dir), Skip::Done(_))
}

/// The result in `dir`. A done.json that cannot be read, or is of another run, is none; and what is finished is never
/// written again, so that only its owner can clear it away.
fn done(run: &PlannedRun, dir: &Path) -> Skip {
    let problem = match RunDir::open(dir).and_then(|record| record.read_done()) {
        Ok(Some(done)) if done.id == run.id => return Skip::Done(Some(done.outcome)),
        Ok(Some(done)) => format!("{}: its done.json is that of run {}", dir.display(), done.id),
        // It was there a moment ago.
        Ok(None) => return Skip::Done(None),
        Err(error) => error.to_string(),
    };
    let message = format!("{problem}; move the run's folder away, and it is computed anew");
    Skip::Failed(Failed { class: FailureClass::Io, message, last_step: None })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Going,
    /// All were asked to save and end.
    Stopping,
    /// All were killed.
    Killed,
}

#[derive(Clone, Copy, Default)]
struct Watched {
    last_step: Option<u64>,
    log_start: u64,
}

struct Executor<'a, 'e> {
    job: &'a Job<'a>,
    pool: Pool<'a>,
    watched: Vec<Watched>,
    summary: Summary,
    on_event: &'e mut dyn FnMut(Event<'_>),
    phase: Phase,
}

impl Executor<'_, '_> {
    fn queue(&mut self) -> VecDeque<usize> {
        let mut queue = VecDeque::new();
        for index in order(self.job.runs) {
            match look(&self.job.runs[index], self.job.sweep, self.job.retry) {
                Some(why) => self.skip(index, why),
                None => queue.push_back(index),
            }
        }
        queue
    }

    fn go(&mut self, mut queue: VecDeque<usize>, start: &Start<'_>, stop: &Stop) {
        loop {
            self.heed(stop);
            while self.phase == Phase::Going
                && let Some(place) = self.pool.free_place()
                && let Some(index) = queue.pop_front()
            {
                self.start(index, place, start);
            }
            if self.pool.is_idle() && (queue.is_empty() || self.phase != Phase::Going || !self.pool.has_places()) {
                break;
            }
            for happening in self.pool.poll() {
                match happening {
                    Happening::Line { task, line } => self.line(task, &line),
                    Happening::Ended { task, status } => self.ended(task, status),
                }
            }
        }
        self.summary.not_started = queue.len();
    }

    /// Passes a wish to stop on to the children, once per press.
    fn heed(&mut self, stop: &Stop) {
        if stop.presses() > 0 && self.phase == Phase::Going {
            self.stop_all(stop.signal().unwrap_or(libc::SIGINT));
        }
        if stop.presses() > 1 && self.phase == Phase::Stopping {
            self.pool.signal(libc::SIGKILL);
            self.phase = Phase::Killed;
        }
    }

    fn stop_all(&mut self, signal: i32) {
        self.pool.signal(signal);
        self.phase = Phase::Stopping;
        (self.on_event)(Event::Stopping);
    }

    fn start(&mut self, index: usize, place: usize, start: &Start<'_>) {
        // Another sweep may have been at it since the queue was made.
        if let Some(why) = look(&self.job.runs[index], self.job.sweep, self.job.retry) {
            return self.skip(index, why);
        }
        let (run, slot) = (&self.job.runs[index], self.pool.slot(place));
        match self.prepare(index, start(run, slot)) {
            Ok(command) => match self.pool.start(index, place, command) {
                Ok(()) => (self.on_event)(Event::Started { run, device: &slot.device }),
                Err(e) => self.fail(index, not_started(FailureClass::Bug, &e)),
            },
            Err(RecordError::Finished { .. }) => self.skip(index, Skip::Done(None)),
            Err(e) => self.fail(index, not_started(FailureClass::Io, &e)),
        }
    }

    /// The run's folder is made, an old failure cleared, and standard error led to its log.
    fn prepare(&mut self, index: usize, mut command: Command) -> Result<Command, RecordError> {
        let dir = RunDir::create(&self.dir(index))?;
        dir.clear_failed()?;
        let path = dir.log_path();
        let open = OpenOptions::new().create(true).append(true).open(&path);
        let log = open.map_err(|source| RecordError::Io { path, action: "open", source })?;
        self.watched[index] = Watched { last_step: None, log_start: log.metadata().map_or(0, |m| m.len()) };
        command.stderr(log);
        Ok(command)
    }

    fn line(&mut self, index: usize, line: &str) {
        let run = &self.job.runs[index];
        let Some(progress) = Progress::from_line(line) else {
            // Words of a library: for the log. Where that is closed, because the run is done, they are dropped.
            let _ = RunDir::open(&self.dir(index)).and_then(|dir| dir.log(line));
            return;
        };
        if let Progress::Step { step, .. } = progress {
            self.watched[index].last_step = Some(step);
        }
        (self.on_event)(Event::Progress { run, progress });
    }

    fn ended(&mut self, index: usize, status: ExitStatus) {
        let run = &self.job.runs[index];
        let path = self.dir(index);
        let record = RunDir::open(&path);
        let done = record.as_ref().ok().and_then(|r| r.read_done().ok()?);
        let failed = record.as_ref().ok().and_then(|r| r.read_failed().ok()?);
        if let Some(done) = done {
            self.summary.count(done.outcome);
            return (self.on_event)(Event::Finished { run, outcome: done.outcome });
        }
        if let Some(failed) = failed {
            return self.fail(index, failed);
        }
        if self.phase != Phase::Going {
            self.summary.interrupted += 1;
            return (self.on_event)(Event::Interrupted { run });
        }
        if status.code() == Some(EXIT_LOCKED) || matches!(run_state(&path), Ok(RunState::Running)) {
            return self.skip(index, Skip::Elsewhere);
        }
        let Watched { last_step, log_start } = self.watched[index];
        let failed = classify(status, &tail(&path.join("log.txt"), log_start), last_step);
        if let Ok(dir) = record {
            // On a full disk not even this can be written: it is still told, and the run counts as broken off.
            let _ = dir.write_failed(&failed);
        }
        self.fail(index, failed);
    }

    fn fail(&mut self, index: usize, failed: Failed) {
        let run = &self.job.runs[index];
        let log = self.dir(index).join("log.txt");
        self.summary.failed.push(FailedRun::new(run, &failed, &log));
        (self.on_event)(Event::Failed { run, failed, log });
        if self.job.on_failure == OnFailure::StopAll && self.phase == Phase::Going {
            self.stop_all(libc::SIGINT);
        }
    }

    fn skip(&mut self, index: usize, why: Skip) {
        let run = &self.job.runs[index];
        match &why {
            Skip::Done(_) => self.summary.done_before += 1,
            Skip::Failed(failed) => {
                self.summary.failed.push(FailedRun::new(run, failed, &self.dir(index).join("log.txt")));
            }
            Skip::Elsewhere => self.summary.elsewhere += 1,
            Skip::NotFailed => self.summary.not_asked += 1,
        }
        (self.on_event)(Event::Skipped { run, why });
    }

    fn dir(&self, index: usize) -> PathBuf {
        self.job.runs[index].dir(self.job.sweep)
    }
}

fn not_started(class: FailureClass, error: &dyn std::fmt::Display) -> Failed {
    Failed { class, message: format!("could not be started: {error}"), last_step: None }
}
