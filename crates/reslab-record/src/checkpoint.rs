//! Checkpoints: one safetensors file with a checksum, written whole, the one before it kept.
//!
//! The file can be opened by any reader of safetensors. Its header is written here, in a fixed order, and not by the
//! safetensors crate (whose metadata is a hash map): equal checkpoints have equal bytes.

mod decode;

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::file::{parent, remove, sync_folder};
use crate::{NamedTensor, RecordError, Result};

/// The newest checkpoint's file in a run's folder.
pub const CHECKPOINT_FILE: &str = "checkpoint.safetensors";
/// The file of the one before it.
pub const CHECKPOINT_PREV_FILE: &str = "checkpoint.prev.safetensors";
/// What a newest checkpoint is renamed to that can't be read; see [`Checkpoint::recover`].
pub const CHECKPOINT_BROKEN_FILE: &str = "checkpoint.broken.safetensors";
/// The version of the checkpoints that this program writes and reads.
pub const CHECKPOINT_FORMAT: &str = "1";

const FORMAT_KEY: &str = "reslab_format";
const STEP_KEY: &str = "step";
const CONFIG_KEY: &str = "config_sha256";
const CHECKSUM_KEY: &str = "sha256";
/// A checkpoint must leave this much free for the records that follow it.
const SPARE_BYTES: u64 = 4 << 20;

/// All that a run needs to go on from a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The step that comes next.
    pub step: u64,
    /// Hash of the configuration; a run goes on only from a checkpoint of its own.
    pub config_hash: String,
    /// Anything else that is not a tensor.
    pub meta: BTreeMap<String, String>,
    /// Weights, optimizer state, averages; in any order, names distinct.
    pub tensors: Vec<NamedTensor>,
}

/// What [`Checkpoint::read`] found.
#[derive(Debug, Default)]
pub struct Restored {
    /// The newest intact checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Why a newer one was passed over; a line each, for the log.
    pub notes: Vec<String>,
    /// Whether `checkpoint.safetensors` is there and can't be read.
    pub newest_is_broken: bool,
}

impl Checkpoint {
    /// Writes `checkpoint.safetensors` in folder `dir`: a temporary file, fsync, rename; the file that stood there
    /// becomes `checkpoint.prev.safetensors`.
    ///
    /// # Errors
    /// [`RecordError::NoSpace`] before anything is written, where the disk has no room for it; else names the file.
    ///
    /// # Panics
    /// When a tensor's bytes do not fit its shape, or two have one name.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(CHECKPOINT_FILE);
        let tensors = self.sorted();
        let header = self.header(&tensors);
        let data: usize = tensors.iter().map(|t| t.bytes.len()).sum();
        require_space(&path, (8 + header.len() + data) as u64)?;

        let partial = partial(dir);
        let io = |action| RecordError::io(&partial, action);
        let file = File::create(&partial).map_err(io("create"))?;
        let mut writer = BufWriter::new(&file);
        let mut put = |bytes: &[u8]| writer.write_all(bytes).map_err(io("write"));
        put(&(header.len() as u64).to_le_bytes())?;
        put(header.as_bytes())?;
        for tensor in &tensors {
            put(&tensor.bytes)?;
        }
        writer.flush().map_err(io("write"))?;
        drop(writer);
        file.sync_all().map_err(io("write"))?;

        // Between the two renames there is only the previous file; it is the newest intact one then.
        let previous = dir.join(CHECKPOINT_PREV_FILE);
        match fs::rename(&path, &previous) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(RecordError::io(&previous, "rename to")(e));
            }
            _ => {}
        }
        fs::rename(&partial, &path).map_err(RecordError::io(&path, "rename to"))?;
        sync_folder(dir)
    }

    /// The newest intact checkpoint of folder `dir`. A torn, corrupt or unreadable one is passed over, and said.
    pub fn read(dir: &Path) -> Restored {
        let mut restored = Restored::default();
        for name in [CHECKPOINT_FILE, CHECKPOINT_PREV_FILE] {
            let path = dir.join(name);
            match Self::read_file(&path) {
                Ok(checkpoint) => {
                    restored.checkpoint = Some(checkpoint);
                    break;
                }
                Err(RecordError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => {
                    restored.newest_is_broken |= name == CHECKPOINT_FILE;
                    restored.notes.push(format!("passed over a checkpoint: {e}"));
                }
            }
        }
        restored
    }

    /// As [`Checkpoint::read`], for the run's own process, which goes on from there: what a broken-off write left is
    /// removed, and a newest checkpoint that can't be read becomes `checkpoint.broken.safetensors`. Else the next one
    /// would push it over the intact one before it.
    ///
    /// # Errors
    /// Names a file that can't be removed or renamed.
    pub fn recover(dir: &Path) -> Result<Restored> {
        remove(&partial(dir))?;
        let mut restored = Self::read(dir);
        if restored.newest_is_broken {
            let broken = dir.join(CHECKPOINT_BROKEN_FILE);
            fs::rename(dir.join(CHECKPOINT_FILE), &broken).map_err(RecordError::io(&broken, "rename to"))?;
            restored.notes.push(format!("it stands in {CHECKPOINT_BROKEN_FILE} now"));
        }
        Ok(restored)
    }

    /// Reads one checkpoint file and checks all of it.
    ///
    /// # Errors
    /// Names the file: not readable, torn, corrupt, or of another format.
    pub fn read_file(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(RecordError::io(path, "read"))?;
        Self::decode(path, &bytes)
    }

    /// The tensor of a name.
    pub fn tensor(&self, name: &str) -> Option<&NamedTensor> {
        self.tensors.iter().find(|t| t.name == name)
    }

    /// Wide types first, as the safetensors crate does, so that every tensor is aligned; then by name.
    fn order(a: &NamedTensor, b: &NamedTensor) -> std::cmp::Ordering {
        b.dtype.size().cmp(&a.dtype.size()).then_with(|| a.name.cmp(&b.name))
    }

    fn sorted(&self) -> Vec<&NamedTensor> {
        let mut tensors: Vec<&NamedTensor> = self.tensors.iter().collect();
        tensors.sort_by(|a, b| Self::order(a, b));
        tensors
    }

    fn header(&self, tensors: &[&NamedTensor]) -> String {
        let mut meta = self.meta.clone();
        meta.insert(FORMAT_KEY.into(), CHECKPOINT_FORMAT.into());
        meta.insert(STEP_KEY.into(), self.step.to_string());
        meta.insert(CONFIG_KEY.into(), self.config_hash.clone());
        meta.insert(CHECKSUM_KEY.into(), self.checksum(tensors));

        let mut header = serde_json::Map::new();
        header.insert("__metadata__".into(), serde_json::json!(meta));
        let mut start = 0;
        for t in tensors {
            assert_eq!(t.shape.iter().product::<usize>() * t.dtype.size(), t.bytes.len(), "size of {}", t.name);
            let end = start + t.bytes.len();
            let entry = serde_json::json!({"dtype": t.dtype.name(), "shape": t.shape, "data_offsets": [start, end]});
            assert!(header.insert(t.name.clone(), entry).is_none(), "two tensors are named {}", t.name);
            start = end;
        }
        let mut text = serde_json::Value::Object(header).to_string();
        // The data starts at a multiple of 8, which the format asks writers to see to.
        let padding = text.len().next_multiple_of(8) - text.len();
        text.extend(std::iter::repeat_n(' ', padding));
        text
    }

    /// Over names, types, shapes, bytes and metadata: a flipped bit in the step counts as much as one in a weight.
    fn checksum(&self, tensors: &[&NamedTensor]) -> String {
        let mut sha = Sha256::new();
        let mut field = |bytes: &[u8]| {
            sha.update((bytes.len() as u64).to_le_bytes());
            sha.update(bytes);
        };
        field(&self.step.to_le_bytes());
        field(self.config_hash.as_bytes());
        field(&(self.meta.len() as u64).to_le_bytes());
        for (key, value) in &self.meta {
            field(key.as_bytes());
            field(value.as_bytes());
        }
        for t in tensors {
            field(t.name.as_bytes());
            field(format!("{} {:?}", t.dtype.name(), t.shape).as_bytes());
            field(&t.bytes);
        }
        hex(&sha.finalize())
    }
}

/// The sha256 of some bytes, in hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

/// The file of a checkpoint that is being written.
fn partial(dir: &Path) -> PathBuf {
    dir.join(format!("{CHECKPOINT_FILE}.tmp"))
}

fn require_space(path: &Path, bytes: u64) -> Result<()> {
    let folder = parent(path);
    let free = fs4::available_space(folder).map_err(RecordError::io(folder, "ask for the free space of"))?;
    let needed = bytes + SPARE_BYTES;
    if free < needed { Err(RecordError::NoSpace { path: path.to_owned(), needed, free }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dtype;
    use safetensors::{Dtype as Stored, SafeTensors};

    fn sample(step: u64) -> Checkpoint {
        let f32s: Vec<u8> = (0..6).flat_map(|i| (i as f32 + step as f32).to_le_bytes()).collect();
        let tensor = |name: &str, dtype, shape: &[usize], bytes: Vec<u8>| NamedTensor {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
            bytes,
        };
        Checkpoint {
            step,
            config_hash: "c0ffee".into(),
            meta: BTreeMap::from([("loss".into(), "NaN".into()), ("a\"b".into(), "\u{e9}".into())]),
            tensors: vec![
                tensor("count", Dtype::I64, &[], 7_i64.to_le_bytes().to_vec()),
                tensor("double", Dtype::F64, &[2], [1.5_f64, f64::NAN].iter().flat_map(|x| x.to_le_bytes()).collect()),
                tensor("model/weight", Dtype::F32, &[2, 3], f32s),
                tensor("mask", Dtype::U8, &[3], vec![1, 0, 1]),
                tensor("nothing", Dtype::U8, &[0], vec![]),
            ],
        }
    }

    fn steps(restored: &Restored) -> (Option<u64>, usize) {
        (restored.checkpoint.as_ref().map(|c| c.step), restored.notes.len())
    }

    #[test]
    fn a_checkpoint_comes_back_as_it_was_and_equal_ones_have_equal_bytes() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(steps(&Checkpoint::read(dir.path())), (None, 0));
        let mut shuffled = sample(3);
        shuffled.tensors.reverse();
        shuffled.write(dir.path()).unwrap();
        let bytes = fs::read(dir.path().join(CHECKPOINT_FILE)).unwrap();
        assert_eq!(Checkpoint::read(dir.path()).checkpoint, Some(sample(3)));
        sample(3).write(dir.path()).unwrap();
        assert_eq!(fs::read(dir.path().join(CHECKPOINT_FILE)).unwrap(), bytes);
        assert!(!dir.path().join(format!("{CHECKPOINT_FILE}.tmp")).exists());
    }

    #[test]
    fn the_safetensors_crate_reads_it_and_its_data_is_aligned() {
        let dir = tempfile::tempdir().unwrap();
        sample(3).write(dir.path()).unwrap();
        let bytes = fs::read(dir.path().join(CHECKPOINT_FILE)).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let weight = file.tensor("model/weight").unwrap();
        assert_eq!((weight.dtype(), weight.shape()), (Stored::F32, &[2, 3][..]));
        assert_eq!(&weight.data()[4..8], 4_f32.to_le_bytes());
        for (name, view) in file.iter() {
            let at = view.data().as_ptr() as usize - bytes.as_ptr() as usize;
            let size = view.dtype().bitsize() / 8;
            assert!(at.is_multiple_of(size), "{name} at {at}");
        }
    }

    #[test]
    fn every_torn_length_falls_back_to_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        sample(3).write(dir.path()).unwrap();
        sample(6).write(dir.path()).unwrap();
        let path = dir.path().join(CHECKPOINT_FILE);
        let whole = fs::read(&path).unwrap();
        assert_eq!(steps(&Checkpoint::read(dir.path())), (Some(6), 0));
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(steps(&Checkpoint::read(dir.path())), (Some(3), 1), "length {length}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(steps(&Checkpoint::read(dir.path())), (Some(3), 0), "lost between the two renames");
    }

    #[test]
    fn a_flipped_bit_anywhere_never_gives_another_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        sample(3).write(dir.path()).unwrap();
        sample(6).write(dir.path()).unwrap();
        let path = dir.path().join(CHECKPOINT_FILE);
        let whole = fs::read(&path).unwrap();
        let mut passed_over = 0;
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).unwrap();
            let restored = Checkpoint::read(dir.path());
            let step = restored.checkpoint.as_ref().expect("one of the two is intact").step;
            assert_eq!(restored.checkpoint, Some(sample(step)), "byte {at}");
            passed_over += usize::from(step == 3);
        }
        // Only a blank of the header's padding may turn into another blank.
        assert!(passed_over + 8 >= whole.len(), "{passed_over} of {}", whole.len());
    }

    #[test]
    fn another_format_is_named_and_both_broken_give_none() {
        let dir = tempfile::tempdir().unwrap();
        sample(3).write(dir.path()).unwrap();
        let path = dir.path().join(CHECKPOINT_FILE);
        let text = fs::read(&path).unwrap();
        let at = text.windows(20).position(|w| w == b"\"reslab_format\":\"1\",").unwrap() + 17;
        let mut other = text.clone();
        other[at] = b'9';
        fs::write(&path, &other).unwrap();
        fs::write(dir.path().join(CHECKPOINT_PREV_FILE), b"no checkpoint").unwrap();
        let restored = Checkpoint::read(dir.path());
        assert_eq!(steps(&restored), (None, 2));
        assert!(restored.notes[0].contains("format 9"), "{:?}", restored.notes);
        assert!(restored.notes[1].contains("prev"), "{:?}", restored.notes);
    }

    #[test]
    fn a_full_disk_is_said_with_what_is_needed_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(CHECKPOINT_FILE);
        let error = require_space(&path, 1 << 60).unwrap_err();
        assert!(matches!(&error, RecordError::NoSpace { needed, free, .. } if needed > free), "{error}");
        assert!(error.to_string().contains("1152921504611041280 bytes are needed"), "{error}");
        require_space(&path, 1).expect("a few megabytes are free where tests run");
    }

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
