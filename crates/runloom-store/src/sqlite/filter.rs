//! Lists: conditions, labels, pages.

use runloom_ports::store::{Page, RunFilter, SessionFilter, TreeFilter, WorkspaceNo};
use runloom_protocol::id::RunId;
use runloom_protocol::spec::Metadata;
use rusqlite::types::Value;

use super::int;
use super::transaction::Tx;

/// Whose labels.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Run,
    Session,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Session => "session",
        }
    }
}

/// Makes a row findable by its metadata.
pub(super) fn label(
    tx: &Tx<'_>,
    kind: Kind,
    workspace: WorkspaceNo,
    owner: i64,
    metadata: &Metadata,
) -> rusqlite::Result<()> {
    for (label, value) in metadata {
        tx.execute(
            "INSERT INTO labels (workspace, kind, label, value, owner) VALUES (?1, ?2, ?3, ?4, ?5)",
            rusqlite::params![workspace.0, kind.as_str(), label, value, owner],
        )?;
    }
    Ok(())
}

/// Takes a row's labels away.
pub(super) fn unlabel(
    tx: &Tx<'_>,
    kind: Kind,
    workspace: WorkspaceNo,
    owner: i64,
    metadata: &Metadata,
) -> rusqlite::Result<()> {
    for (label, value) in metadata {
        tx.execute(
            "DELETE FROM labels WHERE workspace = ?1 AND kind = ?2 AND label = ?3 AND value = ?4 AND owner = ?5",
            rusqlite::params![workspace.0, kind.as_str(), label, value, owner],
        )?;
    }
    Ok(())
}

/// A `WHERE` clause and its values, over a table whose row number is `no`.
#[derive(Debug, Clone)]
pub(super) struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    /// Which runs.
    pub(super) fn of_runs(workspace: WorkspaceNo, filter: &RunFilter) -> Self {
        let mut conditions = Self::of_workspace("runs", workspace);
        if let Some(status) = filter.status {
            conditions.and("runs.status = ?", [status.as_str().to_owned().into()]);
        }
        if let Some(model) = &filter.model_id {
            conditions.and("runs.model_id = ?", [model.clone().into()]);
        }
        if let Some(agent) = &filter.agent_id {
            conditions.and("runs.agent_id = ?", [agent.clone().into()]);
        }
        if let Some(session) = &filter.session {
            conditions.and(
                "runs.session = (SELECT no FROM sessions WHERE id = ? AND workspace = ?)",
                [session.as_str().to_owned().into(), workspace.0.into()],
            );
        }
        if let Some(owner) = &filter.visible_to {
            conditions.and(
                "(runs.private_to IS NULL OR runs.private_to = ?)",
                [owner.clone().into()],
            );
        }
        let run = |id: &RunId| [id.as_str().to_owned().into(), workspace.0.into()];
        match &filter.tree {
            TreeFilter::Roots => conditions.and("runs.parent IS NULL", []),
            TreeFilter::All => {}
            TreeFilter::ChildrenOf(parent) => conditions.and(
                "runs.parent = (SELECT no FROM runs WHERE id = ? AND workspace = ?)",
                run(parent),
            ),
            TreeFilter::Below(root) => conditions.and(
                "runs.root = (SELECT no FROM runs WHERE id = ? AND workspace = ?)",
                run(root),
            ),
        }
        conditions.labelled("runs", Kind::Run, workspace, &filter.metadata);
        conditions
    }

    /// Which sessions.
    pub(super) fn of_sessions(workspace: WorkspaceNo, filter: &SessionFilter) -> Self {
        let mut conditions = Self::of_workspace("sessions", workspace);
        if let Some(status) = filter.status {
            conditions.and("sessions.status = ?", [status.as_str().to_owned().into()]);
        }
        if let Some(owner) = &filter.visible_to {
            conditions.and(
                "(sessions.private_to IS NULL OR sessions.private_to = ?)",
                [owner.clone().into()],
            );
        }
        conditions.labelled("sessions", Kind::Session, workspace, &filter.metadata);
        conditions
    }

    /// The rest of a statement that counts: `WHERE …`.
    pub(super) fn counting(self) -> (String, Vec<Value>) {
        (self.sql, self.values)
    }

    /// The rest of a statement that lists: `WHERE … ORDER BY … LIMIT …`, newest first.
    pub(super) fn listing(mut self, table: &str, page: Page) -> (String, Vec<Value>) {
        if let Some(before) = page.before {
            self.and(&format!("{table}.no < ?"), [before.into()]);
        }
        self.sql
            .push_str(&format!(" ORDER BY {table}.no DESC LIMIT ? OFFSET ?"));
        self.values.push(int(page.limit as u64).into());
        self.values.push(int(page.offset as u64).into());
        (self.sql, self.values)
    }

    fn of_workspace(table: &str, workspace: WorkspaceNo) -> Self {
        Self {
            sql: format!(" WHERE {table}.workspace = ?"),
            values: vec![workspace.0.into()],
        }
    }

    fn labelled(
        &mut self,
        table: &str,
        kind: Kind,
        workspace: WorkspaceNo,
        labels: &[(String, String)],
    ) {
        for (label, value) in labels {
            self.and(
                &format!(
                    "{table}.no IN (SELECT owner FROM labels
                         WHERE workspace = ? AND kind = ? AND label = ? AND value = ?)"
                ),
                [
                    workspace.0.into(),
                    kind.as_str().to_owned().into(),
                    label.clone().into(),
                    value.clone().into(),
                ],
            );
        }
    }

    fn and<const N: usize>(&mut self, condition: &str, values: [Value; N]) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values);
    }
}
