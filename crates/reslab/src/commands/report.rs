//! `reslab report DIR`: the tables, plots and page, rebuilt from the records.

use crate::outcome::{Exit, Usage};
use crate::tables::draw;
use crate::terminal::{note, say};
use anyhow::Result;
use clap::ValueEnum;
use reslab_report::{Options, read_sweep, table, write_tables};
use std::path::{Path, PathBuf};

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sweep's folder
    dir: PathBuf,
    /// Print the table in this form
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Compare by this metric [default: the plan's]
    #[arg(long)]
    metric: Option<String>,
    /// Compare with this arm [default: the plan's]
    #[arg(long)]
    baseline: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Md,
    Csv,
    Tex,
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    require_plan(&arguments.dir)?;
    let sweep = read_sweep(&arguments.dir).map_err(Usage::error)?;
    let options = Options { metric: arguments.metric.clone(), baseline: arguments.baseline.clone() };
    let table = table(&sweep, &options).map_err(Usage::error)?;
    let text = match arguments.format {
        Format::Text => table.to_text(),
        Format::Md => table.to_markdown(),
        Format::Csv => table.to_csv(),
        Format::Tex => table.to_tex(),
        Format::Json => table.to_json(),
    };
    say(text.trim_end());
    // The files follow the plan; another metric or baseline is for this look only.
    if options == Options::default() {
        write_tables(&arguments.dir)?;
        note(format_args!("wrote the tables of {}", arguments.dir.display()));
        draw(&arguments.dir, &sweep, &table)?;
    }
    Ok(Exit::Done)
}

/// Refuses what is no sweep's folder.
pub(crate) fn require_plan(dir: &Path) -> Result<()> {
    if dir.join("plan.toml").is_file() {
        return Ok(());
    }
    Err(Usage::error(format!(
        "{}: no sweep's folder, since there is no plan.toml in it; `reslab sweep` names the folder it writes, as in results/quick",
        dir.display()
    )))
}
