//! libtorch below `.libtorch/` of the checkout: what is there, and how it gets there unharmed by interruptions.
//!
//! pip fills `.libtorch/partial-<process>/`; its two folders `torch` and `nvidia` are then renamed into place, and a
//! marker file that says which set it is comes last. A `partial-*` folder found at the start is what an interrupted
//! set-up left. (Each process has its own: pip lives on for a moment when only its parent is killed.)

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::ui::{say, size};
use crate::{pip, python};

/// The version that tch 0.24.0 is made for.
pub(crate) const VERSION: &str = "2.11.0";

const MARKER: &str = "installed-set";
const PARTIAL: &str = "partial-";
const TORCH: &str = "torch==2.11.0";

/// Which libraries beside torch's own are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// The two that libtorch_cpu.so links.
    Cpu,
    /// All that libtorch_cuda.so links.
    Cuda,
}

/// What libtorch_cpu.so links (it is built with CUDA, too).
const CPU_WHEELS: &[&str] = &["nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cupti==13.0.85"];

/// What libtorch_cuda.so links besides: the versions that the metadata of the torch wheel and of cuda-toolkit 13.0.2
/// pin. Named one by one since `pip install torch` would bring Triton and SymPy too (0.9 GB that no C++ program uses).
const CUDA_WHEELS: &[&str] = &[
    "nvidia-cublas==13.1.0.3",
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-cudnn-cu13==9.19.0.56",
    "nvidia-cufft==12.0.0.61",
    "nvidia-cufile==1.15.1.6",
    "nvidia-curand==10.4.0.35",
    "nvidia-cusolver==12.0.4.66",
    "nvidia-cusparse==12.6.3.3",
    "nvidia-cusparselt-cu13==0.8.0",
    "nvidia-nccl-cu13==2.28.9",
    "nvidia-nvjitlink==13.0.88",
    "nvidia-nvshmem-cu13==3.4.5",
    "nvidia-nvtx==13.0.85",
];

impl Set {
    fn name(self) -> &'static str {
        match self {
            Set::Cpu => "cpu",
            Set::Cuda => "cuda",
        }
    }

    /// For people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Set::Cpu => "the CPU set",
            Set::Cuda => "the CUDA set",
        }
    }

    fn wheels(self, with_torch: bool) -> Vec<&'static str> {
        let mut wheels = if with_torch { vec![TORCH] } else { vec![] };
        wheels.extend(CPU_WHEELS);
        if self == Set::Cuda {
            wheels.extend(CUDA_WHEELS);
        }
        wheels
    }

    /// Download and installed size in bytes, measured.
    fn bytes(self, with_torch: bool) -> (u64, u64) {
        let (torch, installed_torch) = if with_torch { (531_000_000, 1_140_000_000) } else { (0, 0) };
        let (rest, installed_rest) = match self {
            Set::Cpu => (13_000_000, 53_000_000),
            Set::Cuda => (1_995_000_000, 2_840_000_000),
        };
        (torch + rest, installed_torch + installed_rest)
    }
}

/// What the marker says: the set, and whether the user asked for it by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) set: Set,
    pub(crate) asked: bool,
}

impl Mark {
    fn text(self) -> String {
        format!("{}{}\n", self.set.name(), if self.asked { " (asked for)" } else { "" })
    }

    fn parse(text: &str) -> Option<Mark> {
        let mut words = text.split_whitespace();
        let set = match words.next()? {
            "cpu" => Set::Cpu,
            "cuda" => Set::Cuda,
            _ => return None,
        };
        Some(Mark { set, asked: words.next().is_some() })
    }
}

/// What `.libtorch/` holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing.
    Absent,
    /// Something that cannot be used, and why.
    Broken(String),
    /// libtorch of the right version.
    Ready(Mark),
}

/// Looks at `.libtorch/`; reads a few small files only.
pub(crate) fn inspect(home: &Path) -> State {
    let torch = home.join("torch");
    if !torch.is_dir() {
        return State::Absent;
    }
    if let Err(problem) = check(&torch).and_then(|()| check_cuda_runtime(home)) {
        return State::Broken(format!("{problem:#}"));
    }
    let marker = fs::read_to_string(home.join(MARKER)).ok();
    if let Some(mark) = marker.as_deref().and_then(Mark::parse) {
        return State::Ready(mark);
    }
    // Put there by hand (pip install --target .libtorch), which can be cut off half-way without a trace.
    if let Some(file) = missing_file(home) {
        return State::Broken(format!("{} is missing", file.display()));
    }
    let set = if home.join("nvidia/cudnn").is_dir() { Set::Cuda } else { Set::Cpu };
    State::Ready(Mark { set, asked: false })
}

/// Checks a libtorch folder: version, headers, library. A user's own may be a wheel's or the zip file of pytorch.org.
pub(crate) fn check(torch: &Path) -> Result<()> {
    let shown = torch.display();
    let wheel = fs::read_to_string(torch.join("version.py")).ok();
    let zip = fs::read_to_string(torch.join("build-version")).ok();
    let version = wheel.as_deref().and_then(wheel_version).or(zip.as_deref().map(str::trim));
    let Some(version) = version else {
        bail!("{shown} does not say its version: neither version.py nor build-version is there");
    };
    let plain = version.split('+').next().unwrap_or(version);
    ensure!(plain == VERSION, "{shown} is libtorch {version}, but tch 0.24.0 needs {VERSION}");
    for part in ["include/torch/csrc/api/include/torch/torch.h", "lib/libc10.so", "lib/libtorch_cpu.so"] {
        ensure!(torch.join(part).is_file(), "{part} is missing in {shown}");
    }
    Ok(())
}

/// `2.11.0+cu130` from the line `__version__ = '2.11.0+cu130'`.
fn wheel_version(text: &str) -> Option<&str> {
    let line = text.lines().find_map(|line| line.strip_prefix("__version__"))?;
    line.trim_start().strip_prefix('=')?.trim().strip_prefix('\'')?.strip_suffix('\'')
}

fn check_cuda_runtime(home: &Path) -> Result<()> {
    for library in ["libcudart.so.13", "libcupti.so.13"] {
        let path = Path::new("nvidia/cu13/lib").join(library);
        ensure!(home.join(&path).is_file(), "{} is missing", path.display());
    }
    Ok(())
}

/// The first file of the torch wheel's own list that is not there; without a list nothing is known to be missing.
fn missing_file(home: &Path) -> Option<PathBuf> {
    let record = home.join(format!("torch-{VERSION}.dist-info/RECORD"));
    let record = fs::read_to_string(record).ok()?;
    let files = record.lines().filter_map(|line| line.split(',').next()).filter(|f| f.starts_with("torch/"));
    // Compiled Python may be left out (--no-compile); paths with a comma are quoted, and there are none in torch.
    let mut files = files.filter(|file| !file.ends_with(".pyc")).map(PathBuf::from);
    files.find(|file| !home.join(file).exists())
}

/// Which set is wanted: the flag, else what was asked for before, else what the machine can use.
pub(crate) fn wanted(flag: Option<Set>, state: &State, driver: bool) -> Mark {
    match (flag, state) {
        (Some(set), _) => Mark { set, asked: true },
        (None, State::Ready(mark)) if mark.asked || mark.set == Set::Cuda => *mark,
        (None, _) if driver => Mark { set: Set::Cuda, asked: false },
        (None, _) => Mark { set: Set::Cpu, asked: false },
    }
}

/// Makes `.libtorch/` hold the set; instant if it does.
pub(crate) fn ensure_set(home: &Path, flag: Option<Set>, driver: bool) -> Result<()> {
    let state = inspect(home);
    let wish = wanted(flag, &state, driver);
    if let State::Ready(mark) = state
        && mark.set == wish.set
    {
        if mark != wish || !home.join(MARKER).exists() {
            let _ = write_marker(home, wish); // A shared, read-only libtorch serves as well without it.
        }
        remove_leftovers(home);
        say("libtorch", &format!("{VERSION}, {}: already in .libtorch/torch", wish.set.title()));
        return Ok(());
    }
    fs::create_dir_all(home).with_context(|| format!("{}", home.display()))?;
    let _lock = lock(home)?;
    let state = inspect(home); // Another set-up may have worked while this one waited.
    match &state {
        State::Ready(mark) if mark.set == wish.set => return Ok(()),
        State::Broken(problem) => say("libtorch", &format!("is there but incomplete, installing anew: {problem}")),
        State::Ready(mark) => say("libtorch", &format!("{} is there", mark.set.title())),
        State::Absent => {}
    }
    install(home, wish, !matches!(state, State::Ready(_)))
}

/// A set-up that was interrupted in its very last step leaves a folder that nobody needs; one at work holds the lock.
fn remove_leftovers(home: &Path) {
    let leftovers = leftovers(home);
    let free = || File::open(home.join("lock")).is_ok_and(|lock| lock.try_lock().is_ok());
    if !leftovers.is_empty() && free() {
        let _ = leftovers.iter().try_for_each(|folder| remove(folder));
    }
}

fn leftovers(home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PARTIAL)).map(|entry| entry.path()).collect()
}

fn lock(home: &Path) -> Result<File> {
    let path = home.join("lock");
    let file = File::create(&path).with_context(|| format!("{}", path.display()))?;
    if file.try_lock().is_err() {
        say("libtorch", "another set-up is at work here; waiting for it");
        file.lock().with_context(|| format!("{}", path.display()))?;
    }
    Ok(file)
}

/// Installs a set; without `with_torch` the torch folder stays and only the libraries beside it are replaced.
fn install(home: &Path, wish: Mark, with_torch: bool) -> Result<()> {
    for folder in leftovers(home) {
        say("libtorch", "removing what an interrupted set-up left");
        remove(&folder)?;
    }
    let partial = home.join(format!("{PARTIAL}{}", std::process::id()));
    let (download, installed) = wish.set.bytes(with_torch);
    let (need, free) = (download + installed, fs4::available_space(home)?);
    let (title, here) = (wish.set.title(), size(free));
    let plan = format!("{title} of {VERSION}: downloads {}, takes {} on disk", size(download), size(installed));
    say("libtorch", &format!("installing {plan} (free here: {here})"));
    ensure!(free > need, "{} are needed meanwhile, and {here} are free in {}", size(need), home.display());

    let python = python::find(&partial.join("venv"))?;
    let wheels = wish.set.wheels(with_torch);
    pip::install(&python, &wheels, &partial.join("site"), &partial.join("temporary"), need)?;
    settle(home, &partial, wish)?;
    say("libtorch", &format!("{VERSION}, {title}: installed in .libtorch/torch"));
    Ok(())
}

/// Puts what pip made in the place of what is there. Between any two lines here an interruption leaves something that
/// [`inspect`] does not take for complete, or that is.
fn settle(home: &Path, partial: &Path, wish: Mark) -> Result<()> {
    let site = &partial.join("site");
    let with_torch = site.join("torch").is_dir();
    if with_torch {
        check(&site.join("torch")).context("the wheel that pip installed cannot be used")?;
    }
    check_cuda_runtime(site).context("the wheels that pip installed cannot be used")?;
    let old = partial.join("old");
    fs::create_dir_all(&old)?;
    let marker = home.join(MARKER);
    if marker.exists() {
        fs::remove_file(&marker).with_context(|| format!("{}", marker.display()))?;
    }
    replace(home, site, &old, "nvidia")?;
    if with_torch {
        replace(home, site, &old, "torch")?;
    }
    write_marker(home, wish)?;
    remove(partial)
}

fn replace(home: &Path, site: &Path, old: &Path, name: &str) -> Result<()> {
    let here = home.join(name);
    if here.exists() {
        fs::rename(&here, old.join(name)).with_context(|| format!("{}", here.display()))?;
    }
    fs::rename(site.join(name), &here).with_context(|| format!("{}", here.display()))
}

fn write_marker(home: &Path, mark: Mark) -> Result<()> {
    let path = home.join(MARKER);
    let temporary = home.join(format!("{MARKER}.new"));
    fs::write(&temporary, mark.text())
        .and_then(|()| fs::rename(&temporary, &path))
        .with_context(|| format!("{}: the marker of the installed set could not be written", path.display()))
}

fn remove(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).with_context(|| format!("{} could not be removed", folder.display()))
}

#[cfg(test)]
mod tests;
