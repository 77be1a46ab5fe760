//! Lists the strategies of `src/variants/` for the registry, and gives binaries and tests libtorch's folder as rpath.
//!
//! No list of strategies is edited by hand: a file in the folder is a strategy, under its file name.
use std::{env, fmt::Write, fs, path::Path};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/variants");
    println!(
        "cargo::rustc-link-arg=-Wl,-rpath,{}",
        env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names libtorch's folder")
    );

    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("src/variants");
    let mut files: Vec<_> = fs::read_dir(&folder).expect("src/variants").map(|f| f.expect("a file").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "rs"));
    files.sort();
    let (mut modules, mut list) = (String::new(), String::new());
    for file in &files {
        let name = file.file_stem().and_then(|n| n.to_str()).expect("a file name that is an identifier");
        writeln!(modules, "#[path = {:?}]\npub mod {name};", file.display().to_string()).expect("a String takes all");
        write!(list, "&{name}::VARIANT, ").expect("a String takes all");
    }
    let code = format!("{modules}pub(crate) static BUILTIN: &[&crate::Variant] = &[{list}];\n");
    fs::write(Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("variants.rs"), code)
        .expect("OUT_DIR is writable");
}
