//! Gives this crate's binaries and tests the folder of libtorch as rpath, and the program the commit of its code.

use std::process::Command;

/// What the program is made of: a change elsewhere (a README, a sweep file) makes no other program.
const CODE: [&str; 3] = ["crates", "Cargo.toml", "Cargo.lock"];

fn main() {
    let libtorch = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names libtorch's folder");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{libtorch}");
    for path in CODE {
        println!("cargo::rerun-if-changed=../../{path}");
    }
    // A commit changes this log; without git (a downloaded archive) there is none, and no commit to name.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = git(&[&["log", "-1", "--format=%H", "--"], &CODE[..]].concat()).unwrap_or_default();
    let dirty = git(&[&["status", "--porcelain", "--"], &CODE[..]].concat()).is_some_and(|changes| !changes.is_empty());
    println!("cargo::rustc-env=RESLAB_CODE_COMMIT={commit}");
    println!("cargo::rustc-env=RESLAB_CODE_DIRTY={dirty}");
}

/// What git answers in the root of the checkout; nothing where there is no git or no checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir("../..").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
