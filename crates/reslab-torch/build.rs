//! Compiles the C++ shim against libtorch's headers and gives this crate's tests the folder of libtorch as rpath.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim");
    let lib = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names libtorch's folder");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    let include = Path::new(&lib).parent().expect("libtorch's lib folder has a parent").join("include");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .debug(false)
        // Every training step runs through these kernels.
        .opt_level(3)
        // Without it libtorch's `parallel_for` compiles to a loop on one thread.
        .flag("-fopenmp")
        // What the wheel of torch 2.11 is built with.
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        .include(&include)
        .include(include.join("torch/csrc/api/include"))
        .files(["shim/shim.cpp", "shim/attention.cpp", "shim/script.cpp"])
        .compile("reslab_shim");
    println!("cargo::rustc-link-lib=dylib:+verbatim={}", openmp(Path::new(&lib)));
}

/// The OpenMP runtime that libtorch brings: a second one would keep threads of its own.
fn openmp(lib: &Path) -> String {
    let names = std::fs::read_dir(lib).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let bundled = names.filter_map(|name| name.into_string().ok()).find(|name| name.starts_with("libgomp"));
    bundled.unwrap_or_else(|| "libgomp.so.1".to_string())
}
