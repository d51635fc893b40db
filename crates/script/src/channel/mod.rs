//! The channel between a script and its host: requests on the script's descriptor 3, replies on
//! its descriptor 4, one JSON value a line.
//!
//! ```text
//! host → script   {"code":"…"}                                          once, first
//! script → host   {"id":1,"tool":"t","args":{…}}                        "raw":true asks for text and content too
//! host → script   {"id":1,"text":"…","structured":…,"content":[…],"is_error":true}
//!                 {"id":1,"error":{"kind":"…","message":"…","retryable":false}}
//! script → host   {"give_up":[1]}                                       nobody waits for these replies
//! script → host   {"progress":{"done":1,"total":2,"message":"…"}}
//! script → host   {"end":{"traceback":"…","memory":false}}              before it exits, if it failed
//! ```
//!
//! Everything that comes from the script is an attack until it has been read: it may be no JSON,
//! never end, come by the million, and the replies may never be taken. So requests are not read
//! while earlier ones wait or replies pile up, and who keeps sending what cannot be read is no
//! longer listened to. Ids are the script's own matter: they are given back as they came.
//!
//! One task serves one script; see [`serve()`].

mod serve;

mod calls;
mod report;

mod lines;
mod message;

pub(crate) use message::{EndReport, code_line, is_deeper_than};
pub(crate) use serve::{Pipes, serve};
