//! What holds for the networks of pretrained backbones under every strategy of the registry that they have a place for,
//! in double precision: DINOv3's tokens and MLPs, CaiT's two stages, a norm behind the embeddings.

use std::collections::BTreeSet;

use reslab_model::{InputShape, ModelConfig, ModelError, Vit};
use reslab_residual::{
    DrawStep, DropMode, DropPath, DropPathConfig, Pass, Registry, Schedule, Strategy, Variant, check_compatible,
};
use reslab_torch::{Group, Parameter, Scope, autocast_bf16, foreach, set_threads, stream};
use tch::{Device, Kind, Tensor};

const INPUT: InputShape = InputShape { channels: 1, height: 8, width: 12, classes: 4 };
const BATCH: i64 = 3;
const DEPTH: usize = 2;
const COMMON: &str =
    "depth = 2\nwidth = 16\nnum_heads = 2\npatch_size = 4\nmlp_ratio = 1.5\nnorm_eps = 1e-5\nnorm = 'strategy'\n";
const DINOV3: &str = "kind = 'vit'\nregisters = 2\nposition = 'rope'\nrope_base = 100.0\nqkv_bias = 'no_key'\nmlp = 'swiglu'\npool = 'class_mean'\n";
const CAIT: &str = "kind = 'cait'\nclass_depth = 2\nposition = 'patches'\nqkv_bias = true\npool = 'class'\n";
const PRE_NORM: &str = "kind = 'vit'\nclass_token = true\nposition = 'patches'\nregisters = 1\npre_norm = true\nqkv_bias = false\npool = 'mean'\n";
const NETWORKS: [&str; 3] = [DINOV3, CAIT, PRE_NORM];
/// It maps what stands before the GELU.
const NOT_SWIGLU: [&str; 2] = ["fixup", "ngpt"];
/// Memory of all tokens, several streams, maps of queries, keys or values, a mean over tokens.
const NOT_CAIT: [&str; 9] = [
    "admin",
    "attention_residuals",
    "hyper_connections",
    "mhc",
    "mv_split",
    "ngpt",
    "resi_dual",
    "value_residual",
    "x0_lambda",
];

fn config(network: &str) -> ModelConfig {
    ModelConfig::parse(&format!("{COMMON}{network}").parse().unwrap()).unwrap()
}

fn by_example(variant: &Variant) -> Box<dyn Strategy> {
    Registry::builtin().parse(&variant.example.parse().unwrap()).unwrap()
}

fn normal(name: &str, shape: &[i64]) -> Tensor {
    let mut stream = stream(7, name, &[]);
    let count: i64 = shape.iter().product();
    Tensor::from_slice(&(0..count).map(|_| stream.normal()).collect::<Vec<f64>>()).view(shape)
}

fn images() -> Tensor {
    normal("images", &[BATCH, 1, 8, 12])
}

/// A network away from step 0, where zeros hide gradients.
struct Case {
    name: String,
    vit: Vit,
    parameters: Vec<Parameter>,
}

impl Case {
    fn new(network: &str, variant: &Variant) -> Result<Case, ModelError> {
        set_threads(1); // The tests run side by side, and busy OpenMP threads slow each other several fold.
        let scope = Scope::new(0, Kind::Double, Device::Cpu);
        let vit = Vit::new(&scope, &config(network), &*by_example(variant), INPUT)?;
        vit.calibrate(&images())?;
        let parameters = scope.parameters();
        tch::no_grad(|| {
            for parameter in &parameters {
                let by = normal(&parameter.name, &parameter.tensor.size()) * 0.1 + 0.05;
                let _ = parameter.tensor.shallow_clone().g_add_(&by);
            }
        });
        Ok(Case { name: format!("{}, {}", network.lines().next().unwrap(), variant.name), vit, parameters })
    }

    /// Every network under every strategy that it has a place for.
    fn all() -> Vec<Case> {
        let of =
            |network| Registry::builtin().iter().filter_map(move |v| Case::new(network, v).ok()).collect::<Vec<_>>();
        NETWORKS.into_iter().flat_map(of).collect()
    }

    fn loss(&self, pass: &mut Pass) -> Tensor {
        let logits = self.vit.forward(&images(), pass);
        (&logits * normal("weights of the loss", &logits.size())).sum(Kind::Double)
    }
}

#[test]
fn strategies_that_a_network_has_no_place_for_are_refused_with_the_reason_and_no_others() {
    for (network, expected, key) in
        [(DINOV3, &NOT_SWIGLU[..], "model.mlp"), (CAIT, &NOT_CAIT[..], "model.kind"), (PRE_NORM, &[][..], "")]
    {
        let mut refused = Vec::new();
        for variant in Registry::builtin().iter() {
            let built = Vit::new(&Scope::counting(), &config(network), &*by_example(variant), INPUT);
            match built {
                Ok(_) => {}
                Err(ModelError::Config(error)) => {
                    assert_eq!(error.key, key, "{}", variant.name);
                    assert!(error.problem.contains("with this strategy: "), "{error}");
                    refused.push(variant.name);
                }
                Err(other) => panic!("{}: {other}", variant.name),
            }
        }
        assert_eq!(refused, expected, "{network}");
    }
}

#[test]
fn logits_are_finite_and_names_unique_and_a_counting_scope_counts_the_same() {
    for network in NETWORKS {
        for variant in Registry::builtin().iter() {
            let Ok(case) = Case::new(network, variant) else { continue };
            let logits = case.vit.forward(&images(), &mut Pass::eval());
            assert_eq!((logits.size(), logits.kind()), (vec![BATCH, 4], Kind::Double), "{}", case.name);
            assert!(logits.isfinite().all().int64_value(&[]) == 1, "{}", case.name);
            let names: BTreeSet<_> = case.parameters.iter().map(|p| &p.name).collect();
            assert_eq!(names.len(), case.parameters.len(), "{}", case.name);
            let scope = Scope::counting();
            Vit::new(&scope, &config(network), &*by_example(variant), INPUT).unwrap();
            let shapes = |of: &[Parameter]| of.iter().map(|p| (p.name.clone(), p.tensor.size())).collect::<Vec<_>>();
            assert_eq!(shapes(&scope.parameters()), shapes(&case.parameters), "{}", case.name);
        }
    }
}

/// What is added to all logits of a softmax changes nothing.
fn is_without_effect(name: &str) -> bool {
    name.ends_with("talking_logits.bias") || name.ends_with("attention.key.bias")
}

#[test]
fn every_parameter_has_a_gradient_and_it_is_that_of_the_forward_pass() {
    // Central differences in double precision: the error of a step of 1e-6 is about 1e-9, and more where a network
    // without norms makes the loss large.
    for case in Case::all() {
        let loss = case.loss(&mut Pass::eval());
        loss.backward();
        let rounding = 1e-9 * loss.abs().double_value(&[]);
        for (parameter, grad) in case.parameters.iter().zip(foreach::grads(&case.parameters)) {
            let name = format!("{}: {}", case.name, parameter.name);
            let largest = grad.abs().max().double_value(&[]);
            assert!(is_without_effect(&parameter.name) || largest > 1e-9, "{name}: nothing reaches it");
            let at = grad.abs().argmax(None, false).int64_value(&[]);
            let mut entry = tch::no_grad(|| parameter.tensor.view(-1).get(at));
            let mut after = |by: f64| {
                tch::no_grad(|| drop(entry.g_add_scalar_(by)));
                tch::no_grad(|| case.loss(&mut Pass::eval()).double_value(&[]))
            };
            let slope = (after(1e-6) - after(-2e-6)) / 2e-6;
            after(1e-6);
            let grad = grad.view(-1).double_value(&[at]);
            let tolerance = 1e-5 * (1e-3 + slope.abs()) + rounding;
            assert!((grad - slope).abs() < tolerance, "{name}: {grad} and {slope}");
        }
    }
}

#[test]
fn drop_path_and_telemetry_see_the_sites_of_the_blocks_and_observing_changes_no_bit() {
    for network in NETWORKS {
        for variant in Registry::builtin().iter() {
            let Ok(case) = Case::new(network, variant) else { continue };
            let strategy = by_example(variant);
            for rate in [0.0, 0.5] {
                let drop_path = DropPathConfig { rate, schedule: Schedule::Uniform, mode: DropMode::Sample };
                if check_compatible(&*strategy, &drop_path, strategy.norms()[0]).is_err() {
                    continue;
                }
                let at =
                    DrawStep { seed: 1, step: 2, depth: DEPTH, batch: BATCH, micro_batches: 1, device: Device::Cpu };
                let pass = || Pass::train(DropPath::draw(&drop_path, &at).pop().unwrap());
                let mut observed = pass().observe(true);
                let with = case.loss(&mut observed);
                assert!(with.equal(&case.loss(&mut pass())), "{}", case.name);
                let telemetry = observed.take_telemetry();
                let values: Vec<f32> = Vec::try_from(telemetry.stack().view(-1)).unwrap();
                assert_eq!(telemetry.decode(&values).len(), 2 * DEPTH, "{}", case.name);
            }
        }
    }
}

/// Under bf16 autocast the stream keeps single precision, and logits change by bfloat16's rounding only.
#[test]
fn bfloat16_changes_logits_by_its_rounding_only() {
    let bare =
        "kind = 'vit'\nclass_token = false\nposition = 'rope'\nrope_base = 100.0\nqkv_bias = true\npool = 'mean'\n";
    for network in NETWORKS.into_iter().chain([bare]) {
        for variant in Registry::builtin().iter() {
            let scope = Scope::new(0, Kind::Float, Device::Cpu);
            let Ok(vit) = Vit::new(&scope, &config(network), &*by_example(variant), INPUT) else { continue };
            let images = images().to_kind(Kind::Float);
            vit.calibrate(&images).unwrap();
            let exact = vit.forward(&images, &mut Pass::eval());
            let guard = autocast_bf16(Device::Cpu, true);
            let (rounded, tokens) = (vit.forward(&images, &mut Pass::eval()), vit.tokens(&images, &mut Pass::eval()));
            drop(guard);
            let off = (rounded.to_kind(Kind::Float) - &exact).abs().max().double_value(&[]);
            let size = exact.abs().max().double_value(&[]);
            let name = format!("{}, {}", network.lines().next().unwrap(), variant.name);
            assert!(off <= 0.05 * size + 1e-6, "{name}: {off} of {size}");
            assert_eq!(tokens.kind(), Kind::Float, "{name}");
        }
    }
}

#[test]
fn tokens_and_registers_do_not_decay() {
    let plain = Registry::builtin().get("plain").unwrap();
    for network in NETWORKS {
        for p in Case::new(network, plain).unwrap().parameters {
            let token = ["position", "class_token", "registers"].contains(&p.name.as_str());
            assert_eq!(p.group == Group::Decay, p.tensor.dim() > 1 && !token, "{}", p.name);
        }
    }
}

#[test]
fn features_are_what_the_head_reads_and_tokens_what_they_are_made_of() {
    let plain = Registry::builtin().get("plain").unwrap();
    for (network, tokens, prefix) in [(DINOV3, 9, 3), (CAIT, 7, 1), (PRE_NORM, 8, 2)] {
        let case = Case::new(network, plain).unwrap();
        let all = case.vit.tokens(&images(), &mut Pass::eval());
        assert_eq!(all.size(), [BATCH, tokens, 16]);
        let features = case.vit.features(&images(), &mut Pass::eval());
        let patches = all.narrow(1, prefix, 6).mean_dim([1i64].as_slice(), false, None::<Kind>);
        let near = |a: &Tensor, b: &Tensor| (a - b).abs().max().double_value(&[]) < 1e-12;
        let class = all.select(1, 0);
        match network {
            DINOV3 => assert!(near(&features, &Tensor::cat(&[class, patches], -1))),
            CAIT => assert!(near(&features, &class)),
            // The norm of the mean, as timm's fc_norm, and not the mean of the normed.
            _ => assert!(features.size() == [BATCH, 16] && !near(&features, &patches)),
        }
    }
}

#[test]
fn a_rotary_position_tells_patches_apart_and_leaves_the_others_alone() {
    let plain = Registry::builtin().get("plain").unwrap();
    let swapped = images().flip([3]).flip([2]);
    let far = |network: &str| {
        let case = Case::new(network, plain).unwrap();
        // Images of equal patches in another order: what does not know positions gives the same mean.
        let tile = |image: &Tensor| image.view([BATCH, 1, 2, 4, 3, 4]);
        let flipped = tile(&images()).flip([2, 4]).reshape([BATCH, 1, 8, 12]);
        assert_eq!(flipped.size(), swapped.size());
        let of = |images: &Tensor| case.vit.features(images, &mut Pass::eval());
        (of(&images()) - of(&flipped)).abs().max().double_value(&[])
    };
    let none = DINOV3.replace("position = 'rope'\nrope_base = 100.0", "position = 'none'");
    assert!(far(&none) < 1e-12, "control");
    assert!(far(DINOV3) > 1e-4, "{}", far(DINOV3));
}
