//! The bytes of a checkpoint, taken apart. Nothing in them is believed until it is checked, and nothing is executed.

use std::path::Path;

use super::{CHECKPOINT_FORMAT, CHECKSUM_KEY, CONFIG_KEY, Checkpoint, FORMAT_KEY, STEP_KEY};
use crate::header::{SafetensorsHeader, TensorEntry, pickled, split_safetensors};
use crate::{Dtype, NamedTensor, RecordError, Result};

impl Checkpoint {
    /// Takes the bytes of a checkpoint apart and checks all of them; `path` is what errors name.
    ///
    /// # Errors
    /// They are torn, corrupt, of another format, or not safetensors at all.
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let broken = |problem: String| RecordError::parse(path, problem);
        if let Some(kind) = pickled(bytes) {
            let problem = format!(
                "is {kind}, as torch.save writes it; only safetensors is read, since a pickle is a program that runs \
                 when it is opened"
            );
            return Err(broken(problem));
        }
        let (SafetensorsHeader { metadata: mut meta, tensors: entries }, data) =
            split_safetensors(bytes).map_err(|problem| broken(format!("torn or corrupt: {problem}")))?;

        let mut take = |key: &str| meta.remove(key).ok_or_else(|| broken(format!("no `{key}` in its header")));
        let format = take(FORMAT_KEY)?;
        if format != CHECKPOINT_FORMAT {
            let problem = format!("format {format} of a checkpoint; this program knows {CHECKPOINT_FORMAT}");
            return Err(broken(problem));
        }
        let (checksum, config_hash, step) = (take(CHECKSUM_KEY)?, take(CONFIG_KEY)?, take(STEP_KEY)?);
        let step = step.parse().map_err(|_| broken(format!("its step is {step:?}")))?;

        let mut tensors = Vec::new();
        for (name, TensorEntry { dtype, shape, data_offsets: (start, end) }) in entries {
            let dtype = Dtype::from_name(&dtype).ok_or_else(|| broken(format!("{name}: type {dtype} is not known")))?;
            if Some(end - start) != bytes_of(&shape, dtype) {
                return Err(broken(format!(
                    "torn or corrupt: {name} of shape {shape:?} does not fit its {} bytes",
                    end - start
                )));
            }
            tensors.push(NamedTensor { name, dtype, shape, bytes: data[start..end].to_vec() });
        }
        let mut checkpoint = Self { step, config_hash, meta, tensors };
        checkpoint.tensors.sort_by(Self::order);
        let found = checkpoint.checksum(&checkpoint.sorted());
        if found != checksum {
            return Err(broken(format!("corrupt: its checksum is {checksum}, its content's {found}")));
        }
        Ok(checkpoint)
    }
}

/// Bytes of a tensor; `None` where no memory could hold it.
fn bytes_of(shape: &[usize], dtype: Dtype) -> Option<usize> {
    shape.iter().try_fold(dtype.size(), |bytes, size| bytes.checked_mul(*size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8]) -> String {
        Checkpoint::decode(Path::new("model.pt"), bytes).unwrap_err().to_string()
    }

    /// `torch.save({}, path)` with and without `_use_new_zipfile_serialization`, torch 2.11: the first bytes.
    #[test]
    fn what_torch_save_writes_is_refused_by_name_and_not_opened() {
        let zip = b"PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00\x00\x00archive/data.pkl";
        let legacy = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00";
        for (bytes, kind) in [
            (&zip[..], "a zip archive"),
            (&legacy[..], "a pickle"),
            (b"\x80\x04N.", "a pickle"),
            (b"PK\x05\x06", "zip"),
        ] {
            let error = refusal(bytes);
            assert!(error.starts_with("model.pt: is ") && error.contains(kind), "{error}");
            assert!(error.contains("only safetensors is read"), "{error}");
        }
    }

    #[test]
    fn a_header_whose_length_begins_like_a_pickle_is_none() {
        for length in [0x280_u64, 0x580, 0x1_0280, 0x0403_4b50] {
            assert_eq!(pickled(&[&length.to_le_bytes()[..], b"{}"].concat()), None, "{length}");
        }
        let error = refusal(&[&0x280_u64.to_le_bytes()[..], b"{", &[b' '; 0x27f]].concat());
        assert!(error.contains("torn or corrupt: its header: EOF"), "{error}");
    }
}
