//! The runs of a plan, started one process each on the slots of this machine, watched to their end.
//!
//! The command of a run is handed in ([`Start`]): that is the seam for another executor over the same plan and folders.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use reslab_record::{Failed, FailureClass, Progress, RecordError, RunDir, RunState, run_state};

use crate::classify::{classify, hung, tail};
use crate::job::{EXIT_LOCKED, Event, Job, OnFailure, Retry, Skip, Start};
use crate::pool::{Happening, Pool};
use crate::remedy::remedy;
use crate::state::{look, order};
use crate::stop::Stop;
use crate::summary::{FailedRun, Summary};

/// How often runs that another process is at are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Starts what is to be started and comes back when nothing runs any more, here or in another process at the same runs:
/// one that ends without a result is taken over. `on_event` is called on this thread, and the children are told to end
/// when this thread does.
pub fn execute(job: &Job<'_>, start: &Start<'_>, on_event: &mut dyn FnMut(Event<'_>), stop: &Stop) -> Summary {
    let began = Instant::now();
    let mut executor = Executor {
        job,
        pool: Pool::new(job.slots),
        watched: vec![Watched::default(); job.runs.len()],
        queue: VecDeque::new(),
        elsewhere: Vec::new(),
        looked: began,
        summary: Summary::default(),
        on_event,
        phase: Phase::Going,
    };
    executor.look_through(order(job.runs));
    executor.go(start, stop);
    let mut summary = executor.summary;
    summary.not_started = executor.queue.len();
    summary.elsewhere = executor.elsewhere.len();
    summary.wall = began.elapsed();
    summary.signal = stop.signal();
    summary
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Going,
    /// All were asked to save and end.
    Stopping,
    /// All were killed.
    Killed,
}

/// What is known of a run beside its record.
#[derive(Clone, Copy, Default)]
struct Watched {
    last_step: Option<u64>,
    log_start: u64,
    /// When it was last heard of, since it was started.
    heard: Option<Instant>,
    /// It was ended since nothing was heard of it.
    is_hung: bool,
    /// How often it was started again after a failure that may pass.
    retries: u32,
    /// It failed within this call, and is to be started again.
    is_again: bool,
    /// Another process was seen at it.
    was_elsewhere: bool,
}

struct Executor<'a, 'e> {
    job: &'a Job<'a>,
    pool: Pool<'a>,
    watched: Vec<Watched>,
    /// Runs to start.
    queue: VecDeque<usize>,
    /// Runs that another process is at.
    elsewhere: Vec<usize>,
    /// When those were last looked at.
    looked: Instant,
    summary: Summary,
    on_event: &'e mut dyn FnMut(Event<'_>),
    phase: Phase,
}

impl Executor<'_, '_> {
    /// Puts runs where they belong: to be started, elsewhere, or told as skipped.
    fn look_through(&mut self, runs: Vec<usize>) {
        for index in runs {
            match look(&self.job.runs[index], self.job.sweep, self.job.retry) {
                Some(why) => self.skip(index, why),
                None => self.queue.push_back(index),
            }
        }
    }

    fn go(&mut self, start: &Start<'_>, stop: &Stop) {
        loop {
            self.heed(stop);
            self.visit_elsewhere();
            while self.phase == Phase::Going
                && let Some(place) = self.pool.free_place()
                && let Some(index) = self.queue.pop_front()
            {
                self.start(index, place, start);
            }
            let nothing_left = self.queue.is_empty() && self.elsewhere.is_empty();
            if self.pool.is_idle() && (nothing_left || self.phase != Phase::Going || !self.pool.has_places()) {
                break;
            }
            for happening in self.pool.poll() {
                match happening {
                    Happening::Line { task, line } => self.line(task, &line),
                    Happening::Ended { task, status } => self.ended(task, status),
                }
            }
            self.end_hung();
        }
    }

    /// Another process may have finished its runs, or died at them.
    fn visit_elsewhere(&mut self) {
        if self.phase != Phase::Going || self.elsewhere.is_empty() || self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        for index in std::mem::take(&mut self.elsewhere) {
            match look(&self.job.runs[index], self.job.sweep, self.job.retry) {
                // As before, which was told then.
                Some(Skip::Elsewhere) => self.elsewhere.push(index),
                Some(why) => self.skip(index, why),
                None => self.queue.push_back(index),
            }
        }
    }

    /// Ends the runs of which nothing was heard for too long. They can't save any more.
    fn end_hung(&mut self) {
        let Some(limit) = self.job.hang_after else { return };
        for index in self.pool.tasks() {
            let watched = &mut self.watched[index];
            if !watched.is_hung && watched.heard.is_some_and(|heard| heard.elapsed() > limit) {
                watched.is_hung = true;
                self.pool.kill(index);
            }
        }
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
        let retry = if self.watched[index].is_again { Retry::Pending } else { self.job.retry };
        if let Some(why) = look(&self.job.runs[index], self.job.sweep, retry) {
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
        let log_start = log.metadata().map_or(0, |m| m.len());
        let Watched { retries, was_elsewhere, .. } = self.watched[index];
        self.watched[index] =
            Watched { log_start, heard: Some(Instant::now()), retries, was_elsewhere, ..Watched::default() };
        command.stderr(log);
        Ok(command)
    }

    fn line(&mut self, index: usize, line: &str) {
        let run = &self.job.runs[index];
        self.watched[index].heard = Some(Instant::now());
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
            return self.failed(index, failed);
        }
        if self.phase != Phase::Going {
            self.summary.interrupted += 1;
            return (self.on_event)(Event::Interrupted { run });
        }
        if status.code() == Some(EXIT_LOCKED) || matches!(run_state(&path), Ok(RunState::Running)) {
            return self.skip(index, Skip::Elsewhere);
        }
        let Watched { last_step, log_start, is_hung, .. } = self.watched[index];
        let failed = match self.job.hang_after.filter(|_| is_hung) {
            Some(limit) => hung(limit, last_step),
            None => classify(status, &tail(&path.join("log.txt"), log_start), last_step),
        };
        if let Ok(dir) = record {
            // On a full disk not even this can be written: it is still told, and the run counts as broken off.
            let _ = dir.write_failed(&failed);
        }
        self.failed(index, failed);
    }

    /// A run failed: it is started again where that may help.
    fn failed(&mut self, index: usize, failed: Failed) {
        let run = &self.job.runs[index];
        let remedy = match self.phase {
            Phase::Going => remedy(self.job, run, &failed, self.watched[index].retries),
            Phase::Stopping | Phase::Killed => None,
        };
        let Some(remedy) = remedy else { return self.fail(index, failed) };
        let watched = &mut self.watched[index];
        watched.retries += u32::from(failed.class.may_pass());
        watched.is_again = true;
        self.queue.push_front(index);
        (self.on_event)(Event::Again { run, failed, remedy });
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
            Skip::Done(_) if self.watched[index].was_elsewhere => self.summary.done_elsewhere += 1,
            Skip::Done(_) => self.summary.done_before += 1,
            Skip::Failed(failed) => {
                self.summary.failed.push(FailedRun::new(run, failed, &self.dir(index).join("log.txt")));
            }
            Skip::Elsewhere => {
                self.watched[index].was_elsewhere = true;
                self.elsewhere.push(index);
            }
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
