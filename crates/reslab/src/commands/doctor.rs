//! `reslab doctor`: what works here and what does not, each by trying it.

use crate::determinism::{self, Bits, WORKSPACE};
use crate::devices::{Devices, cores, default_jobs};
use crate::environment::{available_memory, cpu_name};
use crate::matmul;
use crate::outcome::Exit;
use crate::sources::DataOptions;
use crate::terminal::{Paint, bytes, magnitude, say};
use anyhow::Result;
use reslab_record::network_file_system;
use reslab_torch::{cuda_count, open_device, set_threads};
use std::fs;
use std::path::{Path, PathBuf};
use tch::{Device, Kind};

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder that results would go to
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    #[command(flatten)]
    data: DataOptions,
}

/// What a check found.
enum Finding {
    Works(String),
    /// Not here, and not needed.
    Absent(String),
    /// Needed, or there and broken.
    Broken(String),
}

use Finding::{Absent, Broken, Works};

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    let checks: [(&str, &dyn Fn() -> Vec<Finding>); 7] = [
        ("reslab", &|| vec![Works(env!("CARGO_PKG_VERSION").to_owned())]),
        ("libtorch", &libtorch),
        ("cpu", &cpu),
        ("cuda", &cuda),
        ("determinism", &determinism),
        ("disk", &|| vec![disk(&arguments.out)]),
        ("data", &|| data(&arguments.data)),
    ];
    let paint = Paint::stdout();
    let mut exit = Exit::Done;
    for (name, check) in checks {
        for finding in check() {
            let (word, text) = match finding {
                Works(text) => (paint.green("ok  "), text),
                Absent(text) => (paint.yellow("none"), text),
                Broken(text) => {
                    exit = Exit::Failed;
                    (paint.red("FAIL"), text)
                }
            };
            say(format_args!("{word}  {name:<12} {text}"));
        }
    }
    Ok(exit)
}

fn libtorch() -> Vec<Finding> {
    let version = reslab_torch::version();
    let place = loaded("libtorch_cpu.so").map_or(String::new(), |path| format!(" from {}", path.display()));
    let text = format!("{version}{place}");
    // The C++ interface of tch 0.24 is that of this version; another one links and then misbehaves.
    if version.starts_with("2.11.") {
        vec![Works(text)]
    } else {
        vec![Broken(format!("{text}: this program is built for 2.11.0; run `cargo setup`"))]
    }
}

/// The file that a loaded library came from.
fn loaded(library: &str) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(&format!("/{library}")))?;
    line.find('/').map(|at| PathBuf::from(&line[at..]))
}

fn cpu() -> Vec<Finding> {
    set_threads(1);
    let name = cpu_name().map_or(String::new(), |name| format!("{name}, "));
    let memory = available_memory().map_or(String::new(), |free| format!(", {} of memory free", bytes(free)));
    let runs = default_jobs(&Devices { kind: "cpu", names: vec!["cpu".to_owned()] }, 1);
    match matmul::peak(Device::Cpu, Kind::Float) {
        Ok(peak) => vec![Works(format!(
            "{name}{} cores{memory}; {}FLOP/s in fp32 per thread; a sweep runs {runs} at once, one thread each",
            cores(),
            magnitude(peak)
        ))],
        Err(error) => vec![Broken(format!("a matrix product failed: {error}"))],
    }
}

fn cuda() -> Vec<Finding> {
    match cuda_count() {
        Ok(0) if Path::new("/proc/driver/nvidia/version").exists() => {
            vec![Broken("an NVIDIA driver is here but no device is: see `nvidia-smi`".to_owned())]
        }
        Ok(0) => vec![Absent(
            "no NVIDIA driver here: sweeps run on the CPU, with the profile `cpu` where a file has one".to_owned(),
        )],
        Ok(count) => (0..count).map(cuda_device).collect(),
        Err(error) => vec![Broken(error.to_string())],
    }
}

fn cuda_device(index: usize) -> Finding {
    let name = format!("cuda:{index}");
    let device = match open_device(&name) {
        Ok(device) => device,
        Err(error) => return Broken(format!("{name}: {error}")),
    };
    match (matmul::peak(device, Kind::Float), matmul::peak(device, Kind::BFloat16)) {
        (Ok(single), Ok(bf16)) => {
            Works(format!("{name}: {}FLOP/s in fp32, {}FLOP/s in bf16", magnitude(single), magnitude(bf16)))
        }
        (Err(error), _) | (_, Err(error)) => Broken(format!("{name}: a matrix product failed: {error}")),
    }
}

/// What has the same bits when it is computed again, and what is known to change them.
fn determinism() -> Vec<Finding> {
    let mut found = match determinism::cpu() {
        Err(error) => return vec![Broken(format!("cpu: two training steps failed: {error}"))],
        Ok(tried) => on_cpu(&tried),
    };
    found.push(on_cuda());
    found
}

fn on_cpu(tried: &determinism::Cpu) -> Vec<Finding> {
    if tried.again != [Bits::Same; 2] {
        return vec![Broken("cpu: the same training steps gave other bits the second time".to_owned())];
    }
    let threads = match tried.threads {
        Bits::Same => "cpu: here 2 threads gave the same bits as 1 (tried), which another network need not do",
        Bits::Other => "cpu: 2 threads gave other bits than 1 (tried)",
    };
    vec![
        Works("cpu: training steps done again gave the same bits, with 1 thread and with 2 (tried)".to_owned()),
        Works(format!("{threads}; the threads are part of a run's id")),
        Works("cpu: another type of processor or another libtorch may give other bits (not tried)".to_owned()),
    ]
}

/// What `train.deterministic = true` asks for on CUDA.
const FORCED: &str = "attention in its math form, index_add (drop path's `subset`) in a fixed order, cuDNN's deterministic kernels, \
                      a fixed workspace of cuBLAS";

fn on_cuda() -> Finding {
    let workspace = match std::env::var(WORKSPACE) {
        Ok(value) => format!("{WORKSPACE}={value}, as you have set it"),
        Err(_) => format!("{WORKSPACE}, which such a run sets itself"),
    };
    let forced = format!("cuda: train.deterministic = true asks for {FORCED} ({workspace})");
    if !cuda_count().is_ok_and(|count| count > 0) {
        return Absent(format!("{forced}; false leaves these free to differ from run to run (not tried: no device)"));
    }
    let device = match open_device("cuda") {
        Ok(device) => device,
        Err(error) => return Broken(format!("cuda: {error}")),
    };
    match (determinism::on(device, true), determinism::on(device, false)) {
        (Ok(Bits::Same), Ok(free)) => {
            let free = if free == Bits::Same { "the same bits too, this time" } else { "other bits" };
            Works(format!("{forced}, and gave the same bits again; false gave {free} (both tried)"))
        }
        (Ok(Bits::Other), _) => Broken(format!("{forced}, but the same steps gave other bits the second time")),
        (Err(error), _) | (_, Err(error)) => Broken(format!("cuda: two training steps failed: {error}")),
    }
}

/// Space and permission where results would go; the nearest folder that exists stands for one that does not.
fn disk(out: &Path) -> Finding {
    let absolute = std::path::absolute(out).unwrap_or_else(|_| out.to_path_buf());
    let Some(existing) = absolute.ancestors().find(|dir| dir.is_dir()) else {
        return Broken(format!("{}: no such folder", out.display()));
    };
    let Some((free, writable)) = free_space(existing) else {
        return Broken(format!("{}: cannot be looked at", existing.display()));
    };
    let shared = network_file_system(existing).map_or(String::new(), |kind| {
        format!(", on a network file system ({kind}): whether locks reach other machines depends on its server, so start a sweep on one")
    });
    let text = format!("{} free for {}{shared}", bytes(free), out.display());
    match (writable, free) {
        (false, _) => Broken(format!("{} may not be written to; --out DIR puts results elsewhere", existing.display())),
        (true, 0..1_000_000_000) => Broken(format!("{text}: a sweep may need more")),
        _ => Works(text),
    }
}

/// Bytes that this user may still write below `dir`, and whether they may write there at all.
fn free_space(dir: &Path) -> Option<(u64, bool)> {
    let path = std::ffi::CString::new(dir.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY: `path` is a C string that lives through both calls, and `stats` is plain numbers.
    unsafe {
        let mut stats: libc::statvfs = std::mem::zeroed();
        let found = libc::statvfs(path.as_ptr(), &mut stats) == 0;
        found.then(|| (stats.f_bavail * stats.f_frsize, libc::access(path.as_ptr(), libc::W_OK) == 0))
    }
}

fn data(options: &DataOptions) -> Vec<Finding> {
    let sources = options.sources();
    let place = |name: &'static str| match reslab_fetch::dataset(name) {
        None => Works(format!("{name}: embedded in the program")),
        Some(files) => match reslab_fetch::locate(files, &sources) {
            Ok(located) => Works(format!("{name}: {}", located.dir.display())),
            Err(_) => Absent(format!("{name}: not here; `reslab data fetch {name}` gets it")),
        },
    };
    reslab_data::DATASETS.iter().map(|set| place(set.name)).collect()
}
