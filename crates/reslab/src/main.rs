//! reslab.
fn main() {}
