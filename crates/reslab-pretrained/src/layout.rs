//! Who wrote a checkpoint, told by its keys.

use std::collections::BTreeMap;
use std::fmt;

use crate::file::Tensors;
use crate::hints::Hints;
use crate::ignored;
use crate::keys::{Family, Keys, canonical};
use crate::{Position, Weights};

/// A way of naming the tensors of a vision transformer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// timm's `VisionTransformer` without LayerScale.
    TimmVit,
    /// timm's `VisionTransformer` with LayerScale: its DeiT-III and DINOv2, whose keys are the same.
    TimmLayerScale,
    /// timm's `Eva` as DINOv3 is made with it.
    TimmDinov3,
    /// CaiT, whose keys are the same in timm and in its authors' files.
    Cait,
    /// DINOv2 in its authors' files.
    FbDinov2,
    /// DINOv3 in its authors' files.
    FbDinov3,
    /// DeiT-III in its authors' files.
    FbDeit3,
    /// `Dinov2Model` of transformers.
    HfDinov2,
    /// `Dinov2WithRegistersModel` of transformers.
    HfDinov2WithRegisters,
    /// `DINOv3ViTModel` of transformers.
    HfDinov3,
    /// A run's own checkpoint.
    Reslab,
}

impl Layout {
    /// All of them.
    pub const ALL: [Layout; 11] = [
        Layout::TimmVit,
        Layout::TimmLayerScale,
        Layout::TimmDinov3,
        Layout::Cait,
        Layout::FbDinov2,
        Layout::FbDinov3,
        Layout::FbDeit3,
        Layout::HfDinov2,
        Layout::HfDinov2WithRegisters,
        Layout::HfDinov3,
        Layout::Reslab,
    ];

    /// The name that messages and records use.
    pub fn name(self) -> &'static str {
        match self {
            Layout::TimmVit => "timm vit",
            Layout::TimmLayerScale => "timm deit3/dinov2",
            Layout::TimmDinov3 => "timm dinov3",
            Layout::Cait => "cait",
            Layout::FbDinov2 => "fb dinov2",
            Layout::FbDinov3 => "fb dinov3",
            Layout::FbDeit3 => "fb deit3",
            Layout::HfDinov2 => "hf dinov2",
            Layout::HfDinov2WithRegisters => "hf dinov2-with-registers",
            Layout::HfDinov3 => "hf dinov3",
            Layout::Reslab => "reslab",
        }
    }

    pub(crate) fn family(self) -> Family {
        match self {
            Layout::HfDinov2 | Layout::HfDinov2WithRegisters => Family::HfDinov2,
            Layout::HfDinov3 => Family::HfDinov3,
            Layout::Reslab => Family::Reslab,
            _ => Family::Blocks,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The first convolution stands in every network and under another name in every family: what stands before it in its
/// key is the prefix of all. Where its weight is missing the bias tells as much.
const ANCHORS: [(&str, Family); 6] = [
    ("embeddings.patch_embeddings.projection.weight", Family::HfDinov2),
    ("embeddings.patch_embeddings.projection.bias", Family::HfDinov2),
    ("embeddings.patch_embeddings.weight", Family::HfDinov3),
    ("embeddings.patch_embeddings.bias", Family::HfDinov3),
    ("patch_embed.proj.weight", Family::Blocks),
    ("patch_embed.proj.bias", Family::Blocks),
];

/// Keys under their canonical names, and what they are the keys of.
pub(crate) struct Recognised<'a> {
    pub layout: Layout,
    pub keys: Keys<'a>,
    pub ignored: Vec<(String, &'static str)>,
}

/// Recognises the layout, takes wrapper prefixes away and puts every key into the words of its family.
pub(crate) fn recognise<'a>(tensors: &'a Tensors, weights: Weights, hints: &Hints) -> Result<Recognised<'a>, String> {
    if tensors.stored.keys().any(|key| key.starts_with("model/")) {
        return own(tensors, weights);
    }
    if weights != Weights::Last {
        return Err(format!("`{}` weights are only in a run's own checkpoint", weights.folder()));
    }
    let (prefix, family) = prefix(tensors)?;
    let mut map = BTreeMap::new();
    for (key, stored) in &tensors.stored {
        let name = canonical(family, key.strip_prefix(&prefix).unwrap_or(key));
        if let Some((other, _)) = map.insert(name.clone(), (key.as_str(), stored)) {
            return Err(format!("{other} and {key} are two tensors for one place, {name}"));
        }
    }
    let keys = Keys { map };
    let layout = of_family(family, &keys, hints)?;
    Ok(Recognised { layout, keys, ignored: Vec::new() })
}

fn own(tensors: &Tensors, weights: Weights) -> Result<Recognised<'_>, String> {
    let folder = format!("{}/", weights.folder());
    let (mut map, mut ignored) = (BTreeMap::new(), Vec::new());
    for (key, stored) in &tensors.stored {
        match key.strip_prefix(&folder) {
            Some(name) => {
                map.insert(name.to_owned(), (key.as_str(), stored));
            }
            None => match ignored::of_own(key) {
                Some(reason) => ignored.push((key.clone(), reason)),
                None => return Err(format!("{key} is no key of a run's checkpoint")),
            },
        }
    }
    if map.is_empty() {
        return Err(format!("the checkpoint has no `{folder}` weights: its run did not keep any"));
    }
    Ok(Recognised { layout: Layout::Reslab, keys: Keys { map }, ignored })
}

fn prefix(tensors: &Tensors) -> Result<(String, Family), String> {
    for (anchor, family) in ANCHORS {
        let before = |key: &String| {
            let rest = key.strip_suffix(anchor)?;
            (rest.is_empty() || rest.ends_with('.')).then(|| rest.to_owned())
        };
        let found: Vec<String> = tensors.stored.keys().filter_map(before).collect();
        match &found[..] {
            [] => {}
            [prefix] => return Ok((prefix.clone(), family)),
            several => {
                let names = several.join("`, `");
                return Err(format!("holds {} networks, under `{names}`: save one alone", several.len()));
            }
        }
    }
    let some: Vec<&str> = tensors.stored.keys().take(4).map(String::as_str).collect();
    let known: Vec<&str> = Layout::ALL.iter().map(|layout| layout.name()).collect();
    Err(format!(
        "no layout that is known: none of its {} keys ends with `patch_embed.proj.weight`, \
         `embeddings.patch_embeddings.projection.weight` or `embeddings.patch_embeddings.weight` (it begins with: {}). \
         Known layouts: {}",
        tensors.stored.len(),
        some.join(", "),
        known.join(", ")
    ))
}

fn of_family(family: Family, keys: &Keys, hints: &Hints) -> Result<Layout, String> {
    let has = |key: &str| keys.has(key);
    if has("dist_token") {
        return Err(
            "has a dist_token: a distilled DeiT's second class token, with a position, is not among what is read"
                .into(),
        );
    }
    let flat_gamma = keys.first("blocks", "gamma_1").is_some();
    Ok(match family {
        Family::Reslab => Layout::Reslab,
        Family::HfDinov3 => Layout::HfDinov3,
        Family::HfDinov2 if has("embeddings.register_tokens") => Layout::HfDinov2WithRegisters,
        Family::HfDinov2 => Layout::HfDinov2,
        Family::Blocks if keys.depth("blocks_token_only") > 0 => Layout::Cait,
        Family::Blocks if has("rope_embed.periods") || has("storage_tokens") => Layout::FbDinov3,
        Family::Blocks if has("mask_token") || has("register_tokens") => Layout::FbDinov2,
        Family::Blocks if !has("pos_embed") => match (hints.position, has("reg_token") && has("cls_token")) {
            (Some(Position::None), _) => Layout::TimmVit,
            (Some(Position::Rope { .. }), _) | (None, true) => Layout::TimmDinov3,
            // timm has other networks with rotary positions, whose keys are the same and whose rotations are not.
            _ => {
                return Err(
                    "has no pos_embed, and no registers as timm's dinov3: which positions it has can't be told".into(),
                );
            }
        },
        Family::Blocks if flat_gamma => Layout::FbDeit3,
        Family::Blocks if keys.first("blocks", "ls1.gamma").is_some() => Layout::TimmLayerScale,
        Family::Blocks => Layout::TimmVit,
    })
}
