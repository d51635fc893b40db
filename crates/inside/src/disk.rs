//! Folders on a disk, by descriptors: a name is looked up in the folder that was opened, never
//! through a path that somebody may have changed meanwhile.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use crate::folder::{Content, Folder, Kind, Meta};

/// How long another writer is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A pipe or a terminal in the place of the file must neither be waited for nor taken.
const PLAIN: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

static MADE: AtomicU64 = AtomicU64::new(0);

/// A folder on a disk.
#[derive(Debug)]
pub struct Disk {
    fd: OwnedFd,
}

impl Disk {
    /// Opens a folder by its path, in which the last component must be no link.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: rustix::fs::open(path, DIRECTORY, Mode::empty())? })
    }

    /// The descriptor (`O_PATH`).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens a folder in it; fails where a link stands.
    pub fn below(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self { fd: rustix::fs::openat(&self.fd, name, DIRECTORY, Mode::empty())? })
    }

    fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn make_file(&self, name: &OsStr, bytes: &[u8]) -> io::Result<Meta> {
        let (temporary, mut file) = self.temporary(Mode::from_raw_mode(0o666))?;
        let done = (|| {
            file.write_all(bytes)?;
            file.sync_data()?;
            let new = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&self.fd, &temporary, &self.fd, name, new) {
                // A file system that cannot; a second name does not replace either.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    let none = AtFlags::empty();
                    rustix::fs::linkat(&self.fd, &temporary, &self.fd, name, none)?;
                    rustix::fs::unlinkat(&self.fd, &temporary, AtFlags::empty())?;
                }
                other => other?,
            }
            Ok(meta(&rustix::fs::fstat(&file)?))
        })();
        self.clear(&temporary, done)
    }

    /// A new file in the place of the old, with everything about it kept; fails where that cannot
    /// be, and then nothing has changed.
    fn replace(&self, name: &OsStr, was: &Meta, bytes: &[u8]) -> io::Result<Meta> {
        let old = rustix::fs::openat(&self.fd, name, OFlags::RDONLY | PLAIN, Mode::empty())?;
        let stat = rustix::fs::fstat(&old)?;
        same(&stat, was)?;
        // A file that its owner may not write is not to be replaced either.
        rustix::fs::accessat(&self.fd, name, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS)?;
        let (temporary, mut file) = self.temporary(Mode::from_raw_mode(0o600))?;
        let done = (|| {
            let own = rustix::fs::fstat(&file)?;
            if (own.st_uid, own.st_gid) != (stat.st_uid, stat.st_gid) {
                let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
                rustix::fs::fchown(&file, Some(uid), Some(gid))?;
            }
            copy_attributes(&old, &file)?;
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
            rustix::fs::fchmod(&file, mode)?;
            file.write_all(bytes)?;
            file.sync_data()?;
            rustix::fs::renameat(&self.fd, &temporary, &self.fd, name)?;
            Ok(meta(&rustix::fs::fstat(&file)?))
        })();
        self.clear(&temporary, done)
    }

    /// Other bytes in the same file, for one that has several names or whose owner, mode or
    /// attributes a new file could not have.
    fn overwrite(&self, name: &OsStr, was: &Meta, bytes: &[u8]) -> io::Result<Meta> {
        let fd = rustix::fs::openat(&self.fd, name, OFlags::WRONLY | PLAIN, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        same(&stat, was)?;
        let mut file = File::from(fd);
        let size = bytes.len() as u64;
        if size > was.size {
            // What does not fit on the disk is to be known before anything is lost.
            let kept = rustix::fs::FallocateFlags::KEEP_SIZE;
            if let Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) =
                rustix::fs::fallocate(&file, kept, 0, size)
            {
                return Err(Errno::NOSPC.into());
            }
        }
        file.seek(SeekFrom::Start(0))?;
        file.write_all(bytes)?;
        file.set_len(size)?;
        file.sync_data()?;
        Ok(meta(&rustix::fs::fstat(&file)?))
    }

    fn temporary(&self, mode: Mode) -> io::Result<(OsString, File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | PLAIN;
        for _ in 0..16 {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".pinfold-{}-{number}.new", std::process::id()));
            match rustix::fs::openat(&self.fd, &name, flags, mode) {
                // Of another namespace's process with our number, or left by one that was killed.
                Err(Errno::EXIST) => {}
                other => return Ok((name, File::from(other?))),
            }
        }
        Err(Errno::EXIST.into())
    }

    fn clear<T>(&self, temporary: &OsStr, done: io::Result<T>) -> io::Result<T> {
        if done.is_err() {
            let _ = rustix::fs::unlinkat(&self.fd, temporary, AtFlags::empty());
        }
        done
    }
}

impl Folder for Disk {
    fn list(&self) -> io::Result<Vec<(OsString, Kind)>> {
        let mut found = Vec::new();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?;
        for entry in rustix::fs::Dir::new(opened)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = OsString::from_vec(name.to_vec());
            let kind = match entry.file_type() {
                FileType::Unknown => match self.stat(&name) {
                    Ok(stat) => kind(FileType::from_raw_mode(stat.st_mode)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
                known => kind(known),
            };
            found.push((name, kind));
        }
        Ok(found)
    }

    fn look(&self, name: &OsStr) -> io::Result<Meta> {
        self.stat(name).map(|stat| meta(&stat))
    }

    fn link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.fd, name, Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    fn enter(&self, name: &OsStr) -> io::Result<Arc<dyn Folder>> {
        Ok(Arc::new(self.below(name)?))
    }

    fn make(&self, name: &OsStr) -> io::Result<Arc<dyn Folder>> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => self.enter(name),
            Err(error) => Err(error.into()),
        }
    }

    fn open(&self, name: &OsStr) -> io::Result<(Meta, Box<dyn Content>)> {
        let fd = rustix::fs::openat(&self.fd, name, OFlags::RDONLY | PLAIN, Mode::empty())?;
        let meta = meta(&rustix::fs::fstat(&fd)?);
        if meta.kind != Kind::File {
            return Err(io::Error::other(format!("it is {}", meta.kind.words())));
        }
        Ok((meta, Box::new(Unbuffered(File::from(fd)))))
    }

    fn put(&self, name: &OsStr, was: Option<&Meta>, bytes: &[u8]) -> io::Result<Meta> {
        let Some(was) = was else { return self.make_file(name, bytes) };
        if was.names > 1 {
            return self.overwrite(name, was, bytes);
        }
        match self.replace(name, was, bytes) {
            Err(error) if keeps_less(&error) => self.overwrite(name, was, bytes),
            other => other,
        }
    }

    fn begin(&self, name: &OsStr) -> io::Result<Box<dyn Write + Send>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | PLAIN;
        let mode = Mode::from_raw_mode(0o666);
        Ok(Box::new(File::from(rustix::fs::openat(&self.fd, name, flags, mode)?)))
    }

    fn lock(&self) -> io::Result<Box<dyn Send>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?;
        let until = Instant::now() + PATIENCE;
        loop {
            match rustix::fs::flock(&fd, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Box::new(fd)),
                Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(Errno::WOULDBLOCK) => {
                    return Err(io::Error::other(
                        "something holds a lock on the folder; try again",
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// `File` answers `read_to_end` by asking for the size first; that is as good as it gets.
struct Unbuffered(File);

impl Read for Unbuffered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.0.read_to_end(buffer)
    }
}

impl Seek for Unbuffered {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// Whether a new file could not be made like the old one, while the old one may still be writable.
fn keeps_less(error: &io::Error) -> bool {
    let wanting = [Errno::PERM, Errno::ACCESS, Errno::NOTSUP, Errno::ROFS, Errno::INVAL];
    Errno::from_io_error(error).is_some_and(|errno| wanting.contains(&errno))
}

fn same(stat: &Stat, was: &Meta) -> io::Result<()> {
    let now = meta(stat);
    if now.kind == Kind::File && now.identity == was.identity {
        return Ok(());
    }
    Err(io::Error::other("something else was put in its place meanwhile; Read it again"))
}

/// Everything but the content: access lists, labels, what programs noted.
fn copy_attributes(old: &OwnedFd, new: &File) -> io::Result<()> {
    let mut names = vec![0u8; 64 << 10];
    let length = match rustix::fs::flistxattr(old, &mut names[..]) {
        Err(Errno::NOTSUP) => return Ok(()),
        other => other?,
    };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0u8; 64 << 10];
        let length = match rustix::fs::fgetxattr(old, name, &mut value[..]) {
            Err(Errno::NODATA) => continue,
            other => other?,
        };
        match rustix::fs::fsetxattr(new, name, &value[..length], XattrFlags::empty()) {
            // Labels are given by the system, the same to every file there.
            Err(_) if name.starts_with(b"security.selinux") => {}
            other => other?,
        }
    }
    Ok(())
}

fn kind(found: FileType) -> Kind {
    match found {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        FileType::Fifo => Kind::Pipe,
        FileType::Socket => Kind::Socket,
        _ => Kind::Device,
    }
}

fn meta(stat: &Stat) -> Meta {
    let time = |seconds: i64, nanoseconds: u64| {
        i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
    };
    Meta {
        kind: kind(FileType::from_raw_mode(stat.st_mode)),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        changed: time(stat.st_ctime, stat.st_ctime_nsec),
        identity: (stat.st_dev, stat.st_ino),
        names: stat.st_nlink,
        mode: stat.st_mode & 0o7777,
        owner: (stat.st_uid, stat.st_gid),
    }
}
