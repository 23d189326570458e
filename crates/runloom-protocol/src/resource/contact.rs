//! Contacts of owners, as the admin API takes and returns them.

use serde::{Deserialize, Serialize};

/// A contact of an owner, which the project tool finds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Contact {
    /// The name, 1 to 200 characters.
    pub name: String,
    /// The email address; stored in lower case.
    #[serde(default)]
    pub email: Option<String>,
    /// The phone number, at most 50 characters.
    #[serde(default)]
    pub phone: Option<String>,
    /// A note, at most 1000 characters.
    #[serde(default)]
    pub note: Option<String>,
}

/// A contact with its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContactView {
    /// The id of the contact.
    pub id: String,
    /// The contact.
    #[serde(flatten)]
    pub contact: Contact,
}

/// The contacts of an owner, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContactList {
    /// The contacts.
    pub contacts: Vec<ContactView>,
}

/// The result of erasing an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnerErased {
    /// The number of erased records.
    pub erased: u64,
}
