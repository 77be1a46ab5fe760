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
    let mut command = this_program();
    command.args(["exec-probe", "--device", device, "--run", &text_of(run)]).args(data.arguments());
    command
}

/// A process that computes one run of a sweep.
pub(crate) fn run_command(sweep: &Path, run: &PlannedRun, device: &str, data: &DataOptions) -> Command {
    let mut folder = std::ffi::OsString::from("--sweep=");
    folder.push(sweep);
    let mut command = this_program();
    // The run itself, and not its number in plan.toml: another sweep on an edited file may change that meanwhile.
    command.arg("exec-run").arg(folder).args(["--run", &text_of(run), "--device", device]).args(data.arguments());
    command
}

fn text_of(run: &PlannedRun) -> String {
    toml::to_string(run).expect("a planned run came from TOML")
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
