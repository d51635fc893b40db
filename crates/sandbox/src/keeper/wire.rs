//! What server, keeper and cell say to each other, and how descriptors travel.
//!
//! The server sends a plan with its descriptors to the keeper; the answers come on a socket of
//! the run's own, from the keeper and from the cell's init.
#![expect(unsafe_code, reason = "control messages are raw memory")]

use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::sys::{Errno, Reaped};

/// Where the making of a cell stood when something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Stage {
    Plan,
    UserNamespace,
    Namespaces,
    Cgroup,
    SystemView,
    MountSource,
    MountOwners,
    MountTarget,
    Proc,
    Tmp,
    Fork,
    Limits,
    Session,
    Descriptors,
    Identity,
    Directory,
    Landlock,
    Seccomp,
    Execute,
}

/// A step that failed: which, at which item of its list, and why.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Failure {
    pub(crate) stage: Stage,
    pub(crate) index: u32,
    pub(crate) errno: Errno,
}

impl Stage {
    pub(crate) fn failed(self, errno: Errno) -> Failure {
        Failure { stage: self, index: 0, errno }
    }

    pub(crate) fn failed_at(self, index: usize, errno: Errno) -> Failure {
        Failure { stage: self, index: index as u32, errno }
    }
}

/// First word of the keeper.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Hello {
    /// It serves; as root, whether owners can be mapped on the root file system.
    Ready {
        maps_owners: bool,
    },
    Failed {
        step: String,
        errno: Errno,
    },
}

/// News of one run.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Report {
    /// The keeper made the cell's first process; its pidfd comes along.
    Made,
    /// Bubblewrap says why it made no cell.
    Refused(String),
    /// A step failed; the cell ends.
    Failed(Failure),
    /// The program was executed.
    Started,
    /// The program ended with this wait status.
    Exited { status: i32, cpu_microseconds: u64, peak: u64 },
    /// The cell's own watch saw a limit met; past it, it ends the run.
    Overused(Overuse),
    /// The self-test's probe.
    Probed(Vec<(String, bool)>),
    /// The last process of the cell is gone.
    Over { cpu_microseconds: u64, peak_kilobytes: u64 },
}

impl Report {
    /// The end of a cell, from the end of its outermost process.
    pub(crate) fn over(reaped: &Reaped) -> Self {
        Self::Over {
            cpu_microseconds: reaped.cpu_microseconds(),
            peak_kilobytes: reaped.usage.ru_maxrss as u64,
        }
    }
}

/// What the watch inside the cell saw too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Overuse {
    Memory,
    Processes,
}

/// What one packet may carry; larger payloads go by memory file.
const PACKET: usize = 48 << 10;
const MOST_DESCRIPTORS: usize = 250;

fn encode<T: serde::Serialize>(message: &T) -> Result<Vec<u8>, Errno> {
    postcard::to_stdvec(message).map_err(|_| Errno(libc::EINVAL))
}

/// Sends a message of any size with its descriptors.
pub(crate) fn send<T: serde::Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let bytes = encode(message)?;
    if fds.len() > MOST_DESCRIPTORS {
        return Err(Errno(libc::EMFILE));
    }
    if bytes.len() < PACKET {
        let mut packet = vec![0u8];
        packet.extend_from_slice(&bytes);
        return send_packet(socket, &packet, fds);
    }
    let memory = rustix::fs::memfd_create("plan", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|error| Errno(error.raw_os_error()))?;
    let mut file = std::fs::File::from(memory);
    file.write_all(&bytes).map_err(|_| Errno(libc::EIO))?;
    let mut all = fds.to_vec();
    all.push(file.as_fd());
    send_packet(socket, &[1], &all)
}

fn send_packet(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let size = size_of_val(numbers.as_slice());
    // SAFETY: only arithmetic.
    let space = unsafe { libc::CMSG_SPACE(size as u32) } as usize;
    // u64 for the alignment of the header.
    let mut control = vec![0u64; space.div_ceil(8)];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if !numbers.is_empty() {
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = space as _;
        // SAFETY: the control buffer is aligned and has room for one header with these numbers.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(size as u32) as _;
            std::ptr::copy_nonoverlapping(
                numbers.as_ptr().cast::<u8>(),
                libc::CMSG_DATA(first),
                size,
            );
        }
    }
    loop {
        // SAFETY: everything the header points to lives through the call.
        let sent =
            unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return Ok(());
        }
        let errno = Errno::last();
        if errno.0 != libc::EINTR {
            return Err(errno);
        }
    }
}

/// Receives a message; `None` at the end of the conversation.
pub(crate) fn receive<T: serde::de::DeserializeOwned>(
    socket: BorrowedFd<'_>,
) -> Result<Option<(T, Vec<OwnedFd>)>, Errno> {
    let mut bytes = vec![0u8; PACKET + 16];
    let mut control = vec![0u64; 256];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(control.as_slice()) as _;
    let length = loop {
        // SAFETY: everything the header points to lives through the call.
        let length =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        if length >= 0 {
            break length as usize;
        }
        let errno = Errno::last();
        if errno.0 != libc::EINTR {
            return Err(errno);
        }
    };
    let mut fds = Vec::new();
    // SAFETY: the kernel filled the control buffer; the macros stay within its stated length and
    // each number in it is a descriptor made for us.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const header);
        while !next.is_null() {
            if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                let size = (*next).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(next).cast::<RawFd>();
                for position in 0..size / size_of::<RawFd>() {
                    let number = data.add(position).read_unaligned();
                    fds.push(OwnedFd::from_raw_fd(number));
                }
            }
            next = libc::CMSG_NXTHDR(&raw const header, next);
        }
    }
    if length == 0 {
        return Ok(None);
    }
    if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
        return Err(Errno(libc::EMSGSIZE));
    }
    let payload = if bytes[0] == 1 {
        let mut file = std::fs::File::from(fds.pop().ok_or(Errno(libc::EBADMSG))?);
        let mut payload = Vec::new();
        file.rewind().map_err(|_| Errno(libc::EIO))?;
        file.read_to_end(&mut payload).map_err(|_| Errno(libc::EIO))?;
        payload
    } else {
        bytes.truncate(length);
        bytes.split_off(1)
    };
    let message = postcard::from_bytes(&payload).map_err(|_| Errno(libc::EBADMSG))?;
    Ok(Some((message, fds)))
}
