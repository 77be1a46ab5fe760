//! One file over HTTP: written to `NAME.part`, resumed where it was cut, checked, then renamed to `NAME`.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ureq::{Agent, Proxy};

use crate::catalog::Download;
use crate::digest::sha256;
use crate::error::{Failure, FetchError, Problem};
use crate::fetch::{FetchProgress, Stage};

/// How often one address is asked again without a single new byte before the next one is tried.
const TRIES_WITHOUT_PROGRESS: u32 = 3;

/// The connection and how patient to be with it.
pub(crate) struct Client {
    agent: Agent,
    pause: Duration,
}

impl Client {
    /// Honours the proxy variables that every downloader does (HTTPS_PROXY and so on): they belong to the connection.
    pub(crate) fn new() -> Client {
        Client::with(Proxy::try_from_env(), Duration::from_secs(1), Duration::from_secs(30))
    }

    /// `pause`: before asking again. `silence`: how long a server may send nothing.
    pub(crate) fn with(proxy: Option<Proxy>, pause: Duration, silence: Duration) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(proxy)
            .user_agent(concat!("reslab/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(Duration::from_secs(15)))
            .timeout_connect(Some(Duration::from_secs(15)))
            .timeout_recv_response(Some(silence))
            .timeout_per_read(Some(silence))
            .build();
        Client { agent: config.into(), pause }
    }

    /// Puts `download` into `folder`, or says what each address answered. A `.part` file of an earlier call is resumed.
    pub(crate) fn download(
        &self,
        download: &Download,
        folder: &Path,
        progress: &mut dyn FnMut(FetchProgress<'_>),
    ) -> Result<Result<PathBuf, Vec<Failure>>, FetchError> {
        let part = folder.join(format!("{}.part", download.name));
        let mut failures = Vec::new();
        for url in download.urls {
            match self.one_address(url, download, &part, progress)? {
                Ok(()) => {
                    let path = folder.join(download.name);
                    fs::rename(&part, &path).map_err(FetchError::io(&path))?;
                    return Ok(Ok(path));
                }
                Err(problem) => failures.push(Failure { url, problem }),
            }
        }
        Ok(Err(failures))
    }

    /// Completes and checks the part from one address. A part that was begun earlier (perhaps of another address) and
    /// turns out wrong is fetched once more from its first byte.
    fn one_address(
        &self,
        url: &str,
        download: &Download,
        part: &Path,
        progress: &mut dyn FnMut(FetchProgress<'_>),
    ) -> Result<Result<(), Problem>, FetchError> {
        let resumed = length(part) > 0;
        if let Err(problem) = self.complete(url, download, part, progress)? {
            return Ok(Err(problem));
        }
        match check(download, part, progress)? {
            Err(_) if resumed => {}
            outcome => return Ok(outcome),
        }
        match self.complete(url, download, part, progress)? {
            Ok(()) => check(download, part, progress),
            Err(problem) => Ok(Err(problem)),
        }
    }

    /// Asks until the part has its full length, or until nothing new comes any more.
    fn complete(
        &self,
        url: &str,
        download: &Download,
        part: &Path,
        progress: &mut dyn FnMut(FetchProgress<'_>),
    ) -> Result<Result<(), Problem>, FetchError> {
        let mut tries = 0;
        while length(part) != download.bytes {
            let before = length(part);
            let outcome = self.receive(url, download, part, progress)?;
            let (expected, found) = (download.bytes, length(part));
            tries = if found > before { 0 } else { tries + 1 };
            let problem = match outcome {
                Ok(()) if found == expected => break,
                // The connection ended early without an error; the length shows it.
                Ok(()) => Problem::Length { expected, found },
                Err(Problem::Network(text)) => Problem::Network(text),
                Err(final_answer) => return Ok(Err(final_answer)),
            };
            if tries >= TRIES_WITHOUT_PROGRESS {
                return Ok(Err(problem));
            }
            thread::sleep(self.pause);
        }
        Ok(Ok(()))
    }

    /// One request: appends what comes to the part.
    fn receive(
        &self,
        url: &str,
        download: &Download,
        part: &Path,
        progress: &mut dyn FnMut(FetchProgress<'_>),
    ) -> Result<Result<(), Problem>, FetchError> {
        let mut done = length(part);
        let mut request = self.agent.get(url);
        if done > 0 {
            request = request.header("Range", format!("bytes={done}-"));
        }
        let response = match request.call() {
            Ok(response) => response,
            Err(error) => return Ok(Err(Problem::Network(error.to_string()))),
        };
        match response.status().as_u16() {
            206 if starts_at(response.headers(), done) => {}
            // Without ranges, or with a wrong one, the file comes (or is asked for again) from its first byte.
            200 => done = 0,
            206 | 416 if done > 0 => {
                remove(part)?;
                return Ok(Err(Problem::Network("the server cannot resume".to_string())));
            }
            status => return Ok(Err(Problem::Status(status))),
        }
        let mut file = open_part(part, done)?;
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => return Ok(Ok(())),
                Ok(count) => count,
                Err(error) => return Ok(Err(Problem::Network(error.to_string()))),
            };
            done += count as u64;
            if done > download.bytes {
                drop(file);
                remove(part)?;
                return Ok(Err(Problem::Length { expected: download.bytes, found: done }));
            }
            file.write_all(&buffer[..count]).map_err(FetchError::io(part))?;
            let (file, total) = (download.name, download.bytes);
            progress(FetchProgress { file, stage: Stage::Download, done, total });
        }
    }
}

/// Compares a file with the published sum; a wrong one is deleted.
fn check(
    download: &Download,
    path: &Path,
    progress: &mut dyn FnMut(FetchProgress<'_>),
) -> Result<Result<(), Problem>, FetchError> {
    let mut file = File::open(path).map_err(FetchError::io(path))?;
    let mut seen = |done| {
        let (file, total) = (download.name, download.bytes);
        progress(FetchProgress { file, stage: Stage::Check, done, total });
    };
    let sum = sha256(&mut file, &mut seen).map_err(FetchError::io(path))?;
    if sum.hex == download.sha256 {
        return Ok(Ok(()));
    }
    remove(path)?;
    Ok(Err(Problem::Checksum { expected: download.sha256, found: sum.hex }))
}

fn starts_at(headers: &ureq::http::HeaderMap, offset: u64) -> bool {
    let range = headers.get("content-range").and_then(|value| value.to_str().ok());
    range.is_some_and(|range| range.trim().starts_with(&format!("bytes {offset}-")))
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map(|metadata| metadata.len()).unwrap_or(0)
}

/// Opens the part to append after `offset` bytes; 0 empties it.
fn open_part(path: &Path, offset: u64) -> Result<File, FetchError> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(FetchError::io(path))?;
    file.set_len(offset).map_err(FetchError::io(path))?;
    Ok(file)
}

fn remove(path: &Path) -> Result<(), FetchError> {
    fs::remove_file(path).map_err(FetchError::io(path))
}
