//! Special values of the strategies that scale their branches: starts, gains, optimizer factors.

mod common;

use common::{Case, Probe, SITE, WIDTH, largest_difference};
use reslab_residual::{BranchKind, LINEAR_STD, OptimScale, Pass, Registry, Site, Strategy, Weight, start};
use reslab_torch::{Group, Init, Parameter, Scope};
use tch::{Device, Kind};

fn strategy(table: &str) -> Box<dyn Strategy> {
    Registry::builtin().parse(&table.parse().unwrap()).unwrap_or_else(|e| panic!("{table}: {e}"))
}

fn refused(table: &str, key: &str, words: &str) {
    let error = Registry::builtin().parse(&table.parse().unwrap()).unwrap_err();
    assert!(error.key == key && error.problem.contains(words), "{table}: {error}");
}

/// Factors on residual and branch at step 0, in a network of so many blocks.
fn starts(table: &str, depth: usize) -> (f64, f64) {
    let found = start(&*strategy(table), 1, depth).unwrap();
    assert!(found.rest < 1e-9, "{table}: {found:?}");
    (found.residual, found.branch)
}

#[test]
fn scales_start_where_their_papers_say() {
    for (table, residual, branch) in [
        ("kind = 'rezero'", 1.0, 0.0),
        ("kind = 'skip_init'\ninit = 0", 1.0, 0.0),
        ("kind = 'skip_init'\ninit = 0.25", 1.0, 0.25),
        ("kind = 'skip_init'\ninit = 'depth'", 1.0, 24f64.powf(-0.5)),
        ("kind = 'fixed_scale'\nvalue = -0.3", 1.0, -0.3),
        ("kind = 'res_scale'\nresidual_init = 0.5\ninit = 2", 0.5, 2.0),
        ("kind = 'res_scale'\nresidual_init = 0.5\ninit = 'none'", 0.5, 1.0),
        ("kind = 'depth_scale'\npreset = 'inverse_sqrt'\nmultiplier = 3", 1.0, 3.0 / 24f64.sqrt()),
        ("kind = 'depth_scale'\npreset = 'inverse'\nmultiplier = 3", 1.0, 3.0 / 24.0),
        ("kind = 'depth_scale'\npreset = 'depth_mup'\nmultiplier = 1", 1.0, 24f64.powf(-0.5)),
        ("kind = 'depth_scale'\npreset = 'complete_p'\nmultiplier = 1\nbase_depth = 3\nalpha = 0.5", 1.0, 0.5),
    ] {
        let (found_residual, found_branch) = starts(table, 12);
        assert!((found_residual - residual).abs() < 1e-9, "{table}: {found_residual}");
        assert!((found_branch - branch).abs() < 1e-9, "{table}: {found_branch}");
    }
    assert!((starts("kind = 'skip_init'\ninit = 'depth'", 2).1 - 0.5).abs() < 1e-9, "control: another depth");
}

#[test]
fn words_and_numbers_that_are_no_start_are_refused_at_their_key() {
    refused("kind = 'skip_init'\ninit = 'width'", "residual.init", "\"depth\"");
    refused("kind = 'skip_init'\ninit = inf", "residual.init", "finite");
    refused("kind = 'res_scale'\nresidual_init = nan\ninit = 1", "residual.residual_init", "finite");
    refused("kind = 'res_scale'\nresidual_init = 1\ninit = 'no'", "residual.init", "\"none\"");
    refused("kind = 'fixed_scale'\nvalue = nan", "residual.value", "finite");
    refused("kind = 'fixup'\nattention_layers = 1", "residual.attention_layers", "at least 2");
    refused("kind = 't_fixup'\ngain = 0", "residual.gain", "above 0");
    let complete = "kind = 'depth_scale'\npreset = 'complete_p'\nmultiplier = 1\nalpha = 1\nbase_depth";
    refused(&format!("{complete} = 0"), "residual.base_depth", "at least 1");
    refused("kind = 'depth_scale'\npreset = 'half'\nmultiplier = 1", "residual.preset", "half");
    refused("kind = 'depth_scale'\npreset = 'inverse'\nmultiplier = 1\nalpha = 1", "residual.alpha", "unknown");
}

#[test]
fn a_rezero_join_is_the_identity_and_only_its_scalar_has_a_gradient() {
    for table in ["kind = 'rezero'", "kind = 'skip_init'\ninit = 0"] {
        let case = Case::new(strategy(table));
        let results = case.run(&mut Pass::eval(), &Probe::new());
        assert!(results[0].equal(&case.residual), "{table}");
        assert_eq!(results[2].abs().max().double_value(&[]), 0.0, "{table}: the branch");
        assert_ne!(results[3].double_value(&[]), 0.0, "{table}: gamma");
    }
}

const DEEP: Site = Site { block: 3, depth: 16, kind: BranchKind::Mlp, width: 64, num_heads: 2, hidden: 256 };

/// Std at step 0, of a matrix of DEEP's network.
fn std(strategy: &dyn Strategy, weight: Weight) -> f64 {
    strategy.init_gain(weight) * LINEAR_STD
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12, "{found} and {expected}");
}

#[test]
fn t_fixups_matrices_start_from_xaviers_std_and_the_papers_factors() {
    let strategy = strategy("kind = 't_fixup'\ngain = 0.67");
    let (square, mlp) = ((2.0 / 128f64).sqrt(), (2.0 / 320f64).sqrt());
    for weight in [Weight::Query(DEEP), Weight::Key(DEEP)] {
        assert_near(std(&*strategy, weight), square);
    }
    for weight in [Weight::Value(DEEP), Weight::Out(DEEP)] {
        assert_near(std(&*strategy, weight), square * 0.67 / 2.0);
    }
    for weight in [Weight::Fc1(DEEP), Weight::Fc2(DEEP)] {
        assert_near(std(&*strategy, weight), mlp * 0.67 / 2.0);
    }
    assert_near(strategy.init_gain(Weight::Embedding { depth: 16 }), 144f64.powf(-0.25));
    assert_near(strategy.init_gain(Weight::Head), 1.0);
}

#[test]
fn fixups_branches_and_classifier_start_at_zero_and_the_rest_by_the_number_of_branches() {
    let with = |layers: u32| strategy(&format!("kind = 'fixup'\nattention_layers = {layers}"));
    for weight in [Weight::Out(DEEP), Weight::Fc2(DEEP), Weight::Head] {
        assert_eq!(with(4).init_gain(weight), 0.0);
    }
    for weight in [Weight::Query(DEEP), Weight::Key(DEEP), Weight::Value(DEEP)] {
        assert_near(std(&*with(4), weight), (2.0 / 128f64).sqrt() * 32f64.powf(-1.0 / 6.0));
        assert_near(std(&*with(2), weight), (2.0 / 128f64).sqrt() * 32f64.powf(-0.5));
    }
    assert_near(std(&*with(4), Weight::Fc1(DEEP)), (2.0 / 320f64).sqrt() * 32f64.powf(-0.5));
    assert_near(with(4).init_gain(Weight::Embedding { depth: 16 }), 1.0);
}

fn parameter(name: &str) -> Parameter {
    let scope = Scope::new(0, Kind::Float, Device::Cpu);
    let _ = scope.parameter(name, &[2], Init::Constant(0.0), Group::NoDecay).unwrap();
    scope.parameters().remove(0)
}

#[test]
fn depth_presets_change_the_optimizer_of_the_blocks_and_of_nothing_else() {
    let block = parameter("blocks.01.mlp.fc1.weight");
    let of = |keys: &str| strategy(&format!("kind = 'depth_scale'\nmultiplier = 2\n{keys}")).optim_scale(&block, 8);
    assert_eq!(of("preset = 'inverse_sqrt'"), OptimScale::ONE);
    assert_eq!(of("preset = 'inverse'"), OptimScale::ONE);
    assert_eq!(of("preset = 'depth_mup'"), OptimScale { lr: 0.25, ..OptimScale::ONE });
    let complete = |alpha: f64| format!("preset = 'complete_p'\nbase_depth = 2\nalpha = {alpha:?}");
    assert_eq!(of(&complete(1.0)), OptimScale { eps: 0.25, ..OptimScale::ONE });
    assert_eq!(of(&complete(0.5)), OptimScale { lr: 0.5, eps: 0.5, ..OptimScale::ONE });
    let strategy = strategy(&format!("kind = 'depth_scale'\nmultiplier = 2\n{}", complete(0.5)));
    assert_eq!(strategy.optim_scale(&block, 2), OptimScale::ONE, "at the base depth nothing changes");
    for name in ["patch_embed.weight", "position", "norm.weight", "head.bias"] {
        assert_eq!(strategy.optim_scale(&parameter(name), 8), OptimScale::ONE, "{name}");
    }
}

/// The probe's norm halves and its body is one matrix: in block l (SITE is the second) the update is f(x) / sqrt(l).
#[test]
fn layer_norm_scaling_divides_the_branchs_input_by_the_square_root_of_the_blocks_number() {
    let case = Case::new(strategy("kind = 'layer_norm_scaling'"));
    let (probe, x) = (Probe::new(), &case.residual);
    let f = (x * 0.5).matmul(&probe.weight);
    let update = case.join.update(x, &probe, &mut Pass::eval());
    assert_eq!((SITE.block, *x.size().last().unwrap()), (1, WIDTH));
    assert!(largest_difference(&update, &(&f / 2f64.sqrt())) < 1e-12);
    assert!(largest_difference(&update, &f) > 1e-3, "control: the factor is seen");
}
