//! What is compared: the arms at their chosen points where the sweep selects, else every row.

use reslab_record::{Axis, Plan};

use crate::arm::ArmRow;
use crate::select::Selection;
use crate::table::Group;

/// An arm at one point of the factors, that is, of the grid axes that are not chosen.
#[derive(Debug, Clone)]
pub(crate) struct Entry<'a> {
    /// As it stands in the table: with its factors, without what is chosen.
    pub(crate) name: String,
    /// The arm's name without grid axes.
    pub(crate) base: String,
    /// The factors.
    pub(crate) factors: Vec<Axis>,
    /// Its row and that row's runs; `None` while nothing is chosen.
    pub(crate) at: Option<(usize, &'a Group<'a>)>,
}

/// The entries in plan order.
pub(crate) fn entries<'a>(
    plan: &Plan,
    rows: &[ArmRow],
    groups: &'a [Group<'a>],
    selection: Option<&Selection>,
) -> Vec<Entry<'a>> {
    let is_chosen = |axis: &Axis| selection.is_some() && plan.select.contains(&axis.key);
    let mut entries: Vec<Entry> = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let name = group[0].planned.name_without(is_chosen);
        if entries.iter().any(|entry| entry.name == name) {
            continue;
        }
        let choice = selection.and_then(|selection| selection.rows.iter().find(|choice| choice.arm == name));
        let row = if selection.is_some() { choice.and_then(|choice| choice.row) } else { Some(index) };
        let factors = rows[index].point.iter().filter(|axis| !is_chosen(axis)).cloned().collect();
        entries.push(Entry { name, base: rows[index].base.clone(), factors, at: row.map(|row| (row, &groups[row])) });
    }
    entries
}
