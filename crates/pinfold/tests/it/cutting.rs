//! A line to a server that breaks in the middle of every answer, once.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The streams that were cut, by the name in their event ids.
pub(crate) type Cut = Arc<Mutex<HashSet<String>>>;

/// Passes everything on to `server`, and cuts each connection as soon as the first event of an
/// answer came through. Where it listens, and what was cut.
pub(crate) fn open(server: SocketAddr) -> (SocketAddr, Cut) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let cut = Cut::default();
    let known = Arc::clone(&cut);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(server) else { return };
            let (up, down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || pass(up, down, |_| false));
            let known = Arc::clone(&known);
            std::thread::spawn(move || pass(server, client, |bytes| is_new(bytes, &known)));
        }
    });
    (address, cut)
}

/// Passes bytes on until one side ends, or `cuts` says so about what was passed.
fn pass(mut from: TcpStream, mut to: TcpStream, mut cuts: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = from.read(&mut buffer).unwrap_or(0);
        if count == 0 || to.write_all(&buffer[..count]).is_err() || cuts(&buffer[..count]) {
            break;
        }
    }
    for side in [from, to] {
        let _ = side.shutdown(Shutdown::Both);
    }
}

/// Whether an event of an answer's stream is in it that was not cut yet.
fn is_new(bytes: &[u8], known: &Cut) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let streams = text.lines().filter_map(|line| line.strip_prefix("id: a")?.split('-').next());
    let mut known = known.lock().unwrap();
    streams.filter(|stream| known.insert((*stream).to_owned())).count() > 0
}
