//! The tables of a run with any values in them: no panic, neither in the check nor in the counting of the network, and
//! every error names its key. They go over all strategies of the registry. Cases are the same in every run.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed};
use reslab_config::ConfigError;
use reslab_residual::Registry;
use reslab_train::RunConfig;

const TABLES: &str = "
data = { dataset = 'digits', train_images = 'all', val_images = 64, crop_pad = 1, flip = false, mixup = 0.1, cutmix = 0.0 }
model = { kind = 'vit', depth = 2, width = 12, num_heads = 2, patch_size = 4, mlp_ratio = 2.0, qkv_bias = true, \
          pool = 'mean', norm = 'strategy', norm_eps = 1e-6 }
train = { steps = 12, batch = 32, accumulate = 2, clip = 1.0, label_smoothing = 0.1, precision = 'fp32', eval_every = 4, \
          telemetry_every = 3, checkpoint_every = 5, ema_decay = 0.6, report = 'last', deterministic = false }
optim = { kind = 'adamw', lr = 1e-2, betas = [0.9, 0.999], eps = 1e-8, weight_decay = 0.05, warmup_steps = 2, \
          schedule = 'cosine' }
drop_path = { rate = 0.2, schedule = 'linear', mode = 'sample' }
";

const VALUES: [&str; 26] = [
    "0",
    "1",
    "-1",
    "3",
    "1e-5",
    "0.5",
    "-0.0",
    "1.5",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "9223372036854775807",
    "-9223372036854775808",
    "4294967296",
    "true",
    "''",
    "'all'",
    "'none'",
    "'post'",
    "'sgd'",
    "[]",
    "[0.9]",
    "[nan, 2.0]",
    "{}",
    "1979-05-27",
];

fn config(count: u32) -> Config {
    Config { cases: count, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() }
}

fn tables(strategy: &Index) -> toml::Table {
    let variants: Vec<_> = Registry::builtin().iter().collect();
    let mut table: toml::Table = TABLES.parse().unwrap();
    let example: toml::Table = strategy.get(&variants).example.parse().unwrap();
    table.insert("residual".to_owned(), toml::Value::Table(example));
    // Drop path is not defined for every strategy.
    if RunConfig::from_table(&table, &Registry::builtin()).is_err() {
        table.remove("drop_path");
    }
    table
}

/// Sets the key that `at` picks among all keys of all tables, or takes it away.
fn change(table: &mut toml::Table, at: &Index, value: Option<&str>) {
    let inner = |(name, value): (&String, &toml::Value)| {
        let keys = value.as_table().map(|table| table.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
        keys.into_iter().map(|key| (name.clone(), key)).collect::<Vec<_>>()
    };
    let keys: Vec<(String, String)> = table.iter().flat_map(inner).collect();
    let (name, key) = at.get(&keys);
    let section = table[name].as_table_mut().unwrap();
    match value {
        None => drop(section.remove(key)),
        Some(value) => {
            let parsed: toml::Table = format!("x = {value}").parse().unwrap();
            section.insert(key.clone(), parsed["x"].clone());
        }
    }
}

/// What is accepted can be counted and is refused or not by a device without panic.
fn holds(table: &toml::Table) -> Result<(), Vec<ConfigError>> {
    match RunConfig::from_table(table, &Registry::builtin()) {
        Ok(config) => {
            let _ = config.check_device("cpu");
            if let Ok(facts) = config.facts() {
                assert!(facts.parameters > 0 && facts.flops_per_image.is_finite(), "{facts:?} of {table}");
            }
            Ok(())
        }
        Err(errors) => {
            assert!(
                !errors.is_empty() && errors.iter().all(|e| !e.key.is_empty() && !e.problem.is_empty()),
                "{errors:?}"
            );
            Err(errors)
        }
    }
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn any_values_are_a_run_or_errors_that_name_their_keys(
        strategy in any::<Index>(), changes in vec((any::<Index>(), proptest::option::weighted(0.9, select(&VALUES[..]))), 0..4)
    ) {
        let mut table = tables(&strategy);
        changes.iter().for_each(|(at, value)| change(&mut table, at, *value));
        let held = holds(&table);
        prop_assert!(held.is_ok() || !changes.is_empty(), "{:?}", held);
    }
}
