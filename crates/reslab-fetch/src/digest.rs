//! sha256 of files, and the check of files in place.

use std::io::{self, Read};
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::catalog::DatasetFiles;
use crate::error::FetchError;
use crate::fetch::{FetchProgress, Stage};
use crate::locate::{Sources, locate};

/// Length and sum of what was read.
pub(crate) struct Sum {
    pub(crate) bytes: u64,
    pub(crate) hex: String,
}

/// Reads to the end; `seen` hears how many bytes have been read.
pub(crate) fn sha256(reader: &mut dyn Read, seen: &mut dyn FnMut(u64)) -> io::Result<Sum> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..count]);
        bytes += count as u64;
        seen(bytes);
    }
    let hex = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Sum { bytes, hex })
}

/// What the check of one file found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCheck {
    /// Name without `.gz`.
    pub name: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is good.
    pub state: FileState,
}

/// Whether a file is the published one. Compressed files are compared by their uncompressed content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// Length and sum are the published ones.
    Intact,
    /// The content differs.
    Differs {
        /// Published length.
        expected_bytes: u64,
        /// Length found.
        found_bytes: u64,
        /// Published sum.
        expected: &'static str,
        /// Sum found.
        found: String,
    },
    /// It could not be read to the end: what the system or the decompressor said, and after how many bytes.
    Unreadable {
        /// Uncompressed bytes read before it failed.
        offset: u64,
        /// What was said.
        problem: String,
    },
}

/// Compares the files that [`locate`] finds with their published sums; reads every byte, changes nothing.
pub fn verify(
    dataset: &'static DatasetFiles,
    sources: &Sources,
    progress: &mut dyn FnMut(FetchProgress<'_>),
) -> Result<Vec<FileCheck>, FetchError> {
    let located = locate(dataset, sources)?;
    let checks = dataset.files.iter().zip(located.files).map(|(file, found)| {
        let mut offset = 0;
        let mut seen = |done| {
            offset = done;
            progress(FetchProgress { file: file.name, stage: Stage::Check, done, total: file.bytes });
        };
        let sum = found.open().and_then(|mut reader| sha256(&mut reader, &mut seen));
        let state = match sum {
            Ok(sum) if sum.hex == file.sha256 => FileState::Intact,
            Ok(sum) => FileState::Differs {
                expected_bytes: file.bytes,
                found_bytes: sum.bytes,
                expected: file.sha256,
                found: sum.hex,
            },
            Err(error) => FileState::Unreadable { offset, problem: error.to_string() },
        };
        FileCheck { name: file.name, path: found.path, state }
    });
    Ok(checks.collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::{TOY, sources, write_toy};

    #[test]
    fn sums_are_those_of_sha256sum() {
        let sum = sha256(&mut &b"abc"[..], &mut |_| ()).unwrap();
        assert_eq!(sum.hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(sum.bytes, 3);
    }

    #[test]
    fn good_files_are_intact_and_one_changed_byte_is_seen() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("one/toy");
        for gzipped in [true, false] {
            write_toy(&dir, gzipped);
            let checks = verify(&TOY, &sources(temp.path()), &mut |_| ()).unwrap();
            assert!(checks.iter().all(|check| check.state == FileState::Intact), "{checks:?}");
        }
        fs::write(dir.join("labels"), "0124").unwrap();
        let checks = verify(&TOY, &sources(temp.path()), &mut |_| ()).unwrap();
        assert_eq!(checks[0].state, FileState::Intact);
        assert!(matches!(checks[1].state, FileState::Differs { found_bytes: 4, .. }), "{checks:?}");
    }

    #[test]
    fn a_cut_gzip_file_is_unreadable_not_a_panic() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("one/toy");
        write_toy(&dir, true);
        let path = dir.join("images.gz");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        let checks = verify(&TOY, &sources(temp.path()), &mut |_| ()).unwrap();
        assert!(matches!(checks[0].state, FileState::Unreadable { .. }), "{checks:?}");
    }
}
