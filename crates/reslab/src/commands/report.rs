//! `reslab report DIR`: the tables and plots, rebuilt from the records.

use crate::board::Board;
use crate::format::Output;
use crate::outcome::{Exit, Usage};
use crate::tables::draw_plots;
use crate::terminal::note;
use anyhow::Result;
use reslab_report::{Columns, Options, Paper, ReportError, Sweep, read_sweep, table, table_with, write_table};
use std::path::{Path, PathBuf};

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sweep's folder
    dir: PathBuf,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    look: Look,
    /// Write event files for TensorBoard too
    #[arg(long)]
    tensorboard: bool,
}

/// What is shown where that is not the whole table by the plan.
#[derive(Debug, clap::Args)]
struct Look {
    /// Compare by this metric [default: the plan's]
    #[arg(long)]
    metric: Option<String>,
    /// Compare with this arm [default: the plan's]
    #[arg(long)]
    baseline: Option<String>,
    /// Only these columns: metrics, and columns of table.csv without _mean and the like
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', conflicts_with_all = ["rows", "cols"])]
    columns: Vec<String>,
    /// The metric over two axes: this one down (`arm`, or a key of the grid such as model.depth)
    #[arg(long, value_name = "AXIS", requires = "cols")]
    rows: Option<String>,
    /// And this one across
    #[arg(long, value_name = "AXIS", requires = "rows")]
    cols: Option<String>,
    /// Published values to set beside ours (docs/paper.md)
    #[arg(long, value_name = "FILE")]
    paper: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    require_plan(&arguments.dir)?;
    let sweep = read_sweep(&arguments.dir).map_err(Usage::error)?;
    if !arguments.look.is_plain() {
        arguments.look.show(&sweep, &arguments.output)?;
        return Ok(Exit::Done);
    }
    // The files follow the plan; any other look is for this time only.
    let table = table(&sweep, &Options::default()).map_err(Usage::error)?;
    arguments.output.table(&table)?;
    write_table(&table, &arguments.dir)?;
    note(format_args!("wrote the tables of {}", arguments.dir.display()));
    draw_plots(&arguments.dir, &sweep, &table)?;
    Board::new(&arguments.dir, arguments.tensorboard).write()?;
    Ok(Exit::Done)
}

impl Look {
    fn is_plain(&self) -> bool {
        self.metric.is_none()
            && self.baseline.is_none()
            && self.columns.is_empty()
            && self.rows.is_none()
            && self.paper.is_none()
    }

    fn show(&self, sweep: &Sweep, output: &Output) -> Result<()> {
        let usage = |error: ReportError| Usage::error(error);
        let options = Options { metric: self.metric.clone(), baseline: self.baseline.clone() };
        let columns = Columns::parse(sweep, &self.columns).map_err(usage)?;
        let mut table = table_with(sweep, &options, &columns.metrics()).map_err(usage)?;
        if let Some(path) = &self.paper {
            table.set_paper(sweep, &Paper::read(path).map_err(usage)?).map_err(usage)?;
        }
        match (&self.rows, &self.cols) {
            (Some(rows), Some(cols)) => output.view(&table.cross(rows, cols).map_err(usage)?),
            _ if !self.columns.is_empty() => output.view(&table.pick(&columns)),
            _ => output.table(&table),
        }
    }
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
