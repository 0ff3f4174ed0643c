//! Statements sent to PostgreSQL: over connections of our own, or over whatever carries the caller's transaction.

use std::borrow::Cow;
use std::future::Future;

use futures_util::future::join_all;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row as DriverRow};

use crate::error::Failure;
use crate::values::{Cell, Row, Value};

/// A statement with its parameters.
#[derive(Debug, Clone)]
pub struct Query {
    /// The text, on the tables of the schema `backstop`.
    pub sql: Cow<'static, str>,
    /// The parameters, in order.
    pub params: Vec<Value>,
}

impl Query {
    pub(crate) fn new(sql: impl Into<Cow<'static, str>>, params: Vec<Value>) -> Self {
        Self { sql: sql.into(), params }
    }
}

/// Something that runs statements in one transaction.
pub trait Session: Send {
    /// Runs statements in order, all of them in one go where the driver can, and answers their rows.
    fn run(&mut self, batch: Vec<Query>) -> impl Future<Output = Result<Vec<Vec<Row>>, Failure>> + Send;

    /// Runs one statement.
    fn one(&mut self, query: Query) -> impl Future<Output = Result<Vec<Row>, Failure>> + Send {
        async move { Ok(self.run(vec![query]).await?.pop().unwrap_or_default()) }
    }
}

/// The names of our tables: the schema they are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema(String);

/// The schema that the statements are written for.
pub(crate) const DEFAULT_SCHEMA: &str = "backstop";

impl Schema {
    /// A schema by name.
    ///
    /// # Errors
    /// A sentence, when the name is none that needs no quotes.
    pub fn named(name: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        if starts_well && name.chars().all(plain) && name.len() <= 50 {
            return Ok(Self(name.to_owned()));
        }
        Err(format!(
            "the schema {name:?} is not a valid name: use lowercase letters, digits and _, at most 50"
        ))
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// A statement as it stands for this schema.
    #[must_use]
    pub fn text<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        if self.0 == DEFAULT_SCHEMA {
            return Cow::Borrowed(sql);
        }
        Cow::Owned(sql.replace("backstop.", &format!("{}.", self.0)))
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self(DEFAULT_SCHEMA.to_owned())
    }
}

/// A connection of the driver `tokio_postgres`, in whatever transaction it is.
pub(crate) struct Wire<'c> {
    pub(crate) client: &'c Client,
    pub(crate) schema: &'c Schema,
}

impl Session for Wire<'_> {
    async fn run(&mut self, batch: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        let this = &*self;
        // Polled in order, so sent in order; the answers to all of them come back in one round trip.
        let answers = join_all(batch.iter().map(|query| this.send(query))).await;
        answers.into_iter().collect()
    }
}

impl Wire<'_> {
    /// Runs one statement, unnamed and in one round trip, so that it works behind a pooler too.
    async fn send(&self, query: &Query) -> Result<Vec<Row>, Failure> {
        let params: Vec<(&(dyn ToSql + Sync), Type)> =
            query.params.iter().map(|value| (value as &(dyn ToSql + Sync), type_of(value))).collect();
        let rows = self.client.query_typed(&self.schema.text(&query.sql), &params).await?;
        rows.iter().map(read).collect()
    }
}

/// Reads a row of the driver.
pub(crate) fn read(row: &DriverRow) -> Result<Row, Failure> {
    let cells = (0..row.len()).map(|column| row.try_get::<_, Cell>(column));
    Ok(Row::new(cells.collect::<Result<Vec<Cell>, _>>()?))
}

/// The type that a parameter is sent as.
pub(crate) const fn type_of(value: &Value) -> Type {
    match value {
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

type Boxed = Box<dyn std::error::Error + Sync + Send>;

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut tokio_postgres::types::private::BytesMut) -> Result<IsNull, Boxed> {
        match self {
            Self::Int(value) => value.to_sql(ty, out),
            Self::Bool(value) => value.to_sql(ty, out),
            Self::Text(value) => value.to_sql(ty, out),
            Self::Bytes(value) => value.to_sql(ty, out),
            Self::Id(value) => value.to_sql(ty, out),
            Self::Ints(value) => value.to_sql(ty, out),
            Self::Bools(value) => value.to_sql(ty, out),
            Self::Texts(value) => value.to_sql(ty, out),
            Self::Blobs(value) => value.to_sql(ty, out),
            Self::Ids(value) => value.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // Each variant is sent with its own type, see `type_of`.
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Boxed> {
        Ok(match *ty {
            Type::INT2 => Self::Int(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Self::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Self::Int(i64::from_sql(ty, raw)?),
            Type::BOOL => Self::Bool(bool::from_sql(ty, raw)?),
            Type::BYTEA => Self::Bytes(raw.to_vec()),
            Type::UUID => Self::Id(uuid::Uuid::from_sql(ty, raw)?),
            Type::RECORD => Self::Several(several(raw)?),
            _ => Self::Text(String::from_sql(ty, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Boxed> {
        Ok(Self::Null)
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
        cells.push(Cell::from_sql(&of_type, bytes)?);
    }
    Ok(cells)
}

fn number(raw: &[u8]) -> Result<(i32, &[u8]), Boxed> {
    let (bytes, rest) = raw.split_first_chunk::<4>().ok_or("a row that ends too early")?;
    Ok((i32::from_be_bytes(*bytes), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_move_with_their_schema() {
        let sql = "SELECT 1 FROM backstop.job JOIN backstop.done USING (id)";
        assert_eq!(Schema::default().text(sql), sql);
        let other = Schema::named("jobs_2").expect("a plain name");
        assert_eq!(other.text(sql), "SELECT 1 FROM jobs_2.job JOIN jobs_2.done USING (id)");
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

    #[test]
    fn names_that_need_quotes_are_refused() {
        // E10
        for name in ["", "Jobs", "a b", "x\"; DROP SCHEMA public", "1st", &"x".repeat(51)] {
            assert!(Schema::named(name).is_err(), "{name}");
        }
    }
}
