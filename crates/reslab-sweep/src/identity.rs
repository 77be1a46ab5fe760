//! What makes a run itself: its resolved tables, seed, device kind and threads; never names, seeds lists, metrics or paths
//! whose content is pinned.

use sha2::{Digest, Sha256};
use toml::Value;

use crate::Target;

/// First bytes of what is hashed; another layout of the hash gets another tag, so that ids never mean two things.
const TAG: &str = "reslab run 1\n";

/// Hex digits of a run's id.
const DIGITS: usize = 16;

/// The id of a run. Two ways of writing one number (`1e-3`, `0.001`; `1`, `1.0`) and the order of keys make no difference.
pub(crate) fn run_id(config: &toml::Table, seed: u64, target: &Target) -> String {
    let config = canonical(&Value::Table(config.clone()));
    let device = canonical(&Value::String(target.device_kind.clone()));
    let text =
        format!("{TAG}{{\"config\":{config},\"device_kind\":{device},\"seed\":{seed},\"threads\":{}}}", target.threads);
    hex(&Sha256::digest(text), DIGITS)
}

/// The value as JSON with sorted keys and one writing per number: a float with a whole value is written as that integer.
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => canonical_float(*number),
        Value::Boolean(on) => on.to_string(),
        Value::Datetime(date) => quoted(&date.to_string()),
        Value::Array(values) => format!("[{}]", values.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Table(table) => {
            // Of `file` beside `file_sha256` only the content counts, not where it lies.
            let is_pinned = |key: &str| table.contains_key(&format!("{key}_sha256"));
            let mut pairs: Vec<(&String, &Value)> = table.iter().filter(|(key, _)| !is_pinned(key)).collect();
            pairs.sort_by_key(|(key, _)| *key);
            let pairs: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{}:{}", quoted(key), canonical(value))).collect();
            format!("{{{}}}", pairs.join(","))
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// The largest float below which every whole number is exact, 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn canonical_float(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < EXACT {
        return (number as i64).to_string();
    }
    // The shortest decimal that reads back as the same float.
    format!("{number:e}")
}

/// The first `digits` hex digits.
pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target { device_kind: "cpu".into(), threads: 1, versions: Default::default() }
    }

    fn id(text: &str) -> String {
        run_id(&text.parse().unwrap(), 0, &target())
    }

    #[test]
    fn the_writing_of_numbers_and_the_order_of_keys_make_no_difference() {
        let base = id("[optim]\nlr = 1e-3\nwd = 1");
        assert_eq!(base, id("[optim]\nwd = 1.0\nlr = 0.001"));
        assert_eq!(base, id("optim = { lr = 0.10e-2, wd = 0x1 }"));
        assert_eq!(id("a = -0.0"), id("a = 0"));
        assert_ne!(base, id("[optim]\nlr = 1.0000000001e-3\nwd = 1"));
        assert_ne!(id("a = \"1\""), id("a = 1"));
        assert_ne!(id("a = 9007199254740993"), id("a = 9007199254740992"));
    }

    #[test]
    fn a_path_whose_content_is_pinned_makes_no_difference() {
        let base = id("model = { file = 'a', file_sha256 = '1' }");
        assert_eq!(base, id("model = { file = 'b', file_sha256 = '1' }"));
        assert_ne!(base, id("model = { file = 'a', file_sha256 = '2' }"));
        assert_ne!(id("model = { file = 'a' }"), id("model = { file = 'b' }"), "control: without a pin it does");
    }

    #[test]
    fn seed_device_kind_and_threads_make_another_run() {
        let config: toml::Table = "a = 1".parse().unwrap();
        let base = run_id(&config, 0, &target());
        assert_eq!(base.len(), DIGITS);
        assert_ne!(base, run_id(&config, 1, &target()));
        assert_ne!(base, run_id(&config, 0, &Target { device_kind: "cuda".into(), ..target() }));
        assert_ne!(base, run_id(&config, 0, &Target { threads: 2, ..target() }));
        assert_eq!(base, run_id(&config, 0, &Target { versions: [("reslab".into(), "9".into())].into(), ..target() }));
    }

    /// An id is part of every record: a change of it would orphan all results. Expected value:
    /// `printf 'reslab run 1\n{"config":{"optim":{"lr":1e-3}},"device_kind":"cpu","seed":3,"threads":1}' | sha256sum`.
    #[test]
    fn the_canonical_text_is_pinned() {
        let value = "b = [1.5, 2.0, 1e-5]\na = { y = true, x = \"q\\\"\" }".parse::<toml::Table>().unwrap();
        assert_eq!(canonical(&Value::Table(value)), r#"{"a":{"x":"q\"","y":true},"b":[1.5e0,2,1e-5]}"#);
        let id = run_id(&"optim.lr = 0.001".parse().unwrap(), 3, &target());
        assert_eq!(id, "1e9e2e69cea8ec3d");
    }
}
