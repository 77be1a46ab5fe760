//! A Python that can install wheels: with pip, or with venv to get pip from.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::platform::install_hint;
use crate::ui::say;

/// Names tried, in this order.
const NAMES: [&str; 7] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "python"];
const OLDEST: (u32, u32) = (3, 10);

/// Says version, pip and venv in one line; works in any Python 3 (and says its version in Python 2).
const PROBE: &str = "import sys, importlib.util as u
has = lambda *names: int(all(u.find_spec(name) for name in names))
print(sys.version_info[0], sys.version_info[1], has('pip'), has('venv', 'ensurepip'))";

/// What one Python can do.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Probe {
    exe: PathBuf,
    version: (u32, u32),
    pip: bool,
    venv: bool,
}

/// How pip is had.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Pip(Probe),
    Venv(Probe),
}

/// A Python that has pip, and its version.
#[derive(Debug)]
pub(crate) struct Python {
    pub(crate) exe: PathBuf,
    pub(crate) version: (u32, u32),
}

/// Finds a Python of this machine; one without pip gets it in a virtual environment in `venv`.
pub(crate) fn find(venv: &Path) -> Result<Python> {
    let probes: Vec<Probe> = NAMES.iter().filter_map(|name| probe(OsStr::new(name))).collect();
    match choose(&probes)? {
        Choice::Pip(probe) => Ok(Python { exe: probe.exe, version: probe.version }),
        Choice::Venv(probe) => {
            let exe = venv.join("bin/python");
            say("python", "has no pip: making a virtual environment to get it from");
            let mut command = Command::new(&probe.exe);
            let status = command.args(["-m", "venv", "--clear"]).arg(venv).status();
            let status = status.with_context(|| format!("{} could not be started", probe.exe.display()))?;
            ensure!(status.success(), "`python -m venv` failed; {}", venv_hint());
            Ok(Python { exe, version: probe.version })
        }
    }
}

fn probe(exe: &OsStr) -> Option<Probe> {
    let output = Command::new(exe).args(["-c", PROBE]).stdin(Stdio::null()).output().ok()?;
    parse(exe.into(), &String::from_utf8_lossy(&output.stdout))
}

fn parse(exe: PathBuf, line: &str) -> Option<Probe> {
    let numbers: Vec<u32> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [major, minor, pip, venv] = numbers[..] else { return None };
    Some(Probe { exe, version: (major, minor), pip: pip == 1, venv: venv == 1 })
}

/// The first that is new enough and has pip, else the first that is new enough and has venv.
fn choose(probes: &[Probe]) -> Result<Choice> {
    let fit: Vec<&Probe> = probes.iter().filter(|probe| probe.version >= OLDEST).collect();
    if let Some(probe) = fit.iter().find(|probe| probe.pip) {
        return Ok(Choice::Pip((*probe).clone()));
    }
    if let Some(probe) = fit.iter().find(|probe| probe.venv) {
        return Ok(Choice::Venv((*probe).clone()));
    }
    let (major, minor) = OLDEST;
    match (fit.first(), probes.first()) {
        (Some(probe), _) => {
            let (major, minor) = probe.version;
            bail!("Python {major}.{minor} is here, but has neither pip nor venv; {}", venv_hint())
        }
        (None, Some(probe)) => {
            let found = format!("{}.{}", probe.version.0, probe.version.1);
            bail!(
                "libtorch comes as a Python wheel, which takes Python {major}.{minor} or newer to unpack, \
                 and {} is {found}",
                probe.exe.display()
            )
        }
        (None, None) => {
            bail!("libtorch comes as a Python wheel, and no Python {major}.{minor} or newer was found; {}", venv_hint())
        }
    }
}

fn venv_hint() -> String {
    let install = install_hint("python3-venv", "python3-pip", "python-pip", "python3-pip");
    format!("install it ({install}) and run `cargo setup` again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(exe: &str, version: (u32, u32), pip: bool, venv: bool) -> Probe {
        Probe { exe: exe.into(), version, pip, venv }
    }

    #[test]
    fn a_probe_is_read_and_noise_is_not() {
        let probe = parse("python3".into(), "3 11 1 0\n").unwrap();
        assert_eq!(probe, python("python3", (3, 11), true, false));
        assert_eq!(parse("python".into(), ""), None);
        assert_eq!(parse("python".into(), "Traceback 3 11 1 0"), None);
    }

    #[test]
    fn pip_is_preferred_even_on_a_later_python_then_venv() {
        let old = python("python3", (3, 9), true, true);
        let venv = python("python3.13", (3, 13), false, true);
        let pip = python("python3.12", (3, 12), true, false);
        assert_eq!(choose(&[old.clone(), venv.clone(), pip.clone()]).unwrap(), Choice::Pip(pip));
        assert_eq!(choose(&[old, venv.clone()]).unwrap(), Choice::Venv(venv));
    }

    #[test]
    fn each_lack_says_what_to_install() {
        let none = choose(&[]).unwrap_err().to_string();
        assert!(none.contains("no Python 3.10") && none.contains("install"), "{none}");
        let bare = choose(&[python("python3", (3, 11), false, false)]).unwrap_err().to_string();
        assert!(bare.contains("neither pip nor venv") && bare.contains("install"), "{bare}");
        let old = choose(&[python("python3", (3, 9), true, true)]).unwrap_err().to_string();
        assert!(old.contains("3.10 or newer") && old.contains("3.9"), "{old}");
    }
}
