//! Opaque ids with readable prefixes.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[cfg_attr(feature = "schema", schemars(
            with = "String",
            extend("pattern" = concat!("^", $prefix, "[A-Za-z0-9_-]{1,64}$"))
        ))]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// What every id of this kind starts with.
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id from a unique suffix.
            #[must_use]
            pub fn from_suffix(suffix: impl fmt::Display) -> Self {
                Self(format!("{}{suffix}", Self::PREFIX).into())
            }

            /// Takes an id from outside: the prefix, then 1–64 of `[A-Za-z0-9_-]`.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let suffix = text.strip_prefix(Self::PREFIX)?;
                let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
                (!suffix.is_empty() && suffix.len() <= 64 && suffix.bytes().all(plain)).then(|| Self(text.into()))
            }

            /// The whole id.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

ids! {
    /// The id of a run.
    RunId = "run_";
    /// The id of an approval: a request for a user's decision about a tool call.
    ApprovalId = "apr_";
    /// The id of a session.
    SessionId = "ses_";
    /// The id of a stored agent.
    AgentId = "agent_";
    /// The id of a workspace tool.
    ToolId = "tool_";
    /// The id of a feedback.
    FeedbackId = "fb_";
    /// The id of an API key; not the key itself.
    KeyId = "key_";
    /// The id of a user.
    UserId = "user_";
    /// The id of an OAuth grant.
    GrantId = "grant_";
}
