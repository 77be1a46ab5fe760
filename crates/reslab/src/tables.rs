//! The table of a sweep, printed and kept current on disk, and its plots.

use crate::terminal::{note, say, warn};
use crate::watch::Watch;
use anyhow::{Result, anyhow};
use reslab_record::clear_partials;
use reslab_report::{Options, Sweep, Table, read_sweep, table, write_tables};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Prints the table of a sweep's folder, and draws its plots.
///
/// # Errors
/// Where there is no plan that can be read.
pub(crate) fn print_table(dir: &Path) -> Result<()> {
    let sweep = read_sweep(dir)?;
    let table = table(&sweep, &Options::default())?;
    say(format_args!("\n{}", table.to_text().trim_end()));
    // The runs are done whether or not there is a picture of them.
    if let Err(error) = draw_plots(dir, &sweep, &table) {
        warn(format_args!("the plots could not be written: {error:#}"));
    }
    Ok(())
}

/// Writes the plots, and says which there are and which there are not.
///
/// # Errors
/// Where one cannot be written.
pub(crate) fn draw_plots(dir: &Path, sweep: &Sweep, table: &Table) -> Result<()> {
    let plots = unbroken("the plots", || Ok(reslab_plot::write_plots(dir, sweep, table)?))?;
    let left_out: Vec<String> = plots.left_out.iter().map(|(name, why)| format!("{name} ({why})")).collect();
    let left_out = if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join(", ")) };
    note(format_args!("drew {} plots in {}{left_out}", plots.drawn.len(), dir.join("plots").display()));
    Ok(())
}

/// Writes the tables anew. While runs go on a table that can't be written is told, and stops nothing.
pub(crate) fn refresh_tables(dir: &Path, watch: &Watch) {
    if let Err(error) = unbroken("the table", || Ok(write_tables(dir)?)) {
        watch.note(&format!("warning: the table could not be written: {error}"));
    }
}

/// A fault of what shows results must not end a sweep, whose runs are whole: its panic becomes an error.
fn unbroken<T>(what: &str, show: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(show)).unwrap_or_else(|_| Err(anyhow!("{what}: a bug of the program, told above")))
}

/// How often tables are written anew because the records changed meanwhile.
const ROUNDS: usize = 5;

/// Writes the tables unless those on disk say what the records say. Another sweep in this folder may write older ones over
/// them, so they are read again when they stand; and a sweep that was killed after its last run left none or old ones.
///
/// # Errors
/// As [`write_tables`]; or the table of these records can't be made.
pub(crate) fn settle_tables(dir: &Path) -> Result<()> {
    for _ in 0..ROUNDS {
        if are_current(dir)? {
            break;
        }
        clear_partials(dir)?;
        write_tables(dir)?;
    }
    Ok(())
}

/// [`settle_tables`] where nothing is to be done: a folder that can't be written to may be a published one.
pub(crate) fn settle_if_possible(dir: &Path) {
    if let Err(error) = settle_tables(dir) {
        warn(format_args!(
            "the table in {} is not that of its records, and could not be written: {error}",
            dir.display()
        ));
    }
}

fn are_current(dir: &Path) -> Result<bool> {
    let table = table(&read_sweep(dir)?, &Options::default())?;
    let holds = |name: &str, text: String| std::fs::read(dir.join(name)).is_ok_and(|bytes| bytes == text.as_bytes());
    Ok(holds("table.md", table.to_markdown())
        && holds("table.csv", table.to_csv())
        && holds("table.tex", table.to_tex())
        && holds("timing.md", table.timing_markdown()))
}
