//! Which code runs where: what env.json records of a run, and a plan of its making.

use reslab_record::{Env, PlannedRun};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// Versions of what plans.
pub(crate) fn versions() -> BTreeMap<String, String> {
    let reslab = env!("CARGO_PKG_VERSION").to_owned();
    [("reslab".to_owned(), reslab), ("libtorch".to_owned(), reslab_torch::version())].into()
}

/// What env.json records of `run` on the device named `device`.
pub(crate) fn of_run(run: &PlannedRun, device: &str, deterministic: bool) -> Env {
    let on_cpu = device == "cpu";
    Env {
        reslab: env!("CARGO_PKG_VERSION").to_owned(),
        libtorch: reslab_torch::version(),
        git_commit: git(&["rev-parse", "HEAD"]),
        git_dirty: git(&["status", "--porcelain", "--untracked-files=no"]).map(|changes| !changes.is_empty()),
        device: device.to_owned(),
        device_name: if on_cpu { cpu_name() } else { cuda_name() },
        driver: if on_cpu { None } else { driver() },
        threads: run.threads,
        seed: run.seed,
        deterministic,
    }
}

/// What git says of the folder that the program was started in; nothing outside a checkout or without git.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The processor's name.
pub(crate) fn cpu_name() -> Option<String> {
    field(&fs::read_to_string("/proc/cpuinfo").ok()?, "model name")
}

/// The accelerator's name, where all are of one kind (the driver's order need not be CUDA's).
fn cuda_name() -> Option<String> {
    let cards = fs::read_dir("/proc/driver/nvidia/gpus").ok()?.flatten();
    let mut names = cards.filter_map(|card| field(&fs::read_to_string(card.path().join("information")).ok()?, "Model"));
    let first = names.next()?;
    names.all(|name| name == first).then_some(first)
}

/// Memory that is free for programs, bytes.
pub(crate) fn available_memory() -> Option<u64> {
    let value = field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")?;
    value.strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

fn driver() -> Option<String> {
    let text = fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    text.lines().next().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// `name : value` of a /proc file.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_what_stands_behind_its_colon() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(field(text, "flags"), None);
    }
}
