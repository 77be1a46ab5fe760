//! A sweep that goes on elsewhere, as its folder shows it. Records are only read, each row once.

mod cells;
mod clock;
mod plain;
mod run;
mod screen;
mod spark;
#[cfg(test)]
mod testing;

pub(crate) use clock::clock_after;
pub(crate) use plain::{Told, snapshot};
pub(crate) use run::{RunView, State};
pub(crate) use screen::{Next, Screen};

use crate::outcome::Usage;
use anyhow::Result;
use reslab_record::{Plan, PlannedRun};
use reslab_sweep::span;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// A sweep's folder and what is known of its runs.
pub(crate) struct Monitor {
    dir: PathBuf,
    pub(crate) plan: Plan,
    /// When the plan that was read was written, and its length.
    stamp: Option<(SystemTime, u64)>,
    pub(crate) runs: Vec<RunView>,
    /// Why the plan that is on disk now can't be read.
    pub(crate) problem: Option<String>,
}

/// How many runs are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) done: usize,
    /// Of the done ones: loss or gradient norm was not finite.
    pub(crate) not_finite: usize,
    pub(crate) running: usize,
    pub(crate) failed: usize,
    pub(crate) stopped: usize,
    pub(crate) waiting: usize,
}

/// An arm over its seeds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArmView {
    pub(crate) name: String,
    pub(crate) runs: usize,
    pub(crate) done: usize,
    /// Share of its steps that are done.
    pub(crate) share: f64,
    /// Mean of the plan's metric over the runs that are done, as recorded.
    pub(crate) metric: Option<f64>,
}

impl Monitor {
    /// Opens a sweep's folder and looks at it once.
    ///
    /// # Errors
    /// There is no plan that can be read.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let stamp = stamp(dir);
        let plan = Plan::read(dir).map_err(Usage::error)?;
        let runs = plan.runs.iter().map(|run| RunView::new(dir, run)).collect();
        Ok(Self { dir: dir.to_owned(), plan, stamp, runs, problem: None })
    }

    /// Looks at all runs: their state and what those that are running have written; then, until `patience` is over, reads the
    /// rows of the others, of run `first` before all. Whether something is left to read.
    pub(crate) fn refresh(&mut self, first: usize, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        self.follow_plan();
        for run in &mut self.runs {
            run.look();
        }
        let mut order: Vec<usize> = (0..self.runs.len()).collect();
        order.sort_by_key(|at| (*at != first, !self.runs[*at].is_running()));
        for at in order {
            while self.runs[at].has_more() {
                if Instant::now() >= end {
                    return true;
                }
                self.runs[at].read_on();
            }
        }
        false
    }

    /// The sweep may have been started again with another plan: runs that both have keep what was read.
    fn follow_plan(&mut self) {
        let stamp = stamp(&self.dir);
        if stamp == self.stamp {
            return;
        }
        match Plan::read(&self.dir) {
            Ok(plan) => {
                let mut old = std::mem::take(&mut self.runs);
                let kept = |run: &PlannedRun| match old.iter().position(|view| view.planned == *run) {
                    Some(at) => old.swap_remove(at),
                    None => RunView::new(&self.dir, run),
                };
                self.runs = plan.runs.iter().map(kept).collect();
                (self.plan, self.problem) = (plan, None);
            }
            Err(error) => self.problem = Some(error.to_string()),
        }
        self.stamp = stamp;
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for run in &self.runs {
            match &run.state {
                State::Done(done) => {
                    counts.done += 1;
                    counts.not_finite += usize::from(done.outcome != reslab_record::Outcome::Finished);
                }
                State::Running => counts.running += 1,
                State::Failed(_) | State::Damaged => counts.failed += 1,
                State::Stopped => counts.stopped += 1,
                State::Waiting => counts.waiting += 1,
            }
        }
        counts
    }

    /// Whether every run has come to its end.
    pub(crate) fn is_over(&self) -> bool {
        let Counts { done, failed, .. } = self.counts();
        done + failed == self.runs.len()
    }

    /// Share of all steps that are done.
    pub(crate) fn share(&self) -> f64 {
        let shares: f64 = self.runs.iter().map(RunView::share).sum();
        if self.runs.is_empty() { 1.0 } else { shares / self.runs.len() as f64 }
    }

    /// Seconds until the last run ends, if as many as now go on at once; `None` while none runs or no pace is known.
    pub(crate) fn seconds_left(&self) -> Option<f64> {
        let at_once = self.counts().running;
        let mut work = 0.0;
        let mut longest: f64 = 0.0;
        for run in self.runs.iter().filter(|run| !run.is_over()) {
            let left = run.steps_left()? as f64 * run.seconds_per_step().or_else(|| self.usual_pace(run))?;
            work += left;
            if run.is_running() {
                longest = longest.max(left);
            }
        }
        (at_once > 0).then(|| longest.max(work / at_once as f64))
    }

    /// Seconds per step of a run that has not begun: as in runs of the same arm, or in all.
    fn usual_pace(&self, run: &RunView) -> Option<f64> {
        let mean = |of: &dyn Fn(&RunView) -> bool| {
            let paces: Vec<f64> =
                self.runs.iter().filter(|run| of(run)).filter_map(RunView::seconds_per_step).collect();
            reslab_report::mean(&paces)
        };
        mean(&|other| other.planned.arm == run.planned.arm).or_else(|| mean(&|_| true))
    }

    pub(crate) fn arms(&self) -> Vec<ArmView> {
        let mut arms: Vec<(&str, Vec<&RunView>)> = Vec::new();
        for run in &self.runs {
            match arms.iter_mut().find(|(name, _)| *name == run.planned.arm) {
                Some((_, runs)) => runs.push(run),
                None => arms.push((&run.planned.arm, vec![run])),
            }
        }
        let view = |(name, runs): (&str, Vec<&RunView>)| {
            let done = runs.iter().filter_map(|run| run.done());
            let metrics: Vec<f64> =
                done.clone().filter_map(|done| done.metrics.get(&self.plan.metric).copied()).collect();
            ArmView {
                name: name.to_owned(),
                runs: runs.len(),
                done: done.count(),
                share: runs.iter().map(|run| run.share()).sum::<f64>() / runs.len() as f64,
                metric: reslab_report::mean(&metrics),
            }
        };
        arms.into_iter().map(view).collect()
    }

    /// A value of the plan's metric, for people.
    pub(crate) fn show(&self, value: f64) -> String {
        match reslab_report::Metric::new(self.plan.metric.as_str()).is_accuracy() {
            true => format!("{:.2} %", 100.0 * value),
            false => format!("{value:.4}"),
        }
    }

    /// `12 of 24 done, 2 running, 1 failed, 1 not finite; about 3 min left`.
    pub(crate) fn headline(&self) -> String {
        let Counts { done, not_finite, running, failed, stopped, waiting } = self.counts();
        let parts = [
            (running, "running"),
            (waiting, "waiting"),
            (stopped, "stopped"),
            (failed, "failed"),
            (not_finite, "not finite"),
        ];
        let mut words = vec![format!("{done} of {} done", self.runs.len())];
        words.extend(parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")));
        let left = self.seconds_left().map_or(String::new(), |left| format!("; about {} left", span(left)));
        format!("{}{left}", words.join(", "))
    }
}

fn stamp(dir: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(Plan::path(dir)).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

#[cfg(test)]
mod tests {
    use super::testing::{Board, FINISHED, LONG};
    use super::*;

    #[test]
    fn counts_shares_and_time_left_are_those_of_the_records() {
        let board = Board::new(&["plain", "gated"], 2);
        let lock = board.runs(0, 0..100).hold(0);
        board.runs(1, 0..200).finish(1, FINISHED);
        board.runs(2, 0..50).fail(2);
        let monitor = board.monitor();
        let counts = Counts { done: 1, running: 1, failed: 1, waiting: 1, ..Counts::default() };
        assert_eq!(monitor.counts(), counts);
        // 100, 200, 50 and 0 of 200 steps; what failed does not go on.
        assert!((monitor.share() - (0.5 + 1.0 + 0.25 + 0.0) / 4.0).abs() < 1e-12, "{}", monitor.share());
        // Two seconds per step: 100 steps of the one that runs, 200 of the one that waits, one after the other.
        assert!((monitor.seconds_left().unwrap() - 600.0).abs() < 1e-6, "{:?}", monitor.seconds_left());
        assert_eq!(monitor.headline(), "1 of 4 done, 1 running, 1 waiting, 1 failed; about 10 min left");
        drop(lock);
        let monitor = board.monitor();
        assert_eq!(monitor.seconds_left(), None, "nobody is at work");
        assert_eq!(monitor.headline(), "1 of 4 done, 1 waiting, 1 stopped, 1 failed");
        assert!(!monitor.is_over());
    }

    #[test]
    fn an_arm_has_the_mean_of_the_runs_that_are_done() {
        let board = Board::new(&["plain", "gated"], 2);
        board.runs(0, 0..200).finish(0, FINISHED);
        board.runs(1, 0..100);
        let arms = board.monitor().arms();
        let plain = ArmView { name: "plain".into(), runs: 2, done: 1, share: 0.75, metric: Some(0.7) };
        let gated = ArmView { name: "gated".into(), runs: 2, done: 0, share: 0.0, metric: None };
        assert_eq!(arms, [plain, gated]);
    }

    #[test]
    fn a_plan_that_changes_is_followed_and_a_broken_one_told() {
        let board = Board::new(&["plain"], 2);
        board.runs(0, 0..10);
        let mut monitor = board.monitor();
        Board::plan(&["plain", "gated"], 2).write(board.dir()).unwrap();
        monitor.refresh(0, LONG);
        assert_eq!((monitor.runs.len(), monitor.runs[0].losses.len()), (4, 10), "what was read is kept");
        std::fs::write(Plan::path(board.dir()), "format = ").unwrap();
        monitor.refresh(0, LONG);
        assert!(monitor.problem.as_ref().is_some_and(|p| p.contains("plan.toml")) && monitor.runs.len() == 4);
    }
}
