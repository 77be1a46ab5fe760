//! Special values of the strategies with a geometry: orthogonality, norms, means.

mod common;

use common::{BATCH, Case, Probe, SITE, TOKENS, WIDTH, largest_difference, normal};
use reslab_residual::{BranchKind, OptimScale, Pass, Registry, Site, Strategy};
use reslab_torch::{Group, Init, Parameter, Scope};
use tch::{Device, Kind, Tensor};

fn strategy(table: &str) -> Box<dyn Strategy> {
    Registry::builtin().parse(&table.parse().unwrap()).unwrap_or_else(|e| panic!("{table}: {e}"))
}

fn refused(table: &str, key: &str) {
    assert_eq!(Registry::builtin().parse(&table.parse().unwrap()).unwrap_err().key, key, "{table}");
}

fn largest(x: &Tensor) -> f64 {
    x.abs().max().double_value(&[])
}

/// The update of a join on the test's residual, and that residual.
fn updated(table: &str) -> (Tensor, Tensor) {
    let case = Case::new(strategy(table));
    (case.join.update(&case.residual, &Probe::new(), &mut Pass::eval()), case.residual)
}

#[test]
fn an_orthogonal_update_is_orthogonal_per_token_or_per_sample() {
    let dots = |over: &str, eps: f64, dims: &[i64]| {
        let (u, x) = updated(&format!("kind = 'orthogonal_update'\nover = '{over}'\neps = {eps:?}"));
        largest(&(u * x).sum_dim_intlist(dims, false, None))
    };
    assert!(dots("feature", 0.0, &[2]) < 1e-12);
    assert!(dots("global", 0.0, &[1, 2]) < 1e-12);
    assert!(dots("global", 0.0, &[2]) > 1e-2, "control: per sample is not per token");
    assert!(dots("feature", 0.5, &[2]) > 1e-2, "control: eps leaves a part");
}

#[test]
fn a_residual_of_zeros_has_a_finite_update() {
    let join = Case::new(strategy("kind = 'orthogonal_update'\nover = 'feature'\neps = 1e-6")).join;
    let x = Tensor::zeros([BATCH, TOKENS, WIDTH], (Kind::Double, Device::Cpu));
    assert!(bool::try_from(join.update(&x, &Probe::new(), &mut Pass::eval()).isfinite().all()).unwrap());
}

#[test]
fn mv_split_scales_the_variation_and_replaces_the_mean() {
    let mean = |x: &Tensor| x.mean_dim([1i64].as_slice(), true, None);
    let f = |x: &Tensor| (x * 0.5).matmul(&Probe::new().weight);
    let (u, x) = updated("kind = 'mv_split'\ninit = 0.03\nmean_init = 0.0");
    assert!(largest(&mean(&u)) < 1e-12, "with alpha = 0 the mean stays");
    assert!(largest_difference(&u, &((f(&x) - mean(&f(&x))) * 0.03)) < 1e-12);
    let (u, x) = updated("kind = 'mv_split'\ninit = 0.0\nmean_init = 1.0");
    let y = &x + u;
    assert!(largest_difference(&mean(&y), &mean(&f(&x))) < 1e-12, "with alpha = 1 the branch's mean replaces it");
    assert!(largest_difference(&(&y - mean(&y)), &(&x - mean(&x))) < 1e-12, "and with gamma = 0 the variation stays");
    assert!(largest_difference(&y, &x) > 1e-2, "control");
}

const NGPT: &str = "kind = 'ngpt'\ninit = 0.05\nquery_key_init = 1.0\nmlp_init = 1.0\nlogit_init = 3.0";

fn norms(x: &Tensor, dim: i64) -> Tensor {
    x.norm_scalaropt_dim(2, [dim].as_slice(), false)
}

fn of_norm_1(x: &Tensor, dim: i64) -> bool {
    largest(&(norms(x, dim) - 1.0)) < 1e-12
}

#[test]
fn an_ngpt_stream_stays_on_the_sphere_and_turns_by_its_gamma() {
    let case = Case::new(strategy(NGPT));
    assert!(of_norm_1(&case.residual, 2) && !of_norm_1(&(&case.residual * 1.1), 2));
    let y = case.joined();
    assert!(of_norm_1(&y, 2));
    let f = (&case.residual * 0.5).matmul(&Probe::new().weight);
    let direction = &f / norms(&f, 2).unsqueeze(2);
    let sum = &case.residual * 0.95 + direction * 0.05;
    assert!(largest_difference(&y, &(&sum / norms(&sum, 2).unsqueeze(2))) < 1e-12);
    let gamma = case.join.gamma().unwrap();
    assert!(largest(&(gamma.value - 0.05)) < 1e-15);
    let closed = case.stream.close(&case.residual, &mut Pass::eval());
    assert!(largest_difference(&closed, &(&case.residual * 3.0)) < 1e-12, "the logits' scale");
}

#[test]
fn ngpts_queries_and_keys_have_norm_1_and_share_their_scale() {
    let scope = Scope::new(0, Kind::Double, Device::Cpu);
    let inner = strategy(NGPT).inner(&scope, Site { kind: BranchKind::Attention, ..SITE }).unwrap();
    let x = normal("queries", &[BATCH, 2, TOKENS, WIDTH / 2]);
    let map =
        |map: &Option<Box<dyn reslab_residual::InnerMap>>| map.as_ref().expect("a map").map(&x, &x, &mut Pass::eval());
    assert!(of_norm_1(&map(&inner.keys), 3));
    // Attention divides their products by sqrt(D/H); nGPT multiplies.
    assert!(largest_difference(&map(&inner.queries), &(map(&inner.keys) * 2.0)) < 1e-12);
    assert!(inner.values.is_none() && inner.attended.is_none() && inner.hidden.is_none());
    let [scale] = &scope.parameters()[..] else { panic!("one scale for both") };
    assert_eq!(scale.tensor.numel() as i64, WIDTH);
}

fn parameters(shapes: &[(&str, &[i64])]) -> Vec<Parameter> {
    let scope = Scope::new(0, Kind::Double, Device::Cpu);
    for (name, shape) in shapes {
        let _ = scope.parameter(name, shape, Init::TruncNormal { std: 0.02, gain: 1.0 }, Group::Decay).unwrap();
    }
    scope.parameters()
}

#[test]
fn ngpt_keeps_the_matrices_vectors_of_the_stream_at_norm_1_and_leaves_the_rest() {
    let (b, other): (&str, &[(&str, &[i64])]) =
        ("blocks.00.", &[("patch_embed.weight", &[4, 6]), ("position", &[1, 3, 4]), ("blocks.00.mlp.fc1.bias", &[8])]);
    let names =
        ["attention.qkv.weight", "attention.out.weight", "mlp.fc1.weight", "mlp.fc2.weight"].map(|n| format!("{b}{n}"));
    let shapes: [(&str, &[i64]); 5] = [
        (&names[0], &[12, 4]),
        (&names[1], &[4, 4]),
        (&names[2], &[8, 4]),
        (&names[3], &[4, 8]),
        ("head.weight", &[5, 4]),
    ];
    let (matrices, rest) = (parameters(&shapes), parameters(other));
    let before: Vec<Tensor> = rest.iter().map(|p| p.tensor.detach().copy()).collect();
    let strategy = strategy(NGPT);
    assert!(!of_norm_1(&matrices[0].tensor, 1), "control");
    tch::no_grad(|| [&matrices, &rest].iter().for_each(|some| strategy.constrain(some)));
    for (matrix, dim) in matrices.iter().zip([1, 0, 1, 0, 1]) {
        assert!(of_norm_1(&matrix.tensor, dim) && matrix.tensor.requires_grad(), "{}", matrix.name);
        assert_eq!(strategy.optim_scale(matrix, 1), OptimScale { weight_decay: 0.0, ..OptimScale::ONE });
    }
    for (parameter, before) in rest.iter().zip(&before) {
        assert!(parameter.tensor.equal(before), "{}", parameter.name);
        assert_eq!(strategy.optim_scale(parameter, 1), OptimScale::ONE);
    }
}

#[test]
fn values_out_of_range_are_refused_at_their_key() {
    refused("kind = 'orthogonal_update'\nover = 'feature'\neps = -1.0", "residual.eps");
    refused("kind = 'orthogonal_update'\nover = 'token'\neps = 1.0", "residual.over");
    refused("kind = 'mv_split'\ninit = nan\nmean_init = 0.0", "residual.init");
    refused("kind = 'mv_split'\ninit = 0.0\nmean_init = inf", "residual.mean_init");
    refused(&NGPT.replace("0.05", "0.0"), "residual.init");
    refused(&NGPT.replace("3.0", "-3.0"), "residual.logit_init");
}
