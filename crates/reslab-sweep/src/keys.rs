//! The keys of a sweep file that this crate knows; what stands inside a run's tables is checked by whoever owns them.

use crate::error::{SweepError, hint};
use crate::node::Map;

/// The tables that make a run; together with seed, device kind and threads they are its identity.
pub(crate) const RUN_TABLES: [&str; 7] = ["data", "model", "train", "optim", "residual", "drop_path", "finetune"];

/// The keys of a file that say what is asked and how it is read.
const FRAME: [&str; 12] =
    ["extends", "name", "question", "baseline", "seeds", "metric", "select", "study", "arm", "grid", "zip", "profile"];

/// The metrics that a sweep can be about: those that every finished run records.
pub const METRICS: [&str; 6] = ["test/top1", "test/top5", "test/loss", "val/top1", "val/loss", "train/loss"];

/// Where a table of keys stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A sweep file, at its top.
    File,
    /// A profile: a file that can neither extend another nor hold profiles.
    Profile,
    /// An arm.
    Arm,
    /// The axes of `[grid]` or `[zip]`: tables of a run only.
    Axes,
    /// A key of `--set`: what a file may hold but for what has an option of its own.
    Set,
}

impl Place {
    fn allows(self, key: &str) -> bool {
        let in_run = RUN_TABLES.contains(&key);
        match self {
            Self::File => in_run || FRAME.contains(&key),
            Self::Profile => in_run || (FRAME.contains(&key) && key != "extends" && key != "profile"),
            Self::Arm => in_run || key == "name" || key == "zip",
            Self::Axes => in_run,
            Self::Set => in_run || (FRAME.contains(&key) && !["extends", "profile", "arm"].contains(&key)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::File => "a sweep file",
            Self::Profile => "a profile",
            Self::Arm => "an arm",
            Self::Axes => "[grid] and [zip]",
            Self::Set => "--set",
        }
    }
}

/// One error per key of `map` that has no meaning there; `at` is the dotted key of the map itself.
pub(crate) fn unknown(map: &Map, place: Place, at: &str) -> Vec<SweepError> {
    let strays = map.iter().filter(|(key, _)| !place.allows(key));
    strays.map(|(key, node)| SweepError::new(&*node.origin, join(at, shown(key)), stray(key, place))).collect()
}

fn stray(key: &str, place: Place) -> String {
    let all = || FRAME.into_iter().chain(RUN_TABLES);
    let known: Vec<&str> = all().filter(|k| place.allows(k)).collect();
    if place == Place::Set && all().any(|k| k == key) {
        return "cannot be given by --set: it stands in the file (--arm filters arms, --profile chooses one)"
            .to_owned();
    }
    let near = match hint(key, known.iter().copied()) {
        near if near.is_empty() => ".".to_owned(),
        near => near,
    };
    format!("unknown key `{key}` in {}{near} Known: {}", place.name(), known.join(", "))
}

/// A key as an error shows it: the empty one in its quotes.
pub(crate) fn shown(key: &str) -> &str {
    if key.is_empty() { "\"\"" } else { key }
}

/// `a.b` of `a` and `b`; `b` at the top.
pub(crate) fn join(left: &str, right: &str) -> String {
    if left.is_empty() { right.to_owned() } else { format!("{left}.{right}") }
}
