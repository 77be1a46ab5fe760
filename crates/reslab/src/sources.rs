//! Where data files are looked for: the one place that reads the environment and the user's folders for them.

use etcetera::{BaseStrategy, choose_base_strategy};
use reslab_fetch::{DEBIAN_DIR, Sources};
use std::env;
use std::path::PathBuf;

/// Options of every command that reads data.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DataOptions {
    /// A folder to look for data files in, before all others (repeatable)
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Vec<PathBuf>,
    /// Never download: data that is not here is an error
    #[arg(long)]
    pub(crate) offline: bool,
}

impl DataOptions {
    /// The folders in order of search: `--data-dir`, `RESLAB_DATA`, `./data`, the user's cache, Debian's folder.
    pub(crate) fn sources(&self) -> Sources {
        let mut dirs = self.data_dir.clone();
        dirs.extend(env::var_os("RESLAB_DATA").map(PathBuf::from));
        dirs.push(PathBuf::from("data"));
        let cache = cache();
        dirs.push(cache.clone());
        dirs.push(PathBuf::from(DEBIAN_DIR));
        Sources { dirs, cache, offline: self.offline }
    }

    /// The same options as arguments, for a run's process.
    pub(crate) fn arguments(&self) -> Vec<std::ffi::OsString> {
        let dirs = self.data_dir.iter().flat_map(|dir| ["--data-dir".into(), dir.clone().into_os_string()]);
        dirs.chain(self.offline.then(|| "--offline".into())).collect()
    }
}

/// The user's cache folder (`$XDG_CACHE_HOME/reslab`, `~/.cache/reslab`), or `data/` where there is no home.
fn cache() -> PathBuf {
    choose_base_strategy().map_or_else(|_| PathBuf::from("data"), |base| base.cache_dir().join("reslab"))
}
