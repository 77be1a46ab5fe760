//! Where files are looked for.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::catalog::{DataFile, DatasetFiles, Packing};
use crate::digest::sha256;
use crate::error::{FetchError, Looked, ways};

/// Where Debian's `dataset-*` packages put their folders; the caller adds it to [`Sources::dirs`].
pub const DEBIAN_DIR: &str = "/usr/share/datasets";

/// A bare folder's files are told from another data set's of the same names by the sum of the smallest, if no larger.
const CHEAP_TO_HASH: u64 = 1 << 20;

/// Where to look, and whether to go to the network. Built where the user's folders and environment are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// Folders in order of search; each may hold `<dataset>/FILE` or `FILE`.
    pub dirs: Vec<PathBuf>,
    /// The user's cache folder: looked into last, and the only one written to.
    pub cache: PathBuf,
    /// Never download.
    pub offline: bool,
}

impl Sources {
    /// All folders in order of search, each once.
    pub fn search(&self) -> Vec<&Path> {
        let mut dirs: Vec<&Path> = Vec::new();
        for dir in self.dirs.iter().chain([&self.cache]) {
            if !dirs.contains(&dir.as_path()) {
                dirs.push(dir);
            }
        }
        dirs
    }
}

/// A complete set of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Name of the data set.
    pub dataset: &'static str,
    /// The folder that holds them all.
    pub dir: PathBuf,
    /// In the order of [`DatasetFiles::files`].
    pub files: Vec<LocatedFile>,
}

impl Located {
    /// The file of this name, given without `.gz`.
    pub fn file(&self, name: &str) -> Option<&LocatedFile> {
        self.files.iter().find(|file| file.name == name)
    }
}

/// One file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedFile {
    /// Name without `.gz`.
    pub name: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is gzip-compressed (and its name ends in `.gz`).
    pub gzip: bool,
}

impl LocatedFile {
    /// Opens the file; what is read is uncompressed.
    pub fn open(&self) -> io::Result<Box<dyn Read>> {
        let file = io::BufReader::with_capacity(1 << 16, File::open(&self.path)?);
        Ok(if self.gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
    }
}

/// Finds a complete set of files in one of the folders; downloads and writes nothing.
pub fn locate(dataset: &'static DatasetFiles, sources: &Sources) -> Result<Located, FetchError> {
    let mut looked = Vec::new();
    for dir in sources.search() {
        match locate_in(dataset, dir) {
            Ok(located) => return Ok(located),
            Err(why) => looked.push(Looked { dir: dir.to_path_buf(), why }),
        }
    }
    Err(FetchError::Missing { dataset: dataset.name, looked, help: ways(dataset, &sources.cache) })
}

/// The archive of a data set, downloaded by hand and not unpacked, in one of the folders.
pub(crate) fn locate_archive(dataset: &DatasetFiles, sources: &Sources) -> Option<PathBuf> {
    let archive = dataset.downloads.iter().find(|d| d.packing == Packing::TarGz)?;
    sources.search().iter().find_map(|dir| archive_in(dataset, archive.name, dir))
}

fn archive_in(dataset: &DatasetFiles, name: &str, dir: &Path) -> Option<PathBuf> {
    let folders = dataset.folders.iter().map(|folder| dir.join(folder));
    folders.chain([dir.to_path_buf()]).map(|f| f.join(name)).find(|path| path.is_file())
}

/// A complete set below one search folder, or why there is none.
fn locate_in(dataset: &DatasetFiles, dir: &Path) -> Result<Located, String> {
    if !dir.is_dir() {
        return Err("no such folder".to_string());
    }
    let mut why = None;
    for folder in dataset.folders.iter().map(|folder| dir.join(folder)) {
        match complete(dataset, &folder) {
            Ok(files) => return Ok(Located { dataset: dataset.name, dir: folder, files }),
            Err(reason) => why = why.or(reason),
        }
    }
    match complete(dataset, dir) {
        Ok(files) => match belongs(dataset, &files) {
            Ok(()) => return Ok(Located { dataset: dataset.name, dir: dir.to_path_buf(), files }),
            Err(reason) => why = why.or(Some(reason)),
        },
        Err(reason) => why = why.or(reason),
    }
    let archive = dataset.downloads.iter().find(|d| d.packing == Packing::TarGz);
    if let Some(path) = archive.and_then(|d| archive_in(dataset, d.name, dir)) {
        return Err(format!("{} is there, not unpacked: `reslab data fetch {}` does it", path.display(), dataset.name));
    }
    Err(why.unwrap_or_else(|| "has none of the files".to_string()))
}

/// All files of the set in this very folder; otherwise which one is missing, or nothing to say if it has none.
fn complete(dataset: &DatasetFiles, folder: &Path) -> Result<Vec<LocatedFile>, Option<String>> {
    let found: Vec<_> = dataset.files.iter().map(|file| find_file(file, folder)).collect();
    let missing = dataset.files.iter().zip(&found).find(|(_, found)| found.is_none());
    match missing {
        None => Ok(found.into_iter().flatten().collect()),
        Some(_) if found.iter().all(Option::is_none) => Err(None),
        Some((file, _)) => Err(Some(format!("{}: {} is missing", folder.display(), file.name))),
    }
}

fn find_file(file: &DataFile, folder: &Path) -> Option<LocatedFile> {
    let plain = folder.join(file.name);
    if plain.is_file() {
        return Some(LocatedFile { name: file.name, path: plain, gzip: false });
    }
    let gzip = folder.join(format!("{}.gz", file.name));
    gzip.is_file().then_some(LocatedFile { name: file.name, path: gzip, gzip: true })
}

/// In a folder that does not bear the data set's name, files of these names may be another's: MNIST and Fashion-MNIST
/// use the same four names and sizes. Sizes are compared, and the smallest file's sum.
fn belongs(dataset: &DatasetFiles, found: &[LocatedFile]) -> Result<(), String> {
    for (file, found) in dataset.files.iter().zip(found) {
        let bytes = fs::metadata(&found.path).map(|m| m.len()).unwrap_or(0);
        if !found.gzip && bytes != file.bytes {
            let name = found.path.display();
            return Err(format!("{name} has {bytes} bytes, not the {} of {}", file.bytes, dataset.name));
        }
    }
    let smallest = dataset.files.iter().zip(found).min_by_key(|(file, _)| file.bytes);
    let Some((file, found)) = smallest.filter(|(file, _)| file.bytes <= CHEAP_TO_HASH) else {
        return Ok(());
    };
    match found.open().and_then(|mut reader| sha256(&mut reader, &mut |_| ())) {
        Ok(sum) if sum.hex == file.sha256 => Ok(()),
        Ok(_) => Err(format!("{} is not that of {}", found.path.display(), dataset.name)),
        Err(error) => Err(format!("{}: {error}", found.path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TOY, gzip, sources, write_toy};

    #[test]
    fn files_are_found_in_a_named_folder_and_bare_gzip_or_plain() {
        for (sub, gzipped) in [("toy", false), ("toy", true), ("", false), ("Toy/raw", true)] {
            let temp = tempfile::tempdir().unwrap();
            write_toy(&temp.path().join("one").join(sub), gzipped);
            let located = locate(&TOY, &sources(temp.path())).unwrap();
            assert_eq!(located.dir, temp.path().join("one").join(sub));
            let labels = located.file("labels").unwrap();
            assert_eq!((labels.gzip, located.files.len()), (gzipped, 2));
            let mut text = String::new();
            labels.open().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "0123");
        }
    }

    #[test]
    fn the_first_folder_with_a_complete_set_wins_and_sets_are_not_mixed() {
        let temp = tempfile::tempdir().unwrap();
        write_toy(&temp.path().join("one/toy"), false);
        fs::remove_file(temp.path().join("one/toy/labels")).unwrap();
        write_toy(&temp.path().join("two"), true);
        write_toy(&temp.path().join("cache/toy"), true);
        let located = locate(&TOY, &sources(temp.path())).unwrap();
        assert_eq!(located.dir, temp.path().join("two"));
        assert!(located.files.iter().all(|file| file.path.starts_with(temp.path().join("two"))));
    }

    #[test]
    fn a_bare_folder_of_another_data_set_is_passed_over() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("one");
        write_toy(&dir, false);
        fs::write(dir.join("labels"), "9999").unwrap();
        let error = locate(&TOY, &sources(temp.path())).unwrap_err().to_string();
        assert!(error.contains("labels is not that of toy"), "{error}");
        fs::write(dir.join("labels"), "99").unwrap();
        let error = locate(&TOY, &sources(temp.path())).unwrap_err().to_string();
        assert!(error.contains("labels has 2 bytes, not the 4 of toy"), "{error}");
        // In a folder that bears the name, the loader will say what is wrong with the file.
        fs::rename(&dir, temp.path().join("toy")).unwrap();
        fs::create_dir(&dir).unwrap();
        fs::rename(temp.path().join("toy"), dir.join("toy")).unwrap();
        assert!(locate(&TOY, &sources(temp.path())).is_ok());
    }

    #[test]
    fn a_missing_set_names_every_folder_and_three_ways() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("one/toy");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("images.gz"), gzip(b"")).unwrap();
        let error = locate(&TOY, &sources(temp.path())).unwrap_err().to_string();
        for part in ["labels is missing", "two: no such folder", "1. ", "2. ", "3. ", "--data-dir"] {
            assert!(error.contains(part), "no `{part}` in:\n{error}");
        }
        assert!(error.contains(TOY.downloads[0].urls[0]), "{error}");
    }
}
