//! The connection, and all that differs between SQLite and PostgreSQL.
//!
//! SQLite has one writer at a time: writes take turns here instead of polling a locked file.
//! Ordinary rows are written with `synchronous = NORMAL` (a crash of the process loses nothing, a
//! crash of the machine may lose the last moments); what must survive a power cut, the intent of a
//! write, goes through a connection with `FULL`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::any::{Any, AnyPoolOptions};
use sqlx::pool::PoolConnection;
use sqlx::{AnyPool, Connection, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::Error;

/// Which database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Sqlite,
    Postgres,
}

/// The database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    dialect: Dialect,
    reads: AnyPool,
    writes: AnyPool,
    durable: AnyPool,
    turn: Arc<Mutex<()>>,
}

/// How long losing a write would be acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Survives the process.
    Process,
    /// Survives the machine.
    Machine,
}

/// A transaction that writes, and its turn.
pub(crate) struct Writing {
    transaction: Transaction<'static, Any>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Writing {
    pub(crate) fn connection(&mut self) -> &mut sqlx::AnyConnection {
        &mut self.transaction
    }

    pub(crate) async fn commit(self) -> Result<(), Error> {
        Ok(self.transaction.commit().await?)
    }
}

/// A connection for one statement that writes, which is its own transaction, and its turn.
pub(crate) struct Single {
    connection: PoolConnection<Any>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Single {
    pub(crate) fn connection(&mut self) -> &mut sqlx::AnyConnection {
        &mut self.connection
    }
}

impl Store {
    /// Opens (and where needed creates) `sqlite://path/file.db` or `postgres://…` and brings its
    /// tables up to date.
    pub async fn open(url: &str) -> Result<Self, Error> {
        sqlx::any::install_default_drivers();
        let store = if let Some(path) = url.strip_prefix("sqlite:") {
            Self::open_sqlite(path.strip_prefix("//").unwrap_or(path)).await?
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Self::open_postgres(url).await?
        } else {
            return Err(Error::Setting(
                "the database address must be sqlite://path/file.db or postgres://user@host/name"
                    .to_owned(),
            ));
        };
        crate::migrate::run(&store).await?;
        Ok(store)
    }

    async fn open_sqlite(path: &str) -> Result<Self, Error> {
        let path = path.split('?').next().unwrap_or_default();
        if path.is_empty() || path == ":memory:" {
            return Err(Error::Setting(
                "the database address names no file: give sqlite://path/file.db".to_owned(),
            ));
        }
        let path = std::path::absolute(path)
            .map_err(|error| Error::Setting(format!("database {path}: {error}")))?;
        create_private(&path)?;
        let url = sqlite_url(&path);
        let failed = |error: sqlx::Error| {
            Error::Setting(format!(
                "database {}: {error}; give a file that pinfold wrote, or a new name",
                path.display()
            ))
        };
        // A pool tries again until its time is up; a wrong file is to be said at once. The probe
        // stays until the pools are there, because the last to leave takes the journal along.
        let probe = first_connection(&url).await.map_err(failed)?;
        let pool = |size: u32, synchronous: &'static str| {
            AnyPoolOptions::new()
                .max_connections(size)
                .acquire_timeout(Duration::from_secs(30))
                .idle_timeout(None)
                .max_lifetime(None)
                // A file does not go away as a server does.
                .test_before_acquire(false)
                .after_connect(move |connection, _| {
                    Box::pin(async move {
                        for pragma in
                            ["PRAGMA busy_timeout = 10000", synchronous, "PRAGMA foreign_keys = ON"]
                        {
                            sqlx::raw_sql(pragma).execute(&mut *connection).await?;
                        }
                        Ok(())
                    })
                })
        };
        let normal = "PRAGMA synchronous = NORMAL";
        let store = Self {
            dialect: Dialect::Sqlite,
            writes: pool(1, normal).connect(&url).await.map_err(failed)?,
            durable: pool(1, "PRAGMA synchronous = FULL").connect(&url).await.map_err(failed)?,
            reads: pool(2, normal).connect_lazy(&url).map_err(failed)?,
            turn: Arc::default(),
        };
        probe.close().await.map_err(failed)?;
        Ok(store)
    }

    async fn open_postgres(url: &str) -> Result<Self, Error> {
        let failed = |error: String| {
            Error::Setting(format!("the PostgreSQL database cannot be reached: {error}"))
        };
        let probe =
            tokio::time::timeout(Duration::from_secs(15), sqlx::AnyConnection::connect(url));
        probe
            .await
            .map_err(|_| failed("no answer within 15 s".to_owned()))?
            .map_err(|error| failed(error.to_string()))?
            .close()
            .await?;
        let pool = AnyPoolOptions::new()
            .max_connections(8)
            .acquire_timeout(Duration::from_secs(30))
            .connect_lazy(url)?;
        Ok(Self {
            dialect: Dialect::Postgres,
            reads: pool.clone(),
            writes: pool.clone(),
            durable: pool,
            turn: Arc::default(),
        })
    }

    /// Whether processes on other machines may share this database.
    pub fn is_remote(&self) -> bool {
        self.dialect == Dialect::Postgres
    }

    /// Ends all connections; what was written is on disk then.
    pub async fn close(&self) {
        self.reads.close().await;
        self.durable.close().await;
        self.writes.close().await;
    }

    pub(crate) async fn read(&self) -> Result<PoolConnection<Any>, Error> {
        Ok(self.reads.acquire().await?)
    }

    /// For several statements that belong together.
    pub(crate) async fn write(&self, durability: Durability) -> Result<Writing, Error> {
        let turn = self.turn().await;
        let pool = self.pool(durability);
        let transaction = match self.dialect {
            Dialect::Sqlite => pool.begin_with("BEGIN IMMEDIATE").await?,
            Dialect::Postgres => pool.begin().await?,
        };
        Ok(Writing { transaction, _turn: turn })
    }

    /// For one statement: a third of the way to the database and back.
    pub(crate) async fn write_one(&self, durability: Durability) -> Result<Single, Error> {
        let turn = self.turn().await;
        Ok(Single { connection: self.pool(durability).acquire().await?, _turn: turn })
    }

    fn pool(&self, durability: Durability) -> &AnyPool {
        match durability {
            Durability::Process => &self.writes,
            Durability::Machine => &self.durable,
        }
    }

    async fn turn(&self) -> Option<OwnedMutexGuard<()>> {
        match self.dialect {
            Dialect::Sqlite => Some(self.turn.clone().lock_owned().await),
            Dialect::Postgres => None,
        }
    }

    /// Keeps other processes from migrating until the transaction ends. SQLite's `BEGIN IMMEDIATE`
    /// does so already.
    pub(crate) async fn lock_for_migration(&self, writing: &mut Writing) -> Result<(), Error> {
        if self.dialect == Dialect::Postgres {
            sqlx::raw_sql("SELECT pg_advisory_xact_lock(7310462189004)")
                .execute(writing.connection())
                .await?;
        }
        Ok(())
    }
}

/// Connects and turns on the write-ahead journal, which the file then keeps. SQLite does not wait
/// for its turn when the mode changes, so processes that open a new file at once try again here.
async fn first_connection(url: &str) -> Result<sqlx::AnyConnection, sqlx::Error> {
    let begun = std::time::Instant::now();
    loop {
        let tried = async {
            let mut connection = sqlx::AnyConnection::connect(url).await?;
            sqlx::raw_sql("PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL")
                .execute(&mut connection)
                .await?;
            Ok(connection)
        };
        match tried.await {
            Err(error) if is_busy(&error) && begun.elapsed() < Duration::from_secs(10) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => return other,
        }
    }
}

/// Whether SQLite says "busy", in one of its forms (the low byte of an extended code).
fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 5)
}

/// Creates the file, and the folders above it, for this user only: it holds scripts and audit rows.
fn create_private(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    let failed = |at: &Path, error: std::io::Error| {
        Error::Setting(format!(
            "database {}: {error}; give a place that can be written",
            at.display()
        ))
    };
    if let Some(parent) = path.parent() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(|error| failed(parent, error))?;
    }
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| failed(path, error))?;
    Ok(())
}

fn sqlite_url(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut url = "sqlite://".to_owned();
    for &byte in PathBuf::from(path).as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}
