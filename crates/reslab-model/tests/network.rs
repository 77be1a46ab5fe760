//! What holds for the network under every strategy: shared initial values, groups, telemetry, drop path.

use std::collections::BTreeSet;

use reslab_model::{InputShape, ModelConfig, Vit};
use reslab_residual::{
    DrawStep, DropMode, DropPath, DropPathConfig, Masks, Norm, Pass, Registry, Schedule, Strategy, check_compatible,
};
use reslab_torch::{Group, Parameter, Scope, foreach, set_threads, stream};
use tch::{Device, Kind, Tensor};

const INPUT: InputShape = InputShape { channels: 1, height: 8, width: 8, classes: 4 };
const DEPTH: usize = 3;
const BATCH: i64 = 8;

fn config(pool: &str, norm: &str) -> ModelConfig {
    let table = format!(
        "kind = 'vit'\ndepth = {DEPTH}\nwidth = 8\nnum_heads = 2\npatch_size = 4\nmlp_ratio = 2.0\nqkv_bias = true\n\
         pool = '{pool}'\nnorm_eps = 1e-6\nnorm = '{norm}'\n"
    );
    ModelConfig::parse(&table.parse().unwrap()).unwrap()
}

/// Every strategy of the registry, by its example.
fn strategies() -> Vec<(&'static str, Box<dyn Strategy>)> {
    let registry = Registry::builtin();
    registry.iter().map(|v| (v.name, registry.parse(&v.example.parse().unwrap()).unwrap())).collect()
}

fn build(strategy: &dyn Strategy, config: &ModelConfig, seed: u64) -> (Vit, Vec<Parameter>) {
    set_threads(1); // The tests run side by side, and busy OpenMP threads slow each other several fold.
    let scope = Scope::new(seed, Kind::Float, Device::Cpu);
    let vit = Vit::new(&scope, config, strategy, INPUT).unwrap();
    (vit, scope.parameters())
}

fn images() -> Tensor {
    let mut stream = stream(5, "images", &[]);
    let values: Vec<f32> = (0..BATCH * 64).map(|_| stream.normal() as f32).collect();
    Tensor::from_slice(&values).view([BATCH, 1, 8, 8])
}

fn masks(config: &DropPathConfig) -> Masks {
    let at = DrawStep { seed: 1, step: 2, depth: DEPTH, batch: BATCH, micro_batches: 1, device: Device::Cpu };
    DropPath::draw(config, &at).pop().unwrap()
}

/// Logits and gradients of one pass.
fn train(vit: &Vit, parameters: &[Parameter], pass: &mut Pass) -> Vec<Tensor> {
    for parameter in parameters {
        parameter.tensor.shallow_clone().zero_grad();
    }
    let logits = vit.forward(&images(), pass);
    assert_eq!(logits.size(), [BATCH, INPUT.classes]);
    let labels = Tensor::arange(BATCH, (Kind::Int64, Device::Cpu)).remainder(INPUT.classes);
    logits.cross_entropy_for_logits(&labels).backward();
    std::iter::once(logits.detach()).chain(foreach::grads(parameters).iter().map(Tensor::copy)).collect()
}

#[test]
fn every_parameter_is_in_the_group_that_timm_would_give_it() {
    for (name, strategy) in strategies() {
        let (_, parameters) = build(&*strategy, &config("class", "strategy"), 0);
        let names: BTreeSet<_> = parameters.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names.len(), parameters.len(), "{name}");
        for known in [
            "patch_embed.bias",
            "position",
            "class_token",
            "blocks.02.attention.qkv.weight",
            "blocks.00.attention.out.bias",
            "blocks.01.mlp.fc2.weight",
            "head.weight",
        ] {
            assert!(names.contains(known), "{name}: {known}");
        }
        for known in ["norm.weight", "blocks.01.mlp.norm.bias"] {
            let normed = matches!(strategy.norms()[0], Norm::Pre | Norm::Both);
            assert_eq!(names.contains(known), normed, "{name}: {known}");
        }
        for p in &parameters {
            let decays = p.tensor.dim() > 1 && p.name != "position" && p.name != "class_token";
            let may_not = p.name.contains(".join.") || p.name.contains(".inner.") || p.name.starts_with("stream.");
            assert!((p.group == Group::Decay) == decays || may_not && decays, "{name}: {}", p.name);
        }
    }
}

/// Truncated at absolute +-2 the normal of std .02 is not cut at all; a linear layer of the network of width 8 has 64
/// to 192 entries: the standard error of its std is std / sqrt(2 n). The patch projection is uniform within 1/sqrt(16).
#[test]
fn parameters_start_as_in_timm() {
    let plain = Registry::builtin().parse(&"kind = 'plain'".parse().unwrap()).unwrap();
    let (_, parameters) = build(&*plain, &config("class", "both"), 0);
    for p in parameters.iter().filter(|p| !p.name.contains(".join.")) {
        let n = p.tensor.numel() as f64;
        let std = p.tensor.square().mean(Kind::Double).sqrt().double_value(&[]);
        let largest = p.tensor.abs().max().double_value(&[]);
        let near = |expected: f64| (std - expected).abs() < 4.0 * expected / (2.0 * n).sqrt();
        let fits = match p.name.as_str() {
            "class_token" => near(1e-6),
            name if name.starts_with("patch_embed") => largest <= 0.25 && near(0.25 / 3f64.sqrt()),
            name if name.contains("norm.weight") => p.tensor.equal(&p.tensor.ones_like()),
            name if name.ends_with("bias") => largest == 0.0,
            _ => near(0.02),
        };
        assert!(fits, "{}: std {std}, largest {largest}", p.name);
    }
}

/// Moves every parameter away from step 0, where zeros hide gradients.
fn move_away(parameters: &[Parameter], draw: u64) {
    for p in parameters {
        let mut stream = stream(draw, &p.name, &[]);
        let by: Vec<f32> = (0..p.tensor.numel()).map(|_| 0.1 + 0.2 * stream.normal() as f32).collect();
        let by = Tensor::from_slice(&by).view(&p.tensor.size()[..]);
        tch::no_grad(|| drop(p.tensor.shallow_clone().g_add_(&by)));
    }
}

#[test]
fn every_gradient_is_there_and_every_placement_trains() {
    for (name, strategy) in strategies() {
        for norm in strategy.norms() {
            // At this width the two ReLUs of a narrow gate are often both dead: one draw of a few must reach a parameter.
            let mut without: Option<BTreeSet<String>> = None;
            for draw in 0..8 {
                let (vit, parameters) = build(&*strategy, &config("mean", norm.name()), 0);
                move_away(&parameters, draw);
                let results = train(&vit, &parameters, &mut Pass::train(Masks::none()));
                let dead = |(_, grad): &(&Parameter, &Tensor)| grad.abs().max().double_value(&[]) == 0.0;
                let dead = parameters.iter().zip(&results[1..]).filter(dead).map(|(p, _)| p.name.clone());
                without = Some(dead.filter(|name| without.as_ref().is_none_or(|w| w.contains(name))).collect());
                if without.as_ref().is_some_and(BTreeSet::is_empty) {
                    break;
                }
            }
            assert_eq!(without, Some(BTreeSet::new()), "{name}, {}: nothing reaches them", norm.name());
        }
    }
}

#[test]
fn observing_a_network_changes_no_bit_and_gives_a_row_per_site() {
    for (name, strategy) in strategies() {
        let (vit, parameters) = build(&*strategy, &config("class", "strategy"), 0);
        for mode in [DropMode::Sample, DropMode::Subset, DropMode::Batch] {
            for (rate, schedule) in [(0.0, Schedule::Uniform), (0.5, Schedule::Uniform), (0.5, Schedule::Linear)] {
                let drop_path = DropPathConfig { rate, schedule, mode };
                if check_compatible(&*strategy, &drop_path, strategy.norms()[0]).is_err() {
                    continue;
                }
                let without = train(&vit, &parameters, &mut Pass::train(masks(&drop_path)));
                let mut pass = Pass::train(masks(&drop_path)).observe(true);
                let with = train(&vit, &parameters, &mut pass);
                assert!(with.iter().zip(&without).all(|(a, b)| a.equal(b)), "{name}, {mode:?}");
                let telemetry = pass.take_telemetry();
                let values: Vec<f32> = Vec::try_from(telemetry.stack().view(-1)).unwrap();
                let sites = telemetry.decode(&values);
                assert_eq!(sites.len(), 2 * DEPTH);
                for site in &sites {
                    let ordered = site.ratio.is_none() || site.ratio_p10 <= site.ratio_p90;
                    let finite = [site.ratio, site.cosine, site.residual_rms].iter().flatten().all(|v| v.is_finite());
                    assert!(ordered && finite, "{name}, {mode:?}: {site:?}");
                    assert_eq!(site.ratio.is_none(), site.residual_rms.is_none());
                }
                assert!(mode == DropMode::Batch || sites.iter().all(|s| s.ratio.is_some()));
            }
        }
    }
}

#[test]
fn the_stream_a_network_reports_is_the_one_it_has() {
    // The residual entering site i + 1 is that of site i plus its update: mean squares say so where they are orthogonal
    // only, so the first one is checked against the embedding, which a depth of one leaves to the head.
    let (vit, parameters) = build(&*strategies().remove(0).1, &config("mean", "pre"), 0);
    let get = |name: &str| parameters.iter().find(|p| p.name == name).unwrap().tensor.detach();
    let weight = get("patch_embed.weight").view([8, 1, 4, 4]);
    let tokens = images().conv2d(&weight, Some(get("patch_embed.bias")), [4, 4], [0, 0], [1, 1], 1);
    let tokens = tokens.flatten(2, 3).transpose(1, 2) + get("position");
    let mut pass = Pass::eval().observe(true);
    let _ = vit.forward(&images(), &mut pass);
    let telemetry = pass.take_telemetry();
    let values: Vec<f32> = Vec::try_from(telemetry.stack().view(-1)).unwrap();
    let seen = telemetry.decode(&values)[0].residual_rms.unwrap();
    let expected = tokens.square().mean(Kind::Double).sqrt().double_value(&[]);
    assert!((seen - expected).abs() < 1e-6 * expected, "{seen} and {expected}");
}

#[test]
fn a_counting_scope_counts_the_network_that_a_drawing_one_builds() {
    for (name, strategy) in strategies() {
        let config = config("class", "strategy");
        let (_, real) = build(&*strategy, &config, 0);
        let scope = Scope::counting();
        Vit::new(&scope, &config, &*strategy, INPUT).unwrap();
        let shapes = |of: &[Parameter]| of.iter().map(|p| (p.name.clone(), p.tensor.size())).collect::<Vec<_>>();
        assert_eq!(shapes(&scope.parameters()), shapes(&real), "{name}");
    }
}

#[test]
fn what_does_not_fit_is_an_error_that_names_the_key() {
    let strategy = &*strategies().remove(0).1;
    let tall = InputShape { height: 9, ..INPUT };
    let error = Vit::new(&Scope::counting(), &config("class", "pre"), strategy, tall).unwrap_err();
    assert!(error.to_string().starts_with("model.patch_size: must divide"), "{error}");
    let scope = Scope::counting();
    Vit::new(&scope, &config("class", "pre"), strategy, INPUT).unwrap();
    let twice = Vit::new(&scope, &config("class", "pre"), strategy, INPUT).unwrap_err();
    assert!(twice.to_string().contains("patch_embed.weight"), "{twice}");
}

/// LayerScale is a factor, not a norm: without norms a stream that is larger makes every update larger, under `pre` the
/// first one stays as it is.
#[test]
fn layer_scale_without_norms_scales_a_branch_but_does_not_normalise_it() {
    let first_update = |norm: &str, gamma: f64, stream: f64| {
        let table = format!("kind = 'layer_scale'\ninit = {gamma:?}");
        let strategy = Registry::builtin().parse(&table.parse().unwrap()).unwrap();
        let (vit, parameters) = build(&*strategy, &config("mean", norm), 0);
        for p in parameters.iter().filter(|p| p.name == "position" || p.name.starts_with("patch_embed")) {
            tch::no_grad(|| drop(p.tensor.shallow_clone().g_mul_scalar_(stream)));
        }
        let mut pass = Pass::eval().observe(true);
        let _ = vit.forward(&images(), &mut pass);
        let telemetry = pass.take_telemetry();
        let values: Vec<f32> = Vec::try_from(telemetry.stack().view(-1)).unwrap();
        let site = &telemetry.decode(&values)[0];
        (site.residual_rms.unwrap(), site.update_rms.unwrap())
    };
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.05;
    for norm in ["none", "pre"] {
        let (residual, update) = first_update(norm, 0.1, 1.0);
        assert!(near(first_update(norm, 0.3, 1.0).1, 3.0 * update), "{norm}: gamma is a factor");
        let (larger, follows) = first_update(norm, 0.1, 4.0);
        assert!(near(larger, 4.0 * residual));
        let expected = if norm == "none" { 4.0 } else { 1.0 };
        assert!(near(follows, expected * update), "{norm}: {follows} of {update}");
    }
}
