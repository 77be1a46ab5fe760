//! The config.json by which transformers opens what is written.

use serde_json::{Map, Value, json};

use crate::target::hf_mlp_ratio;
use crate::{Architecture, Dtype, Layout, Mlp, Position, QkvBias};

/// The text of config.json; `None` for layouts that have none.
pub(crate) fn of(layout: Layout, network: &Architecture, dtype: Dtype) -> Option<String> {
    let (model_type, class) = names(layout, network.classes.is_some())?;
    let mut config = Map::new();
    let mut put = |key: &str, value: Value| {
        config.insert(key.to_owned(), value);
    };
    put("architectures", json!([class]));
    put("model_type", json!(model_type));
    put("hidden_size", json!(network.width));
    put("num_hidden_layers", json!(network.depth));
    put("num_attention_heads", json!(network.num_heads));
    put("patch_size", json!(network.patch_size));
    put("num_channels", json!(network.channels));
    put("layer_norm_eps", json!(network.norm_eps));
    put("layerscale_value", json!(1.0));
    put("dtype", json!(torch_name(dtype)));
    if layout == Layout::HfDinov3 {
        dinov3(network, &mut put);
    } else {
        dinov2(network, &mut put);
    }
    if let Some(classes) = network.classes {
        let labels: Map<String, Value> = (0..classes).map(|i| (i.to_string(), json!(format!("LABEL_{i}")))).collect();
        put("id2label", Value::Object(labels));
        put("label2id", (0..classes).map(|i| (format!("LABEL_{i}"), json!(i))).collect::<Map<_, _>>().into());
    }
    Some(serde_json::to_string_pretty(&config).expect("a config is JSON") + "\n")
}

/// The kind of network there, and the class that opens it.
fn names(layout: Layout, classes: bool) -> Option<(&'static str, &'static str)> {
    Some(match (layout, classes) {
        (Layout::HfDinov2, false) => ("dinov2", "Dinov2Model"),
        (Layout::HfDinov2, true) => ("dinov2", "Dinov2ForImageClassification"),
        (Layout::HfDinov2WithRegisters, false) => ("dinov2_with_registers", "Dinov2WithRegistersModel"),
        (Layout::HfDinov2WithRegisters, true) => ("dinov2_with_registers", "Dinov2WithRegistersForImageClassification"),
        (Layout::HfDinov3, _) => ("dinov3_vit", "DINOv3ViTModel"),
        _ => return None,
    })
}

/// The class of transformers that opens a layout; `None` for those of timm.
pub(crate) fn class(layout: Layout, network: &Architecture) -> Option<&'static str> {
    names(layout, network.classes.is_some()).map(|(_, class)| class)
}

fn dinov3(network: &Architecture, put: &mut impl FnMut(&str, Value)) {
    let gated = network.mlp == Mlp::SwiGlu;
    put("intermediate_size", json!(network.hidden));
    put("num_register_tokens", json!(network.registers));
    put("hidden_act", json!(if gated { "silu" } else { "gelu" }));
    put("use_gated_mlp", json!(gated));
    put("query_bias", json!(network.qkv_bias != QkvBias::No));
    put("key_bias", json!(network.qkv_bias == QkvBias::Yes));
    put("value_bias", json!(network.qkv_bias != QkvBias::No));
    if let Position::Rope { base } = network.position {
        put("rope_theta", json!(base));
    }
    // By itself transformers moves the coordinates at random in training.
    put("pos_embed_rescale", Value::Null);
}

fn dinov2(network: &Architecture, put: &mut impl FnMut(&str, Value)) {
    let (rows, columns) = network.grid.unwrap_or((1, 1));
    let side = network.patch_size;
    let image = if rows == columns { json!(rows * side) } else { json!([rows * side, columns * side]) };
    put("image_size", image);
    put("mlp_ratio", json!(hf_mlp_ratio(network)));
    put("hidden_act", json!("gelu"));
    put("use_swiglu_ffn", json!(network.mlp == Mlp::SwiGlu));
    put("qkv_bias", json!(network.qkv_bias != QkvBias::No));
    if network.registers > 0 {
        put("num_register_tokens", json!(network.registers));
    }
}

fn torch_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F16 => "float16",
        Dtype::Bf16 => "bfloat16",
        Dtype::F32 => "float32",
        Dtype::F64 => "float64",
    }
}
