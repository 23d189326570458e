//! Templates: texts with `{{argument}}`, `{{argument.field}}` and `{{secret:NAME}}`.

use std::fmt;

/// Characters of a secret's name.
const SECRET_NAME_MAX_CHARS: usize = 128;

/// A part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Stands as it is.
    Text(&'a str),
    /// An argument, or a field inside one: names separated by dots.
    Argument(&'a str),
    /// A secret of the workspace.
    Secret(&'a str),
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateError {
    /// `{{` without `}}`.
    Unclosed,
    /// Neither an argument nor a secret.
    NotAName,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unclosed => "has `{{` without `}}`",
            Self::NotAName => {
                "expected `{{argument}}`, `{{argument.field}}` or `{{secret:NAME}}` between double braces"
            }
        })
    }
}

impl std::error::Error for TemplateError {}

/// Takes a template apart.
///
/// # Errors
/// When a `{{` is not closed, or what stands inside is no name.
pub fn pieces(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, behind) = after.split_once("}}").ok_or(TemplateError::Unclosed)?;
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        let name = inside.trim();
        pieces.push(match name.strip_prefix("secret:").map(str::trim) {
            Some(secret) if is_secret_name(secret) => Piece::Secret(secret),
            None if is_argument(name) => Piece::Argument(name),
            _ => return Err(TemplateError::NotAName),
        });
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

/// The secrets that a text names, in order; text in other double braces is passed over.
pub fn secrets(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{").skip(1).filter_map(|part| {
        let (inside, _) = part.split_once("}}")?;
        let name = inside.trim().strip_prefix("secret:")?.trim();
        is_secret_name(name).then_some(name)
    })
}

/// Replaces every `{{secret:NAME}}` and nothing else. Returns the missing name when `lookup` has no value.
///
/// # Errors
/// The name of the first secret that there is not.
pub fn fill_secrets(
    text: &str,
    mut lookup: impl FnMut(&str) -> Option<String>,
) -> Result<String, &str> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let (before, after) = rest.split_at(start);
        filled.push_str(before);
        let found = after[2..].find("}}").and_then(|end| {
            let name = after[2..2 + end].trim().strip_prefix("secret:")?.trim();
            is_secret_name(name).then_some((name, &after[end + 4..]))
        });
        match found {
            Some((name, behind)) => {
                filled.push_str(&lookup(name).ok_or(name)?);
                rest = behind;
            }
            None => {
                filled.push_str("{{");
                rest = &after[2..];
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// `^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= SECRET_NAME_MAX_CHARS
        && name.bytes().next().is_some_and(word)
        && name
            .bytes()
            .all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

fn is_argument(name: &str) -> bool {
    let word = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    };
    name.len() <= 256 && name.split('.').all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_taken_apart() {
        assert_eq!(
            pieces("a {{ city }}/{{a.b-c}} {{secret:KEY}}!").unwrap(),
            [
                Piece::Text("a "),
                Piece::Argument("city"),
                Piece::Text("/"),
                Piece::Argument("a.b-c"),
                Piece::Text(" "),
                Piece::Secret("KEY"),
                Piece::Text("!"),
            ]
        );
        assert_eq!(pieces("").unwrap(), []);
        assert_eq!(pieces("{{a").unwrap_err(), TemplateError::Unclosed);
        for bad in [
            "{{}}",
            "{{a b}}",
            "{{secret:}}",
            "{{secret:a b}}",
            "{{a..b}}",
        ] {
            assert_eq!(pieces(bad).unwrap_err(), TemplateError::NotAName, "{bad}");
        }
    }

    #[test]
    fn only_secrets_are_filled_in() {
        let lookup = |name: &str| (name == "K").then(|| "s3cret {{secret:K}}".to_owned());
        assert_eq!(
            fill_secrets("Bearer {{secret:K}} {{x}} {{ {{secret: K }}", lookup).unwrap(),
            "Bearer s3cret {{secret:K}} {{x}} {{ s3cret {{secret:K}}"
        );
        assert_eq!(fill_secrets("{{secret:NO}}", lookup), Err("NO"));
        assert_eq!(fill_secrets("{{", lookup).unwrap(), "{{");
        let named: Vec<_> = secrets("{{secret:A}}{{b}}{{ secret:C }}{{secret:D").collect();
        assert_eq!(named, ["A", "C"]);
    }
}
