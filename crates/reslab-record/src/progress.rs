//! What a run's process tells the sweep's, one JSON line per event on its standard output.

use serde::{Deserialize, Serialize};

use crate::number::maybe_nan;
use crate::{Outcome, Split, Weights};

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Progress {
    /// The run starts, or goes on from a checkpoint.
    Start {
        /// The run's id.
        id: String,
        /// Steps of the whole run.
        steps: u64,
        /// The step that it starts with: 0, or the checkpoint's.
        from_step: u64,
        /// Trainable parameters.
        parameters: u64,
    },
    /// A logged step is done.
    Step {
        /// The step, from 0.
        step: u64,
        /// Steps of the whole run.
        steps: u64,
        /// Training loss of this step.
        #[serde(with = "maybe_nan")]
        loss: f64,
        /// Learning rate of this step.
        #[serde(with = "maybe_nan")]
        lr: f64,
        /// Images per second since the last logged step.
        #[serde(with = "maybe_nan")]
        images_per_s: f64,
        /// Estimated seconds to the end of the run.
        #[serde(with = "maybe_nan")]
        seconds_left: f64,
    },
    /// An evaluation is done.
    Eval {
        /// The last optimizer step before it, from 0.
        step: u64,
        /// What it was evaluated on.
        split: Split,
        /// Which weights.
        weights: Weights,
        /// Share of right answers, 0 to 1.
        #[serde(with = "maybe_nan")]
        top1: f64,
        /// Mean loss.
        #[serde(with = "maybe_nan")]
        loss: f64,
    },
    /// A checkpoint is on disk.
    Checkpoint {
        /// The step that it goes on with.
        step: u64,
    },
    /// Something that a user should read; the run goes on.
    Note {
        /// One line.
        text: String,
    },
    /// The run has ended by itself; its done.json is written.
    End {
        /// How.
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// Answer to a probe: what a few real steps took.
    Probe {
        /// Seconds per training step.
        #[serde(with = "maybe_nan")]
        seconds_per_step: f64,
        /// Images per second in evaluation.
        #[serde(with = "maybe_nan")]
        eval_images_per_s: f64,
        /// Peak memory, bytes.
        peak_memory_bytes: u64,
    },
}

impl Progress {
    /// The event as one line, without the line feed.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("an event has only strings, numbers and names")
    }

    /// The event of a line; `None` where the line is none (a library's own words).
    pub fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line.trim()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_survives_a_line() {
        let events = [
            Progress::Start { id: "1a".into(), steps: 10, from_step: 4, parameters: 7 },
            Progress::Step { step: 1, steps: 10, loss: 0.1, lr: 1e-3, images_per_s: 3.0, seconds_left: 2.5 },
            Progress::Step { step: 1, steps: 10, loss: f64::INFINITY, lr: 1e-3, images_per_s: 3.0, seconds_left: 2.5 },
            Progress::Eval { step: 9, split: Split::Val, weights: Weights::Ema, top1: 0.5, loss: 0.2 },
            Progress::Checkpoint { step: 5 },
            Progress::Note { text: "a \"quoted\"\nword".into() },
            Progress::End { outcome: Outcome::Finished },
            Progress::End { outcome: Outcome::NonFinite { step: 3 } },
            Progress::Probe { seconds_per_step: 0.5, eval_images_per_s: 100.0, peak_memory_bytes: 1 << 40 },
        ];
        for event in events {
            let line = event.to_line();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(Progress::from_line(&line), Some(event), "{line}");
        }
    }

    #[test]
    fn a_nan_loss_survives_a_line_and_other_words_are_no_event() {
        let event = Progress::Step { step: 1, steps: 2, loss: f64::NAN, lr: 1.0, images_per_s: 1.0, seconds_left: 0.0 };
        let Some(Progress::Step { loss, .. }) = Progress::from_line(&event.to_line()) else {
            panic!("{}", event.to_line())
        };
        assert!(loss.is_nan());
        for line in ["", "[W] libtorch warns", "{}", r#"{"event":"party"}"#] {
            assert_eq!(Progress::from_line(line), None, "{line}");
        }
    }
}
