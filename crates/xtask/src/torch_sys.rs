//! torch-sys takes minutes to compile, and small changes to profiles or flags make it compile twice; CI notices.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::ui::say;

/// Fails unless exactly one `torch-sys-*/out` is in the build folder beside this program.
pub(crate) fn check() -> Result<()> {
    let program = env::current_exe().context("where this program is")?;
    let profile = program.parent().context("this program is in no folder")?;
    let outputs = outputs(&profile.join("build"))?;
    match &outputs[..] {
        [one] => {
            say("ok", &format!("torch-sys was compiled once: {}", one.display()));
            Ok(())
        }
        [] => bail!("no torch-sys-*/out in {}: build the workspace first", profile.join("build").display()),
        several => {
            let list: String = several.iter().map(|path| format!("\n  {}", path.display())).collect();
            bail!(
                "torch-sys was compiled {} times:{list}\nUsual causes: RUSTFLAGS, another LIBTORCH, a profile that differs \
                 between run and test, a build-dependency with other features, or a target folder that is not fresh",
                several.len()
            )
        }
    }
}

fn outputs(build: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(build).with_context(|| format!("{}", build.display()))?;
    let names = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("torch-sys-"));
    let mut outputs: Vec<PathBuf> = names.map(|entry| entry.path().join("out")).filter(|out| out.is_dir()).collect();
    outputs.sort();
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_output_folders_of_torch_sys_count() {
        let temp = tempfile::tempdir().unwrap();
        for folder in ["torch-sys-1", "torch-sys-2/out", "reslab-torch-3/out", "torch-sys-4/out"] {
            fs::create_dir_all(temp.path().join(folder)).unwrap();
        }
        let found = outputs(temp.path()).unwrap();
        assert_eq!(found, ["torch-sys-2/out", "torch-sys-4/out"].map(|name| temp.path().join(name)));
        assert!(outputs(&temp.path().join("none")).is_err());
    }
}
