//! The files of a sweep's table.

use reslab_record::write_atomic;
use std::path::Path;

use crate::{Options, ReportError, Reproduction, Table, read_sweep, table};

/// Reads the records of the sweep's folder `dir` and writes `table.md`, `table.csv`, `table.tex` and `timing.md` there,
/// each by rename. For equal records the first three have equal bytes.
///
/// # Errors
/// There is no plan that can be read, its metric or baseline is unknown, or a file cannot be written.
pub fn write_tables(dir: &Path) -> Result<Table, ReportError> {
    let table = table(&read_sweep(dir)?, &Options::default())?;
    write_table(dir, &table)?;
    Ok(table)
}

/// Writes the files of a table that is made already, as [`write_tables`] does.
///
/// # Errors
/// A file cannot be written.
pub fn write_table(dir: &Path, table: &Table) -> Result<(), ReportError> {
    let files = [
        ("table.md", table.to_markdown()),
        ("table.csv", table.to_csv()),
        ("table.tex", table.to_tex()),
        ("timing.md", table.timing_markdown()),
    ];
    for (name, text) in files {
        write_atomic(&dir.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Writes `reproduce.md` and `reproduce.csv` into the folder `dir` of the runs that were computed anew, each by rename.
///
/// # Errors
/// A file cannot be written.
pub fn write_reproduction(reproduction: &Reproduction, dir: &Path) -> Result<(), ReportError> {
    for (name, text) in [("reproduce.md", reproduction.to_markdown()), ("reproduce.csv", reproduction.to_csv())] {
        write_atomic(&dir.join(name), text.as_bytes())?;
    }
    Ok(())
}
