//! Records become one page that can be mailed: `report.html`.
//!
//! [`page`] makes it of what reslab-report and reslab-plot made of a sweep's folder, and of the rows and texts of its runs;
//! [`write_page`] puts it there. The page is one file: it asks for nothing from elsewhere (its policy forbids it), and
//! works from the disk, on a phone, by keyboard, in light and dark. Without JavaScript all but the curves is there.
//!
//! Equal records give equal bytes: there is no clock in it, no host and no path. Whatever comes from records is text
//! to the page, never markup. What is missing or damaged is named, and breaks nothing.

mod curves;
mod decimate;
mod document;
mod figures;
mod records;
mod reproduce;
mod runs;
mod tables;

pub use decimate::decimate;
pub use document::page;

use reslab_plot::Plots;
use reslab_record::write_if_new;
use reslab_report::{Sweep, Table};
use std::path::Path;

/// The page's name in a sweep's folder.
pub const PAGE_FILE: &str = "report.html";

/// Writes [`page`] into the sweep's folder `dir` by rename, unless it stands there already.
///
/// # Errors
/// The file cannot be written.
pub fn write_page(dir: &Path, sweep: &Sweep, table: &Table, plots: &Plots) -> reslab_record::Result<()> {
    write_if_new(&dir.join(PAGE_FILE), page(dir, sweep, table, plots).as_bytes())
}
