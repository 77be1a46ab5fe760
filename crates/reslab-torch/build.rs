//! Compiles the C++ shim against libtorch's headers and gives this crate's tests the folder of libtorch as rpath.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim/shim.cpp");
    let lib = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names libtorch's folder");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    let include = Path::new(&lib).parent().expect("libtorch's lib folder has a parent").join("include");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .debug(false)
        // What the wheel of torch 2.11 is built with.
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        .include(&include)
        .include(include.join("torch/csrc/api/include"))
        .file("shim/shim.cpp")
        .compile("reslab_shim");
}
