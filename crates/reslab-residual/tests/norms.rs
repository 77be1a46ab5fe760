//! Strategies that place norms or scale the residual: their numbers of depth, what they start as, what they measure.

mod common;

use common::{BATCH, Case, Probe, TOKENS, WIDTH, largest_difference, normal};
use reslab_residual::{
    BranchKind, LINEAR_STD, Network, Pass, Registry, Site, Strategy, Weight, connect, normalize, start,
};
use reslab_torch::{Parameter, Scope};
use tch::{Device, Kind, Tensor};

const DEPTH: usize = 12;

fn parse(table: &str) -> Box<dyn Strategy> {
    Registry::builtin().parse(&table.parse().unwrap()).unwrap()
}

fn site(index: usize) -> Site {
    let kind = BranchKind::ALL[index % 2];
    Site { block: index / 2, depth: DEPTH, kind, width: WIDTH, num_heads: 2, hidden: 4 * WIDTH }
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9 * expected.abs().max(1.0)
}

fn deep_norm(alpha: f64, beta: f64, xavier: bool) -> Box<dyn Strategy> {
    parse(&format!("kind = 'deep_norm'\nalpha_exponent = {alpha:?}\nbeta_exponent = {beta:?}\nxavier = {xavier}"))
}

/// The weights that a depth-dependent gain acts on, and one of those that it does not.
fn weights() -> ([Weight; 4], Weight) {
    let (attention, mlp) = (site(0), site(1));
    let scaled = [Weight::Value(attention), Weight::Out(attention), Weight::Fc1(mlp), Weight::Fc2(mlp)];
    (scaled, Weight::Query(attention))
}

/// Xavier's std of a square matrix, and of one of the MLP's, as gains on std .02.
fn xavier(weight: Weight) -> f64 {
    let sum = if matches!(weight, Weight::Fc1(_) | Weight::Fc2(_)) { 5 * WIDTH } else { 2 * WIDTH };
    (2.0 / sum as f64).sqrt() / LINEAR_STD
}

#[test]
fn deep_norms_alpha_and_beta_are_the_papers_for_an_encoder() {
    // 12 layers: alpha = 24^(1/4) = 2.2134, beta = 96^(-1/4) = 0.3195.
    let (alpha, beta) = (2.213363839400643, 0.3194715521231362);
    let found = start(&*deep_norm(0.25, 0.25, true), 5, DEPTH).unwrap();
    assert!(near(found.residual, alpha) && near(found.branch, 1.0) && found.rest < 1e-9, "{found:?}");
    let off = start(&*deep_norm(0.0, 0.25, true), 5, DEPTH).unwrap();
    assert!(near(off.residual, 1.0), "control: without alpha");
    let (scaled, other) = weights();
    for (strategy, factor) in [(deep_norm(0.25, 0.25, true), beta), (deep_norm(0.25, 0.0, true), 1.0)] {
        assert!(scaled.iter().all(|w| near(strategy.init_gain(*w), factor * xavier(*w))));
        assert!(near(strategy.init_gain(other), xavier(other)));
        assert!(near(strategy.init_gain(Weight::Head), 1.0));
    }
    let trunk = deep_norm(0.25, 0.25, false);
    assert!(scaled.iter().all(|w| near(trunk.init_gain(*w), beta)) && near(trunk.init_gain(other), 1.0));
}

#[test]
fn sub_lns_gain_is_the_papers_for_an_encoder() {
    let of = |exponent: f64, xavier: bool| {
        parse(&format!("kind = 'sub_ln'\ngain_exponent = {exponent:?}\nxavier = {xavier}"))
    };
    let gain = 24f64.ln().sqrt(); // 1.7827
    let (scaled, other) = weights();
    assert!(scaled.iter().all(|w| near(of(0.5, true).init_gain(*w), gain * xavier(*w))));
    assert!(near(of(0.5, true).init_gain(other), xavier(other)));
    assert!(scaled.iter().all(|w| near(of(0.5, false).init_gain(*w), gain)));
    assert!(scaled.iter().all(|w| near(of(0.0, false).init_gain(*w), 1.0)), "control: no gain");
}

#[test]
fn a_res_post_norm_update_has_the_size_of_its_init_whatever_the_branch() {
    let update = |table: &str, scale: f64| {
        let mut probe = Probe::new();
        probe.weight = &probe.weight * scale;
        let case = Case::new(parse(table));
        let update = case.join.update(&case.residual, &probe, &mut Pass::eval());
        update.square().mean(Kind::Double).sqrt().double_value(&[])
    };
    for scale in [1.0, 100.0] {
        assert!((update("kind = 'res_post_norm'\ninit = 0.3", scale) - 0.3).abs() < 1e-3);
        assert_eq!(update("kind = 'res_post_norm'\ninit = 0.0", scale), 0.0, "the identity at step 0");
    }
    let plain = |scale| update("kind = 'plain'", scale);
    assert!(near(plain(100.0), 100.0 * plain(1.0)), "control: a plain update follows the branch");
}

#[test]
fn keels_first_join_is_plain_and_the_others_divide_the_branch_by_the_number_of_branches() {
    let joined = |index: usize, exponent: f64, branch: f64| {
        let strategy = parse(&format!("kind = 'keel'\nalpha_exponent = {exponent:?}"));
        let join = strategy.join(&Scope::new(0, Kind::Double, Device::Cpu), site(index)).unwrap();
        let x = normal("residual", &[BATCH, TOKENS, WIDTH]);
        let mut probe = Probe::new();
        probe.weight = &probe.weight * branch;
        let output = normalize(&x).matmul(&probe.weight) * 0.5; // the probe's norm halves
        (join.forward(&x, &probe, &mut Pass::eval()), x, output)
    };
    let (y, x, f) = joined(0, 1.0, 1.0);
    assert!(largest_difference(&y, &(x + f)) < 1e-12);
    let (y, x, f) = joined(7, 1.0, 1.0);
    let off = |alpha: f64| largest_difference(&y, &normalize(&(&x * alpha + &f)));
    assert!(off(24.0) < 1e-12 && off(23.0) > 1e-4);
    let (y, x, f) = joined(7, 0.0, 1.0);
    assert!(largest_difference(&y, &normalize(&(x + f))) < 1e-12);
}

/// Post-norm joins one behind the other, each with a branch of its own size.
struct Chain<'a> {
    case: &'a [Box<dyn reslab_residual::Join>],
    x: Tensor,
}

/// How much larger each branch of the chain is than the probe's.
const SIZES: [f64; 4] = [1.0, 0.5, 3.0, 0.1];

impl Chain<'_> {
    fn probe(index: usize) -> Probe {
        let mut probe = Probe::new();
        probe.weight = &probe.weight * SIZES[index];
        probe
    }
}

impl Network for Chain<'_> {
    fn run(&self, pass: &mut Pass) {
        let mut x = self.x.shallow_clone();
        for (index, join) in self.case.iter().enumerate() {
            x = normalize(&connect(&**join, site(index), &x, &Chain::probe(index), pass));
        }
    }
}

#[test]
fn admin_measures_what_the_joins_before_have_added() {
    let (strategy, scope) = (parse("kind = 'admin'"), Scope::new(0, Kind::Double, Device::Cpu));
    let joins: Vec<_> =
        (0..SIZES.len()).map(|index| strategy.join(&scope.child(format!("{index}")), site(index)).unwrap()).collect();
    let x = normal("embedding", &[BATCH, TOKENS, WIDTH]) * 1.5;
    let parameters: Vec<Parameter> = scope.parameters();
    let omegas = || -> Vec<Tensor> { parameters.iter().map(|p| p.tensor.detach().copy()).collect() };
    assert!(omegas().iter().all(|omega| omega.equal(&Tensor::ones_like(omega))), "before it is calibrated");
    let chain = Chain { case: &joins, x: x.shallow_clone() };
    tch::no_grad(|| strategy.calibrate(&chain, &parameters).unwrap());

    // By the equation, apart from the joins: omega_i^2 = Var[embedding] + sum over j < i of Var[f_j].
    let variance = |x: &Tensor| x.var(false).double_value(&[]);
    let (mut stream, mut sum) = (x.shallow_clone(), 0.0);
    for (index, omega) in omegas().into_iter().enumerate() {
        let expected = if index == 0 { 1.0 } else { f64::sqrt(sum) };
        let off = largest_difference(&omega, &(Tensor::ones_like(&omega) * expected));
        // LN's eps leaves a variance of a little less than 1.
        assert!(off < 1e-4 * expected, "join {index}: {expected}, off by {off}");
        let f = stream.matmul(&Chain::probe(index).weight) * 0.5;
        sum += variance(&f) + if index == 0 { variance(&x) } else { 0.0 };
        stream = normalize(&(&stream * &omega + f));
    }
    assert!(sum > 4.0, "control: the branches count");
    let before = omegas();
    let _ = chain.run(&mut Pass::eval());
    assert!(omegas().iter().zip(&before).all(|(a, b)| a.equal(b)), "another pass measures nothing");
    assert!(parameters.iter().all(|p| p.tensor.requires_grad() && p.tensor.is_leaf()));
}
