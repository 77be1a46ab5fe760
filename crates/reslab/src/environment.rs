//! Which code runs where: what env.json records of a run, and a plan of its making.

use reslab_record::{Env, PlannedRun, sha256_hex};
use std::collections::BTreeMap;
use std::fs;

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
        git_commit: code_commit(),
        git_dirty: code_commit().map(|_| env!("RESLAB_CODE_DIRTY") == "true"),
        git_diff_sha256: code_diff().map(sha256_hex),
        device: device.to_owned(),
        device_name: if on_cpu { cpu_name() } else { cuda_name() },
        driver: if on_cpu { None } else { driver() },
        threads: run.threads,
        seed: run.seed,
        deterministic,
    }
}

/// The commit that last changed the program's code, as it was built: not of the folder that it is started in.
fn code_commit() -> Option<String> {
    Some(env!("RESLAB_CODE_COMMIT").to_owned()).filter(|commit| !commit.is_empty())
}

/// What was changed since that commit when the program was built; nothing where nothing was.
pub(crate) fn code_diff() -> Option<&'static [u8]> {
    let diff: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/code.diff"));
    Some(diff).filter(|diff| code_commit().is_some() && !diff.is_empty())
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
