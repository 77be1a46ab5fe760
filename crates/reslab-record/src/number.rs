//! Numbers as they are written: JSON has no NaN, and a float32 has fewer digits than a float64.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The float64 that prints with the digits of a float32: `0.1_f32` becomes `0.1`, not `0.10000000149011612`.
///
/// `widen(x) as f32 == x` holds for every float32, so nothing is lost.
pub fn widen(x: f32) -> f64 {
    if !x.is_finite() {
        return f64::from(x);
    }
    x.to_string().parse().expect("a printed float32 is a float64")
}

/// A float64 in JSON: a number where it is finite, else `"NaN"`, `"inf"` or `"-inf"`.
///
/// serde_json alone writes `null` for all three, and then refuses to read it back.
pub(crate) mod maybe_nan {
    use super::Number;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(x: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Number(*x).serialize(serializer)
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Number::deserialize(deserializer)?.0)
    }
}

/// The same for a map of named numbers.
pub(crate) mod maybe_nan_map {
    use super::Number;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::BTreeMap;

    pub fn serialize<S: Serializer>(map: &BTreeMap<String, f64>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(map.iter().map(|(key, x)| (key, Number(*x))))
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
        let map = BTreeMap::<String, Number>::deserialize(deserializer)?;
        Ok(map.into_iter().map(|(key, x)| (key, x.0)).collect())
    }
}

struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() { serializer.serialize_f64(self.0) } else { serializer.collect_str(&self.0) }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(f64),
            Word(String),
        }
        let problem =
            |word: &str| serde::de::Error::custom(format!("expected a number, NaN, inf or -inf, found {word:?}"));
        match Raw::deserialize(deserializer)? {
            Raw::Number(x) => Ok(Number(x)),
            Raw::Word(word) => match word.as_str() {
                "NaN" => Ok(Number(f64::NAN)),
                "inf" => Ok(Number(f64::INFINITY)),
                "-inf" => Ok(Number(f64::NEG_INFINITY)),
                other => Err(problem(other)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widen_keeps_the_digits_of_a_float32_and_loses_nothing() {
        assert_eq!(widen(0.1).to_string(), "0.1");
        assert_ne!(f64::from(0.1_f32).to_string(), "0.1", "the plain cast would not do");
        assert!(widen(f32::NAN).is_nan());
        assert_eq!(widen(f32::NEG_INFINITY), f64::NEG_INFINITY);
        // Every 65,537th bit pattern: all exponents, subnormals and both signs.
        for bits in (0..=u32::MAX).step_by(65_537) {
            let x = f32::from_bits(bits);
            assert!(x.is_nan() || (widen(x) as f32).to_bits() == bits, "{x:e}");
        }
    }
}
