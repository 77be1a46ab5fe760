//! The arrows between the crates, read from every manifest. This table is the rule; ARCHITECTURE.md explains it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// A crate may depend on those to its right and on no other crate of the workspace. A level depends downward only.
const ARROWS: &[(&str, &[&str])] = &[
    // L0
    ("reslab-torch", &[]),
    ("reslab-record", &[]),
    ("reslab-config", &[]),
    ("reslab-fetch", &[]),
    ("reslab-image", &[]),
    // L1
    ("reslab-residual", &["reslab-torch", "reslab-config"]),
    ("reslab-pretrained", &["reslab-record", "reslab-config"]),
    ("reslab-data", &["reslab-torch", "reslab-config", "reslab-fetch", "reslab-image"]),
    // L2
    ("reslab-model", &["reslab-residual", "reslab-torch", "reslab-pretrained", "reslab-config"]),
    ("reslab-report", &["reslab-record"]),
    // L3
    (
        "reslab-train",
        &[
            "reslab-model",
            "reslab-residual",
            "reslab-data",
            "reslab-torch",
            "reslab-pretrained",
            "reslab-record",
            "reslab-config",
            "reslab-fetch",
        ],
    ),
    ("reslab-sweep", &["reslab-record", "reslab-config"]),
    ("reslab-plot", &["reslab-report", "reslab-record"]),
    ("reslab-tensorboard", &["reslab-record"]),
    ("reslab-page", &["reslab-plot", "reslab-report", "reslab-record"]),
    ("xtask", &["reslab-fetch"]),
    // L4
    (
        "reslab",
        &[
            "reslab-train",
            "reslab-sweep",
            "reslab-page",
            "reslab-plot",
            "reslab-tensorboard",
            "reslab-report",
            "reslab-model",
            "reslab-residual",
            "reslab-data",
            "reslab-torch",
            "reslab-pretrained",
            "reslab-record",
            "reslab-config",
            "reslab-fetch",
        ],
    ),
];

/// Only these may build with libtorch: the others are built and tested in seconds, without it.
const WITH_TORCH: &[&str] =
    &["reslab-torch", "reslab-residual", "reslab-data", "reslab-model", "reslab-train", "reslab"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn manifests() -> Vec<Table> {
    let folders = fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().path().join("Cargo.toml"));
    let texts = folders.filter(|path| path.is_file()).map(|path| fs::read_to_string(path).unwrap());
    texts.map(|text| text.parse().unwrap()).collect()
}

fn name(manifest: &Table) -> &str {
    manifest["package"]["name"].as_str().unwrap()
}

/// Packages of every dependency table, also of those under `[target.'cfg(..)']`, by their real names.
fn dependencies(manifest: &Table) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (key, value) in manifest {
        let Some(table) = value.as_table() else { continue };
        match key.as_str() {
            "dependencies" | "dev-dependencies" | "build-dependencies" => {
                let renamed = |value: &Value| value.get("package").and_then(Value::as_str).map(str::to_string);
                found.extend(table.iter().map(|(key, value)| renamed(value).unwrap_or_else(|| key.clone())));
            }
            "target" => found.extend(table.values().filter_map(Value::as_table).flat_map(dependencies)),
            _ => {}
        }
    }
    found
}

/// Every dependency of this manifest that the table does not allow.
fn forbidden(manifest: &Table) -> Vec<String> {
    let name = name(manifest);
    let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
        return vec![format!("{name} is not in the table of crates/xtask/tests/arrows.rs: give it a level there")];
    };
    let mut wrong = Vec::new();
    for dependency in dependencies(manifest) {
        let ours = ARROWS.iter().any(|(from, _)| *from == dependency);
        if ours && dependency != name && !allowed.contains(&dependency.as_str()) {
            wrong.push(format!("{name} -> {dependency} is not an arrow of the architecture"));
        }
        if ["tch", "torch-sys"].contains(&dependency.as_str()) && !WITH_TORCH.contains(&name) {
            wrong.push(format!("{name} -> {dependency}: this crate builds and tests without libtorch"));
        }
    }
    wrong
}

#[test]
fn every_dependency_between_crates_is_an_arrow_of_the_table() {
    let wrong: Vec<String> = manifests().iter().flat_map(forbidden).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_names_the_crates_that_exist() {
    let manifests = manifests();
    let here: BTreeSet<&str> = manifests.iter().map(name).collect();
    let table: BTreeSet<&str> = ARROWS.iter().map(|(from, _)| *from).collect();
    assert_eq!(here, table);
}

#[test]
fn the_table_itself_points_downward() {
    for (index, (from, to)) in ARROWS.iter().enumerate() {
        for target in *to {
            let position = ARROWS.iter().position(|(name, _)| name == target);
            assert!(position.is_some_and(|position| position < index), "{from} -> {target}");
        }
    }
}

/// Negative control: each forbidden kind of arrow is seen, wherever in the manifest it hides.
#[test]
fn a_forbidden_arrow_is_seen_in_every_table() {
    let manifest = |name: &str, tables: &str| format!("[package]\nname = \"{name}\"\n{tables}").parse().unwrap();
    let cases = [
        ("reslab-record", "[dependencies]\nreslab-sweep.workspace = true"),
        ("reslab-sweep", "[dev-dependencies]\nreslab-train.workspace = true"),
        ("reslab-model", "[build-dependencies]\nreslab-data = { path = \"../reslab-data\" }"),
        ("xtask", "[target.'cfg(unix)'.dependencies]\nreslab-record.workspace = true"),
        ("reslab-report", "[dependencies]\nother = { package = \"reslab-sweep\", path = \"x\" }"),
        ("reslab-sweep", "[dependencies]\ntch.workspace = true"),
        ("reslab-new", ""),
    ];
    for (name, tables) in cases {
        assert_eq!(forbidden(&manifest(name, tables)).len(), 1, "{name}: {tables}");
    }
    let good = manifest("reslab-sweep", "[dependencies]\nreslab-record.workspace = true\nserde.workspace = true");
    assert!(forbidden(&good).is_empty());
}
