//! The folder of one run: its files by name, each written in the way that keeps it true.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::file::{self, write_atomic};
use crate::table::{EvalWriter, LayerWriter, ProbeWriter, StepWriter};
use crate::{CHECKPOINT_PREV_FILE, Checkpoint, Done, Failed, MicroBatches, RecordError, Restored, Result, Timing};

/// The folder of one run. Every method that writes refuses to once `done.json` is there.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes the folder, or takes the one of a run that was started before.
    ///
    /// # Errors
    /// The run is finished, or the folder cannot be made.
    pub fn create(path: &Path) -> Result<Self> {
        let dir = Self { path: path.to_owned() };
        dir.refuse_finished()?;
        fs::create_dir_all(path).map_err(RecordError::io(path, "create the folder"))?;
        Ok(dir)
    }

    /// The folder of a run that exists.
    ///
    /// # Errors
    /// There is none.
    pub fn open(path: &Path) -> Result<Self> {
        fs::read_dir(path).map_err(RecordError::io(path, "open the folder"))?;
        Ok(Self { path: path.to_owned() })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the run is finished.
    pub fn is_done(&self) -> bool {
        self.at("done.json").exists()
    }

    /// Writer of `steps.csv`.
    ///
    /// # Errors
    /// The run is finished, or the file cannot be written.
    pub fn steps(&self) -> Result<StepWriter> {
        self.refuse_finished()?;
        StepWriter::open(&self.path)
    }

    /// Writer of `evals.csv`.
    ///
    /// # Errors
    /// The run is finished, or the file cannot be written.
    pub fn evals(&self) -> Result<EvalWriter> {
        self.refuse_finished()?;
        EvalWriter::open(&self.path)
    }

    /// Writer of `probes.csv`.
    ///
    /// # Errors
    /// The run is finished, or the file cannot be written.
    pub fn probes(&self) -> Result<ProbeWriter> {
        self.refuse_finished()?;
        ProbeWriter::open(&self.path)
    }

    /// Writer of `layers.csv`.
    ///
    /// # Errors
    /// The run is finished, or the file cannot be written.
    pub fn layers(&self) -> Result<LayerWriter> {
        self.refuse_finished()?;
        LayerWriter::open(&self.path)
    }

    /// Writes `config.toml`: the resolved configuration, before anything is computed.
    ///
    /// # Errors
    /// The run is finished, or the file cannot be written.
    pub fn write_config(&self, config: &toml::Table) -> Result<()> {
        let path = self.at("config.toml");
        let text = toml::to_string(config).map_err(|e| RecordError::parse(&path, e))?;
        self.write("config.toml", text.as_bytes())
    }

    /// Reads `config.toml`.
    ///
    /// # Errors
    /// Names the file.
    pub fn read_config(&self) -> Result<toml::Table> {
        let path = self.at("config.toml");
        toml::from_str(&file::read_text(&path)?).map_err(|e| RecordError::parse(&path, e.to_string().trim()))
    }

    /// Writes `timing.json`.
    ///
    /// # Errors
    /// The run is finished, or the file cannot be written.
    pub fn write_timing(&self, timing: &Timing) -> Result<()> {
        self.write_json("timing.json", timing)
    }

    /// Reads `timing.json`; `None` where there is none.
    ///
    /// # Errors
    /// Names the file.
    pub fn read_timing(&self) -> Result<Option<Timing>> {
        self.read_json("timing.json")
    }

    /// Writes micro_batches.json: how a batch is split from now on.
    ///
    /// # Errors
    /// The run is finished, or the file cannot be written.
    pub fn write_micro_batches(&self, split: &MicroBatches) -> Result<()> {
        self.write_json("micro_batches.json", split)
    }

    /// Reads micro_batches.json; `None` where the config's own split holds.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_micro_batches(&self) -> Result<Option<MicroBatches>> {
        self.read_json("micro_batches.json")
    }

    /// Writes `failed.json`.
    ///
    /// # Errors
    /// The run is finished, or the file cannot be written.
    pub fn write_failed(&self, failed: &Failed) -> Result<()> {
        self.write_json("failed.json", failed)
    }

    /// Reads `failed.json`; `None` where there is none.
    ///
    /// # Errors
    /// Names the file.
    pub fn read_failed(&self) -> Result<Option<Failed>> {
        self.read_json("failed.json")
    }

    /// Removes `failed.json`, since the run is tried again.
    ///
    /// # Errors
    /// The run is finished, or the file cannot be removed.
    pub fn clear_failed(&self) -> Result<()> {
        self.remove("failed.json")
    }

    /// Writes `done.json`: the last thing that is ever written here.
    ///
    /// # Errors
    /// The run is finished already, or the file cannot be written.
    pub fn write_done(&self, done: &Done) -> Result<()> {
        self.clear_failed()?;
        self.write_json("done.json", done)
    }

    /// Reads `done.json`; `None` where there is none.
    ///
    /// # Errors
    /// Names the file.
    pub fn read_done(&self) -> Result<Option<Done>> {
        self.read_json("done.json")
    }

    /// Appends lines to `log.txt`.
    ///
    /// # Errors
    /// The run is finished, or the file cannot be written.
    pub fn log(&self, text: &str) -> Result<()> {
        self.refuse_finished()?;
        let path = self.log_path();
        let line = format!("{}\n", text.trim_end());
        let mut file =
            OpenOptions::new().create(true).append(true).open(&path).map_err(RecordError::io(&path, "open"))?;
        file.write_all(line.as_bytes()).map_err(RecordError::io(&path, "append to"))
    }

    /// The file of what the run printed.
    pub fn log_path(&self) -> PathBuf {
        self.at("log.txt")
    }

    /// Writes a checkpoint, and keeps the one before it.
    ///
    /// # Errors
    /// The run is finished, the disk is too full, or the file cannot be written; the old one is then still there.
    pub fn write_checkpoint(&self, checkpoint: &Checkpoint) -> Result<()> {
        self.refuse_finished()?;
        checkpoint.write(&self.path)
    }

    /// The newest intact checkpoint, if there is one; a broken one is set aside. For the process that holds the run's
    /// lock.
    ///
    /// # Errors
    /// A file cannot be removed or renamed.
    pub fn recover_checkpoint(&self) -> Result<Restored> {
        Checkpoint::recover(&self.path)
    }

    /// Removes the checkpoint before the newest one: a run at its end needs none to fall back to.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn drop_previous_checkpoint(&self) -> Result<()> {
        self.remove(CHECKPOINT_PREV_FILE)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn refuse_finished(&self) -> Result<()> {
        if self.is_done() { Err(RecordError::Finished { path: self.path.clone() }) } else { Ok(()) }
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.refuse_finished()?;
        write_atomic(&self.at(name), bytes)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.refuse_finished()?;
        file::remove(&self.at(name))
    }

    pub(crate) fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string_pretty(value).map_err(|e| RecordError::parse(&self.at(name), e))?;
        text.push('\n');
        self.write(name, text.as_bytes())
    }

    pub(crate) fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.at(name);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|e| RecordError::parse(&path, e)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(RecordError::io(&path, "read")(e)),
        }
    }
}

#[cfg(test)]
mod tests;
