//! Which files a path stands for: one file, the shards of an index, or what a folder holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use reslab_record::CHECKPOINT_FILE;
use serde::Deserialize;

use crate::PretrainedError;
use crate::file::Tensors;

const MODEL: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const INDEX_END: &str = ".index.json";
/// Bytes that an index or a config may have at the most; those of the largest networks have a few 100 kB.
const MAX_JSON: u64 = 64 << 20;

/// Opens what `path` stands for: a safetensors file, an index, or a folder with one of them.
pub(crate) fn open(path: &Path) -> Result<(PathBuf, Tensors), PretrainedError> {
    let path = if path.is_dir() { in_folder(path)? } else { path.to_owned() };
    let mut tensors = Tensors::default();
    if path.to_string_lossy().ends_with(INDEX_END) {
        open_shards(&path, &mut tensors)?;
    } else {
        tensors.add_file(&path)?;
    }
    Ok((path, tensors))
}

fn in_folder(folder: &Path) -> Result<PathBuf, PretrainedError> {
    if let Some(found) = [MODEL, INDEX, CHECKPOINT_FILE].iter().map(|name| folder.join(name)).find(|p| p.is_file()) {
        return Ok(found);
    }
    // A pickle is opened, so that the error says how to convert it.
    let pickled = ["pytorch_model.bin", "model.pth", "model.pt"].iter().map(|name| folder.join(name));
    if let Some(found) = pickled.into_iter().find(|p| p.is_file()) {
        return Ok(found);
    }
    let problem = format!("the folder holds none of {MODEL}, {INDEX} and {CHECKPOINT_FILE}");
    Err(PretrainedError::broken(folder, problem))
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

fn open_shards(path: &Path, tensors: &mut Tensors) -> Result<(), PretrainedError> {
    let broken = |problem: String| PretrainedError::broken(path, problem);
    let index: Index =
        serde_json::from_str(&read_text(path)?).map_err(|e| broken(format!("is no index of shards: {e}")))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let names: BTreeSet<&String> = index.weight_map.values().collect();
    let mut places: BTreeMap<String, &String> = BTreeMap::new();
    for name in names {
        let plain = Path::new(name).components().collect::<Vec<_>>();
        if !matches!(plain[..], [Component::Normal(_)]) {
            return Err(broken(format!("a shard must be the name of a file beside the index, but is {name:?}")));
        }
        let before: BTreeSet<String> = tensors.stored.keys().cloned().collect();
        tensors.add_file(&folder.join(name)).map_err(|e| broken(format!("names a shard that can't be read: {e}")))?;
        let new = tensors.stored.keys().filter(|key| !before.contains(*key)).cloned();
        places.extend(new.map(|key| (key, name)));
    }
    for (key, name) in &index.weight_map {
        match places.get(key) {
            Some(place) if *place == name => {}
            Some(place) => return Err(broken(format!("says that {key} is in {name}, but it is in {place}"))),
            None => return Err(broken(format!("says that {key} is in {name}, but no shard holds it"))),
        }
    }
    match places.keys().find(|key| !index.weight_map.contains_key(*key)) {
        Some(key) => Err(broken(format!("does not name {key}, which is in {}", places[key]))),
        None => Ok(()),
    }
}

/// A small text file.
pub(crate) fn read_text(path: &Path) -> Result<String, PretrainedError> {
    let length = fs::metadata(path).map_err(PretrainedError::io(path, "read"))?.len();
    if length > MAX_JSON {
        return Err(PretrainedError::broken(path, format!("has {length} bytes, more than any such file")));
    }
    fs::read_to_string(path).map_err(PretrainedError::io(path, "read"))
}

/// Whether a file's name is what transformers gives a model: a config beside it is the model's.
pub(crate) fn is_a_models(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == MODEL || name == INDEX)
}
