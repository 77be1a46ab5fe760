//! The kind of file system that a folder is on.

use std::path::Path;

/// Types of `statfs` whose files other machines may share, from the kernel's `linux/magic.h` and the systems' own sources.
const NETWORK: [(u32, &str); 13] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x00c3_6400, "Ceph"),
    (0x1983_0326, "BeeGFS"),
    (0x5346_414f, "AFS"),
    (0x0102_1997, "9P"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x6573_5546, "FUSE, which may be a network's"),
];

/// The name of the network file system that a folder is on; `None` where it is a local one, or can't be told.
pub fn network_file_system(dir: &Path) -> Option<&'static str> {
    // Some libraries sign the type; its low 32 bits are the magic number.
    name_of(rustix::fs::statfs(dir).ok()?.f_type as u32)
}

fn name_of(kind: u32) -> Option<&'static str> {
    NETWORK.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_no_network_and_a_folder_that_is_not_there_has_no_type() {
        let kind = rustix::fs::statfs("/proc").unwrap().f_type as u32;
        assert_eq!((kind, name_of(kind)), (0x9fa0, None), "PROC_SUPER_MAGIC");
        assert_eq!(network_file_system(Path::new("/no such folder")), None);
        assert_eq!((name_of(0x6969), name_of(0xff53_4d42)), (Some("NFS"), Some("CIFS")));
    }
}
