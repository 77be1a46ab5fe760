//! The merged document of a sweep file, read: its frame (name, seeds, ...), its arms, their axes. What is wrong is collected.

use crate::axes::{self, Axis};
use crate::error::{SweepError, hint};
use crate::keys::{self, Place, RUN_TABLES};
use crate::node::{self, Map, Node};

/// What a sweep asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frame {
    pub name: String,
    pub question: String,
    pub baseline: String,
    pub metric: String,
    pub seeds: Vec<u64>,
    pub select: Vec<String>,
    /// `[study] primary`: the arm, and what it is compared with.
    pub primary: Option<[String; 2]>,
}

/// One `[[arm]]`, its own tables only, `--set` already over them.
#[derive(Debug, Clone)]
pub(crate) struct Arm {
    pub name: String,
    pub own: Map,
    pub axes: Vec<Axis>,
}

/// Reads the merged file, and collects what is wrong with it.
pub(crate) struct Reader<'a> {
    pub file: &'a str,
    pub root: &'a Map,
    pub problems: &'a mut Vec<SweepError>,
}

impl Reader<'_> {
    fn problem(&mut self, key: &str, problem: impl Into<String>) {
        let origin = node::origin_of(self.root, key);
        self.problems.push(SweepError::new(origin.as_deref().unwrap_or(self.file), key, problem));
    }

    pub(crate) fn frame(&mut self) -> Frame {
        let frame = Frame {
            name: self.text("name", Need::Required),
            question: self.text("question", Need::Optional),
            baseline: self.text("baseline", Need::Required),
            metric: self.text("metric", Need::Required),
            seeds: self.seeds(),
            select: self.select(),
            primary: self.primary(),
        };
        if !frame.name.is_empty() && frame.name.chars().all(|c| c == '.') {
            self.problem("name", format!("{:?} cannot be the name of a folder", frame.name));
        }
        if frame.name.chars().any(char::is_control) {
            self.problem("name", format!("must be one line of plain characters, but is {:?}", frame.name));
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

    fn primary(&mut self) -> Option<[String; 2]> {
        let node = self.root.get("study")?;
        let Some(study) = node.as_table() else {
            self.problem("study", format!("must be a table, but is {}", node.describe()));
            return None;
        };
        for key in study.keys().filter(|key| *key != "primary") {
            let near = hint(key, ["primary"]);
            self.problem(&keys::join("study", key), format!("unknown key `{key}` in [study]{near} Known: primary"));
        }
        let Some(node) = study.get("primary") else {
            self.problem("study", "says nothing; it needs primary = [\"arm\", \"baseline\"]");
            return None;
        };
        let names: Option<Vec<String>> =
            node.as_array().and_then(|nodes| nodes.iter().map(|n| n.as_str().map(str::to_owned)).collect());
        match names.map(<[String; 2]>::try_from) {
            Some(Ok([arm, other])) if arm == other => {
                self.problem("study.primary", format!("compares \"{arm}\" with itself"));
                None
            }
            Some(Ok(primary)) => Some(primary),
            _ => {
                let problem = "must be the names of two arms, [\"arm\", \"baseline\"], but is";
                self.problem("study.primary", format!("{problem} {}", node.text()));
                None
            }
        }
    }

    /// The axes of `[zip]` and `[grid]`, and whether they stand before the arms.
    pub(crate) fn factors(&mut self) -> (Vec<Axis>, bool) {
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

    pub(crate) fn arms(&mut self, run_set: &Map) -> Vec<Arm> {
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
    pub(crate) fn shared(&mut self) -> Map {
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
    let nameless = |problem: &str| {
        let problem = format!("the {}. [[arm]] has {problem}; it needs name = \"...\"", index + 1);
        vec![SweepError::new(&*list.origin, "arm.name", problem)]
    };
    let name = table.get("name").and_then(Node::as_str).filter(|name| !name.trim().is_empty());
    let name = name.ok_or_else(|| nameless("no name"))?;
    if name.chars().any(char::is_control) {
        return Err(nameless("a name with a line feed, a tab or the like"));
    }
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
