//! What of this host decides where a configuration's names lead.

use std::ffi::OsString;
use std::path::PathBuf;

use super::super::find;

/// As it is when pinfold starts.
#[derive(Clone, Debug, Default)]
pub(in crate::config) struct Host {
    /// Home directories of people.
    pub(super) homes: Vec<PathBuf>,
    /// Where the user's own configuration is or would be.
    pub(super) configuration: Option<PathBuf>,
    /// Where is remembered what the user trusts.
    pub(super) state: Option<PathBuf>,
    /// The program that runs.
    pub(super) executable: Option<PathBuf>,
    /// Where pinfold was started.
    pub(super) directory: PathBuf,
    /// `PATH`.
    pub(super) path: OsString,
    /// Where, besides `PATH`, interpreters are looked for, by variable.
    pub(super) interpreters: Vec<(&'static str, PathBuf)>,
    /// Where temporary files of everybody are.
    pub(super) temporary: PathBuf,
}

impl Host {
    /// This one.
    pub(in crate::config) fn this() -> Self {
        let variable = |name: &'static str| std::env::var_os(name).map(PathBuf::from);
        let mut homes = vec![PathBuf::from("/root")];
        homes.extend(variable("HOME"));
        let entries = std::fs::read_dir("/home").into_iter().flatten().flatten();
        homes.extend(entries.map(|entry| entry.path()));
        homes.retain(|home| home.is_absolute() && home.parent().is_some());
        let places = ["PYENV_ROOT", "UV_PYTHON_INSTALL_DIR", "XDG_DATA_HOME"];
        Self {
            homes,
            configuration: find::configuration_directory(),
            state: find::state_directory(),
            executable: std::env::current_exe().ok(),
            directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            path: variable("PATH").unwrap_or_default().into_os_string(),
            interpreters: places
                .into_iter()
                .filter_map(|name| Some((name, variable(name).filter(|path| path.is_absolute())?)))
                .collect(),
            temporary: std::env::temp_dir(),
        }
    }
}
