//! Fields that this server does not know.

use crate::read::{FieldPath, Fields};

/// Warnings at most: a body of unknown fields needs no list of them all.
pub(crate) const WARNINGS_MAX: usize = 20;

/// What becomes of fields that this server does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    /// An error: a definition is written by hand, so an unknown field is a mistake.
    Refused,
    /// A warning: a request may come from an SDK of another version.
    Ignored,
}

impl UnknownFields {
    /// Reports the fields that nobody has read.
    pub(crate) fn check(self, fields: &Fields<'_, '_>) {
        match self {
            Self::Refused => fields.refuse_unread(),
            Self::Ignored => warn(fields),
        }
    }

    /// As [`Self::check`], for objects that hold limits: a misspelt field is always an error, because the caller would
    /// believe the limit is active.
    pub(crate) fn check_limits(self, fields: &Fields<'_, '_>) {
        match self {
            Self::Refused => fields.refuse_unread(),
            Self::Ignored => {
                fields.refuse_misspelt();
                warn(fields);
            }
        }
    }
}

fn warn(fields: &Fields<'_, '_>) {
    let at = |key| FieldPath::key(fields.path(), key).to_string();
    for (key, _) in fields.unread().take(WARNINGS_MAX) {
        let hint = fields
            .misspelling_of(key)
            .map(|known| format!("; did you mean `{}`?", at(known)))
            .unwrap_or_default();
        let message = format_args!("`{}` is not read by this server{hint}", at(key));
        fields.warn(key, message);
    }
}
