use tempfile::TempDir;

use super::*;

/// The few files that [`inspect`] looks at.
fn lay_torch(torch: &Path, version: &str) {
    for file in ["include/torch/csrc/api/include/torch/torch.h", "lib/libc10.so", "lib/libtorch_cpu.so"] {
        write(&torch.join(file), "");
    }
    let text = format!("from typing import Optional\n__version__ = '{version}'\ncuda: Optional[str] = '13.0'\n");
    write(&torch.join("version.py"), &text);
}

fn lay_nvidia(nvidia: &Path, set: Set) {
    write(&nvidia.join("cu13/lib/libcudart.so.13"), "");
    write(&nvidia.join("cu13/lib/libcupti.so.13"), "");
    if set == Set::Cuda {
        write(&nvidia.join("cudnn/lib/libcudnn.so.9"), "");
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn mark(set: Set, asked: bool) -> Mark {
    Mark { set, asked }
}

fn home_with(set: Set) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    lay_torch(&home.path().join("torch"), "2.11.0+cu130");
    lay_nvidia(&home.path().join("nvidia"), set);
    home
}

fn problem(state: State) -> String {
    let State::Broken(problem) = state else { panic!("{state:?}") };
    problem
}

#[test]
fn the_version_is_read_from_a_wheel_and_from_the_zip_file() {
    assert_eq!(wheel_version("a = 1\n__version__ = '2.11.0+cu130'\n"), Some("2.11.0+cu130"));
    assert_eq!(wheel_version("__version__ = 2\n"), None);
    let home = home_with(Set::Cpu);
    let torch = home.path().join("torch");
    assert!(check(&torch).is_ok());
    fs::remove_file(torch.join("version.py")).unwrap();
    assert!(check(&torch).unwrap_err().to_string().contains("does not say its version"));
    write(&torch.join("build-version"), "2.11.0+cpu\n");
    assert!(check(&torch).is_ok());
    write(&torch.join("build-version"), "2.12.1+cpu\n");
    let error = check(&torch).unwrap_err().to_string();
    assert!(error.contains("2.12.1+cpu") && error.contains("2.11.0"), "{error}");
}

#[test]
fn a_version_that_only_begins_alike_is_refused() {
    let home = home_with(Set::Cpu);
    for version in ["2.11.01", "2.11", "2.11.0rc1", "12.11.0"] {
        lay_torch(&home.path().join("torch"), version);
        assert!(check(&home.path().join("torch")).is_err(), "{version}");
    }
}

#[test]
fn nothing_is_absent_and_half_of_it_is_broken() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(inspect(home.path()), State::Absent);
    assert_eq!(inspect(&home.path().join("not/there")), State::Absent);
    fs::create_dir(home.path().join("torch")).unwrap();
    assert!(problem(inspect(home.path())).contains("version"));
    lay_torch(&home.path().join("torch"), "2.11.0+cu130");
    assert!(problem(inspect(home.path())).contains("libcudart.so.13 is missing"));
    lay_nvidia(&home.path().join("nvidia"), Set::Cpu);
    assert_eq!(inspect(home.path()), State::Ready(mark(Set::Cpu, false)));
    fs::remove_file(home.path().join("torch/lib/libc10.so")).unwrap();
    assert!(problem(inspect(home.path())).contains("libc10.so is missing"));
}

#[test]
fn a_hand_made_install_is_checked_against_its_own_list() {
    let home = home_with(Set::Cuda);
    let record = home.path().join("torch-2.11.0.dist-info/RECORD");
    write(&record, "torch/version.py,sha256=x,9\ntorch/a.pyc,,\nbin/gone,,\n");
    assert_eq!(inspect(home.path()), State::Ready(mark(Set::Cuda, false)));
    write(&record, "torch/version.py,sha256=x,9\ntorch/lib/libshm.so,sha256=y,9\n");
    assert_eq!(problem(inspect(home.path())), "torch/lib/libshm.so is missing");
    // The marker is written last of all, so with it there is nothing to doubt.
    write_marker(home.path(), mark(Set::Cuda, true)).unwrap();
    assert_eq!(inspect(home.path()), State::Ready(mark(Set::Cuda, true)));
}

#[test]
fn marks_are_read_back_and_others_are_not() {
    for (set, asked) in [(Set::Cpu, false), (Set::Cpu, true), (Set::Cuda, false), (Set::Cuda, true)] {
        assert_eq!(Mark::parse(&mark(set, asked).text()), Some(mark(set, asked)));
    }
    assert_eq!(Mark::parse("rocm\n"), None);
    assert_eq!(Mark::parse(""), None);
}

#[test]
fn the_wanted_set_follows_the_flag_then_the_past_then_the_machine() {
    let ready = |set, asked| State::Ready(mark(set, asked));
    let (cpu, cuda) = (Set::Cpu, Set::Cuda);
    assert_eq!(wanted(Some(cpu), &ready(cuda, false), true), mark(cpu, true));
    assert_eq!(wanted(None, &State::Absent, true), mark(cuda, false));
    assert_eq!(wanted(None, &State::Absent, false), mark(cpu, false));
    // A driver that came later is used; a CPU set that was asked for stays; a CUDA set serves without a driver too.
    assert_eq!(wanted(None, &ready(cpu, false), true), mark(cuda, false));
    assert_eq!(wanted(None, &ready(cpu, true), true), mark(cpu, true));
    assert_eq!(wanted(None, &ready(cuda, false), false), mark(cuda, false));
}

#[test]
fn settling_replaces_what_is_there_and_marks_it_last() {
    let home = home_with(Set::Cpu);
    write(&home.path().join("torch/old-file"), "");
    let partial = home.path().join("partial-1");
    lay_torch(&partial.join("site/torch"), "2.11.0+cu130");
    lay_nvidia(&partial.join("site/nvidia"), Set::Cuda);
    settle(home.path(), &partial, mark(Set::Cuda, false)).unwrap();
    assert_eq!(inspect(home.path()), State::Ready(mark(Set::Cuda, false)));
    assert!(!home.path().join("torch/old-file").exists() && !home.path().join("partial-1").exists());
    assert_eq!(fs::read_to_string(home.path().join(MARKER)).unwrap(), "cuda\n");
}

#[test]
fn a_wrong_wheel_is_not_put_in_place() {
    let home = home_with(Set::Cpu);
    let partial = home.path().join("partial-1");
    lay_torch(&partial.join("site/torch"), "2.12.0+cu130");
    lay_nvidia(&partial.join("site/nvidia"), Set::Cpu);
    let error = format!("{:#}", settle(home.path(), &partial, mark(Set::Cpu, false)).unwrap_err());
    assert!(error.contains("2.12.0"), "{error}");
    assert_eq!(inspect(home.path()), State::Ready(mark(Set::Cpu, false)));
}

/// The switch from the CPU to the CUDA set renames three things; wherever it is cut off, the next look either finds a
/// complete set and names it rightly, or finds it broken.
#[test]
fn a_switch_that_is_cut_off_is_never_taken_for_what_it_is_not() {
    let home = home_with(Set::Cpu);
    let path = home.path();
    write_marker(path, mark(Set::Cpu, false)).unwrap();
    lay_nvidia(&path.join("partial-1/site/nvidia"), Set::Cuda);
    fs::create_dir_all(path.join("partial-1/old")).unwrap();

    fs::remove_file(path.join(MARKER)).unwrap();
    assert_eq!(inspect(path), State::Ready(mark(Set::Cpu, false)));
    fs::rename(path.join("nvidia"), path.join("partial-1/old/nvidia")).unwrap();
    assert!(problem(inspect(path)).contains("libcudart"));
    fs::rename(path.join("partial-1/site/nvidia"), path.join("nvidia")).unwrap();
    assert_eq!(inspect(path), State::Ready(mark(Set::Cuda, false)));
}

#[test]
fn a_ready_set_is_left_alone_marked_and_cleared_of_leftovers() {
    let home = home_with(Set::Cpu);
    write(&home.path().join("lock"), "");
    write(&home.path().join("partial-1/site/torch/half"), "");
    ensure_set(home.path(), None, false).unwrap();
    assert_eq!(fs::read_to_string(home.path().join(MARKER)).unwrap(), "cpu\n");
    assert!(!home.path().join("partial-1").exists());
    ensure_set(home.path(), Some(Set::Cpu), true).unwrap();
    assert_eq!(inspect(home.path()), State::Ready(mark(Set::Cpu, true)));
}

#[test]
fn leftovers_of_a_set_up_at_work_stay() {
    let home = home_with(Set::Cpu);
    write(&home.path().join("partial-1/site/torch/half"), "");
    let _lock = lock(home.path()).unwrap();
    ensure_set(home.path(), None, false).unwrap();
    assert!(home.path().join("partial-1/site/torch/half").exists());
}

#[test]
fn only_the_cuda_set_downloads_the_big_libraries() {
    assert_eq!(Set::Cpu.wheels(true).len(), 3);
    assert_eq!(Set::Cpu.wheels(false), CPU_WHEELS);
    assert_eq!(Set::Cuda.wheels(true).len(), 3 + CUDA_WHEELS.len());
    assert!(TORCH.ends_with(VERSION));
}
