//! `cargo setup`: everything that a fresh clone needs, one line per stage.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::libtorch::{self, Set, VERSION};
use crate::ui::say;
use crate::{data, platform};

/// What `cargo setup` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Install the CUDA libraries (2.5 GB download) whether or not an NVIDIA driver is here
    #[arg(long, conflicts_with = "cpu")]
    cuda: bool,
    /// Install the CPU libraries only (0.5 GB download) even if an NVIDIA driver is here
    #[arg(long)]
    cpu: bool,
    /// Do not fetch Fashion-MNIST (31 MB)
    #[arg(long)]
    no_data: bool,
}

/// Runs the stages; each is instant where its result is already there.
pub(crate) fn run(options: &Options) -> Result<()> {
    let root = root()?;
    if !platform::has_cxx() {
        let hint = platform::install_hint("g++", "gcc-c++", "gcc", "gcc-c++");
        bail!("no C++ compiler found, and torch-sys is compiled with one: {hint}");
    }
    let flag = match (options.cuda, options.cpu) {
        (true, _) => Some(Set::Cuda),
        (_, true) => Some(Set::Cpu),
        _ => None,
    };
    install_libtorch(&root, flag)?;
    if options.no_data {
        say("data", "left out (--no-data)");
    } else {
        data::ensure(&root);
    }
    say("ready", "cargo run -- sweep configs/quick.toml");
    Ok(())
}

/// The checkout: this crate's folder is `crates/xtask` in it. Cargo says at run time where that is now.
fn root() -> Result<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&manifest).ancestors().nth(2).map(Path::to_path_buf);
    root.context("xtask is not in crates/xtask of a checkout")
}

fn install_libtorch(root: &Path, flag: Option<Set>) -> Result<()> {
    if env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
        say("warning", "LIBTORCH_USE_PYTORCH is set: torch-sys will take the torch of the active Python; unset it");
    }
    let home = root.join(".libtorch");
    if let Some(own) = env::var_os("LIBTORCH").map(PathBuf::from).filter(|path| is_own(path, &home)) {
        return check_own(&own, flag);
    }
    if let Some(problem) = platform::unsupported() {
        bail!("{problem}");
    }
    let driver = platform::nvidia_driver();
    if let Some(warning) = driver.flatten().and_then(platform::driver_warning) {
        say("warning", &warning);
    }
    libtorch::ensure_set(&home, flag, driver.is_some())
}

/// .cargo/config.toml sets LIBTORCH to the checkout's; anything else comes from the user.
fn is_own(path: &Path, home: &Path) -> bool {
    let ours = home.join("torch");
    path != ours && (path.canonicalize().is_err() || path.canonicalize().ok() != ours.canonicalize().ok())
}

/// A libtorch of the user's own is used as it is, if it can be.
fn check_own(own: &Path, flag: Option<Set>) -> Result<()> {
    let shown = own.display();
    ensure!(own.is_absolute(), "LIBTORCH={shown} must be an absolute path: build scripts run in other folders");
    libtorch::check(own)
        .with_context(|| format!("LIBTORCH={shown} cannot be used; unset it and cargo setup installs one"))?;
    say("libtorch", &format!("{VERSION}, your own: LIBTORCH={shown}; nothing installed"));
    if flag.is_some() {
        say("warning", "--cuda and --cpu choose what is installed, so they do nothing while LIBTORCH is set");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libtorch_of_the_checkout_is_not_taken_for_the_users_own() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().join(".libtorch");
        assert!(!is_own(&home.join("torch"), &home), "neither before it is installed");
        std::fs::create_dir_all(home.join("torch")).unwrap();
        assert!(!is_own(&home.join("torch"), &home) && !is_own(&home.join("../.libtorch/torch"), &home));
        assert!(is_own(&temp.path().join("elsewhere"), &home) && is_own(temp.path(), &home));
    }

    #[test]
    fn an_own_libtorch_that_cannot_be_used_is_an_error_that_names_it() {
        let temp = tempfile::tempdir().unwrap();
        let error = format!("{:#}", check_own(temp.path(), None).unwrap_err());
        assert!(error.contains(&format!("LIBTORCH={}", temp.path().display())), "{error}");
        assert!(error.contains("does not say its version"), "{error}");
        let error = check_own(Path::new("libtorch"), None).unwrap_err().to_string();
        assert!(error.contains("absolute"), "{error}");
    }

    #[test]
    fn the_root_of_the_checkout_holds_the_workspace() {
        assert!(root().unwrap().join("crates/xtask/Cargo.toml").is_file());
    }
}
