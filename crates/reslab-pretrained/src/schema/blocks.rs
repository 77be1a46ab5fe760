//! timm and the authors' files: `blocks.0.attn.qkv.weight`.

use super::{BlockNames, Fill, Schema, class_depth, mlp};
use crate::spelling::{BiasKey, GammaKey, Spelling};
use crate::{Architecture, Pool, Position, QkvBias};

pub(super) fn fill(table: &mut Schema, network: &Architecture, spelling: Spelling) {
    let &Architecture { width, registers, .. } = network;
    if network.class_token {
        table.same("cls_token", "class_token", &[1, 1, width]);
    }
    if registers > 0 {
        table.same(spelling.registers, "registers", &[1, registers, width]);
    }
    positions(table, network, spelling);
    table.patches("patch_embed.proj", network);
    if network.pre_norm {
        table.norm("norm_pre", "embed_norm", width);
    }
    for block in 0..network.depth {
        let at = BlockNames::new("blocks", "blocks", block);
        norms_and_gammas(table, &at, network, spelling);
        attention(table, &at, network, spelling);
        mlp(table, &at, network, spelling);
    }
    for block in 0..class_depth(network).unwrap_or(0) {
        let at = BlockNames::new("blocks_token_only", "class_blocks", block);
        norms_and_gammas(table, &at, network, spelling);
        let bias = network.qkv_bias == QkvBias::Yes;
        for (key, name) in [("attn.q", "query"), ("attn.k", "key"), ("attn.v", "value")] {
            table.linear(&at.key(key), &at.name(&format!("attention.{name}")), [width, width], bias);
        }
        table.linear(&at.key("attn.proj"), &at.name("attention.out"), [width, width], true);
        mlp(table, &at, network, spelling);
    }
    table.norm(spelling.norm, "norm", width);
    if let Some(classes) = network.classes {
        let inputs = if network.pool == Pool::ClassMean { 2 * width } else { width };
        table.linear("head", "head", [classes, inputs], true);
    }
}

fn positions(table: &mut Schema, network: &Architecture, spelling: Spelling) {
    let class = usize::from(network.class_token);
    match network.position {
        Position::All if spelling.register_positions => {
            table.positions("pos_embed", network, class + network.registers, class);
        }
        Position::All => table.positions("pos_embed", network, class, class),
        Position::Patches => table.positions("pos_embed", network, 0, 0),
        Position::Rope { .. } | Position::None => {}
    }
}

fn norms_and_gammas(table: &mut Schema, at: &BlockNames, network: &Architecture, spelling: Spelling) {
    let width = network.width;
    for (number, branch) in [(1, "attention"), (2, "mlp")] {
        table.norm(&at.key(&format!("norm{number}")), &at.name(&format!("{branch}.norm")), width);
        let key = match spelling.gamma {
            GammaKey::Ls => at.key(&format!("ls{number}.gamma")),
            GammaKey::Flat => at.key(&format!("gamma_{number}")),
        };
        if network.gamma {
            table.same(key, at.name(&format!("{branch}.join.gamma")), &[width]);
        } else if class_depth(network).is_some() {
            // CaiT always has one.
            table.filled(key, &[width], Fill::Ones);
        }
    }
}

fn attention(table: &mut Schema, at: &BlockNames, network: &Architecture, spelling: Spelling) {
    let width = network.width;
    let (key, name) = at.of("attn.qkv.weight", "attention.qkv.weight");
    table.same(key, name, &[3 * width, width]);
    match (network.qkv_bias, spelling.bias) {
        (QkvBias::No, _) => {}
        (QkvBias::Yes, _) => {
            let (key, name) = at.of("attn.qkv.bias", "attention.qkv.bias");
            table.same(key, name, &[3 * width]);
        }
        (QkvBias::NoKey, BiasKey::Apart) => {
            for (key, name) in [("attn.q_bias", "query_bias"), ("attn.v_bias", "value_bias")] {
                table.same(at.key(key), at.name(&format!("attention.qkv.{name}")), &[width]);
            }
        }
        (QkvBias::NoKey, _) => {
            let names = [Some(at.name("attention.qkv.query_bias")), None, Some(at.name("attention.qkv.value_bias"))];
            let fill = Fill::Unread("the key's bias, which bias_mask sets to zero");
            table.split(at.key("attn.qkv.bias"), &[width], &names, Some(fill));
        }
    }
    table.linear(&at.key("attn.proj"), &at.name("attention.out"), [width, width], true);
    // Talking heads mix logits and weights over heads; where their number is not known a file has told it by these.
    if let (Some(_), Some(heads)) = (class_depth(network), network.num_heads) {
        table.linear(&at.key("attn.proj_l"), &at.name("attention.talking_logits"), [heads, heads], true);
        table.linear(&at.key("attn.proj_w"), &at.name("attention.talking_weights"), [heads, heads], true);
    }
}
