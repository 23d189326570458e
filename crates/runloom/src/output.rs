//! The only place that prints. Results go to standard output, everything else to standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

/// Prints a line of the result.
pub(crate) fn line(text: impl AsRef<str>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(shown(text.as_ref(), &stdout).as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Prints a line of the result whose parts have styles. Colours are shown on a terminal only.
pub(crate) fn styled_line(spans: &[Span<'_>]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let is_coloured = colour(&stdout);
    for span in spans {
        let text = shown(span.text, &stdout);
        match span.style.code().filter(|_| is_coloured) {
            Some(code) => write!(stdout, "\u{1b}[{code}m{text}\u{1b}[0m")?,
            None => stdout.write_all(text.as_bytes())?,
        }
    }
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// A part of a line and its style.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'a> {
    /// Control characters are removed from it on a terminal.
    pub(crate) text: &'a str,
    pub(crate) style: Style,
}

/// The style of a [`Span`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Accent,
}

impl Style {
    /// The parameter of the terminal's "select graphic rendition" sequence.
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Bold => Some("1"),
            Self::Accent => Some("36"),
        }
    }
}

/// Prints a piece of the result at once.
pub(crate) fn piece(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(shown(text, &stdout).as_bytes())?;
    stdout.flush()
}

/// Prints one JSON object on one line.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    line(serde_json::to_string(value)?)
}

/// Prints a message to standard error. A closed standard error is not a failure.
pub(crate) fn note(text: impl AsRef<str>) {
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "{}", shown(text.as_ref(), &stderr));
}

/// Prints a dimmed message to standard error, without a line end.
pub(crate) fn faint(text: &str) {
    let mut stderr = io::stderr().lock();
    let text = shown(text, &stderr);
    let _ = if colour(&io::stderr()) {
        write!(stderr, "\u{1b}[2m{text}\u{1b}[0m")
    } else {
        stderr.write_all(text.as_bytes())
    };
    let _ = stderr.flush();
}

/// Prints the error that ends the command.
pub(crate) fn error(text: &str) {
    let mut stderr = io::stderr().lock();
    let text = shown(text, &stderr);
    let _ = if colour(&io::stderr()) {
        writeln!(stderr, "\u{1b}[31merror:\u{1b}[0m {text}")
    } else {
        writeln!(stderr, "error: {text}")
    };
}

/// A table with aligned columns; the last column is not padded.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let print = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (cell, width) in cells.zip(&widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        line(text.trim_end())
    };
    print(&mut head.iter().copied())?;
    for row in rows {
        print(&mut row.iter().map(String::as_str))?;
    }
    Ok(())
}

/// The text as it is printed: on a terminal without control characters, elsewhere unchanged.
fn shown<'a>(text: &'a str, stream: &impl IsTerminal) -> Cow<'a, str> {
    match stream.is_terminal() {
        true => without_controls(text),
        false => Cow::Borrowed(text),
    }
}

/// Removes what a terminal would execute or reorder: C0 and C1 controls except line ends and tabs, and bidirectional
/// controls. Texts of models, tools and users may contain them.
fn without_controls(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    match text.contains(is_hidden) {
        true => Cow::Owned(text.replace(is_hidden, "")),
        false => Cow::Borrowed(text),
    }
}

/// True when standard output is a terminal.
pub(crate) fn is_watched() -> bool {
    io::stdout().is_terminal()
}

/// True when the stream shows colours.
fn colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_terminal_controls() {
        let hostile = "a\u{1b}]52;c;cm0=\u{7}b\u{9b}2Jc\u{202e}d\u{2066}e\r\u{8}f\u{7f}\n\tg é";
        assert_eq!(without_controls(hostile), "a]52;c;cm0=b2Jcdef\n\tg é");
        assert!(matches!(without_controls("plain\n"), Cow::Borrowed(_)));
    }
}
