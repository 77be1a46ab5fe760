//! What CONTRIBUTING.md says of a new strategy: one file, nothing else, and it is listed and trained. And that a program in a
//! crate of its own has every command.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Place, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// The build's folder, where all that the copy does not change is compiled already.
fn target() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_reslab"));
    program.ancestors().nth(2).expect("target/debug/reslab").to_owned()
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    let words = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{words}{}", String::from_utf8_lossy(&stderr));
    words
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).expect("a folder");
        for entry in std::fs::read_dir(from).expect("readable").flatten() {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else if std::fs::read(to).ok() != std::fs::read(from).ok() {
        // Equal files keep their times, so that a second call compiles nothing.
        std::fs::copy(from, to).expect("copied");
    }
}

/// Gives another build's folder what is compiled of crates from elsewhere, torch-sys above all. A workspace's own crates have
/// the same names wherever it lies, so that two copies can't share one folder.
fn seed(from: &Path, to: &Path) {
    let is_own = |name: &str| ["reslab", "fixed_ratio", "fixed-ratio", "xtask"].iter().any(|own| name.contains(own));
    for part in [".fingerprint", "build", "deps"] {
        link(&from.join(part), &to.join(part), &|name| !is_own(name));
    }
}

fn link(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a build's folder").flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_name().to_str() {
            Some(name) if !wanted(name) => {}
            _ if path.is_dir() => link(&path, &to, wanted),
            // Of the same file: nothing is copied, and cargo, which sees that it is fresh, never writes to it.
            _ if !to.exists() => std::fs::hard_link(&path, &to).expect("linked"),
            _ => {}
        }
    }
}

/// The file's name and text, as CONTRIBUTING.md has it.
fn example() -> (String, String) {
    let page = std::fs::read_to_string(root().join("CONTRIBUTING.md")).expect("readable");
    let (_, rest) = page.split_once("\n`crates/reslab-residual/src/variants/").expect("the file is named");
    let (name, rest) = rest.split_once("`:\n\n```rust\n").expect("the code follows");
    (name.to_owned(), rest.split_once("\n```").expect("it ends").0.to_owned() + "\n")
}

#[test]
fn a_new_file_is_a_strategy_that_is_listed_and_trained_with_nothing_else_edited() {
    let (name, code) = example();
    let kind = name.trim_end_matches(".rs");
    let copied = target().join("new_strategy/workspace");
    for part in ["Cargo.toml", "Cargo.lock", "crates", "experiments/fixed-ratio-plugin"] {
        if let Some(folder) = copied.join(part).parent() {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        copy(&root().join(part), &copied.join(part));
    }
    let file = copied.join("crates/reslab-residual/src/variants").join(&name);
    if std::fs::read_to_string(&file).ok().as_ref() != Some(&code) {
        std::fs::write(&file, &code).expect("writable");
    }
    // The program of a crate of its own has the new file's strategy and its own one, and every command.
    let built = target().join("new_strategy/target");
    seed(&target().join("debug"), &built.join("debug"));
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--offline", "-p", "fixed-ratio-plugin"]).current_dir(&copied);
    let libtorch = std::env::var_os("LIBTORCH").map_or_else(|| root().join(".libtorch/torch"), PathBuf::from);
    build.env("CARGO_TARGET_DIR", &built).env("LIBTORCH", libtorch);
    succeed(&mut build);
    let program = built.join("debug/fixed-ratio-plugin");

    let place = Place::new();
    let call = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        succeed(command.args(arguments).current_dir(place.at("")).env_clear())
    };
    let listed = call(&["strategies"]);
    assert!(listed.contains(kind) && listed.contains("fixed_ratio") && listed.contains("layer_scale"), "{listed}");
    let shown = call(&["strategies", kind]);
    assert!(shown.contains("at step 0: y = x + 0.1 f(x)"), "{shown}");
    let file = std::fs::read_to_string(place.at("tiny.toml")).expect("readable");
    let more = format!(
        "\n[[arm]]\nname = \"{kind}\"\nresidual = {{ kind = \"{kind}\", initial_gain = 0.1 }}\n\
         drop_path = {{ rate = 0.0, schedule = \"uniform\", mode = \"sample\" }}\n"
    );
    std::fs::write(place.at("tiny.toml"), file + &more).expect("writable");
    let table = call(&["sweep", "tiny.toml", "--arm", "plain", "--arm", kind, "--out", "out"]);
    assert!(table.lines().any(|line| line.starts_with(kind)), "{table}");
    let done = json(&place.run_dir("out/tiny", &format!("{kind}-s0")).join("done.json"));
    assert_eq!(done["outcome"], "finished");
    // Control: the program without the file knows nothing of it.
    assert!(!place.call(&["strategies"]).expect(0).out.contains(kind));
}
