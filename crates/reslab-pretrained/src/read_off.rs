//! The network's shape, read off a file's keys and shapes. What one block lacks another tells, and sides are told by
//! counts of elements where that goes: so a missing or transposed tensor is an error about that tensor and no other.

use crate::file::Stored;
use crate::hints::Hints;
use crate::keys::{Family, Keys};
use crate::spelling::{BiasKey, GammaKey, MlpKey, Spelling};
use crate::{Architecture, Kind, Layout, Mlp, NormPlacement, Pool, Position, QkvBias};

/// Tensors of a block at the least: a few keys with large numbers in them make no table of thousands of blocks.
const MIN_TENSORS: usize = 6;
/// Channels at the most, far above any network: sizes can be multiplied without overflow.
const MAX_SIZE: usize = 1 << 22;

/// Why the network can't be read off.
#[derive(Debug)]
pub(crate) enum Problem {
    /// These keys would tell, and are not there.
    Missing(String),
    /// Anything else.
    Text(String),
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem::Text(text)
    }
}

/// What everything else in a file is read by.
struct Sizes {
    depth: usize,
    width: usize,
    hidden: usize,
    patch_size: usize,
    channels: usize,
}

impl Sizes {
    /// The plainest network of these sizes.
    fn network(&self) -> Architecture {
        Architecture {
            kind: Kind::Vit,
            depth: self.depth,
            width: self.width,
            num_heads: None,
            patch_size: self.patch_size,
            channels: self.channels,
            hidden: self.hidden,
            mlp: Mlp::Gelu,
            qkv_bias: QkvBias::Yes,
            patch_bias: true,
            class_token: true,
            registers: 0,
            position: Position::None,
            positions: 0,
            grid: None,
            pre_norm: false,
            norm_eps: None,
            norm: NormPlacement::Pre,
            gamma: false,
            pool: Pool::Class,
            classes: None,
        }
    }
}

/// Names under which a family has what all have.
struct Names {
    patch: &'static str,
    class: &'static str,
    position: &'static str,
    norm: &'static [&'static str],
}

impl Names {
    fn of(family: Family) -> Names {
        let (patch, class, position, norm): (_, _, _, &[&str]) = match family {
            Family::Blocks => ("patch_embed.proj", "cls_token", "pos_embed", &["norm", "fc_norm"]),
            Family::HfDinov2 => (
                "embeddings.patch_embeddings.projection",
                "embeddings.cls_token",
                "embeddings.position_embeddings",
                &["layernorm"],
            ),
            Family::HfDinov3 => ("embeddings.patch_embeddings", "embeddings.cls_token", "", &["norm"]),
            Family::Reslab => ("patch_embed", "class_token", "position", &["norm"]),
        };
        Names { patch, class, position, norm }
    }
}

/// Keys of gamma in all families.
const GAMMAS: [&str; 6] =
    ["gamma_1", "ls1.gamma", "layer_scale1.lambda1", "gamma_2", "ls2.gamma", "layer_scale2.lambda1"];

/// Reads a file of another program.
pub(crate) fn foreign(layout: Layout, keys: &Keys, hints: &Hints) -> Result<(Architecture, Spelling), Problem> {
    let family = layout.family();
    let blocks = family.blocks();
    let (mut spelling, qkv_bias) = spelling(family, keys);
    let sizes = sizes(family, keys, spelling.mlp)?;
    let names = Names::of(family);
    let mut network = Architecture {
        kind: match keys.depth("blocks_token_only") {
            0 => Kind::Vit,
            class_depth => Kind::Cait { class_depth },
        },
        mlp: if spelling.mlp.is_gated() { Mlp::SwiGlu } else { Mlp::Gelu },
        qkv_bias,
        patch_bias: keys.has(&format!("{}.bias", names.patch)) || !keys.has("norm_pre.weight"),
        class_token: keys.has(names.class) || family != Family::Blocks,
        registers: keys.get(spelling.registers).and_then(registers).unwrap_or(0),
        pre_norm: keys.has("norm_pre.weight") || keys.has("norm_pre.bias"),
        gamma: GAMMAS.iter().any(|name| keys.first(blocks, name).is_some()),
        classes: keys.numel("head.bias").or_else(|| keys.get("head.weight").and_then(|s| s.shape.first().copied())),
        ..sizes.network()
    };
    place(layout, keys, hints, (&mut network, &mut spelling))?;
    network.pool = pool(&network, keys, spelling.norm == "fc_norm")?;
    network.norm_eps = Some(hints.norm_eps.unwrap_or(match layout {
        Layout::TimmDinov3 | Layout::FbDinov3 | Layout::HfDinov3 => 1e-5,
        _ => 1e-6,
    }));
    network.num_heads = heads(keys, hints, &network);
    match network.num_heads {
        Some(heads) if heads == 0 || !network.width.is_multiple_of(heads) => {
            Err(Problem::Text(format!("{heads} heads do not divide its width {}", network.width)))
        }
        _ => Ok((network, spelling)),
    }
}

fn spelling(family: Family, keys: &Keys) -> (Spelling, QkvBias) {
    let blocks = family.blocks();
    let (qkv_bias, bias) = biases(family, keys);
    let tokens = ["register_tokens", "storage_tokens", "embeddings.register_tokens"];
    let mean = family == Family::Blocks && keys.has("fc_norm.weight");
    let spelling = Spelling {
        gamma: if keys.first(blocks, "gamma_1").is_some() { GammaKey::Flat } else { GammaKey::Ls },
        mlp: MlpKey::found(keys, blocks),
        bias,
        registers: tokens.into_iter().find(|key| keys.has(key)).unwrap_or("reg_token"),
        norm: if mean { "fc_norm" } else { "norm" },
        register_positions: false,
    };
    (spelling, qkv_bias)
}

/// Reads a run's own checkpoint.
pub(crate) fn own(keys: &Keys, hints: &Hints) -> Result<Architecture, Problem> {
    let sizes = sizes(Family::Reslab, keys, MlpKey::Plain)?;
    let class_token = keys.has("class_token");
    let head = keys.get("head.weight");
    let doubled = head.is_some_and(|s| s.shape.last() == Some(&(2 * sizes.width)));
    let pool = match (doubled, class_token) {
        (true, _) => Pool::ClassMean,
        (false, true) => Pool::Class,
        (false, false) => Pool::Mean,
    };
    let registers = keys.get("registers").and_then(|stored| rows(stored, sizes.width)).unwrap_or(0);
    let count = keys.get("position").and_then(|stored| rows(stored, sizes.width));
    let position = match (count, hints.position) {
        (Some(_), Some(told @ (Position::All | Position::Patches))) => told,
        (Some(count), _) if class_token && square(count).is_none() => Position::All,
        (Some(_), _) => Position::Patches,
        (None, Some(told @ Position::Rope { .. })) => told,
        (None, _) => Position::None,
    };
    let class_depth = keys.depth("class_blocks");
    let class_slot = usize::from(class_token && class_depth == 0 && position == Position::All);
    let positions = count.unwrap_or(0).saturating_sub(class_slot);
    let pre = keys.first("blocks", "attention.norm.weight").is_some()
        && keys.first("blocks", "attention.out_norm.weight").is_none();
    Ok(Architecture {
        kind: if class_depth > 0 { Kind::Cait { class_depth } } else { Kind::Vit },
        num_heads: hints.num_heads,
        mlp: if keys.first("blocks", "mlp.gate.weight").is_some() { Mlp::SwiGlu } else { Mlp::Gelu },
        qkv_bias: match () {
            () if keys.first("blocks", "attention.qkv.query_bias").is_some() => QkvBias::NoKey,
            () if keys.first("blocks", "attention.qkv.bias").is_some() => QkvBias::Yes,
            () => QkvBias::No,
        },
        patch_bias: keys.has("patch_embed.bias"),
        class_token,
        registers,
        position: if class_depth > 0 { Position::Patches } else { position },
        positions,
        grid: square(positions),
        pre_norm: keys.has("embed_norm.weight"),
        norm_eps: hints.norm_eps,
        norm: if pre { NormPlacement::Pre } else { NormPlacement::Other },
        gamma: keys.first("blocks", "attention.join.gamma").is_some(),
        pool: hints.pool.unwrap_or(pool),
        classes: head.and_then(|stored| stored.shape.first().copied()),
        ..sizes.network()
    })
}

fn sizes(family: Family, keys: &Keys, mlp: MlpKey) -> Result<Sizes, Problem> {
    let names = Names::of(family);
    let blocks = family.blocks();
    let (norm1, first, second) = match family {
        Family::Reslab => ("attention.norm.weight", "mlp.fc1", "mlp.fc2"),
        _ => ("norm1.weight", mlp.first_layer().0, mlp.second_layer()),
    };
    let norms = names.norm.iter().map(|norm| format!("{norm}.weight"));
    let width = keys
        .numel(names.class)
        .or_else(|| norms.filter_map(|key| keys.numel(&key)).next())
        .or_else(|| keys.numel(&format!("{}.bias", names.patch)))
        .or_else(|| keys.first(blocks, norm1).map(Stored::numel))
        .filter(|width| *width > 0)
        .ok_or_else(|| Problem::Missing(names.class.to_owned()))?;
    let depth = keys.depth(blocks);
    if depth == 0 {
        return Err(Problem::Missing(format!("{blocks}.0.{norm1}")));
    }
    let all = depth + keys.depth("blocks_token_only") + keys.depth("class_blocks");
    if all * MIN_TENSORS > keys.map.len() {
        let count = keys.map.len();
        return Err(Problem::Text(format!("numbers its blocks up to {}, but has only {count} tensors", depth - 1)));
    }
    let weight = keys.first(blocks, &format!("{second}.weight")).map(|stored| stored.numel() / width);
    let bias = keys.first(blocks, &format!("{first}.bias")).map(|stored| stored.numel() / mlp.first_layer().1);
    let hidden = weight.or(bias).ok_or_else(|| Problem::Missing(format!("{blocks}.0.{second}.weight")))?;
    let key = format!("{}.weight", names.patch);
    let patch = keys.get(&key).ok_or_else(|| Problem::Missing(key.clone()))?;
    let (channels, patch_size) = if family == Family::Reslab {
        own_patch(&patch.shape)?
    } else {
        match patch.shape[..] {
            [_, channels, height, width] if height == width => (channels, height),
            _ => return Err(Problem::Text(format!("{key} is {:?}; a square patch is [D, C, P, P]", patch.shape))),
        }
    };
    if width > MAX_SIZE || hidden > MAX_SIZE {
        return Err(Problem::Text(format!(
            "its width is {width} and its hidden width {hidden}: no network has as many"
        )));
    }
    Ok(Sizes { depth, width, hidden, patch_size, channels })
}

/// Channels and side of `[D, C * P * P]`: colour, where the area is three squares, else grey.
fn own_patch(shape: &[usize]) -> Result<(usize, usize), Problem> {
    let [_, area] = shape[..] else { return Err(Problem::Text(format!("patch_embed.weight is {shape:?}"))) };
    let side = |channels: usize| area.is_multiple_of(channels).then(|| square(area / channels)).flatten();
    let found = [3, 1].into_iter().find_map(|channels| Some((channels, side(channels)?.0)));
    found.ok_or_else(|| {
        Problem::Text(format!("patch_embed.weight reads {area} numbers: no square patch of 1 or 3 channels"))
    })
}

fn biases(family: Family, keys: &Keys) -> (QkvBias, BiasKey) {
    let blocks = family.blocks();
    let has = |name: &str| keys.first(blocks, name).is_some();
    let (query, key) = match family {
        Family::HfDinov2 => ("attention.attention.query.bias", "attention.attention.key.bias"),
        Family::HfDinov3 => ("attention.q_proj.bias", "attention.k_proj.bias"),
        _ if has("attn.qkv.bias_mask") => return (QkvBias::NoKey, BiasKey::Masked),
        _ if has("attn.q_bias") || has("attn.v_bias") => return (QkvBias::NoKey, BiasKey::Apart),
        _ => ("attn.qkv.bias", "attn.qkv.bias"),
    };
    match (has(query), has(key)) {
        (_, true) => (QkvBias::Yes, BiasKey::Fused),
        (true, false) => (QkvBias::NoKey, BiasKey::Fused),
        (false, false) => (QkvBias::No, BiasKey::Fused),
    }
}

/// How patches know where they are; for learned positions how many there are, and in which rows and columns.
fn place(
    layout: Layout,
    keys: &Keys,
    hints: &Hints,
    (network, spelling): (&mut Architecture, &mut Spelling),
) -> Result<(), Problem> {
    let names = Names::of(layout.family());
    if matches!(layout, Layout::TimmDinov3 | Layout::FbDinov3 | Layout::HfDinov3) {
        // All released networks have base 100; FB's file holds what follows from it, which is checked.
        network.position = Position::Rope { base: hints.rope_base.unwrap_or(100.0) };
        return Ok(());
    }
    let Some(stored) = keys.get(names.position) else {
        if hints.position == Some(Position::None) {
            return Ok(());
        }
        return Err(Problem::Missing(names.position.to_owned()));
    };
    let count = rows(stored, network.width)
        .ok_or_else(|| format!("{} is {:?}; positions are [1, N, {}]", names.position, stored.shape, network.width))?;
    let prefix = usize::from(network.class_token) + network.registers;
    (network.position, network.positions) = match layout {
        Layout::HfDinov2 | Layout::HfDinov2WithRegisters | Layout::FbDinov2 => (Position::All, count.saturating_sub(1)),
        Layout::Cait | Layout::FbDeit3 => (Position::Patches, count),
        _ if !network.class_token && network.registers == 0 => (Position::All, count),
        // Squares tell: no square is the next number of another, but for 0 and 1.
        _ if square(count).is_some() => (Position::Patches, count),
        _ if network.class_token && count > 1 && square(count - 1).is_some() => (Position::All, count - 1),
        _ if count > prefix && square(count - prefix).is_some() => {
            spelling.register_positions = true;
            (Position::All, count - prefix)
        }
        _ => {
            return Err(Problem::Text(format!(
                "pos_embed has {count} positions, which is no square of patches with or without a class token: other \
                 grids can't be told"
            )));
        }
    };
    let told = hints.image.map(|(height, width)| (height / network.patch_size, width / network.patch_size));
    let told = told.filter(|(rows, columns)| rows.checked_mul(*columns) == Some(network.positions));
    network.grid = square(network.positions).or(told);
    Ok(())
}

fn pool(network: &Architecture, keys: &Keys, mean: bool) -> Result<Pool, Problem> {
    let inputs = keys.numel("head.weight").zip(network.classes).map(|(numel, classes)| numel / classes.max(1));
    match inputs {
        _ if mean => Ok(Pool::Mean),
        Some(inputs) if inputs == 2 * network.width => Ok(Pool::ClassMean),
        _ if network.class_token => Ok(Pool::Class),
        _ => Err(Problem::Text(
            "has no class token, and its final norm is `norm`: a mean of normed tokens is not among the pools here \
             (a norm of the mean is, and is called fc_norm)"
                .to_owned(),
        )),
    }
}

fn heads(keys: &Keys, hints: &Hints, network: &Architecture) -> Option<usize> {
    let talking = keys.first("blocks", "attn.proj_l.bias").map(Stored::numel);
    // A quarter of a head's width: sine and cosine, for rows and columns.
    let periods = keys.numel("rope_embed.periods").filter(|n| *n > 0).map(|n| network.width / (4 * n));
    let of_64 = network.width.is_multiple_of(64).then_some(network.width / 64);
    hints.num_heads.or(talking).or(periods).or(of_64)
}

/// N of `[1, N, D]`.
fn rows(stored: &Stored, width: usize) -> Option<usize> {
    match stored.shape[..] {
        [1, rows, last] if last == width => Some(rows),
        _ => None,
    }
}

/// Registers by a shape that may be wrong otherwise: it is then named with the right one.
fn registers(stored: &Stored) -> Option<usize> {
    match stored.shape[..] {
        [.., rows, _] if rows <= MAX_SIZE => Some(rows),
        _ => None,
    }
}

fn square(count: usize) -> Option<(usize, usize)> {
    let side = count.isqrt();
    (count > 0 && side * side == count).then_some((side, side))
}
