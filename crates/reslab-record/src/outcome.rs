//! The JSON files of a run: how it ended, where it ran, what time it took.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

use crate::number::{maybe_nan, maybe_nan_map};

/// How a run ended by itself. Both are results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// All steps were done.
    Finished,
    /// Loss or gradient norm was not finite, and the run stopped there.
    NonFinite {
        /// The step, from 0.
        #[serde(rename = "non_finite_step")]
        step: u64,
    },
}

/// `done.json`: written last, and nothing in the folder is written after it. It holds no times, so that two runs
/// that computed the same have the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The run's id.
    pub id: String,
    /// The arm's full name.
    pub arm: String,
    /// The seed.
    pub seed: u64,
    /// How the run ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Optimizer steps done.
    pub steps: u64,
    /// Final metrics, by name: `val/top1`, `val/loss`, `test/top1`, `test/top5`, `test/loss`, `train/loss`;
    /// accuracies as shares from 0 to 1.
    #[serde(with = "maybe_nan_map")]
    pub metrics: BTreeMap<String, f64>,
    /// Trainable parameters.
    pub parameters: u64,
    /// Classes of the data: a network that has learned nothing is right once in so many times.
    pub num_classes: u64,
    /// The rate that drop path really had, where `subset` rounds it.
    pub effective_drop_rate: Option<f64>,
    /// Micro-batches per batch, where memory ran out with those of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batches: Option<u64>,
}

/// Smaller micro-batches than the config's, since memory ran out with those (micro_batches.json).
///
/// Everything random is drawn for the whole batch, so the experiment is the same but for rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MicroBatches {
    /// Micro-batches per batch from now on.
    pub accumulate: u64,
}

impl MicroBatches {
    /// Twice as many as now, where the run's `train.batch` can be split so.
    pub fn more(config: &toml::Table, now: Option<Self>) -> Option<Self> {
        let number = |key: &str| u64::try_from(config.get("train")?.get(key)?.as_integer()?).ok();
        let (batch, planned) = (number("batch")?, number("accumulate")?);
        let accumulate = now.map_or(planned, |now| now.accumulate).checked_mul(2).filter(|n| *n > 0)?;
        batch.is_multiple_of(accumulate).then_some(Self { accumulate })
    }
}

/// Why a run failed. Divergence is none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Memory of host or device ran out.
    OutOfMemory,
    /// Ended by a signal from outside.
    Killed,
    /// A file could not be read or written.
    Io,
    /// No step for too long.
    Hang,
    /// An error of the program.
    Bug,
}

/// libtorch's words without the C++ frames that it adds (they name addresses, not what to do) and without the words of
/// the panic that brought them, in which line feeds stand escaped.
pub fn without_frames(message: &str) -> String {
    let ends = ["\nException raised from", "\\nException raised from", "\nframe #", "\\nframe #"];
    let end = ends.iter().filter_map(|end| message.find(end)).min().unwrap_or(message.len());
    let words = message[..end].trim_end();
    words.strip_prefix("called `Result::unwrap()` on an `Err` value: Torch(\"").unwrap_or(words).to_owned()
}

impl FailureClass {
    /// Whether the same run may well succeed when it is started again.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Killed | Self::Io | Self::Hang)
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfMemory => "out of memory",
            Self::Killed => "killed",
            Self::Io => "io",
            Self::Hang => "hang",
            Self::Bug => "bug",
        })
    }
}

/// Whether an error's text says that memory ran out, on the host or on a device: libtorch tells it in words alone.
pub fn says_out_of_memory(text: &str) -> bool {
    let text = text.to_lowercase();
    ["out of memory", "not enough memory", "can't allocate memory"].iter().any(|words| text.contains(words))
}

/// `failed.json`: why a run ended without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Class of the failure, which says whether trying again may help.
    pub class: FailureClass,
    /// What was said.
    pub message: String,
    /// The last step that was done, if any.
    pub last_step: Option<u64>,
}

/// `timing.json`: everything that depends on time and place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Wall time of all processes of the run together, seconds.
    #[serde(with = "maybe_nan")]
    pub seconds: f64,
    /// Training images per second, median over the logged steps.
    #[serde(with = "maybe_nan")]
    pub images_per_s: f64,
    /// Peak memory: of the device's allocator, or the process's resident set on the CPU.
    pub peak_memory_bytes: u64,
    /// Wall time of those that went into writing checkpoints.
    #[serde(default)]
    pub checkpoint_seconds: f64,
    /// Device: `cpu`, `cuda:0`.
    pub device: String,
    /// Threads of the run.
    pub threads: u32,
}

/// `env.json`: which code ran where; written before anything is computed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Env {
    /// Version of reslab.
    pub reslab: String,
    /// Version of libtorch.
    pub libtorch: String,
    /// Commit that last changed the code that the program was built from.
    pub git_commit: Option<String>,
    /// Whether that code had uncommitted changes.
    pub git_dirty: Option<bool>,
    /// Checksum of `code.diff`, which holds those changes.
    pub git_diff_sha256: Option<String>,
    /// Device: `cpu`, `cuda:0`.
    pub device: String,
    /// Name of the processor or accelerator.
    pub device_name: Option<String>,
    /// Version of the accelerator's driver.
    pub driver: Option<String>,
    /// Threads of the run.
    pub threads: u32,
    /// The seed.
    pub seed: u64,
    /// Whether deterministic algorithms were asked for.
    pub deterministic: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_and_words_are_kept() {
        assert_eq!(without_frames("bad shape\nException raised from f at x.cpp:1\nframe #0"), "bad shape");
        assert_eq!(without_frames("two\nlines"), "two\nlines");
        let panic =
            "called `Result::unwrap()` on an `Err` value: Torch(\"no memory\\nframe #0: f (0x7f)\\nframe #1\\n\")";
        assert_eq!(without_frames(panic), "no memory");
    }

    #[test]
    fn a_batch_is_split_further_as_long_as_it_divides() {
        let config = |text: &str| format!("[train]\n{text}").parse::<toml::Table>().unwrap();
        let more = |text: &str, now: Option<u64>| {
            MicroBatches::more(&config(text), now.map(|accumulate| MicroBatches { accumulate })).map(|m| m.accumulate)
        };
        assert_eq!(more("batch = 12\naccumulate = 1", None), Some(2));
        assert_eq!(more("batch = 12\naccumulate = 1", Some(2)), Some(4));
        assert_eq!(more("batch = 12\naccumulate = 1", Some(4)), None);
        assert_eq!(more("batch = 12\naccumulate = 6", None), Some(12));
        assert_eq!(more("batch = 1\naccumulate = 1", None), None);
        assert_eq!(more("batch = 12", None), None);
    }
}
