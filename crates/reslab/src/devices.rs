//! `--device`: which devices runs go to, and how many at once on each.

use crate::outcome::Usage;
use crate::terminal::warn;
use anyhow::Result;
use std::str::FromStr;

/// What `--device` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeviceChoice {
    /// All CUDA devices if there is one, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// All CUDA devices.
    Cuda,
    /// These CUDA devices.
    Listed(Vec<usize>),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "cpu" => return Ok(Self::Cpu),
            "cuda" => return Ok(Self::Cuda),
            _ => {}
        }
        let mut listed: Vec<usize> = Vec::new();
        for word in text.split(',') {
            let index = word.strip_prefix("cuda:").and_then(|n| n.parse().ok());
            match index {
                Some(index) if !listed.contains(&index) => listed.push(index),
                Some(_) => return Err(format!("`{word}` stands twice")),
                None => return Err(format!("`{word}` is not a device; expected auto, cpu, cuda, or cuda:0,cuda:1")),
            }
        }
        Ok(Self::Listed(listed))
    }
}

/// The devices that were chosen: all of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Devices {
    /// `cpu` or `cuda`: part of a run's identity.
    pub(crate) kind: &'static str,
    /// Their names, as `--device` takes them.
    pub(crate) names: Vec<String>,
}

impl DeviceChoice {
    /// The devices of this machine that it means.
    ///
    /// # Errors
    /// A device that isn't here.
    pub(crate) fn resolve(&self) -> Result<Devices> {
        self.resolve_among(|| reslab_torch::cuda_count().map_err(|e| e.to_string()))
    }

    fn resolve_among(&self, count: impl FnOnce() -> Result<usize, String>) -> Result<Devices> {
        let cuda = |indices: Vec<usize>| Devices {
            kind: "cuda",
            names: indices.iter().map(|i| format!("cuda:{i}")).collect(),
        };
        let cpu = Devices { kind: "cpu", names: vec!["cpu".to_owned()] };
        match self {
            Self::Cpu => Ok(cpu),
            Self::Auto => Ok(match count() {
                Ok(0) => cpu,
                Ok(count) => cuda((0..count).collect()),
                // A driver that is there but can't be used must not stop a run on the CPU.
                Err(error) => {
                    warn(format_args!("runs go to the CPU, since CUDA can't be used: {error}"));
                    cpu
                }
            }),
            Self::Cuda => match count().map_err(Usage::error)? {
                0 => Err(no_cuda("cuda")),
                count => Ok(cuda((0..count).collect())),
            },
            Self::Listed(listed) => {
                let count = count().map_err(Usage::error)?;
                match listed.iter().find(|index| **index >= count) {
                    Some(index) if count == 0 => Err(no_cuda(&format!("cuda:{index}"))),
                    Some(index) => Err(Usage::error(format!(
                        "--device cuda:{index}: this machine has cuda:0 to cuda:{}",
                        count - 1
                    ))),
                    None => Ok(cuda(listed.clone())),
                }
            }
        }
    }
}

fn no_cuda(asked: &str) -> anyhow::Error {
    Usage::error(format!(
        "--device {asked}: no CUDA device is here; `reslab doctor` says why, `--device cpu` runs on the CPU"
    ))
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs at once on each device: on the CPU as many as fill the cores, on CUDA one.
pub(crate) fn default_jobs(devices: &Devices, threads: usize) -> usize {
    if devices.kind == "cpu" { (cores() / threads.max(1)).max(1) } else { 1 }
}

/// More runs at once than this are a slip of the finger: each is a process.
const MOST_JOBS: usize = 256;

/// Parses `--jobs`.
///
/// # Errors
/// Not a number of at least 1.
pub(crate) fn parse_jobs(text: &str) -> Result<usize, String> {
    let jobs = text.parse().ok().filter(|jobs| (1..=MOST_JOBS).contains(jobs));
    jobs.ok_or_else(|| format!("must be a number from 1 to {MOST_JOBS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(choice: &str, count: usize) -> Result<Vec<String>, String> {
        let choice: DeviceChoice = choice.parse()?;
        choice.resolve_among(|| Ok(count)).map(|devices| devices.names).map_err(|e| e.to_string())
    }

    #[test]
    fn auto_takes_all_cuda_devices_or_the_cpu() {
        assert_eq!(names("auto", 0).unwrap(), ["cpu"]);
        assert_eq!(names("auto", 2).unwrap(), ["cuda:0", "cuda:1"]);
        let broken = DeviceChoice::Auto.resolve_among(|| Err("driver too old".to_owned())).unwrap();
        assert_eq!(broken.names, ["cpu"]);
    }

    #[test]
    fn a_device_that_is_not_here_is_an_error_that_says_what_is() {
        assert!(names("cuda", 0).unwrap_err().contains("--device cpu"));
        assert_eq!(names("cuda:1", 2).unwrap(), ["cuda:1"]);
        assert!(names("cuda:0,cuda:2", 2).unwrap_err().contains("cuda:0 to cuda:1"));
        assert!(names("gpu", 1).unwrap_err().contains("expected auto"));
        assert!(names("cuda:0,cuda:0", 1).unwrap_err().contains("twice"));
    }
}
