//! A checkpoint, opened: what it is, and which of our parameters each of its tensors fills.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::account::{Read, values};
use crate::file::{Bytes, Tensors};
use crate::hints::Hints;
use crate::keys::Keys;
use crate::layout::{Recognised, recognise};
use crate::read_off::{self, Problem};
use crate::schema::Schema;
use crate::spelling::BiasKey;
use crate::{Architecture, Dtype, Layout, Position, PretrainedError, locate};

/// Which weights of a run's own checkpoint are meant; other files have one set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weights {
    /// Those of the last step.
    #[default]
    Last,
    /// Their exponential average.
    Ema,
    /// Those of the best validation.
    Best,
}

impl Weights {
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Weights::Last => "model",
            Weights::Ema => "ema",
            Weights::Best => "best",
        }
    }
}

/// A parameter of ours and where its value lies: the parts one after another, reshaped.
#[derive(Debug, Clone)]
pub struct Mapped {
    /// The parameter's name: `blocks.07.attention.qkv.weight`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Its value, part by part.
    pub parts: Vec<Part>,
}

/// A run of elements of one tensor of a file.
#[derive(Clone)]
pub struct Part {
    /// The tensor's key in the file.
    pub key: String,
    /// The type of its elements.
    pub dtype: Dtype,
    file: Arc<Bytes>,
    range: Range<usize>,
}

impl Part {
    pub(crate) fn new(key: &str, dtype: Dtype, file: Arc<Bytes>, range: Range<usize>) -> Part {
        Part { key: key.to_owned(), dtype, file, range }
    }

    /// The elements, little-endian, where they lie in the file; at any alignment.
    pub fn bytes(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }

    /// How many elements they are.
    pub fn numel(&self) -> usize {
        self.range.len() / self.dtype.size()
    }
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part").field("key", &self.key).field("dtype", &self.dtype).field("range", &self.range).finish()
    }
}

/// A checkpoint: memory-mapped files, recognised and accounted for.
#[derive(Debug)]
pub struct Pretrained {
    path: PathBuf,
    files: Vec<(PathBuf, Arc<Bytes>)>,
    layout: Layout,
    architecture: Architecture,
    mapped: Vec<Mapped>,
    ignored: Vec<(String, &'static str)>,
}

impl Pretrained {
    /// Opens a safetensors file, the index of a sharded one (`x.safetensors.index.json`), or a folder with
    /// `model.safetensors`, its index, or a run's `checkpoint.safetensors`. A config.json (of transformers) or
    /// config.toml (of a run) beside it is read.
    ///
    /// # Errors
    /// The file can't be read, lies about itself, is of no known layout, or keys and parameters do not fit each other.
    pub fn open(path: &Path) -> Result<Pretrained, PretrainedError> {
        Pretrained::open_weights(path, Weights::Last)
    }

    /// [`Pretrained::open`], for other weights of a run's checkpoint.
    ///
    /// # Errors
    /// As [`Pretrained::open`]; or the checkpoint has no such weights.
    pub fn open_weights(path: &Path, weights: Weights) -> Result<Pretrained, PretrainedError> {
        let (file, tensors) = locate::open(path)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let own = tensors.stored.keys().any(|key| key.starts_with("model/"));
        let beside = match () {
            () if own => Hints::of_run(folder)?,
            () if locate::is_a_models(&file) => Hints::of_folder(folder)?,
            () => None,
        };
        let hints = beside.unwrap_or_else(|| Hints::of_metadata(&tensors.metadata));
        Pretrained::of_tensors(&file, tensors, weights, &hints)
    }

    /// A checkpoint whose bytes are at hand; `path` is what errors name.
    ///
    /// # Errors
    /// As [`Pretrained::open`].
    pub fn decode(path: &Path, bytes: Vec<u8>) -> Result<Pretrained, PretrainedError> {
        let mut tensors = Tensors::default();
        tensors.add_bytes(path, Bytes::Owned(bytes))?;
        let hints = Hints::of_metadata(&tensors.metadata);
        Pretrained::of_tensors(path, tensors, Weights::Last, &hints)
    }

    fn of_tensors(
        path: &Path,
        tensors: Tensors,
        weights: Weights,
        hints: &Hints,
    ) -> Result<Pretrained, PretrainedError> {
        let broken = |problem: String| PretrainedError::broken(path, problem);
        let Recognised { layout, keys, mut ignored } = recognise(&tensors, weights, hints).map_err(broken)?;
        let read = Read { path, layout, keys: &keys };
        refuse_empty(&read)?;
        let problem = |problem: Problem| match problem {
            Problem::Text(text) => broken(format!("read as {layout}: {text}")),
            Problem::Missing(key) => {
                let mut report = read.report();
                report.missing.push(key);
                PretrainedError::Keys(Box::new(report))
            }
        };
        let (architecture, mapped) = if layout == Layout::Reslab {
            let schema = Schema::identity(&keys);
            let architecture = read_off::own(&keys, hints).map_err(problem)?;
            (architecture, read.settle(&schema)?.mapped)
        } else {
            let (architecture, spelling) = read_off::foreign(layout, &keys, hints).map_err(problem)?;
            let account = read.settle(&Schema::new(layout, &architecture, spelling))?;
            ignored.extend(account.ignored);
            check_buffers(&read, &architecture, spelling.bias)?;
            (architecture, account.mapped)
        };
        hints.check(&architecture).map_err(broken)?;
        Ok(Pretrained { path: path.to_owned(), files: tensors.files.clone(), layout, architecture, mapped, ignored })
    }

    /// The file that was opened: in a folder the one that was found, of a sharded checkpoint its index.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Who wrote it.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The network's shape.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// Every parameter of ours that the file fills.
    pub fn mapped(&self) -> &[Mapped] {
        &self.mapped
    }

    /// Keys, or parts of one, that are no parameter, with the reason.
    pub fn ignored(&self) -> &[(String, &'static str)] {
        &self.ignored
    }

    /// The sha256 of the file, in hex; of a sharded one that of all shards, one after another by name.
    pub fn sha256(&self) -> String {
        let mut digest = Sha256::new();
        for (_, bytes) in &self.files {
            digest.update(&bytes[..]);
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// No tensor is empty, but for registers that there are none of.
fn refuse_empty(read: &Read) -> Result<(), PretrainedError> {
    let mut report = read.report();
    let empty = read
        .keys
        .map
        .iter()
        .filter(|(name, (_, stored))| stored.numel() == 0 && name.as_str() != "embeddings.register_tokens");
    let says = |key: &str, shape: &[usize]| (key.to_owned(), format!("has no elements: its shape is {shape:?}"));
    report.values.extend(empty.map(|(_, (key, stored))| says(key, &stored.shape)));
    if report.is_empty() { Ok(()) } else { Err(PretrainedError::Keys(Box::new(report))) }
}

/// Buffers of DINOv3's own files, whose values the network takes for granted.
fn check_buffers(read: &Read, network: &Architecture, bias: BiasKey) -> Result<(), PretrainedError> {
    let mut report = read.report();
    if bias == BiasKey::Masked {
        check_masks(read.keys, network, &mut report);
    }
    if let (Some(periods), Position::Rope { base }) = (read.keys.get("rope_embed.periods"), network.position) {
        let found = values(periods);
        let count = found.len() as f64;
        // The authors compute them in bfloat16, which is off by up to 0.4 %.
        let off = |(k, period): (usize, &f32)| (f64::from(*period) / base.powf(k as f64 / count) - 1.0).abs() > 0.01;
        if found.is_empty() || found.iter().enumerate().any(off) {
            let wrong = format!("are not the periods of base {base}, {base}^(k/{count})");
            report.values.push(("rope_embed.periods".to_owned(), wrong));
        }
    }
    if report.is_empty() { Ok(()) } else { Err(PretrainedError::Keys(Box::new(report))) }
}

/// Every block that has biases has a mask, of ones and, in the key's third, zeros.
fn check_masks(keys: &Keys, network: &Architecture, report: &mut crate::KeyReport) {
    for block in 0..network.depth {
        let name = format!("blocks.{block}.attn.qkv.bias_mask");
        let Some((key, stored)) = keys.map.get(&name) else {
            report.missing.push(format!("{name} [{}]", 3 * network.width));
            continue;
        };
        let is_key = |at: usize| (network.width..2 * network.width).contains(&at);
        let found = values(stored);
        let right = found.iter().enumerate().all(|(at, x)| *x == if is_key(at) { 0.0 } else { 1.0 });
        if !right || found.len() != 3 * network.width {
            report.values.push(((*key).to_owned(), "is not zero for the key's bias and one elsewhere".to_owned()));
        }
    }
}
