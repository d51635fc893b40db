//! The languages scripts are written in: one row each.
//!
//! A row says which files a language's runtime consists of and how its interpreter is started.
//! How the interpreter is found on the host is not here (`python`).

/// What is particular to one language.
#[derive(Debug)]
pub(crate) struct Language {
    /// The runtime files, (name, content).
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// The file of `files` that receives a script and runs it.
    pub(crate) runner: &'static str,
    /// The file of `files` that receives a script and only parses it.
    pub(crate) checker: &'static str,
    /// Arguments of the interpreter before the file.
    pub(crate) arguments: &'static [&'static str],
    /// Environment beside what every script has. `{threads}` is the number of usable cores, at
    /// most 4: a library that starts a thread for each core of a large host meets the process limit.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

/// Python: isolated from the environment and the user's own packages (`-I`), UTF-8 whatever the
/// locale, no byte code written.
pub(crate) const PYTHON: Language = Language {
    files: &[
        ("agent_tools.py", include_str!("../runtime/agent_tools.py")),
        ("script_channel.py", include_str!("../runtime/script_channel.py")),
        ("script_syntax.py", include_str!("../runtime/script_syntax.py")),
        ("script_awaits.py", include_str!("../runtime/script_awaits.py")),
        ("runner.py", include_str!("../runtime/runner.py")),
        ("check.py", include_str!("../runtime/check.py")),
    ],
    runner: "runner.py",
    checker: "check.py",
    arguments: &["-I", "-B", "-X", "utf8"],
    environment: &[
        ("OPENBLAS_NUM_THREADS", "{threads}"),
        ("OMP_NUM_THREADS", "{threads}"),
        ("MKL_NUM_THREADS", "{threads}"),
        ("NUMEXPR_MAX_THREADS", "{threads}"),
        ("MPLBACKEND", "Agg"),
    ],
};

/// Python for one function.
pub(crate) const FUNCTION_PYTHON: Language = Language {
    files: &[
        ("function_runner.py", include_str!("../runtime/function_runner.py")),
        ("function_values.py", include_str!("../runtime/function_values.py")),
    ],
    runner: "function_runner.py",
    checker: "function_runner.py",
    arguments: PYTHON.arguments,
    environment: PYTHON.environment,
};

/// Node for one function.
pub(crate) const FUNCTION_NODE: Language = Language {
    files: &[
        ("function_runner.cjs", include_str!("../runtime/function_runner.cjs")),
        ("function_values.cjs", include_str!("../runtime/function_values.cjs")),
    ],
    runner: "function_runner.cjs",
    checker: "function_runner.cjs",
    // The heap's own limit comes first, so that V8 says what is missing.
    arguments: &["--experimental-vm-modules", "--no-warnings", "--max-old-space-size={memory_mb}"],
    environment: &[],
};
