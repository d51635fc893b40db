//! What a cell sees besides the mounts of its spec: the system directories, a few files of
//! `/etc`, devices, and which names of `/proc` are masked.
//!
//! Lists only; `keeper::template` and `keeper::cell` carry them out.

/// Host directories seen read-only. Where the host has a link, the cell has the same link.
pub(crate) const SYSTEM: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Directories of `/etc` that programs need and that hold nothing private.
pub(crate) const ETC_DIRECTORIES: &[&str] = &[
    "etc/alternatives",
    "etc/ssl/certs",
    "etc/ca-certificates",
    "etc/pki/tls/certs",
    "etc/pki/ca-trust/extracted",
    "etc/fonts",
];

/// Files of `/etc` that are copied, if they are there.
pub(crate) const ETC_FILES: &[&str] = &[
    "etc/ld.so.cache",
    "etc/localtime",
    "etc/ssl/openssl.cnf",
    "etc/protocols",
    "etc/services",
    "etc/mime.types",
];

/// Files of `/etc` that are our own.
pub(crate) const ETC_SYNTHETIC: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/:/usr/sbin/nologin\n\
         sandbox:x:1000:1000:sandbox:/tmp:/bin/sh\n\
         nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"),
    ("etc/hostname", "sandbox\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("etc/resolv.conf", ""),
];

/// The host name inside.
pub(crate) const HOST_NAME: &str = "sandbox";

/// The id of the program inside.
pub(crate) const INSIDE_ID: u32 = 1000;

/// Devices, from the host's.
pub(crate) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// Links in `/dev`.
pub(crate) const DEVICE_LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    // Shared memory counts within the bounds of /tmp.
    ("shm", "/tmp"),
];

/// An empty file and an empty directory of the root, bound over what is masked.
pub(crate) const EMPTY_FILE: &std::ffi::CStr = c"/.masked";
pub(crate) const EMPTY_DIRECTORY: &std::ffi::CStr = c"/.masked.d";

/// What of `/proc` tells about the host or acts on it. Masked one by one: `subset=pid` would take
/// what interpreters read (`cpuinfo`, `meminfo`, `stat`) as well.
pub(crate) const PROC_MASKED: &[&str] = &[
    "acpi",
    "cmdline",
    "config.gz",
    "interrupts",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "latency_stats",
    "sched_debug",
    "scsi",
    "sysrq-trigger",
    "timer_list",
    "version",
];

fn is_below(path: &[u8], parent: &str) -> bool {
    path.strip_prefix(parent.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Whether a place may not be a mount target: it is the cell's own.
pub(crate) fn is_reserved(path: &[u8]) -> bool {
    let own = ["/proc", "/dev", "/sys"];
    path == b"/"
        || own.iter().any(|own| path == own.as_bytes() || is_below(path, own))
        || [b"/tmp".as_slice(), b"/etc", b"/run", b"/var"].contains(&path)
        || SYSTEM.iter().any(|name| path.strip_prefix(b"/") == Some(name.as_bytes()))
}

/// Whether a place lies in something that the cell has anyway, so that the root needs no mount
/// point of its own for it.
pub(crate) fn is_provided(path: &[u8]) -> bool {
    is_below(path, "/tmp")
        || SYSTEM.iter().any(|name| is_below(path, &format!("/{name}")))
        || ETC_DIRECTORIES.iter().any(|name| is_below(path, &format!("/{name}")))
}
