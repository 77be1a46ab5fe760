//! What the configurations of the matched arms of two sweeps say differently.

use std::collections::BTreeMap;

use crate::sweeps::Match;

/// A line for each table of the configuration (data, model, train, ...) in which matched arms differ.
pub(crate) fn settings(matches: &[Match]) -> Vec<String> {
    // What differs, with the arms that it is true of.
    let mut found: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for one in matches {
        let [a, b] = one.runs.map(|runs| {
            let run = &runs[0].planned;
            let mut flat = BTreeMap::from([
                ("run.device_kind".to_owned(), run.device_kind.clone()),
                ("run.threads".to_owned(), run.threads.to_string()),
            ]);
            flatten("", &run.config, &mut flat);
            flat
        });
        let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
        for key in keys.filter(|key| a.get(*key) != b.get(*key)) {
            let [one_value, other] = [&a, &b].map(|flat| flat.get(key).map_or("none", String::as_str));
            let table = key.split('.').next().unwrap_or_default().to_owned();
            found.entry((table, format!("{key} {one_value} | {other}"))).or_default().push(&one.arm);
        }
    }
    let mut tables: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ((table, what), arms) in &found {
        let arms = if arms.len() == matches.len() { String::new() } else { format!(" ({})", arms.join(", ")) };
        tables.entry(table).or_default().push(format!("{what}{arms}"));
    }
    let line = |(table, what): (&str, Vec<String>)| {
        let word = if table == "data" { "Data" } else { "Config" };
        format!("{word} differs (A | B): {}.", what.join("; "))
    };
    tables.into_iter().map(line).collect()
}

/// `{train: {steps: 3}}` as `train.steps` and 3.
fn flatten(lead: &str, table: &toml::Table, flat: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let key = if lead.is_empty() { key.clone() } else { format!("{lead}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, flat),
            value => {
                flat.insert(key, value.to_string());
            }
        }
    }
}
