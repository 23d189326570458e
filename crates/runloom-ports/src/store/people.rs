//! People who can sign in, and the workspaces that they belong to.

use async_trait::async_trait;
use runloom_protocol::id::PersonId;

use super::{Millis, StoreResult, WorkspaceNo, WorkspaceRow};

/// People and their memberships.
#[async_trait]
pub trait People: Send + Sync {
    /// Creates a person, or changes the one with this address. Who leaves a workspace takes along what they allowed
    /// apps there, codes that are not redeemed included. `None`: nobody has this address, and without a password
    /// nobody is made.
    async fn put_person(&self, person: PutPerson, now: Millis) -> StoreResult<Option<PersonRow>>;

    /// One person, by id.
    async fn person(&self, id: &PersonId) -> StoreResult<Option<PersonRow>>;

    /// One person, by address.
    async fn person_by_email(&self, email: &str) -> StoreResult<Option<PersonRow>>;

    /// Everybody, by address.
    async fn people(&self) -> StoreResult<Vec<PersonRow>>;

    /// Deletes a person and what they allowed; false when there was nobody.
    async fn delete_person(&self, id: &PersonId) -> StoreResult<bool>;
}

/// A person as they should be; `None` keeps what is there.
#[derive(Debug, Clone)]
pub struct PutPerson {
    /// Row id, used when the address is new.
    pub id: PersonId,
    /// In small letters.
    pub email: String,
    /// For people.
    pub name: Option<String>,
    /// Hash of the password, as argon2 writes it.
    pub password: Option<String>,
    /// The workspaces that they belong to.
    pub workspaces: Option<Vec<WorkspaceNo>>,
}

/// A person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonRow {
    /// Row id.
    pub id: PersonId,
    /// In small letters.
    pub email: String,
    /// For people.
    pub name: String,
    /// Hash of the password.
    pub password: String,
    /// When the password was last set.
    pub password_at: Millis,
    /// The workspaces that they belong to, by slug.
    pub workspaces: Vec<WorkspaceRow>,
    /// Created.
    pub created_at: Millis,
}
