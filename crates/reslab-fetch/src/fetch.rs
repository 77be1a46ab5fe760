//! Located, else unpacked from an archive that is there, else downloaded.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use tempfile::NamedTempFile;

use crate::catalog::{DatasetFiles, Download, Packing};
use crate::digest::sha256;
use crate::download::Client;
use crate::error::{FetchError, ways};
use crate::locate::{Located, Sources, locate, locate_archive};

/// Where the work on one file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchProgress<'a> {
    /// File or archive that is worked on.
    pub file: &'a str,
    /// What is being done.
    pub stage: Stage,
    /// Bytes done, from the start of the file (also when resumed).
    pub done: u64,
    /// Bytes of the whole file.
    pub total: u64,
}

/// What is being done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Bytes arrive.
    Download,
    /// The sum is computed.
    Check,
    /// Files are taken out of an archive; bytes are those of the taken-out file.
    Unpack,
}

/// Finds a complete set of files, downloading into the cache what is missing. Safe to call from several processes at
/// once: one downloads, the others wait for it. With [`Sources::offline`] nothing is downloaded.
pub fn fetch(
    dataset: &'static DatasetFiles,
    sources: &Sources,
    progress: &mut dyn FnMut(FetchProgress<'_>),
) -> Result<Located, FetchError> {
    fetch_with(&Client::new, dataset, sources, progress)
}

pub(crate) fn fetch_with(
    client: &dyn Fn() -> Client,
    dataset: &'static DatasetFiles,
    sources: &Sources,
    progress: &mut dyn FnMut(FetchProgress<'_>),
) -> Result<Located, FetchError> {
    let archive = locate_archive(dataset, sources);
    match locate(dataset, sources) {
        Err(FetchError::Missing { .. }) if !sources.offline || archive.is_some() => {}
        outcome => return outcome,
    }
    let folder = sources.cache.join(dataset.name);
    fs::create_dir_all(&folder).map_err(FetchError::io(&folder))?;
    let _lock = lock(&folder)?;
    if let Ok(located) = locate(dataset, sources) {
        return Ok(located); // Another process was faster.
    }
    match archive {
        Some(archive) => unpack_found(dataset, &archive, &folder, progress)?,
        None => download_all(&client(), dataset, &folder, progress)?,
    }
    locate(dataset, sources)
}

/// Held until dropped; the kernel frees it when a process dies.
fn lock(folder: &Path) -> Result<File, FetchError> {
    let path = folder.join(".lock");
    let file = File::create(&path).map_err(FetchError::io(&path))?;
    file.lock().map_err(FetchError::io(&path))?;
    Ok(file)
}

/// Downloads what the folder lacks. A file that bears its final name was checked before it got it.
fn download_all(
    client: &Client,
    dataset: &'static DatasetFiles,
    folder: &Path,
    progress: &mut dyn FnMut(FetchProgress<'_>),
) -> Result<(), FetchError> {
    for download in dataset.downloads {
        let path = folder.join(download.name);
        if !path.is_file() {
            client.download(download, folder, progress)?.map_err(|failures| {
                let help = ways(dataset, folder.parent().unwrap_or(folder));
                FetchError::Download { dataset: dataset.name, file: download.name, failures, help }
            })?;
        }
        if download.packing == Packing::TarGz {
            unpack(dataset, &path, folder, progress)?;
            fs::remove_file(&path).map_err(FetchError::io(&path))?;
        }
    }
    Ok(())
}

/// Unpacks an archive that the user downloaded, which is left where it is.
fn unpack_found(
    dataset: &'static DatasetFiles,
    archive: &Path,
    folder: &Path,
    progress: &mut dyn FnMut(FetchProgress<'_>),
) -> Result<(), FetchError> {
    let published = dataset.downloads.iter().find(|d| archive.ends_with(d.name));
    if let Some(download) = published {
        check_found(download, archive, progress)?;
    }
    unpack(dataset, archive, folder, progress)
}

/// Like the check of a download, but a user's own file is never deleted.
fn check_found(
    download: &Download,
    archive: &Path,
    progress: &mut dyn FnMut(FetchProgress<'_>),
) -> Result<(), FetchError> {
    let wrong = |problem: String| FetchError::Archive { path: archive.to_path_buf(), problem };
    let mut file = File::open(archive).map_err(FetchError::io(archive))?;
    let mut seen = |done| {
        let (file, total) = (download.name, download.bytes);
        progress(FetchProgress { file, stage: Stage::Check, done, total });
    };
    let sum = sha256(&mut file, &mut seen).map_err(FetchError::io(archive))?;
    if sum.hex == download.sha256 {
        return Ok(());
    }
    Err(wrong(format!(
        "not the published archive: expected {} bytes with sha256 {}, found {} with {}; download it again from {}",
        download.bytes, download.sha256, sum.bytes, sum.hex, download.urls[0]
    )))
}

/// A temporary file whose permissions are those of any new file, since it is renamed into place.
fn new_file(folder: &Path) -> Result<NamedTempFile, FetchError> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666)); // less the umask
    }
    builder.tempfile_in(folder).map_err(FetchError::io(folder))
}

/// Takes the files of the data set out of an archive, each written beside its place and renamed.
fn unpack(
    dataset: &DatasetFiles,
    archive: &Path,
    folder: &Path,
    progress: &mut dyn FnMut(FetchProgress<'_>),
) -> Result<(), FetchError> {
    let wrong = |problem: String| FetchError::Archive { path: archive.to_path_buf(), problem };
    let reader = File::open(archive).map_err(FetchError::io(archive))?;
    let mut tar = tar::Archive::new(MultiGzDecoder::new(io::BufReader::new(reader)));
    let mut taken = 0;
    for entry in tar.entries().map_err(|error| wrong(error.to_string()))? {
        let mut entry = entry.map_err(|error| wrong(error.to_string()))?;
        let path = entry.path().map_err(|error| wrong(error.to_string()))?;
        // Only the last part of the name is used, if it is one that we look for: no entry can leave the folder.
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(file) = dataset.files.iter().find(|file| Some(file.name) == name) else {
            continue;
        };
        let mut part = new_file(folder)?;
        let bytes = io::copy(&mut entry, &mut part).map_err(|error| wrong(error.to_string()))?;
        if bytes != file.bytes {
            let name = file.name;
            return Err(wrong(format!("{name} has {bytes} bytes in it, not {}", file.bytes)));
        }
        let target = folder.join(file.name);
        part.persist(&target).map_err(|error| FetchError::io(&target)(error.error))?;
        taken += 1;
        let (file, total) = (file.name, file.bytes);
        progress(FetchProgress { file, stage: Stage::Unpack, done: bytes, total });
    }
    if taken == dataset.files.len() {
        return Ok(());
    }
    Err(wrong(format!("holds {taken} of the {} files of {}", dataset.files.len(), dataset.name)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::catalog::DataFile;
    use crate::error::Problem;
    use crate::testing::{Answer, Server, gzip, sources, tar_gz};

    const BYTES: usize = 300_000;

    /// Does not compress, so that cuts fall where the tests put them.
    fn content() -> Vec<u8> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..BYTES).map(|_| next()).collect()
    }

    fn sum(bytes: &[u8]) -> &'static str {
        sha256(&mut &bytes[..], &mut |_| ()).unwrap().hex.leak()
    }

    /// A data set of one file `data.bin` that the given servers have; `wrong` makes the published sum another.
    fn served(packing: Packing, body: &[u8], urls: Vec<&'static str>, wrong: bool) -> &'static DatasetFiles {
        let name = if packing == Packing::Gzip { "data.bin.gz" } else { "data.tar.gz" };
        let sha256 = if wrong { sum(b"something else") } else { sum(body) };
        let bytes = body.len() as u64;
        let download = Download { name, urls: urls.leak(), bytes, sha256, packing };
        let file = DataFile { name: "data.bin", bytes: BYTES as u64, sha256: sum(&content()) };
        Box::leak(Box::new(DatasetFiles {
            name: "toy",
            home: "http://toy.invalid/",
            folders: &["toy"],
            debian: None,
            files: vec![file].leak(),
            downloads: vec![download].leak(),
        }))
    }

    fn client() -> Client {
        Client::with(None, Duration::from_millis(5), Duration::from_secs(5))
    }

    fn online(root: &Path) -> Sources {
        Sources { offline: false, ..sources(root) }
    }

    fn get(dataset: &'static DatasetFiles, root: &Path) -> Result<Located, FetchError> {
        fetch_with(&client, dataset, &online(root), &mut |_| ())
    }

    fn read(located: &Located) -> Vec<u8> {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut located.files[0].open().unwrap(), &mut bytes).unwrap();
        bytes
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_cut_download_goes_on_where_it_was_cut() {
        let (temp, body) = (tempfile::tempdir().unwrap(), gzip(&content()));
        let answers = [Answer::Cut(100_000), Answer::Cut(1_000), Answer::Whole];
        let server = Server::start(body.clone(), &answers);
        let dataset = served(Packing::Gzip, &body, vec![server.url], false);
        let mut last = 0;
        let located = fetch_with(&client, dataset, &online(temp.path()), &mut |p| {
            assert!(p.stage != Stage::Download || p.done >= last, "progress went back");
            last = p.done;
        });
        assert_eq!(read(&located.unwrap()), content());
        assert_eq!(*server.asked.lock().unwrap(), [0, 100_000, 101_000]);
        assert_eq!(names(&temp.path().join("cache/toy")), [".lock", "data.bin.gz"]);
        // Complete: the second call asks nobody.
        get(dataset, temp.path()).unwrap();
        assert_eq!(server.asked.lock().unwrap().len(), 3);
    }

    #[test]
    fn a_part_of_an_earlier_process_is_resumed_and_a_foreign_one_is_fetched_anew() {
        let (temp, body) = (tempfile::tempdir().unwrap(), gzip(&content()));
        let part = temp.path().join("cache/toy/data.bin.gz.part");
        for (begun, asked) in [(body[..5_000].to_vec(), vec![5_000]), (vec![7; 5_000], vec![5_000, 0])] {
            let server = Server::start(body.clone(), &[Answer::Whole]);
            let dataset = served(Packing::Gzip, &body, vec![server.url], false);
            fs::create_dir_all(part.parent().unwrap()).unwrap();
            fs::write(&part, begun).unwrap();
            let located = get(dataset, temp.path()).unwrap();
            assert_eq!(read(&located), content());
            assert_eq!(*server.asked.lock().unwrap(), asked);
            fs::remove_dir_all(temp.path().join("cache")).unwrap();
        }
    }

    #[test]
    fn a_server_that_cannot_resume_is_read_from_the_start() {
        let (temp, body) = (tempfile::tempdir().unwrap(), gzip(&content()));
        let server = Server::start(body.clone(), &[Answer::Cut(9_000), Answer::NoRange]);
        let dataset = served(Packing::Gzip, &body, vec![server.url], false);
        assert_eq!(read(&get(dataset, temp.path()).unwrap()), content());
        assert_eq!(*server.asked.lock().unwrap(), [0, 9_000]);
    }

    #[test]
    fn a_wrong_checksum_is_reported_and_the_copy_deleted() {
        let (temp, body) = (tempfile::tempdir().unwrap(), gzip(&content()));
        let server = Server::start(body.clone(), &[Answer::Whole]);
        let dataset = served(Packing::Gzip, &body, vec![server.url], true);
        let error = get(dataset, temp.path()).unwrap_err();
        let FetchError::Download { failures, .. } = &error else { panic!("{error}") };
        let Problem::Checksum { expected, found } = &failures[0].problem else { panic!("{error}") };
        assert_eq!((*expected, found.as_str()), (sum(b"something else"), sum(&body)));
        assert_eq!(names(&temp.path().join("cache/toy")), [".lock"]);
        assert!(error.to_string().contains("Three ways"), "{error}");
    }

    #[test]
    fn the_next_address_serves_when_the_first_does_not() {
        let (temp, body) = (tempfile::tempdir().unwrap(), gzip(&content()));
        let gone = Server::start(body.clone(), &[Answer::NotFound]);
        let stuck = Server::start(body.clone(), &[Answer::Cut(500), Answer::Cut(0)]);
        let good = Server::start(body.clone(), &[Answer::Whole]);
        let closed = "http://127.0.0.1:1/file";
        let urls = vec![closed, gone.url, stuck.url, good.url];
        let dataset = served(Packing::Gzip, &body, urls, false);
        assert_eq!(read(&get(dataset, temp.path()).unwrap()), content());
        assert_eq!(*stuck.asked.lock().unwrap(), [0, 500, 500, 500]);
        assert_eq!(*good.asked.lock().unwrap(), [500]);
    }

    #[test]
    fn when_no_address_serves_each_is_named_with_its_problem_and_the_three_ways() {
        let (temp, body) = (tempfile::tempdir().unwrap(), gzip(&content()));
        let gone = Server::start(body.clone(), &[Answer::NotFound]);
        let urls = vec!["http://127.0.0.1:1/file", gone.url];
        let error = get(served(Packing::Gzip, &body, urls, false), temp.path()).unwrap_err().to_string();
        for part in ["127.0.0.1:1/file: ", "status 404", "1. ", "2. ", "3. "] {
            assert!(error.contains(part), "no `{part}` in:\n{error}");
        }
    }

    #[test]
    fn a_file_longer_than_published_is_refused() {
        let (temp, body) = (tempfile::tempdir().unwrap(), gzip(&content()));
        let server = Server::start([&body[..], b"more"].concat(), &[Answer::Whole]);
        let error = get(served(Packing::Gzip, &body, vec![server.url], false), temp.path());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(&format!("expected {} bytes", body.len())), "{error}");
    }

    #[test]
    fn an_archive_is_unpacked_and_not_kept() {
        let (temp, body) = (tempfile::tempdir().unwrap(), tar_gz(&[("data.bin", &content()), ("readme", b"x")]));
        let server = Server::start(body.clone(), &[Answer::Whole]);
        let dataset = served(Packing::TarGz, &body, vec![server.url], false);
        assert_eq!(read(&get(dataset, temp.path()).unwrap()), content());
        assert_eq!(names(&temp.path().join("cache/toy")), [".lock", "data.bin"]);
    }

    #[test]
    fn an_archive_downloaded_by_hand_is_unpacked_without_network_and_kept() {
        let (temp, body) = (tempfile::tempdir().unwrap(), tar_gz(&[("data.bin", &content())]));
        let dataset = served(Packing::TarGz, &body, vec!["http://127.0.0.1:1/data.tar.gz"], false);
        let archive = temp.path().join("two/data.tar.gz");
        fs::create_dir_all(temp.path().join("two")).unwrap();
        fs::write(&archive, &body).unwrap();
        let located = fetch(dataset, &sources(temp.path()), &mut |_| ()).unwrap();
        assert_eq!(read(&located), content());
        assert!(archive.is_file());
        fs::remove_dir_all(temp.path().join("cache")).unwrap();
        fs::write(&archive, &body[..200]).unwrap();
        let error = fetch(dataset, &sources(temp.path()), &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("not the published archive"), "{error}");
        assert!(archive.is_file());
    }

    #[test]
    fn an_archive_without_the_files_is_refused() {
        let (temp, body) = (tempfile::tempdir().unwrap(), tar_gz(&[("other.bin", &content())]));
        let server = Server::start(body.clone(), &[Answer::Whole]);
        let error = get(served(Packing::TarGz, &body, vec![server.url], false), temp.path());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("holds 0 of the 1 files"), "{error}");
    }

    #[test]
    fn offline_asks_nobody_and_writes_nothing() {
        let (temp, body) = (tempfile::tempdir().unwrap(), gzip(&content()));
        let server = Server::start(body.clone(), &[Answer::Whole]);
        let dataset = served(Packing::Gzip, &body, vec![server.url], false);
        let outcome = fetch_with(&client, dataset, &sources(temp.path()), &mut |_| ());
        assert!(matches!(outcome, Err(FetchError::Missing { .. })));
        assert!(server.asked.lock().unwrap().is_empty() && !temp.path().join("cache").exists());
    }
}
