//! Axes: `{ sweep = [..] }` in an arm, lists under `[grid]`, lists walked together under `[zip]`.

use crate::error::SweepError;
use crate::keys::{self, Place, join};
use crate::node::{Item, Node};

/// One or (zipped) several keys with the values that they take together.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// Full dotted keys.
    pub keys: Vec<String>,
    /// Per point one value per key; at least one point.
    pub points: Vec<Vec<Node>>,
    /// Whether every arm has it.
    pub is_factor: bool,
    /// Whether its values take the place of `{ sweep = [..] }` in the arm.
    pub in_place: bool,
}

/// The axes written `{ sweep = [..] }` inside `node`, which stands at `key`, in file order.
pub(crate) fn sweeps(node: &Node, key: &str) -> Result<Vec<Axis>, Vec<SweepError>> {
    let mut found = Vec::new();
    let mut errors = Vec::new();
    walk(node, key, &mut found, &mut errors);
    if errors.is_empty() { Ok(found) } else { Err(errors) }
}

fn walk(node: &Node, key: &str, found: &mut Vec<Axis>, errors: &mut Vec<SweepError>) {
    let mut error = |problem: String| errors.push(SweepError::new(&*node.origin, key, problem));
    match &node.item {
        Item::Scalar { .. } => {}
        Item::Array(nodes) => {
            if nodes.iter().any(has_sweep) {
                error("an axis inside a list: sweep over whole lists, { sweep = [[..], [..]] }".to_owned());
            }
        }
        Item::Table(map) => match (map.get("sweep"), map.len()) {
            (None, _) => map.iter().for_each(|(inner, node)| walk(node, &join(key, inner), found, errors)),
            (Some(values), 1) => match list(values) {
                Ok(nodes) => {
                    let points = nodes.iter().map(|n| vec![n.clone()]).collect();
                    found.push(Axis { keys: vec![key.to_owned()], points, is_factor: false, in_place: true });
                }
                Err(problem) => error(problem),
            },
            (Some(_), _) => {
                let others: Vec<&str> = map.keys().map(String::as_str).filter(|k| *k != "sweep").collect();
                error(format!(
                    "an axis is a table with exactly the one key `sweep`, but here is also `{}`",
                    others.join("`, `")
                ));
            }
        },
    }
}

/// The axes of `[grid]`: one per list.
pub(crate) fn grid(node: &Node) -> Result<Vec<Axis>, Vec<SweepError>> {
    let lists = lists(node, "grid")?;
    let axis = |(key, nodes): (String, &[Node])| Axis {
        keys: vec![key],
        points: nodes.iter().map(|n| vec![n.clone()]).collect(),
        is_factor: true,
        in_place: false,
    };
    Ok(lists.into_iter().map(axis).collect())
}

/// The axis of a `[zip]`, which stands at `at`: its lists walked together. None of an empty one.
pub(crate) fn zip(node: &Node, at: &str, is_factor: bool) -> Result<Vec<Axis>, Vec<SweepError>> {
    let lists = lists(node, at)?;
    let Some(length) = lists.first().map(|(_, nodes)| nodes.len()) else { return Ok(Vec::new()) };
    if lists.iter().any(|(_, nodes)| nodes.len() != length) {
        let lengths: Vec<String> = lists.iter().map(|(key, nodes)| format!("{key}: {}", nodes.len())).collect();
        let problem = format!("its lists are walked together and must be equally long, but are {}", lengths.join(", "));
        return Err(vec![SweepError::new(&*node.origin, at, problem)]);
    }
    let points = (0..length).map(|i| lists.iter().map(|(_, nodes)| nodes[i].clone()).collect()).collect();
    let keys = lists.into_iter().map(|(key, _)| key).collect();
    Ok(vec![Axis { keys, points, is_factor, in_place: false }])
}

/// The lists of `[grid]` or `[zip]` with their full keys, nested tables flattened.
fn lists<'a>(node: &'a Node, at: &str) -> Result<Vec<(String, &'a [Node])>, Vec<SweepError>> {
    let Some(map) = node.as_table() else {
        return Err(vec![SweepError::new(
            &*node.origin,
            at,
            format!("must be a table of lists, but is {}", node.describe()),
        )]);
    };
    let mut errors = keys::unknown(map, Place::Axes, at);
    let mut found = Vec::new();
    for (key, node) in map.iter().filter(|(key, _)| keys::RUN_TABLES.contains(&key.as_str())) {
        flatten(node, key.clone(), at, &mut found, &mut errors);
    }
    if errors.is_empty() { Ok(found) } else { Err(errors) }
}

fn flatten<'a>(
    node: &'a Node,
    key: String,
    at: &str,
    found: &mut Vec<(String, &'a [Node])>,
    errors: &mut Vec<SweepError>,
) {
    if let Some(map) = node.as_table() {
        map.iter().for_each(|(inner, node)| flatten(node, join(&key, inner), at, found, errors));
        return;
    }
    match list(node) {
        Ok(nodes) => found.push((key, nodes)),
        Err(problem) => errors.push(SweepError::new(&*node.origin, join(at, &key), problem)),
    }
}

/// The values of an axis: a list of at least one, with no axis inside.
fn list(node: &Node) -> Result<&[Node], String> {
    let nodes = node.as_array().ok_or_else(|| format!("must be a list of values, but is {}", node.describe()))?;
    if nodes.is_empty() {
        return Err("must be a list of at least one value, but is empty".to_owned());
    }
    if nodes.iter().any(has_sweep) {
        return Err("an axis inside an axis; write one arm for each of the outer values".to_owned());
    }
    Ok(nodes)
}

fn has_sweep(node: &Node) -> bool {
    match &node.item {
        Item::Table(map) => map.contains_key("sweep") || map.values().any(has_sweep),
        Item::Array(nodes) => nodes.iter().any(has_sweep),
        Item::Scalar { .. } => false,
    }
}

/// Every combination of the axes' points, as the index into each; the last axis runs fastest. `None` if more than `limit`.
pub(crate) fn product(axes: &[&Axis], limit: usize) -> Option<Vec<Vec<usize>>> {
    let size = axes.iter().try_fold(1_usize, |size, axis| size.checked_mul(axis.points.len()))?;
    if size > limit {
        return None;
    }
    let mut points = vec![Vec::new()];
    for axis in axes {
        points =
            points.iter().flat_map(|p| (0..axis.points.len()).map(move |i| [p.as_slice(), &[i]].concat())).collect();
    }
    Some(points)
}
