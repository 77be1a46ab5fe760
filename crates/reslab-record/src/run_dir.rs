//! The folder of one run: its files by name, each written in the way that keeps it true.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::file::{self, write_atomic};
use crate::table::{EvalWriter, LayerWriter, ProbeWriter, StepWriter};
use crate::{CHECKPOINT_PREV_FILE, Checkpoint, Done, Env, Failed, MicroBatches, RecordError, Restored, Result, Timing};

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

    /// Writes `env.json`.
    ///
    /// # Errors
    /// The run is finished, or the file cannot be written.
    pub fn write_env(&self, env: &Env) -> Result<()> {
        self.write_json("env.json", env)
    }

    /// Reads `env.json`; `None` where there is none.
    ///
    /// # Errors
    /// Names the file.
    pub fn read_env(&self) -> Result<Option<Env>> {
        self.read_json("env.json")
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
        self.refuse_finished()?;
        let path = self.at("failed.json");
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(RecordError::io(&path, "remove")(e)),
            _ => Ok(()),
        }
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
        self.refuse_finished()?;
        let path = self.at(CHECKPOINT_PREV_FILE);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(RecordError::io(&path, "remove")(e)),
            _ => Ok(()),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn refuse_finished(&self) -> Result<()> {
        if self.is_done() { Err(RecordError::Finished { path: self.path.clone() }) } else { Ok(()) }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.refuse_finished()?;
        write_atomic(&self.at(name), bytes)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string_pretty(value).map_err(|e| RecordError::parse(&self.at(name), e))?;
        text.push('\n');
        self.write(name, text.as_bytes())
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.at(name);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|e| RecordError::parse(&path, e)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(RecordError::io(&path, "read")(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CHECKPOINT_BROKEN_FILE, CHECKPOINT_FILE, CHECKPOINT_PREV_FILE, FailureClass, Outcome};
    use std::collections::BTreeMap;

    fn done(outcome: Outcome) -> Done {
        let metrics = [("test/top1", 0.1 + 0.2), ("test/loss", f64::NAN), ("train/loss", f64::INFINITY)];
        Done {
            id: "1a2b3c4d".into(),
            arm: "gated[lr=3e-4]".into(),
            seed: 1,
            outcome,
            steps: 300,
            metrics: metrics.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect::<BTreeMap<_, _>>(),
            parameters: 12,
            num_classes: 10,
            effective_drop_rate: None,
            micro_batches: None,
        }
    }

    fn run_dir() -> (tempfile::TempDir, RunDir) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(&dir.path().join("runs/plain-s0-1a")).unwrap();
        (dir, run)
    }

    #[test]
    fn small_files_come_back_as_they_were() {
        let (_dir, run) = run_dir();
        assert_eq!(run.read_done().unwrap(), None);
        let env = Env { git_commit: Some("abc".into()), git_dirty: Some(true), threads: 2, ..Env::default() };
        run.write_env(&env).unwrap();
        assert_eq!(run.read_env().unwrap(), Some(env));
        let (device, threads) = ("cpu".to_owned(), 2);
        let timing = Timing {
            seconds: 0.1,
            images_per_s: 1.0 / 3.0,
            peak_memory_bytes: 1 << 41,
            checkpoint_seconds: 0.2,
            device,
            threads,
        };
        run.write_timing(&timing).unwrap();
        assert_eq!(run.read_timing().unwrap(), Some(timing));
        let config: toml::Table = toml::from_str("[optim]\nlr = 3e-4\n[model]\ndepth = 4\n").unwrap();
        run.write_config(&config).unwrap();
        assert_eq!(run.read_config().unwrap(), config);
        let failed = Failed { class: FailureClass::OutOfMemory, message: "a\nb".into(), last_step: None };
        run.write_failed(&failed).unwrap();
        assert_eq!(run.read_failed().unwrap(), Some(failed));
        run.clear_failed().unwrap();
        run.clear_failed().expect("and once more");
        assert_eq!(run.read_failed().unwrap(), None);
        run.log("one\n").unwrap();
        run.log("two").unwrap();
        assert_eq!(fs::read_to_string(run.log_path()).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn done_says_its_outcome_in_a_word_and_keeps_a_nan() {
        for (outcome, word) in [
            (Outcome::Finished, "\"finished\""),
            (Outcome::NonFinite { step: 7 }, "\"non_finite\",\n  \"non_finite_step\": 7"),
        ] {
            let (_dir, run) = run_dir();
            run.write_done(&done(outcome)).unwrap();
            let text = fs::read_to_string(run.path().join("done.json")).unwrap();
            assert!(text.contains(&format!("\"outcome\": {word}")), "{text}");
            assert!(text.contains("\"test/loss\": \"NaN\"") && text.contains("0.30000000000000004"), "{text}");
            let back = run.read_done().unwrap().unwrap();
            assert_eq!(back.outcome, outcome);
            assert!(back.metrics["test/loss"].is_nan());
            assert_eq!(back.metrics["test/top1"], 0.1 + 0.2);
            assert_eq!(back.metrics["train/loss"], f64::INFINITY);
        }
    }

    #[test]
    fn nothing_is_written_to_a_finished_run() {
        let (_dir, run) = run_dir();
        let mut writer = run.steps().unwrap();
        run.write_failed(&Failed { class: FailureClass::Hang, message: String::new(), last_step: Some(1) }).unwrap();
        run.write_done(&done(Outcome::Finished)).unwrap();
        assert_eq!(run.read_failed().unwrap(), None, "the failure was mended");
        writer.sync().unwrap();
        let list = || {
            let mut names: Vec<_> = fs::read_dir(run.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let before = list();
        assert_eq!(before, ["done.json", "steps.csv"], "and no temporary file is left");
        let refusals = [
            run.write_done(&done(Outcome::Finished)).err(),
            run.write_env(&Env::default()).err(),
            run.write_config(&toml::Table::new()).err(),
            run.clear_failed().err(),
            run.log("x").err(),
            run.steps().err(),
            run.evals().err(),
            run.layers().err(),
            run.write_checkpoint(&Checkpoint::default()).err(),
            RunDir::create(run.path()).err(),
        ];
        for (index, refusal) in refusals.into_iter().enumerate() {
            assert!(matches!(refusal, Some(RecordError::Finished { .. })), "{index}: {refusal:?}");
        }
        assert_eq!(list(), before);
    }

    #[test]
    fn errors_name_the_path_and_what_was_tried() {
        let (_dir, run) = run_dir();
        fs::write(run.path().join("done.json"), "{\"id\": ").unwrap();
        let error = run.read_done().unwrap_err().to_string();
        assert!(error.contains("plain-s0-1a/done.json: EOF"), "{error}");
        let error = RunDir::open(&run.path().join("nowhere")).unwrap_err().to_string();
        assert!(error.contains("nowhere: cannot open the folder: No such file"), "{error}");
        let blocked = run.path().join("done.json/runs");
        let error = RunDir::create(&blocked).unwrap_err().to_string();
        assert!(error.contains("done.json/runs: cannot create the folder: Not a directory"), "{error}");
    }

    #[test]
    fn a_folder_can_be_moved_while_nobody_is_at_work() {
        let (dir, run) = run_dir();
        run.write_checkpoint(&Checkpoint { step: 4, ..Checkpoint::default() }).unwrap();
        let moved = dir.path().join("moved");
        fs::rename(run.path(), &moved).unwrap();
        let run = RunDir::open(&moved).unwrap();
        assert_eq!(run.recover_checkpoint().unwrap().checkpoint.map(|c| c.step), Some(4));
        run.write_done(&done(Outcome::Finished)).unwrap();
        assert!(run.is_done());
    }

    #[test]
    fn a_broken_checkpoint_is_set_aside_and_does_not_push_the_intact_one_out() {
        let (_dir, run) = run_dir();
        let checkpoint = |step| Checkpoint { step, ..Checkpoint::default() };
        let recovered = || run.recover_checkpoint().unwrap();
        run.write_checkpoint(&checkpoint(3)).unwrap();
        run.write_checkpoint(&checkpoint(6)).unwrap();
        let (newest, partial) = (run.at(CHECKPOINT_FILE), run.at("checkpoint.safetensors.tmp"));
        fs::write(&partial, "half").unwrap();
        assert_eq!((recovered().checkpoint, recovered().notes.len()), (Some(checkpoint(6)), 0));
        assert!(!partial.exists(), "what a broken-off write left stays");
        fs::write(&newest, "torn").unwrap();
        let found = recovered();
        assert_eq!((found.checkpoint, found.notes.len()), (Some(checkpoint(3)), 2), "{:?}", found.notes);
        assert_eq!(fs::read(run.at(CHECKPOINT_BROKEN_FILE)).unwrap(), b"torn");
        run.write_checkpoint(&checkpoint(6)).unwrap();
        assert_eq!(Checkpoint::read_file(&run.at(CHECKPOINT_PREV_FILE)).unwrap(), checkpoint(3));
    }
}
