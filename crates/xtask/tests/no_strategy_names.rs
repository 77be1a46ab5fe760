//! The network and the trainer know no strategy by name: a new one is a file under `variants/`, and no other is edited.

use std::fs;
use std::path::{Path, PathBuf};

/// Too common a word to look for in prose; it is looked for as the text in a config.
const COMMON: &str = "plain";

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn strategies() -> Vec<String> {
    let folder = crates().join("reslab-residual/src/variants");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let rust = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|path| path.file_stem().unwrap().to_str().unwrap().to_string()).filter(|stem| stem != "mod").collect()
}

/// Rust files below a folder; tests need strategies to test with, so their files are left out.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if ["tests", "testing"].contains(&stem) {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The text before the tests that stand under it.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

/// Lines that hold the name as a whole word, in snake case or as a type's name.
fn lines_with<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
    let type_name: String = name.split('_').filter(|part| !part.is_empty()).map(capital).collect();
    let is_word =
        |line: &str, word: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word);
    let hit = |line: &&str| match name {
        COMMON => line.contains(&format!("\"{COMMON}\"")),
        _ => is_word(line, name) || is_word(line, &type_name),
    };
    text.lines().filter(hit).collect()
}

#[test]
fn model_and_trainer_contain_no_strategys_name() {
    let strategies = strategies();
    assert!(strategies.len() >= 3, "variants/ holds {strategies:?}");
    let mut wrong = Vec::new();
    for folder in ["reslab-model/src", "reslab-train/src"] {
        for path in sources(&crates().join(folder)) {
            let text = fs::read_to_string(&path).unwrap();
            for name in &strategies {
                let lines = lines_with(without_tests(&text), name);
                wrong.extend(lines.iter().map(|line| format!("{}: {name}: {}", path.display(), line.trim())));
            }
        }
    }
    assert!(wrong.is_empty(), "strategies named outside their own files:\n{}", wrong.join("\n"));
}

/// Negative control.
#[test]
fn a_name_is_seen_as_a_word_as_a_type_and_in_quotes_but_not_inside_another() {
    assert_eq!(lines_with("a\nif kind == \"layer_scale\" {\n", "layer_scale"), ["if kind == \"layer_scale\" {"]);
    assert_eq!(lines_with("use x::LayerScale;", "layer_scale").len(), 1);
    assert!(lines_with("multi_layer_scale_x LayerScales", "layer_scale").is_empty());
    assert_eq!(lines_with("kind = \"plain\"", "plain").len(), 1);
    assert!(lines_with("// the plain form", "plain").is_empty());
    assert_eq!(without_tests("code\n#[cfg(test)]\nmod tests { layer_scale }"), "code\n");
}
