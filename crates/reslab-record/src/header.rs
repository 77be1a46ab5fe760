//! The header of a safetensors file, taken apart. Nothing in it is believed until it is checked.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use std::collections::BTreeMap;

/// What stands before the tensors' bytes.
#[derive(Debug, Default)]
pub struct SafetensorsHeader {
    /// Free text, `__metadata__`.
    pub metadata: BTreeMap<String, String>,
    /// The tensors by name.
    pub tensors: BTreeMap<String, TensorEntry>,
}

/// What the header says of one tensor.
#[derive(Debug, Deserialize)]
pub struct TensorEntry {
    /// The element type, as the format spells it: `F32`.
    pub dtype: String,
    /// The shape; it need not fit the bytes.
    pub shape: Vec<usize>,
    /// Where it begins and ends in the data.
    pub data_offsets: (usize, usize),
}

/// The header and the data behind it. The tensors lie in the data one after another, without overlap or hole, as the
/// format wants it: their bytes together are no more than the file's. That shapes fit bytes is for the caller to see.
///
/// The safetensors crate (0.8) would do, but adds up the header's numbers unchecked: a lie panics or wraps around.
///
/// # Errors
/// Says what does not fit.
pub fn split_safetensors(bytes: &[u8]) -> std::result::Result<(SafetensorsHeader, &[u8]), String> {
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or("it is shorter than the length of its header")?;
    let length = u64::from_le_bytes(*length);
    let (header, data) = usize::try_from(length)
        .ok()
        .and_then(|length| rest.split_at_checked(length))
        .ok_or_else(|| format!("its header should have {length} bytes, but {} follow", rest.len()))?;
    let header: SafetensorsHeader = serde_json::from_slice(header).map_err(|e| format!("its header: {e}"))?;
    let mut places: Vec<_> = header.tensors.iter().map(|(name, entry)| (entry.data_offsets, name)).collect();
    places.sort_unstable();
    let mut next = 0;
    for ((start, end), name) in places {
        if start != next || end < start {
            return Err(format!(
                "{name} should start at byte {next} of the data, but is said to be at {start} to {end}"
            ));
        }
        next = end;
    }
    if next == data.len() {
        Ok((header, data))
    } else {
        Err(format!("its tensors should have {next} bytes, but {} are there", data.len()))
    }
}

impl<'de> Deserialize<'de> for SafetensorsHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = SafetensorsHeader;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<SafetensorsHeader, A::Error> {
                let mut header = SafetensorsHeader::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        header.metadata = map.next_value()?;
                    } else if header.tensors.insert(name.clone(), map.next_value()?).is_some() {
                        return Err(A::Error::custom(format!("two tensors are named {name}")));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// What other programs save networks as, told by the first bytes. A safetensors file may begin with the same ones, as
/// the length of its header, but has a brace behind that.
pub fn pickled(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [_, _, _, _, _, _, _, _, b'{', ..] => None,
        [b'P', b'K', 3 | 5, 4 | 6, ..] => Some("a zip archive"),
        [0x80, 2..=5, ..] => Some("a pickle"),
        _ => None,
    }
}
