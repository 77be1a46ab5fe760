//! The strategies by name, and the table `[residual]`.

use reslab_config::{ConfigError, KeyDoc, nearest};

use crate::{Strategy, variants};

/// What a strategy's file says about it.
#[derive(Debug)]
pub struct Variant {
    /// The word of `residual.kind`; equal to the file's name.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The equation of a join, in the doc's notation.
    pub equation: &'static str,
    /// Paper, arXiv number, equation or section.
    pub source: &'static str,
    /// The smallest valid table `[residual]`, in TOML.
    pub example: &'static str,
    /// Trainable parameters that it adds to a block, with the example's keys: a sum of products of numbers and of D
    /// (width), H (heads), M (hidden width of the MLP), N (tokens) and L (depth): `2*D`.
    pub parameters: &'static str,
    /// Its keys, without `kind`.
    pub keys: fn() -> Vec<KeyDoc>,
    /// Parses its keys, `kind` taken out.
    pub parse: fn(&toml::Table) -> Result<Box<dyn Strategy>, ConfigError>,
}

/// The known strategies.
#[derive(Debug, Clone)]
pub struct Registry {
    variants: Vec<&'static Variant>,
}

impl Registry {
    /// The strategies of this crate, in the order of their names.
    pub fn builtin() -> Registry {
        Registry { variants: variants::BUILTIN.to_vec() }
    }

    /// Adds a strategy from outside.
    ///
    /// # Panics
    /// When a strategy of that name is there already.
    #[must_use]
    pub fn with(mut self, variant: &'static Variant) -> Registry {
        assert!(self.get(variant.name).is_none(), "two strategies are named `{}`", variant.name);
        self.variants.push(variant);
        self
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.variants.iter().map(|v| v.name)
    }

    /// All strategies, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'static Variant> + '_ {
        self.variants.iter().copied()
    }

    /// The strategy of a name.
    pub fn get(&self, name: &str) -> Option<&'static Variant> {
        self.iter().find(|v| v.name == name)
    }

    /// Parses a table `[residual]`: `kind` and that strategy's own keys.
    ///
    /// # Errors
    /// Names the key: no or an unknown kind, or what the strategy finds wrong.
    pub fn parse(&self, table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
        let mut keys = table.clone();
        let kind = match keys.remove("kind") {
            Some(toml::Value::String(kind)) => kind,
            Some(other) => {
                return Err(ConfigError::new("residual.kind", format!("must be a strategy's name, but is {other}")));
            }
            None => {
                let problem = "missing; it names the strategy. `reslab strategies` lists all";
                return Err(ConfigError::new("residual.kind", problem));
            }
        };
        let variant = self.get(&kind).ok_or_else(|| {
            let near = nearest(&kind, self.names()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let stop = if near.is_empty() { "." } else { "" };
            let problem = format!("no strategy `{kind}`{near}{stop} `reslab strategies` lists all");
            ConfigError::new("residual.kind", problem)
        })?;
        (variant.parse)(&keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Box<dyn Strategy>, ConfigError> {
        Registry::builtin().parse(&text.parse().unwrap())
    }

    #[test]
    fn an_unknown_kind_is_refused_with_the_nearest_name() {
        let error = parse("kind = 'layerscale'").unwrap_err();
        assert_eq!(
            error.to_string(),
            "residual.kind: no strategy `layerscale`; did you mean `layer_scale`? `reslab strategies` lists all"
        );
        assert_eq!(
            parse("kind = 'zzz'").unwrap_err().to_string(),
            "residual.kind: no strategy `zzz`. `reslab strategies` lists all"
        );
    }

    #[test]
    fn a_missing_kind_and_a_misspelt_key_are_refused() {
        assert_eq!(parse("init = 1").unwrap_err().key, "residual.kind");
        let error = parse("kind = 'layer_scale'\ninnit = 1e-5").unwrap_err();
        assert_eq!(error.key, "residual.innit");
        assert!(error.problem.contains("did you mean `init`"), "{error}");
        assert_eq!(parse("kind = 'plain'\ninit = 1.0").unwrap_err().key, "residual.init");
    }

    #[test]
    fn names_are_unique_and_equal_the_file_names() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/variants");
        let stem = |file: std::fs::DirEntry| file.path().file_stem().unwrap().to_string_lossy().into_owned();
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| stem(file.unwrap())).collect();
        files.sort_unstable();
        assert_eq!(Registry::builtin().names().collect::<Vec<_>>(), files);
    }
}
