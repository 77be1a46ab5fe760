//! The optimizers against torch.optim, and what their state promises.

use std::collections::BTreeMap;

use reslab_torch::tch::{Device, Kind, Tensor};
use reslab_torch::{Group, Init, OptimError, OptimGroup, OptimKind, Optimizer, Parameter, Scope};

const ADAMW: OptimKind = OptimKind::AdamW { beta1: 0.9, beta2: 0.99, eps: 1e-3 };
const SHAPES: [(&str, &[i64]); 3] = [("weight", &[3, 4]), ("bias", &[4]), ("gamma", &[])];

/// The parameters of tests/golden/make_optim.py.
fn parameters(kind: Kind) -> Vec<Parameter> {
    let scope = Scope::new(0, kind, Device::Cpu);
    for (index, (name, shape)) in SHAPES.iter().enumerate() {
        let count = shape.iter().product::<i64>();
        let values = (0..count).map(|element| (1.0 + 3.0 * index as f64 + element as f64).sin()).collect();
        let _ = scope.parameter(name, shape, Init::Values(values), Group::Decay).unwrap();
    }
    scope.parameters()
}

/// Adds the gradients of make_optim.py at one step, through the backward of `sum(w * gradient)`.
fn backward(step: u32, parameters: &[Parameter], skip: Option<&str>) {
    for (index, Parameter { name, tensor, .. }) in parameters.iter().enumerate() {
        if skip == Some(name.as_str()) {
            continue;
        }
        let (t, i) = (f64::from(step), index as f64);
        let element = |element| (0.7 * t + 1.3 * i + 0.31 * element as f64).cos() * (1.0 + 0.1 * t);
        let gradient: Vec<f64> = (0..tensor.numel()).map(element).collect();
        let gradient = Tensor::from_slice(&gradient).to_kind(tensor.kind()).view_as(tensor);
        (tensor * gradient).sum(tensor.kind()).backward();
    }
}

fn learning_rate(step: u32) -> f64 {
    0.02 * (1.0 + 0.5 * f64::from(step).sin())
}

fn group(name: &str, parameters: &[Parameter], weight_decay: f64) -> OptimGroup {
    OptimGroup { name: name.to_string(), parameters: parameters.to_vec(), lr_scale: 1.0, eps_scale: 1.0, weight_decay }
}

fn optimizer(kind: OptimKind, parameters: &[Parameter], weight_decay: f64) -> Optimizer {
    let (decay, rest) = parameters.split_at(1);
    Optimizer::new(kind, vec![group("decay", decay, weight_decay), group("no_decay", rest, 0.0)])
}

fn train(optimizer: &mut Optimizer, parameters: &[Parameter], steps: std::ops::Range<u32>) {
    for step in steps {
        optimizer.zero_grad();
        backward(step, parameters, None);
        optimizer.step(learning_rate(step)).unwrap();
    }
}

fn values(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.detach().flatten(0, -1).to_kind(Kind::Double)).unwrap()
}

fn all_values(parameters: &[Parameter]) -> Vec<f64> {
    parameters.iter().flat_map(|parameter| values(&parameter.tensor)).collect()
}

/// All parameters after the 20 steps, in order.
fn golden(name: &str) -> Vec<f64> {
    let all: serde_json::Value = serde_json::from_str(include_str!("golden/optim.json")).unwrap();
    SHAPES
        .iter()
        .flat_map(|(parameter, _)| all[name][parameter].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()))
        .collect()
}

fn after_20_steps(kind: OptimKind, weight_decay: f64) -> Vec<f64> {
    let parameters = parameters(Kind::Double);
    train(&mut optimizer(kind, &parameters, weight_decay), &parameters, 0..20);
    all_values(&parameters)
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// make_optim.py::adamw. Without weight decay a weight moves by more than .1, with another eps or beta2 by more than
/// 1e-4: 1e-12 separates them from the rule.
#[test]
fn adamw_matches_torch_and_feels_decay_eps_and_betas() {
    let expected = golden("adamw");
    assert!(largest_difference(&after_20_steps(ADAMW, 0.5), &expected) < 1e-12);
    assert!(largest_difference(&after_20_steps(ADAMW, 0.0), &expected) > 0.1);
    let other_eps = OptimKind::AdamW { beta1: 0.9, beta2: 0.99, eps: 1e-8 };
    assert!(largest_difference(&after_20_steps(other_eps, 0.5), &expected) > 1e-4);
    let other_beta = OptimKind::AdamW { beta1: 0.9, beta2: 0.999, eps: 1e-3 };
    assert!(largest_difference(&after_20_steps(other_beta, 0.5), &expected) > 1e-4);
}

/// make_optim.py::sgd and ::plain_sgd, each the other's control; without weight decay a weight moves by more than .01.
#[test]
fn sgd_matches_torch_with_and_without_momentum() {
    let [momentum, plain] = [0.9, 0.0].map(|momentum| OptimKind::Sgd { momentum });
    assert!(largest_difference(&after_20_steps(momentum, 0.5), &golden("sgd")) < 1e-12);
    assert!(largest_difference(&after_20_steps(plain, 0.5), &golden("plain_sgd")) < 1e-12);
    assert!(largest_difference(&golden("sgd"), &golden("plain_sgd")) > 0.1);
    assert!(largest_difference(&after_20_steps(momentum, 0.0), &golden("sgd")) > 0.01);
}

#[test]
fn a_saved_state_continues_bit_by_bit() {
    for kind in [ADAMW, OptimKind::Sgd { momentum: 0.9 }] {
        let whole = parameters(Kind::Float);
        train(&mut optimizer(kind, &whole, 0.5), &whole, 0..6);

        let first = parameters(Kind::Float);
        let mut before = optimizer(kind, &first, 0.5);
        train(&mut before, &first, 0..3);
        let saved: BTreeMap<String, Tensor> = before.state().into_iter().map(|(name, x)| (name, x.copy())).collect();

        let mut resumed = optimizer(kind, &first, 0.5);
        resumed.load_state(&saved).unwrap();
        let weights: Vec<Tensor> = first.iter().map(|parameter| parameter.tensor.detach().copy()).collect();
        train(&mut resumed, &first, 3..6);
        assert_eq!(all_values(&first), all_values(&whole));

        // Control: the same weights without the state end elsewhere.
        let tensors: Vec<Tensor> = first.iter().map(|parameter| parameter.tensor.shallow_clone()).collect();
        reslab_torch::foreach::copy_(&tensors, &weights);
        train(&mut optimizer(kind, &first, 0.5), &first, 3..6);
        assert!(largest_difference(&all_values(&first), &all_values(&whole)) > 1e-3);
    }
}

#[test]
fn the_state_is_named_after_the_parameters() {
    let parameters = parameters(Kind::Float);
    let names = |kind| optimizer(kind, &parameters, 0.5).state().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let adamw = names(ADAMW);
    assert_eq!(
        (adamw.len(), &adamw[..3]),
        (9, &["weight.exp_avg", "weight.exp_avg_sq", "weight.step"].map(String::from)[..])
    );
    assert_eq!(names(OptimKind::Sgd { momentum: 0.9 }), ["weight.momentum", "bias.momentum", "gamma.momentum"]);
    assert!(names(OptimKind::Sgd { momentum: 0.0 }).is_empty());
}

#[test]
fn a_state_that_does_not_fit_is_refused_and_changes_nothing() {
    let parameters = parameters(Kind::Float);
    let mut optimizer = optimizer(ADAMW, &parameters, 0.5);
    let ones = |(name, x): (String, Tensor)| (name, x.ones_like());
    let mut saved: BTreeMap<String, Tensor> = optimizer.state().into_iter().map(ones).collect();
    let last = saved.insert("gamma.exp_avg".to_string(), Tensor::ones([2], (Kind::Float, Device::Cpu))).unwrap();
    let error = optimizer.load_state(&saved).unwrap_err();
    assert!(matches!(&error, OptimError::Shape { name, .. } if name == "gamma.exp_avg"), "{error}");
    saved.remove("gamma.exp_avg");
    let error = optimizer.load_state(&saved).unwrap_err();
    assert!(matches!(&error, OptimError::Missing(name) if name == "gamma.exp_avg"), "{error}");
    assert!(optimizer.state().iter().all(|(_, x)| values(x).iter().all(|&x| x == 0.0)));
    saved.insert("gamma.exp_avg".to_string(), last);
    optimizer.load_state(&saved).unwrap();
    assert!(optimizer.state().iter().all(|(_, x)| values(x).iter().all(|&x| x == 1.0)));
}

/// Drop path in batch mode skips branches, from the first step on.
#[test]
fn a_missing_gradient_counts_as_zero() {
    for kind in [ADAMW, OptimKind::Sgd { momentum: 0.9 }] {
        let run = |missing: bool| {
            let parameters = parameters(Kind::Float);
            let mut optimizer = optimizer(kind, &parameters, 0.5);
            for step in 0..4 {
                optimizer.zero_grad();
                let skipped = step < 2;
                if skipped && !missing {
                    (&parameters[0].tensor * 0.0).sum(Kind::Float).backward();
                }
                backward(step, &parameters, skipped.then_some("weight"));
                assert_eq!(parameters[0].tensor.grad().defined(), !(skipped && missing));
                optimizer.step(learning_rate(step)).unwrap();
            }
            all_values(&parameters)
        };
        assert_eq!(run(true), run(false));
    }
}

#[test]
fn zero_grad_leaves_no_gradient_that_the_next_would_be_added_to() {
    let parameters = parameters(Kind::Float);
    let mut optimizer = optimizer(ADAMW, &parameters, 0.5);
    backward(0, &parameters, None);
    let once = values(&parameters[0].tensor.grad());
    backward(0, &parameters, None);
    assert_ne!(values(&parameters[0].tensor.grad()), once, "the control: gradients add up");
    optimizer.zero_grad();
    assert!(!parameters[0].tensor.grad().defined());
    backward(0, &parameters, None);
    assert_eq!(values(&parameters[0].tensor.grad()), once);
}

#[test]
fn the_scales_of_a_group_are_factors_on_lr_and_eps() {
    let run = |kind, lr_scale, eps_scale, lr| {
        let parameters = parameters(Kind::Double);
        let mut optimizer =
            Optimizer::new(kind, vec![OptimGroup { lr_scale, eps_scale, ..group("all", &parameters, 0.5) }]);
        for step in 0..3 {
            optimizer.zero_grad();
            backward(step, &parameters, None);
            optimizer.step(lr).unwrap();
        }
        all_values(&parameters)
    };
    let eight_eps = OptimKind::AdamW { beta1: 0.9, beta2: 0.99, eps: 8e-3 };
    assert_eq!(run(ADAMW, 0.25, 8.0, 0.1), run(eight_eps, 1.0, 1.0, 0.025));
    assert_ne!(run(ADAMW, 0.25, 8.0, 0.1), run(ADAMW, 1.0, 1.0, 0.025));
    let sgd = OptimKind::Sgd { momentum: 0.9 };
    assert_eq!(run(sgd, 0.25, 8.0, 0.1), run(sgd, 1.0, 1.0, 0.025));
}

/// The shim checks: libtorch's fused kernels would write beyond the end here.
#[test]
fn a_step_over_tensors_that_do_not_fit_is_an_error_that_names_the_group() {
    let parameters = parameters(Kind::Float);
    let mut optimizer = optimizer(ADAMW, &parameters, 0.5);
    let (_, mut live) = optimizer.state().swap_remove(0);
    live.set_data(&Tensor::zeros([1], (Kind::Float, Device::Cpu)));
    let error = optimizer.step(0.1).unwrap_err().to_string();
    assert!(error.contains("optimizer group `decay` failed: exp_avg 0 is CPUFloatType[1]"), "{error}");
}

#[test]
#[should_panic(expected = "parameter `weight` is in two optimizer groups")]
fn a_parameter_in_two_groups_is_refused() {
    let parameters = parameters(Kind::Float);
    let _ = Optimizer::new(ADAMW, vec![group("a", &parameters, 0.0), group("b", &parameters[..1], 0.0)]);
}
