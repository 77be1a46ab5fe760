//! Gives this crate's binaries and tests the folder of libtorch as rpath.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-link-arg=-Wl,-rpath,{}",
        std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names libtorch's folder")
    );
}
