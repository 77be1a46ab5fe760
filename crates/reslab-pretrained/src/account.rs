//! The file's keys against the table of its layout: every key is a parameter or ignored for a reason, every parameter is
//! filled, or both sides are listed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use reslab_config::nearest;

use crate::file::Stored;
use crate::ignored;
use crate::keys::Keys;
use crate::schema::{Fill, Schema, Theirs};
use crate::{Dtype, KeyReport, Layout, Mapped, Part, PretrainedError, WrongShape};

/// So many unknown keys are looked at for their nearest known one, which takes time for each.
const NEAREST: usize = 8;

/// What became of the keys.
pub(crate) struct Account {
    pub mapped: Vec<Mapped>,
    pub ignored: Vec<(String, &'static str)>,
}

/// A file and what it was taken for.
pub(crate) struct Read<'a> {
    pub path: &'a Path,
    pub layout: Layout,
    pub keys: &'a Keys<'a>,
}

impl Read<'_> {
    /// An empty report about this file.
    pub fn report(&self) -> KeyReport {
        KeyReport { path: self.path.to_owned(), layout: self.layout.to_string(), ..KeyReport::default() }
    }

    /// Settles every key by the table.
    pub fn settle(&self, schema: &Schema) -> Result<Account, PretrainedError> {
        let mut report = self.report();
        let mut ignored = Vec::new();
        let known: BTreeSet<&str> = schema.theirs.iter().map(|theirs| theirs.key.as_str()).collect();
        let needed: BTreeSet<&str> = schema.theirs.iter().filter(|t| !t.optional).map(|t| t.key.as_str()).collect();
        for (name, (key, _)) in &self.keys.map {
            match ignored::reason(self.layout.family(), name) {
                _ if needed.contains(name.as_str()) => {}
                Some(reason) => ignored.push(((*key).to_owned(), reason)),
                None if known.contains(name.as_str()) => {
                    ignored.push(((*key).to_owned(), "stands for nothing in this network"))
                }
                None => report.unknown.push(((*key).to_owned(), None)),
            }
        }
        for (key, near) in report.unknown.iter_mut().take(NEAREST) {
            *near = nearest(key, known.iter().copied()).map(str::to_owned);
        }
        for theirs in schema.theirs.iter().filter(|theirs| !theirs.optional) {
            match self.keys.map.get(&theirs.key) {
                None => report.missing.push(format!("{} {:?}", theirs.key, theirs.shape)),
                Some((key, stored)) => fits(&mut report, theirs, key, stored),
            }
        }
        if !report.is_empty() {
            return Err(PretrainedError::Keys(Box::new(report)));
        }
        let mapped = self.map(schema);
        ignored.extend(self.rest(schema, &mut report));
        if report.is_empty() { Ok(Account { mapped, ignored }) } else { Err(PretrainedError::Keys(Box::new(report))) }
    }

    /// Our parameters, each as pieces of the file.
    fn map(&self, schema: &Schema) -> Vec<Mapped> {
        let part = |key: &str, at: usize, len: usize| {
            let (key, stored) = self.keys.map[key];
            let dtype = Dtype::from_name(&stored.dtype).expect("the types were checked");
            let start = stored.range.start + at * dtype.size();
            Part::new(key, dtype, stored.file.clone(), start..start + len * dtype.size())
        };
        let mapped = |ours: &crate::schema::Ours| Mapped {
            name: ours.name.clone(),
            shape: ours.shape.iter().map(|size| *size as i64).collect(),
            parts: ours.pieces.iter().map(|piece| part(&piece.key, piece.at, piece.len)).collect(),
        };
        schema.ours.iter().map(mapped).collect()
    }

    /// Elements that no parameter takes: named with the reason, or refused where they are not what they must be.
    fn rest(&self, schema: &Schema, report: &mut KeyReport) -> Vec<(String, &'static str)> {
        let mut taken: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
        for piece in schema.ours.iter().flat_map(|ours| &ours.pieces) {
            taken.entry(&piece.key).or_default().push((piece.at, piece.at + piece.len));
        }
        let mut named = Vec::new();
        for theirs in schema.theirs.iter().filter(|theirs| !theirs.optional && theirs.fill.is_some()) {
            let (key, stored) = self.keys.map[&theirs.key];
            for (from, to) in gaps(taken.remove(theirs.key.as_str()).unwrap_or_default(), stored.numel()) {
                let range = format!("{key}[{from}..{to}]");
                match theirs.fill {
                    Some(Fill::Unread(reason)) => named.push((range, reason)),
                    _ if values(stored)[from..to].iter().all(|x| *x == 0.0) => {
                        named.push((range, "zeros that this network has no parameter for"));
                    }
                    _ => {
                        report.values.push((range, "is not zero, and this network has no parameter for it".to_owned()))
                    }
                }
            }
        }
        named
    }
}

/// What no range covers of `0..end`.
fn gaps(mut ranges: Vec<(usize, usize)>, end: usize) -> Vec<(usize, usize)> {
    ranges.sort_unstable();
    ranges.push((end, end));
    let mut from = 0;
    let mut found = Vec::new();
    for (start, stop) in ranges {
        if start > from {
            found.push((from, start));
        }
        from = stop;
    }
    found
}

fn fits(report: &mut KeyReport, theirs: &Theirs, key: &str, stored: &Stored) {
    if Dtype::from_name(&stored.dtype).is_none() {
        report.dtypes.push((key.to_owned(), stored.dtype.clone()));
    }
    if stored.shape != theirs.shape {
        let (found, expected) = (stored.shape.clone(), theirs.shape.clone());
        report.shapes.push(WrongShape { key: key.to_owned(), found, expected });
    }
}

/// The numbers of a tensor; none of one that is no weight.
pub(crate) fn values(stored: &Stored) -> Vec<f32> {
    match Dtype::from_name(&stored.dtype) {
        Some(dtype) => dtype.to_f32(stored.bytes()),
        None => Vec::new(),
    }
}
