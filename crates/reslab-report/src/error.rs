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
    /// The baseline is no arm.
    #[error("baseline: no arm is named `{baseline}`; there are {known}")]
    UnknownBaseline {
        /// What was asked for.
        baseline: String,
        /// What there is.
        known: String,
    },
}
