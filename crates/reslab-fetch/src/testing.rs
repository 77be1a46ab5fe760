//! A toy data set and a small HTTP server on loopback, for the tests of this crate.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use flate2::{Compression, write::GzEncoder};

use crate::catalog::{DataFile, DatasetFiles, Download, Packing};
use crate::locate::Sources;

pub(crate) const IMAGES: &str = "images";
pub(crate) const LABELS: &str = "0123";

/// Two small files; nothing of it can be downloaded.
pub(crate) static TOY: DatasetFiles = DatasetFiles {
    name: "toy",
    home: "http://toy.invalid/",
    folders: &["toy", "Toy/raw"],
    debian: Some("dataset-toy"),
    files: &[
        DataFile {
            name: "images",
            bytes: 6,
            sha256: "21b2eed1e328a2c62fe4c17d51188bdea73450f29956dc5c8c95429313ddd72c",
        },
        DataFile {
            name: "labels",
            bytes: 4,
            sha256: "1be2e452b46d7a0d9656bbb1f768e8248eba1b75baed65f5d99eafa948899a6a",
        },
    ],
    downloads: &[Download {
        name: "images.gz",
        urls: &["http://toy.invalid/images.gz"],
        bytes: 0,
        sha256: "",
        packing: Packing::Gzip,
    }],
};

/// Search folders `one` and `two`, and `cache`, below a temporary folder.
pub(crate) fn sources(root: &Path) -> Sources {
    let dirs = vec![root.join("one"), root.join("two")];
    Sources { dirs, cache: root.join("cache"), offline: true }
}

/// The files of [`TOY`].
pub(crate) fn write_toy(dir: &Path, gzipped: bool) {
    fs::create_dir_all(dir).unwrap();
    for (name, text) in [("images", IMAGES), ("labels", LABELS)] {
        let (path, compressed) = (dir.join(name), dir.join(format!("{name}.gz")));
        if gzipped {
            fs::write(compressed, gzip(text.as_bytes())).unwrap();
        } else {
            fs::write(path, text).unwrap();
        }
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A `.tar.gz` of these files in a folder `inside`.
pub(crate) fn tar_gz(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("inside/{name}"), *bytes).unwrap();
    }
    gzip(&builder.into_inner().unwrap())
}

/// How the server treats one request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// All that was asked for, ranges honoured.
    Whole,
    /// This many bytes of what was asked for, then the connection is closed.
    Cut(usize),
    /// All from the first byte, whatever the range.
    NoRange,
    /// Status 404.
    NotFound,
}

/// Serves one file; request n gets answer n, the last answer repeats. Lives until the test's process ends.
pub(crate) struct Server {
    pub(crate) url: &'static str,
    /// First byte asked for, per request.
    pub(crate) asked: Arc<Mutex<Vec<usize>>>,
}

impl Server {
    pub(crate) fn start(body: Vec<u8>, answers: &[Answer]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/file", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answers, log) = (answers.to_vec(), asked.clone());
        thread::spawn(move || {
            for (index, stream) in listener.incoming().enumerate() {
                let answer = answers.get(index).or(answers.last()).expect("an answer");
                serve(stream.unwrap(), &body, answer, &log);
            }
        });
        Server { url: url.leak(), asked }
    }
}

fn serve(stream: TcpStream, body: &[u8], answer: &Answer, log: &Mutex<Vec<usize>>) {
    let mut start = 0;
    for line in BufReader::new(&stream).lines() {
        let line = line.unwrap().to_ascii_lowercase();
        if let Some(range) = line.strip_prefix("range: bytes=") {
            start = range.trim_end_matches('-').parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    log.lock().unwrap().push(start);
    let start = if matches!(answer, Answer::NoRange) { 0 } else { start };
    let rest = &body[start.min(body.len())..];
    let status = match (answer, start) {
        (Answer::NotFound, _) => "404 Not Found".to_string(),
        (_, 0) => "200 OK".to_string(),
        _ => format!("206 Partial Content\r\nContent-Range: bytes {start}-{}/{}", body.len() - 1, body.len()),
    };
    let sent = match answer {
        Answer::NotFound => &[],
        Answer::Cut(count) => &rest[..rest.len().min(*count)],
        Answer::Whole | Answer::NoRange => rest,
    };
    let length = if matches!(answer, Answer::NotFound) { 0 } else { rest.len() };
    let mut stream = stream;
    // The client may hang up when it has seen enough; that is its right.
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(sent);
}
