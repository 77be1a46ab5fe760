//! Writes the page of a sweep's folder to a file, without libtorch: `cargo run -p reslab-page --example page -- DIR FILE`.

use reslab_report::{Options, read_sweep, table};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [dir, file] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else { return Err("name DIR and FILE".into()) };
    let dir = Path::new(dir);
    let sweep = read_sweep(dir)?;
    let table = table(&sweep, &Options::default())?;
    let plots = reslab_plot::plots(dir, &sweep, &table)?;
    std::fs::write(file, reslab_page::page(dir, &sweep, &table, &plots))?;
    Ok(())
}
