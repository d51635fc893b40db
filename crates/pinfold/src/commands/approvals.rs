//! `pinfold approvals`: answers questions from another terminal.

use crate::failure::Failure;
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Approvals {}
impl Approvals {
    pub(crate) async fn run(self, _config: Option<&Path>) -> Result<(), Failure> {
        Ok(())
    }
}
