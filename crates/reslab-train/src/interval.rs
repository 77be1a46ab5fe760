//! How far apart two checkpoints are: a number of steps, or a time.

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Distance of two checkpoints. A time says how much work a killed run loses at most; steps are the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Interval {
    /// Optimizer steps; 0: none.
    Steps(u64),
    /// Minutes of wall time.
    Minutes(f64),
}

impl Interval {
    /// Whether a checkpoint is due after `done` steps, `since` the last one.
    pub(crate) fn is_due(self, done: u64, since: Duration) -> bool {
        match self {
            Self::Steps(0) => false,
            Self::Steps(steps) => done.is_multiple_of(steps),
            Self::Minutes(minutes) => since.as_secs_f64() >= 60.0 * minutes,
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        let minutes: f64 = text.strip_suffix("min")?.trim_end().parse().ok()?;
        (minutes.is_finite() && minutes > 0.0).then_some(Self::Minutes(minutes))
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Steps(steps) => serializer.serialize_u64(*steps),
            Self::Minutes(minutes) => serializer.serialize_str(&format!("{minutes} min")),
        }
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Interval;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of steps (0: none), or a time above 0 such as \"10 min\"")
            }

            fn visit_i64<E: Error>(self, steps: i64) -> Result<Interval, E> {
                let steps = u64::try_from(steps);
                steps
                    .map(Interval::Steps)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Other("a negative number"), &self))
            }

            fn visit_u64<E: Error>(self, steps: u64) -> Result<Interval, E> {
                Ok(Interval::Steps(steps))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Interval, E> {
                Interval::from_text(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Interval {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Interval".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["integer", "string"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Table {
        every: Interval,
    }

    fn read(value: &str) -> Result<Interval, String> {
        toml::from_str::<Table>(&format!("every = {value}")).map(|table| table.every).map_err(|e| e.to_string())
    }

    #[test]
    fn steps_and_minutes_are_read_and_written_back() {
        for (text, interval) in [
            ("0", Interval::Steps(0)),
            ("100", Interval::Steps(100)),
            ("\"10min\"", Interval::Minutes(10.0)),
            ("\"0.5 min\"", Interval::Minutes(0.5)),
        ] {
            assert_eq!(read(text), Ok(interval));
            let written = toml::to_string(&Table { every: interval }).unwrap();
            assert_eq!(toml::from_str::<Table>(&written).unwrap().every, interval);
        }
        for wrong in ["-1", "\"10\"", "\"0 min\"", "\"nan min\"", "\"5 h\"", "true", "1.5"] {
            let error = read(wrong).expect_err(wrong);
            assert!(error.contains("a number of steps (0: none), or a time above 0 such as \"10 min\""), "{error}");
        }
    }

    #[test]
    fn a_checkpoint_is_due_by_steps_or_by_time() {
        let minute = Duration::from_secs(60);
        assert!(!Interval::Steps(0).is_due(100, minute));
        assert!(Interval::Steps(50).is_due(100, Duration::ZERO) && !Interval::Steps(50).is_due(99, minute));
        assert!(Interval::Minutes(1.0).is_due(3, minute));
        assert!(!Interval::Minutes(1.0).is_due(60, minute - Duration::from_millis(1)));
    }
}
