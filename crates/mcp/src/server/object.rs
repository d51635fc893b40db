//! An object whose members keep their order and their text, so that one of them can be changed.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::message::quote;

/// Members in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct Object(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }

        from.deserialize_map(Members)
    }
}

impl Object {
    /// Reads an object; nothing else is one.
    pub(crate) fn read(raw: Option<&RawValue>) -> Option<Self> {
        serde_json::from_str(raw?.get()).ok()
    }

    /// A member; of several with one name the last, as everywhere.
    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|member| member.0 == name).map(|member| &*member.1)
    }

    /// All of them.
    pub(crate) fn into_members(self) -> Vec<(String, Box<RawValue>)> {
        self.0
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|member| member.0 != name);
    }

    /// Puts a value, which is JSON, in the place of a member or at the end.
    pub(crate) fn set(&mut self, name: &str, value: String) {
        let Ok(value) = RawValue::from_string(value) else { return };
        match self.0.iter_mut().rev().find(|member| member.0 == name) {
            Some(member) => member.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// As text.
    pub(crate) fn write(&self) -> String {
        let members: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{}:{}", quote(name), value.get())).collect();
        format!("{{{}}}", members.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_touched_stays_as_it_was() {
        let text = r#"{"z":1.0e5,"a":{"y":1, "x":2},"z\n":[]}"#;
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        let mut object = Object::read(Some(&raw)).unwrap();
        object.set("n", "true".to_owned());
        object.set("z", "7".to_owned());
        object.remove("none");
        assert_eq!(object.write(), r#"{"z":7,"a":{"y":1, "x":2},"z\n":[],"n":true}"#);
        assert_eq!(object.get("a").unwrap().get(), r#"{"y":1, "x":2}"#);
        assert!(Object::read(Some(&RawValue::from_string("[]".to_owned()).unwrap())).is_none());
    }
}
