//! A sweep file, read: what it extends, its profile and `--set` merged in, its frame (name, seeds, ...) checked.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reslab_record::Source;
use sha2::{Digest, Sha256};

use crate::axes::Axis;
use crate::error::{SweepError, SweepErrors, hint};
use crate::identity::{canonical, hex};
use crate::keys::{self, Place, RUN_TABLES};
use crate::names::folder_safe;
use crate::node::{self, Item, Map, Node};
use crate::reader::{Arm, Frame, Reader};
use crate::set;

/// Bytes that no sweep file reaches; a device gives them without end.
const LARGEST: u64 = 16_000_000;

/// What the command line changes in a sweep file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--set key=value`, as given, in order.
    pub set: Vec<String>,
    /// `--profile`.
    pub profile: ProfileChoice,
}

/// Which profile of a file is merged over it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProfileChoice {
    /// The one named like the device kind of the runs, if the file has it.
    #[default]
    Auto,
    /// The file as it stands.
    None,
    /// This one; a file without it is refused.
    Named(String),
}

impl ProfileChoice {
    /// The choice of `--profile NAME`: absent is `Auto`, `none` is `None`.
    pub fn from_option(name: Option<&str>) -> Self {
        match name {
            None => Self::Auto,
            Some("none") => Self::None,
            Some(name) => Self::Named(name.to_owned()),
        }
    }
}

/// A sweep file, merged. [`crate::expand`] turns it into a plan; errors found so far are reported there, with all others.
#[derive(Debug, Clone)]
pub struct SweepFile {
    pub(crate) file: String,
    pub(crate) source: Source,
    pub(crate) overrides: Overrides,
    pub(crate) profile: Option<String>,
    pub(crate) frame: Frame,
    pub(crate) shared: Map,
    pub(crate) arms: Vec<Arm>,
    /// The axes of `[zip]` and `[grid]`, which every arm has, in file order.
    pub(crate) factors: Vec<Axis>,
    /// Whether those stand before the arms in the file, and so come first in a name.
    pub(crate) factors_lead: bool,
    pub(crate) problems: Vec<SweepError>,
}

impl SweepFile {
    /// The sweep's name.
    pub fn name(&self) -> &str {
        &self.frame.name
    }

    /// The profile that was merged over the file, if any.
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// The one line that announces the profile: also where there are profiles, but none applies.
    pub fn announcement(&self) -> Option<String> {
        let profile = self.profile()?;
        let how = match self.overrides.profile {
            ProfileChoice::Auto => format!("the runs are on {profile}; --profile none takes the file as it stands"),
            _ => "as asked".to_owned(),
        };
        Some(format!("{}: profile `{profile}` is merged over the file ({how})", self.file))
    }

    /// The sweep's folder in the results: `depth48`, `depth48-cpu`, `depth48-cpu+1a2b` where `--set` changes it.
    pub fn folder_name(&self) -> String {
        let name = self.folder_name_without_set();
        match self.set_hash() {
            Some(hash) => format!("{name}+{hash}"),
            None => name,
        }
    }

    /// The same where the user gave the place of the results (`--out`), so that `--set` needs none of its own.
    pub fn folder_name_without_set(&self) -> String {
        let name = folder_safe(&self.frame.name);
        self.profile().map_or_else(|| name.clone(), |profile| format!("{name}-{}", folder_safe(profile)))
    }

    /// Four hex digits of what `--set` says, whatever its order and writing.
    fn set_hash(&self) -> Option<String> {
        let mut all = Map::new();
        for entry in &self.overrides.set {
            node::merge(&mut all, set::parse(entry).ok()?);
        }
        let text = canonical(&toml::Value::Table(node::to_table(&all)));
        (!all.is_empty()).then(|| hex(&Sha256::digest(text), 4))
    }
}

/// Reads a sweep file for runs on `device_kind` (`cpu` or `cuda`) and merges what it extends, its profile and `--set`.
///
/// # Errors
/// Where the file, or one that it extends, cannot be read or parsed. All else is reported by [`crate::expand`].
pub fn load(path: &Path, overrides: &Overrides, device_kind: &str) -> Result<SweepFile, SweepErrors> {
    let file = path.display().to_string();
    let mut problems = Vec::new();
    let (mut root, sha256) = read_chain(path, &mut Vec::new(), &mut problems)?;
    let profile = apply_profile(&mut root, &overrides.profile, device_kind, &mut problems);
    let run_set = apply_set(&mut root, &overrides.set, &mut problems);
    let mut reader = Reader { file: &file, root: &root, problems: &mut problems };
    let frame = reader.frame();
    let (factors, factors_lead) = reader.factors();
    let arms = reader.arms(&run_set);
    let shared = reader.shared();
    let shown = if path.is_absolute() { path.file_name().map_or(path, Path::new) } else { path };
    let source = Source { path: shown.display().to_string(), sha256 };
    let overrides = overrides.clone();
    Ok(SweepFile { file, source, overrides, profile, frame, shared, arms, factors, factors_lead, problems })
}

/// The file over what it extends, and the file's own checksum.
fn read_chain(
    path: &Path,
    stack: &mut Vec<PathBuf>,
    problems: &mut Vec<SweepError>,
) -> Result<(Map, String), SweepError> {
    let file = path.display().to_string();
    let cannot = |e: std::io::Error| SweepError::new(&file, "", format!("cannot be read: {e}"));
    let mut bytes = Vec::new();
    fs::File::open(path).and_then(|open| open.take(LARGEST + 1).read_to_end(&mut bytes)).map_err(cannot)?;
    if bytes.len() as u64 > LARGEST {
        return Err(SweepError::new(
            &file,
            "",
            format!("is larger than {} MB, so it is no sweep file", LARGEST / 1_000_000),
        ));
    }
    let text = std::str::from_utf8(&bytes)
        .map_err(|e| SweepError::new(&file, "", format!("is not UTF-8 text (byte {})", e.valid_up_to())))?;
    let mut map = node::parse(text, &Arc::from(file.as_str()))?;
    problems.extend(keys::unknown(&map, Place::File, ""));
    let sha256 = hex(&Sha256::digest(&bytes), 64);
    let Some(extends) = map.remove("extends") else { return Ok((map, sha256)) };
    let base = extends.as_str().ok_or_else(|| {
        SweepError::new(&file, "extends", format!("must be the path of a file, but is {}", extends.describe()))
    })?;
    let base_path = path.parent().unwrap_or(Path::new("")).join(base);
    stack.push(fs::canonicalize(path).map_err(cannot)?);
    let real = fs::canonicalize(&base_path)
        .map_err(|e| SweepError::new(&file, "extends", format!("{}: cannot be read: {e}", base_path.display())))?;
    // Neither a folder nor a device that never ends.
    if !real.is_file() {
        return Err(SweepError::new(&file, "extends", format!("{base:?} is no file; it must be the path of one")));
    }
    if stack.contains(&real) {
        let problem = format!("{} extends itself, in a circle of {} files", base_path.display(), stack.len());
        return Err(SweepError::new(&file, "extends", problem));
    }
    let (mut merged, _) = read_chain(&base_path, stack, problems)?;
    node::merge(&mut merged, map);
    Ok((merged, sha256))
}

/// Merges the chosen profile over the file; every profile's keys are checked, chosen or not.
fn apply_profile(
    root: &mut Map,
    choice: &ProfileChoice,
    device_kind: &str,
    problems: &mut Vec<SweepError>,
) -> Option<String> {
    let mut profiles = Map::new();
    if let Some(node) = root.remove("profile") {
        match node.item {
            Item::Table(map) => profiles = map,
            _ => problems.push(SweepError::new(&*node.origin, "profile", "must be tables: [profile.cpu]")),
        }
    }
    for (name, node) in &profiles {
        let key = keys::join("profile", name);
        if name == "none" {
            let problem = "`--profile none` takes the file as it stands, so this one could never be chosen; rename it";
            problems.push(SweepError::new(&*node.origin, &*key, problem));
        }
        match node.as_table() {
            Some(map) => problems.extend(keys::unknown(map, Place::Profile, &key)),
            None => problems.push(SweepError::new(&*node.origin, key, "must be a table")),
        }
    }
    let name = match choice {
        ProfileChoice::None => return None,
        ProfileChoice::Auto => device_kind,
        ProfileChoice::Named(name) => name,
    };
    let Some(Node { item: Item::Table(map), .. }) = profiles.get(name) else {
        if let ProfileChoice::Named(name) = choice {
            let names: Vec<&str> = profiles.keys().map(String::as_str).collect();
            let near = hint(name, names.iter().copied());
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let problem = format!("no profile `{name}`{near} (the file has: {known})");
            problems.push(SweepError::new("--profile", "", problem));
        }
        return None;
    };
    node::merge(root, map.clone());
    Some(name.to_owned())
}

/// Merges what `--set` says of the frame over the file; returns what it says of the runs, which goes over every arm.
fn apply_set(root: &mut Map, entries: &[String], problems: &mut Vec<SweepError>) -> Map {
    let mut runs = Map::new();
    for entry in entries {
        match set::parse(entry) {
            Ok(map) => {
                problems.extend(keys::unknown(&map, Place::Set, ""));
                for (key, node) in map {
                    let into = if RUN_TABLES.contains(&key.as_str()) { &mut runs } else { &mut *root };
                    node::merge(into, node::nest(&key, node));
                }
            }
            Err(error) => problems.push(error),
        }
    }
    runs
}
