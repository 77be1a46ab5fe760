//! The processes that the program starts: itself, with a hidden command.

use crate::devices::Devices;
use crate::sources::DataOptions;
use reslab_record::PlannedRun;
use reslab_sweep::Slot;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The slots of a sweep: each device with this many runs at once.
pub(crate) fn slots(devices: &Devices, jobs: usize) -> Vec<Slot> {
    devices.names.iter().map(|device| Slot { device: device.clone(), jobs }).collect()
}

/// A process that times a few steps of a run.
pub(crate) fn probe_command(run: &PlannedRun, device: &str, data: &DataOptions) -> Command {
    let text = toml::to_string(run).expect("a planned run came from TOML");
    let mut command = this_program();
    command.args(["exec-probe", "--device", device, "--run", &text]).args(data.arguments());
    command
}

/// A process that computes one run of a sweep.
pub(crate) fn run_command(sweep: &Path, run: &PlannedRun, device: &str, data: &DataOptions) -> Command {
    let mut command = this_program();
    command
        .arg("exec-run")
        .arg("--sweep")
        .arg(sweep)
        .args(["--id", &run.id, "--device", device])
        .args(data.arguments());
    command
}

fn this_program() -> Command {
    let mut command = Command::new(program());
    command.arg0("reslab");
    command
}

/// The program's own file, also where it was rebuilt or moved while it runs.
fn program() -> PathBuf {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { link } else { std::env::current_exe().unwrap_or_else(|_| PathBuf::from("reslab")) }
}
