//! What `set_deterministic` leaves in the environment of the process, for cuBLAS: a process for each case, since the
//! environment is the process's.

use std::process::Command;

use reslab_torch::set_deterministic;

const VARIABLE: &str = "CUBLAS_WORKSPACE_CONFIG";
const MARK: &str = "workspace is ";

/// What the variable is after `set_deterministic(on)` in a process that is started with `before`.
fn after(on: bool, before: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_process_of_one_case", "--ignored", "--nocapture"]).env("ON", on.to_string());
    command.env_remove(VARIABLE).envs(before.map(|value| (VARIABLE, value)));
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let line = output.lines().find_map(|line| line.split_once(MARK));
    line.unwrap_or_else(|| panic!("{output}")).1.to_owned()
}

#[test]
#[ignore = "started by the test below"]
fn the_process_of_one_case() {
    set_deterministic(std::env::var("ON").is_ok_and(|on| on == "true"));
    println!("\n{MARK}{}", std::env::var(VARIABLE).unwrap_or_else(|_| "unset".to_owned()));
}

#[test]
fn deterministic_algorithms_fix_the_workspace_of_cublas_unless_the_user_has() {
    assert_eq!(after(true, None), ":4096:8");
    assert_eq!(after(true, Some(":16:8")), ":16:8");
    assert_eq!(after(false, None), "unset", "control");
}
