//! What is deterministic here, by trying it: two real training steps, done again.

use anyhow::{Result, anyhow};
use reslab_fetch::Sources;
use reslab_residual::Registry;
use reslab_torch::{set_deterministic, set_threads};
use reslab_train::{Learner, RunConfig, Watch};
use tch::Device;

/// The run that is tried: everything that a step can hold, large enough that its products are split among threads.
const RUN: &str = r#"
data = { dataset = "digits", train_images = "all", val_images = 0, crop_pad = 1, flip = true, mixup = 0.2, cutmix = 0.0 }
model = { kind = "vit", depth = 2, width = 128, num_heads = 4, patch_size = 2, mlp_ratio = 4.0, qkv_bias = true, pool = "class", norm = "pre", norm_eps = 1e-6 }
train = { steps = 2, batch = 64, accumulate = 1, clip = 1.0, label_smoothing = 0.1, precision = "fp32", eval_every = 0, telemetry_every = 1, checkpoint_every = 0, ema_decay = 0.0, report = "last", deterministic = true }
optim = { kind = "adamw", lr = 1e-3, betas = [0.9, 0.999], eps = 1e-8, weight_decay = 0.05, warmup_steps = 0, schedule = "constant" }
residual = { kind = "layer_scale", init = 0.1 }
drop_path = { rate = 0.25, schedule = "uniform", mode = "subset" }
"#;

/// The environment variable that fixes cuBLAS's workspace.
pub(crate) const WORKSPACE: &str = "CUBLAS_WORKSPACE_CONFIG";

/// Whether two times the same gave the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bits {
    /// All of them.
    Same,
    /// At least one differs.
    Other,
}

impl Bits {
    fn of(one: &[u64], two: &[u64]) -> Self {
        if one == two { Self::Same } else { Self::Other }
    }
}

/// What was tried on the CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    /// With one thread, and with two: the same steps twice.
    pub(crate) again: [Bits; 2],
    /// One thread against two.
    pub(crate) threads: Bits,
}

/// Tries the CPU, whose kernels are deterministic without being asked.
///
/// # Errors
/// What libtorch says.
pub(crate) fn cpu() -> Result<Cpu> {
    let [one, two] = [1, 2].map(|threads| {
        set_threads(threads);
        Ok::<_, anyhow::Error>([steps(Device::Cpu, false)?, steps(Device::Cpu, false)?])
    });
    set_threads(1);
    let (one, two) = (one?, two?);
    let again = [Bits::of(&one[0], &one[1]), Bits::of(&two[0], &two[1])];
    Ok(Cpu { again, threads: Bits::of(&one[0], &two[0]) })
}

/// Tries a device: the same steps twice, with deterministic algorithms, or with any.
///
/// # Errors
/// What libtorch says.
pub(crate) fn on(device: Device, deterministic: bool) -> Result<Bits> {
    Ok(Bits::of(&steps(device, deterministic)?, &steps(device, deterministic)?))
}

/// The bits of what the steps measure: losses, the norm of every gradient, the figures of the weights' update. The
/// second step starts from what the first one made of the weights.
fn steps(device: Device, deterministic: bool) -> Result<Vec<u64>> {
    let mut table: toml::Table = RUN.parse()?;
    table["train"]["deterministic"] = deterministic.into();
    let config = RunConfig::from_table(&table, &Registry::builtin()).map_err(|errors| anyhow!("{errors:?}"))?;
    // The digits are embedded: nothing is looked for.
    let sources = Sources { dirs: Vec::new(), cache: std::path::PathBuf::new(), offline: true };
    let data = table["data"].as_table().ok_or_else(|| anyhow!("[data] is a table"))?;
    let splits = reslab_data::load(&reslab_data::DataConfig::parse(data)?, &sources, device)?;
    let mut learner = Learner::new(&config, splits, 0, device)?;
    let mut bits = Vec::new();
    for step in 0..config.steps() {
        let measured = learner.step(step, Watch::Layers)?;
        let one = [measured.loss, measured.grad_norm, measured.weight_update_norm.unwrap_or(f64::NAN)];
        bits.extend(one.iter().chain(&measured.grad_norms).map(|figure| figure.to_bits()));
    }
    set_deterministic(false);
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_computes_the_same_bits_again() {
        let tried = cpu().unwrap();
        assert_eq!(tried.again, [Bits::Same; 2]);
        let bits = steps(Device::Cpu, true).unwrap();
        assert!(bits.len() > 2 * 20 && bits.iter().all(|bits| f64::from_bits(*bits).is_finite()));
        let mut other = bits.clone();
        other[30] ^= 1;
        assert_eq!(Bits::of(&bits, &other), Bits::Other, "control: one bit is seen");
        assert!(!reslab_torch::is_deterministic(), "and the switch is off again");
    }
}
