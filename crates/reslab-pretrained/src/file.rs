//! Safetensors files as bytes in memory maps: which tensors there are and where they lie.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;
use reslab_record::{SafetensorsHeader, TensorEntry, pickled, split_safetensors};

use crate::PretrainedError;

/// The bytes of a file.
#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

/// A tensor where it lies.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub dtype: String,
    pub shape: Vec<usize>,
    pub file: Arc<Bytes>,
    pub range: Range<usize>,
}

impl Stored {
    /// Elements; the header's check has seen that they fit into memory.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }
}

/// All tensors of a checkpoint, which may be several files.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    pub stored: BTreeMap<String, Stored>,
    pub metadata: BTreeMap<String, String>,
    pub files: Vec<(PathBuf, Arc<Bytes>)>,
}

impl Tensors {
    /// Maps a file and adds what is in it.
    pub fn add_file(&mut self, path: &Path) -> Result<(), PretrainedError> {
        let file = File::open(path).map_err(PretrainedError::io(path, "open"))?;
        let metadata = file.metadata().map_err(PretrainedError::io(path, "read"))?;
        if !metadata.is_file() {
            return Err(PretrainedError::broken(path, "is no file"));
        }
        let bytes = if metadata.len() == 0 {
            Bytes::Owned(Vec::new())
        } else {
            // SAFETY: the map is only read. That no other program shortens the file meanwhile is asked in the crate's doc.
            Bytes::Mapped(unsafe { Mmap::map(&file) }.map_err(PretrainedError::io(path, "map"))?)
        };
        self.add_bytes(path, bytes)
    }

    /// Takes the header of some bytes apart and adds the tensors in them.
    pub fn add_bytes(&mut self, path: &Path, bytes: Bytes) -> Result<(), PretrainedError> {
        let broken = |problem: String| PretrainedError::broken(path, problem);
        if bytes.is_empty() {
            return Err(broken("the file is empty".to_owned()));
        }
        if let Some(kind) = pickled(&bytes) {
            return Err(PretrainedError::Pickle { path: path.to_owned(), kind });
        }
        let (SafetensorsHeader { metadata, tensors }, data) =
            split_safetensors(&bytes).map_err(|problem| broken(format!("torn or corrupt: {problem}")))?;
        let start = bytes.len() - data.len();
        let bytes = Arc::new(bytes);
        for (key, TensorEntry { dtype, shape, data_offsets: (from, to) }) in tensors {
            check_size(&dtype, &shape, to - from).map_err(|problem| broken(format!("{key} {problem}")))?;
            let stored = Stored { dtype, shape, file: bytes.clone(), range: start + from..start + to };
            if self.stored.insert(key.clone(), stored).is_some() {
                return Err(broken(format!("{key} stands in another file too")));
            }
        }
        self.metadata.extend(metadata);
        self.files.push((path.to_owned(), bytes));
        Ok(())
    }
}

/// Bits of an element by the format's names; types that are not known are no weights, and their size is not checked.
fn bits(dtype: &str) -> Option<usize> {
    Some(match dtype {
        "F64" | "I64" | "U64" | "C64" => 64,
        "F32" | "I32" | "U32" => 32,
        "F16" | "BF16" | "I16" | "U16" => 16,
        "BOOL" | "U8" | "I8" | "F8_E4M3" | "F8_E5M2" | "F8_E8M0" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => 8,
        _ => return None,
    })
}

/// That a shape fits its bytes, and its number of elements into memory.
fn check_size(dtype: &str, shape: &[usize], bytes: usize) -> Result<(), String> {
    let numel = shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
    // Zero anywhere makes the product zero, but the sizes before it may overflow.
    let numel = if shape.contains(&0) { Some(0) } else { numel };
    let expected = numel.zip(bits(dtype)).map(|(numel, bits)| numel.checked_mul(bits / 8));
    match (numel, expected) {
        (None, _) | (_, Some(None)) => Err(format!("of shape {shape:?} has more bytes than any memory")),
        (_, Some(Some(expected))) if expected != bytes => {
            Err(format!("of shape {shape:?} and type {dtype} should have {expected} bytes, but has {bytes}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: usize) -> Result<Tensors, PretrainedError> {
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat();
        let mut tensors = Tensors::default();
        tensors.add_bytes(Path::new("x"), Bytes::Owned(bytes)).map(|()| tensors)
    }

    fn refusal(header: &str, data: usize) -> String {
        file(header, data).unwrap_err().to_string()
    }

    fn entry(name: &str, dtype: &str, shape: &str, (from, to): (u64, u64)) -> String {
        format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":[{shape}],\"data_offsets\":[{from},{to}]}}")
    }

    #[test]
    fn tensors_lie_where_the_header_says() {
        let header = format!("{{{},{}}}", entry("a", "F32", "2,3", (0, 24)), entry("b", "F16", "0", (24, 24)));
        let tensors = file(&header, 24).unwrap();
        assert_eq!((tensors.stored["a"].numel(), tensors.stored["a"].bytes().len()), (6, 24));
        assert_eq!((tensors.stored["b"].numel(), tensors.stored["b"].bytes().len()), (0, 0));
    }

    #[test]
    fn every_lie_of_a_header_is_refused_by_name() {
        let two = |a: String, b: String| format!("{{{a},{b}}}");
        let one = |a: String| format!("{{{a}}}");
        for (header, data, says) in [
            (
                one(entry("a", "F32", "2,3", (0, 20))),
                20,
                "a of shape [2, 3] and type F32 should have 24 bytes, but has 20",
            ),
            (one(entry("a", "F32", "5", (0, 20))), 16, "its tensors should have 20 bytes, but 16 are there"),
            (one(entry("a", "F32", "5", (0, 20))), 24, "its tensors should have 20 bytes, but 24 are there"),
            (
                one(entry("a", "F32", "5", (4, 24))),
                24,
                "a should start at byte 0 of the data, but is said to be at 4 to 24",
            ),
            (one(entry("a", "F32", "5", (20, 0))), 20, "torn or corrupt"),
            (
                two(entry("a", "F32", "2", (0, 8)), entry("b", "F32", "2", (4, 12))),
                12,
                "b should start at byte 8 of the data, but is said to be at 4 to 12",
            ),
            (two(entry("a", "F32", "2", (0, 8)), entry("a", "F32", "2", (8, 16))), 16, "two tensors are named a"),
            (one(entry("a", "F32", "4294967296,4294967296", (0, 8))), 8, "has more bytes than any memory"),
            (one(entry("a", "F32", "9223372036854775807", (0, 8))), 8, "has more bytes than any memory"),
            (one(entry("a", "F32", "4294967296,4294967296,0", (0, 8))), 8, "should have 0 bytes, but has 8"),
            (one(entry("a", "F32", "-1", (0, 8))), 8, "its header"),
            ("{".to_owned(), 0, "its header: EOF"),
            ("[]".to_owned(), 0, "its header"),
        ] {
            let error = refusal(&header, data);
            assert!(error.starts_with("x: ") && error.contains(says), "{header}: {error}");
        }
    }

    #[test]
    fn an_empty_or_short_file_and_a_giant_header_are_refused() {
        let refusal = |bytes: &[u8]| {
            Tensors::default().add_bytes(Path::new("x"), Bytes::Owned(bytes.to_vec())).unwrap_err().to_string()
        };
        assert_eq!(refusal(&[]), "x: the file is empty");
        assert!(refusal(&[1, 2, 3]).contains("shorter than the length of its header"));
        for length in [u64::MAX, 1 << 40, 100] {
            let error = refusal(&[&length.to_le_bytes()[..], b"{}"].concat());
            assert!(error.contains(&format!("its header should have {length} bytes, but 2 follow")), "{error}");
        }
    }

    #[test]
    fn a_pickle_is_refused_with_the_lines_that_convert_it() {
        for bytes in [&b"PK\x03\x04\x00\x00\x08\x08\x00\x00"[..], b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j"] {
            let error = Tensors::default().add_bytes(Path::new("a/net.pth"), Bytes::Owned(bytes.to_vec())).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("save_file(") && text.contains("\"a/net.safetensors\""), "{text}");
            assert_eq!(text.lines().count(), 4, "{text}");
        }
    }
}
