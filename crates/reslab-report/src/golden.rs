//! For tests: the values that SciPy gave (tests/golden/make_golden.py, make_comparisons.py).

use serde_json::Value;

pub(crate) fn golden() -> Value {
    serde_json::from_str(include_str!("../tests/golden/golden.json")).unwrap()
}

pub(crate) fn comparisons() -> Value {
    serde_json::from_str(include_str!("../tests/golden/comparisons.json")).unwrap()
}

pub(crate) fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[track_caller]
pub(crate) fn assert_close(got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance, "got {got}, want {want} +- {tolerance}");
}
