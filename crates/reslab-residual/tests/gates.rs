//! Gates in all their modes: what they start as, that drop path keeps the mean where it is allowed, what they show.

mod common;

use common::{Case, Probe, SITE, batch_step, drop_path, largest_difference, masks};
use reslab_residual::{DropMode, DropRule, Pass, Registry, SiteFigures, Strategy, connect, start};
use tch::Tensor;

fn parse(table: &str) -> Box<dyn Strategy> {
    Registry::builtin().parse(&table.parse().unwrap()).unwrap()
}

/// Every mode of every gate that the registry's examples leave out, and those of the examples.
fn modes() -> Vec<String> {
    let gtrxl = ["input", "output", "highway", "sigmoid_tanh", "gru"].map(|mode| {
        let bias = if mode == "input" { 0.0 } else { 1.0 };
        [true, false].map(|relu| format!("kind = 'gtrxl'\nmode = '{mode}'\nbias = {bias:?}\nrelu = {relu}"))
    });
    let mut tables: Vec<String> = gtrxl.into_iter().flatten().collect();
    tables.extend(["token", "mean"].map(|c| format!("kind = 'adaptive_layer_scale'\ncondition = '{c}'\nbias = -2.0")));
    tables.extend(["scalar", "channel"].map(|o| format!("kind = 'lerp_gate'\noutput = '{o}'\nbias = 1.0")));
    tables.extend(["kind = 'highway'\nbias = -1.0", "kind = 'se_gate'\nreduction = 2"].map(str::to_owned));
    tables
}

/// The figures of the only site that ran.
fn figures(case: &Case) -> SiteFigures {
    let mut pass = case.opened(Pass::eval().observe(true));
    let _ = connect(&*case.join, SITE, &case.residual, &Probe::new(), &mut pass);
    let telemetry = pass.take_telemetry();
    let values: Vec<f32> = Vec::try_from(telemetry.stack().view(-1)).unwrap();
    telemetry.decode(&values)[SITE.index()]
}

/// With `batch` there are two masks, of probability keep and 1 - keep.
#[test]
fn in_every_mode_the_mean_over_masks_is_kept_or_drop_path_refused() {
    let mut refused = 0;
    for table in modes() {
        let case = Case::new(parse(&table)).moved();
        let joined = |all: bool| {
            let masks = masks(&drop_path(0.4, DropMode::Batch), batch_step(0.4, all));
            connect(&*case.join, SITE, &case.residual, &Probe::new(), &mut Pass::train(masks))
        };
        match case.join.drop_rule() {
            DropRule::Refused(_) => refused += 1,
            DropRule::Scaled | DropRule::Branch => {
                let (kept, dropped) = (joined(false), joined(true));
                let off = largest_difference(&(&kept * 0.6 + &dropped * 0.4), &case.joined());
                assert!(off < 1e-12, "{table}: the mean is off by {off}");
                assert!(largest_difference(&(kept * 0.5 + dropped * 0.5), &case.joined()) > 1e-4, "{table}: control");
            }
        }
    }
    assert_eq!(refused, 4, "two GRUs and two lerp gates");
}

#[test]
fn in_every_mode_the_update_is_what_the_join_adds_and_telemetry_sees_the_gate() {
    for table in modes() {
        let case = Case::new(parse(&table)).moved();
        let update = case.join.update(&case.residual, &Probe::new(), &mut Pass::eval());
        assert!(largest_difference(&(&case.residual + update), &case.joined()) < 1e-12, "{table}");
        let seen = figures(&case);
        let mean = seen.gate_mean.unwrap_or_else(|| panic!("{table}: no gate is shown"));
        assert!(mean > 0.0 && mean < 1.0 && seen.gate_std.is_some_and(|std| std > 0.0), "{table}: {seen:?}");
    }
}

#[test]
fn gates_start_where_their_bias_puts_them() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    // By matrices of zeros the start is exact; those that are drawn (std .02) leave a rest.
    let adaptive = |bias: f64| {
        start(&*parse(&format!("kind = 'adaptive_layer_scale'\ncondition = 'mean'\nbias = {bias:?}")), 0, 12)
    };
    for bias in [-2.0, 0.0, 1.0] {
        let found = adaptive(bias).unwrap();
        assert!((found.residual - 1.0).abs() < 1e-9 && (found.branch - sigmoid(bias)).abs() < 1e-9, "{found:?}");
    }
    let cases = [
        ("kind = 'highway'\nbias = -2.0", 1.0 - sigmoid(-2.0), sigmoid(-2.0)),
        ("kind = 'gtrxl'\nmode = 'highway'\nbias = 2.0\nrelu = false", sigmoid(2.0), sigmoid(-2.0)),
        ("kind = 'gtrxl'\nmode = 'output'\nbias = 2.0\nrelu = false", 1.0, sigmoid(-2.0)),
        ("kind = 'gtrxl'\nmode = 'input'\nbias = 0.0\nrelu = false", 0.5, 1.0),
        ("kind = 'se_gate'\nreduction = 4", 1.0, 0.5),
    ];
    for (table, residual, branch) in cases {
        let found = start(&*parse(table), 0, 12).unwrap();
        assert!((found.residual - residual).abs() < 0.02 && (found.branch - branch).abs() < 0.02, "{table}: {found:?}");
        assert!(found.rest < 0.05, "{table}: {found:?}");
    }
    let gru = start(&*parse("kind = 'gtrxl'\nmode = 'gru'\nbias = 20.0\nrelu = true"), 0, 12).unwrap();
    assert!((gru.residual - 1.0).abs() < 1e-6 && gru.branch.abs() < 1e-6, "the larger b, the nearer x: {gru:?}");
}

#[test]
fn a_gate_of_the_mean_is_one_for_all_tokens_and_one_per_token_is_not() {
    let spread = |table: &str| {
        let case = Case::new(parse(table)).moved();
        let probe = Probe::new();
        let update = case.join.update(&case.residual, &probe, &mut Pass::eval());
        let gate: Tensor = update / (&case.residual * 0.5).matmul(&probe.weight);
        let over_tokens = gate.amax([1i64].as_slice(), false) - gate.amin([1i64].as_slice(), false);
        over_tokens.max().double_value(&[])
    };
    assert!(spread("kind = 'adaptive_layer_scale'\ncondition = 'mean'\nbias = -2.0") < 1e-9);
    assert!(spread("kind = 'se_gate'\nreduction = 2") < 1e-9);
    assert!(spread("kind = 'adaptive_layer_scale'\ncondition = 'token'\nbias = -2.0") > 1e-2, "control");
}

#[test]
fn what_a_gate_does_not_have_is_refused() {
    let error = |table: &str| Registry::builtin().parse(&table.parse().unwrap()).unwrap_err();
    assert_eq!(error("kind = 'gtrxl'\nmode = 'input'\nbias = 2.0\nrelu = true").key, "residual.bias");
    assert_eq!(error("kind = 'se_gate'\nreduction = 0").key, "residual.reduction");
    assert_eq!(error("kind = 'highway'\nbias = nan").key, "residual.bias");
}
