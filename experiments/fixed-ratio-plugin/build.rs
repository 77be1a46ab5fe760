//! Every program on libtorch needs its folder as rpath.
fn main() {
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names it"));
}
