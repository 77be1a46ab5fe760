//! The file of `model.pretrained`: what it says about the network, and which content it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use reslab_config::{ConfigError, require};
use reslab_data::DataConfig;
use reslab_pretrained::Pretrained;
use toml::Value;

/// The key that names the file.
const PATH: &str = "pretrained";
/// The key that pins its content.
const SHA256: &str = "pretrained_sha256";

/// A table `[model]` that the file has completed.
#[derive(Debug)]
pub(crate) struct Completed {
    /// All keys, without those that name the file.
    pub table: toml::Table,
    /// The file, where the table names one.
    pub source: Option<Source>,
}

/// A pretrained file as a config names it.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub path: PathBuf,
    sha256: String,
    /// What the file says about the network.
    keys: toml::Table,
    channels: i64,
    /// What the images must be for it, where the table `[data]` does not say it.
    fit: toml::Table,
}

impl Source {
    /// What the plan adds to the tables `[model]` and `[data]`, so that the run is this one for ever.
    pub(crate) fn pin(&self, (model, data): (&mut toml::Table, &mut toml::Table)) {
        data.extend(self.fit.clone());
        for (key, value) in &self.keys {
            model.entry(key.clone()).or_insert_with(|| value.clone());
        }
        model.insert(SHA256.to_owned(), self.sha256.clone().into());
    }
}

/// The table `[data]` with images as the file's network takes them: grey is repeated to its channels, and images that its patches do
/// not tile are resized to the next multiple of the patch. What the table says itself stands.
///
/// # Errors
/// Those of the table.
pub(crate) fn fitted(data: &toml::Table, source: &mut Source) -> Result<toml::Table, ConfigError> {
    let mut fitted = data.clone();
    if data.get("dataset").and_then(Value::as_str) == Some("imagefolder") {
        return Ok(fitted); // its table says the size, and files have colours
    }
    let shape = DataConfig::parse(data)?.shape()?;
    let patch = source.keys.get("patch_size").and_then(Value::as_integer).unwrap_or(1).max(1);
    let mut put = |key: &str, own: i64, wanted: i64| {
        if own != wanted && !data.contains_key(key) {
            source.fit.insert(key.to_owned(), wanted.into());
        }
    };
    put("image_size", shape.height, (shape.height + patch - 1) / patch * patch);
    put("channels", shape.channels, source.channels);
    fitted.extend(source.fit.clone());
    Ok(fitted)
}

/// Takes what the table `[model]` leaves out from the file that it names.
///
/// # Errors
/// At the key: a file that can't be read or is another than the planned one, or a value that the file contradicts.
pub(crate) fn complete(model: &toml::Table) -> Result<Completed, ConfigError> {
    let mut table = model.clone();
    let (path, planned) = (table.remove(PATH), table.remove(SHA256));
    let Some(path) = path else {
        require(planned.is_none(), "model.pretrained_sha256", || "stands without model.pretrained".to_owned())?;
        return Ok(Completed { table, source: None });
    };
    let Value::String(path) = path else {
        return Err(ConfigError::new("model.pretrained", format!("must be a path, but is a {}", path.type_str())));
    };
    let path = PathBuf::from(path);
    let refuse = |error: &dyn std::fmt::Display| ConfigError::new("model.pretrained", error.to_string());
    let file = Pretrained::open(&path).map_err(|error| refuse(&error))?;
    let sha256 = sha256(&path, &file);
    let planned = planned.as_ref().and_then(Value::as_str).unwrap_or(&sha256);
    require(planned == sha256, "model.pretrained_sha256", || {
        format!("{} was {planned} when the run was planned, and now is {sha256}; plan it again", path.display())
    })?;
    let channels = file.architecture().channels as i64;
    let mut keys = file.architecture().model_table();
    if file.architecture().class_token && table.get("pool").and_then(Value::as_str) == Some("mean") {
        // The head does not read it then, but it is there.
        keys.insert("class_token".to_owned(), true.into());
    }
    for (key, found) in &keys {
        let given = table.entry(key.clone()).or_insert_with(|| found.clone());
        // How the tokens are pooled and where the norms stand is the user's to choose.
        require(
            ["pool", "norm", "norm_eps"].contains(&key.as_str()) || same(given, found),
            &format!("model.{key}"),
            || {
                format!(
                    "is {given}, but {} ({}) has {found}; leave the key out to take the file's",
                    path.display(),
                    file.layout()
                )
            },
        )?;
    }
    Ok(Completed { table, source: Some(Source { path, sha256, keys, channels, fit: toml::Table::new() }) })
}

/// Whether two values are equal; a float with a whole value is that integer.
fn same(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| value.as_float().or(value.as_integer().map(|n| n as f64));
    a == b || number(a).zip(number(b)).is_some_and(|(a, b)| a == b)
}

/// The checksum of a file; a plan reads it once per arm, and the file may be of gigabytes.
fn sha256(path: &Path, file: &Pretrained) -> String {
    type Key = (PathBuf, u64, Option<SystemTime>);
    static KNOWN: Mutex<BTreeMap<Key, String>> = Mutex::new(BTreeMap::new());
    let facts = std::fs::metadata(path).ok();
    let key = (path.to_owned(), facts.as_ref().map_or(0, |f| f.len()), facts.and_then(|f| f.modified().ok()));
    let known = || KNOWN.lock().expect("no code panics while it holds the checksums");
    if let Some(sha256) = known().get(&key) {
        return sha256.clone();
    }
    let sha256 = file.sha256();
    known().insert(key, sha256.clone());
    sha256
}
