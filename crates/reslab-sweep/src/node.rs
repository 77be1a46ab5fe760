//! A TOML document that remembers how its numbers were written (`1e-5` stays `1e-5` in an arm's name) and which
//! file each value came from (an error names the file of the key, not the file that extends it).

use std::sync::Arc;

use toml::Value;
use toml::de::{DeTable, DeValue};
use toml::map::Map as TomlMap;

use crate::error::SweepError;

/// The most parts of a quoted key: each is a table inside the one before it, and tables are walked by recursion. (Tables
/// that are nested by other means are counted by the parser.)
const MOST_PARTS: usize = 8;

/// A table of nodes, in file order.
pub(crate) type Map = TomlMap<String, Node>;

/// One value of a document.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub item: Item,
    /// The file that the value stands in, as the user named it.
    pub origin: Arc<str>,
}

/// What a node holds.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Table(Map),
    Array(Vec<Node>),
    Scalar {
        value: Value,
        /// As written in the file; of a string, its content.
        text: String,
    },
}

impl Node {
    pub(crate) fn table(map: Map, origin: &Arc<str>) -> Self {
        Self { item: Item::Table(map), origin: origin.clone() }
    }

    pub(crate) fn string(text: &str, origin: &Arc<str>) -> Self {
        let value = Value::String(text.to_owned());
        Self { item: Item::Scalar { value, text: text.to_owned() }, origin: origin.clone() }
    }

    pub(crate) fn as_table(&self) -> Option<&Map> {
        if let Item::Table(map) = &self.item { Some(map) } else { None }
    }

    pub(crate) fn as_array(&self) -> Option<&[Node]> {
        if let Item::Array(nodes) = &self.item { Some(nodes) } else { None }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Item::Scalar { value: Value::String(text), .. } = &self.item { Some(text) } else { None }
    }

    /// The list of an axis `{ sweep = [..] }`: a table with exactly that one key.
    pub(crate) fn as_axis(&self) -> Option<&Node> {
        self.as_table().filter(|map| map.len() == 1)?.get("sweep")
    }

    pub(crate) fn to_value(&self) -> Value {
        match &self.item {
            Item::Table(map) => Value::Table(to_table(map)),
            Item::Array(nodes) => Value::Array(nodes.iter().map(Node::to_value).collect()),
            Item::Scalar { value, .. } => value.clone(),
        }
    }

    /// How the value reads in a name: scalars as written, tables and lists without spaces and quotes.
    pub(crate) fn text(&self) -> String {
        match &self.item {
            Item::Scalar { text, .. } => text.clone(),
            Item::Array(nodes) => format!("[{}]", nodes.iter().map(Node::text).collect::<Vec<_>>().join(",")),
            Item::Table(map) => {
                let pairs: Vec<String> = map.iter().map(|(key, node)| format!("{key}={}", node.text())).collect();
                format!("{{{}}}", pairs.join(","))
            }
        }
    }

    /// What the value is, for an error: `a table`, `0.2`, `"none"`.
    pub(crate) fn describe(&self) -> String {
        match &self.item {
            Item::Table(_) => "a table".to_owned(),
            Item::Array(_) => "a list".to_owned(),
            Item::Scalar { value: Value::String(text), .. } => format!("{text:?}"),
            Item::Scalar { text, .. } => text.clone(),
        }
    }
}

pub(crate) fn to_table(map: &Map) -> toml::Table {
    map.iter().map(|(key, node)| (key.clone(), node.to_value())).collect()
}

/// Parses a document. Quoted keys with dots mean the same as dotted keys.
pub(crate) fn parse(text: &str, origin: &Arc<str>) -> Result<Map, SweepError> {
    let document = DeTable::parse(text).map_err(|e| match e.span() {
        Some(span) => SweepError::new(&**origin, place(text, span.start), e.message().to_owned()),
        // The one error without a place; it would have to be that of the end of a very long file.
        None => SweepError::new(&**origin, "", format!("its tables or lists are nested too deeply ({})", e.message())),
    })?;
    let reader = Reader { text, origin };
    reader.table(document.get_ref())
}

struct Reader<'a> {
    text: &'a str,
    origin: &'a Arc<str>,
}

impl Reader<'_> {
    fn table(&self, table: &DeTable<'_>) -> Result<Map, SweepError> {
        let mut map = Map::new();
        for (key, value) in table.iter() {
            let node = self.node(value.get_ref(), value.span())?;
            let key_text: &str = key.get_ref();
            let parts = key_text.split('.').count();
            if parts > MOST_PARTS {
                let problem = format!("a key has at most {MOST_PARTS} parts between dots, but this one has {parts}");
                return Err(SweepError::new(&**self.origin, place(self.text, key.span().start), problem));
            }
            insert(&mut map, key_text, node)
                .map_err(|problem| SweepError::new(&**self.origin, place(self.text, key.span().start), problem))?;
        }
        Ok(map)
    }

    fn node(&self, value: &DeValue<'_>, span: std::ops::Range<usize>) -> Result<Node, SweepError> {
        let written = self.text.get(span.clone()).unwrap_or("").to_owned();
        let error = |problem: String| SweepError::new(&**self.origin, place(self.text, span.start), problem);
        let item = match value {
            DeValue::Table(table) => Item::Table(self.table(table)?),
            DeValue::Array(values) => {
                let nodes = values.iter().map(|v| self.node(v.get_ref(), v.span()));
                Item::Array(nodes.collect::<Result<_, _>>()?)
            }
            DeValue::String(text) => Item::Scalar { value: Value::String(text.to_string()), text: text.to_string() },
            DeValue::Integer(digits) => {
                let number = i64::from_str_radix(digits.as_str(), digits.radix())
                    .map_err(|_| error(format!("the number {written} does not fit into 64 bits")))?;
                Item::Scalar { value: Value::Integer(number), text: written }
            }
            DeValue::Float(digits) => {
                let number: f64 = digits.as_str().parse().map_err(|_| error(format!("{written} is not a number")))?;
                let is_literal = digits.as_str().contains("inf") || number.is_finite() || number.is_nan();
                if !is_literal {
                    return Err(error(format!("the number {written} is too large")));
                }
                Item::Scalar { value: Value::Float(number), text: written }
            }
            DeValue::Boolean(on) => Item::Scalar { value: Value::Boolean(*on), text: written },
            DeValue::Datetime(date) => Item::Scalar { value: Value::Datetime(*date), text: written },
        };
        Ok(Node { item, origin: self.origin.clone() })
    }
}

/// Puts `node` under the dotted `key`; within one document no key may stand twice.
fn insert(map: &mut Map, key: &str, node: Node) -> Result<(), String> {
    let Some((head, rest)) = key.split_once('.') else { return unite(map, key, node) };
    if head.is_empty() || rest.is_empty() {
        return Err(format!("the key \"{key}\" has an empty part"));
    }
    let origin = node.origin.clone();
    let mut inner = Map::new();
    insert(&mut inner, rest, node)?;
    unite(map, head, Node::table(inner, &origin))
}

fn unite(map: &mut Map, key: &str, node: Node) -> Result<(), String> {
    let Some(known) = map.get_mut(key) else {
        map.insert(key.to_owned(), node);
        return Ok(());
    };
    match (&mut known.item, node.item) {
        (Item::Table(known), Item::Table(more)) => {
            more.into_iter().try_for_each(|(inner, node)| unite(known, &inner, node))
        }
        _ => Err(format!("the key `{key}` stands twice; dotted and quoted keys mean the same")),
    }
}

/// `line 3, column 7` of a byte offset.
fn place(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("line {line}, column {column}")
}

/// The node at a dotted path, if it is there.
pub(crate) fn get<'a>(map: &'a Map, key: &str) -> Option<&'a Node> {
    match key.split_once('.') {
        None => map.get(key),
        Some((head, rest)) => get(map.get(head)?.as_table()?, rest),
    }
}

/// The file that `key` stands in; none for a key that is missing.
pub(crate) fn origin_of(map: &Map, key: &str) -> Option<Arc<str>> {
    get(map, key).map(|node| node.origin.clone())
}

/// A document that holds only `node`, at a dotted path.
pub(crate) fn nest(key: &str, node: Node) -> Map {
    let origin = node.origin.clone();
    let mut map = Map::new();
    match key.split_once('.') {
        None => map.insert(key.to_owned(), node),
        Some((head, rest)) => map.insert(head.to_owned(), Node::table(nest(rest, node), &origin)),
    };
    map
}

/// Replaces the node at a dotted path that exists.
pub(crate) fn replace(map: &mut Map, key: &str, node: Node) {
    let (head, rest) = key.split_once('.').map_or((key, None), |(head, rest)| (head, Some(rest)));
    match (map.get_mut(head), rest) {
        (Some(slot), None) => *slot = node,
        (Some(Node { item: Item::Table(inner), .. }), Some(rest)) => replace(inner, rest, node),
        _ => {}
    }
}

/// Merges `over` into `base`: tables by key, all else replaced. A table with another `kind` replaces, and so does
/// an axis (a table only in its writing) and what stands over one.
pub(crate) fn merge(base: &mut Map, over: Map) {
    for (key, node) in over {
        let is_axis = |n: &Node| n.as_axis().is_some();
        match base.get_mut(&key) {
            Some(known) if !is_axis(known) && !is_axis(&node) && !is_other_kind(known, &node) => {
                match (&mut known.item, node) {
                    (Item::Table(known), Node { item: Item::Table(more), .. }) => merge(known, more),
                    (_, node) => *known = node,
                }
            }
            _ => {
                base.insert(key, node);
            }
        }
    }
}

fn is_other_kind(base: &Node, over: &Node) -> bool {
    let kind = |node: &Node| node.as_table().and_then(|map| map.get("kind")).map(Node::to_value);
    match (kind(base), kind(over)) {
        (Some(base), Some(over)) => base != over,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Map {
        parse(text, &Arc::from("x.toml")).unwrap()
    }

    fn merged(base: &str, over: &str) -> toml::Table {
        let mut base = document(base);
        merge(&mut base, document(over));
        to_table(&base)
    }

    fn plain(text: &str) -> toml::Table {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_keep_the_way_they_were_written() {
        let map = document(
            "a = 1e-5\nb = 3e-4\nc = 0.10\nd = 1_000\ne = \"word\"\nf = [0.9, 0.999]\ng = {kind = \"x\", i = 1.0}",
        );
        let texts: Vec<String> = map.values().map(Node::text).collect();
        assert_eq!(texts, ["1e-5", "3e-4", "0.10", "1_000", "word", "[0.9,0.999]", "{kind=x,i=1.0}"]);
        assert_eq!(to_table(&map)["d"].as_integer(), Some(1000));
        assert_eq!(to_table(&map)["a"].as_float(), Some(1e-5));
    }

    #[test]
    fn values_equal_those_of_the_toml_crate() {
        let text = "a = 0x1f\nb = -7\nc = +1.5e3\nd = inf\ne = true\nf = 1979-05-27\n[g.h]\ni = [[1, 2], []]\nj.k = 'lit'\n[[l]]\nm = \"\"\"\nx\"\"\"\n";
        assert_eq!(to_table(&document(text)), plain(text));
    }

    #[test]
    fn dotted_and_quoted_keys_mean_the_same() {
        let dotted = to_table(&document("optim.lr = 1.0\n[model]\na.b = 2"));
        assert_eq!(to_table(&document("\"optim.lr\" = 1.0\n[model]\n\"a.b\" = 2")), dotted);
        assert_eq!(dotted, plain("[optim]\nlr = 1.0\n[model.a]\nb = 2"));
        let twice = parse("[optim]\nlr = 1.0\n[grid]\n\"a.b\" = 1\na.b = 2", &Arc::from("x.toml")).unwrap_err();
        assert!(twice.to_string().contains("`b` stands twice"), "{twice}");
        assert!(parse("\"a..b\" = 1", &Arc::from("x")).unwrap_err().to_string().contains("empty part"));
    }

    #[test]
    fn a_syntax_error_names_file_line_and_column() {
        let error = parse("a = 1\nb = = 2\n", &Arc::from("configs/x.toml")).unwrap_err().to_string();
        assert!(error.starts_with("configs/x.toml: line 2, column "), "{error}");
        let error = parse("a = 99999999999999999999", &Arc::from("x.toml")).unwrap_err().to_string();
        assert!(error.contains("line 1, column 5") && error.contains("64 bits"), "{error}");
    }

    #[test]
    fn tables_merge_by_key_and_all_else_is_replaced() {
        let table = merged("[t]\na = 1\nb = [1, 2]\n[t.u]\nc = 1\nd = 2", "[t]\nb = [3]\nu.c = 9\ne = 5");
        assert_eq!(table, plain("[t]\na = 1\nb = [3]\ne = 5\n[t.u]\nc = 9\nd = 2"));
    }

    #[test]
    fn a_table_with_another_kind_replaces_and_one_of_the_same_kind_merges() {
        let base = "r = { kind = \"layer_scale\", init = 1.0 }";
        assert_eq!(merged(base, "r = { kind = \"plain\" }"), plain("r = { kind = \"plain\" }"));
        assert_eq!(
            merged(base, "r = { kind = \"layer_scale\", rate = 2 }"),
            plain("r = { kind = \"layer_scale\", init = 1.0, rate = 2 }")
        );
        assert_eq!(merged(base, "r.init = 2.0"), plain("r = { kind = \"layer_scale\", init = 2.0 }"));
    }

    #[test]
    fn an_axis_is_a_value_when_tables_merge() {
        assert_eq!(merged("r.init = 1", "r.init = { sweep = [1, 2] }"), plain("r.init = { sweep = [1, 2] }"));
        assert_eq!(merged("r.init = { sweep = [1, 2] }", "r.init = 3"), plain("r.init = 3"));
        assert_eq!(merged("r = { sweep = [1, 2] }", "r = { a = 3 }"), plain("r = { a = 3 }"));
    }

    #[test]
    fn the_origin_of_a_key_is_the_file_that_wrote_it_last() {
        let mut base = parse("[t]\na = 1\nb = 2", &Arc::from("base.toml")).unwrap();
        merge(&mut base, parse("[t]\nb = 3", &Arc::from("top.toml")).unwrap());
        assert_eq!(origin_of(&base, "t.a").as_deref(), Some("base.toml"));
        assert_eq!(origin_of(&base, "t.b").as_deref(), Some("top.toml"));
        assert_eq!(origin_of(&base, "t.c"), None);
    }
}
