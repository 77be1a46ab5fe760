//! One run, as its folder shows it.

use reslab_record::{
    Done, EvalRow, Failed, Outcome, PlannedRun, RunDir, RunState, Split, StepRow, Tail, Weights, run_state,
};
use reslab_report::{SpikeRule, spike_score};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Rows that the pace is taken over.
const PACE: usize = 64;

/// How far a run is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    /// It has not begun.
    Waiting,
    /// A process is at it.
    Running,
    /// It has begun, and nobody is at it.
    Stopped,
    /// It ended without a result.
    Failed(Failed),
    /// Its done.json can't be read.
    Damaged,
    /// It has its result.
    Done(Box<Done>),
}

/// One run and what was read of it.
pub(crate) struct RunView {
    pub(crate) planned: PlannedRun,
    dir: PathBuf,
    pub(crate) state: State,
    /// `cpu`, `cuda:0`.
    pub(crate) device: Option<String>,
    /// Training loss of each row.
    pub(crate) losses: Vec<f64>,
    /// Places in `losses` that are spikes by the tables' rule.
    pub(crate) spikes: Vec<usize>,
    pub(crate) last: Option<StepRow>,
    /// Step and accuracy of the last evaluation on the validation split.
    pub(crate) validation: Option<(u64, f64)>,
    /// What of its records is damaged.
    pub(crate) problem: Option<String>,
    /// Step and seconds of the last rows.
    pace: VecDeque<(u64, f64)>,
    /// Seconds per step of a run that is done.
    final_pace: Option<f64>,
    steps: Tail<StepRow>,
    evals: Tail<EvalRow>,
    has_more: bool,
}

impl RunView {
    pub(crate) fn new(sweep: &Path, planned: &PlannedRun) -> Self {
        Self::at(planned.dir(sweep), planned)
    }

    fn at(dir: PathBuf, planned: &PlannedRun) -> Self {
        Self {
            planned: planned.clone(),
            state: State::Waiting,
            device: None,
            losses: Vec::new(),
            spikes: Vec::new(),
            last: None,
            validation: None,
            problem: None,
            pace: VecDeque::new(),
            final_pace: None,
            steps: Tail::new(&dir),
            evals: Tail::new(&dir),
            has_more: false,
            dir,
        }
    }

    /// `plain-s0`.
    pub(crate) fn label(&self) -> String {
        crate::commands::sweep::label(&self.planned)
    }

    /// Looks where the run is. Its rows are left for [`RunView::read_on`].
    pub(crate) fn look(&mut self) {
        let state = match run_state(&self.dir) {
            Ok(state) => state,
            Err(error) => return self.problem = Some(error.to_string()),
        };
        match (state, &self.state) {
            // A finished folder is never written again.
            (RunState::Done, State::Done(_)) | (RunState::Absent, State::Waiting) => return,
            // Its folder was removed.
            (RunState::Absent, _) => return *self = Self::at(self.dir.clone(), &self.planned),
            _ => {}
        }
        self.has_more = true;
        let Ok(dir) = RunDir::open(&self.dir) else { return };
        self.device = dir.read_env().ok().flatten().map(|env| env.device).or(self.device.take());
        self.state = match state {
            RunState::Done => self.result(&dir),
            RunState::Running => State::Running,
            RunState::Failed => match dir.read_failed() {
                Ok(Some(failed)) => State::Failed(failed),
                _ => State::Stopped,
            },
            RunState::Partial | RunState::Absent => State::Stopped,
        };
    }

    fn result(&mut self, dir: &RunDir) -> State {
        let timing = dir.read_timing().ok().flatten();
        match dir.read_done() {
            Ok(Some(done)) if done.id == self.planned.id => {
                self.final_pace = timing.filter(|_| done.steps > 0).map(|timing| timing.seconds / done.steps as f64);
                State::Done(Box::new(done))
            }
            Ok(_) => {
                self.problem = Some("done.json: it is of another run".to_owned());
                State::Damaged
            }
            Err(error) => {
                self.problem = Some(error.to_string());
                State::Damaged
            }
        }
    }

    /// Whether there may be rows that were not read.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Reads a piece of what the run has written since the last look.
    pub(crate) fn read_on(&mut self) {
        let steps = self.steps.read();
        if steps.anew {
            (self.last, self.problem) = (None, None);
            self.losses.clear();
            self.spikes.clear();
            self.pace.clear();
        }
        steps.rows.into_iter().for_each(|row| self.take(row));
        let evals = self.evals.read();
        if evals.anew {
            self.validation = None;
        }
        let on_validation = |row: &&EvalRow| row.split == Split::Val && row.weights == Weights::Raw;
        if let Some(row) = evals.rows.iter().rfind(on_validation) {
            self.validation = Some((row.step, row.top1));
        }
        self.problem = steps.problem.or(evals.problem).or(self.problem.take());
        self.has_more = steps.more || evals.more;
    }

    fn take(&mut self, row: StepRow) {
        self.losses.push(row.loss);
        let rule = SpikeRule::OLMO_CORE;
        let window = self.losses.len().checked_sub(rule.window + 1).map(|first| &self.losses[first..]);
        if window.is_some_and(|window| spike_score(window, rule) == Some(1.0)) {
            self.spikes.push(self.losses.len() - 1);
        }
        if self.pace.len() == PACE {
            self.pace.pop_front();
        }
        self.pace.push_back((row.step, row.seconds));
        self.last = Some(row);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// Whether it will not go on by itself.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Done(_) | State::Failed(_) | State::Damaged)
    }

    pub(crate) fn done(&self) -> Option<&Done> {
        match &self.state {
            State::Done(done) => Some(done),
            _ => None,
        }
    }

    /// Steps that are done.
    pub(crate) fn steps(&self) -> u64 {
        self.done().map(|done| done.steps).or(self.last.as_ref().map(|row| row.step.saturating_add(1))).unwrap_or(0)
    }

    /// Steps of the whole run; of one that counts epochs not known before its first row.
    pub(crate) fn total(&self) -> Option<u64> {
        let train = self.planned.config.get("train")?;
        let number = |key: &str| {
            let value = train.get(key)?;
            value.as_float().or(value.as_integer().map(|n| n as f64))
        };
        number("steps").map(|steps| steps as u64).or_else(|| {
            let row = self.last.as_ref().filter(|row| row.epoch > 0.0)?;
            Some((number("epochs")? * (row.step as f64 + 1.0) / row.epoch).round() as u64)
        })
    }

    pub(crate) fn steps_left(&self) -> Option<u64> {
        Some(self.total()?.saturating_sub(self.steps()))
    }

    /// Share of its steps that are done.
    pub(crate) fn share(&self) -> f64 {
        match (&self.state, self.total()) {
            (State::Done(_), _) => 1.0,
            (_, Some(total)) if total > 0 => (self.steps() as f64 / total as f64).min(1.0),
            _ => 0.0,
        }
    }

    /// Lately; of a run that is done, on the whole.
    pub(crate) fn seconds_per_step(&self) -> Option<f64> {
        let lately = || {
            let ((first, from), (last, to)) = (self.pace.front()?, self.pace.back()?);
            (last > first).then(|| (to - from) / (last - first) as f64)
        };
        self.final_pace.or_else(lately).filter(|pace| pace.is_finite() && *pace >= 0.0)
    }

    pub(crate) fn seconds_left(&self) -> Option<f64> {
        Some(self.steps_left()? as f64 * self.seconds_per_step()?).filter(|_| self.is_running())
    }

    /// The state in a word or two.
    pub(crate) fn word(&self) -> String {
        match &self.state {
            State::Waiting => "waiting".to_owned(),
            State::Running => "running".to_owned(),
            State::Stopped => "stopped".to_owned(),
            State::Failed(failed) => format!("failed: {}", failed.class),
            State::Damaged => "damaged".to_owned(),
            State::Done(done) if done.outcome == Outcome::Finished => "done".to_owned(),
            State::Done(_) => "not finite".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Board, FINISHED, LONG, NOT_FINITE};
    use super::*;

    #[test]
    fn a_run_is_read_on_and_begins_anew_where_it_was_cut_back() {
        let board = Board::new(&["plain"], 1);
        let lock = board.runs(0, 0..150).hold(0);
        let mut monitor = board.monitor();
        let run = &monitor.runs[0];
        assert_eq!((run.losses.len(), run.steps(), run.total(), run.word().as_str()), (150, 150, Some(200), "running"));
        assert_eq!(run.validation, Some((99, 0.5)));
        assert_eq!(run.spikes, Vec::<usize>::new());
        board.spike(0, 150).runs(0, 151..160);
        monitor.refresh(0, LONG);
        assert_eq!((monitor.runs[0].losses.len(), &monitor.runs[0].spikes[..]), (160, &[150][..]));
        board.cut_back(0, 100);
        monitor.refresh(0, LONG);
        assert_eq!((monitor.runs[0].steps(), monitor.runs[0].spikes.len()), (100, 0));
        assert!((monitor.runs[0].seconds_left().unwrap() - 200.0).abs() < 1e-6);
        drop(lock);
    }

    #[test]
    fn every_state_has_its_word_and_a_removed_folder_is_as_one_that_never_was() {
        let board = Board::new(&["plain"], 5);
        board.runs(0, 0..200).finish(0, FINISHED);
        board.runs(1, 0..9).finish(1, NOT_FINITE);
        board.runs(2, 0..9).fail(2);
        board.runs(3, 0..9).damage(3, "done.json", "{");
        let mut monitor = board.monitor();
        let words: Vec<String> = monitor.runs.iter().map(RunView::word).collect();
        assert_eq!(words, ["done", "not finite", "failed: hang", "damaged", "waiting"]);
        assert!(monitor.runs[3].problem.as_ref().is_some_and(|p| p.contains("done.json")));
        std::fs::remove_dir_all(board.dir().join("runs")).unwrap();
        monitor.refresh(0, LONG);
        assert!(monitor.runs.iter().all(|run| run.word() == "waiting" && run.losses.is_empty()));
        board.runs(0, 0..5);
        monitor.refresh(0, LONG);
        assert_eq!((monitor.runs[0].word().as_str(), monitor.runs[0].losses.len()), ("stopped", 5));
    }

    #[test]
    fn damaged_rows_are_told_and_what_stands_before_them_is_shown() {
        let board = Board::new(&["plain"], 1);
        board.runs(0, 0..9);
        board.append(0, "steps.csv", "rubbish\n10,");
        let monitor = board.monitor();
        assert_eq!(monitor.runs[0].losses.len(), 9);
        assert!(monitor.runs[0].problem.as_ref().is_some_and(|p| p.starts_with("steps.csv: damaged")));
    }
}
