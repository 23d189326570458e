//! What a Claude model accepts, by its name.
//!
//! The API differs by model in thinking and forced tools, and rejects (400) what a model does not support. The rule, by
//! the version in the name of the model (`claude-sonnet-4-5-20250929` is 4.5, `claude-3-7-sonnet` is 3.7):
//!
//! | version | thinking on | thinking off | output schema |
//! | --- | --- | --- | --- |
//! | below 4.6, or none in the name | `enabled` with a budget | nothing is sent | hidden tool, forced by `tool_choice` |
//! | 4.6 to 4.9 | `adaptive` with an effort | nothing is sent | hidden tool |
//! | 5.0 (Opus, Sonnet, Haiku) | `adaptive` | `disabled`: it is on by default | hidden tool |
//! | above 5.0: Haiku | `adaptive` | `disabled` | `output_config.format`: forced tools are rejected |
//! | above 5.0: Sonnet | `adaptive` | `between_tools` | `output_config.format` |
//! | above 5.0: all others; Fable and Mythos of any version | `adaptive` | impossible | `output_config.format` |

/// What a Claude model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// How thinking is requested.
    pub(crate) thinking: ThinkingMode,
    /// How thinking is turned off.
    pub(crate) off: ThinkingOff,
    /// Whether `tool_choice` may name a tool, while thinking is off.
    pub(crate) forced_tools: bool,
    /// `max_tokens` if no limit is configured: the API requires one.
    pub(crate) default_max_tokens: u64,
}

/// How thinking is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingMode {
    /// `{"type":"enabled","budget_tokens":n}`.
    Budget,
    /// `{"type":"adaptive"}` with `output_config.effort`.
    Adaptive,
    /// The model does not think.
    Unknown,
}

/// How thinking is turned off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingOff {
    /// By leaving the member out.
    Omit,
    /// `{"type":"disabled"}`.
    Disabled,
    /// `{"type":"between_tools"}`.
    BetweenTools,
    /// The model always thinks.
    Never,
}

impl Dialect {
    /// The dialect of a model, by its name.
    pub(crate) fn of(model: &str) -> Self {
        let family = Family::of(model);
        let version = version_of(model);
        let always = matches!(family, Family::AlwaysThinking);
        let version = match version {
            Some(version) => version,
            None if always => (5, 0),
            None => {
                return Self {
                    thinking: ThinkingMode::Budget,
                    off: ThinkingOff::Omit,
                    forced_tools: true,
                    default_max_tokens: 8_192,
                };
            }
        };
        let thinking = match version {
            (0..=2, _) | (3, 0..=6) => ThinkingMode::Unknown,
            (3, _) | (4, 0..=5) => ThinkingMode::Budget,
            _ => ThinkingMode::Adaptive,
        };
        let off = match (version, family) {
            (_, Family::AlwaysThinking) => ThinkingOff::Never,
            ((0..=4, _), _) => ThinkingOff::Omit,
            ((5, 0), _) | (_, Family::Haiku) => ThinkingOff::Disabled,
            (_, Family::Sonnet) => ThinkingOff::BetweenTools,
            (_, Family::Other) => ThinkingOff::Never,
        };
        Self {
            thinking,
            off,
            forced_tools: !always && version <= (5, 0),
            default_max_tokens: default_max_tokens(version),
        }
    }
}

/// Model families that differ in what they accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Haiku,
    Sonnet,
    AlwaysThinking,
    Other,
}

impl Family {
    fn of(model: &str) -> Self {
        if model.contains("haiku") {
            Self::Haiku
        } else if model.contains("sonnet") {
            Self::Sonnet
        } else if model.contains("fable") || model.contains("mythos") {
            Self::AlwaysThinking
        } else {
            Self::Other
        }
    }
}

/// Within the limit of each generation, with room for thinking.
fn default_max_tokens(version: (u32, u32)) -> u64 {
    match version {
        (0..=2, _) | (3, 0..=4) => 4_096,
        (3, 5..=6) => 8_192,
        _ => 32_000,
    }
}

/// Major and minor version in a model's name: the first number of one or two digits, and the number right after it.
/// Longer numbers are dates; regions and vendors before the name have no digits of their own.
fn version_of(model: &str) -> Option<(u32, u32)> {
    let name = model
        .find("claude")
        .and_then(|at| model.get(at..))
        .unwrap_or(model);
    let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    let major = parts.by_ref().find_map(small_number)?;
    let minor = parts.next().and_then(small_number).unwrap_or(0);
    Some((major, minor))
}

fn small_number(part: &str) -> Option<u32> {
    (part.len() <= 2).then(|| part.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_version_in_every_form_of_name() {
        for (name, version) in [
            ("claude-sonnet-4-5-20250929", Some((4, 5))),
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("claude-opus-4-20250514", Some((4, 0))),
            ("claude-opus-5", Some((5, 0))),
            ("claude-haiku-5-5", Some((5, 5))),
            ("anthropic/claude-opus-4.6", Some((4, 6))),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Some((4, 5))),
            ("anthropic.claude-opus-5-v1:0", Some((5, 0))),
            ("claude-sonnet-4@20250514", Some((4, 0))),
            ("claude-instant", None),
            ("my-proxy-model", None),
        ] {
            assert_eq!(version_of(name), version, "{name}");
        }
    }

    #[test]
    fn selects_what_each_generation_accepts() {
        use ThinkingMode::{Adaptive, Budget, Unknown};
        use ThinkingOff::{BetweenTools, Disabled, Never, Omit};
        for (name, thinking, off, forced) in [
            ("claude-3-5-haiku-20241022", Unknown, Omit, true),
            ("claude-3-7-sonnet-20250219", Budget, Omit, true),
            ("claude-haiku-4-5", Budget, Omit, true),
            ("claude-opus-4-6", Adaptive, Omit, true),
            ("claude-opus-4-8", Adaptive, Omit, true),
            ("claude-opus-5", Adaptive, Disabled, true),
            ("claude-sonnet-5", Adaptive, Disabled, true),
            ("claude-fable-5", Adaptive, Never, false),
            ("claude-mythos-preview", Adaptive, Never, false),
            ("claude-haiku-5-5", Adaptive, Disabled, false),
            ("claude-sonnet-5-5", Adaptive, BetweenTools, false),
            ("claude-opus-5-5", Adaptive, Never, false),
            ("claude-opus-6", Adaptive, Never, false),
            ("unversioned", Budget, Omit, true),
        ] {
            let dialect = Dialect::of(name);
            assert_eq!(
                (dialect.thinking, dialect.off, dialect.forced_tools),
                (thinking, off, forced),
                "{name}"
            );
        }
    }
}
