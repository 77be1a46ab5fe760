//! What runs will take here: from a few real steps of each distinct network, or roughly from its operations.

use crate::execution::config_of;
use crate::matmul;
use crate::probing::probe_command;
use crate::signals::STOP;
use crate::sources::DataOptions;
use crate::terminal::{bytes, note, warn};
use anyhow::Result;
use reslab_record::PlannedRun;
use reslab_residual::Registry;
use reslab_sweep::{Estimate, Probe, Slot, Work, networks, probe, span};
use std::collections::BTreeMap;
use tch::Kind;

/// Share of the matrix-multiply peak that training reaches: 0.3 to 0.55 were measured, narrow networks at the low end.
const USUAL_SHARE: f64 = 0.4;

/// Times three real steps of each distinct network, as many at once as runs will be.
///
/// # Errors
/// A run that isn't valid for this program. A probe that fails is told, and leaves the time unknown.
pub(crate) fn forecast(
    runs: &[PlannedRun],
    slots: &[Slot],
    data: &DataOptions,
    registry: &Registry,
) -> Result<Estimate> {
    let works = works(runs, registry)?;
    let count = networks(runs).len();
    note(format_args!("timing three real steps of {count} network{} ...", if count == 1 { "" } else { "s" }));
    let command = |run: &PlannedRun, slot: &Slot| probe_command(run, &slot.device, data);
    let mut told = |probe: &Probe| {
        if let Err(failed) = &probe.result {
            warn(format_args!("{}: could not be timed ({}): {}", probe.arm, failed.class, failed.message));
        }
    };
    let probes = probe(runs, slots, &command, &mut told, &STOP);
    warn_of_memory(&probes, slots, runs.len());
    Ok(Estimate::new(runs, slots, &probes, &|run| works[&run.id]))
}

fn works(runs: &[PlannedRun], registry: &Registry) -> Result<BTreeMap<String, Work>> {
    let one = |run: &PlannedRun| {
        let facts = config_of(run, registry)?.facts()?;
        Ok((run.id.clone(), Work { steps: facts.steps, eval_images: facts.eval_images }))
    };
    runs.iter().map(one).collect()
}

/// On the CPU all runs share one memory, and the system kills what asks for more than there is.
fn warn_of_memory(probes: &[Probe], slots: &[Slot], runs: usize) {
    let on_cpu: usize = slots.iter().filter(|slot| slot.device == "cpu").map(|slot| slot.jobs).sum();
    let on_cpu = on_cpu.min(runs);
    let largest = probes.iter().filter_map(|probe| probe.result.as_ref().ok()).map(|cost| cost.peak_memory_bytes).max();
    let needed = on_cpu as u64 * largest.unwrap_or(0);
    match crate::environment::available_memory() {
        Some(free) if needed > free => warn(format_args!(
            "{on_cpu} runs at once need up to {} of memory, but {} are free; --jobs N runs fewer at once",
            bytes(needed),
            bytes(free)
        )),
        _ => {}
    }
}

/// From operations alone, where a backward pass costs two forward passes: right within a factor of three.
///
/// # Errors
/// Where the device refuses a matrix product.
pub(crate) fn rough(runs: &[PlannedRun], slots: &[Slot], registry: &Registry) -> Result<String> {
    let device = reslab_torch::open_device(&slots[0].device)?;
    reslab_torch::set_threads(runs.first().map_or(1, |run| run.threads as i32));
    let kind = if device == tch::Device::Cpu { Kind::Float } else { Kind::BFloat16 };
    let speed = USUAL_SHARE * matmul::peak(device, kind)?;
    let mut operations = 0.0;
    for run in runs {
        let facts = config_of(run, registry)?.facts()?;
        operations += (3.0 * facts.train_images as f64 + facts.eval_images as f64) * facts.flops_per_image;
    }
    let at_once: usize = slots.iter().map(|slot| slot.jobs).sum();
    Ok(format!(
        "very roughly {} with {at_once} runs at once, from operations alone",
        span(operations / speed / at_once as f64)
    ))
}
