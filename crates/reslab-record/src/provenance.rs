//! Which code ran where: what a run's folder says of its start, and of earlier ones.

use std::fs;

use crate::{Env, RecordError, Result, RunDir, sha256_hex};

const EARLIER_ENVS: &str = "env.earlier.json";
const CODE_DIFF: &str = "code.diff";

/// The file that the diff of an earlier start is kept in.
fn kept_diff(sha256: &str) -> String {
    format!("code.{}.diff", sha256.get(..8).unwrap_or(sha256))
}

impl RunDir {
    /// Writes `env.json`. What stood there of an earlier start is kept in `env.earlier.json`, unless it is equal.
    ///
    /// # Errors
    /// The run is finished, or a file cannot be written.
    pub fn write_env(&self, env: &Env) -> Result<()> {
        // One that cannot be read says nothing that could be kept.
        if let Some(before) = self.read_env().ok().flatten().filter(|before| before != env) {
            let mut earlier = self.read_earlier_envs().unwrap_or_default();
            if earlier.last() != Some(&before) {
                earlier.push(before);
            }
            self.write_json(EARLIER_ENVS, &earlier)?;
        }
        self.write_json("env.json", env)
    }

    /// Reads `env.earlier.json`: what earlier starts of a run said that was continued; empty where all said the same.
    ///
    /// # Errors
    /// Names the file.
    pub fn read_earlier_envs(&self) -> Result<Vec<Env>> {
        Ok(self.read_json(EARLIER_ENVS)?.unwrap_or_default())
    }

    /// Removes what is kept of earlier starts, since the run begins with its first step and nothing of them is left.
    ///
    /// # Errors
    /// The run is finished, or a file cannot be removed.
    pub fn forget_earlier_envs(&self) -> Result<()> {
        let earlier = self.read_earlier_envs().unwrap_or_default();
        for sha256 in earlier.iter().filter_map(|env| env.git_diff_sha256.as_ref()) {
            self.remove(&kept_diff(sha256))?;
        }
        self.remove(EARLIER_ENVS)
    }

    /// Writes `code.diff`: how the program's code differs from its commit, before anything is computed. That of an
    /// earlier start with other code is kept, under a name with the first digits of its checksum.
    ///
    /// # Errors
    /// The run is finished, or a file cannot be written.
    pub fn write_code_diff(&self, diff: Option<&[u8]>) -> Result<()> {
        self.refuse_finished()?;
        let path = self.at(CODE_DIFF);
        let before = match fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            read => Some(read.map_err(RecordError::io(&path, "read"))?),
        };
        if before.as_deref() == diff {
            return Ok(());
        }
        if let Some(before) = before {
            let kept = self.at(&kept_diff(&sha256_hex(&before)));
            fs::rename(&path, &kept).map_err(RecordError::io(&kept, "rename to"))?;
        }
        diff.map_or(Ok(()), |diff| self.write(CODE_DIFF, diff))
    }

    /// Reads `env.json`; `None` where there is none.
    ///
    /// # Errors
    /// Names the file.
    pub fn read_env(&self) -> Result<Option<Env>> {
        self.read_json("env.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_dir() -> (tempfile::TempDir, RunDir) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(&dir.path().join("runs/plain-s0-1a")).unwrap();
        (dir, run)
    }

    #[test]
    fn what_an_earlier_start_said_is_kept_until_the_run_begins_anew() {
        let (_dir, run) = run_dir();
        let env = |commit: &str, diff: Option<&[u8]>| Env {
            git_commit: Some(commit.into()),
            git_diff_sha256: diff.map(sha256_hex),
            ..Env::default()
        };
        let start = |commit, diff| {
            run.write_code_diff(diff).unwrap();
            run.write_env(&env(commit, diff)).unwrap();
        };
        let one: Option<&[u8]> = Some(b"+one\n");
        start("a", one);
        start("a", one);
        assert_eq!(run.read_earlier_envs().unwrap(), [], "the same code went on");
        start("b", None);
        start("a", None);
        start("a", None);
        assert_eq!(run.read_earlier_envs().unwrap(), [env("a", one), env("b", None)]);
        assert_eq!(run.read_env().unwrap(), Some(env("a", None)));
        assert!(!run.path().join("code.diff").exists(), "the code that runs now is as it was committed");
        let kept = run.path().join(kept_diff(&sha256_hex(b"+one\n")));
        assert_eq!(fs::read(&kept).unwrap(), b"+one\n");
        // Torn between the two files: what is known is not told twice.
        fs::write(run.path().join("env.json"), serde_json::to_string(&env("b", None)).unwrap()).unwrap();
        start("c", None);
        assert_eq!(run.read_earlier_envs().unwrap().len(), 2);

        run.forget_earlier_envs().unwrap();
        run.forget_earlier_envs().expect("and once more");
        assert!(run.read_earlier_envs().unwrap().is_empty() && !kept.exists());
        assert_eq!(run.read_env().unwrap(), Some(env("c", None)));
    }

    #[test]
    fn an_env_of_a_version_without_the_diff_is_read() {
        let (_dir, run) = run_dir();
        let old = r#"{"reslab": "0.1.0", "git_commit": "abc", "git_dirty": true, "threads": 1, "seed": 0}"#;
        fs::write(run.path().join("env.json"), old).unwrap();
        let env = run.read_env().unwrap().unwrap();
        assert_eq!((env.git_dirty, env.git_diff_sha256), (Some(true), None));
    }
}
