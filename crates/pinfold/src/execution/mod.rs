//! `POST /execute` and `pinfold exec`: what is asked, what is answered, and who may run when.
//!
//! The shapes are those of the specification of the execution service; running is `script`'s
//! matter, and no tool can be reached from here.

mod answer;
mod lines;
mod request;
mod service;

pub(crate) use answer::Answer;
pub(crate) use request::{Wrong, read};
pub(crate) use service::{OnDemand, Refused, Service};
