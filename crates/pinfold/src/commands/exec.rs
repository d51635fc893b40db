//! `pinfold exec`: one function from a file, as `POST /execute` would run it.

use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use crate::execution::{self, Refused, Service, Wrong};
use crate::failure::Failure;
use crate::{config, terminal};

#[derive(clap::Args)]
pub(crate) struct Exec {
    /// The code; - reads it from standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// python or javascript; otherwise by the file's ending
    #[arg(long)]
    language: Option<String>,

    /// What the function gets, a JSON array
    #[arg(long, value_name = "JSON", default_value = "[]")]
    args: String,

    /// The function to call
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,

    /// Milliseconds until it is ended, 100 to 60000
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    timeout: u64,

    /// Memory in MB
    #[arg(long, value_name = "MB", default_value_t = 256)]
    memory: u64,
}

impl Exec {
    pub(crate) async fn run(self, given: Option<&Path>) -> Result<(), Failure> {
        let (config, passed_over) = config::load_or_none(given).map_err(Failure::usage)?;
        let execute = config.map(|config| config.file.execute).unwrap_or_default();
        if let Some(reason) = passed_over {
            terminal::say(&format!("warning: run without a configuration: {reason}"));
        }
        let body = self.body().map_err(Failure::usage)?;
        let job = execution::read(&body).map_err(Failure::usage)?;
        // Nothing of a single run is kept, so nothing is left where it was started.
        let place = std::env::temp_dir().join(format!("pinfold-exec-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&place)
            .with_context(|| format!("cannot make {}", place.display()))
            .map_err(Failure::failed)?;
        let service = Service::start(&execute, &place).await;
        let ran = service.run("local", job).await;
        let _ = std::fs::remove_dir_all(&place);
        let answer = match ran {
            Ok(answer) => answer,
            Err(Refused::Wrong(reason)) => return Err(Failure::usage(Wrong(reason))),
            Err(Refused::Unable(reason)) => return Err(Failure::failed(anyhow!(reason))),
            Err(Refused::Full(_)) => return Err(Failure::failed(anyhow!("no place is free"))),
        };
        let text = serde_json::to_string(&answer).map_err(Failure::failed)?;
        terminal::print(&format!("{text}\n")).map_err(Failure::unwritten)?;
        if answer.ok { Ok(()) } else { Err(Failure::shown()) }
    }

    /// The request that would be sent.
    fn body(&self) -> anyhow::Result<Vec<u8>> {
        let language = match (&self.language, self.file.extension().and_then(|end| end.to_str())) {
            (Some(language), _) => language.as_str(),
            (None, Some("py")) => "python",
            (None, Some("js" | "cjs" | "mjs")) => "javascript",
            (None, _) => {
                return Err(anyhow!(
                    "which language {} is in cannot be told: give --language",
                    self.file.display()
                ));
            }
        };
        let args: &serde_json::value::RawValue = serde_json::from_str(&self.args)
            .context("--args is not JSON; give an array such as '[1, 2]'")?;
        let body = serde_json::json!({
            "language": language,
            "code": self.code()?,
            "entry": self.entry,
            "timeout": self.timeout,
            "memory": self.memory,
        });
        let mut text = body.to_string();
        text.pop();
        Ok(format!("{text},\"args\":{}}}", args.get()).into_bytes())
    }

    fn code(&self) -> anyhow::Result<String> {
        let mut bytes = Vec::new();
        if self.file == Path::new("-") {
            std::io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
        } else {
            bytes = std::fs::read(&self.file)
                .with_context(|| format!("cannot read {}", self.file.display()))?;
        }
        String::from_utf8(bytes).map_err(|_| anyhow!("the code is not UTF-8"))
    }
}
