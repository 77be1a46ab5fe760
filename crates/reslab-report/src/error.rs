//! Why no table could be made. Damaged records of a run are no reason: they are named in the table.

use reslab_record::RecordError;

/// Why no table could be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The plan could not be read, or a table not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The metric is in no record.
    #[error("metric: no run has recorded `{metric}`; recorded are {known}")]
    UnknownMetric {
        /// What was asked for.
        metric: String,
        /// What there is.
        known: String,
    },
    /// A column is none of those that there are.
    #[error("--columns: no column is named `{column}`; there are {known}")]
    UnknownColumn {
        /// What was asked for.
        column: String,
        /// What there is.
        known: String,
    },
    /// An axis is none of the sweep's.
    #[error("--{option}: no axis is named `{axis}`; there are {known}")]
    UnknownAxis {
        /// The option that asked for it.
        option: &'static str,
        /// What was asked for.
        axis: String,
        /// What there is.
        known: String,
    },
    /// Rows and columns are of the same axis.
    #[error("--rows and --cols: both are `{axis}`; a table needs two axes")]
    SameAxis {
        /// The axis.
        axis: String,
    },
    /// A file of published values is not what it should be.
    #[error("{path}: {problem}")]
    Paper {
        /// The file.
        path: String,
        /// The key, what was expected there and what was found.
        problem: String,
    },
    /// The baseline is no arm.
    #[error("baseline: no arm is named `{baseline}`; there are {known}")]
    UnknownBaseline {
        /// What was asked for.
        baseline: String,
        /// What there is.
        known: String,
    },
}
