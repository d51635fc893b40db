//! A request that cannot be met, as an error object.

use serde_json::value::RawValue;

use super::object::Object;
use crate::message::{code, object, quote};

/// A request that cannot be met. What a tool itself got wrong is not this but a result.
#[derive(Clone, Debug)]
pub struct Refusal {
    code: i64,
    message: String,
    /// JSON.
    data: Option<String>,
}

impl Refusal {
    /// No such tool, or the parameters are wrong.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// The server cannot do it, through no fault of the client's.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, message)
    }

    /// There is no such resource. What older revisions call it is told to older clients.
    #[must_use]
    pub fn no_resource(caller: &super::Caller, message: impl Into<String>) -> Self {
        let old = !caller.revision.is_modern();
        Self::new(if old { code::RESOURCE_NOT_FOUND } else { code::INVALID_PARAMS }, message)
    }

    /// What a server answered, passed on. A code that says something about the connection between
    /// it and us is not the caller's.
    #[must_use]
    pub fn passed(
        caller: &super::Caller,
        code: i64,
        message: impl Into<String>,
        data: Option<&RawValue>,
    ) -> Self {
        let refusal = match code {
            code::RESOURCE_NOT_FOUND => Self::no_resource(caller, message),
            // How a newer server says that it has no such resource.
            code::INVALID_PARAMS if names_uri(data) => Self::no_resource(caller, message),
            code::PARSE
            | code::INVALID_REQUEST
            | code::METHOD_NOT_FOUND
            | code::HEADER_MISMATCH
            | code::MISSING_CAPABILITY
            | code::UNSUPPORTED_VERSION => Self::internal(message),
            code => Self::new(code, message),
        };
        Self { data: data.map(|data| data.get().to_owned()), ..refusal }
    }

    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// There is no such method, or not for this.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(code::METHOD_NOT_FOUND, message)
    }

    /// The client has to say that it knows an extension first.
    pub(crate) fn missing_extension(name: &str) -> Self {
        let extensions = object(&[(name, "{}")]);
        let required = object(&[("extensions", &extensions)]);
        Self {
            code: code::MISSING_CAPABILITY,
            message: format!("the client has to declare the extension {name} for this"),
            data: Some(object(&[("requiredCapabilities", &required)])),
        }
    }

    pub(crate) fn unknown_method(method: &str) -> Self {
        let method = crate::message::shorten(method, 100);
        Self::new(code::METHOD_NOT_FOUND, format!("there is no method {method}"))
    }

    /// `supported` are revisions of either era.
    pub(crate) fn unsupported(requested: &str, supported: &[&str]) -> Self {
        let requested = crate::message::shorten(requested, 100);
        let names: Vec<String> = supported.iter().map(|name| quote(name)).collect();
        let supported_list = format!("[{}]", names.join(","));
        Self {
            code: code::UNSUPPORTED_VERSION,
            message: format!(
                "protocol version {requested} is not supported; supported are {}",
                supported.join(", ")
            ),
            data: Some(object(&[
                ("supported", &supported_list),
                ("requested", &quote(&requested)),
            ])),
        }
    }

    /// The whole message. Without an id it answers what could not be read.
    pub(crate) fn reply(&self, id: Option<&RawValue>) -> String {
        let code = self.code.to_string();
        let message = quote(&self.message);
        let mut error = vec![("code", code.as_str()), ("message", message.as_str())];
        if let Some(data) = &self.data {
            error.push(("data", data));
        }
        object(&[
            ("jsonrpc", r#""2.0""#),
            ("id", id.map_or("null", |id| id.get())),
            ("error", &object(&error)),
        ])
    }
}

fn names_uri(data: Option<&RawValue>) -> bool {
    Object::read(data).is_some_and(|data| data.get("uri").is_some())
}
