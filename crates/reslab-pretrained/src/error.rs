//! What can be wrong with a checkpoint, each with the key and what was expected.

use std::fmt;
use std::path::{Path, PathBuf};

use reslab_record::RecordError;

/// So many keys of a kind are written out; of the others the number.
const SHOWN: usize = 8;

/// A checkpoint that can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PretrainedError {
    /// The system refused.
    #[error("{}: can't {action} it: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of `torch.save`, which is a program.
    #[error("{}", pickle_text(path, kind))]
    Pickle {
        /// The file.
        path: PathBuf,
        /// What it is: a zip archive, a pickle.
        kind: &'static str,
    },
    /// It is torn, lies about itself, or is of no layout that is known; or there is nothing to open.
    #[error("{}: {problem}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Keys and parameters do not fit each other.
    #[error("{0}")]
    Keys(Box<KeyReport>),
    /// The layout to be written has no place for what the network has.
    #[error("the layout `{layout}` can't hold this network: {reason}")]
    Refused {
        /// The layout to be written.
        layout: String,
        /// What it has no place for.
        reason: String,
    },
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] RecordError),
}

impl PretrainedError {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> PretrainedError {
        move |source| PretrainedError::Io { path: path.to_owned(), action, source }
    }

    pub(crate) fn broken(path: &Path, problem: impl Into<String>) -> PretrainedError {
        PretrainedError::Broken { path: path.to_owned(), problem: problem.into() }
    }
}

fn pickle_text(path: &Path, kind: &str) -> String {
    let from = path.display().to_string();
    let to = path.with_extension("safetensors").display().to_string();
    format!(
        "{from}: is {kind}, as torch.save writes it; only safetensors is read, since a pickle is a program that runs when \
         it is opened. Three lines of Python convert it:\n  \
         import torch; from safetensors.torch import save_file\n  \
         d = torch.load({from:?}, map_location=\"cpu\", weights_only=True); d = d.get(\"model\", d)\n  \
         save_file({{k: v.contiguous().clone() for k, v in d.items() if torch.is_tensor(v)}}, {to:?})"
    )
}

/// A tensor whose shape is not the one that its place wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongShape {
    /// Its key.
    pub key: String,
    /// The shape in the file.
    pub found: Vec<usize>,
    /// The shape that fits the network.
    pub expected: Vec<usize>,
}

/// Both sides of what does not fit: keys of the file and parameters of the network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyReport {
    /// The file.
    pub path: PathBuf,
    /// What it was taken for.
    pub layout: String,
    /// Keys that no parameter takes, with the nearest that is known.
    pub unknown: Vec<(String, Option<String>)>,
    /// Keys that are not there.
    pub missing: Vec<String>,
    /// Tensors of another shape.
    pub shapes: Vec<WrongShape>,
    /// Tensors of a type that no weight has.
    pub dtypes: Vec<(String, String)>,
    /// Tensors whose values are not what the layout takes for granted.
    pub values: Vec<(String, String)>,
}

impl KeyReport {
    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.unknown.is_empty()
            && self.missing.is_empty()
            && self.shapes.is_empty()
            && self.dtypes.is_empty()
            && self.values.is_empty()
    }
}

impl fmt::Display for KeyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: read as {}, but keys and parameters do not fit each other", self.path.display(), self.layout)?;
        let near = |(key, near): &(String, Option<String>)| match near {
            Some(near) => format!("{key} (nearest known: {near})"),
            None => key.clone(),
        };
        let unknown: Vec<String> = self.unknown.iter().take(SHOWN).map(near).collect();
        section(f, "unknown keys, that no parameter takes", self.unknown.len(), &unknown)?;
        section(f, "missing tensors", self.missing.len(), &self.missing)?;
        let shapes: Vec<String> = self.shapes.iter().take(SHOWN).map(ToString::to_string).collect();
        section(f, "tensors of another shape", self.shapes.len(), &shapes)?;
        let types: Vec<String> =
            self.dtypes.iter().take(SHOWN).map(|(key, dtype)| format!("{key} is {dtype}")).collect();
        section(f, "tensors that are no weights (F16, BF16, F32 and F64 are)", self.dtypes.len(), &types)?;
        let values: Vec<String> = self.values.iter().take(SHOWN).map(|(key, why)| format!("{key} {why}")).collect();
        section(f, "values that the layout does not allow", self.values.len(), &values)
    }
}

fn section(f: &mut fmt::Formatter<'_>, title: &str, count: usize, lines: &[String]) -> fmt::Result {
    if count == 0 {
        return Ok(());
    }
    write!(f, "\n  {title} ({count}): {}", lines[..lines.len().min(SHOWN)].join(", "))?;
    if count > SHOWN { write!(f, ", ..") } else { Ok(()) }
}

impl fmt::Display for WrongShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {:?}, but should be {:?}", self.key, self.found, self.expected)?;
        let mut turned = self.found.clone();
        turned.reverse();
        let transposed = self.found.len() > 1 && turned == self.expected && self.found != self.expected;
        if transposed { write!(f, " (transposed)") } else { Ok(()) }
    }
}
