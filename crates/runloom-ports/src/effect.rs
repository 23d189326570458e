//! The effect of a tool call on the outside world.

use runloom_protocol::definition::DeclaredEffect;
use serde::{Deserialize, Serialize};

/// The effect of a call, which decides whether it may be repeated after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// No effect; the call may be repeated.
    Read,
    /// Repeating the call changes nothing more; it may be repeated.
    Idempotent,
    /// Every call has an effect; it is never repeated.
    Once,
}

impl From<Effect> for DeclaredEffect {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Read => Self::Read,
            Effect::Idempotent => Self::Idempotent,
            Effect::Once => Self::Once,
        }
    }
}

impl From<DeclaredEffect> for Effect {
    fn from(declared: DeclaredEffect) -> Self {
        match declared {
            DeclaredEffect::Read => Self::Read,
            DeclaredEffect::Idempotent => Self::Idempotent,
            DeclaredEffect::Once => Self::Once,
        }
    }
}
