//! Only safetensors is read as a checkpoint: nothing calls libtorch's or tch's readers of pickles, which are programs that
//! run when they are opened. (A file that is one is refused by name: `reslab-record/src/checkpoint/decode.rs`.)

use std::fs;
use std::path::{Path, PathBuf};

/// Names of functions and types that read what `torch.save` and `torch.jit.save` write, in Rust and in C++.
const READERS: [&str; 12] = [
    "VarStore",
    "CModule",
    "TrainableCModule",
    "load_multi",
    "loadz_multi",
    "load_from_stream",
    "loadz",
    "at_load",
    "torch::load",
    "jit::load",
    "pickle_load",
    "Unpickler",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| ["rs", "cpp", "h"].iter().any(|known| e == *known)) {
            found.push(path);
        }
    }
}

/// Readers that are called or named in code: comments may speak of them.
fn readers_in(text: &str) -> Vec<&'static str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    READERS.into_iter().filter(|reader| code.split(|c| !is_word(c)).any(|word| word.ends_with(reader))).collect()
}

#[test]
fn no_source_names_a_reader_of_pickles() {
    let mut files = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap() {
        for part in ["src", "shim"].map(|part| entry.as_ref().unwrap().path().join(part)) {
            if part.is_dir() {
                sources(&part, &mut files);
            }
        }
    }
    assert!(files.len() > 100, "{}", files.len());
    for file in files {
        // A strategy from PyTorch is a program, not a checkpoint: its user names the file, and is told that it runs.
        let allowed: &[&str] = if file.ends_with("reslab-torch/shim/script.cpp") { &["jit::load"] } else { &[] };
        assert_eq!(readers_in(&fs::read_to_string(&file).unwrap()), allowed, "{}", file.display());
    }
}

#[test]
fn a_reader_is_seen_where_it_is_called_and_not_where_it_is_spoken_of() {
    assert_eq!(readers_in("let t = tch::Tensor::load_multi(path)?;"), ["load_multi"]);
    assert_eq!(readers_in("auto t = torch::load(path);"), ["torch::load"]);
    assert_eq!(readers_in("// against tch's VarStore\n/// Unpickler\nfn load() {}"), Vec::<&str>::new());
}
