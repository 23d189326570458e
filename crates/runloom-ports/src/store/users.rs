//! Users who can sign in, and their workspaces.

use async_trait::async_trait;
use runloom_protocol::id::UserId;

use super::{Millis, StoreResult, WorkspaceNo, WorkspaceRow};

/// Users and their memberships.
#[async_trait]
pub trait Users: Send + Sync {
    /// Creates a user, or changes the one with this address. When a user leaves a workspace, the grants they gave
    /// there are deleted, with unredeemed codes. `None` when no user has the address and no password is given.
    async fn put_user(&self, person: UserChange, now: Millis) -> StoreResult<Option<UserRow>>;

    /// One user, by id.
    async fn user(&self, id: &UserId) -> StoreResult<Option<UserRow>>;

    /// One user, by address.
    async fn user_by_email(&self, email: &str) -> StoreResult<Option<UserRow>>;

    /// Everybody, by address.
    async fn users(&self) -> StoreResult<Vec<UserRow>>;

    /// Deletes a user with all their grants; false when there is no such user.
    async fn delete_user(&self, id: &UserId) -> StoreResult<bool>;
}

/// The new state of a user; `None` keeps the present value.
#[derive(Debug, Clone)]
pub struct UserChange {
    /// Row id, used when the address is new.
    pub id: UserId,
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
pub struct UserRow {
    /// Row id.
    pub id: UserId,
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
