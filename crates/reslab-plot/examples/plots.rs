//! Writes the plots of a sweep's folder, without libtorch: `cargo run -p reslab-plot --example plots -- DIR`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("which folder?")?);
    let sweep = reslab_report::read_sweep(&dir)?;
    let table = reslab_report::table(&sweep, &reslab_report::Options::default())?;
    let plots = reslab_plot::write_plots(&dir, &sweep, &table)?;
    for plot in &plots.drawn {
        println!("{}: {} bytes of SVG, {} of PNG", plot.name, plot.svg.len(), plot.png.len());
    }
    for (name, why) in &plots.left_out {
        println!("{name}: left out, {why}");
    }
    Ok(())
}
