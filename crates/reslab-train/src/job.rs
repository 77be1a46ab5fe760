//! What one run is handed: its configuration, its place and its identity.

use std::path::PathBuf;

use reslab_fetch::Sources;
use reslab_record::Env;
use reslab_torch::tch::Device;

use crate::RunConfig;

/// One run, ready to start. The process belongs to it: threads and determinism are set for all of libtorch.
#[derive(Debug)]
pub struct Job<'a> {
    /// What is computed.
    pub config: &'a RunConfig,
    /// The resolved tables that `config` was read from, for config.toml.
    pub table: toml::Table,
    /// The run's id.
    pub id: String,
    /// The arm's full name.
    pub arm: String,
    /// The seed of everything random.
    pub seed: u64,
    /// Where it is computed.
    pub device: Device,
    /// The run's folder.
    pub dir: PathBuf,
    /// Where data files are looked for.
    pub sources: Sources,
    /// Which code runs where, for env.json; its threads are set by the caller ([`reslab_torch::set_threads`]).
    pub env: Env,
}
