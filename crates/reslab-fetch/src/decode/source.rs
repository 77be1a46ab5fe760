//! A file read from front to back, gzip or plain, that knows at which byte it stands.

use std::fs::File;
use std::io::{self, BufReader, Chain, Cursor, ErrorKind, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::{DecodeError, Place, Problem};

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A stream of bytes with its name and the number of bytes already taken from it.
///
/// Memory grows with the bytes that really come, never with what a header promises.
pub struct Source<'a> {
    place: Place,
    reader: Box<dyn Read + 'a>,
}

impl<'a> Source<'a> {
    /// Opens a file.
    ///
    /// # Errors
    /// It can't be read.
    pub fn open(path: &Path) -> Result<Self, DecodeError> {
        let file = File::open(path).map_err(|source| DecodeError::Io { place: Place::of(path), source })?;
        Self::new(path.display().to_string(), BufReader::new(file))
    }

    /// Bytes under a name. Whether they are compressed is told by the first two, not by the name.
    ///
    /// # Errors
    /// Those two can't be read.
    pub fn new(name: impl Into<String>, reader: impl Read + 'a) -> Result<Self, DecodeError> {
        let place = Place::new(name, 0);
        match decompressed(reader) {
            Ok(reader) => Ok(Self { place, reader }),
            Err(source) => Err(DecodeError::Io { place, source }),
        }
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.place.file
    }

    /// The place of the next byte.
    pub fn place(&self) -> Place {
        self.place.clone()
    }

    /// Exactly `bytes` bytes; `what` names them if they are not there.
    ///
    /// # Errors
    /// The bytes end before, or can't be read.
    pub fn take(&mut self, bytes: u64, what: &'static str) -> Result<Vec<u8>, DecodeError> {
        let mut taken = Vec::new();
        let read = (&mut self.reader).take(bytes).read_to_end(&mut taken);
        let found = taken.len() as u64;
        self.place.offset += found;
        match read {
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => {
                Err(DecodeError::Io { place: self.place(), source: error })
            }
            _ if found < bytes => Err(Problem::Truncated { what, missing: bytes - found }.at(self.place())),
            _ => Ok(taken),
        }
    }

    /// One big-endian number of four bytes.
    ///
    /// # Errors
    /// As [`Source::take`].
    pub fn take_u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        let bytes = self.take(4, what)?;
        Ok(bytes.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte)))
    }

    /// Checks that nothing follows. In a gzip file this also reads, and so checks, the checksum at its end.
    ///
    /// # Errors
    /// Something follows, or the checksum is wrong or cut.
    pub fn end(mut self) -> Result<(), DecodeError> {
        let mut next = [0; 1];
        let read = loop {
            match self.reader.read(&mut next) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(0) => Ok(()),
            Ok(_) => Err(Problem::Trailing.at(self.place())),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(Problem::Truncated { what: "gzip checksum", missing: 8 }.at(self.place()))
            }
            Err(source) => Err(DecodeError::Io { place: self.place(), source }),
        }
    }
}

/// `reader` as it is, or decompressed when it starts as gzip does.
fn decompressed<'a, R: Read + 'a>(mut reader: R) -> io::Result<Box<dyn Read + 'a>> {
    let mut start = Vec::new();
    (&mut reader).take(GZIP.len() as u64).read_to_end(&mut start)?;
    let is_gzip = start == GZIP;
    let whole: Chain<Cursor<Vec<u8>>, R> = Cursor::new(start).chain(reader);
    Ok(if is_gzip { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
}
