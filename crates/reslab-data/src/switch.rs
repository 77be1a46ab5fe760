//! A group of settings that can be off: a table in a file, or `"none"`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The word for off.
const OFF: &str = "none";

/// A table of settings, or `"none"`: so that an arm or an axis can turn it off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Switch<T> {
    /// `"none"`.
    Off,
    /// A table.
    On(T),
}

impl<T> Switch<T> {
    /// The settings, where it is on.
    pub fn on(&self) -> Option<&T> {
        match self {
            Self::Off => None,
            Self::On(settings) => Some(settings),
        }
    }
}

impl<T: Serialize> Serialize for Switch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str(OFF),
            Self::On(settings) => settings.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Switch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrTable<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for WordOrTable<T> {
            type Value = Switch<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a table, or \"{OFF}\"")
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
                if word == OFF {
                    Ok(Switch::Off)
                } else {
                    Err(E::custom(format!("must be a table, or \"{OFF}\", but is {word:?}")))
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Switch::On)
            }
        }
        deserializer.deserialize_any(WordOrTable(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Switch<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("SwitchOf{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let settings = T::json_schema(generator);
        let keys = settings.get("properties").and_then(|keys| keys.as_object());
        let keys: Vec<&str> = keys.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        json_schema!({ "type": ["object", "string"], "format": format!("{{ {} }} or \"{OFF}\"", keys.join(", ")) })
    }
}
