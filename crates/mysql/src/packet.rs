//! Statements as text, with their values in place.
//!
//! Our own connections send several statements in one packet. A batch of rows is a different text for every number of
//! rows, so preparing would cost a round trip that nothing gives back.

use std::fmt::Write as _;

use backstop_sql::{Query, Value};

use crate::prefix::Prefix;
use crate::shape::length;

/// Characters in one packet, unless a single statement has more: well below the smallest `max_allowed_packet`.
const LONG_PACKET: usize = 1024 * 1024;

/// Statements in the text of one packet, and how many they are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) text: String,
    pub(crate) statements: usize,
}

/// Writes statements into as few packets as they fit into.
pub(crate) fn packets(batch: &[Query], prefix: &Prefix) -> Vec<Packet> {
    let mut packets = vec![Packet::default()];
    for query in batch {
        let size = query.sql.len() + query.params.iter().map(length).sum::<usize>();
        if packets.last().is_some_and(|last| last.statements > 0 && last.text.len() + size > LONG_PACKET) {
            packets.push(Packet::default());
        }
        if let Some(packet) = packets.last_mut() {
            if packet.statements > 0 {
                packet.text.push(';');
            }
            packet.statements += 1;
            write(&mut packet.text, &prefix.text(&query.sql), &query.params);
        }
    }
    packets
}

/// Writes a statement with its values in place. A number behind a mark names its value; without one they follow each
/// other.
fn write(out: &mut String, sql: &str, params: &[Value]) {
    let mut pieces = sql.split('?');
    out.push_str(pieces.next().unwrap_or_default());
    for (next, piece) in pieces.enumerate() {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = piece.split_at(digits);
        let at = number.parse().map_or(next, |number: usize| number - 1);
        if let Some(value) = params.get(at) {
            write_value(out, value);
        }
        out.push_str(rest);
    }
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Int(number) => write_int(out, *number),
        Value::Bool(truth) => out.push(if *truth { '1' } else { '0' }),
        Value::Text(text) => write_bytes(out, text.as_deref().map(str::as_bytes)),
        Value::Bytes(bytes) => write_bytes(out, Some(bytes)),
        Value::Id(id) => write_bytes(out, id.as_ref().map(|id| &id.as_bytes()[..])),
        Value::Ints(all) => write_list(out, all, |out, number| write_int(out, *number)),
        Value::Bools(all) => write_list(out, all, |out, truth| out.push(if *truth { '1' } else { '0' })),
        Value::Texts(all) => {
            write_list(out, all, |out, text| write_bytes(out, text.as_deref().map(str::as_bytes)));
        }
        Value::Blobs(all) => write_list(out, all, |out, bytes| write_bytes(out, Some(bytes))),
        Value::Ids(all) => {
            write_list(out, all, |out, id| write_bytes(out, id.as_ref().map(|id| &id.as_bytes()[..])));
        }
    }
}

/// Writes a list. An empty one contains nothing, as it should: it becomes a NULL, which equals nothing.
fn write_list<T>(out: &mut String, all: &[T], write: impl Fn(&mut String, &T)) {
    if all.is_empty() {
        out.push_str("NULL");
    }
    for (number, one) in all.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        write(out, one);
    }
}

fn write_int(out: &mut String, number: Option<i64>) {
    match number {
        // Writing to a string does not fail.
        Some(number) => drop(write!(out, "{number}")),
        None => out.push_str("NULL"),
    }
}

/// Writes bytes so that they mean the same in every character set and SQL mode: plain ones between quotes, all others
/// as hexadecimal digits.
fn write_bytes(out: &mut String, bytes: Option<&[u8]>) {
    let Some(bytes) = bytes else { return out.push_str("NULL") };
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'\\');
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(plain) => {
            out.push_str("_binary'");
            out.push_str(text);
        }
        _ => {
            out.push_str("x'");
            for byte in bytes {
                out.push(char::from(DIGITS[usize::from(byte >> 4)]));
                out.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    out.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &'static str, params: Vec<Value>) -> String {
        let mut packets = packets(&[Query::new(sql, params)], &Prefix::default());
        assert_eq!((packets.len(), packets[0].statements), (1, 1));
        packets.remove(0).text
    }

    #[test]
    fn values_cannot_end_their_quotes() {
        // L20
        let values = ["it's", "a\\", "?;--", "", "\0", "ä", "plain {}"].map(Value::text);
        let written =
            text("SELECT ?, ?, ?, ?, ?, ?, ?, ?", values.into_iter().chain([Value::int(-3)]).collect());
        let expected =
            "SELECT x'69742773', x'615c', _binary'?;--', x'', x'00', x'c3a4', _binary'plain {}', -3";
        assert_eq!(written, expected);
    }

    #[test]
    fn lists_take_the_place_of_their_mark_and_numbers_name_values() {
        let lists = vec![Value::ints([1, 2, 3]), Value::Ids(Vec::new()), Value::int(9), Value::Bool(true)];
        let written = text("a IN (?1) AND b IN (?2) AND c < ?3 AND d = ?4 AND e IN (?1)", lists);
        assert_eq!(written, "a IN (1,2,3) AND b IN (NULL) AND c < 9 AND d = 1 AND e IN (1,2,3)");
    }

    #[test]
    fn many_statements_are_cut_into_packets() {
        let large = || Query::new("INSERT INTO t VALUES (?)", vec![Value::Bytes(vec![0; 100_000])]);
        let batch: Vec<Query> = (0..20).map(|_| large()).collect();
        let packets = packets(&batch, &Prefix::default());
        assert_eq!(packets.iter().map(|packet| packet.statements).sum::<usize>(), 20);
        assert!(packets.len() > 2 && packets.iter().all(|packet| packet.text.len() <= LONG_PACKET));
    }
}
