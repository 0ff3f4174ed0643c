//! Values as PostgreSQL takes them, and cells as it gives them.
//!
//! Its text holds no NUL: it is written as an escape and read back as what it was.

use std::borrow::Cow;

use backstop_sql::{Cell, Value};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// A value that is sent with its own type, see [`SqlParam::of_type`].
#[derive(Debug)]
pub(crate) struct SqlParam<'v>(pub(crate) &'v Value);

impl SqlParam<'_> {
    /// The type that it is sent as.
    pub(crate) const fn of_type(&self) -> Type {
        match self.0 {
            Value::Int(_) => Type::INT8,
            Value::Bool(_) => Type::BOOL,
            Value::Text(_) => Type::TEXT,
            Value::Bytes(_) => Type::BYTEA,
            Value::Id(_) => Type::UUID,
            Value::Ints(_) => Type::INT8_ARRAY,
            Value::Bools(_) => Type::BOOL_ARRAY,
            Value::Texts(_) => Type::TEXT_ARRAY,
            Value::Blobs(_) => Type::BYTEA_ARRAY,
            Value::Ids(_) => Type::UUID_ARRAY,
        }
    }
}

type Boxed = Box<dyn std::error::Error + Sync + Send>;

impl ToSql for SqlParam<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        match self.0 {
            Value::Int(value) => value.to_sql(ty, out),
            Value::Bool(value) => value.to_sql(ty, out),
            Value::Text(value) => value.as_deref().map(escape).to_sql(ty, out),
            Value::Bytes(value) => value.to_sql(ty, out),
            Value::Id(value) => value.to_sql(ty, out),
            Value::Ints(value) => value.to_sql(ty, out),
            Value::Bools(value) => value.to_sql(ty, out),
            Value::Texts(value) => {
                let texts: Vec<_> = value.iter().map(|text| text.as_deref().map(escape)).collect();
                texts.to_sql(ty, out)
            }
            Value::Blobs(value) => value.to_sql(ty, out),
            Value::Ids(value) => value.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A cell that is read by the type that the server names.
#[derive(Debug, PartialEq)]
pub(crate) struct SqlCell(pub(crate) Cell);

impl<'a> FromSql<'a> for SqlCell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Boxed> {
        Ok(Self(match *ty {
            Type::INT2 => Cell::Int(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Cell::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Cell::Int(i64::from_sql(ty, raw)?),
            Type::BOOL => Cell::Bool(bool::from_sql(ty, raw)?),
            Type::BYTEA => Cell::Bytes(raw.to_vec()),
            Type::UUID => Cell::Id(uuid::Uuid::from_sql(ty, raw)?),
            Type::RECORD => Cell::Several(several(raw)?),
            _ => Cell::Text(unescape(String::from_sql(ty, raw)?)),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Boxed> {
        Ok(Self(Cell::Null))
    }

    fn accepts(ty: &Type) -> bool {
        matches!(
            *ty,
            Type::INT2
                | Type::INT4
                | Type::INT8
                | Type::BOOL
                | Type::BYTEA
                | Type::UUID
                | Type::RECORD
                | Type::TEXT
                | Type::VARCHAR
                | Type::NAME
        )
    }
}

/// Reads a row in a column: how many columns it has, then for each the number of its type, its length and its bytes.
fn several(raw: &[u8]) -> Result<Vec<Cell>, Boxed> {
    let (count, mut rest) = number(raw)?;
    let mut cells = Vec::with_capacity(usize::try_from(count)?);
    for _ in 0..count {
        let (of_type, after) = number(rest)?;
        let (length, after) = number(after)?;
        rest = after;
        let Ok(length) = usize::try_from(length) else {
            cells.push(Cell::Null);
            continue;
        };
        let (bytes, after) = rest.split_at_checked(length).ok_or("a row that ends too early")?;
        rest = after;
        let of_type = Type::from_oid(u32::try_from(of_type)?).unwrap_or(Type::TEXT);
        cells.push(SqlCell::from_sql(&of_type, bytes)?.0);
    }
    Ok(cells)
}

fn number(raw: &[u8]) -> Result<(i32, &[u8]), Boxed> {
    let (bytes, rest) = raw.split_first_chunk::<4>().ok_or("a row that ends too early")?;
    Ok((i32::from_be_bytes(*bytes), rest))
}

/// Marks an escape. It is a control character that hardly any text holds, so that almost all text is stored as it is.
const MARK: char = '\u{1a}';

pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    // Looks at every byte without stopping, which is many at a time: almost no text has one of these.
    if !text.bytes().fold(false, |found, byte| found | (byte == 0) | (byte == MARK as u8)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => escaped.extend([MARK, '0']),
            MARK => escaped.extend([MARK, '1']),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

fn unescape(text: String) -> String {
    if !text.contains(MARK) {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != MARK {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('0') => plain.push('\0'),
            Some('1') => plain.push(MARK),
            // Not written by us: shown as it stands.
            other => plain.extend([MARK].into_iter().chain(other)),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_postgres_cannot_hold_comes_back() {
        // L20
        for text in ["", "plain", "a\0b", "\u{1a}", "\u{1a}0", "\0\u{1a}\0", "ends in \u{1a}"] {
            let stored = escape(text).into_owned();
            assert!(!stored.contains('\0'));
            assert_eq!(unescape(stored), text);
        }
        assert!(matches!(escape("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_row_in_a_column_is_read_to_its_end_and_not_beyond() {
        let mut raw = 3_i32.to_be_bytes().to_vec();
        for (of_type, bytes) in [(20_i32, Some(&7_i64.to_be_bytes()[..])), (25, Some(b"ada")), (25, None)] {
            raw.extend(of_type.to_be_bytes());
            raw.extend(bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).expect("short")).to_be_bytes());
            raw.extend(bytes.unwrap_or_default());
        }
        let cells = several(&raw).expect("whole");
        assert_eq!(cells, [Cell::Int(7), Cell::Text("ada".to_owned()), Cell::Null]);
        for end in 0..raw.len() {
            assert!(several(&raw[..end]).is_err(), "{end} bytes");
        }
    }
}
