//! The keys of a file, in the words of its family.

use std::collections::BTreeMap;

use crate::file::Stored;

/// Layouts that name their tensors alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// `blocks.0.attn.qkv.weight`: timm and the authors' files.
    Blocks,
    /// `encoder.layer.0.attention.attention.query.weight`.
    HfDinov2,
    /// `layer.0.attention.q_proj.weight`.
    HfDinov3,
    /// Our own names.
    Reslab,
}

impl Family {
    /// What stands before a block's number.
    pub fn blocks(self) -> &'static str {
        match self {
            Family::Blocks | Family::Reslab => "blocks",
            Family::HfDinov2 => "encoder.layer",
            Family::HfDinov3 => "layer",
        }
    }
}

/// A key without its wrapper's prefix, in the words of its family: what other versions of the same programs call a
/// tensor becomes what this one does.
pub(crate) fn canonical(family: Family, key: &str) -> String {
    let mut parts: Vec<&str> = key.split('.').collect();
    match family {
        Family::Blocks => {
            // With block_chunks the authors' files number the chunk too; the block's own number goes on over chunks.
            if parts.len() > 3 && parts[0] == "blocks" && is_number(parts[1]) && is_number(parts[2]) {
                parts.remove(1);
            }
            // transformers once renamed everything called gamma when it loaded: what was saved then has these names.
            match parts[..] {
                [.., "ls1" | "ls2", ref mut last @ "weight"] => *last = "gamma",
                [.., ref mut last @ "weight_1"] => *last = "gamma_1",
                [.., ref mut last @ "weight_2"] => *last = "gamma_2",
                ["linear_head" | "classifier", ..] => parts[0] = "head",
                _ => {}
            }
        }
        Family::HfDinov2 => {
            // transformers 5 calls them so in memory, and what torch saves of it directly has those names.
            let attention = |name| match name {
                "q_proj" => Some(&["attention", "query"]),
                "k_proj" => Some(&["attention", "key"]),
                "v_proj" => Some(&["attention", "value"]),
                "o_proj" => Some(&["output", "dense"]),
                _ => None,
            };
            if let ["encoder", "layer", _, "attention", name, _] = parts[..]
                && let Some(names) = attention(name)
            {
                parts.splice(4..5, names.iter().copied());
            }
            head(&mut parts);
        }
        Family::HfDinov3 => {
            if let ["model", "layer", ..] = parts[..] {
                parts.remove(0);
            }
            head(&mut parts);
        }
        Family::Reslab => {}
    }
    parts.join(".")
}

fn head(parts: &mut [&str]) {
    if let ["classifier", _] = parts {
        parts[0] = "head";
    }
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Tensors by canonical key, each with the key that it has in the file.
pub(crate) struct Keys<'a> {
    pub map: BTreeMap<String, (&'a str, &'a Stored)>,
}

impl<'a> Keys<'a> {
    pub fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    pub fn get(&self, key: &str) -> Option<&'a Stored> {
        self.map.get(key).map(|(_, stored)| *stored)
    }

    /// Elements of a tensor that is there; its shape may be wrong yet.
    pub fn numel(&self, key: &str) -> Option<usize> {
        self.get(key).map(Stored::numel)
    }

    /// The tensor of this name in the first block that has it: what one block lacks another tells.
    pub fn first(&self, blocks: &str, name: &str) -> Option<&'a Stored> {
        self.in_blocks(blocks).find(|(_, rest, _)| *rest == name).map(|(_, _, stored)| stored)
    }

    /// The largest block's number and one. Bounded by the number of keys, whatever numbers they hold.
    pub fn depth(&self, blocks: &str) -> usize {
        let largest = self.in_blocks(blocks).map(|(number, ..)| number).max();
        largest.map_or(0, |number| number.saturating_add(1).min(self.map.len()))
    }

    fn in_blocks<'b>(&'b self, blocks: &'b str) -> impl Iterator<Item = (usize, &'b str, &'a Stored)> {
        self.map.iter().filter_map(move |(key, (_, stored))| {
            let (number, rest) = key.strip_prefix(blocks)?.strip_prefix('.')?.split_once('.')?;
            Some((number.parse().ok()?, rest, *stored))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_become_the_familys_own() {
        for (family, from, to) in [
            (Family::Blocks, "blocks.1.7.attn.qkv.weight", "blocks.7.attn.qkv.weight"),
            (Family::Blocks, "blocks.7.attn.qkv.weight", "blocks.7.attn.qkv.weight"),
            (Family::Blocks, "blocks.0.ls1.weight", "blocks.0.ls1.gamma"),
            (Family::Blocks, "blocks.0.weight_2", "blocks.0.gamma_2"),
            (Family::Blocks, "blocks.0.norm1.weight", "blocks.0.norm1.weight"),
            (Family::Blocks, "linear_head.bias", "head.bias"),
            (
                Family::HfDinov2,
                "encoder.layer.3.attention.q_proj.bias",
                "encoder.layer.3.attention.attention.query.bias",
            ),
            (Family::HfDinov2, "encoder.layer.3.attention.o_proj.bias", "encoder.layer.3.attention.output.dense.bias"),
            (Family::HfDinov2, "classifier.weight", "head.weight"),
            (Family::HfDinov3, "model.layer.3.norm1.bias", "layer.3.norm1.bias"),
        ] {
            assert_eq!(canonical(family, from), to);
        }
    }
}
