//! The line of Python that opens what was written.

use std::path::Path;

use crate::{Architecture, Kind, Layout, Mlp, Pool, Position, QkvBias, config_json};

/// A line of Python after which `m` is the network, with its weights. It wants `timm`, `torch` and `safetensors`, or
/// `transformers`.
pub fn python_line(path: &Path, layout: Layout, network: &Architecture) -> String {
    let Some(class) = config_json::class(layout, network) else { return timm(path, layout, network) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    format!("import transformers; m = transformers.{class}.from_pretrained({:?})", folder.display().to_string())
}

fn timm(path: &Path, layout: Layout, network: &Architecture) -> String {
    let (class, own) = match layout {
        Layout::TimmDinov3 => ("eva.Eva", eva(network)),
        Layout::Cait => ("cait.Cait", cait(network)),
        _ => ("vision_transformer.VisionTransformer", vit(network)),
    };
    let side = network.patch_size;
    let image = match network.grid {
        // Without learned positions images may have any size.
        None => String::new(),
        Some((rows, columns)) if rows == columns => format!("img_size={}, ", rows * side),
        Some((rows, columns)) => format!("img_size=({}, {}), ", rows * side, columns * side),
    };
    let eps = network.norm_eps.unwrap_or(1e-6);
    let common = format!(
        "{image}patch_size={side}, in_chans={}, num_classes={}, embed_dim={}, depth={}, num_heads={}, \
         qkv_bias={}, norm_layer=partial(torch.nn.LayerNorm, eps={eps:?})",
        network.channels,
        network.classes.unwrap_or(0),
        network.width,
        network.depth,
        network.num_heads.unwrap_or(1),
        python_bool(network.qkv_bias != QkvBias::No),
    );
    format!(
        "import timm, torch; from functools import partial; from safetensors.torch import load_file; \
         m = timm.models.{class}({common}, {own}).eval(); m.load_state_dict(load_file({:?}))",
        path.display().to_string()
    )
}

fn python_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

fn pool(network: &Architecture) -> &'static str {
    if network.pool == Pool::Mean { "avg" } else { "token" }
}

fn vit(network: &Architecture) -> String {
    let mut words = vec![
        format!("class_token={}", python_bool(network.class_token)),
        format!("no_embed_class={}", python_bool(network.position == Position::Patches)),
        format!("reg_tokens={}", network.registers),
        format!("pre_norm={}", python_bool(network.pre_norm)),
        format!("global_pool={:?}", pool(network)),
    ];
    if network.gamma {
        words.push("init_values=1.0".to_owned());
    }
    if network.position == Position::None {
        words.push("pos_embed=\"none\"".to_owned());
    }
    if network.mlp == Mlp::SwiGlu {
        // Gate and value are one matrix there, and count as hidden width together.
        let packed = Architecture { hidden: 2 * network.hidden, ..network.clone() };
        words.push(format!("mlp_ratio={:?}", packed.mlp_ratio()));
        words.push("mlp_layer=timm.layers.SwiGLUPacked, act_layer=torch.nn.SiLU".to_owned());
    } else {
        words.push(format!("mlp_ratio={:?}", network.mlp_ratio()));
    }
    words.join(", ")
}

fn eva(network: &Architecture) -> String {
    let Position::Rope { base } = network.position else { return String::new() };
    let gated = match network.mlp {
        Mlp::Gelu => "",
        Mlp::SwiGlu => ", swiglu_mlp=True, swiglu_align_to=1",
    };
    format!(
        "mlp_ratio={:?}{gated}, init_values={}, use_rot_pos_emb=True, use_abs_pos_emb=False, rope_type=\"dinov3\", \
         rope_temperature={base:?}, rope_rotate_half=True, num_reg_tokens={}, use_fc_norm={}, global_pool={:?}, \
         dynamic_img_size=True",
        network.mlp_ratio(),
        if network.gamma { "1.0" } else { "None" },
        network.registers,
        python_bool(network.pool == Pool::Mean),
        pool(network),
    )
}

fn cait(network: &Architecture) -> String {
    let Kind::Cait { class_depth } = network.kind else { return String::new() };
    let ratio = network.mlp_ratio();
    format!("mlp_ratio={ratio:?}, mlp_ratio_token_only={ratio:?}, depth_token_only={class_depth}, init_values=1.0")
}
