//! JSON as PHP writes it.
//!
//! daycry/jobs signs what `json_encode` makes of an envelope, so whoever verifies must write the same bytes: members in
//! the order in which they came, slashes escaped, everything beyond ASCII as `\u`, and numbers as PHP has them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value with its members in their order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PhpValue {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl PhpValue {
    /// The member of this name; none when it is no object.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// What `json_encode` writes.
    pub(super) fn encode(&self, into: &mut String) {
        match self {
            Self::Null => into.push_str("null"),
            Self::Bool(value) => into.push_str(if *value { "true" } else { "false" }),
            Self::Integer(number) => into.push_str(&number.to_string()),
            Self::Float(number) => into.push_str(&float(*number)),
            Self::Text(text) => quote(text, into),
            Self::List(items) => {
                into.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        into.push(',');
                    }
                    item.encode(into);
                }
                into.push(']');
            }
            Self::Object(members) => {
                into.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        into.push(',');
                    }
                    quote(name, into);
                    into.push(':');
                    value.encode(into);
                }
                into.push('}');
            }
        }
    }
}

fn quote(text: &str, into: &mut String) {
    into.push('"');
    for c in text.chars() {
        match c {
            '"' => into.push_str("\\\""),
            '\\' => into.push_str("\\\\"),
            '/' => into.push_str("\\/"),
            '\u{8}' => into.push_str("\\b"),
            '\u{c}' => into.push_str("\\f"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            ' '..='\u{7f}' => into.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    into.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    into.push('"');
}

/// The shortest digits that give the number back, with a power of ten where PHP writes one.
fn float(number: f64) -> String {
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    // Such as `1.5e-7`: the digits are the shortest there are.
    let text = format!("{number:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or_default();
    // Where the point stands among the digits: PHP leaves the plain form below 0.0001 and from 1e17 on.
    let point = power + 1;
    if (-3..=17).contains(&point) {
        return format!("{number}");
    }
    let digits = if digits.contains('.') { digits.to_owned() } else { format!("{digits}.0") };
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{}", power.abs())
}

impl<'de> Deserialize<'de> for PhpValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PhpVisitor)
    }
}

struct PhpVisitor;

impl<'de> Visitor<'de> for PhpVisitor {
    type Value = PhpValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<PhpValue, E> {
        Ok(PhpValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<PhpValue, E> {
        Ok(PhpValue::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<PhpValue, E> {
        Ok(PhpValue::Integer(number))
    }

    #[allow(clippy::cast_precision_loss, reason = "PHP reads an integer beyond its range as a float")]
    fn visit_u64<E>(self, number: u64) -> Result<PhpValue, E> {
        Ok(i64::try_from(number).map_or(PhpValue::Float(number as f64), PhpValue::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<PhpValue, E> {
        Ok(PhpValue::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<PhpValue, E> {
        Ok(PhpValue::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<PhpValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(PhpValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<PhpValue, A::Error> {
        let mut object: Vec<(String, PhpValue)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        while let Some((name, value)) = members.next_entry::<String, PhpValue>()? {
            // Of two members of one name the last counts, in the place of the first.
            let place = *places.entry(name.clone()).or_insert(object.len());
            match object.get_mut(place) {
                Some(member) => member.1 = value,
                None => object.push((name, value)),
            }
        }
        Ok(PhpValue::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_php_writes_them() {
        // E9: what `json_encode(json_decode(TEXT))` answers, by the rules of PHP 8: no PHP was there to ask.
        for (text, written) in [
            (r#"{"b":1,"a":[true,null,{}],"c":[]}"#, r#"{"b":1,"a":[true,null,{}],"c":[]}"#),
            (r#"{ "url" : "https://a/b" }"#, r#"{"url":"https:\/\/a\/b"}"#),
            ("\"é € 😀\"", r#""\u00e9 \u20ac \ud83d\ude00""#),
            (r#""\u0000\u001f\b\f\n\r\t\"\\\u007f""#, "\"\\u0000\\u001f\\b\\f\\n\\r\\t\\\"\\\\\u{7f}\""),
            ("[0,-1,9223372036854775807]", "[0,-1,9223372036854775807]"),
            ("[1.5,10.0,0.1,-2.50,0.0]", "[1.5,10,0.1,-2.5,0]"),
            ("[0.0001,0.00001,1e25,123456789012345680.0]", "[0.0001,1.0e-5,1.0e+25,1.2345678901234568e+17]"),
            ("[1e15,1e16]", "[1000000000000000,10000000000000000]"),
            (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
        ] {
            let value: PhpValue =
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let mut encoded = String::new();
            value.encode(&mut encoded);
            assert_eq!(encoded, written, "{text}");
        }
    }
}
