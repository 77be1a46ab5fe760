//! Every strategy of the registry trains, by its own example: digits, depth 12, 100 steps.

use std::sync::atomic::AtomicBool;

use reslab_fetch::Sources;
use reslab_record::{Env, Outcome, RunDir, read_rows, rows::StepRow};
use reslab_residual::{Registry, Variant};
use reslab_torch::tch::Device;
use reslab_train::{Ended, Job, RunConfig, train};

const TABLES: &str = "
data = { dataset = 'digits', train_images = 1024, val_images = 0, crop_pad = 0, flip = false, mixup = 0.0, cutmix = 0.0 }
model = { kind = 'vit', depth = 12, width = 32, num_heads = 2, patch_size = 2, mlp_ratio = 2.0, qkv_bias = true, \
          pool = 'mean', norm = 'strategy', norm_eps = 1e-6 }
train = { steps = 100, batch = 64, accumulate = 1, clip = 1.0, label_smoothing = 0.0, precision = 'fp32', eval_every = 0, \
          telemetry_every = 0, checkpoint_every = 0, ema_decay = 0.0, report = 'last', deterministic = false }
optim = { kind = 'adamw', lr = 3e-3, betas = [0.9, 0.99], eps = 1e-8, weight_decay = 0.05, warmup_steps = 10, \
          schedule = 'cosine' }
";
/// Nats per image of a network that has learned nothing.
const CHANCE: f64 = std::f64::consts::LN_10;

/// Below this something was learned; with almost no learning rate the loss stays within 1.5 % of chance.
const LEARNED: f64 = 0.975 * CHANCE;
/// Peak learning rates that are tried.
const RATES: [f64; 3] = [3e-3, 1e-3, 1e-2];

/// Training loss, mean of the last 10 steps, at this learning rate.
fn final_loss(variant: &Variant, lr: f64) -> f64 {
    reslab_torch::set_threads(1);
    let mut table: toml::Table = TABLES.parse().unwrap();
    table.insert("residual".to_owned(), toml::Value::Table(variant.example.parse().unwrap()));
    table["optim"].as_table_mut().unwrap().insert("lr".to_owned(), lr.into());
    let registry = Registry::builtin();
    let config = RunConfig::from_table(&table, &registry).unwrap_or_else(|e| panic!("{}: {e:?}", variant.name));
    let dir = tempfile::tempdir().unwrap();
    let job = Job {
        config: &config,
        table: table.clone(),
        id: "0123".to_owned(),
        arm: variant.name.to_owned(),
        seed: 1,
        device: Device::Cpu,
        dir: dir.path().to_owned(),
        sources: Sources { dirs: vec![], cache: dir.path().join("cache"), offline: true },
        env: Env { device: "cpu".to_owned(), threads: 1, ..Env::default() },
    };
    let ended = train(&job, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!(ended, Ended::Done(Outcome::Finished), "{}", variant.name);
    let rows = read_rows::<StepRow>(RunDir::open(dir.path()).unwrap().path()).rows;
    rows[90..].iter().map(|row| row.loss).sum::<f64>() / 10.0
}

#[test]
fn every_strategy_learns_digits_within_100_steps() {
    let mut slow = Vec::new();
    for variant in Registry::builtin().iter() {
        // No rate suits them all: the first at which one learns is enough.
        let losses = RATES.iter().map(|lr| final_loss(variant, *lr));
        let found = losses.inspect(|loss| println!("{:>24}: {loss:.3}", variant.name)).find(|loss| *loss < LEARNED);
        if found.is_none() {
            slow.push(variant.name);
        }
    }
    assert!(slow.is_empty(), "their loss stays near chance ({CHANCE:.3}): {slow:?}");
    let first = Registry::builtin().iter().next().unwrap();
    let control = final_loss(first, 1e-9);
    assert!(control > 0.985 * CHANCE, "control: with almost no learning rate nothing is learned: {control}");
}
