//! What a Gemini model accepts, by its name.

/// What a Gemini model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// How thinking is requested.
    pub(crate) thinking: ThinkingMode,
    /// Whether functions and the schema mode work in one request. If not, a request with tools has a hidden function.
    pub(crate) schema_with_tools: bool,
    /// Whether a replayed function call must have its thought signature.
    pub(crate) wants_signatures: bool,
}

/// How thinking is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingMode {
    /// `thinkingLevel` (from 3 on).
    Level(Levels),
    /// `thinkingBudget` in tokens (2.5).
    Budget {
        /// The least the model accepts; 0 = thinking can be turned off.
        least: u64,
    },
    /// The model does not think.
    Unknown,
}

/// The thinking levels of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Levels {
    /// `LOW`, `HIGH` (3.0 Pro).
    LowHigh,
    /// `LOW`, `MEDIUM`, `HIGH` (later Pro).
    FromLow,
    /// `MINIMAL` as well (Flash).
    FromMinimal,
}

impl Dialect {
    /// The dialect of a model, by its name. A name without a version (`gemini-flash-latest`) is the newest one.
    pub(crate) fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        let Some(rest) = name.strip_prefix("gemini-") else {
            // Gemma and tuned models: nothing is known about them.
            return Self {
                thinking: ThinkingMode::Unknown,
                schema_with_tools: false,
                wants_signatures: false,
            };
        };
        let pro = name.contains("pro");
        let thinking = match version(rest) {
            Some((0..=1, _) | (2, 0..=4)) => ThinkingMode::Unknown,
            Some((2, _)) => ThinkingMode::Budget {
                least: if pro { 128 } else { 0 },
            },
            Some((3, 0)) if pro => ThinkingMode::Level(Levels::LowHigh),
            _ if pro => ThinkingMode::Level(Levels::FromLow),
            _ => ThinkingMode::Level(Levels::FromMinimal),
        };
        let new = matches!(thinking, ThinkingMode::Level(_));
        Self {
            thinking,
            schema_with_tools: new,
            wants_signatures: new,
        }
    }
}

/// `3-pro-preview` is 3.0, `2.5-flash` is 2.5, `flash-latest` has none.
fn version(rest: &str) -> Option<(u32, u32)> {
    let number = rest.split('-').next()?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_what_each_generation_accepts() {
        use Levels::{FromLow, FromMinimal, LowHigh};
        use ThinkingMode::{Budget, Level, Unknown};
        for (name, thinking, schema_with_tools) in [
            ("gemini-1.5-pro", Unknown, false),
            ("gemini-2.0-flash", Unknown, false),
            ("gemini-2.5-flash", Budget { least: 0 }, false),
            ("gemini-2.5-flash-lite", Budget { least: 0 }, false),
            ("models/gemini-2.5-pro", Budget { least: 128 }, false),
            ("gemini-3-pro-preview", Level(LowHigh), true),
            ("gemini-3.1-pro-preview", Level(FromLow), true),
            ("gemini-3-flash-preview", Level(FromMinimal), true),
            ("gemini-3.6-flash", Level(FromMinimal), true),
            ("gemini-4-pro", Level(FromLow), true),
            ("gemini-flash-latest", Level(FromMinimal), true),
            ("gemma-3-27b-it", Unknown, false),
        ] {
            let dialect = Dialect::of(name);
            assert_eq!(
                (dialect.thinking, dialect.schema_with_tools),
                (thinking, schema_with_tools),
                "{name}"
            );
        }
    }
}
