//! What a server asks while it carries out a request: input from a person.
//!
//! Both eras come to the same here, an [`Asked`] for whoever made the request. An older server's
//! question does not say which request it is about, unless it comes in that one's own stream; it is
//! passed on only where it cannot reach somebody else than those it is for.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::message::{object, quote, text};
use crate::server::object::Object;

/// Longest question that is passed on, in bytes.
const LONGEST: usize = 128 * 1024;

/// Longest part of a question's words that an error text shows, in bytes.
const LONGEST_SHOWN: usize = 1_000;

/// Who answers what is asked during a request.
#[derive(Clone, Debug)]
pub struct Asks {
    /// Whom the request is made for. Questions of one's own other requests do no harm.
    pub group: Arc<str>,
    /// Whether forms can be filled in.
    pub forms: bool,
    /// Whether addresses can be opened.
    pub urls: bool,
    /// Where questions go.
    pub to: mpsc::Sender<Asked>,
}

/// A question. If it is dropped, nobody answered.
#[derive(Debug)]
pub struct Asked {
    /// Of `elicitation/create`, as they were sent.
    pub params: Box<RawValue>,
    /// Cancelled when the server no longer wants to know.
    pub withdrawn: CancellationToken,
    answer: oneshot::Sender<Given>,
}

/// What a person answers.
#[derive(Debug)]
pub enum Given {
    /// The form, as it was filled in.
    Accept(Option<Box<RawValue>>),
    /// No.
    Decline,
    /// Nothing.
    Cancel,
}

impl Asked {
    /// Answers it.
    pub fn answer(self, given: Given) {
        // The server may be gone meanwhile.
        let _ = self.answer.send(given);
    }
}

impl Given {
    /// An `ElicitResult`.
    pub(super) fn result(&self) -> String {
        match self {
            Self::Accept(Some(content)) => {
                object(&[("action", r#""accept""#), ("content", content.get())])
            }
            Self::Accept(None) => object(&[("action", r#""accept""#)]),
            Self::Decline => object(&[("action", r#""decline""#)]),
            Self::Cancel => object(&[("action", r#""cancel""#)]),
        }
    }
}

impl Asks {
    /// Passes a question on; `None` if this kind cannot be asked, or too many are open.
    pub(super) fn ask(
        &self,
        params: Option<&RawValue>,
        withdrawn: CancellationToken,
    ) -> Option<oneshot::Receiver<Given>> {
        let params = params.filter(|params| params.get().len() <= LONGEST)?;
        let can = if is_url(params) { self.urls } else { self.forms };
        if !can {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        let asked = Asked { params: params.to_owned(), withdrawn, answer };
        self.to.try_send(asked).ok().map(|()| answered)
    }

    /// The client's capabilities that they amount to.
    pub(super) fn elicitation(&self) -> String {
        let mut kinds = Vec::new();
        if self.forms {
            kinds.push(("form", "{}"));
        }
        if self.urls {
            kinds.push(("url", "{}"));
        }
        object(&kinds)
    }
}

fn is_url(params: &RawValue) -> bool {
    Object::read(Some(params)).and_then(|params| text(params.get("mode"))).as_deref() == Some("url")
}

/// A question in words, for one who cannot answer it.
pub(super) fn words(method: &str, params: Option<&RawValue>) -> String {
    let message = Object::read(params).and_then(|params| text(params.get("message")));
    let words = message.map_or_else(|| method.to_owned(), |message| quote(&message));
    crate::message::shorten(&words, LONGEST_SHOWN)
}
