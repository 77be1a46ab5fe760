//! transformers: `encoder.layer.0.attention.attention.query.weight` and `layer.0.attention.q_proj.weight`.

use super::{BlockNames, Fill, Piece, Schema, mlp};
use crate::spelling::Spelling;
use crate::{Architecture, Layout, Pool, Position, QkvBias};

/// Where DINOv2 and DINOv3 differ.
struct Names {
    patches: &'static str,
    mask_shape: &'static [usize],
    blocks: &'static str,
    qkv: [&'static str; 3],
    out: &'static str,
    norm: &'static str,
}

const DINOV2: Names = Names {
    patches: "embeddings.patch_embeddings.projection",
    mask_shape: &[1],
    blocks: "encoder.layer",
    qkv: ["attention.attention.query", "attention.attention.key", "attention.attention.value"],
    out: "attention.output.dense",
    norm: "layernorm",
};

const DINOV3: Names = Names {
    patches: "embeddings.patch_embeddings",
    mask_shape: &[1, 1],
    blocks: "layer",
    qkv: ["attention.q_proj", "attention.k_proj", "attention.v_proj"],
    out: "attention.o_proj",
    norm: "norm",
};

pub(super) fn fill(table: &mut Schema, layout: Layout, network: &Architecture, spelling: Spelling) {
    let &Architecture { width, registers, .. } = network;
    let names = if layout == Layout::HfDinov3 { DINOV3 } else { DINOV2 };
    table.same("embeddings.cls_token", "class_token", &[1, 1, width]);
    table.filled("embeddings.mask_token", &[names.mask_shape, &[width]].concat(), Fill::Zeros);
    if registers > 0 {
        table.same("embeddings.register_tokens", "registers", &[1, registers, width]);
    } else if layout != Layout::HfDinov2 {
        table.filled("embeddings.register_tokens", &[1, 0, width], Fill::Zeros);
    }
    match network.position {
        Position::All => table.positions("embeddings.position_embeddings", network, 1, 1),
        Position::Patches => table.positions("embeddings.position_embeddings", network, 1, 0),
        Position::Rope { .. } | Position::None => {}
    }
    table.patches(names.patches, network);
    for block in 0..network.depth {
        let at = BlockNames::new(names.blocks, "blocks", block);
        norms_and_gammas(table, &at, network);
        attention(table, &at, network, &names);
        mlp(table, &at, network, spelling);
    }
    table.norm(names.norm, "norm", width);
    if let Some(classes) = network.classes {
        head(table, network, classes);
    }
}

fn norms_and_gammas(table: &mut Schema, at: &BlockNames, network: &Architecture) {
    let width = network.width;
    for (number, branch) in [(1, "attention"), (2, "mlp")] {
        table.norm(&at.key(&format!("norm{number}")), &at.name(&format!("{branch}.norm")), width);
        let key = at.key(&format!("layer_scale{number}.lambda1"));
        if network.gamma {
            table.same(key, at.name(&format!("{branch}.join.gamma")), &[width]);
        } else {
            table.filled(key, &[width], Fill::Ones);
        }
    }
}

fn attention(table: &mut Schema, at: &BlockNames, network: &Architecture, names: &Names) {
    let width = network.width;
    let keys = |end: &str| names.qkv.map(|part| at.key(&format!("{part}.{end}")));
    table.joined(&keys("weight"), &[width, width], at.name("attention.qkv.weight"));
    match network.qkv_bias {
        QkvBias::No => {}
        QkvBias::Yes => table.joined(&keys("bias"), &[width], at.name("attention.qkv.bias")),
        QkvBias::NoKey => {
            let [query, key, value] = keys("bias");
            table.same(query, at.name("attention.qkv.query_bias"), &[width]);
            // DINOv2 has all three biases or none: zeros are none. DINOv3's files lack this one.
            if names.blocks == DINOV2.blocks {
                table.filled(key, &[width], Fill::Zeros);
            }
            table.same(value, at.name("attention.qkv.value_bias"), &[width]);
        }
    }
    table.linear(&at.key(names.out), &at.name("attention.out"), [width, width], true);
}

/// The head reads the class token and the patches' mean; ours may read the class token alone.
fn head(table: &mut Schema, network: &Architecture, classes: usize) {
    let width = network.width;
    if network.pool == Pool::ClassMean {
        table.linear("head", "head", [classes, 2 * width], true);
        return;
    }
    let row = |class: usize| Piece { key: "head.weight".to_owned(), at: class * 2 * width, len: width };
    table.ours("head.weight", &[classes, width], (0..classes).map(row).collect());
    table.theirs("head.weight", &[classes, 2 * width], Some(Fill::Zeros));
    table.same("head.bias", "head.bias", &[classes]);
}
