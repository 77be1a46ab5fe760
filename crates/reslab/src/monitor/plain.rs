//! The same in plain lines: one per change, or all at once.

use super::{Monitor, RunView, State};
use crate::columns::columns;
use reslab_sweep::span;

/// What was told of each run so far.
#[derive(Debug, Default)]
pub(crate) struct Told {
    runs: Vec<(String, Last)>,
    problem: Option<String>,
    idle: bool,
}

/// The last that was told of a run.
#[derive(Debug, Clone, Default, PartialEq)]
struct Last {
    word: String,
    evaluated: Option<u64>,
    spikes: usize,
    problem: Option<String>,
}

impl Told {
    /// A line for each change since the last call.
    pub(crate) fn changes(&mut self, monitor: &Monitor) -> Vec<String> {
        let mut lines = Vec::new();
        if monitor.problem != self.problem {
            lines.extend(monitor.problem.clone());
            self.problem = monitor.problem.clone();
        }
        for run in &monitor.runs {
            let at = match self.runs.iter().position(|(id, _)| *id == run.planned.id) {
                Some(at) => at,
                None => {
                    let last = Last { word: "waiting".to_owned(), ..Last::default() };
                    self.runs.push((run.planned.id.clone(), last));
                    self.runs.len() - 1
                }
            };
            let now = Last {
                word: run.word(),
                evaluated: run.validation.map(|(step, _)| step),
                spikes: run.spikes.len(),
                problem: run.problem.clone(),
            };
            if now != self.runs[at].1 {
                lines.push(line(run, monitor));
                self.runs[at].1 = now;
            }
        }
        let idle = is_idle(monitor);
        if idle && !self.idle {
            lines.push(format!("nobody is at work: {}; the sweep's own command goes on", monitor.headline()));
        }
        self.idle = idle;
        lines
    }
}

/// Whether runs are left, and no process is at any.
fn is_idle(monitor: &Monitor) -> bool {
    monitor.counts().running == 0 && !monitor.is_over()
}

/// `plain-s0: running  step 40/200  loss 1.2345  val 50.00 %  1 spike  on cpu`.
fn line(run: &RunView, monitor: &Monitor) -> String {
    let mut words = vec![format!("{}: {}", run.label(), run.word())];
    match &run.state {
        State::Failed(failed) => words.push(failed.message.lines().next().unwrap_or_default().to_owned()),
        State::Done(done) => {
            let metric = done.metrics.get(&monitor.plan.metric);
            words.extend(metric.map(|value| format!("{} {}", monitor.plan.metric, monitor.show(*value))));
        }
        _ => words.extend(run.device.as_ref().map(|device| format!("on {device}"))),
    }
    if let (Some(row), Some(total)) = (&run.last, run.total()) {
        words.push(format!("step {}/{total}", run.steps()));
        words.push(format!("loss {:.4}", row.loss));
    }
    words.extend(run.validation.map(|(_, top1)| format!("val {:.2} %", 100.0 * top1)));
    match run.spikes.len() {
        0 => {}
        1 => words.push("1 spike".to_owned()),
        n => words.push(format!("{n} spikes")),
    }
    words.extend(run.seconds_left().map(|left| format!("{} left", span(left))));
    words.extend(run.problem.as_ref().map(|problem| format!("({problem})")));
    words.join("  ")
}

/// Everything that is known now.
pub(crate) fn snapshot(monitor: &Monitor) -> String {
    let mut lines = vec![format!("{}: {}", monitor.plan.name, monitor.headline())];
    lines.extend(monitor.problem.clone());
    lines.push(String::new());
    let metric = format!(">{}", monitor.plan.metric);
    let arms = monitor.arms().into_iter().map(|arm| {
        let metric = arm.metric.map_or("-".to_owned(), |mean| monitor.show(mean));
        vec![arm.name, format!("{}/{}", arm.done, arm.runs), format!("{:.0} %", 100.0 * arm.share), metric]
    });
    lines.extend(columns(&["arm", ">done", ">steps", &metric], &arms.collect::<Vec<_>>()));
    lines.push(String::new());
    let runs = monitor.runs.iter().map(|run| {
        let or_dash = |word: Option<String>| word.unwrap_or("-".to_owned());
        let total = run.total().map_or(String::new(), |total| format!("/{total}"));
        vec![
            run.label(),
            run.word(),
            format!("{}{total}", run.steps()),
            or_dash(run.last.as_ref().map(|row| format!("{:.4}", row.loss))),
            or_dash(run.validation.map(|(_, top1)| format!("{:.2}", 100.0 * top1))),
            run.spikes.len().to_string(),
            or_dash(run.seconds_left().map(span)),
            or_dash(run.device.clone()),
        ]
    });
    let heads = ["run", "state", ">step", ">loss", ">val %", ">spikes", ">left", "device"];
    lines.extend(columns(&heads, &runs.collect::<Vec<_>>()));
    lines.extend(monitor.runs.iter().filter_map(|run| Some(format!("{}: {}", run.label(), run.problem.as_ref()?))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Board, FINISHED, LONG};
    use super::*;

    #[test]
    fn every_change_has_one_line_and_what_stays_has_none() {
        let board = Board::new(&["plain"], 2);
        let mut monitor = board.monitor();
        let mut told = Told::default();
        let idle = |done: u32, rest: &str| {
            format!("nobody is at work: {done} of 2 done, {rest}; the sweep's own command goes on")
        };
        assert_eq!(told.changes(&monitor), [idle(0, "2 waiting")]);
        let mut changes = |board: &Board| {
            let _ = board;
            monitor.refresh(0, LONG);
            told.changes(&monitor)
        };
        let lock = board.runs(0, 0..50).hold(0);
        let first = "plain-s0: running  on cpu  step 50/200  loss 1.7550  5 min left";
        assert_eq!(changes(&board), [first]);
        assert_eq!(changes(board.runs(0, 50..60)), [""; 0], "a step is no change");
        assert_eq!(
            changes(board.runs(0, 60..100)),
            ["plain-s0: running  on cpu  step 100/200  loss 1.5050  val 50.00 %  3 min 20 s left"]
        );
        board.runs(0, 100..150).spike(0, 150);
        let spike = changes(&board);
        assert!(spike.len() == 1 && spike[0].contains("loss 50.0000") && spike[0].contains("1 spike"), "{spike:?}");
        board.runs(0, 151..200).finish(0, FINISHED);
        drop(lock);
        let done = "plain-s0: done  test/top1 70.00 %  step 200/200  loss 1.0050  val 50.00 %  1 spike";
        assert_eq!(changes(&board), [done.to_owned(), idle(1, "1 waiting")]);
        board.runs(1, 0..9).fail(1);
        assert_eq!(changes(&board), ["plain-s1: failed: hang  no step for 30 min  step 9/200  loss 1.9600"]);
        assert_eq!(changes(&board), [""; 0]);
    }

    #[test]
    fn a_snapshot_has_arms_and_runs() {
        let board = Board::new(&["plain", "gated"], 1);
        board.runs(0, 0..200).finish(0, FINISHED);
        let want = "\
demo: 1 of 2 done, 1 waiting

arm    done  steps  test/top1
plain   1/1  100 %    70.00 %
gated   0/1    0 %          -

run       state       step    loss  val %  spikes  left  device
plain-s0  done     200/200  1.0050  50.00       0     -  cpu
gated-s0  waiting    0/200       -      -       0     -  -";
        assert_eq!(snapshot(&board.monitor()), want);
    }
}
