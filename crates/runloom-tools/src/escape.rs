//! Escaping of values in URLs, JSON strings and markup.

use std::fmt::Write as _;

/// Percent-encodes everything but the unreserved characters of RFC 3986, so that a value cannot end a path segment, a
/// query value or a form field.
pub(crate) fn percent(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Escapes the content of a JSON string, without the quotes.
pub(crate) fn json_string(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Escapes a text or an attribute value of XML and HTML.
pub(crate) fn markup(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => encoded.push_str("&amp;"),
            '<' => encoded.push_str("&lt;"),
            '>' => encoded.push_str("&gt;"),
            '"' => encoded.push_str("&quot;"),
            '\'' => encoded.push_str("&#39;"),
            c => encoded.push(c),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_delimiters() {
        let hostile = "a/../b?c=d&e#f %2e\\\r\n\"'<ä";
        assert_eq!(
            percent(hostile),
            "a%2F..%2Fb%3Fc%3Dd%26e%23f%20%252e%5C%0D%0A%22%27%3C%C3%A4"
        );
        assert_eq!(json_string(hostile), "a/../b?c=d&e#f %2e\\\\\\r\\n\\\"'<ä");
        assert_eq!(markup("<a b='\"&'>"), "&lt;a b=&#39;&quot;&amp;&#39;&gt;");
    }
}
