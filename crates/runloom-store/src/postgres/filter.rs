//! Lists: conditions, labels, pages.

use runloom_ports::store::{Page, RunFilter, SessionFilter, TreeFilter, WorkspaceNo};
use runloom_protocol::id::RunId;
use runloom_protocol::spec::Metadata;
use tokio_postgres::types::ToSql;

use super::columns::text;
use super::error::Failure;
use super::int;
use super::pool::Session;

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
pub(super) async fn label(
    session: &Session,
    kind: Kind,
    workspace: WorkspaceNo,
    owner: i64,
    metadata: &Metadata,
) -> Result<(), Failure> {
    if metadata.is_empty() {
        return Ok(());
    }
    let labels: Vec<_> = metadata.keys().map(|label| text(label)).collect();
    let values: Vec<_> = metadata.values().map(|value| text(value)).collect();
    session
        .execute(
            "INSERT INTO labels (workspace, kind, owner, label, value)
             SELECT $1, $2, $3, * FROM unnest($4::TEXT[], $5::TEXT[])",
            &[&workspace.0, &kind.as_str(), &owner, &labels, &values],
        )
        .await?;
    Ok(())
}

/// A value of a condition.
type Value = Box<dyn ToSql + Sync + Send>;

/// A `WHERE` clause and its values, over a table whose row number is `no`.
pub(super) struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    /// Which runs.
    pub(super) fn of_runs(workspace: WorkspaceNo, filter: &RunFilter) -> Self {
        let mut conditions = Self::of_workspace("runs", workspace);
        if let Some(status) = filter.status {
            conditions.and("runs.status = ?", [Box::new(status.as_str()) as Value]);
        }
        if let Some(model) = &filter.model_id {
            conditions.and("runs.model_id = ?", [word(model)]);
        }
        if let Some(agent) = &filter.agent_id {
            conditions.and("runs.agent_id = ?", [word(agent)]);
        }
        if let Some(session) = &filter.session {
            conditions.and(
                "runs.session = (SELECT no FROM sessions WHERE id = ? AND workspace = ?)",
                [word(session.as_str()), Box::new(workspace.0)],
            );
        }
        if let Some(owner) = &filter.visible_to {
            conditions.and(
                "(runs.private_to IS NULL OR runs.private_to = ?)",
                [word(owner)],
            );
        }
        let run = |id: &RunId| [word(id.as_str()), Box::new(workspace.0)];
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
            conditions.and("sessions.status = ?", [Box::new(status.as_str()) as Value]);
        }
        if let Some(owner) = &filter.visible_to {
            conditions.and(
                "(sessions.private_to IS NULL OR sessions.private_to = ?)",
                [word(owner)],
            );
        }
        conditions.labelled("sessions", Kind::Session, workspace, &filter.metadata);
        conditions
    }

    /// The rest of a statement that lists: ` WHERE … ORDER BY … LIMIT …`, newest first.
    pub(super) fn listing(mut self, table: &str, page: Page) -> Self {
        if let Some(before) = page.before {
            self.and(&format!("{table}.no < ?"), [Box::new(before) as Value]);
        }
        let limits: [Value; 2] = [
            Box::new(int(page.limit as u64)),
            Box::new(int(page.offset as u64)),
        ];
        self.add(
            &format!(" ORDER BY {table}.no DESC LIMIT ? OFFSET ?"),
            limits,
        );
        self
    }

    /// The clause.
    pub(super) fn sql(&self) -> &str {
        &self.sql
    }

    /// Its values.
    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values
            .iter()
            .map(|value| &**value as &(dyn ToSql + Sync))
            .collect()
    }

    fn of_workspace(table: &str, workspace: WorkspaceNo) -> Self {
        let mut conditions = Self {
            sql: String::new(),
            values: Vec::new(),
        };
        let workspace: Value = Box::new(workspace.0);
        conditions.add(&format!(" WHERE {table}.workspace = ?"), [workspace]);
        conditions
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
                    "EXISTS (SELECT 1 FROM labels
                         WHERE workspace = ? AND kind = ? AND label = ? AND value = ? AND owner = {table}.no)"
                ),
                [
                    Box::new(workspace.0),
                    Box::new(kind.as_str()),
                    word(label),
                    word(value),
                ],
            );
        }
    }

    fn and<const N: usize>(&mut self, condition: &str, values: [Value; N]) {
        self.sql.push_str(" AND ");
        self.add(condition, values);
    }

    /// Adds SQL with a `?` for each value.
    fn add<const N: usize>(&mut self, sql: &str, values: [Value; N]) {
        let mut number = self.values.len();
        for letter in sql.chars() {
            if letter == '?' {
                number += 1;
                self.sql.push_str(&format!("${number}"));
            } else {
                self.sql.push(letter);
            }
        }
        self.values.extend(values);
    }
}

fn word(word: &str) -> Value {
    Box::new(text(word).into_owned())
}
