//! Damages messages, the same way for the same number.

use serde_json::Value;

const MESSAGES: &str = include_str!("../../fixtures/messages.jsonl");

/// What readers of JSON have stumbled over before.
const AWKWARD: [&str; 30] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "null",
    "NaN",
    "-Infinity",
    "1e999",
    "-0",
    "18446744073709551616",
    "-9223372036854775809",
    "0.1e-400",
    "\\u0000",
    "\\ud800",
    "\\udc00\\ud800",
    "\u{feff}",
    "\u{0}",
    "\u{2028}",
    "\r",
    "\n\n",
    "data: ",
    "id: ",
    "\"id\":1,",
    "\"method\":\"ping\",",
    "\"jsonrpc\":\"1.0\",",
    "\"result\":{},",
];

/// Damages messages.
pub(crate) struct Damage(u64);

impl Damage {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap()
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// A message as it is sent.
    pub(crate) fn whole(&mut self) -> &'static str {
        let all: Vec<&str> = MESSAGES.lines().collect();
        self.pick(&all)
    }

    /// A message, most often damaged; it may have line breaks in it.
    pub(crate) fn message(&mut self) -> String {
        let mut text = self.whole().to_owned();
        if self.one_in(2) {
            text = self.other_values(&text);
        }
        for _ in 0..self.below(4) {
            text = self.damaged(&text);
        }
        text
    }

    /// The same without line breaks.
    pub(crate) fn line(&mut self) -> String {
        self.message().replace(['\n', '\r'], " ")
    }

    /// Puts a value of another message, or an odd one, in the place of one.
    fn other_values(&mut self, text: &str) -> String {
        let Ok(mut value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
        let other: Value = serde_json::from_str(self.whole()).unwrap();
        let mut from = other;
        for _ in 0..self.below(4) {
            from = child(&from, self).cloned().unwrap_or(from);
        }
        let odd = match self.below(6) {
            0 => Value::Null,
            1 => Value::from(i64::MIN),
            2 => Value::from("x".repeat(self.below(3_000))),
            3 => (0..self.below(400)).fold(Value::from(1), |inner, _| Value::from(vec![inner])),
            _ => from,
        };
        let mut place = &mut value;
        for _ in 0..=self.below(4) {
            let count = match &*place {
                Value::Object(members) => members.len(),
                Value::Array(items) => items.len(),
                _ => 0,
            };
            if count == 0 {
                break;
            }
            let index = self.below(count);
            place = match place {
                Value::Object(members) => members.values_mut().nth(index).unwrap(),
                Value::Array(items) => &mut items[index],
                _ => break,
            };
        }
        *place = odd;
        value.to_string()
    }

    fn damaged(&mut self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        let at = self.below(bytes.len());
        let to = (at + self.below(20)).min(bytes.len());
        match self.below(6) {
            0 => bytes.drain(at..to).for_each(drop),
            1 => {
                let again = bytes[at..to].to_vec();
                bytes.splice(at..at, again).for_each(drop);
            }
            2 => {
                let awkward = self.pick(&AWKWARD).bytes();
                bytes.splice(at..at, awkward).for_each(drop);
            }
            3 => bytes.truncate(at),
            4 => {
                let other = self.whole().as_bytes();
                let from = self.below(other.len());
                bytes.splice(at.., other[from..].iter().copied()).for_each(drop);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (at % 7);
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn child<'a>(value: &'a Value, damage: &mut Damage) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.values().nth(damage.below(members.len())),
        Value::Array(items) => items.get(damage.below(items.len())),
        _ => None,
    }
}
