//! The figures of a join against values worked out from their definitions.

mod common;

use common::{BATCH, Case, Probe, SITE, TOKENS, WIDTH, drop_path, masks, normal};
use reslab_residual::{Branch, DropMode, LayerTelemetry, Pass, Registry, SiteFigures, connect};
use tch::{Device, Kind, Tensor};

fn case(table: &str) -> Case {
    Case::new(Registry::builtin().parse(&table.parse().unwrap()).unwrap())
}

fn figures(telemetry: &LayerTelemetry) -> SiteFigures {
    let values: Vec<f32> = Vec::try_from(telemetry.stack().view(-1)).unwrap();
    assert_eq!(values.len(), telemetry.len());
    let all = telemetry.decode(&values);
    assert_eq!(all.len(), SITE.index() + 1);
    assert_eq!(all[0], SiteFigures::default(), "a site that was not passed has no figure");
    all[SITE.index()]
}

fn observe(case: &Case, pass: Pass) -> SiteFigures {
    let mut pass = pass.observe(true);
    let _ = connect(&*case.join, SITE, &case.residual, &Probe::new(), &mut pass);
    figures(&pass.take_telemetry())
}

/// Rows of `[T, D]` as vectors.
fn rows(x: &Tensor) -> Vec<Vec<f64>> {
    let x = x.reshape([-1, WIDTH]);
    (0..x.size()[0]).map(|i| Vec::try_from(x.get(i)).unwrap()).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// numpy's default percentile.
fn percentile(mut values: Vec<f64>, q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let position = q * (values.len() - 1) as f64;
    let (low, high) = (values[position.floor() as usize], values[position.ceil() as usize]);
    low + (high - low) * position.fract()
}

/// The definitions of docs/records.md on host vectors: rms of x, of f(x), of u, ratio, p10, p90, cosine.
fn expected(x: &Tensor, f: &Tensor, u: &Tensor) -> [f64; 7] {
    let rms = |t: &Tensor| mean(rows(t).into_iter().flatten().map(|v| v * v)).sqrt();
    let pairs: Vec<_> = rows(x).into_iter().zip(rows(u)).collect();
    let ratios: Vec<f64> = pairs.iter().map(|(x, u)| norm(u) / norm(x)).collect();
    let cosine = |(x, u): &(Vec<f64>, Vec<f64>)| x.iter().zip(u).map(|(a, b)| a * b).sum::<f64>() / norm(x) / norm(u);
    [
        rms(x),
        rms(f),
        rms(u),
        mean(ratios.iter().copied()),
        percentile(ratios.clone(), 0.1),
        percentile(ratios, 0.9),
        mean(pairs.iter().map(cosine)),
    ]
}

fn of_tokens(f: &SiteFigures) -> [f64; 7] {
    [f.residual_rms, f.branch_rms, f.update_rms, f.ratio, f.ratio_p10, f.ratio_p90, f.cosine].map(Option::unwrap)
}

/// float32 sums of a few dozen numbers: 1e-5 is some hundred roundings.
fn assert_near(a: &[f64], b: &[f64]) {
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < 1e-5 * (1.0 + b.abs()), "{a:?} and {b:?}");
    }
}

#[test]
fn the_figures_of_a_join_are_those_of_their_definitions() {
    let case = case("kind = 'layer_scale'\ninit = 0.5").moved();
    let probe = Probe::new();
    let f = probe.call(&case.residual, &mut Pass::eval());
    let u = case.join.update(&case.residual, &probe, &mut Pass::eval());
    let seen = observe(&case, Pass::eval());
    assert_near(&of_tokens(&seen), &expected(&case.residual, &f, &u));
    let gamma: Vec<f64> = Vec::try_from(case.parameters[0].tensor.detach()).unwrap();
    assert_near(
        &[seen.gamma_mean, seen.gamma_rms, seen.gamma_abs, seen.gamma_min, seen.gamma_max, seen.gamma_flipped]
            .map(Option::unwrap),
        &[
            mean(gamma.iter().copied()),
            mean(gamma.iter().map(|g| g * g)).sqrt(),
            mean(gamma.iter().map(|g| g.abs())),
            gamma.iter().copied().fold(f64::INFINITY, f64::min),
            gamma.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            mean(gamma.iter().map(|g| f64::from(*g < 0.0))),
        ],
    );
    assert_eq!((seen.gate_mean, seen.gate_std, seen.gate_saturated), (None, None, None));
}

#[test]
fn what_is_not_defined_is_no_number() {
    let zero = observe(&case("kind = 'layer_scale'\ninit = 0.0"), Pass::eval());
    assert_eq!((zero.ratio, zero.cosine, zero.gamma_flipped), (Some(0.0), None, None), "a zero update has no angle");
    assert_eq!((zero.gamma_mean, zero.gamma_max), (Some(0.0), Some(0.0)), "while a gamma of 0 is a number");
    let plain = observe(&case("kind = 'plain'"), Pass::eval());
    assert_eq!((plain.gamma_mean, plain.gamma_flipped, plain.gate_mean), (None, None, None));
    assert!(plain.cosine.is_some());
    let mut nan = case("kind = 'plain'");
    nan.residual = &nan.residual * f64::NAN;
    let nan = observe(&nan, Pass::eval());
    assert!([nan.ratio, nan.ratio_p90, nan.cosine, nan.residual_rms].iter().all(|v| v.unwrap().is_nan()), "{nan:?}");
}

#[test]
fn signs_flip_against_their_own_start() {
    for (init, moved, flipped) in [(0.1, [1.0, -1.0, -2.0, 0.0], 0.5), (-0.1, [1.0, -1.0, 2.0, 3.0], 0.75)] {
        let case = case(&format!("kind = 'layer_scale'\ninit = {init}"));
        assert_eq!(observe(&case, Pass::eval()).gamma_flipped, Some(0.0));
        tch::no_grad(|| case.parameters[0].tensor.shallow_clone().copy_(&Tensor::from_slice(&moved)));
        assert_eq!(observe(&case, Pass::eval()).gamma_flipped, Some(flipped));
    }
}

#[test]
fn only_kept_samples_count_and_the_division_by_keep_prob_does_not() {
    let case = case("kind = 'input_gate'\nhidden = 0\ninitial_gain = 0.3\noutput = 'scalar'").moved();
    for mode in [DropMode::Sample, DropMode::Subset] {
        let config = drop_path(0.4, mode);
        let masks = || masks(&config, 2);
        let y = connect(&*case.join, SITE, &case.residual, &Probe::new(), &mut Pass::train(masks()));
        let kept: Vec<i64> = (0..BATCH).filter(|i| !y.get(*i).equal(&case.residual.get(*i))).collect();
        assert!(kept.len() > 1 && kept.len() < BATCH as usize);
        let seen = observe(&case, Pass::train(masks()));
        let kept =
            Case { residual: case.residual.index_select(0, &Tensor::from_slice(&kept)), ..self::case(GATE).moved() };
        let alone = observe(&kept, Pass::eval());
        assert_near(&of_tokens(&seen), &of_tokens(&alone));
        let gate = |f: &SiteFigures| [f.gate_mean, f.gate_std, f.gate_saturated].map(Option::unwrap);
        assert_near(&gate(&seen), &gate(&alone));
        let whole = observe(&case, Pass::eval());
        assert!((seen.ratio.unwrap() - whole.ratio.unwrap()).abs() > 1e-3, "control: the samples differ");
    }
}

const GATE: &str = "kind = 'input_gate'\nhidden = 0\ninitial_gain = 0.3\noutput = 'scalar'";

#[test]
fn a_join_that_is_left_out_has_no_figures_but_its_gamma() {
    let case = case("kind = 'layer_scale'\ninit = 0.5");
    let step = common::batch_step(0.5, true);
    let seen = observe(&case, Pass::train(masks(&drop_path(0.5, DropMode::Batch), step)));
    let only_gamma = SiteFigures {
        gamma_mean: Some(0.5),
        gamma_rms: Some(0.5),
        gamma_abs: Some(0.5),
        gamma_min: Some(0.5),
        gamma_max: Some(0.5),
        gamma_flipped: Some(0.0),
        ..SiteFigures::default()
    };
    assert_eq!(seen, only_gamma);
}

#[test]
fn a_gate_is_measured_over_tokens_and_channels() {
    let case = case("kind = 'input_gate'\nhidden = 0\ninitial_gain = 0.4\noutput = 'channel'");
    let start = observe(&case, Pass::eval());
    assert_near(&[start.gate_mean, start.gate_std, start.gate_saturated].map(Option::unwrap), &[0.4, 0.0, 0.0]);
    // A bias of +-4 drives half the channels beyond 95 % of the range, and half below 5 %.
    let bias = case.parameters.iter().find(|p| p.name == "join.bias").unwrap().tensor.shallow_clone();
    tch::no_grad(|| bias.shallow_clone().copy_(&Tensor::from_slice(&[4.0, -4.0, 4.0, -4.0])));
    let driven = observe(&case, Pass::eval());
    assert_near(&[driven.gate_mean, driven.gate_std, driven.gate_saturated].map(Option::unwrap), &[0.4, 0.0, 1.0]);
    let case = case.moved();
    let x = case.residual.layer_norm([WIDTH], None::<Tensor>, None::<Tensor>, 1e-6, false);
    let get = |name: &str| case.parameters.iter().find(|p| p.name == format!("join.{name}")).unwrap().tensor.detach();
    let gate = (x.matmul(&get("w2").tr()) + get("bias")).sigmoid() * get("gamma");
    let gate = gate.reshape([BATCH * TOKENS, WIDTH]);
    let std = gate.std_dim([0i64].as_slice(), false, false).mean(Kind::Double).double_value(&[]);
    let seen = observe(&case, Pass::eval());
    assert_near(&[seen.gate_mean.unwrap(), seen.gate_std.unwrap()], &[gate.mean(Kind::Double).double_value(&[]), std]);
    assert!(std > 1e-2, "control: the moved gate varies");
}

#[test]
fn micro_batches_merge_into_the_figures_of_the_batch() {
    let case = case(GATE).moved();
    let whole = observe(&case, Pass::eval());
    let mut merged = LayerTelemetry::default();
    for part in case.residual.split(BATCH / 2, 0) {
        let mut pass = Pass::eval().observe(true);
        let _ = connect(&*case.join, SITE, &part, &Probe::new(), &mut pass);
        merged.merge(pass.take_telemetry());
    }
    let merged = figures(&merged);
    assert_near(&of_tokens(&merged), &of_tokens(&whole));
    assert_near(&[merged.gate_std.unwrap()], &[whole.gate_std.unwrap()]);
}

#[test]
fn a_join_of_its_own_form_is_measured_by_its_difference() {
    /// Tells no update, as a join does that is not additive.
    #[derive(Debug)]
    struct Halving;
    impl reslab_residual::Join for Halving {
        fn update(&self, _: &Tensor, _: &dyn Branch, _: &mut Pass) -> Tensor {
            unreachable!("not additive")
        }
        fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
            residual * 0.5 + branch.call(residual, pass)
        }
    }
    let residual = normal("residual", &[BATCH, TOKENS, WIDTH]);
    let mut pass = Pass::eval().observe(true);
    let probe = Probe::new();
    let y = connect(&Halving, SITE, &residual, &probe, &mut pass);
    let f = probe.call(&residual, &mut Pass::eval());
    assert_near(&of_tokens(&figures(&pass.take_telemetry())), &expected(&residual, &f, &(&y - &residual)));
}

#[test]
fn an_empty_telemetry_stacks_to_nothing() {
    let telemetry = Pass::eval().take_telemetry();
    assert!(telemetry.is_empty() && telemetry.decode(&[]).is_empty());
    assert_eq!(telemetry.stack().numel(), 0);
    assert_eq!(telemetry.stack().device(), Device::Cpu);
}
