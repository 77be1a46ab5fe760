//! Gives this crate's binaries and tests the folder of libtorch as rpath, and the program the state of its code.

#[path = "src/code_state.rs"]
mod code_state;

use std::path::Path;

fn main() {
    let libtorch = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names libtorch's folder");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{libtorch}");
    for path in code_state::CODE {
        println!("cargo::rerun-if-changed=../../{path}");
    }
    let root = Path::new("../..");
    // A commit changes this log; without git (a downloaded archive) there is none, and no commit to name.
    if let Some(log) = code_state::git(root, &["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={}", String::from_utf8_lossy(&log).trim());
    }
    println!("cargo::rustc-env=RESLAB_CODE_COMMIT={}", code_state::commit(root).unwrap_or_default());
    println!("cargo::rustc-env=RESLAB_CODE_DIRTY={}", code_state::is_dirty(root));
    // Next to the build's own files, for the program to include.
    let folder = std::env::var("OUT_DIR").expect("cargo names a folder");
    std::fs::write(Path::new(&folder).join("code.diff"), code_state::diff(root)).expect("the diff can be written");
}
