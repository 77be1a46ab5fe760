//! Files of any layout, made from the lists in `tests/keys/`: one `key<TAB>shape` per line, where `{12}` stands for the
//! numbers of 12 blocks.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use reslab_pretrained::{Pretrained, PretrainedError};

/// A tensor to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    pub dtype: &'static str,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Tensor {
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn f32(shape: &[usize], values: Vec<f32>) -> Tensor {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        Tensor { dtype: "F32", shape: shape.to_vec(), bytes: values.iter().flat_map(|x| x.to_le_bytes()).collect() }
    }
}

/// Keys and shapes of a list.
pub fn list(text: &str) -> Vec<(String, Vec<usize>)> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (key, shape) = line.split_once('\t').expect("a key and a shape");
        let shape: Vec<usize> = shape.split('x').filter(|s| !s.is_empty()).map(|s| s.parse().unwrap()).collect();
        match key.split_once('{') {
            None => found.push((key.to_owned(), shape)),
            Some((before, rest)) => {
                let (count, after) = rest.split_once('}').unwrap();
                let count: usize = count.parse().unwrap();
                found.extend((0..count).map(|i| (format!("{before}{i}{after}"), shape.clone())));
            }
        }
    }
    found
}

pub fn keys_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys").join(name)
}

pub fn read_list(name: &str) -> Vec<(String, Vec<usize>)> {
    list(&fs::read_to_string(keys_file(name)).unwrap())
}

/// The numbers of a buffer that must be right; `None` for a weight.
pub fn buffer(key: &str, numel: usize) -> Option<Vec<f32>> {
    if key.ends_with("bias_mask") {
        let third = numel / 3;
        return Some((0..numel).map(|i| if (third..2 * third).contains(&i) { 0.0 } else { 1.0 }).collect());
    }
    if key.ends_with("rope_embed.periods") {
        return Some((0..numel).map(|k| 100_f32.powf(k as f32 / numel as f32)).collect());
    }
    None
}

/// A small file in memory, to be damaged.
#[derive(Debug, Clone, Default)]
pub struct Net {
    pub tensors: BTreeMap<String, Tensor>,
    pub metadata: BTreeMap<String, String>,
}

impl Net {
    /// Every tensor of a list, filled with numbers that are all different.
    pub fn of(list: &[(String, Vec<usize>)]) -> Net {
        let mut next = 0.0;
        let mut net = Net::default();
        for (key, shape) in list {
            let numel = shape.iter().product();
            let numbers = (0..numel).map(|i| next + i as f32).collect();
            net.tensors.insert(key.clone(), Tensor::f32(shape, buffer(key, numel).unwrap_or(numbers)));
            next += numel as f32;
        }
        net
    }

    pub fn read(name: &str) -> Net {
        Net::of(&read_list(name))
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        let tensor = self.tensors.remove(from).unwrap_or_else(|| panic!("no {from}"));
        self.tensors.insert(to.to_owned(), tensor);
    }

    pub fn with_prefix(&self, prefix: &str) -> Net {
        let tensors = self.tensors.iter().map(|(key, t)| (format!("{prefix}{key}"), t.clone())).collect();
        Net { tensors, metadata: self.metadata.clone() }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let entries: Vec<(&String, &str, &[usize], usize)> =
            self.tensors.iter().map(|(key, t)| (key, t.dtype, &t.shape[..], t.bytes.len())).collect();
        let mut bytes = header(&entries, &self.metadata);
        self.tensors.values().for_each(|t| bytes.extend(&t.bytes));
        bytes
    }

    pub fn open(&self) -> Result<Pretrained, PretrainedError> {
        Pretrained::decode(Path::new("x.safetensors"), self.bytes())
    }

    pub fn refusal(&self) -> String {
        self.open().expect_err("it should be refused").to_string()
    }
}

/// Length and text of a header.
pub fn header(entries: &[(&String, &str, &[usize], usize)], metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let mut start = 0;
    let mut fields: Vec<String> = Vec::new();
    if !metadata.is_empty() {
        fields.push(format!("\"__metadata__\":{}", serde_json::to_string(metadata).unwrap()));
    }
    for (key, dtype, shape, len) in entries {
        let end = start + len;
        fields.push(format!("{key:?}:{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{start},{end}]}}"));
        start = end;
    }
    let text = format!("{{{}}}", fields.join(","));
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A file of these shapes in half precision, all zeros but for buffers: it takes next to no space on the disk.
pub fn sparse(path: &Path, list: &[(String, Vec<usize>)]) {
    let numel = |shape: &[usize]| shape.iter().product::<usize>();
    let mut sorted: Vec<&(String, Vec<usize>)> = list.iter().collect();
    sorted.sort();
    let entries: Vec<_> = sorted.iter().map(|(key, shape)| (key, "BF16", &shape[..], 2 * numel(shape))).collect();
    let header = header(&entries, &BTreeMap::new());
    let mut file = File::create(path).unwrap();
    file.write_all(&header).unwrap();
    let mut at = header.len();
    for (key, shape) in sorted {
        if let Some(values) = buffer(key, numel(shape)) {
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            // The upper half of a single is a bfloat16.
            let halves: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()[2..].to_vec()).collect();
            file.write_all(&halves).unwrap();
        }
        at += 2 * numel(shape);
    }
    file.set_len(at as u64).unwrap();
}

/// Elements of the file that parameters take, and that are ignored.
pub fn elements(pretrained: &Pretrained, list: &[(String, Vec<usize>)]) -> (usize, usize) {
    let numel = |key: &str| list.iter().find(|(k, _)| k == key).unwrap().1.iter().product::<usize>();
    let mapped = pretrained.mapped().iter().flat_map(|m| &m.parts).map(|part| part.numel()).sum();
    let ignored = pretrained.ignored().iter().map(|(key, _)| match key.split_once('[') {
        None => numel(key),
        Some((_, range)) => {
            let (from, to) = range.trim_end_matches(']').split_once("..").unwrap();
            to.parse::<usize>().unwrap() - from.parse::<usize>().unwrap()
        }
    });
    (mapped, ignored.sum())
}
