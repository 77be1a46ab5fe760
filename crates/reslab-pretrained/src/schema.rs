//! Which elements of a file's tensors are which elements of ours: one table per layout, for reading and for writing.

mod blocks;
mod hf;

use crate::keys::{Family, Keys};
use crate::spelling::Spelling;
use crate::{Architecture, Kind, Layout};

/// What stands in elements that no parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Zeros: anything else is refused, since it would be lost.
    Zeros,
    /// Ones; only written.
    Ones,
    /// Whatever stands there, for the reason; zeros are written.
    Unread(&'static str),
}

/// A tensor of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Theirs {
    pub key: String,
    pub shape: Vec<usize>,
    pub fill: Option<Fill>,
    /// Whether a file may lack it.
    pub optional: bool,
}

/// A tensor of the network: pieces of the file's, one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ours {
    pub name: String,
    pub shape: Vec<usize>,
    pub pieces: Vec<Piece>,
}

/// Elements `at..at + len` of a tensor of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub key: String,
    pub at: usize,
    pub len: usize,
}

/// The table of a layout for one network.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Schema {
    pub theirs: Vec<Theirs>,
    pub ours: Vec<Ours>,
}

impl Schema {
    /// The table of a layout of another program.
    pub fn new(layout: Layout, network: &Architecture, spelling: Spelling) -> Schema {
        let mut table = Schema::default();
        match layout.family() {
            Family::Blocks => blocks::fill(&mut table, network, spelling),
            _ => hf::fill(&mut table, layout, network, spelling),
        }
        table
    }

    /// A run's own checkpoint: every tensor is the parameter of its name.
    pub fn identity(keys: &Keys) -> Schema {
        let mut table = Schema::default();
        for (name, (_, stored)) in &keys.map {
            table.same(name.as_str(), name.as_str(), &stored.shape);
        }
        table
    }

    fn theirs(&mut self, key: impl Into<String>, shape: &[usize], fill: Option<Fill>) {
        self.theirs.push(Theirs { key: key.into(), shape: shape.to_vec(), fill, optional: false });
    }

    fn ours(&mut self, name: impl Into<String>, shape: &[usize], pieces: Vec<Piece>) {
        self.ours.push(Ours { name: name.into(), shape: shape.to_vec(), pieces });
    }

    /// One tensor of theirs is one of ours, of the same shape.
    fn same(&mut self, key: impl Into<String>, name: impl Into<String>, shape: &[usize]) {
        self.reshaped((key.into(), shape), (name.into(), shape));
    }

    /// One tensor of theirs is one of ours, of another shape.
    fn reshaped(&mut self, (key, shape): (String, &[usize]), (name, ours): (String, &[usize])) {
        let len = shape.iter().product();
        self.ours(name, ours, vec![Piece { key: key.clone(), at: 0, len }]);
        self.theirs(key, shape, None);
    }

    /// Weight (`[out, in]`) and, where there is one, bias of a linear layer.
    fn linear(&mut self, key: &str, name: &str, [out, inputs]: [usize; 2], bias: bool) {
        self.same(format!("{key}.weight"), format!("{name}.weight"), &[out, inputs]);
        if bias {
            self.same(format!("{key}.bias"), format!("{name}.bias"), &[out]);
        }
    }

    /// Weight and bias of a norm.
    fn norm(&mut self, key: &str, name: &str, width: usize) {
        self.same(format!("{key}.weight"), format!("{name}.weight"), &[width]);
        self.same(format!("{key}.bias"), format!("{name}.bias"), &[width]);
    }

    /// Several tensors of theirs, all of one shape, are one of ours.
    fn joined(&mut self, keys: &[String], shape: &[usize], name: String) {
        let len = shape.iter().product();
        let pieces = keys.iter().map(|key| Piece { key: key.clone(), at: 0, len }).collect();
        let ours = [&[keys.len() * shape[0]], &shape[1..]].concat();
        keys.iter().for_each(|key| self.theirs(key, shape, None));
        self.ours(name, &ours, pieces);
    }

    /// One tensor of theirs is several of ours, each of this shape; where no name stands, the elements are nobody's.
    fn split(&mut self, key: String, shape: &[usize], names: &[Option<String>], fill: Option<Fill>) {
        let len = shape.iter().product();
        for (part, name) in names.iter().enumerate() {
            if let Some(name) = name {
                self.ours(name, shape, vec![Piece { key: key.clone(), at: part * len, len }]);
            }
        }
        let theirs = [&[names.len() * shape[0]], &shape[1..]].concat();
        self.theirs(key, &theirs, fill);
    }

    /// A tensor that the network has nothing for, and that other programs want to find.
    fn filled(&mut self, key: impl Into<String>, shape: &[usize], fill: Fill) {
        self.theirs.push(Theirs { key: key.into(), shape: shape.to_vec(), fill: Some(fill), optional: true });
    }

    /// The patches' projection, as a convolution.
    fn patches(&mut self, key: &str, network: &Architecture) {
        let &Architecture { width, channels, patch_size: side, .. } = network;
        self.reshaped(
            (format!("{key}.weight"), &[width, channels, side, side]),
            ("patch_embed.weight".to_owned(), &[width, channels * side * side]),
        );
        if network.patch_bias {
            self.same(format!("{key}.bias"), "patch_embed.bias", &[width]);
        }
    }

    /// Positions, with `before` rows in the file that the patches' rows come after, of which ours has the first `own`.
    fn positions(&mut self, key: &str, network: &Architecture, before: usize, own: usize) {
        let &Architecture { width, positions, .. } = network;
        let piece = |row: usize, rows: usize| Piece { key: key.to_owned(), at: row * width, len: rows * width };
        let mut pieces = vec![piece(before, positions)];
        if own > 0 {
            pieces.insert(0, piece(0, own));
        }
        self.ours("position", &[1, own + positions, width], pieces);
        let fill = (own < before).then_some(Fill::Zeros);
        self.theirs(key, &[1, before + positions, width], fill);
    }
}

/// Names of a block, theirs and ours.
struct BlockNames {
    theirs: String,
    ours: String,
}

impl BlockNames {
    fn new(theirs: &str, ours: &str, block: usize) -> BlockNames {
        BlockNames { theirs: format!("{theirs}.{block}"), ours: format!("{ours}.{block:02}") }
    }

    fn of(&self, key: &str, name: &str) -> (String, String) {
        (format!("{}.{key}", self.theirs), format!("{}.{name}", self.ours))
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.theirs)
    }

    fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.ours)
    }
}

/// The MLP of a block under any of its spellings.
fn mlp(table: &mut Schema, at: &BlockNames, network: &Architecture, spelling: Spelling) {
    let &Architecture { width, hidden, .. } = network;
    let (first, count) = spelling.mlp.first_layer();
    if count == 2 {
        let pair = |end: &str| [Some(at.name(&format!("mlp.gate.{end}"))), Some(at.name(&format!("mlp.fc1.{end}")))];
        table.split(at.key(&format!("{first}.weight")), &[hidden, width], &pair("weight"), None);
        table.split(at.key(&format!("{first}.bias")), &[hidden], &pair("bias"), None);
    } else {
        if let Some(gate) = spelling.mlp.gate() {
            table.linear(&at.key(gate), &at.name("mlp.gate"), [hidden, width], true);
        }
        table.linear(&at.key(first), &at.name("mlp.fc1"), [hidden, width], true);
    }
    table.linear(&at.key(spelling.mlp.second_layer()), &at.name("mlp.fc2"), [width, hidden], true);
}

/// Whether the network is a CaiT, and the depth of its class stage.
fn class_depth(network: &Architecture) -> Option<usize> {
    match network.kind {
        Kind::Vit => None,
        Kind::Cait { class_depth } => Some(class_depth),
    }
}
