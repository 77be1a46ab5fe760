//! Common random numbers: for one seed, what is random in a run is the same whatever its strategy, its drop path, its
//! threads and the other runs of its process. The tests go over all strategies of the registry, by their own examples.

use std::collections::{BTreeMap, BTreeSet};

use reslab_fetch::Sources;
use reslab_model::{NormPlacement, Vit};
use reslab_residual::{
    Branch, BranchKind, DropMode, Join, Network, Norm, Registry, Site, Strategy, StrategyError, Variant, Weight,
    subset_size,
};
use reslab_torch::{stream, tch};

use super::*;

const TABLES: &str = "
data = { dataset = 'digits', train_images = 256, val_images = 0, crop_pad = 2, flip = true, mixup = 0.4, cutmix = 1.0 }
model = { kind = 'vit', depth = 2, width = 12, num_heads = 2, patch_size = 4, mlp_ratio = 2.0, qkv_bias = true, \
          pool = 'class', norm = 'strategy', norm_eps = 1e-6 }
train = { steps = 100, batch = 16, accumulate = 2, clip = 0.0, label_smoothing = 0.0, precision = 'fp32', eval_every = 0, \
          telemetry_every = 0, checkpoint_every = 0, ema_decay = 0.0, report = 'last', deterministic = false }
optim = { kind = 'adamw', lr = 1e-2, betas = [0.9, 0.999], eps = 1e-8, weight_decay = 0.05, warmup_steps = 0, \
          schedule = 'constant' }
";
const BATCH: usize = 16;
const SEED: u64 = 5;
/// Steps on both sides of an epoch's end, which is at step 16.
const STEPS: [u64; 4] = [0, 1, 15, 16];

/// Joins without parameters, and gains that a test sets: what all strategies are compared with.
#[derive(Debug, Clone)]
struct Bare {
    gains: bool,
}

impl Strategy for Bare {
    fn join(&self, _: &Scope, _: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(BareJoin))
    }
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }
    fn init_gain(&self, weight: Weight) -> f64 {
        match weight {
            _ if !self.gains => 1.0,
            Weight::Query(site) => 0.3 + site.block as f64,
            Weight::Fc2(_) => 0.1,
            Weight::Embedding { .. } => 3.0,
            Weight::Head => 0.0,
            _ => 1.0,
        }
    }
}

#[derive(Debug)]
struct BareJoin;

impl Join for BareJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        branch.call(residual, pass)
    }
}

static BARE: Variant = Variant {
    name: "bare",
    summary: "nothing at the join",
    equation: "y = x + f(x)",
    source: "these tests",
    example: "kind = \"bare\"",
    parameters: "0",
    keys: Vec::new,
    parse: |_| Ok(Box::new(Bare { gains: false })),
};

fn registry() -> Registry {
    Registry::builtin().with(&BARE)
}

/// The run of a strategy's example, with some tables replaced.
fn config(variant: &Variant, more: &str) -> Result<RunConfig, Vec<reslab_config::ConfigError>> {
    let mut table: toml::Table = TABLES.parse().unwrap();
    table.insert("residual".to_owned(), toml::Value::Table(variant.example.parse().unwrap()));
    table.extend(more.parse::<toml::Table>().unwrap());
    RunConfig::from_table(&table, &registry())
}

fn learner(config: &RunConfig, seed: u64) -> Learner<'_> {
    let nowhere = Sources { dirs: vec![], cache: "no-such-folder".into(), offline: true };
    let splits = reslab_data::load(&config.data, &nowhere, Device::Cpu).unwrap();
    Learner::new(config, splits, seed, Device::Cpu).unwrap()
}

type Named = BTreeMap<String, Tensor>;

fn named(parameters: &[Parameter]) -> Named {
    parameters.iter().map(|p| (p.name.clone(), p.tensor.detach().copy())).collect()
}

/// The parameters of a network in double precision, where a gain is one exact product.
fn doubles(strategy: &dyn Strategy, config: &RunConfig, (seed, below): (u64, &str)) -> Named {
    let root = Scope::new(seed, Kind::Double, Device::Cpu);
    let scope = if below.is_empty() { root } else { root.child(below) };
    Vit::new(&scope, &config.model, strategy, config.input()).unwrap();
    let names = named(&scope.parameters()).into_iter();
    names.map(|(name, value)| (name.trim_start_matches(&format!("{below}.")).to_owned(), value)).collect()
}

/// The gains that a strategy declares for a parameter: one, or one for each third of the fused projection.
fn gains(name: &str, strategy: &dyn Strategy, depth: usize, width: i64) -> Vec<f64> {
    let site = |kind: BranchKind| {
        let block = name.split('.').nth(1).and_then(|block| block.parse().ok()).expect("blocks.00.attention...");
        Site { block, depth, kind, width, num_heads: 2, hidden: 2 * width }
    };
    let (attention, mlp) = (|| site(BranchKind::Attention), || site(BranchKind::Mlp));
    let weights = match name {
        "patch_embed.weight" => vec![Weight::Embedding { depth }],
        "head.weight" => vec![Weight::Head],
        _ if name.ends_with(".attention.qkv.weight") => {
            vec![Weight::Query(attention()), Weight::Key(attention()), Weight::Value(attention())]
        }
        _ if name.ends_with(".attention.out.weight") => vec![Weight::Out(attention())],
        _ if name.ends_with(".mlp.fc1.weight") => vec![Weight::Fc1(mlp())],
        _ if name.ends_with(".mlp.fc2.weight") => vec![Weight::Fc2(mlp())],
        _ => return vec![1.0],
    };
    weights.into_iter().map(|weight| strategy.init_gain(weight)).collect()
}

/// `base`, its equal parts along the first dimension times one gain each.
fn gained(base: &Tensor, gains: &[f64]) -> Tensor {
    match gains {
        [gain] => base * *gain,
        _ => {
            let parts = base.chunk(gains.len() as i64, 0);
            Tensor::cat(&parts.iter().zip(gains).map(|(part, gain)| part * *gain).collect::<Vec<_>>(), 0)
        }
    }
}

/// Names that both have and that are not, bit by bit, the base's value times the declared gain.
fn strangers(base: &Named, found: &Named, strategy: &dyn Strategy) -> BTreeSet<String> {
    let differs = |(name, value): &(&String, &Tensor)| {
        found.get(*name).is_some_and(|found| {
            assert_eq!(found.size(), value.size(), "{name}: one name, two shapes");
            !found.equal(&gained(value, &gains(name, strategy, 2, 12)))
        })
    };
    base.iter().filter(differs).map(|(name, _)| name.clone()).collect()
}

/// Names whose values are drawn, not constants.
fn drawn(base: &Named) -> BTreeSet<String> {
    let is_drawn = |value: &Tensor| value.min().double_value(&[]) < value.max().double_value(&[]);
    base.iter().filter(|(_, value)| is_drawn(value)).map(|(name, _)| name.clone()).collect()
}

fn placed(variant: &Variant, norm: Norm) -> RunConfig {
    let mut config = config(variant, "").unwrap();
    config.model.norm = match norm {
        Norm::Pre => NormPlacement::Pre,
        Norm::Post => NormPlacement::Post,
        Norm::Both => NormPlacement::Both,
        Norm::None => NormPlacement::None,
    };
    config
}

/// In double precision, where a gain is one product of the same two numbers.
#[test]
fn every_strategy_starts_from_the_same_parameters_times_exactly_its_declared_gains() {
    for variant in registry().iter() {
        let strategy = config(variant, "").unwrap().strategy;
        for norm in strategy.norms() {
            let base = doubles(&Bare { gains: false }, &placed(&BARE, *norm), (SEED, ""));
            let found = doubles(strategy.as_ref(), &placed(variant, *norm), (SEED, ""));
            let lost: Vec<_> = base.keys().filter(|name| !found.contains_key(*name)).collect();
            assert!(lost.is_empty(), "{}: its network lacks {lost:?}", variant.name);
            assert_eq!(strangers(&base, &found, strategy.as_ref()), BTreeSet::new(), "{}", variant.name);
        }
    }
}

#[test]
fn another_seed_another_name_and_an_undeclared_gain_are_seen() {
    let config = config(&BARE, "").unwrap();
    let (bare, gained) = (Bare { gains: false }, Bare { gains: true });
    let base = doubles(&bare, &config, (SEED, ""));
    assert_eq!(drawn(&base).len(), 3 + 2 * 4 + 2, "matrices, position, class token, the embedding's bias");
    for other in [(SEED + 1, ""), (SEED, "shifted")] {
        assert_eq!(strangers(&base, &doubles(&bare, &config, other), &bare), drawn(&base), "{other:?}");
    }
    let found = doubles(&gained, &config, (SEED, ""));
    assert_eq!(strangers(&base, &found, &gained), BTreeSet::new(), "the gains are exact");
    let undeclared = strangers(&base, &found, &bare);
    let changed = ["qkv.weight", "fc2.weight", "patch_embed.weight", "head.weight"];
    assert_eq!(undeclared.len(), 2 + 2 + 1 + 1);
    assert!(undeclared.iter().all(|name| changed.iter().any(|end| name.ends_with(end))), "{undeclared:?}");
}

/// What a run of `variant` starts from and is dealt: parameters as they are trained, and the batches of [`STEPS`].
fn dealt(variant: &Variant, seed: u64) -> (Named, Vec<Tensor>) {
    let config = config(variant, "").unwrap();
    let mut learner = learner(&config, seed);
    (named(&learner.parameters), batches(&mut learner))
}

/// The network of a run before its strategy calibrates it, in float32.
fn built(variant: &Variant, seed: u64) -> (Vit, Vec<Parameter>) {
    let (config, scope) = (config(variant, "").unwrap(), Scope::new(seed, Kind::Float, Device::Cpu));
    let vit = Vit::new(&scope, &config.model, config.strategy.as_ref(), config.input()).unwrap();
    (vit, scope.parameters())
}

fn batches(learner: &mut Learner) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    for step in STEPS {
        let batch = learner.batch(step).unwrap();
        let (Targets::Hard(targets) | Targets::Soft(targets)) = batch.targets;
        tensors.extend([batch.images, targets]);
    }
    tensors
}

#[test]
fn every_strategy_trains_on_the_same_float32_parameters_and_batches() {
    let (base, images) = dealt(&BARE, SEED);
    for variant in registry().iter() {
        let strategy = config(variant, "").unwrap().strategy;
        let (trained, seen) = dealt(variant, SEED);
        assert_eq!(seen, images, "{}: images, targets", variant.name);
        let (vit, parameters) = built(variant, SEED);
        let found = named(&parameters);
        // A strategy may move the common parameters before step 0, but by its calibration alone.
        vit.calibrate(&images[0]).unwrap();
        assert_eq!(named(&parameters), trained, "{}", variant.name);
        for name in strangers(&base, &found, strategy.as_ref()) {
            // A gain acts before the one rounding to float32, which can then fall on either side.
            let gains = gains(&name, strategy.as_ref(), 2, 12);
            let off = (&found[&name] - gained(&base[&name], &gains)).abs();
            let most = (gained(&base[&name], &gains).abs() * f64::from(f32::EPSILON)).to_kind(Kind::Float);
            assert!(gains != [1.0] && bool::try_from(off.le_tensor(&most).all()).unwrap(), "{}: {name}", variant.name);
        }
    }
    let (other_base, other) = dealt(&BARE, SEED + 1);
    assert_eq!(strangers(&base, &other_base, &Bare { gains: false }), drawn(&base), "control: another seed");
    assert!(images.iter().zip(&other).all(|(a, b)| a != b), "control: another seed, other batches");
    assert!(images.chunks(2).skip(1).all(|step| step[0] != images[0]), "control: another step, other images");
}

/// By site, the kept samples of the logical batch.
fn kept(learner: &Learner, step: u64) -> Vec<Vec<i64>> {
    let micro = BATCH / learner.config.train.accumulate as usize;
    let sites = (0..2).flat_map(|block| {
        BranchKind::ALL.map(|kind| Site { block, depth: 2, kind, width: 12, num_heads: 2, hidden: 24 })
    });
    let masks = learner.masks(step);
    let of_site = |site: Site| {
        let part = |(nth, masks): (usize, &Masks)| {
            masks.kept_samples(site, micro).into_iter().map(move |sample| sample + (nth * micro) as i64)
        };
        masks.iter().enumerate().flat_map(part).collect()
    };
    sites.map(of_site).collect()
}

/// What the rule says is kept at a site: one u(seed, step, site, sample), whatever mode and rate.
fn by_rule(mode: DropMode, rate: f64, (step, site): (u64, u64)) -> Vec<i64> {
    let mut draws = stream(SEED, "drop_path", &[step, site]);
    let u: Vec<f64> = (0..BATCH).map(|_| draws.uniform()).collect();
    let mut by_u: Vec<i64> = (0..BATCH as i64).collect();
    by_u.sort_by(|a, b| u[*a as usize].total_cmp(&u[*b as usize]));
    let count = match mode {
        DropMode::Sample => u.iter().filter(|u| **u < 1.0 - rate).count(),
        DropMode::Subset => subset_size(BATCH as i64, rate) as usize,
        DropMode::Batch if u[0] < 1.0 - rate => BATCH,
        DropMode::Batch => 0,
    };
    by_u.truncate(count);
    by_u.sort_unstable();
    by_u
}

const RATES: [f64; 4] = [0.1, 0.3, 0.6, 0.9];
const MODES: [(DropMode, &str); 3] =
    [(DropMode::Sample, "sample"), (DropMode::Subset, "subset"), (DropMode::Batch, "batch")];

/// The runs of a strategy at all rates, by mode. A combination that is not defined is refused with its reason.
fn dropping(variant: &Variant) -> Vec<(DropMode, Vec<RunConfig>)> {
    let at = |word: &str, rate: f64| {
        config(variant, &format!("drop_path = {{ rate = {rate:?}, schedule = 'uniform', mode = '{word}' }}"))
    };
    let all = |word: &str| RATES.iter().map(|rate| at(word, *rate)).collect::<Result<Vec<_>, _>>();
    MODES.iter().filter_map(|(mode, word)| Some((*mode, all(word).ok()?))).collect()
}

/// Halves every parameter before step 0.
#[derive(Debug, Clone)]
struct Halving;

impl Strategy for Halving {
    fn join(&self, _: &Scope, _: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(BareJoin))
    }
    fn calibrate(&self, _: &dyn Network, parameters: &[Parameter]) -> Result<(), StrategyError> {
        parameters.iter().for_each(|p| drop(p.tensor.shallow_clone().g_mul_scalar_(0.5)));
        Ok(())
    }
}

#[test]
fn the_average_of_the_weights_starts_from_the_calibrated_ones() {
    let mut config = config(&BARE, "").unwrap();
    config.train.ema_decay = 0.9;
    config.strategy = Box::new(Halving);
    let learner = learner(&config, SEED);
    assert_eq!(learner.ema.as_ref().unwrap().weights(), learner.weights);
    let bare = named(&built(&BARE, SEED).1);
    assert!(learner.parameters.iter().all(|p| p.tensor.equal(&(&bare[&p.name] * 0.5))), "control: it halves");
}

#[test]
fn drop_path_is_nested_over_rates_and_coupled_over_modes_for_every_strategy() {
    for variant in registry().iter() {
        let (own, configs) = (config(variant, "").unwrap(), dropping(variant));
        let mut learner = learner(&own, SEED);
        for (mode, configs) in &configs {
            for step in 0..8 {
                let at_rate = |config| {
                    learner.config = config;
                    kept(&learner, step)
                };
                let kept: Vec<Vec<Vec<i64>>> = configs.iter().map(at_rate).collect(); // [rate][site][kept]
                for site in 0..4 {
                    for (rate, kept) in RATES.iter().zip(&kept) {
                        let rule = by_rule(*mode, *rate, (step, site as u64));
                        assert_eq!(kept[site], rule, "{}: {mode:?} at {rate}", variant.name);
                    }
                    for pair in kept.windows(2) {
                        let [low, high] = [&pair[0][site], &pair[1][site]];
                        assert!(high.iter().all(|sample| low.contains(sample)), "{}: {mode:?}", variant.name);
                    }
                }
            }
        }
    }
    let (config, configs) = (config(&BARE, "").unwrap(), dropping(&BARE));
    assert_eq!(configs.len(), MODES.len(), "control: at least one strategy takes every mode");
    let mut other = learner(&config, SEED + 1);
    other.config = &configs[0].1[1];
    assert_ne!(kept(&other, 0)[0], by_rule(DropMode::Sample, RATES[1], (0, 0)), "control: another seed");
}

#[test]
fn threads_other_runs_and_what_was_computed_before_change_no_draw() {
    let deal = |variant| {
        let (parameters, batches) = dealt(variant, SEED);
        (parameters.into_values().collect::<Vec<_>>(), batches)
    };
    for variant in registry().iter() {
        reslab_torch::set_threads(1);
        let alone = deal(variant);
        reslab_torch::set_threads(2);
        tch::manual_seed(99);
        let busy = std::thread::scope(|scope| {
            let neighbour = scope.spawn(|| {
                let config = config(&BARE, "").unwrap();
                let mut learner = learner(&config, SEED + 1);
                (0..4).for_each(|step| drop(learner.step(step, Watch::Step).unwrap()));
            });
            let dealt = deal(variant);
            neighbour.join().expect("the neighbour ends");
            dealt
        });
        reslab_torch::set_threads(1);
        assert!(alone == busy, "{}: threads, a neighbour or libtorch's generator are felt", variant.name);

        let config = config(variant, "").unwrap();
        let mut learner = learner(&config, SEED);
        (0..3).for_each(|step| drop(learner.step(step, Watch::Layers).unwrap()));
        assert!(named(&learner.parameters).into_values().collect::<Vec<_>>() != alone.0, "control: it has learned");
        assert_eq!(batches(&mut learner), alone.1, "{}: three steps are felt", variant.name);
    }
}
