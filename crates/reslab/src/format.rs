//! The forms that a table is printed in, and where to.

use crate::terminal::{note, say};
use anyhow::Result;
use clap::ValueEnum;
use reslab_record::write_atomic;
use reslab_report::{Table, View};
use std::path::PathBuf;

/// Arguments of every command that prints a table.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// Print the table in this form
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write it into this file instead
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Md,
    Csv,
    Tex,
    Json,
}

impl Output {
    /// Prints a sweep's table.
    pub(crate) fn table(&self, table: &Table) -> Result<()> {
        self.put(&match self.format {
            Format::Text => table.to_text(),
            Format::Md => table.to_markdown(),
            Format::Csv => table.to_csv(),
            Format::Tex => table.to_tex(),
            Format::Json => table.to_json(),
        })
    }

    /// Prints a table of chosen columns, of two axes or of two sweeps.
    pub(crate) fn view(&self, view: &View) -> Result<()> {
        self.put(&match self.format {
            Format::Text => view.to_text(),
            Format::Md => view.to_markdown(),
            Format::Csv => view.to_csv(),
            Format::Tex => view.to_tex(),
            Format::Json => view.to_json(),
        })
    }

    fn put(&self, text: &str) -> Result<()> {
        match &self.out {
            None => say(text.trim_end()),
            Some(path) => {
                write_atomic(path, format!("{}\n", text.trim_end()).as_bytes())?;
                note(format_args!("wrote {}", path.display()));
            }
        }
        Ok(())
    }
}
