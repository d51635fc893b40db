//! How a request reaches the program and its answer the server: one frame each way.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::disk::Disk;
use crate::request::{Fault, Refusal, Reply, Request};
use crate::root::Root;
use crate::{run, serve};

/// Longest frame.
const LONGEST: usize = 512 << 20;

/// A request as the program reads it.
pub fn encode_request(request: &Request) -> Result<Vec<u8>, String> {
    frame(request).map_err(|error| format!("a request cannot be written: {error}"))
}

/// An answer as the program wrote it, and nothing else.
pub fn decode_reply(bytes: &[u8]) -> Result<Reply, String> {
    let (length, rest) = bytes
        .split_first_chunk::<4>()
        .ok_or_else(|| format!("the answer has only {} bytes", bytes.len()))?;
    let length = u32::from_le_bytes(*length) as usize;
    if rest.len() != length {
        return Err(format!("the answer has {} bytes instead of {length}", rest.len()));
    }
    postcard::from_bytes(rest).map_err(|error| format!("the answer cannot be read: {error}"))
}

/// Before the arguments: the request comes on standard input, which is kept open for as long as
/// somebody waits for the answer.
pub const UNTIL_CLOSED: &str = "--until-closed";

/// The program: `inside [--until-closed] ROOT [REQUEST]`. The request is read from the file or from
/// standard input.
pub fn main_of_the_program(arguments: &[String]) -> ExitCode {
    let (root, file, held) = match arguments {
        [option, root] if option == UNTIL_CLOSED => (root, None, true),
        [root] => (root, None, false),
        [root, file] => (root, Some(file), false),
        _ => return complain("usage: inside [--until-closed] ROOT [REQUEST]"),
    };
    let stdin = io::stdin();
    let request = match file {
        Some(file) => File::open(file).and_then(|mut file| read(&mut file)),
        None => read(&mut stdin.lock()),
    };
    let request = match request {
        Ok(request) => request,
        Err(error) => return complain(&format!("the request cannot be read: {error}")),
    };
    let reply = match Disk::open(Path::new(root)) {
        Ok(disk) => {
            let root = Root::new(Arc::new(disk), root);
            match &request {
                Request::Run(one) => {
                    let lifeline = held.then_some(stdin.as_fd());
                    run::run(&root, one, lifeline).unwrap_or_else(Reply::Refused)
                }
                _ => serve::serve(&root, &request),
            }
        }
        Err(error) => Reply::Refused(Refusal::new(
            Fault::Failed,
            format!("the workspace {root} cannot be opened: {error}"),
        )),
    };
    let written = frame(&reply)
        .map_err(io::Error::other)
        .and_then(|bytes| io::stdout().lock().write_all(&bytes));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&format!("the answer cannot be written: {error}")),
    }
}

fn complain(what: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "inside: {what}");
    ExitCode::FAILURE
}

fn frame<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, postcard::Error> {
    let mut bytes = postcard::to_extend(value, vec![0; 4])?;
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

fn read(from: &mut dyn Read) -> io::Result<Request> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::other("it is too long"));
    }
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_come_through_whole_or_not_at_all() {
        let request = Request::Look { path: "/a".to_owned() };
        let bytes = encode_request(&request).unwrap();
        assert_eq!(read(&mut bytes.as_slice()).unwrap(), request);
        assert!(read(&mut &bytes[..bytes.len() - 1]).is_err());
        let reply = Reply::Bytes { bytes: vec![1], size: 1 };
        let bytes = frame(&reply).unwrap();
        assert_eq!(decode_reply(&bytes), Ok(reply));
        for wrong in [&bytes[..bytes.len() - 1], b"", &[bytes.as_slice(), b"x"].concat()] {
            assert!(decode_reply(wrong).is_err(), "{wrong:?}");
        }
    }
}
