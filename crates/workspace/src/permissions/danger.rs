//! What a person should see before it runs, in every mode: commands that cannot be taken back, and
//! files by which others are made to do something.

use super::harmless;
use super::script::{Script, Simple, Word};
use super::unwrap;

/// Names of files that programs obey, or that hold secrets.
const FILES: [&str; 24] = [
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".profile",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".envrc",
    ".git-credentials",
    ".pgpass",
    ".mcp.json",
    ".inputrc",
    ".vimrc",
    ".tmux.conf",
    "authorized_keys",
    "known_hosts",
    "id_rsa",
];
/// Folders of the same kind.
const FOLDERS: [&str; 10] = [
    ".git", ".ssh", ".vscode", ".idea", ".claude", ".cursor", ".gnupg", ".aws", ".kube", ".docker",
];
/// Of them, those that hold secrets, and so are not even for reading.
const SECRET_FOLDERS: [&str; 5] = [".ssh", ".gnupg", ".aws", ".kube", ".docker"];
const SECRET_FILES: [&str; 6] =
    [".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", "id_rsa"];
/// Variables by which a program is made to run another.
const VARIABLES: [&str; 21] = [
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "SHELL",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "BROWSER",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "LESSOPEN",
    "LESSCLOSE",
    "CDPATH",
    "GLOBIGNORE",
    "RUSTC_WRAPPER",
    "JAVA_TOOL_OPTIONS",
];
const VARIABLE_BEGINNINGS: [&str; 8] =
    ["LD_", "DYLD_", "GIT_", "PYTHON", "PERL5", "RUBY", "BASH_FUNC_", "NPM_CONFIG_"];
/// Programs that carry out what they are given to read.
const INTERPRETERS: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "python", "python3", "perl", "ruby", "node",
    "php", "lua",
];

/// Whether setting a variable makes a program run another.
pub(super) fn variable(name: &str) -> bool {
    VARIABLES.contains(&name) || VARIABLE_BEGINNINGS.iter().any(|begin| name.starts_with(begin))
}

/// Why a file is not written without a question.
pub(super) fn written(path: &str) -> Option<String> {
    let parts: Vec<String> = path.split('/').map(str::to_lowercase).collect();
    let last = parts.last().map(String::as_str).unwrap_or_default();
    let folder = parts.iter().find(|part| FOLDERS.contains(&part.as_str()));
    if let Some(folder) = folder {
        return Some(format!("{path} is in {folder}, which programs obey"));
    }
    if parts.windows(2).any(|pair| pair[0] == ".github" && pair[1] == "workflows") {
        return Some(format!("{path} is run by others"));
    }
    if FILES.contains(&last) || environment_file(last) {
        return Some(format!("{path} is a file that programs obey or that holds secrets"));
    }
    None
}

/// Why a file is not read without a question.
pub(super) fn read(path: &str) -> Option<String> {
    let parts: Vec<String> = path.split('/').map(str::to_lowercase).collect();
    let last = parts.last().map(String::as_str).unwrap_or_default();
    let secret = parts.iter().any(|part| SECRET_FOLDERS.contains(&part.as_str()))
        || SECRET_FILES.contains(&last)
        || environment_file(last)
        || last.starts_with("id_rsa")
        || last.starts_with("id_ed25519")
        || last.ends_with(".pem")
        || (path.starts_with("/proc/") && last == "environ")
        || path == "/etc/shadow";
    secret.then(|| format!("{path} may hold secrets"))
}

/// `.env` and its kind; examples are for everybody.
fn environment_file(name: &str) -> bool {
    let example = ["example", "sample", "template", "dist"].iter().any(|end| name.ends_with(end));
    (name == ".env" || name.starts_with(".env.")) && !example
}

/// Why one command needs a question whatever was allowed.
pub(super) fn command(simple: &Simple) -> Option<String> {
    if let Some(name) = simple.assigned.iter().find(|name| variable(name)) {
        return Some(format!("it sets {name}, by which a program runs others"));
    }
    let Some(name) = unwrap::name(simple) else {
        return (!simple.words.is_empty())
            .then(|| "which program it runs is known only when it runs".to_owned());
    };
    let rest = &simple.words[1..];
    let has = |short: char, long: &str| rest.iter().any(|word| has_flag(word, short, long));
    let reason = match name {
        "sudo" | "doas" | "su" | "pkexec" => "it runs with another user's rights",
        "rm" if has('r', "--recursive") || has('R', "--recursive") => "it removes folders",
        "rm" | "rmdir" | "mv" if rest.iter().any(wide) => "it removes or moves very much",
        "dd" | "fdisk" | "parted" | "wipefs" | "shred" | "format" | "mkswap" => {
            "it writes over disks or files"
        }
        other if other.starts_with("mkfs") => "it writes over a disk",
        "chmod" if has('R', "--recursive") || rest.iter().any(everybody) => {
            "it opens files to everybody or changes many"
        }
        "chown" | "chgrp" if has('R', "--recursive") => "it gives many files to others",
        "kill" if kills(rest) => "it ends programs by force",
        "killall" | "pkill" | "shutdown" | "reboot" | "poweroff" | "halt" | "systemctl"
        | "launchctl" | "crontab" | "at" | "mount" | "umount" | "iptables" | "useradd"
        | "usermod" | "passwd" | "visudo" => "it changes the machine",
        "git" => return git(rest),
        shell if simple.piped && INTERPRETERS.contains(&shell) && !has_script(rest) => {
            "it runs what another command printed"
        }
        "source" | "." | "alias" | "trap" | "enable" | "shopt" => "it changes what commands mean",
        _ => return None,
    };
    Some(reason.to_owned())
}

fn has_flag(word: &Word, short: char, long: &str) -> bool {
    let name = word.text.split('=').next().unwrap_or_default();
    let bundle = name.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    bundle.is_some_and(|letters| letters.contains(short))
        || (name.len() > 3 && long.starts_with(name))
}

/// The root, a home, everything in a folder, a folder of the root.
fn wide(word: &Word) -> bool {
    let text = word.text.trim_end_matches('/');
    let depth = text.matches('/').count();
    let all = text.is_empty() && word.text.starts_with('/');
    let everything = word.pattern && text.rsplit('/').next() == Some("*");
    all || everything
        || text == "~"
        || text == "."
        || text == ".."
        || (text.starts_with('/') && depth == 1)
}

fn everybody(word: &Word) -> bool {
    let digits = word.text.trim_start_matches('0');
    let octal = digits.len() == 3 && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let others = digits.as_bytes().last().is_some_and(|last| last.wrapping_sub(b'0') & 2 != 0);
    (octal && others)
        || word.text.split(',').any(|part| {
            part.split_once(['+', '=']).is_some_and(|(who, what)| {
                (who.is_empty() || who.contains(['a', 'o'])) && what.contains('w')
            })
        })
}

fn kills(rest: &[Word]) -> bool {
    let texts: Vec<String> = rest.iter().map(|word| word.text.to_uppercase()).collect();
    let forced = |text: &str| matches!(text.trim_start_matches("SIG"), "9" | "KILL");
    texts.iter().any(|text| text.strip_prefix('-').is_some_and(forced))
        || texts.windows(2).any(|pair| pair[0] == "-S" && forced(&pair[1]))
        || texts.iter().any(|text| text == "-1")
}

/// Whether an interpreter was given something to run besides its input.
fn has_script(rest: &[Word]) -> bool {
    rest.iter().any(|word| word.open || !word.text.starts_with('-') || word.text.contains('c'))
        && !rest.iter().any(|word| word.text == "-s")
}

fn git(rest: &[Word]) -> Option<String> {
    let words: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    let verb = words.iter().position(|word| !word.starts_with('-'))?;
    let has = |flags: &[&str]| {
        words.iter().any(|word| flags.iter().any(|flag| word.split('=').next() == Some(flag)))
    };
    let reason = match words[verb] {
        "push" if has(&["-f", "--force", "--force-with-lease", "--delete", "-d", "--mirror"]) => {
            "it changes what others have"
        }
        "reset" if has(&["--hard"]) => "it throws changes away",
        "clean" => "it removes files that are nowhere else",
        "checkout" | "restore" if words.contains(&".") => "it throws changes away",
        "branch" if has(&["-D"]) => "it removes a branch",
        "filter-branch" | "update-ref" => "it rewrites history",
        _ if has(&["-c", "--config-env", "--exec-path"]) => "it changes what git runs",
        _ => return None,
    };
    Some(reason.to_owned())
}

/// Why a script as a whole needs a question: what is set in it holds for what comes after.
pub(super) fn script(script: &Script) -> Option<String> {
    let name = script.assigned.iter().find(|name| variable(name))?;
    Some(format!("it sets {name}, by which a program runs others"))
}

/// Operands that a command writes, as far as its name tells; and whether all of them are known.
pub(super) fn writes(simple: &Simple) -> (Vec<&Word>, bool) {
    let Some(name) = unwrap::name(simple) else { return (Vec::new(), true) };
    let rest = &simple.words[1..];
    let operands = || rest.iter().filter(|word| word.open || !word.text.starts_with('-'));
    let found: Vec<&Word> = match name {
        "rm" | "rmdir" | "mv" | "touch" | "mkdir" | "ln" | "tee" | "truncate" | "shred"
        | "unlink" | "chmod" | "chown" | "mkfifo" => operands().collect(),
        "cp" | "install" | "rsync" | "scp" => operands().next_back().into_iter().collect(),
        "sed" if rest.iter().any(|word| has_flag(word, 'i', "--in-place")) => {
            operands().skip(1).collect()
        }
        "curl" | "wget" | "sort" => {
            let outputs = ["-o", "-O", "--output", "--output-document"];
            let pairs = rest.windows(2).filter(|pair| outputs.contains(&pair[0].text.as_str()));
            pairs.map(|pair| &pair[1]).collect()
        }
        _ => Vec::new(),
    };
    let known = found.iter().all(|word| !word.open);
    (found, known)
}

/// Whether a command is one that only changes files that it names.
pub(super) fn only_files(simple: &Simple) -> bool {
    let plain = simple.assigned.iter().all(|name| harmless::plain_variable(name));
    let name = simple.words.first().and_then(Word::whole);
    plain
        && name.is_some_and(|name| {
            ["mkdir", "touch", "rm", "rmdir", "mv", "cp", "sed", "ln"].contains(&name)
        })
}
