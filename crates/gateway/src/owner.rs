//! This process among those that share the store: how the others see that it lives.
//!
//! While it lives it holds the lock on a file of its own, `<data_dir>/owners/<id>.lock`. The kernel
//! gives the lock up with the process, however it ends, so a reused process id, a restart of the
//! machine or another container on the same folder cannot be mistaken for it. Where the file is
//! not at hand, because the owner runs on another machine with the same database, it is taken for
//! gone when it has not been heard of for some minutes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::gateway::{Error, now_ms};

/// How often a process with a shared database says that it lives.
pub(crate) const BEAT: Duration = Duration::from_secs(30);

/// Silence after which a process on another machine is taken for gone; clocks may differ.
const SILENCE_MS: i64 = 5 * 60 * 1000;

/// This process. Dropping it gives its lock up.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) row: store::Owner,
    path: PathBuf,
    _lock: File,
}

impl Owner {
    /// Takes a lock of its own and a row in the store, in this order: a row without a lock would
    /// look like a process that is gone.
    pub(crate) async fn register(data_dir: &Path, store: &store::Store) -> Result<Self, Error> {
        let folder = data_dir.join("owners");
        let id = uuid::Uuid::now_v7().to_string();
        let path = folder.join(format!("{id}.lock"));
        let locked = std::fs::create_dir_all(&folder)
            .and_then(|()| File::create_new(&path))
            .and_then(|file| match try_lock(&file)? {
                true => Ok(file),
                false => Err(io::Error::other("somebody else holds the lock")),
            });
        let lock = locked.map_err(|error| {
            Error::Setting(format!("{} cannot be made and locked: {error}", path.display()))
        })?;
        let now = now_ms();
        let row = store::Owner {
            id,
            place: folder.display().to_string(),
            process: i64::from(std::process::id()),
            started_ms: now,
            seen_ms: now,
        };
        store.touch_owner(&row).await?;
        Ok(Self { row, path, _lock: lock })
    }

    /// Gives up the place; to be called when nothing is unfinished.
    pub(crate) async fn leave(&self, store: &store::Store) -> Result<(), Error> {
        store.remove_owner(&self.row.id).await?;
        // The lock goes with the process; the file's name is of no use to anybody now.
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }
}

/// What was found out about another process.
#[derive(Debug)]
pub(crate) enum Neighbour {
    /// It lives.
    Alive,
    /// It is gone. While this is held, nobody else settles what it left behind.
    Gone(Option<Remains>),
}

/// The lock file of a process that is gone.
#[derive(Debug)]
pub(crate) struct Remains {
    path: PathBuf,
    _lock: File,
}

impl Remains {
    /// Removes the file, when everything is settled.
    pub(crate) fn clear(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether a process that shares the store still lives.
pub(crate) fn look(owner: &store::Owner, data_dir: &Path, remote: bool) -> Neighbour {
    if uuid::Uuid::parse_str(&owner.id).is_err() {
        return Neighbour::Gone(None);
    }
    let name = format!("{}.lock", owner.id);
    // The same folder may have another path in a container.
    for folder in [data_dir.join("owners"), PathBuf::from(&owner.place)] {
        let path = folder.join(&name);
        let Ok(file) = File::open(&path) else { continue };
        return match try_lock(&file) {
            Ok(true) => Neighbour::Gone(Some(Remains { path, _lock: file })),
            Ok(false) => Neighbour::Alive,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a lock cannot be tried");
                Neighbour::Alive
            }
        };
    }
    if remote && now_ms() - owner.seen_ms <= SILENCE_MS {
        Neighbour::Alive
    } else {
        Neighbour::Gone(None)
    }
}

fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn store_in(folder: &Path) -> store::Store {
        store::Store::open(&format!("sqlite://{}/p.db", folder.display())).await.unwrap()
    }

    fn is_gone(owner: &store::Owner, folder: &Path, remote: bool) -> bool {
        matches!(look(owner, folder, remote), Neighbour::Gone(_))
    }

    #[tokio::test]
    async fn a_lock_shows_who_lives() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_in(folder.path()).await;
        let owner = Owner::register(folder.path(), &store).await.unwrap();
        let row = owner.row.clone();
        assert!(!is_gone(&row, folder.path(), false));
        // The same folder under another path, as a container sees it.
        let elsewhere = tempfile::tempdir().unwrap();
        assert!(!is_gone(&row, elsewhere.path(), false));
        let silent = store::Owner { seen_ms: 0, ..row.clone() };
        assert!(!is_gone(&silent, folder.path(), true));
        drop(owner);
        let Neighbour::Gone(Some(remains)) = look(&row, folder.path(), false) else { panic!() };
        // While one settles, another one leaves it alone.
        assert!(!is_gone(&row, folder.path(), false));
        remains.clear();
        drop(remains);
        assert!(is_gone(&row, folder.path(), false));
    }

    #[tokio::test]
    async fn who_cannot_be_seen_is_gone_after_a_long_silence() {
        let folder = tempfile::tempdir().unwrap();
        let row = store::Owner {
            id: uuid::Uuid::now_v7().to_string(),
            place: "/nowhere".to_owned(),
            process: 1,
            started_ms: 0,
            seen_ms: now_ms() - SILENCE_MS / 2,
        };
        assert!(!is_gone(&row, folder.path(), true));
        assert!(is_gone(
            &store::Owner { seen_ms: now_ms() - SILENCE_MS - 1, ..row.clone() },
            folder.path(),
            true
        ));
        assert!(is_gone(&row, folder.path(), false));
        let strange = store::Owner { id: "../../etc/passwd".to_owned(), ..row };
        assert!(is_gone(&strange, folder.path(), false));
    }

    #[tokio::test]
    async fn who_leaves_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_in(folder.path()).await;
        let owner = Owner::register(folder.path(), &store).await.unwrap();
        owner.leave(&store).await.unwrap();
        assert!(store.owners().await.unwrap().is_empty());
        assert_eq!(std::fs::read_dir(folder.path().join("owners")).unwrap().count(), 0);
    }
}
