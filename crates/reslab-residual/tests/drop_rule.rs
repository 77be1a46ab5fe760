//! Joins that are not in the registry: how drop path acts on a mixing join, and what is refused.

mod common;

use common::{BATCH, Probe, SITE, TOKENS, WIDTH, batch_step, drop_path, largest_difference, masks, normal};
use reslab_residual::{
    Branch, DropMode, DropPathConfig, DropRule, Join, Norm, Pass, Site, Strategy, StrategyError, check_compatible,
    connect,
};
use reslab_torch::Scope;
use tch::Tensor;

/// `y = x / 2 + f(x)`: what it continues with is never x itself.
#[derive(Debug, Clone, Copy)]
struct Mixing(DropRule);

impl Join for Mixing {
    fn update(&self, _: &Tensor, _: &dyn Branch, _: &mut Pass) -> Tensor {
        unreachable!("a mixing join has no update")
    }
    fn forward(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        residual * 0.5 + branch.call(residual, pass)
    }
    fn drop_rule(&self) -> DropRule {
        self.0
    }
}

/// A strategy of [`Mixing`] joins that may read memory.
#[derive(Debug, Clone, Copy)]
struct Mixed {
    rule: DropRule,
    memory: bool,
}

impl Strategy for Mixed {
    fn join(&self, _: &Scope, _: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(Mixing(self.rule)))
    }
    fn uses_memory(&self) -> bool {
        self.memory
    }
}

#[test]
fn a_branch_that_is_dropped_leaves_the_mixing_as_it_is() {
    let residual = normal("residual", &[BATCH, TOKENS, WIDTH]);
    let join = Mixing(DropRule::Branch);
    let f = Probe::new().call(&residual, &mut Pass::eval());
    let check = |config: &DropPathConfig, step: u64, scale: f64, computed: i64| {
        let masks = masks(config, step);
        let kept = masks.kept(SITE, BATCH as usize);
        let probe = Probe::new();
        let mut pass = Pass::train(masks).observe(true);
        let y = connect(&join, SITE, &residual, &probe, &mut pass);
        let mut dropped = 0;
        for sample in 0..BATCH {
            let (x, f, y) = (residual.get(sample), f.get(sample), y.get(sample));
            if largest_difference(&y, &(&x * 0.5)) < 1e-12 {
                dropped += 1;
            } else {
                assert!(largest_difference(&y, &(&x * 0.5 + f * scale)) < 1e-12, "{:?}", config.mode);
            }
        }
        assert_eq!((dropped, probe.computed()), (BATCH as usize - kept, computed), "{:?}", config.mode);
        let telemetry = pass.take_telemetry();
        let values: Vec<f32> = Vec::try_from(telemetry.stack().view(-1)).expect("float32 values");
        let seen = telemetry.decode(&values)[SITE.index()];
        assert_eq!(seen.branch_rms.is_some(), kept > 0, "{:?}", config.mode);
        seen
    };
    let sample = drop_path(0.4, DropMode::Sample);
    check(&sample, 1, 1.0 / 0.6, BATCH);
    check(&drop_path(0.45, DropMode::Subset), 1, 2.0, 5);
    check(&drop_path(0.4, DropMode::Batch), batch_step(0.4, true), 1.0, 0);
    let kept = check(&drop_path(0.4, DropMode::Batch), batch_step(0.4, false), 1.0 / 0.6, BATCH);
    let whole = f.square().mean(tch::Kind::Double).sqrt().double_value(&[]);
    assert!((kept.branch_rms.expect("a kept branch") - whole).abs() < 1e-5 * whole, "measured before the division");
}

#[test]
fn refused_rules_memory_and_placements_name_the_key_and_the_reason() {
    let refused = Mixed { rule: DropRule::Refused("its weights must sum to 1"), memory: false };
    let sample = drop_path(0.1, DropMode::Sample);
    let error = check_compatible(&refused, &sample, Norm::Pre).unwrap_err();
    assert_eq!(error.to_string(), "drop_path.rate: must be 0 with this strategy: its weights must sum to 1");
    assert!(check_compatible(&refused, &DropPathConfig::none(), Norm::Pre).is_ok(), "control: without drop path");

    let memory = Mixed { rule: DropRule::Branch, memory: true };
    assert_eq!(
        check_compatible(&memory, &drop_path(0.1, DropMode::Subset), Norm::Pre).unwrap_err().key,
        "drop_path.mode"
    );
    assert!(check_compatible(&memory, &sample, Norm::Pre).is_ok());

    let error = check_compatible(&memory, &DropPathConfig::none(), Norm::Post).unwrap_err();
    assert_eq!(error.to_string(), "model.norm: this strategy is not defined for \"post\", only for \"pre\"");
}
