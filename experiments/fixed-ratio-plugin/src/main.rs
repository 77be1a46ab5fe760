//! reslab with one more strategy: `cargo run -p fixed-ratio-plugin -- sweep experiments/fixed-ratio-plugin/sweep.toml`.

mod fixed_ratio;

fn main() -> std::process::ExitCode {
    reslab::run(reslab::Registry::builtin().with(&fixed_ratio::VARIANT))
}
