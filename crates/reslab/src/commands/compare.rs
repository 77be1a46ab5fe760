//! `reslab compare DIR_A DIR_B`: the arms that two sweeps share, side by side.

use super::report::require_plan;
use crate::format::Output;
use crate::outcome::{Exit, Usage};
use anyhow::Result;
use reslab_report::{compare_sweeps, read_sweep};
use std::path::{Path, PathBuf};

/// Shown below the arguments.
pub(crate) const HELP: &str = "\
Arms are matched by name (and grid point). Runs of the same seed at the same grid point are pairs: B - A with its 95 % t interval and \
exact sign-flip p. Arms without such pairs are compared by Welch's t test, and the table says so and why. Holm's correction over all \
arms; better and worse are said only of pairs. What differs in code, device, data or config is listed.";

/// Arguments of `compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sweep's folder that is compared with
    dir_a: PathBuf,
    /// The sweep's folder that is compared
    dir_b: PathBuf,
    /// Compare by this metric [default: that of DIR_A's plan]
    #[arg(long)]
    metric: Option<String>,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    let read = |dir: &Path| {
        require_plan(dir)?;
        read_sweep(dir).map_err(Usage::error)
    };
    let (a, b) = (read(&arguments.dir_a)?, read(&arguments.dir_b)?);
    let [name_a, name_b] = names(&arguments.dir_a, &arguments.dir_b);
    let view = compare_sweeps((&name_a, &a), (&name_b, &b), arguments.metric.as_deref()).map_err(Usage::error)?;
    arguments.output.view(&view)?;
    Ok(Exit::Done)
}

/// The folders by their own names, or as they were given where those are the same.
fn names(a: &Path, b: &Path) -> [String; 2] {
    let own = |dir: &Path| dir.file_name().map(|name| name.to_string_lossy().into_owned());
    match (own(a), own(b)) {
        (Some(a), Some(b)) if a != b => [a, b],
        _ => [a, b].map(|dir| dir.display().to_string()),
    }
}
