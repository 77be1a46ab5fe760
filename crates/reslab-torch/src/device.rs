//! Devices, threads, determinism, precision and memory figures.
//!
//! Open the device first: libtorch looks for its CUDA half once, and a process that has asked for CUDA before
//! [`open_device`] loaded it is told for ever that there is none.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use tch::Device;

use crate::ffi;

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Not a name of a device.
    #[error("no device is called `{0}`; expected `cpu`, `cuda` or `cuda:N`")]
    Name(String),
    /// No NVIDIA driver.
    #[error("no NVIDIA driver on this machine ({0}); use device `cpu`")]
    NoDriver(String),
    /// The driver is there and libtorch's CUDA half is not.
    #[error("this checkout has the CPU set of libtorch; run `cargo setup --cuda` ({0})")]
    CpuSet(String),
    /// All is there but a device.
    #[error(
        "the NVIDIA driver shows no device; is CUDA_VISIBLE_DEVICES empty, or the driver older than CUDA 13 needs?"
    )]
    NoDevice,
    /// Fewer devices than the number needs.
    #[error("no device `{name}`: there are {count} CUDA devices, counted from 0")]
    Index {
        /// The name that was asked for.
        name: String,
        /// Number of devices.
        count: usize,
    },
}

/// What was asked of this process so far. Attention's choice of kernels depends on both.
#[derive(Debug, Clone, Copy)]
struct Switches {
    cuda: bool,
    deterministic: bool,
}

static SWITCHES: Mutex<Switches> = Mutex::new(Switches { cuda: false, deterministic: false });

fn switches() -> MutexGuard<'static, Switches> {
    SWITCHES.lock().expect("no code panics while it holds the switches")
}

/// Opens `cpu`, `cuda` (the first CUDA device) or `cuda:N`, loading libtorch's CUDA half for the latter two.
pub fn open_device(name: &str) -> Result<Device, DeviceError> {
    let index = match name.strip_prefix("cuda") {
        None if name == "cpu" => return Ok(Device::Cpu),
        Some("") => 0,
        Some(rest) => rest
            .strip_prefix(':')
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
            .and_then(|digits| digits.parse::<usize>().ok())
            .ok_or_else(|| DeviceError::Name(name.to_string()))?,
        None => return Err(DeviceError::Name(name.to_string())),
    };
    load_driver().map_err(DeviceError::NoDriver)?;
    match load_cuda_half()? {
        0 => Err(DeviceError::NoDevice),
        count if index >= count => Err(DeviceError::Index { name: name.to_string(), count }),
        _ => {
            let mut switches = switches();
            switches.cuda = true;
            apply(*switches);
            Ok(Device::Cuda(index))
        }
    }
}

/// Number of CUDA devices; 0 where no driver is. An error means a driver without libtorch's CUDA half.
pub fn cuda_count() -> Result<usize, DeviceError> {
    if load_driver().is_err() { Ok(0) } else { load_cuda_half() }
}

fn load_driver() -> Result<(), String> {
    ffi::open_library(Path::new("libcuda.so.1"))
}

/// Loads libtorch_cuda beside the libtorch_cpu of this process, and counts devices. A linked program that names none of
/// its symbols drops it, so it is opened by hand.
fn load_cuda_half() -> Result<usize, DeviceError> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let folder = library_folder(&maps, "libtorch_cpu.so")
        .ok_or_else(|| DeviceError::CpuSet("libtorch_cpu.so is not in /proc/self/maps".to_string()))?;
    ffi::open_library(&folder.join("libtorch_cuda.so")).map_err(DeviceError::CpuSet)?;
    Ok(usize::try_from(tch::Cuda::device_count()).unwrap_or(0))
}

/// The folder of a mapped library; `maps` is the text of /proc/self/maps.
fn library_folder(maps: &str, library: &str) -> Option<PathBuf> {
    let path = |line: &str| line.find('/').map(|start| PathBuf::from(&line[start..]));
    let found = maps.lines().filter_map(path).find(|path| path.file_name().is_some_and(|name| name == library))?;
    found.parent().map(Path::to_path_buf)
}

/// Sets the number of threads within an operator and, the first time in a process, between operators.
pub fn set_threads(n: i32) {
    must(ffi::set_threads(n));
    // The pool between operators cannot be resized. reslab runs one operator at a time: a second call loses nothing.
    let _ = ffi::set_interop_threads(n);
}

/// Lets the process keep host memory that it has freed, for the next step to use again. A step frees and asks for the
/// same activations every time, and what is given back to the kernel in between has to be cleared again, page by page.
/// The peak is hardly higher: what is kept was needed a moment ago. It also asks the kernel for huge pages. Call it once, before
/// the first tensor; it has no effect with another C library than glibc.
pub fn keep_freed_memory() {
    ffi::keep_freed_memory();
}

/// Deterministic algorithms only, or any. On CUDA this leaves attention its math form only (the backwards of the fast
/// forms are not deterministic there; on the CPU they are) and sets CUBLAS_WORKSPACE_CONFIG=:4096:8 in this process, unless
/// it is set already: call it before the first matrix product on CUDA.
pub fn set_deterministic(on: bool) {
    let mut switches = switches();
    switches.deterministic = on;
    apply(*switches);
}

fn apply(switches: Switches) {
    must(ffi::set_deterministic(switches.deterministic));
    must(ffi::set_math_attention_only(switches.deterministic && switches.cuda));
}

/// Whether deterministic algorithms are asked for.
pub fn is_deterministic() -> bool {
    ffi::is_deterministic()
}

/// Whether attention may use its fast (flash) form.
pub fn uses_flash_attention() -> bool {
    ffi::uses_flash_attention()
}

/// Whether f32 matrix products on CUDA may round their factors to TF32 (10 bits of mantissa). Off in libtorch.
pub fn set_tf32(on: bool) {
    must(ffi::set_tf32(on));
}

/// Whether f32 matrix products on CUDA may use TF32.
pub fn uses_tf32() -> bool {
    ffi::uses_tf32()
}

/// Version of the libtorch that is loaded, as `2.11.0`; where the program was compiled against another, that too.
pub fn version() -> String {
    let [major, minor, patch, ..] = ffi::runtime_version().to_be_bytes();
    let (runtime, headers) = (format!("{major}.{minor}.{patch}"), ffi::header_version());
    if runtime == headers { runtime } else { format!("{runtime} (compiled against {headers})") }
}

/// Waits until the device has done all that was asked of it.
pub fn synchronize(device: Device) {
    if let Device::Cuda(index) = device {
        tch::Cuda::synchronize(index as i64);
    }
}

/// Largest memory use so far in bytes: what tensors held at once on a CUDA device, or this process on the host.
/// 0 where the system does not tell.
pub fn peak_memory(device: Device) -> u64 {
    let bytes = match device {
        Device::Cuda(index) => ffi::cuda_peak_bytes(index as i32).ok().and_then(|bytes| bytes.try_into().ok()),
        _ => std::fs::read_to_string("/proc/self/status").ok().and_then(|status| peak_resident(&status)),
    };
    bytes.unwrap_or(0)
}

/// Starts the count of [`peak_memory`] anew on a CUDA device; the host's cannot be reset.
pub fn reset_peak_memory(device: Device) {
    if let Device::Cuda(index) = device {
        must(ffi::cuda_reset_peak(index as i32));
    }
}

/// Gives memory that a CUDA device's allocator keeps for later back to the driver.
pub fn empty_cache(device: Device) {
    if let Device::Cuda(_) = device {
        must(ffi::cuda_empty_cache());
    }
}

/// The high-water mark of resident memory in the text of /proc/self/status.
fn peak_resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Restores this thread's autocast state when dropped, also by a panic.
#[derive(Debug)]
#[must_use = "autocast ends when the guard is dropped"]
pub struct AutocastGuard {
    before: ffi::Autocast,
    /// The state belongs to a thread, so the guard stays on it.
    thread: PhantomData<*const ()>,
}

/// Turns bf16 autocast on this type of device on or off in this thread until the guard is dropped.
pub fn autocast_bf16(device: Device, on: bool) -> AutocastGuard {
    let kind = i32::from(device.is_cuda());
    let before = must(ffi::autocast_state(kind));
    must(ffi::autocast_enter(kind, on));
    AutocastGuard { before, thread: PhantomData }
}

impl Drop for AutocastGuard {
    fn drop(&mut self) {
        // Sets thread-local flags, which cannot fail; a panic here would hide the one that may be under way.
        let _ = ffi::autocast_leave(self.before);
    }
}

/// For switches that libtorch sets without a way to fail.
fn must<T>(result: Result<T, String>) -> T {
    result.unwrap_or_else(|text| panic!("libtorch refused a setting: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Kind, Tensor};

    #[test]
    fn names_of_devices_are_read_strictly() {
        assert_eq!(open_device("cpu").unwrap(), Device::Cpu);
        for name in ["", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:+1", "cuda0", "cuda:0:1"] {
            let error = open_device(name).unwrap_err();
            assert!(matches!(&error, DeviceError::Name(found) if found == name), "{name}: {error}");
        }
    }

    /// On a machine with a driver this holds whatever set is installed: a device, or an error that says what to do.
    #[test]
    fn asking_for_cuda_gives_a_device_or_says_what_is_missing() {
        match (load_driver(), open_device("cuda")) {
            (Err(_), outcome) => {
                let error = outcome.unwrap_err();
                assert!(error.to_string().starts_with("no NVIDIA driver on this machine (libcuda.so.1"), "{error}");
                assert_eq!(cuda_count().unwrap(), 0);
            }
            (Ok(()), Ok(device)) => {
                let count = cuda_count().unwrap();
                assert!(device == Device::Cuda(0) && count > 0);
                let beyond = open_device(&format!("cuda:{count}")).unwrap_err();
                assert!(matches!(beyond, DeviceError::Index { .. }), "{beyond}");
            }
            (Ok(()), Err(error)) => assert!(matches!(error, DeviceError::CpuSet(_) | DeviceError::NoDevice), "{error}"),
        }
    }

    #[test]
    fn the_cuda_half_is_looked_for_beside_the_loaded_libtorch() {
        match load_cuda_half() {
            Ok(_) => {}
            Err(error) => assert!(error.to_string().contains("run `cargo setup --cuda`"), "{error}"),
        }
        let maps = "7f0-7f1 r-xp 0000 08:01 42    /opt/my torch/lib/libtorch_cpu.so\n7f1-7f2 rw-p 0 00:00 0 \n";
        assert_eq!(library_folder(maps, "libtorch_cpu.so"), Some(PathBuf::from("/opt/my torch/lib")));
        assert_eq!(library_folder(maps, "libtorch.so"), None);
    }

    #[test]
    fn the_library_that_is_loaded_is_the_one_compiled_against() {
        assert_eq!(version(), "2.11.0");
    }

    #[test]
    fn threads_can_be_set_again_and_again() {
        for n in [2, 1] {
            set_threads(n);
            assert_eq!(tch::get_num_threads(), n);
        }
    }

    #[test]
    fn deterministic_keeps_fast_attention_on_the_cpu() {
        set_deterministic(true);
        assert!(is_deterministic());
        assert_eq!(uses_flash_attention(), !switches().cuda);
        set_deterministic(false);
        assert!(!is_deterministic() && uses_flash_attention());
    }

    #[test]
    fn tf32_is_off_until_asked_for() {
        assert!(!uses_tf32());
        set_tf32(true);
        assert!(uses_tf32());
        set_tf32(false);
        assert!(!uses_tf32());
    }

    #[test]
    fn peak_memory_of_the_host_sees_a_tensor_come_and_go() {
        let before = peak_memory(Device::Cpu);
        assert!(before > 1 << 20);
        let bytes = 200 << 20;
        drop(Tensor::ones([bytes / 4], (Kind::Float, Device::Cpu)));
        let after = peak_memory(Device::Cpu);
        assert!(after >= bytes as u64, "{after}");
        assert_eq!(peak_resident("VmPeak:  9 kB\nVmHWM:\t  12 kB\n"), Some(12 << 10));
        assert_eq!(peak_resident("VmPeak:  9 kB\n"), None);
    }

    #[test]
    fn autocast_ends_with_its_guard_also_nested_and_by_a_panic() {
        for (kind, device) in [(0, Device::Cpu), (1, Device::Cuda(0))] {
            let outside = ffi::autocast_state(kind).unwrap();
            assert_eq!(outside.enabled, 0);
            {
                let _outer = autocast_bf16(device, true);
                let inside = ffi::autocast_state(kind).unwrap();
                assert_ne!(inside, outside);
                assert_eq!(ffi::autocast_state(1 - kind).unwrap().enabled, 0, "the other device is left alone");
                {
                    let _inner = autocast_bf16(device, false);
                    assert_eq!(ffi::autocast_state(kind).unwrap().enabled, 0);
                }
                assert_eq!(ffi::autocast_state(kind).unwrap(), inside);
            }
            assert_eq!(ffi::autocast_state(kind).unwrap(), outside);
            let panicked = std::panic::catch_unwind(|| {
                let _guard = autocast_bf16(device, true);
                panic!("in the middle of a step");
            });
            assert!(panicked.is_err());
            assert_eq!(ffi::autocast_state(kind).unwrap(), outside);
        }
    }

    #[test]
    fn the_cpu_has_nothing_to_wait_for_or_give_back() {
        synchronize(Device::Cpu);
        empty_cache(Device::Cpu);
        reset_peak_memory(Device::Cpu);
    }
}
