//! What holds for every strategy of the registry. A new file in `src/variants/` is tested here without being named.

mod common;

use std::collections::BTreeSet;

use common::{BATCH, Case, Probe, SITE, WIDTH, assert_same_bits, batch_step, drop_path, largest_difference, masks};
use reslab_residual::{
    DropMode, DropPathConfig, DropRule, Join, Masks, Norm, Pass, Registry, check_compatible, connect, subset_size,
};
use reslab_torch::{Group, Scope};
use tch::{Kind, Tensor};

const MODES: [DropMode; 3] = [DropMode::Sample, DropMode::Subset, DropMode::Batch];

fn scaled(join: &dyn Join) -> bool {
    join.drop_rule() == DropRule::Scaled
}

#[test]
fn every_example_parses_and_only_with_its_own_keys() {
    let registry = Registry::builtin();
    for variant in registry.iter() {
        let mut table: toml::Table = variant.example.parse().unwrap();
        registry.parse(&table).unwrap_or_else(|e| panic!("{}: {e}", variant.name));
        let known: BTreeSet<String> = (variant.keys)().into_iter().map(|k| k.key).collect();
        let used: BTreeSet<String> = table.keys().filter(|k| *k != "kind").cloned().collect();
        assert_eq!(used, known, "{}: the example shows every key", variant.name);
        for key in used {
            let mut less = table.clone();
            less.remove(&key);
            let error = registry.parse(&less).unwrap_err();
            assert_eq!(error.key, format!("residual.{key}"), "{}: no key has a default", variant.name);
        }
        table.insert("nonsense".into(), 1.into());
        assert_eq!(registry.parse(&table).unwrap_err().key, "residual.nonsense", "{}", variant.name);
    }
}

#[test]
fn every_strategy_says_what_it_is() {
    for variant in Registry::builtin().iter() {
        for (what, text) in [("summary", variant.summary), ("equation", variant.equation), ("source", variant.source)] {
            assert!(text.is_ascii() && text.len() > 8 && !text.contains('\n'), "{}: {what}", variant.name);
        }
        assert!((variant.keys)().iter().all(|k| !k.meaning.is_empty()), "{}: a key without doc", variant.name);
    }
}

#[test]
fn a_join_keeps_the_shape_of_the_stream_and_is_finite() {
    for variant in Registry::builtin().iter() {
        for case in [Case::of(variant), Case::of(variant).moved()] {
            let y = &case.run(&mut case.opened(Pass::eval()), &Probe::new())[0];
            assert_eq!(y.size(), case.residual.size(), "{}", variant.name);
            assert!(y.isfinite().all().int64_value(&[]) == 1, "{}", variant.name);
        }
    }
}

#[test]
fn evaluation_and_rate_zero_are_exactly_the_join_without_drop_path() {
    for variant in Registry::builtin().iter() {
        let case = Case::of(variant).moved();
        let plain = case.joined();
        for mode in MODES {
            let passes = [Pass::eval(), Pass::train(Masks::none()), Pass::train(masks(&drop_path(0.0, mode), 0))];
            for mut pass in passes.map(|pass| case.opened(pass)) {
                let y = connect(&*case.join, SITE, &case.residual, &Probe::new(), &mut pass);
                assert_same_bits(&[y], &[plain.shallow_clone()], variant.name);
            }
        }
        if scaled(&*case.join) {
            let mut pass = Pass::train(masks(&drop_path(0.5, DropMode::Sample), 0));
            let y = connect(&*case.join, SITE, &case.residual, &Probe::new(), &mut pass);
            assert!(largest_difference(&y, &plain) > 1e-3, "{}: control: drop path does something", variant.name);
        }
    }
}

#[test]
fn observing_changes_no_bit_of_the_output_or_of_the_gradients() {
    for variant in Registry::builtin().iter() {
        let case = Case::of(variant).moved();
        if matches!(case.join.drop_rule(), DropRule::Refused(_)) {
            continue;
        }
        for (rate, mode) in MODES.map(|mode| (0.4, mode)).into_iter().chain([(0.0, DropMode::Sample)]) {
            for step in 0..4 {
                let masks = || masks(&drop_path(rate, mode), step);
                if case.strategy.uses_memory() && mode == DropMode::Subset {
                    continue;
                }
                let without = case.run(&mut case.opened(Pass::train(masks())), &Probe::new());
                let mut pass = case.opened(Pass::train(masks()).observe(true));
                let with = case.run(&mut pass, &Probe::new());
                assert_same_bits(&with, &without, variant.name);
                assert!(!pass.take_telemetry().is_empty());
            }
        }
    }
}

#[test]
fn every_parameter_has_one_name_and_a_group_that_fits() {
    for variant in Registry::builtin().iter() {
        let case = Case::of(variant);
        let names: BTreeSet<_> = case.parameters.iter().map(|p| &p.name).collect();
        assert_eq!(names.len(), case.parameters.len(), "{}", variant.name);
        for parameter in &case.parameters {
            assert!(parameter.tensor.requires_grad() && parameter.tensor.is_leaf(), "{}", parameter.name);
            let matrix = parameter.tensor.dim() > 1;
            assert!(matrix || parameter.group != Group::Decay, "{}: no decay on vectors", parameter.name);
        }
        let gamma = case.join.gamma();
        let scales: Vec<_> = case.parameters.iter().filter(|p| p.group == Group::Gamma).collect();
        assert_eq!(gamma.is_some(), !scales.is_empty(), "{}: telemetry sees the gammas", variant.name);
        let counting = Scope::counting();
        case.strategy.join(&counting.child("join"), SITE).unwrap();
        let counted: i64 = counting.parameters().iter().map(|p| p.tensor.numel() as i64).sum();
        let real: i64 = case.parameters.iter().map(|p| p.tensor.numel() as i64).sum();
        assert!(counted <= real, "{}: a counting scope counts the same join", variant.name);
    }
}

#[test]
fn a_subset_computes_the_kept_samples_only() {
    for variant in Registry::builtin().iter() {
        let case = Case::of(variant).moved();
        if case.strategy.uses_memory() || matches!(case.join.drop_rule(), DropRule::Refused(_)) {
            continue;
        }
        for rate in [0.0, 0.3, 0.8] {
            let probe = Probe::new();
            case.run(&mut Pass::train(masks(&drop_path(rate, DropMode::Subset), 5)), &probe);
            let expected = if rate == 0.0 { BATCH } else { subset_size(BATCH, rate) };
            assert_eq!(probe.computed(), expected, "{}, rate {rate}", variant.name);
        }
        let probe = Probe::new();
        case.run(&mut Pass::train(masks(&drop_path(0.3, DropMode::Sample), 5)), &probe);
        assert_eq!(probe.computed(), BATCH, "{}: control: `sample` computes all", variant.name);
        let probe = Probe::new();
        case.run(&mut Pass::train(masks(&drop_path(0.5, DropMode::Batch), batch_step(0.5, true))), &probe);
        assert_eq!(probe.computed(), 0, "{}: a join dropped as a whole computes nothing", variant.name);
    }
}

#[test]
fn a_scaled_join_leaves_dropped_samples_alone_and_scales_the_others() {
    for variant in Registry::builtin().iter() {
        let case = Case::of(variant).moved();
        if !scaled(&*case.join) || case.strategy.uses_memory() {
            continue;
        }
        let update = case.join.update(&case.residual, &Probe::new(), &mut Pass::eval());
        let check = |config: &DropPathConfig, step: u64, scale: f64, kept: usize| {
            let masks = masks(config, step);
            assert_eq!(masks.kept(SITE, BATCH as usize), kept);
            let kept_samples = masks.kept_samples(SITE, BATCH as usize);
            let y = connect(&*case.join, SITE, &case.residual, &Probe::new(), &mut Pass::train(masks));
            let mut unchanged = 0;
            for sample in 0..BATCH {
                let (x, y, u) = (case.residual.get(sample), y.get(sample), update.get(sample));
                assert_eq!(y.equal(&x), !kept_samples.contains(&sample), "{}: sample {sample}", variant.name);
                if y.equal(&x) {
                    unchanged += 1;
                } else {
                    let error = largest_difference(&y, &(&x + &u * scale));
                    assert!(error < 1e-12, "{}: {:?} scales by {scale}: {error}", variant.name, config.mode);
                    assert!(largest_difference(&y, &(x + u)) > 1e-3, "control: the scale is seen");
                }
            }
            assert_eq!(unchanged, BATCH as usize - kept);
        };
        let sample = drop_path(0.4, DropMode::Sample);
        check(&sample, 1, 1.0 / 0.6, masks(&sample, 1).kept(SITE, BATCH as usize));
        check(&drop_path(0.45, DropMode::Subset), 1, 10.0 / 5.0, 5);
        check(&drop_path(0.4, DropMode::Batch), batch_step(0.4, false), 1.0 / 0.6, 10);
        check(&drop_path(0.4, DropMode::Batch), batch_step(0.4, true), 1.0 / 0.6, 0);
    }
}

/// The mean over a join's masks is the join without them: with `batch` there are but two, of probability keep and 1 - keep.
#[test]
fn the_mean_over_masks_is_the_join_without_drop_path() {
    for variant in Registry::builtin().iter() {
        let case = Case::of(variant).moved();
        if let DropRule::Refused(reason) = case.join.drop_rule() {
            assert!(reason.len() > 20, "{}: {reason:?} is no reason", variant.name);
            continue;
        }
        let (rate, keep) = (0.4, 0.6);
        let joined = |all: bool| {
            let masks = masks(&drop_path(rate, DropMode::Batch), batch_step(rate, all));
            let mut pass = case.opened(Pass::train(masks));
            connect(&*case.join, SITE, &case.residual, &Probe::new(), &mut pass)
        };
        let (kept, dropped) = (joined(false), joined(true));
        let off = largest_difference(&(&kept * keep + &dropped * (1.0 - keep)), &case.joined());
        assert!(off < 1e-12, "{}: the mean is off by {off}", variant.name);
        let control = largest_difference(&(kept * 0.5 + dropped * 0.5), &case.joined());
        assert!(control > 1e-4, "{}: control: other shares are seen", variant.name);
    }
}

#[test]
fn what_is_not_defined_is_refused_with_a_reason() {
    let none = DropPathConfig::none();
    for variant in Registry::builtin().iter() {
        let strategy = Case::of(variant).strategy;
        for norm in [Norm::Pre, Norm::Post, Norm::Both, Norm::None] {
            let fits = strategy.norms().contains(&norm);
            assert_eq!(check_compatible(&*strategy, &none, norm).is_ok(), fits, "{}", variant.name);
            if norm == Norm::Post && fits {
                let error = check_compatible(&*strategy, &drop_path(0.1, DropMode::Sample), norm).unwrap_err();
                assert_eq!(error.key, "drop_path.rate");
                assert!(error.problem.contains("post"), "{error}");
            }
        }
        let subset = check_compatible(&*strategy, &drop_path(0.1, DropMode::Subset), strategy.norms()[0]);
        let plain = scaled(&*Case::of(variant).join) && strategy.norms()[0] != Norm::Post && !strategy.uses_memory();
        assert!(subset.is_ok() || !plain, "{}", variant.name);
    }
}

#[test]
fn zero_is_a_value_that_trains() {
    let table: toml::Table = "kind = 'layer_scale'\ninit = 0".parse().unwrap();
    let case = Case::new(Registry::builtin().parse(&table).unwrap());
    let [gamma] = &case.parameters[..] else { panic!("one gamma") };
    assert_eq!((gamma.name.as_str(), gamma.group), ("join.gamma", Group::Gamma));
    assert!(gamma.tensor.equal(&Tensor::zeros([WIDTH], (Kind::Double, tch::Device::Cpu))));
    let results = case.run(&mut case.opened(Pass::eval()), &Probe::new());
    assert!(results[0].equal(&case.residual), "the join starts as the identity");
    assert_eq!(results[3].not_equal(0.0).sum(Kind::Int64).int64_value(&[]), WIDTH, "every gamma has a gradient");
    assert_eq!(results[2].abs().max().double_value(&[]), 0.0, "and behind a gamma of 0 the branch has none");
}

#[test]
fn a_gate_starts_at_exactly_its_initial_gain() {
    for (gain, hidden, output) in [(0.1, 16, "scalar"), (0.3, 0, "channel"), (0.0, 0, "scalar"), (-0.7, 5, "channel")] {
        let table = format!("kind = 'input_gate'\nhidden = {hidden}\ninitial_gain = {gain:?}\noutput = '{output}'");
        let case = Case::new(Registry::builtin().parse(&table.parse().unwrap()).unwrap());
        let probe = Probe::new();
        let update = case.join.update(&case.residual, &probe, &mut Pass::eval());
        let branch = (&case.residual * 0.5).matmul(&probe.weight);
        assert!(update.equal(&(branch * gain)), "{table}");
        let gate = if output == "scalar" { 1 } else { WIDTH };
        let inputs = if hidden == 0 { WIDTH } else { hidden };
        let expected = hidden * WIDTH + gate * inputs + gate + 1;
        assert_eq!(case.parameters.iter().map(|p| p.tensor.numel() as i64).sum::<i64>(), expected);
    }
}

#[test]
fn a_moved_gate_is_its_equation() {
    let table = "kind = 'input_gate'\nhidden = 5\ninitial_gain = 0.1\noutput = 'channel'";
    let case = Case::new(Registry::builtin().parse(&table.parse().unwrap()).unwrap()).moved();
    let get = |name: &str| case.parameters.iter().find(|p| p.name == format!("join.{name}")).unwrap().tensor.detach();
    let x = &case.residual;
    let centred = x - x.mean_dim([-1i64].as_slice(), true, None);
    let normed = &centred / (centred.square().mean_dim([-1i64].as_slice(), true, None) + 1e-6).sqrt();
    let hidden = normed.matmul(&get("w1").tr()).gelu("none");
    let gate = (hidden.matmul(&get("w2").tr()) + get("bias")).sigmoid() * get("gamma");
    let probe = Probe::new();
    let expected = x + gate * (x * 0.5).matmul(&probe.weight);
    let y = case.join.forward(x, &probe, &mut Pass::eval());
    assert!(largest_difference(&y, &expected) < 1e-12);
}
