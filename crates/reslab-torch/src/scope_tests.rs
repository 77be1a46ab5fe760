use super::*;

const NORMAL: Init = Init::TruncNormal { std: 0.02, gain: 1.0 };

fn root() -> Scope {
    Scope::new(7, Kind::Double, Device::Cpu)
}

fn values(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.detach().flatten(0, -1).to_kind(Kind::Double)).unwrap()
}

/// 100,000 values of one init.
fn drawn(init: Init) -> Vec<f64> {
    values(&root().parameter("w", &[100, 1000], init, Group::Decay).unwrap())
}

fn mean_square(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64
}

#[test]
fn a_name_is_refused_the_second_time_in_the_whole_tree() {
    let scope = root();
    let block = scope.child("blocks").child(format!("{:02}", 7));
    let _ = block.parameter("gamma", &[4], Init::Constant(0.0), Group::Gamma).unwrap();
    let twice = scope.parameter("blocks.07.gamma", &[4], Init::Constant(0.0), Group::Gamma).unwrap_err();
    assert!(matches!(&twice, ScopeError::Duplicate(name) if name == "blocks.07.gamma"), "{twice}");
    assert_eq!(scope.parameters().len(), 1);
    let _ = block.parameter("gamma2", &[4], Init::Constant(0.0), Group::Gamma).unwrap();
}

#[test]
fn parameters_come_in_the_order_of_registration_with_full_names() {
    let scope = root();
    for name in ["z", "a"] {
        let _ = scope.child(name).parameter("weight", &[2], NORMAL, Group::Decay).unwrap();
    }
    let found: Vec<String> = scope.child("other").parameters().into_iter().map(|p| p.name).collect();
    assert_eq!(found, ["z.weight", "a.weight"]);
    assert_eq!(scope.child("a").child("b").path(), "a.b");
}

#[test]
fn an_initial_value_depends_on_seed_and_name_alone() {
    let (lone, crowded) = (root(), root());
    let _ = crowded.parameter("first", &[50], NORMAL, Group::Decay).unwrap();
    let make = |scope: &Scope| values(&scope.child("a").parameter("w", &[3, 5], NORMAL, Group::Decay).unwrap());
    let expected = make(&lone);
    assert_eq!(expected, make(&crowded));
    assert_ne!(expected, make(&root().child("b")));
    assert_ne!(expected, make(&Scope::new(8, Kind::Double, Device::Cpu)));
    let single = values(
        &Scope::new(7, Kind::Float, Device::Cpu).child("a").parameter("w", &[3, 5], NORMAL, Group::Decay).unwrap(),
    );
    assert_eq!(single, expected.iter().map(|&x| f64::from(x as f32)).collect::<Vec<f64>>());
}

#[test]
fn gain_is_exactly_a_factor() {
    let gain = 0.3;
    let scaled = |x: Vec<f64>| x.iter().map(|x| gain * x).collect::<Vec<f64>>();
    assert_eq!(drawn(Init::TruncNormal { std: 0.02, gain }), scaled(drawn(NORMAL)));
    assert_eq!(drawn(Init::Uniform { bound: 0.5, gain }), scaled(drawn(Init::Uniform { bound: 0.5, gain: 1.0 })));
    assert_eq!(drawn(Init::TruncNormal { std: 0.02, gain: 0.0 }), vec![0.0; 100_000]);
}

#[test]
fn a_constant_of_zero_is_zeros_that_train() {
    let gamma = root().parameter("gamma", &[3], Init::Constant(0.0), Group::Gamma).unwrap();
    assert_eq!(values(&gamma), [0.0; 3]);
    assert!(gamma.requires_grad() && gamma.is_leaf());
    (&gamma * 2.0).sum(Kind::Double).backward();
    assert_eq!(values(&gamma.grad()), [2.0; 3]);
}

#[test]
fn given_values_are_taken_in_row_major_order() {
    let init = |count| Init::Values((0..count).map(f64::from).collect());
    let tensor = root().parameter("w", &[2, 3], init(6), Group::Decay).unwrap();
    assert_eq!(tensor.double_value(&[1, 0]), 3.0);
    let problem = root().parameter("w", &[2, 3], init(5), Group::Decay).unwrap_err().to_string();
    assert!(problem.contains("needs 6 initial values, but 5 were given"), "{problem}");
    let scalar = root().parameter("s", &[], Init::Values(vec![4.0]), Group::Gamma).unwrap();
    assert_eq!((scalar.size(), values(&scalar)), (vec![], vec![4.0]));
}

/// n = 1e5: the mean square of z is 1 up to sqrt(2 / n) = .0045. At std .02 the cut at 2 is 100 standard deviations
/// away (a cut at 2 std would leave .774); at std 2 it is one, which leaves a mean square of .2912 * 4.
#[test]
fn truncated_normals_are_cut_at_absolute_two() {
    let narrow = drawn(NORMAL);
    assert!((mean_square(&narrow) / 4e-4 - 1.0).abs() < 4.0 * 0.0045);
    assert!(narrow.iter().any(|x| x.abs() > 0.06));
    let wide = drawn(Init::TruncNormal { std: 2.0, gain: 3.0 });
    assert!(wide.iter().all(|x| x.abs() <= 6.0) && wide.iter().any(|x| x.abs() > 5.9));
    assert!((mean_square(&wide) / 9.0 - 0.2912 * 4.0).abs() < 0.02);
}

/// n = 1e5: the mean square is bound^2 / 3 up to a standard error of bound^2 * sqrt(4/45 / n) = .00094 bound^2.
#[test]
fn uniforms_fill_their_interval() {
    let values = drawn(Init::Uniform { bound: 0.25, gain: 1.0 });
    assert!(values.iter().all(|x| x.abs() <= 0.25));
    assert!((mean_square(&values) / 0.0625 - 1.0 / 3.0).abs() < 4.0 * 0.00094);
    assert!(values.iter().sum::<f64>().abs() / 1e5 < 4.0 * 0.25 / (3.0 * 1e5_f64).sqrt());
}

#[test]
fn a_counting_scope_takes_networks_of_any_size() {
    let scope = Scope::counting();
    let shape = [1 << 20, 1 << 20]; // 4 TB in f32
    let tensor = scope.child("a").parameter("w", &shape, NORMAL, Group::Decay).unwrap();
    assert_eq!((tensor.size(), tensor.numel()), (shape.to_vec(), 1 << 40));
    assert!(tensor.requires_grad());
    let scalar = scope.parameter("gamma", &[], Init::Constant(1.0), Group::Gamma).unwrap();
    assert_eq!((scalar.size(), scalar.numel()), (vec![], 1));
    let parameters = scope.parameters();
    assert_eq!((parameters[0].name.as_str(), parameters[0].group), ("a.w", Group::Decay));
    assert!(matches!(scope.child("a").parameter("w", &[], NORMAL, Group::Decay), Err(ScopeError::Duplicate(_))));
}

#[test]
fn what_cannot_be_made_is_refused_with_name_and_problem() {
    let refused = |name: &str, shape: &[i64], init| {
        let scope = root();
        let problem = scope.child("a").parameter(name, shape, init, Group::Decay).unwrap_err().to_string();
        assert!(scope.parameters().is_empty());
        problem
    };
    assert!(refused("", &[1], NORMAL).contains("`a.`"));
    assert!(refused("b..c", &[1], NORMAL).contains("`a.b..c`"));
    assert!(refused("w", &[2, -1], NORMAL).contains("negative size -1"));
    assert!(refused("w", &[1 << 40, 1 << 40], NORMAL).contains("more values than can be counted"));
    assert!(refused("w", &[1], Init::Constant(f64::NAN)).contains("finite, but is NaN"));
    assert!(refused("w", &[1], Init::TruncNormal { std: -1.0, gain: 1.0 }).contains("std must be at least 0"));
    assert!(refused("w", &[1], Init::TruncNormal { std: f64::NAN, gain: 1.0 }).contains("std must be"));
    assert!(refused("w", &[1], Init::Uniform { bound: 1.0, gain: f64::INFINITY }).contains("gain must be finite"));
}

/// The double parameter takes the tree's kind in place: what holds it computes with what the optimizer moves.
#[test]
fn an_adopted_tensor_shares_storage_and_gradient_with_its_holder() {
    let scope = Scope::new(7, Kind::Float, Device::Cpu);
    let held = Tensor::from_slice(&[0.5, -1.0]).set_requires_grad(true);
    scope.child("a").adopt("w", &held, Group::NoDecay).unwrap();
    let [adopted] = &scope.parameters()[..] else { panic!("one parameter") };
    assert_eq!((adopted.name.as_str(), adopted.tensor.kind(), held.kind()), ("a.w", Kind::Float, Kind::Float));
    assert_eq!(values(&adopted.tensor), [0.5, -1.0]);
    (&held * 3.0).sum(Kind::Float).backward();
    assert_eq!(values(&adopted.tensor.grad()), [3.0, 3.0]);
    tch::no_grad(|| drop(adopted.tensor.shallow_clone().fill_(2.0)));
    assert_eq!(values(&held), [2.0, 2.0]);
    assert!(matches!(scope.child("a").adopt("w", &held, Group::Decay), Err(ScopeError::Duplicate(_))));
    let counting = Scope::counting();
    counting.adopt("w", &held, Group::NoDecay).unwrap();
    assert_eq!(counting.parameters()[0].tensor.size(), [2]);
}
