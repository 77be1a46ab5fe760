//! What a person sees while runs go on: a bar per running run and one for the sweep on a terminal, plain lines elsewhere.

use crate::terminal::{draws_bars, note};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use reslab_record::{Outcome, Progress, Split, Weights};
use reslab_sweep::span;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Without a terminal a running run says where it is this often.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// How a run's process ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ending {
    /// By itself, with a result.
    Done(Outcome),
    /// It was stopped and saved.
    Stopped,
    /// Without a result, for this reason.
    Failed(String),
}

/// All runs of a sweep that are still to do, and where they are.
pub(crate) struct Watch {
    runs: BTreeMap<String, Run>,
    view: View,
    begun: Instant,
    ended: usize,
    /// Columns before the bars: the longest label's, up to a limit.
    label_width: usize,
}

/// Longest label before a bar; a longer one is cut in its middle.
const LABEL: usize = 32;

enum View {
    Bars { all: MultiProgress, sweep: ProgressBar },
    Lines,
}

struct Run {
    label: String,
    /// Its share of the sweep's work: estimated seconds, or one where nothing was estimated.
    weight: f64,
    done: f64,
    figures: Figures,
    bar: Option<ProgressBar>,
    said: Instant,
}

#[derive(Default)]
struct Figures {
    step: u64,
    steps: u64,
    loss: Option<f64>,
    val_top1: Option<f64>,
    images_per_s: f64,
    seconds_left: f64,
}

impl Figures {
    fn line(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.loss.map(|loss| format!("loss {loss:.4}")));
        words.extend(self.val_top1.map(|top1| format!("val {:.2} %", 100.0 * top1)));
        if self.images_per_s > 0.0 {
            words.push(format!("{:.0} images/s", self.images_per_s));
            words.push(format!("{} left", span(self.seconds_left)));
        }
        words.join("  ")
    }
}

impl Watch {
    /// Watches runs given as (id, label, weight).
    pub(crate) fn new(runs: impl IntoIterator<Item = (String, String, f64)>) -> Self {
        let runs: BTreeMap<String, Run> =
            runs.into_iter().map(|(id, label, weight)| (id, Run::new(label, weight))).collect();
        let longest = runs.values().map(|run| run.label.chars().count()).max().unwrap_or(0);
        let label_width = longest.clamp(5, LABEL);
        let view = if draws_bars() { View::bars(runs.len() as u64, label_width) } else { View::Lines };
        Self { runs, view, begun: Instant::now(), ended: 0, label_width }
    }

    /// A run's process has started on `device`.
    pub(crate) fn started(&mut self, id: &str, device: &str) {
        let Some(run) = self.runs.get_mut(id) else { return };
        run.said = Instant::now();
        match &self.view {
            View::Bars { all, sweep } => {
                let bar = all.insert_before(sweep, ProgressBar::new(1).with_style(style(self.label_width, "")));
                bar.set_prefix(short(&run.label));
                bar.set_message(format!("starts on {device}"));
                run.bar = Some(bar);
            }
            View::Lines => note(format_args!("{}: starts on {device}", run.label)),
        }
    }

    /// A run says where it is.
    pub(crate) fn progress(&mut self, id: &str, progress: &Progress) {
        let Some(run) = self.runs.get_mut(id) else { return };
        let due = run.take(progress);
        match (&self.view, &run.bar, progress) {
            (View::Bars { .. }, _, Progress::Note { text }) => self.note(&format!("{}: {text}", self.runs[id].label)),
            (View::Bars { .. }, Some(bar), _) => {
                bar.set_length(run.figures.steps);
                bar.set_position(run.figures.step);
                bar.set_message(run.figures.line());
                self.update_sweep();
            }
            (View::Lines, _, Progress::Note { text }) => note(format_args!("{}: {text}", run.label)),
            (View::Lines, ..) if due => {
                run.said = Instant::now();
                let Figures { step, steps, .. } = run.figures;
                note(format_args!("{}: step {step}/{steps}  {}", run.label, run.figures.line()));
            }
            _ => {}
        }
    }

    /// A run's process has ended.
    pub(crate) fn ended(&mut self, id: &str, ending: &Ending) {
        let Some(run) = self.runs.get_mut(id) else { return };
        if let Some(bar) = run.bar.take() {
            bar.finish_and_clear();
        }
        let words = match ending {
            Ending::Done(Outcome::Finished) => format!("done  {}", run.figures.line_at_end()),
            Ending::Done(Outcome::NonFinite { step }) => format!("not finite at step {step}: recorded as a result"),
            Ending::Stopped => format!("stopped at step {}", run.figures.step),
            Ending::Failed(reason) => format!("failed: {reason}"),
        };
        if !matches!(ending, Ending::Stopped) {
            run.done = 1.0;
            self.ended += 1;
        }
        let label = run.label.clone();
        self.note(&format!("[{}/{}] {label}: {words}", self.ended, self.runs.len()));
        self.update_sweep();
    }

    /// A run's process has ended, and another is going to take its place.
    pub(crate) fn again(&mut self, id: &str, words: &str) {
        let Some(run) = self.runs.get_mut(id) else { return };
        if let Some(bar) = run.bar.take() {
            bar.finish_and_clear();
        }
        let label = run.label.clone();
        self.note(&format!("{label}: {words}"));
    }

    /// A line above the bars.
    pub(crate) fn note(&self, text: &str) {
        match &self.view {
            View::Bars { all, .. } => {
                let _ = all.println(text);
            }
            View::Lines => note(text),
        }
    }

    /// Takes the bars away.
    pub(crate) fn close(&mut self) {
        if let View::Bars { all, sweep } = &self.view {
            sweep.finish_and_clear();
            let _ = all.clear();
        }
    }

    /// Seconds since the first run could start.
    pub(crate) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn update_sweep(&self) {
        let View::Bars { sweep, .. } = &self.view else { return };
        sweep.set_position(self.ended as u64);
        let left = self.seconds_left().map_or(String::new(), |left| format!(", about {} left", span(left)));
        sweep.set_message(format!("{}{left}", span(self.seconds())));
    }

    /// From the share of the work that is done; none before a fiftieth of it is.
    fn seconds_left(&self) -> Option<f64> {
        let total: f64 = self.runs.values().map(|run| run.weight).sum();
        let done: f64 = self.runs.values().map(|run| run.weight * run.done).sum();
        (done > 0.02 * total).then(|| self.seconds() * (total - done) / done)
    }
}

impl View {
    fn bars(runs: u64, label_width: usize) -> Self {
        let all = MultiProgress::new();
        let sweep = all.add(ProgressBar::new(runs).with_style(style(label_width, " runs,")));
        sweep.set_prefix("sweep");
        sweep.enable_steady_tick(Duration::from_millis(500));
        View::Bars { all, sweep }
    }
}

impl Run {
    fn new(label: String, weight: f64) -> Self {
        Self { label, weight, done: 0.0, figures: Figures::default(), bar: None, said: Instant::now() }
    }

    /// Takes the figures over; says whether a plain line is due.
    fn take(&mut self, progress: &Progress) -> bool {
        let figures = &mut self.figures;
        let due = match progress {
            Progress::Start { steps, from_step, .. } => {
                (figures.steps, figures.step) = (*steps, *from_step);
                *from_step > 0
            }
            Progress::Step { step, steps, loss, images_per_s, seconds_left, .. } => {
                (figures.step, figures.steps, figures.loss) = (step + 1, *steps, Some(*loss));
                (figures.images_per_s, figures.seconds_left) = (*images_per_s, *seconds_left);
                self.said.elapsed() >= LINE_EVERY
            }
            Progress::Eval { split: Split::Val, weights: Weights::Raw, top1, step, .. } => {
                figures.val_top1 = Some(*top1);
                figures.step = step + 1;
                true
            }
            _ => false,
        };
        self.done = figures.step as f64 / figures.steps.max(1) as f64;
        due
    }
}

impl Figures {
    fn line_at_end(&self) -> String {
        Figures { seconds_left: 0.0, images_per_s: 0.0, ..*self }.line()
    }
}

fn style(label_width: usize, unit: &str) -> ProgressStyle {
    let template = format!("{{prefix:<{label_width}}} {{bar:16}} {{pos:>5}}/{{len}}{unit} {{wide_msg}}");
    ProgressStyle::with_template(&template).expect("the template is valid").progress_chars("=> ")
}

/// A label that fits before its bar: its start and its end, where the seed is.
pub(crate) fn short(label: &str) -> String {
    let letters: Vec<char> = label.chars().collect();
    if letters.len() <= LABEL {
        return label.to_owned();
    }
    let (head, tail) = (&letters[..18], &letters[letters.len() - 12..]);
    format!("{}..{}", head.iter().collect::<String>(), tail.iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64) -> Progress {
        Progress::Step { step, steps: 10, loss: 1.0, lr: 0.1, images_per_s: 5.0, seconds_left: 3.0 }
    }

    #[test]
    fn the_time_left_follows_the_share_of_the_work_that_is_done() {
        let runs = [("a".to_owned(), "a".to_owned(), 3.0), ("b".to_owned(), "b".to_owned(), 1.0)];
        let mut watch = Watch { view: View::Lines, ..Watch::new(runs) };
        watch.begun = Instant::now() - Duration::from_secs(60);
        assert_eq!(watch.seconds_left(), None);
        watch.progress("a", &step(9));
        let left = watch.seconds_left().unwrap();
        assert!((left - 20.0).abs() < 1.0, "three quarters took a minute, but {left} s are left");
    }

    #[test]
    fn an_evaluation_is_worth_a_line_and_a_step_only_now_and_then() {
        let mut run = Run::new("a".to_owned(), 1.0);
        assert!(!run.take(&step(0)));
        run.said = Instant::now() - LINE_EVERY;
        assert!(run.take(&step(1)));
        let eval = Progress::Eval { step: 2, split: Split::Val, weights: Weights::Raw, top1: 0.5, loss: 1.0 };
        assert!(run.take(&eval));
        assert_eq!(run.figures.line(), "loss 1.0000  val 50.00 %  5 images/s  3.0 s left");
    }

    #[test]
    fn a_long_label_keeps_its_seed() {
        let label = "layer_scale+drop_path[init=1e-5,lr=4e-3]-s2";
        assert!(short(label).len() <= LABEL && short(label).ends_with("-s2"));
        assert_eq!(short("plain-s0"), "plain-s0");
    }
}
