//! What the allocator of the host does with freed memory; a file of its own, since it is set for the whole process.

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

#[test]
fn freed_memory_is_used_again_without_the_kernel() {
    let given_back = faults_of_reuse();
    reslab_torch::keep_freed_memory();
    let kept = faults_of_reuse();
    assert!(given_back > 20 * 500, "the control: by default the kernel clears the pages each time, {given_back}");
    assert!(kept < 2_000, "{kept} faults of 20 tensors, {given_back} before");
}
