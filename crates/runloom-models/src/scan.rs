//! JSON read in passing, for the one kind of frame of which an answer has thousands: a piece of text.
//!
//! A [`Scan`] builds nothing and copies nothing. It reads exactly what JSON allows and leaves to the full parser (by saying `None`) whatever is
//! unusual: a number with a fraction, an escape in a key, deep nesting, and everything that is not JSON at all. So who uses it
//! needs no words for errors, and no frame means something else because it was scanned.

use std::borrow::Cow;

/// Objects and lists within each other, at most.
const DEPTH: u32 = 8;

/// A place in a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Scan<'a> {
    /// Reads the whole of `data` with `read`. `None` when that gives up, or when something follows.
    pub(crate) fn whole<T>(data: &'a [u8], read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let mut scan = Self {
            text: std::str::from_utf8(data).ok()?,
            at: 0,
            depth: 0,
        };
        let found = read(&mut scan)?;
        scan.blank();
        (scan.at == data.len()).then_some(found)
    }

    /// Reads an object; `member` gets each key and must read its value.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&'a str, &mut Self) -> Option<()>,
    ) -> Option<()> {
        self.list_of(b'{', b'}', |scan| {
            let key = scan.plain_string()?;
            scan.expect(b':')?;
            member(key, scan)
        })
    }

    /// Reads a list; `element` must read each element.
    pub(crate) fn list(&mut self, element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.list_of(b'[', b']', element)
    }

    /// Reads a string.
    pub(crate) fn string(&mut self) -> Option<Cow<'a, str>> {
        let mut probe = *self;
        if let Some(plain) = probe.plain_string() {
            *self = probe;
            return Some(Cow::Borrowed(plain));
        }
        self.blank();
        let start = self.at;
        self.at += 1;
        loop {
            self.at += plain(self.text.as_bytes().get(self.at..)?);
            match self.peek()? {
                b'"' => break,
                // Whatever is escaped is no end; the parser judges it.
                b'\\' => self.at += 2,
                _ => return None,
            }
        }
        self.at += 1;
        let whole = self.text.get(start..self.at)?;
        serde_json::from_str(whole).ok().map(Cow::Owned)
    }

    /// Reads a string without escapes.
    pub(crate) fn plain_string(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let start = self.at;
        let end = start + plain(self.text.as_bytes().get(start..)?);
        if *self.text.as_bytes().get(end)? != b'"' {
            return None;
        }
        self.at = end + 1;
        self.text.get(start..end)
    }

    /// Reads a whole number that is not negative.
    pub(crate) fn number(&mut self) -> Option<u64> {
        self.blank();
        let rest = self.text.get(self.at..)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let found = rest.get(..digits)?;
        if digits > 1 && found.starts_with('0') {
            return None;
        }
        self.at += digits;
        // A fraction, an exponent, a word: not ours.
        match self.peek() {
            None | Some(b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r') => found.parse().ok(),
            _ => None,
        }
    }

    /// Reads over any value.
    pub(crate) fn skip(&mut self) -> Option<()> {
        self.blank();
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' => self.object(|_, scan| scan.skip()),
            b'[' => self.list(Self::skip),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number().map(drop),
        }
    }

    /// True, and read over, when a `null` stands here.
    pub(crate) fn null(&mut self) -> bool {
        self.blank();
        self.peek() == Some(b'n') && self.word("null").is_some()
    }

    fn list_of(
        &mut self,
        opening: u8,
        closing: u8,
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.expect(opening)?;
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        self.blank();
        if self.peek()? == closing {
            self.at += 1;
        } else {
            loop {
                item(self)?;
                self.blank();
                let next = self.peek()?;
                self.at += 1;
                if next == closing {
                    break;
                }
                if next != b',' {
                    return None;
                }
            }
        }
        self.depth -= 1;
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text.get(self.at..)?.strip_prefix(word)?;
        self.at += word.len();
        Some(())
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.blank();
        if self.peek()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    fn blank(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// How many bytes at the front may stand in a JSON string as they are. Looks at eight at a time.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGHEST: u64 = ONES << 7;
    let (eights, _) = bytes.as_chunks::<8>();
    for (index, eight) in eights.iter().enumerate() {
        let eight = u64::from_le_bytes(*eight);
        let zeroes_of = |word: u64| word.wrapping_sub(ONES) & !word;
        let control = eight.wrapping_sub(ONES * 0x20) & !eight;
        let quote = zeroes_of(eight ^ (ONES * u64::from(b'"')));
        let escape = zeroes_of(eight ^ (ONES * u64::from(b'\\')));
        // The lowest mark is right; those above it may come from a borrow.
        let special = (control | quote | escape) & HIGHEST;
        if special != 0 {
            return index * 8 + (special.trailing_zeros() / 8) as usize;
        }
    }
    let rest = &bytes[eights.len() * 8..];
    let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    bytes.len() - rest.len() + rest.iter().position(special).unwrap_or(rest.len())
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
