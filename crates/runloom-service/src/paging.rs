//! Pages of lists and their cursors.

use crate::error::{Error, Result};

/// Bytes of events or messages, as they are stored, that one answer holds; with at least one of them, however large
/// it is.
pub(crate) const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// A page of a list, as a client asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// At most this many.
    pub limit: usize,
    /// Where the page begins, from an earlier page.
    pub cursor: Option<String>,
    /// Rows to pass over after that.
    pub offset: usize,
    /// Whether to count.
    pub include_total: bool,
}

impl PageRequest {
    /// The page for the store, with one row more than asked for: it tells whether there is another page.
    pub(crate) fn for_store(&self) -> Result<runloom_ports::store::Page> {
        let before = match &self.cursor {
            None => None,
            Some(cursor) => Some(parse_cursor(cursor).ok_or_else(|| {
                Error::invalid(
                    "cursor",
                    "is not a cursor of this list: use nextCursor of an earlier page",
                )
            })?),
        };
        Ok(runloom_ports::store::Page {
            before,
            offset: self.offset,
            limit: self.limit + 1,
        })
    }
}

pub(crate) fn parse_cursor(cursor: &str) -> Option<i64> {
    cursor.strip_prefix('c')?.parse().ok()
}

/// Cuts the extra row off; its presence means that the page's last row is where the next page begins.
pub(crate) fn cut_page<T>(
    rows: &mut Vec<T>,
    limit: usize,
    no: impl Fn(&T) -> i64,
) -> Option<String> {
    if rows.len() <= limit {
        return None;
    }
    rows.truncate(limit);
    rows.last().map(|row| cursor_behind(no(row)))
}

/// Where the page begins that follows a row.
pub(crate) fn cursor_behind(no: i64) -> String {
    format!("c{no}")
}
