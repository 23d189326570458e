//! Opaque ids with readable prefixes.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// A run.
    RunId = "run_";
    /// A request for a person's decision about a tool call.
    ApprovalId = "apr_";
    /// A session.
    SessionId = "ses_";
    /// A persisted agent.
    AgentId = "agent_";
    /// A workspace tool.
    ToolId = "tool_";
    /// What somebody thought of a run's answer.
    FeedbackId = "fb_";
    /// An API key's row (never the key itself).
    KeyId = "key_";
    /// Somebody who can sign in.
    PersonId = "user_";
    /// What a person, or an app's owner, has allowed an OAuth app.
    GrantId = "grant_";
}
