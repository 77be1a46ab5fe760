//! What holds for a whole network under every strategy of the registry, in double precision. A new file in
//! `crates/reslab-residual/src/variants/` is tested here without being named; what holds for a single join is tested there.

use reslab_model::{InputShape, ModelConfig, Vit};
use reslab_residual::{Norm, Pass, Registry, Strategy, Variant};
use reslab_torch::{Parameter, Scope, autocast_bf16, foreach, set_threads, stream};
use tch::{Device, Kind, Tensor};

const INPUT: InputShape = InputShape { channels: 1, height: 8, width: 8, classes: 4 };
const BATCH: i64 = 3;
/// All different, so that a formula with the wrong letter gives another number.
const WIDTH: i64 = 8;
const HEADS: i64 = 2;
const HIDDEN: i64 = 24;
const TOKENS: i64 = 5;

fn config(depth: usize, norm: &str) -> ModelConfig {
    let table = format!(
        "kind = 'vit'\ndepth = {depth}\nwidth = {WIDTH}\nnum_heads = {HEADS}\npatch_size = 4\nmlp_ratio = 3.0\nqkv_bias = true\n\
         pool = 'class'\nnorm_eps = 1e-6\nnorm = '{norm}'\n"
    );
    ModelConfig::parse(&table.parse().unwrap()).unwrap()
}

fn by_example(variant: &Variant) -> Box<dyn Strategy> {
    Registry::builtin().parse(&variant.example.parse().unwrap()).unwrap()
}

/// A network of depth 3 with its strategy's own norms, and all its parameters.
struct Case {
    vit: Vit,
    parameters: Vec<Parameter>,
}

impl Case {
    /// As at step 0, calibrated.
    fn new(variant: &Variant, seed: u64) -> Case {
        set_threads(1); // The tests run side by side, and busy OpenMP threads slow each other several fold.
        let scope = Scope::new(seed, Kind::Double, Device::Cpu);
        let vit = Vit::new(&scope, &config(3, "strategy"), &*by_example(variant), INPUT).unwrap();
        vit.calibrate(&images()).unwrap();
        Case { vit, parameters: scope.parameters() }
    }

    /// Away from step 0, where zeros hide gradients.
    fn moved(variant: &Variant, seed: u64) -> Case {
        let case = Case::new(variant, seed);
        tch::no_grad(|| {
            for parameter in &case.parameters {
                let by = normal(&parameter.name, &parameter.tensor.size()) * 0.2 + 0.1;
                let _ = parameter.tensor.shallow_clone().g_add_(&by);
            }
        });
        case
    }

    fn logits(&self) -> Tensor {
        self.vit.forward(&images(), &mut Pass::eval())
    }

    fn loss(&self) -> Tensor {
        let logits = self.logits();
        (&logits * normal("weights of the loss", &logits.size())).sum(Kind::Double)
    }
}

fn normal(name: &str, shape: &[i64]) -> Tensor {
    let mut stream = stream(7, name, &[]);
    let count: i64 = shape.iter().product();
    Tensor::from_slice(&(0..count).map(|_| stream.normal()).collect::<Vec<f64>>()).view(shape)
}

fn images() -> Tensor {
    normal("images", &[BATCH, 1, 8, 8])
}

#[test]
fn logits_have_their_shape_and_kind_and_evaluation_gives_the_same_bits_twice() {
    for variant in Registry::builtin().iter() {
        for case in [Case::new(variant, 0), Case::moved(variant, 0)] {
            let logits = case.logits();
            assert_eq!((logits.size(), logits.kind()), (vec![BATCH, 4], Kind::Double), "{}", variant.name);
            assert!(logits.isfinite().all().int64_value(&[]) == 1, "{}", variant.name);
            assert!(logits.equal(&case.logits()), "{}", variant.name);
        }
    }
}

#[test]
fn every_parameter_has_a_gradient_and_it_is_that_of_the_forward_pass() {
    // Central differences in double precision: the error of a step of 1e-6 is about 1e-9.
    for variant in Registry::builtin().iter() {
        let case = Case::moved(variant, 0);
        case.loss().backward();
        for (parameter, grad) in case.parameters.iter().zip(foreach::grads(&case.parameters)) {
            let name = format!("{}: {}", variant.name, parameter.name);
            assert!(grad.abs().max().double_value(&[]) > 0.0, "{name}: nothing reaches it");
            let at = grad.abs().argmax(None, false).int64_value(&[]);
            let mut entry = tch::no_grad(|| parameter.tensor.view(-1).get(at));
            let mut after = |by: f64| {
                tch::no_grad(|| drop(entry.g_add_scalar_(by)));
                tch::no_grad(|| case.loss().double_value(&[]))
            };
            let slope = (after(1e-6) - after(-2e-6)) / 2e-6;
            after(1e-6);
            let grad = grad.view(-1).double_value(&[at]);
            assert!((grad - slope).abs() < 1e-5 * (1e-3 + slope.abs()), "{name}: {grad} and {slope}");
        }
    }
}

/// Whatever a strategy measures or fixes before step 0 must be in its parameters, or a checkpoint would lose it.
#[test]
fn the_parameters_are_all_that_a_network_is() {
    for variant in Registry::builtin().iter() {
        let (case, other) = (Case::moved(variant, 0), Case::new(variant, 1));
        let expected = case.logits();
        assert!(!other.logits().equal(&expected), "{}: control: another seed", variant.name);
        for (from, to) in case.parameters.iter().zip(&other.parameters) {
            assert_eq!(from.name, to.name);
            tch::no_grad(|| to.tensor.shallow_clone().copy_(&from.tensor));
        }
        assert!(other.logits().equal(&expected), "{}: it keeps something elsewhere", variant.name);
    }
}

/// Under bf16 autocast (of the CPU here) the layers that it knows compute in bfloat16, and strategies get what it gives.
#[test]
fn bfloat16_changes_logits_by_its_rounding_only() {
    for variant in Registry::builtin().iter() {
        let scope = Scope::new(0, Kind::Float, Device::Cpu);
        let vit = Vit::new(&scope, &config(3, "strategy"), &*by_example(variant), INPUT).unwrap();
        let images = images().to_kind(Kind::Float);
        vit.calibrate(&images).unwrap();
        let exact = vit.forward(&images, &mut Pass::eval());
        let guard = autocast_bf16(Device::Cpu, true);
        let rounded = vit.forward(&images, &mut Pass::eval());
        drop(guard);
        let off = (rounded.to_kind(Kind::Float) - &exact).abs().max().double_value(&[]);
        let size = exact.abs().max().double_value(&[]);
        assert!(off <= 0.05 * size + 1e-6, "{}: {off} of {size}", variant.name);
    }
}

#[test]
fn a_strategy_adds_as_many_parameters_per_block_as_its_file_says() {
    let plain = Registry::builtin().parse(&"kind = 'plain'".parse().unwrap()).unwrap();
    let count = |strategy: &dyn Strategy, depth: usize, norm: Norm| -> i64 {
        let scope = Scope::counting();
        Vit::new(&scope, &config(depth, norm.name()), strategy, INPUT).unwrap();
        scope.parameters().iter().map(|p| p.tensor.numel() as i64).sum()
    };
    for variant in Registry::builtin().iter() {
        let strategy = by_example(variant);
        let norm = strategy.norms()[0];
        let added = |depth| count(&*strategy, depth, norm) - count(&*plain, depth, norm);
        // What a stream has of its own is not of a block.
        let per_block = added(3) - added(2);
        assert_eq!(value(variant.parameters), per_block, "{}: {}", variant.name, variant.parameters);
    }
}

/// The value of a sum of products.
fn value(formula: &str) -> i64 {
    let factor = |word: &str| match word.trim() {
        "D" => WIDTH,
        "H" => HEADS,
        "M" => HIDDEN,
        "N" => TOKENS,
        "L" => 3,
        number => number.parse().unwrap_or_else(|_| panic!("{number:?} in {formula:?}")),
    };
    formula.split('+').map(|product| product.split('*').map(factor).product::<i64>()).sum()
}

#[test]
fn a_formula_is_a_sum_of_products() {
    assert_eq!(value("2*D + 16*H*M + 3"), 2 * WIDTH + 16 * HEADS * HIDDEN + 3);
    assert_eq!(value("0"), 0);
}

const HASH_OF: &str = "RESLAB_TEST_LOGITS_IN_ANOTHER_PROCESS";

/// Another process, with another layout of memory, computes the same bits.
#[test]
fn two_processes_compute_the_same_bits() {
    let bits = || {
        let of = |variant: &&'static Variant| {
            let logits: Vec<f64> = Vec::try_from(Case::moved(variant, 0).logits().view(-1)).unwrap();
            format!("{} {:?}", variant.name, logits.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
        };
        Registry::builtin().iter().collect::<Vec<_>>().iter().map(of).collect::<Vec<_>>()
    };
    if std::env::var_os(HASH_OF).is_some() {
        return bits().iter().for_each(|line| println!("logits {line}"));
    }
    let name = "two_processes_compute_the_same_bits";
    let mut other = std::process::Command::new(std::env::current_exe().unwrap());
    let output = other.args(["--exact", name, "--nocapture"]).env(HASH_OF, "1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let theirs: Vec<&str> = text.lines().filter_map(|line| line.split_once("logits ").map(|(_, rest)| rest)).collect();
    assert_eq!(theirs, bits());
    assert!(!theirs.is_empty());
}
