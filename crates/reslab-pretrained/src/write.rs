//! A network written as other programs read it: the table of [`crate::schema`], the other way.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use reslab_record::{write_atomic, write_atomic_with};

use crate::hints::{NORM_EPS, NUM_HEADS, POSITION, ROPE_BASE};
use crate::schema::{Fill, Schema, Theirs};
use crate::spelling::Spelling;
use crate::{
    Architecture, Dtype, KeyReport, Layout, Position, PretrainedError, Weight, WrongShape, config_json, target,
};

/// Writes a network's weights in a layout of timm or transformers: a temporary file, fsync, rename. For transformers
/// a `config.json` is written beside it, so that `from_pretrained` opens the folder.
///
/// What the network has nothing for, and the other program wants to find, is written so that the function is the same:
/// a mask token, a missing key bias or positions of registers as zeros, a missing gamma as ones.
///
/// # Errors
/// The layout has no place for something of the network; weights are missing, too many or of another shape; or the file
/// can't be written.
pub fn write<'a>(
    path: &Path,
    layout: Layout,
    network: &Architecture,
    weights: impl IntoIterator<Item = Weight<'a>>,
) -> Result<(), PretrainedError> {
    target::check(layout, network)?;
    let weights: BTreeMap<String, Weight<'a>> = weights.into_iter().map(|w| (w.name.clone(), w)).collect();
    let schema = Schema::new(layout, network, Spelling::to_write(layout, network));
    check_weights(path, layout, &schema, &weights)?;
    let file = File::new(&schema, &weights);
    let header = file.header(layout, network);
    write_atomic_with(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        file.tensors.iter().try_for_each(|tensor| tensor.write(&weights, out))
    })?;
    if let Some(config) = config_json::of(layout, network, file.tensors[0].dtype) {
        write_atomic(&path.with_file_name("config.json"), config.as_bytes())?;
    }
    Ok(())
}

/// Every parameter that the layout has a place for is there, in its shape, and no other is.
fn check_weights(
    path: &Path,
    layout: Layout,
    schema: &Schema,
    weights: &BTreeMap<String, Weight>,
) -> Result<(), PretrainedError> {
    let mut report =
        KeyReport { path: path.to_owned(), layout: format!("to be written as {layout}"), ..KeyReport::default() };
    let known: BTreeMap<&str, &Vec<usize>> = schema.ours.iter().map(|ours| (ours.name.as_str(), &ours.shape)).collect();
    for (name, weight) in weights {
        match known.get(name.as_str()) {
            None => report.unknown.push((name.clone(), None)),
            Some(expected) if **expected != weight.shape => {
                let (found, expected) = (weight.shape.clone(), (*expected).clone());
                report.shapes.push(WrongShape { key: name.clone(), found, expected });
            }
            Some(_) => {}
        }
    }
    let missing = schema.ours.iter().filter(|ours| !weights.contains_key(&ours.name));
    report.missing.extend(missing.map(|ours| format!("{} {:?}", ours.name, ours.shape)));
    if report.is_empty() { Ok(()) } else { Err(PretrainedError::Keys(Box::new(report))) }
}

/// Elements `at..at + len` of a tensor of the file, and where they are taken from: a parameter, at an element.
#[derive(Debug)]
struct Segment<'a> {
    at: usize,
    len: usize,
    name: &'a str,
    from: usize,
}

/// A tensor to be written.
#[derive(Debug)]
struct Tensor<'a> {
    theirs: &'a Theirs,
    dtype: Dtype,
    segments: Vec<Segment<'a>>,
}

#[derive(Debug)]
struct File<'a> {
    tensors: Vec<Tensor<'a>>,
}

impl<'a> File<'a> {
    /// Wide types first, so that every tensor is aligned; then by key.
    fn new(schema: &'a Schema, weights: &BTreeMap<String, Weight>) -> File<'a> {
        let mut segments: BTreeMap<&str, Vec<Segment>> = BTreeMap::new();
        for ours in &schema.ours {
            let mut from = 0;
            for piece in &ours.pieces {
                let segment = Segment { at: piece.at, len: piece.len, name: &ours.name, from };
                segments.entry(&piece.key).or_default().push(segment);
                from += piece.len;
            }
        }
        // Where a tensor has no parameter its type is that of the first: a network is of one type.
        let first = weights.values().next().map_or(Dtype::F32, |weight| weight.dtype);
        let mut tensors: Vec<Tensor> = schema
            .theirs
            .iter()
            .map(|theirs| {
                let mut segments = segments.remove(theirs.key.as_str()).unwrap_or_default();
                segments.sort_by_key(|segment| segment.at);
                let dtype = segments.first().map_or(first, |segment| weights[segment.name].dtype);
                Tensor { theirs, dtype, segments }
            })
            .collect();
        tensors.sort_by(|a, b| b.dtype.size().cmp(&a.dtype.size()).then_with(|| a.theirs.key.cmp(&b.theirs.key)));
        File { tensors }
    }

    fn header(&self, layout: Layout, network: &Architecture) -> String {
        let mut header = serde_json::Map::new();
        header.insert("__metadata__".into(), serde_json::json!(metadata(network)));
        let mut start = 0;
        for tensor in &self.tensors {
            let shape = &tensor.theirs.shape;
            let end = start + shape.iter().product::<usize>() * tensor.dtype.size();
            let entry = serde_json::json!({"dtype": tensor.dtype.name(), "shape": shape, "data_offsets": [start, end]});
            header.insert(key_in_file(layout, network, &tensor.theirs.key), entry);
            start = end;
        }
        let mut text = serde_json::Value::Object(header).to_string();
        // The data starts at a multiple of 8, which the format asks writers to see to.
        let padding = text.len().next_multiple_of(8) - text.len();
        text.extend(std::iter::repeat_n(' ', padding));
        text
    }
}

impl Tensor<'_> {
    fn write(&self, weights: &BTreeMap<String, Weight>, out: &mut dyn Write) -> io::Result<()> {
        let size = self.dtype.size();
        let mut next = 0;
        for segment in &self.segments {
            self.fill(segment.at - next, out)?;
            let weight = &weights[segment.name];
            let from = segment.from * size;
            let bytes = &weight.bytes[from..from + segment.len * size];
            if weight.dtype == self.dtype {
                out.write_all(bytes)?;
            } else {
                return Err(io::Error::other(format!("{} is of two types", self.theirs.key)));
            }
            next = segment.at + segment.len;
        }
        self.fill(self.theirs.shape.iter().product::<usize>() - next, out)
    }

    fn fill(&self, count: usize, out: &mut dyn Write) -> io::Result<()> {
        let value = if self.theirs.fill == Some(Fill::Ones) { 1.0 } else { 0.0 };
        out.write_all(&self.dtype.of_f32(&vec![value; count]))
    }
}

/// What the shapes do not tell, for our own reading; other programs pass over it.
fn metadata(network: &Architecture) -> BTreeMap<&'static str, String> {
    let mut metadata = BTreeMap::from([("format", "pt".to_owned())]);
    metadata.extend(network.num_heads.map(|heads| (NUM_HEADS, heads.to_string())));
    metadata.extend(network.norm_eps.map(|eps| (NORM_EPS, format!("{eps:?}"))));
    match network.position {
        Position::Rope { base } => metadata.extend([(POSITION, "rope".to_owned()), (ROPE_BASE, format!("{base:?}"))]),
        Position::None => metadata.extend([(POSITION, "none".to_owned())]),
        Position::All | Position::Patches => {}
    }
    metadata
}

/// transformers wraps a network with a classifier, under a prefix of the network's own.
fn key_in_file(layout: Layout, network: &Architecture, key: &str) -> String {
    let prefix = match layout {
        Layout::HfDinov2 => "dinov2",
        Layout::HfDinov2WithRegisters => "dinov2_with_registers",
        _ => return key.to_owned(),
    };
    match key.strip_prefix("head.") {
        Some(end) => format!("classifier.{end}"),
        None if network.classes.is_some() => format!("{prefix}.{key}"),
        None => key.to_owned(),
    }
}
