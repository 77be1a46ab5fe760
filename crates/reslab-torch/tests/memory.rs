//! What the allocator of the host does with freed memory. Without the test harness, since it is set for the whole
//! process, and huge pages are asked for where the main thread's memory lies, in which a run computes.

use reslab_torch::tch::{Device, Kind, Tensor};

/// Pages that this process had to ask the kernel for, so far.
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // Behind the name in parentheses: state is field 3, minor faults are field 10.
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(7).unwrap().parse().unwrap()
}

/// Page faults of making and dropping twenty tensors of 8 MiB (2,048 pages), one after the other.
fn faults_of_reuse() -> u64 {
    let tensor = || Tensor::ones([2 << 20], (Kind::Float, Device::Cpu));
    drop(tensor());
    let before = page_faults();
    (0..20).for_each(|_| drop(tensor()));
    page_faults() - before
}

fn main() {
    freed_memory_is_used_again_without_the_kernel();
    println!("test freed_memory_is_used_again_without_the_kernel ... ok");
}

fn freed_memory_is_used_again_without_the_kernel() {
    let given_back = faults_of_reuse();
    reslab_torch::keep_freed_memory();
    let kept = faults_of_reuse();
    assert!(given_back > 20 * 500, "the control: by default the kernel clears the pages each time, {given_back}");
    assert!(kept < 2_000, "{kept} faults of 20 tensors, {given_back} before");

    let policy = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if !policy.contains("[madvise]") {
        println!("skipped: no huge pages on demand here ({})", policy.trim());
        return;
    }
    let before = rollup("AnonHugePages");
    let tensors: Vec<Tensor> = (0..16).map(|_| Tensor::ones([1 << 20], (Kind::Float, Device::Cpu))).collect();
    let gained = rollup("AnonHugePages") - before;
    assert!(gained > 16 << 10, "{gained} KiB of huge pages for {} tensors of 4 MiB", tensors.len());
}

/// A line of /proc/self/smaps_rollup, in KiB.
fn rollup(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
