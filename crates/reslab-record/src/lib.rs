//! What a run leaves on disk, written and read; no libtorch.
//!
//! A run's folder ([`RunDir`]) holds CSV files that only grow ([`rows`]), small JSON and TOML files that appear whole
//! ([`Done`], [`Failed`], [`Env`], [`Timing`]), and a [`Checkpoint`]. A sweep's folder holds its frozen [`Plan`] and
//! the runs' folders. Everything in it is found by relative paths, so a folder can be moved.
//!
//! A run that goes on from a checkpoint of step `k` first cuts its CSV files back to `k` ([`RowWriter::cut_back`]),
//! so that a reader never sees a step twice.

mod checkpoint;
mod error;
mod file;
mod filesystem;
mod header;
mod heartbeat;
mod limits;
mod lock;
mod number;
mod outcome;
mod plan;
mod progress;
mod provenance;
pub mod rows;
mod run_dir;
mod same;
mod table;
mod tail;
mod tensor;

pub use checkpoint::{CHECKPOINT_BROKEN_FILE, CHECKPOINT_FILE, CHECKPOINT_FORMAT, CHECKPOINT_PREV_FILE};
pub use checkpoint::{Checkpoint, Restored, sha256_hex};
pub use error::{RecordError, Result};
pub use file::{clear_partials, write_atomic, write_atomic_with, write_if_new};
pub use filesystem::network_file_system;
pub use header::{SafetensorsHeader, TensorEntry, pickled, split_safetensors};
pub use limits::{Limits, read_rows_within};
pub use lock::{RunLock, RunState, is_locked, run_state};
pub use number::widen;
pub use outcome::{Done, Env, Failed, FailureClass, MicroBatches, Outcome, Timing, says_out_of_memory, without_frames};
pub use plan::{Axis, PLAN_FORMAT, Plan, PlannedRun, Source, Study};
pub use progress::Progress;
pub use rows::{Branch, EvalRow, LayerRow, ProbeRow, Row, Split, StepRow, Weights};
pub use run_dir::RunDir;
pub use same::same_records;
pub use table::{CutBack, EvalWriter, LayerWriter, ProbeWriter, RowWriter, Rows, StepWriter, read_rows};
pub use tail::{Grown, Tail};
pub use tensor::{Dtype, NamedTensor};
