//! What each key of a table means, read from the doc comments of its struct: one source for `docs/config.md`
//! and for the comments of a file that `reslab init` writes.

use schemars::JsonSchema;
use serde_json::Value;

/// One key of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDoc {
    /// The key, without its table.
    pub key: String,
    /// Its type in words: `number`, `"a" | "b"`, ...
    pub kind: String,
    /// Unit and meaning: the field's doc comment, on one line.
    pub meaning: String,
}

/// The keys of `T`'s table, in the order of the struct; of a table with several kinds, each key once.
pub fn keys<T: JsonSchema>() -> Vec<KeyDoc> {
    let schema = schemars::schema_for!(T).to_value();
    let mut found = Vec::new();
    collect(&schema, &schema, &mut found);
    found
}

fn collect(root: &Value, schema: &Value, found: &mut Vec<KeyDoc>) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let doc = KeyDoc { key: key.clone(), kind: kind(root, property), meaning: meaning(property) };
        match found.iter_mut().find(|known| known.key == *key) {
            // Two kinds of a table share the key: `kind = "adamw"` and `kind = "sgd"` are one key of two values.
            Some(known) if known.kind != doc.kind => known.kind = format!("{} | {}", known.kind, doc.kind),
            Some(_) => {}
            None => found.push(doc),
        }
    }
    for list in ["oneOf", "anyOf"] {
        for variant in schema[list].as_array().into_iter().flatten() {
            collect(root, resolve(root, variant), found);
        }
    }
}

fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let Some(name) = schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) else { return schema };
    &root["$defs"][name]
}

fn meaning(property: &Value) -> String {
    property["description"].as_str().unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn kind(root: &Value, property: &Value) -> String {
    let property = resolve(root, property);
    if let Some(value) = property["const"].as_str() {
        return format!("\"{value}\"");
    }
    if let Some(values) = property["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    for list in ["oneOf", "anyOf"] {
        if let Some(variants) = property[list].as_array() {
            let kinds = variants.iter().map(|v| kind(root, v)).filter(|k| k != "null");
            return kinds.collect::<Vec<_>>().join(" | ");
        }
    }
    let words = match &property["type"] {
        Value::String(one) => one.clone(),
        Value::Array(many) if property["format"].is_null() || many.iter().any(|t| t == "null") => {
            many.iter().filter_map(Value::as_str).filter(|t| *t != "null").collect::<Vec<_>>().join(" | ")
        }
        Value::Array(_) => property["format"].as_str().unwrap_or("").to_owned(),
        _ => String::new(),
    };
    if words == "array" { format!("list of {}", kind(root, &property["items"])) } else { words }
}
