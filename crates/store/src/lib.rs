//! Rows, for SQLite and PostgreSQL.

/// The database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {}

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address or the file cannot be used as it is given.
    #[error("{0}")]
    Setting(String),
    /// The database was written by a newer version.
    #[error("{0}")]
    TooNew(String),
    /// The database failed.
    #[error("{0}")]
    Database(String),
}

impl Store {
    /// Opens (and where needed creates) `sqlite://path/file.db` or `postgres://…` and brings its
    /// tables up to date.
    pub async fn open(_url: &str) -> Result<Self, Error> {
        unimplemented!()
    }
}
