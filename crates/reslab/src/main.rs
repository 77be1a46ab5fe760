//! The program `reslab` with its own strategies.
fn main() -> std::process::ExitCode {
    reslab::run(reslab::Registry::builtin())
}
