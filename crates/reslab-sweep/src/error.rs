//! What is wrong with a sweep file: every error names file, arm (where there is one), key and problem.

use std::fmt::{self, Write as _};

use reslab_config::ConfigError;

/// One error of a sweep file. Displayed as `configs/x.toml: arm "plain": train.batch: problem`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SweepError {
    /// The file as the user named it, or `--set` for a key of the command line.
    pub file: String,
    /// The arm's name, when the error is not the whole file's.
    pub arm: Option<String>,
    /// The full dotted key (empty: the file itself).
    pub key: String,
    /// What was expected, what came, and what to do.
    pub problem: String,
}

impl SweepError {
    /// An error of the whole file at `key`.
    pub(crate) fn new(file: impl Into<String>, key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { file: file.into(), arm: None, key: key.into(), problem: problem.into() }
    }

    /// The same error, in one arm.
    pub(crate) fn in_arm(mut self, arm: &str) -> Self {
        self.arm = Some(arm.to_owned());
        self
    }

    /// A key's error, in the file that the key stands in.
    pub(crate) fn of(file: impl Into<String>, error: ConfigError) -> Self {
        Self::new(file, error.key, error.problem)
    }
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = OneLine { f };
        write!(line, "{}: ", self.file)?;
        if let Some(arm) = &self.arm {
            write!(line, "arm \"{arm}\": ")?;
        }
        if !self.key.is_empty() {
            write!(line, "{}: ", self.key)?;
        }
        line.write_str(&self.problem)
    }
}

/// Writes line feeds and other control characters as escapes: keys and values of a file may hold them, and an error is
/// one line of plain text, whatever terminal reads it.
struct OneLine<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
}

impl fmt::Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let escaped = |c: char| c.is_control();
        text.split_inclusive(escaped).try_for_each(|part| match part.strip_suffix(escaped) {
            Some(plain) => {
                self.f.write_str(plain)?;
                part[plain.len()..].chars().try_for_each(|c| write!(self.f, "{}", c.escape_debug()))
            }
            None => self.f.write_str(part),
        })
    }
}

/// All errors of a sweep file, found before anything was started or written. Displayed one per line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SweepErrors(pub Vec<SweepError>);

impl fmt::Display for SweepErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl From<SweepError> for SweepErrors {
    fn from(error: SweepError) -> Self {
        Self(vec![error])
    }
}

impl SweepErrors {
    /// Ok when nothing was found.
    pub(crate) fn check(errors: Vec<SweepError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }
}

/// `; did you mean `x`?`, or nothing when no candidate is near.
pub(crate) fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    reslab_config::nearest(word, candidates).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}
