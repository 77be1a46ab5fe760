//! The table of a sweep, printed and kept current on disk, its plots and its page.

use crate::terminal::{note, say, warn};
use crate::watch::Watch;
use anyhow::{Result, anyhow};
use reslab_page::{PAGE_FILE, write_page};
use reslab_record::clear_partials;
use reslab_report::{Options, Sweep, Table, read_sweep, table, write_table, write_tables};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Prints the table of a sweep's folder, and draws its plots and its page.
///
/// # Errors
/// Where there is no plan that can be read.
pub(crate) fn print_table(dir: &Path) -> Result<()> {
    let sweep = read_sweep(dir)?;
    let table = table(&sweep, &Options::default())?;
    say(format_args!("\n{}", table.to_text().trim_end()));
    // The runs are done whether or not there is a picture of them.
    if let Err(error) = guard(|| draw(dir, &sweep, &table)) {
        warn(format_args!("plots or page could not be written: {error:#}"));
    }
    Ok(())
}

/// Writes the page of a folder whose runs have ended. That it can't be is told, and stops nothing.
pub(crate) fn settle_page(dir: &Path) {
    let write = || {
        let sweep = read_sweep(dir)?;
        let table = table(&sweep, &Options::default())?;
        Ok(write_page(dir, &sweep, &table, &reslab_plot::plots(dir, &sweep, &table)?)?)
    };
    if let Err(error) = guard(write) {
        warn(format_args!("the page could not be written: {error:#}"));
    }
}

/// Writes the plots and the page, and says which plots there are and which there are not.
///
/// # Errors
/// Where one cannot be written.
pub(crate) fn draw(dir: &Path, sweep: &Sweep, table: &Table) -> Result<()> {
    let plots = reslab_plot::write_plots(dir, sweep, table)?;
    let left_out: Vec<String> = plots.left_out.iter().map(|(name, why)| format!("{name} ({why})")).collect();
    let left_out = if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join(", ")) };
    note(format_args!("drew {} plots in {}{left_out}", plots.drawn.len(), dir.join("plots").display()));
    write_page(dir, sweep, table, &plots)?;
    note(format_args!("wrote the page {}", dir.join(PAGE_FILE).display()));
    Ok(())
}

/// Tables and page of a sweep that goes on.
#[derive(Default)]
pub(crate) struct Current {
    /// Before this the page is not written again: of a large sweep that would take longer than the runs.
    not_before: Cell<Option<Instant>>,
}

/// The page may take one part in so many of the sweep's time.
const SHARE: u32 = 20;

impl Current {
    /// Writes the tables and the page anew. While runs go on what can't be written is told, and stops nothing.
    pub(crate) fn refresh(&self, dir: &Path, watch: &Watch) {
        if let Err(error) = guard(|| self.write(dir)) {
            watch.note(&format!("warning: table or page could not be written: {error:#}"));
        }
    }

    fn write(&self, dir: &Path) -> Result<()> {
        let sweep = read_sweep(dir)?;
        let table = table(&sweep, &Options::default())?;
        write_table(&table, dir)?;
        let started = Instant::now();
        if self.not_before.get().is_some_and(|time| started < time) {
            return Ok(());
        }
        write_page(dir, &sweep, &table, &reslab_plot::plots(dir, &sweep, &table)?)?;
        self.not_before.set(Some(Instant::now() + pause(started.elapsed())));
        Ok(())
    }
}

fn pause(took: Duration) -> Duration {
    took.saturating_mul(SHARE)
}

/// What must not end a sweep: a panic, which absurd numbers in records can lead to, becomes an error.
fn guard(action: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(anyhow!("a fault of the program: {}", text.unwrap_or_default()))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_says_what_it_was() {
        let error = guard(|| panic!("block {} is absurd", 7)).unwrap_err().to_string();
        assert_eq!(error, "a fault of the program: block 7 is absurd");
        assert_eq!(guard(|| Err(anyhow!("disk full"))).unwrap_err().to_string(), "disk full");
        assert!(guard(|| Ok(())).is_ok());
    }
}
