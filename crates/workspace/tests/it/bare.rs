//! A backend that does the least: it runs, reads and writes. All else is made of that, through the
//! program that is put there.

use workspace::backends::Local;
use workspace::{Asked, Backend, Fault, Outcome, Program};

#[derive(Debug)]
pub(crate) struct Bare {
    pub(crate) local: Local,
}

#[async_trait::async_trait]
impl Backend for Bare {
    fn root(&self) -> &str {
        self.local.root()
    }

    async fn exec(&self, program: Program) -> Result<Outcome, Fault> {
        self.local.exec(program).await
    }

    async fn read(&self, path: &str, from: u64, length: u64) -> Result<Asked<Vec<u8>>, Fault> {
        self.local.read(path, from, length).await
    }

    async fn write(&self, path: &str, content: Vec<u8>) -> Result<Asked<()>, Fault> {
        // Several tests put the same program at once.
        let new = format!("{path}.{:?}", std::thread::current().id());
        std::fs::write(&new, content)
            .and_then(|()| std::fs::rename(&new, path))
            .map_err(|error| Fault::Unavailable(format!("{path} cannot be written: {error}")))?;
        Ok(Ok(()))
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.local.environment()
    }
}
