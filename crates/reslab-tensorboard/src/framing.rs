//! TFRecord, the frame around each event: length, its checksum, the bytes, their checksum.

use prost::Message;

use crate::proto::Event;

/// Appends one event to the bytes of a file.
pub(crate) fn append(file: &mut Vec<u8>, event: &Event) {
    let bytes = event.encode_to_vec();
    let length = (bytes.len() as u64).to_le_bytes();
    file.extend(length);
    file.extend(masked(&length).to_le_bytes());
    file.extend(&bytes);
    file.extend(masked(&bytes).to_le_bytes());
}

/// CRC-32C, rotated and shifted: a checksum of bytes that hold checksums themselves would be weak.
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The events of a file, as far as its frames are whole.
#[cfg(test)]
pub(crate) fn read(mut file: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some((length, rest)) = file.split_first_chunk::<8>() {
        let count = u64::from_le_bytes(*length) as usize;
        let Some(frame) = rest.get(..count + 8) else { break };
        let sums = [&frame[..4], &frame[count + 4..]].map(|sum| u32::from_le_bytes(sum.try_into().unwrap()));
        assert_eq!(sums, [masked(length), masked(&frame[4..count + 4])], "checksums");
        events.push(Event::decode(&frame[4..count + 4]).unwrap());
        file = &rest[count + 8..];
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first record of any file at time 0, from the tensorboard package:
    /// `RecordWriter(f).write(Event(file_version="brain.Event:2").SerializeToString())`.
    #[test]
    fn a_version_record_has_tensorboards_bytes() {
        let mut file = Vec::new();
        append(&mut file, &Event::version());
        let hex: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "0f000000000000006d532b091a0d627261696e2e4576656e743a32fc985129");
        assert_eq!(read(&file), [Event::version()]);
        assert_eq!(read(&file[..file.len() - 1]), [], "a torn record is none");
    }
}
