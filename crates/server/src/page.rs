//! Pages of lists: bounded in bytes as in rows, whatever the rows hold, so that no answer and no read is large because
//! its data is.
//!
//! A page ends early when its text is full or enough was read for it; `next_cursor` then says where to go on. It holds
//! at least one row while there is one. The text is built before the answer begins: a page is small, and an error on
//! the way still has its status.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use backstop_store::{Page, PageRequest};
use serde::Serialize;

use crate::body::{PageLimit, wrong_field};
use crate::error::{ApiError, internal};

/// Bytes of rows that one answer has at most, unless a single row is larger.
pub(crate) const MOST_BYTES: usize = 1 << 20;

/// Bytes that are read for one answer at most, unless a single row is larger: most of them may be left out of it.
const MOST_READ: usize = 16 << 20;

/// Bytes that one step should read, by what the rows before had; and rows that it reads at most, because the next ones
/// may all be large.
const STEP_BYTES: usize = 256 << 10;
const STEP_ROWS: usize = 32;

/// The text of a page under way.
#[derive(Debug)]
pub(crate) struct PageText {
    text: Vec<u8>,
    rows: usize,
}

impl PageText {
    pub(crate) fn new() -> Self {
        Self { text: br#"{"items":["#.to_vec(), rows: 0 }
    }

    /// Adds a row; false when it is too much for this page, which is full then.
    pub(crate) fn add(&mut self, row: &impl Serialize) -> Result<bool, ApiError> {
        let end = self.text.len();
        if self.rows > 0 {
            self.text.push(b',');
        }
        serde_json::to_writer(&mut self.text, row).map_err(|problem| internal(&problem))?;
        if self.rows > 0 && self.text.len() > MOST_BYTES {
            self.text.truncate(end);
            return Ok(false);
        }
        self.rows += 1;
        Ok(true)
    }

    /// The whole answer.
    pub(crate) fn finish(mut self, next_cursor: Option<String>) -> Result<Response, ApiError> {
        self.text.extend_from_slice(br#"],"next_cursor":"#);
        serde_json::to_writer(&mut self.text, &next_cursor).map_err(|problem| internal(&problem))?;
        self.text.push(b'}');
        self.text.shrink_to_fit();
        Ok(([(CONTENT_TYPE, "application/json")], self.text).into_response())
    }
}

/// A page of a list that is at hand, from where the page before ended.
///
/// # Errors
/// When a row cannot be written.
pub(crate) fn page<T: Serialize>(
    rows: impl IntoIterator<Item = T>,
    limit: PageLimit,
    cursor: impl Fn(&T) -> String,
) -> Result<Response, ApiError> {
    let (mut text, mut last) = (PageText::new(), None);
    for row in rows {
        if text.rows == limit.rows() || !text.add(&row)? {
            return text.finish(last);
        }
        last = Some(cursor(&row));
    }
    text.finish(None)
}

/// The rows behind the one that a cursor names, for short lists whose order is not that of their cursors.
///
/// # Errors
/// When there is no such row any more.
pub(crate) fn behind<T>(
    mut rows: Vec<T>,
    cursor: Option<&str>,
    key: impl Fn(&T) -> String,
) -> Result<Vec<T>, ApiError> {
    let Some(cursor) = cursor else { return Ok(rows) };
    let place = rows.iter().position(|row| key(row) == cursor);
    let place = place.ok_or_else(|| {
        wrong_field("cursor", "it does not name a row of this list").hint("begin again without a cursor")
    })?;
    Ok(rows.split_off(place + 1))
}

/// A page that was read with few enough rows for its text; otherwise how many rows to read it again with.
///
/// For lists whose cursors are known for whole pages only, and whose rows are never so large that reading them is a
/// matter.
///
/// # Errors
/// When a row cannot be written.
pub(crate) fn whole<T: Serialize>(
    rows: &[T],
    limit: usize,
    next_cursor: Option<String>,
) -> Result<Result<Response, usize>, ApiError> {
    let mut text = PageText::new();
    for row in rows {
        if !text.add(row)? {
            return Ok(Err((limit / 2).max(1)));
        }
    }
    text.finish(next_cursor).map(Ok)
}

/// A page that is read from the store in steps, each as large as what was read before allows.
#[derive(Debug)]
pub(crate) struct PageSteps<K> {
    text: PageText,
    /// Rows that are looked at, and of these those that are shown, at most.
    limit: usize,
    wanted: usize,
    /// The last row that was looked at.
    last: Option<K>,
    looked_at: usize,
    bytes: usize,
    /// Rows of the next step, were they small: the first is one, and each is at most twice as long as the one before.
    step: usize,
    /// There is no more, or no room for more.
    ended: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// More follows.
    Full,
    /// Nothing follows.
    Last,
}

impl<K: Clone + ToString> PageSteps<K> {
    pub(crate) fn new(limit: Option<PageLimit>, after: Option<K>) -> Self {
        let limit = limit.unwrap_or_default().rows();
        let (text, wanted) = (PageText::new(), limit);
        Self { text, limit, wanted, last: after, looked_at: 0, bytes: 0, step: 1, ended: None }
    }

    /// For a list of which conditions leave out most: up to `most` rows are looked at for those that are shown.
    pub(crate) fn picking(limit: Option<PageLimit>, after: Option<K>, most: usize) -> Self {
        let steps = Self::new(limit, after);
        Self { limit: steps.limit.max(most), ..steps }
    }

    /// What to read next; none when the page is done.
    pub(crate) fn next(&self) -> Option<PageRequest<K>> {
        if self.ended.is_some() {
            return None;
        }
        let mean = self.bytes / self.looked_at.max(1);
        let limit = self.step.min(STEP_BYTES / mean.max(1)).clamp(1, self.limit - self.looked_at);
        Some(PageRequest { limit, after: self.last.clone() })
    }

    /// Takes what was read: `row` tells a row's key, how many bytes it had, and what of it is shown, if anything.
    pub(crate) fn take<T, R: Serialize>(
        &mut self,
        found: Page<T, K>,
        mut row: impl FnMut(T) -> (K, usize, Option<R>),
    ) -> Result<(), ApiError> {
        for one in found.items {
            let (key, bytes, shown) = row(one);
            if let Some(shown) = shown
                && !self.text.add(&shown)?
            {
                self.ended = Some(End::Full);
                return Ok(());
            }
            self.last = Some(key);
            self.looked_at += 1;
            self.bytes += bytes;
            if self.text.rows >= self.wanted && self.looked_at < self.limit {
                self.ended = Some(End::Full);
                return Ok(());
            }
        }
        self.step = (self.step * 2).min(STEP_ROWS);
        if found.next.is_none() {
            self.ended = Some(End::Last);
        } else if self.looked_at >= self.limit || self.bytes >= MOST_READ {
            self.ended = Some(End::Full);
        }
        Ok(())
    }

    /// The whole answer.
    pub(crate) fn finish(self) -> Result<Response, ApiError> {
        let next = self.last.filter(|_| self.ended == Some(End::Full));
        self.text.finish(next.map(|key| key.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde_json::Value;

    use super::*;

    async fn read(response: Response) -> (usize, Value) {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (bytes.len(), serde_json::from_slice(&bytes).unwrap())
    }

    fn limit(rows: u32) -> PageLimit {
        PageLimit::try_from(rows).unwrap()
    }

    /// Reads a list of rows of these sizes to its end; answers the rows of each page and the largest step.
    async fn pages(sizes: &[usize], rows: u32, shown: bool) -> (Vec<usize>, usize) {
        let (mut pages, mut after, mut largest) = (Vec::new(), None, 0);
        loop {
            let mut steps = PageSteps::<usize>::new(Some(limit(rows)), after);
            while let Some(request) = steps.next() {
                let first = request.after.map_or(0, |last| last + 1);
                let end = sizes.len().min(first + request.limit);
                largest = largest.max(sizes[first..end].iter().sum());
                let next = (end < sizes.len()).then(|| end - 1);
                let found = Page { items: (first..end).collect(), next };
                let text = |row: usize| shown.then(|| "x".repeat(sizes[row]));
                steps.take(found, |row| (row, sizes[row], Some((row, text(row))))).unwrap();
            }
            let (bytes, page) = read(steps.finish().unwrap()).await;
            let items = page["items"].as_array().unwrap();
            assert!(bytes <= MOST_BYTES + 100 || items.len() == 1, "{bytes} bytes in {} rows", items.len());
            let begun = pages.iter().sum::<usize>();
            for (place, row) in items.iter().enumerate() {
                assert_eq!(row[0], begun + place, "no row is left out, none comes twice");
            }
            pages.push(items.len());
            let Some(next) = page["next_cursor"].as_str() else { return (pages, largest) };
            after = Some(next.parse().unwrap());
        }
    }

    #[tokio::test]
    async fn pages_are_bounded_in_rows_and_in_bytes() {
        assert_eq!(pages(&[], 50, true).await.0, [0]);
        assert_eq!(pages(&[10; 50], 50, true).await.0, [50]);
        assert_eq!(pages(&[10; 51], 50, true).await.0, [50, 1]);
        assert_eq!(pages(&[10; 2_000], 1_000, true).await.0, [1_000, 1_000]);
        // Large rows: what is shown fills the page, and one that fills it alone is shown alone.
        assert_eq!(pages(&[400_000; 5], 50, true).await.0, [2, 2, 1]);
        assert_eq!(pages(&[10, 3_000_000, 10], 50, true).await.0, [1, 1, 1]);
        // Large rows of which little is shown: what is read is bounded, and no step after the first is large.
        let (rows, largest) = pages(&[1_000_000; 100], 1_000, false).await;
        assert_eq!(rows, [17, 17, 17, 17, 17, 15]);
        assert_eq!(largest, 1_000_000);
        // The worst: small rows promise more of their kind, and large ones follow.
        let mut sizes = vec![100; 63];
        sizes.extend([1_000_000; 100]);
        assert_eq!(pages(&sizes, 1_000, false).await.1, STEP_ROWS * 1_000_000);
    }

    #[tokio::test]
    async fn a_list_at_hand_goes_on_behind_its_cursor() {
        let rows = |from: usize| (from..7).map(|number| format!("{number}"));
        let (_, first) = read(page(rows(0), limit(5), String::clone).unwrap()).await;
        assert_eq!((first["items"].as_array().unwrap().len(), &first["next_cursor"]), (5, &Value::from("4")));
        let (_, last) = read(page(rows(5), limit(5), String::clone).unwrap()).await;
        assert_eq!((last["items"].as_array().unwrap().len(), &last["next_cursor"]), (2, &Value::Null));
        let (_, exact) = read(page(rows(2), limit(5), String::clone).unwrap()).await;
        assert_eq!(exact["next_cursor"], Value::Null);
    }

    #[tokio::test]
    async fn a_page_that_is_too_long_is_read_again_with_fewer_rows() {
        let rows = vec!["x".repeat(10_000); 200];
        assert_eq!(whole(&rows, 200, None).unwrap().unwrap_err(), 100);
        let response = whole(&rows[..100], 100, Some("99".to_owned())).unwrap().unwrap();
        assert_eq!(read(response).await.1["next_cursor"], "99");
        let large = vec!["x".repeat(3_000_000)];
        assert!(whole(&large, 1, None).unwrap().is_ok(), "one row is always told");
    }
}
