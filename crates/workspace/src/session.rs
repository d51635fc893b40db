//! One agent's use of a workspace: the place, connected when it is first needed, and what the
//! tools remember between calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::backend::{Backend, Fault};
use crate::backends::Place;
use crate::jobs::Jobs;
use crate::seen::Seen;

/// After this long without use a place is asked whether it is still there.
const FRESH: Duration = Duration::from_secs(20);

/// One agent's use of a workspace.
#[derive(Debug)]
pub struct Session {
    place: Place,
    connection: tokio::sync::Mutex<Connection>,
    pub(crate) jobs: Jobs,
    /// Changes of files happen one after the other, so that each knows what the one before did.
    pub(crate) changing: tokio::sync::Mutex<()>,
    memory: Mutex<Memory>,
    barred: Vec<String>,
    tag: String,
}

/// What the tools remember.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) seen: Seen,
    /// Where commands run; `None`: at the root.
    pub(crate) cwd: Option<String>,
    /// What is to be said with the next answer.
    notice: Option<String>,
}

#[derive(Debug)]
enum Connection {
    Unopened,
    Open { backend: Arc<dyn Backend>, used: Instant },
}

impl Session {
    /// Nothing is started before the first call.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            connection: tokio::sync::Mutex::new(Connection::Unopened),
            jobs: Jobs::default(),
            changing: tokio::sync::Mutex::new(()),
            memory: Mutex::default(),
            barred: Vec::new(),
            tag: tag(),
        }
    }

    /// Leaves out of every search what may not be read
    /// ([`Rules::unreadable`](crate::permissions::Rules::unreadable)).
    pub fn barring(self, lines: Vec<String>) -> Self {
        Self { barred: lines, ..self }
    }

    pub(crate) fn barred(&self) -> &[String] {
        &self.barred
    }

    /// Tells this session's files from those of others in the same workspace.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// The connected place. Of several first calls one opens it and the others wait for that; one
    /// that is gone is opened anew, and the agent is told.
    pub async fn backend(&self) -> Result<Arc<dyn Backend>, Fault> {
        let mut connection = self.connection.lock().await;
        if let Connection::Open { backend, used } = &mut *connection {
            if used.elapsed() < FRESH {
                *used = Instant::now();
                return Ok(Arc::clone(backend));
            }
            match backend.check().await {
                Ok(()) => {
                    *used = Instant::now();
                    return Ok(Arc::clone(backend));
                }
                Err(fault) => self.forget(&fault),
            }
        }
        *connection = Connection::Unopened;
        let backend = self.place.open().await?;
        *connection = Connection::Open { backend: Arc::clone(&backend), used: Instant::now() };
        Ok(backend)
    }

    /// Has the place asked whether it is there before it is used again.
    pub(crate) async fn doubt(&self) {
        let mut connection = self.connection.lock().await;
        if let Connection::Open { used, .. } = &mut *connection {
            *used = Instant::now().checked_sub(FRESH).unwrap_or(*used);
        }
    }

    /// A new place has none of what was read or left running.
    fn forget(&self, fault: &Fault) {
        let mut memory = self.memory();
        *memory = Memory::default();
        memory.notice = Some(format!(
            "[{fault}; it was started anew: files that were not kept are gone, and what was read \
             has to be read again]"
        ));
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be said once.
    pub(crate) fn notice(&self) -> Option<String> {
        self.memory().notice.take()
    }
}

/// A name that no other session has had, in this process or another.
fn tag() -> String {
    use std::hash::{BuildHasher, Hasher};
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{random:016x}")
}
