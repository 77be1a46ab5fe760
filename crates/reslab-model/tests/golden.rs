//! The network against timm 1.0.31 and PyTorch 2.11.0 in double precision (tests/golden/make_vit.py).
//!
//! Logits are of size 1 to 2; matrices and gradients are exact to some 1e-14. The weights of make_vit.py are large
//! (std .3), so that every part of the network counts: leaving out the gammas moves logits by more than .1.

use std::collections::BTreeMap;

use reslab_model::{InputShape, ModelConfig, Vit};
use reslab_residual::{Pass, Registry};
use reslab_torch::{Group, Parameter, Scope, foreach};
use tch::{Device, Kind, Tensor};

const INPUT: InputShape = InputShape { channels: 2, height: 8, width: 12, classes: 5 };
const PLAIN: &str = "kind = 'plain'";
const LAYER_SCALE: &str = "kind = 'layer_scale'\ninit = 0.1";

fn golden() -> BTreeMap<String, Tensor> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/vit.safetensors");
    Tensor::read_safetensors(path).unwrap().into_iter().collect()
}

fn config(pool: &str, norm: &str) -> ModelConfig {
    let table = format!(
        "kind = 'vit'\ndepth = 2\nwidth = 12\nnum_heads = 3\npatch_size = 4\nmlp_ratio = 2.0\nqkv_bias = true\n\
         pool = '{pool}'\nnorm_eps = 1e-6\nnorm = '{norm}'\n"
    );
    ModelConfig::parse(&table.parse().unwrap()).unwrap()
}

/// The golden network: its config and strategy, with the golden weights.
fn network(golden: &BTreeMap<String, Tensor>, config: &ModelConfig, residual: &str) -> (Vit, Vec<Parameter>) {
    let strategy = Registry::builtin().parse(&residual.parse().unwrap()).unwrap();
    let scope = Scope::new(0, Kind::Double, Device::Cpu);
    let vit = Vit::new(&scope, config, &*strategy, INPUT).unwrap();
    let parameters = scope.parameters();
    for parameter in &parameters {
        let mut value = golden[&format!("weight/{}", parameter.name)].shallow_clone();
        if parameter.name == "position" {
            let tokens = parameter.tensor.size()[1];
            value = value.narrow(1, value.size()[1] - tokens, tokens);
        }
        assert_eq!(parameter.tensor.size(), value.size(), "{}", parameter.name);
        tch::no_grad(|| parameter.tensor.shallow_clone().copy_(&value));
    }
    (vit, parameters)
}

fn difference(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().max().double_value(&[])
}

#[test]
fn logits_loss_and_gradients_are_timms_with_and_without_layer_scale() {
    let golden = golden();
    for (pool, case, residual) in [
        ("class", "class", PLAIN),
        ("mean", "mean", PLAIN),
        ("class", "layer_scale.class", LAYER_SCALE),
        ("mean", "layer_scale.mean", LAYER_SCALE),
    ] {
        let (vit, parameters) = network(&golden, &config(pool, "strategy"), residual);
        let logits = vit.forward(&golden["images"], &mut Pass::eval());
        // Not `cross_entropy_for_logits`, which goes through float32.
        let loss = logits.cross_entropy_loss(&golden["labels"], None::<Tensor>, tch::Reduction::Mean, -100, 0.0);
        loss.backward();
        assert!(difference(&logits, &golden[&format!("{case}/logits")]) < 1e-12, "{case}");
        assert!(difference(&loss, &golden[&format!("{case}/loss")]) < 1e-12, "{case}");
        let grads = golden.keys().filter(|name| name.starts_with(&format!("{case}/grad/"))).count();
        assert_eq!(parameters.len(), grads, "{case}: the same parameters");
        for (parameter, grad) in parameters.iter().zip(foreach::grads(&parameters)) {
            let expected = &golden[&format!("{case}/grad/{}", parameter.name)];
            let error = difference(&grad, expected);
            assert!(error < 1e-12, "{case}: {} is off by {error}", parameter.name);
        }
        // Control: without gamma, or with it where timm has none, the logits are far away.
        let other = if residual == PLAIN { LAYER_SCALE } else { PLAIN };
        let (wrong, _) = network(&golden, &config(pool, "strategy"), other);
        let logits = wrong.forward(&golden["images"], &mut Pass::eval());
        assert!(difference(&logits, &golden[&format!("{case}/logits")]) > 0.1, "{case}: control");
    }
}

#[test]
fn the_norms_stand_where_the_config_puts_them() {
    let golden = golden();
    for (norm, case) in [("pre", "class"), ("post", "post"), ("both", "both"), ("none", "none")] {
        let (vit, _) = network(&golden, &config("class", norm), PLAIN);
        let logits = vit.forward(&golden["images"], &mut Pass::eval());
        for (other, expected) in ["class", "post", "both", "none"].map(|c| (c, &golden[&format!("{c}/logits")])) {
            let error = difference(&logits, expected);
            assert!(if other == case { error < 1e-12 } else { error > 0.1 }, "{norm} against {other}: {error}");
        }
    }
}

#[test]
fn the_depth_48_network_has_timms_number_of_parameters() {
    let golden = golden();
    let input = InputShape { channels: 1, height: 28, width: 28, classes: 10 };
    for pool in ["class", "mean"] {
        for (label, residual) in [("", PLAIN), ("layer_scale.", "kind = 'layer_scale'\ninit = 1e-5")] {
            let table = format!(
                "kind = 'vit'\ndepth = 48\nwidth = 192\nnum_heads = 3\npatch_size = 4\nmlp_ratio = 4.0\n\
                 qkv_bias = true\npool = '{pool}'\nnorm_eps = 1e-6\nnorm = 'strategy'\n"
            );
            let config = ModelConfig::parse(&table.parse().unwrap()).unwrap();
            let strategy = Registry::builtin().parse(&residual.parse().unwrap()).unwrap();
            let scope = Scope::counting();
            Vit::new(&scope, &config, &*strategy, input).unwrap();
            let count = |wanted: &dyn Fn(&Parameter) -> bool| -> i64 {
                scope.parameters().iter().filter(|p| wanted(p)).map(|p| p.tensor.numel() as i64).sum()
            };
            assert_eq!(count(&|_| true), golden[&format!("depth48/{label}{pool}")].int64_value(&[]));
            let gammas = count(&|p| p.group == Group::Gamma);
            assert_eq!(gammas, if residual == PLAIN { 0 } else { 48 * 2 * 192 });
        }
    }
}
