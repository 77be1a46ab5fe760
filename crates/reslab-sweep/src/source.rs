//! A sweep file, read: what it extends, its profile and `--set` merged in, its frame (name, seeds, ...) checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reslab_record::Source;
use sha2::{Digest, Sha256};

use crate::axes::{self, Axis};
use crate::error::{SweepError, SweepErrors, hint};
use crate::identity::{canonical, hex};
use crate::keys::{self, Place, RUN_TABLES};
use crate::names::folder_safe;
use crate::node::{self, Item, Map, Node};
use crate::set;

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

/// What a sweep asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frame {
    pub name: String,
    pub question: String,
    pub baseline: String,
    pub metric: String,
    pub seeds: Vec<u64>,
    pub select: Vec<String>,
}

/// One `[[arm]]`, its own tables only, `--set` already over them.
#[derive(Debug, Clone)]
pub(crate) struct Arm {
    pub name: String,
    pub own: Map,
    pub axes: Vec<Axis>,
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

    /// The sweep's folder inside `--out`: `depth48`, `depth48-cpu`, `depth48-cpu+1a2b`.
    pub fn folder_name(&self) -> String {
        let mut name = folder_safe(&self.frame.name);
        if let Some(profile) = self.profile() {
            name = format!("{name}-{}", folder_safe(profile));
        }
        match self.set_hash() {
            Some(hash) => format!("{name}+{hash}"),
            None => name,
        }
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
    let bytes = fs::read(path).map_err(cannot)?;
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
            let problem = format!("no profile `{name}`{near} (the file has: {})", names.join(", "));
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

/// Reads the merged file, and collects what is wrong with it.
struct Reader<'a> {
    file: &'a str,
    root: &'a Map,
    problems: &'a mut Vec<SweepError>,
}

impl Reader<'_> {
    fn problem(&mut self, key: &str, problem: impl Into<String>) {
        let origin = node::origin_of(self.root, key);
        self.problems.push(SweepError::new(origin.as_deref().unwrap_or(self.file), key, problem));
    }

    fn frame(&mut self) -> Frame {
        let frame = Frame {
            name: self.text("name", Need::Required),
            question: self.text("question", Need::Optional),
            baseline: self.text("baseline", Need::Required),
            metric: self.text("metric", Need::Required),
            seeds: self.seeds(),
            select: self.select(),
        };
        if !frame.name.is_empty() && frame.name.chars().all(|c| c == '.') {
            self.problem("name", format!("{:?} cannot be the name of a folder", frame.name));
        }
        if !frame.metric.is_empty() && !keys::METRICS.contains(&frame.metric.as_str()) {
            let near = hint(&frame.metric, keys::METRICS);
            self.problem("metric", format!("no metric `{}`{near} (known: {})", frame.metric, keys::METRICS.join(", ")));
        }
        frame
    }

    fn text(&mut self, key: &str, need: Need) -> String {
        let problem = match self.root.get(key) {
            None if need == Need::Optional => return String::new(),
            None => "missing; every sweep file, or one that it extends, says it".to_owned(),
            Some(node) => match node.as_str() {
                Some(text) if need == Need::Optional || !text.trim().is_empty() => return text.to_owned(),
                _ => format!("must be a text in quotes, but is {}", node.describe()),
            },
        };
        self.problem(key, problem);
        String::new()
    }

    fn seeds(&mut self) -> Vec<u64> {
        let Some(node) = self.root.get("seeds") else {
            self.problem("seeds", "missing; a list such as [0, 1, 2]");
            return Vec::new();
        };
        let numbers: Option<Vec<u64>> = node.as_array().and_then(|nodes| {
            nodes.iter().map(|n| n.to_value().as_integer().and_then(|i| u64::try_from(i).ok())).collect()
        });
        let seeds = match numbers {
            Some(seeds) if !seeds.is_empty() => seeds,
            _ => {
                self.problem("seeds", format!("must be a list of whole numbers of at least 0, but is {}", node.text()));
                return Vec::new();
            }
        };
        if let Some(twice) = seeds.iter().enumerate().find(|(i, s)| seeds[..*i].contains(s)) {
            self.problem("seeds", format!("{} stands twice", twice.1));
        }
        seeds
    }

    fn select(&mut self) -> Vec<String> {
        let Some(node) = self.root.get("select") else { return Vec::new() };
        let words = node.as_array().and_then(|nodes| nodes.iter().map(|n| n.as_str().map(str::to_owned)).collect());
        words.unwrap_or_else(|| {
            self.problem("select", format!("must be a list of keys of [grid], but is {}", node.text()));
            Vec::new()
        })
    }

    /// The axes of `[zip]` and `[grid]`, and whether they stand before the arms.
    fn factors(&mut self) -> (Vec<Axis>, bool) {
        let mut factors: Vec<Axis> = Vec::new();
        let mut lead = false;
        for (position, (key, node)) in self.root.iter().enumerate() {
            if key != "grid" && key != "zip" {
                continue;
            }
            lead |= self.root.keys().position(|k| k == "arm").is_some_and(|arm| position < arm);
            let found = if key == "grid" { axes::grid(node) } else { axes::zip(node, "zip", true) };
            match found {
                Ok(found) => factors.extend(found),
                Err(errors) => self.problems.extend(errors),
            }
        }
        for (index, axis) in factors.iter().enumerate() {
            for key in axis.keys.iter().filter(|k| factors[..index].iter().any(|f| f.keys.contains(k))) {
                self.problem(key, "stands in [grid] and in [zip]");
            }
        }
        (factors, lead)
    }

    fn arms(&mut self, run_set: &Map) -> Vec<Arm> {
        let Some(node) = self.root.get("arm") else {
            self.problem("arm", "missing; a sweep has at least one [[arm]]");
            return Vec::new();
        };
        let tables: Option<Vec<&Map>> = node.as_array().and_then(|nodes| nodes.iter().map(Node::as_table).collect());
        let Some(tables) = tables.filter(|tables| !tables.is_empty()) else {
            self.problem("arm", "must be tables, at least one, written [[arm]] with two brackets");
            return Vec::new();
        };
        let mut arms: Vec<Arm> = Vec::new();
        for (index, table) in tables.into_iter().enumerate() {
            match arm(table, index, run_set, node) {
                Ok(arm) if arms.iter().any(|known| known.name == arm.name) => {
                    self.problem(
                        "arm",
                        format!("two arms are named \"{}\"; names are what tables and --arm go by", arm.name),
                    );
                }
                Ok(arm) => arms.push(arm),
                Err(errors) => self.problems.extend(errors),
            }
        }
        arms
    }

    /// The tables that all arms share.
    fn shared(&mut self) -> Map {
        let mut shared = Map::new();
        for (key, node) in self.root.iter().filter(|(key, _)| RUN_TABLES.contains(&key.as_str())) {
            if let Err(problem) = must_be_table(key, node) {
                self.problem(key, problem);
                continue;
            }
            for axis in axes::sweeps(node, key).unwrap_or_default() {
                let key = axis.keys.join(", ");
                self.problem(
                    &key,
                    format!(
                        "{{ sweep = [..] }} stands in an arm; for all arms write it under [grid]: \"{key}\" = [..]"
                    ),
                );
            }
            shared.insert(key.clone(), node.clone());
        }
        shared
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

fn must_be_table(key: &str, node: &Node) -> Result<(), String> {
    let is_off = key == "drop_path" && node.as_str() == Some("none");
    if node.as_table().is_some() || is_off {
        return Ok(());
    }
    Err(format!("must be a table, but is {}", node.describe()))
}

/// Reads one `[[arm]]`; `list` is the node of all arms, which says the file.
fn arm(table: &Map, index: usize, run_set: &Map, list: &Node) -> Result<Arm, Vec<SweepError>> {
    let Some(name) = table.get("name").and_then(Node::as_str).filter(|n| !n.trim().is_empty() && !n.contains('\n'))
    else {
        let problem = format!("the {}. [[arm]] has no name; it needs name = \"...\"", index + 1);
        return Err(vec![SweepError::new(&*list.origin, "arm.name", problem)]);
    };
    let mut errors = keys::unknown(table, Place::Arm, "");
    let mut own = Map::new();
    let mut zipped = Vec::new();
    for (key, node) in table {
        if key == "zip" {
            axes::zip(node, "zip", false).map_or_else(|e| errors.extend(e), |found| zipped.extend(found));
        } else if RUN_TABLES.contains(&key.as_str()) {
            own.insert(key.clone(), node.clone());
        }
    }
    node::merge(&mut own, run_set.clone());
    let mut found = Vec::new();
    for (key, node) in &own {
        if let Err(problem) = must_be_table(key, node) {
            errors.push(SweepError::new(&*node.origin, key.clone(), problem));
        }
        axes::sweeps(node, key).map_or_else(|e| errors.extend(e), |axes| found.extend(axes));
    }
    found.extend(zipped);
    if errors.is_empty() {
        return Ok(Arm { name: name.to_owned(), own, axes: found });
    }
    Err(errors.into_iter().map(|e| e.in_arm(name)).collect())
}
