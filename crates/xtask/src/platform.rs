//! What this machine is: supported or not, its package manager, its NVIDIA driver, its compiler.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The first driver series that runs CUDA 13.
const CUDA_DRIVER: u32 = 580;

/// `None` where the wheels of PyPI can be used; otherwise why not, and what to do.
pub(crate) fn unsupported() -> Option<String> {
    let (os, arch) = (env::consts::OS, env::consts::ARCH);
    if (os, arch) == ("linux", "x86_64") && cfg!(target_env = "gnu") {
        return None;
    }
    let libc = if cfg!(target_env = "musl") { " with musl" } else { "" };
    Some(format!(
        "cargo setup knows where libtorch is for Linux on x86-64 with glibc, and this is {os} on {arch}{libc}. \
         Set LIBTORCH to a libtorch 2.11.0 of your own and run it again; nothing else in reslab is known to need Linux, \
         but nothing else is tested"
    ))
}

/// The NVIDIA driver of this machine, if there is one: its version, as far as it tells it.
pub(crate) fn nvidia_driver() -> Option<Option<u32>> {
    if let Ok(text) = fs::read_to_string("/proc/driver/nvidia/version") {
        return Some(driver_series(&text));
    }
    let signs = ["/dev/nvidiactl", "/usr/lib/wsl/lib/libcuda.so.1"]; // the second: Windows subsystem for Linux
    signs.iter().any(|path| Path::new(path).exists()).then_some(None)
}

/// A warning where the driver is older than the CUDA of the wheels.
pub(crate) fn driver_warning(series: u32) -> Option<String> {
    (series < CUDA_DRIVER).then(|| {
        format!(
            "the NVIDIA driver is {series}; the CUDA 13 of these wheels needs {CUDA_DRIVER} or newer to use the GPU"
        )
    })
}

/// 580 from a line `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ...`.
fn driver_series(text: &str) -> Option<u32> {
    let words = text.lines().find(|line| line.starts_with("NVRM"))?.split_whitespace();
    let mut versions = words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    versions.find_map(|word| word.split_once('.').and_then(|(series, _)| series.parse().ok()))
}

/// How to install something here: the command of this distribution, or all of them.
pub(crate) fn install_hint(apt: &str, dnf: &str, pacman: &str, zypper: &str) -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    hint_for(&release, [apt, dnf, pacman, zypper])
}

fn hint_for(os_release: &str, packages: [&str; 4]) -> String {
    let managers = ["apt install", "dnf install", "pacman -S", "zypper install"];
    let families =
        [&["debian", "ubuntu"][..], &["fedora", "rhel", "centos"][..], &["arch"][..], &["suse", "opensuse"][..]];
    let is_id = |line: &&str| line.starts_with("ID=") || line.starts_with("ID_LIKE=");
    let ids: String = os_release.lines().filter(is_id).collect();
    for ((manager, family), packages) in managers.iter().zip(families).zip(packages) {
        if family.iter().any(|name| ids.contains(name)) {
            return format!("{manager} {packages}");
        }
    }
    let all = managers.iter().zip(packages).map(|(manager, packages)| format!("{manager} {packages}"));
    all.collect::<Vec<_>>().join(", or ")
}

/// Whether torch-sys will find a C++ compiler; `CXX` of the user's own is taken on trust.
pub(crate) fn has_cxx() -> bool {
    env::var_os("CXX").is_some() || ["c++", "g++", "clang++"].iter().any(|name| on_path(name).is_some())
}

/// The program of this name on `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_series_is_read_from_both_kernel_module_flavours() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 2024\nGCC version: 12";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build";
        assert_eq!(driver_series(closed), Some(550));
        assert_eq!(driver_series(open), Some(580));
        assert_eq!(driver_series("GCC version: gcc 12.2.0"), None);
        assert!(driver_warning(550).is_some() && driver_warning(580).is_none());
    }

    #[test]
    fn the_hint_is_the_command_of_this_distribution() {
        let packages = ["a", "d", "p", "z"];
        assert_eq!(hint_for("NAME=x\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", packages), "apt install a");
        assert_eq!(hint_for("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", packages), "dnf install d");
        assert_eq!(hint_for("ID=arch\n", packages), "pacman -S p");
        assert!(hint_for("ID=nixos\nHOME_URL=https://linux.example\n", packages).contains(", or dnf install d"));
    }
}
