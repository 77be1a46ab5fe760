//! The table of a sweep, printed and kept current on disk.

use crate::terminal::say;
use crate::watch::Watch;
use anyhow::Result;
use reslab_report::{Options, read_sweep, table, write_tables};
use std::path::Path;

/// Prints the table of a sweep's folder.
///
/// # Errors
/// Where there is no plan that can be read.
pub(crate) fn print_table(dir: &Path) -> Result<()> {
    say(format_args!("\n{}", table(&read_sweep(dir)?, &Options::default())?.to_text().trim_end()));
    Ok(())
}

/// Writes the tables anew. While runs go on a table that can't be written is told, and stops nothing.
pub(crate) fn refresh_tables(dir: &Path, watch: &Watch) {
    if let Err(error) = write_tables(dir) {
        watch.note(&format!("warning: the table could not be written: {error}"));
    }
}
