//! The administrator's side: contacts of owners, and erasing an owner.

use runloom_ports::store::{
    OwnerErasure, ProjectChange, ProjectChanged, ProjectRecord, ProjectWrite, RecordKind,
    RecordQuery, WorkspaceNo,
};
use runloom_project::input::is_email;
use runloom_protocol::error::Issue;
use runloom_protocol::id::UserId;
use runloom_protocol::resource::{Contact, ContactView};

use super::ProjectService;
use crate::error::{Error, Result};

/// Contacts of one owner.
const CONTACTS_MAX: usize = 5_000;

fn check_contact(contact: &Contact, id: &str) -> Result<()> {
    let mut issues = Vec::new();
    let mut refuse = |wrong: bool, path: &str, message: &str| {
        if wrong {
            issues.push(Issue {
                path: path.to_owned(),
                message: message.to_owned(),
            });
        }
    };
    let longer =
        |text: &Option<String>, max| text.as_ref().is_some_and(|text| text.chars().count() > max);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let fits = (1..=100).contains(&id.len()) && id.bytes().all(plain);
    refuse(!fits, "id", "must be 1 to 100 of A-Z, a-z, 0-9, _, - and .");
    let name = contact.name.chars().count();
    refuse(
        !(1..=200).contains(&name),
        "name",
        "must have 1 to 200 characters",
    );
    let email = contact.email.as_deref();
    refuse(
        email.is_some_and(|email| !is_email(email)),
        "email",
        "must be an email address with one @",
    );
    refuse(
        longer(&contact.phone, 50),
        "phone",
        "must have at most 50 characters",
    );
    refuse(
        longer(&contact.note, 1000),
        "note",
        "must have at most 1000 characters",
    );
    if issues.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(issues))
    }
}

impl ProjectService {
    /// Puts a contact of an owner; whether it is new.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::Conflict`] when the owner has too many; [`Error::NotFound`] without the workspace.
    pub async fn put_contact(
        &self,
        workspace: &str,
        owner: &str,
        id: &str,
        mut contact: Contact,
    ) -> Result<(bool, ContactView)> {
        contact.email = contact.email.map(|email| email.to_lowercase());
        check_contact(&contact, id)?;
        check_owner(owner)?;
        let workspace = self.workspace_no(workspace).await?;
        let known = self.contact_record(workspace, owner, id).await?;
        let email = contact.email.as_deref().unwrap_or_default();
        let record = ProjectRecord {
            kind: RecordKind::Contact,
            owner: owner.to_owned(),
            id: id.to_owned(),
            span: None,
            words: format!("{}\n{email}", contact.name).to_lowercase(),
            body: serde_json::to_string(&contact).map_err(Error::internal)?,
            version: known.as_ref().map_or(1, |known| known.version),
        };
        let write = match known {
            Some(_) => ProjectWrite::Update(record),
            None => ProjectWrite::Insert {
                record,
                max: CONTACTS_MAX,
            },
        };
        self.write(workspace, owner, write).await?;
        let view = ContactView {
            id: id.to_owned(),
            contact,
        };
        Ok((known.is_none(), view))
    }

    /// The contacts of an owner, by name.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the workspace.
    pub async fn contacts(&self, workspace: &str, owner: &str) -> Result<Vec<ContactView>> {
        let workspace = self.workspace_no(workspace).await?;
        let query = RecordQuery::of(RecordKind::Contact, owner, CONTACTS_MAX);
        let found = self.store.project_records(workspace, query).await?;
        found.iter().map(view).collect()
    }

    /// One contact.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn contact(&self, workspace: &str, owner: &str, id: &str) -> Result<ContactView> {
        let workspace = self.workspace_no(workspace).await?;
        let found = self.contact_record(workspace, owner, id).await?;
        view(&found.ok_or(Error::NotFound { what: "contact" })?)
    }

    /// Deletes a contact.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn delete_contact(&self, workspace: &str, owner: &str, id: &str) -> Result<()> {
        let workspace = self.workspace_no(workspace).await?;
        let found = self.contact_record(workspace, owner, id).await?;
        let found = found.ok_or(Error::NotFound { what: "contact" })?;
        let write = ProjectWrite::Delete {
            kind: RecordKind::Contact,
            owner: found.owner,
            id: found.id,
        };
        self.write(workspace, owner, write).await
    }

    /// Erases all data of an owner: events with their invites, contacts, memories, and invites to their address. The
    /// memories of the owner `workspace` are the workspace's and stay.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the workspace.
    pub async fn erase_owner(&self, workspace: &str, owner: &str) -> Result<u64> {
        check_owner(owner)?;
        let workspace = self.workspace_no(workspace).await?;
        let email = match owner.split_once(':') {
            Some(("ext", name)) if name.contains('@') => Some(name.to_owned()),
            Some(("user", id)) => match UserId::parse(id) {
                Some(id) => self.store.user(&id).await?.map(|person| person.email),
                None => None,
            },
            _ => None,
        };
        let erasure = OwnerErasure {
            workspace,
            owner: owner.to_owned(),
            email,
        };
        Ok(self.store.erase_project_owner(erasure).await?)
    }

    async fn write(&self, workspace: WorkspaceNo, owner: &str, write: ProjectWrite) -> Result<()> {
        let change = ProjectChange {
            workspace,
            owner: owner.to_owned(),
            receipt: None,
            writes: vec![write],
            now: self.clock.now(),
        };
        let message = match self.store.change_project(change).await? {
            ProjectChanged::Applied | ProjectChanged::Replayed(_) => return Ok(()),
            ProjectChanged::Full => format!("The owner has {CONTACTS_MAX} contacts already."),
            ProjectChanged::Conflict => "The contact was changed meanwhile; try again.".to_owned(),
        };
        Err(Error::Conflict { message })
    }

    async fn contact_record(
        &self,
        workspace: WorkspaceNo,
        owner: &str,
        id: &str,
    ) -> Result<Option<ProjectRecord>> {
        let query = RecordQuery {
            ids: Some(vec![id.to_owned()]),
            ..RecordQuery::of(RecordKind::Contact, owner, 1)
        };
        Ok(self.store.project_records(workspace, query).await?.pop())
    }

    async fn workspace_no(&self, slug: &str) -> Result<WorkspaceNo> {
        let found = self.store.workspace(slug).await?;
        Ok(found.ok_or(Error::NotFound { what: "workspace" })?.no)
    }
}

fn view(record: &ProjectRecord) -> Result<ContactView> {
    let contact = serde_json::from_str(&record.body).map_err(Error::internal)?;
    Ok(ContactView {
        id: record.id.clone(),
        contact,
    })
}

/// Owners are `workspace`, `user:…`, `app:…`, `ext:…` and `key:…`.
fn check_owner(owner: &str) -> Result<()> {
    let known = ["user:", "app:", "ext:", "key:"].iter().any(|prefix| {
        owner
            .strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty())
    });
    if owner == "workspace" || (known && owner.len() <= 200) {
        return Ok(());
    }
    let message = "must be `workspace`, or begin with `user:`, `app:`, `ext:` or `key:`";
    Err(Error::invalid("owner", message))
}
