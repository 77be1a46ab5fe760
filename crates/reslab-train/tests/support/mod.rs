//! A run as the tests start it: one thread, seed 5, stopped behind a step where that is asked for.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use reslab_fetch::Sources;
use reslab_record::{Env, Progress};
use reslab_residual::Registry;
use reslab_torch::tch::Device;
use reslab_train::{Ended, Job, RunConfig, TrainError, train};

/// The run of `table` in `dir`.
pub fn run_until(table: &toml::Table, dir: &Path, stop_at: Option<u64>) -> Result<Ended, TrainError> {
    reslab_torch::set_threads(1);
    let config = RunConfig::from_table(table, &Registry::builtin()).unwrap();
    let job = job(&config, table, dir);
    let stop = AtomicBool::new(false);
    let mut watch = |event: &Progress| {
        if let Progress::Step { step, .. } = event
            && Some(*step) == stop_at
        {
            stop.store(true, Ordering::Relaxed);
        }
    };
    train(&job, &mut watch, &stop)
}

/// What it is handed.
pub fn job<'a>(config: &'a RunConfig, table: &toml::Table, dir: &Path) -> Job<'a> {
    Job {
        config,
        table: table.clone(),
        id: "0123".to_owned(),
        arm: "arm".to_owned(),
        seed: 5,
        device: Device::Cpu,
        dir: dir.to_owned(),
        sources: Sources { dirs: vec![], cache: dir.join("cache"), offline: true },
        env: Env { device: "cpu".to_owned(), threads: 1, ..Env::default() },
    }
}
