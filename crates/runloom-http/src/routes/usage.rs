//! Usage of a workspace.

use axum::Json;
use axum::extract::State;
use runloom_ports::store::Day;
use runloom_protocol::resource::{UsageGroupBy, UsageReport};
use runloom_protocol::scope::Scope::RunsRead;
use runloom_service::UsageRequest;
use runloom_service::error::Error;
use runloom_service::rate::Bucket::Reads;

use super::workspace;
use crate::app::App;
use crate::error::Answer;
use crate::extract::QueryPairs;
use crate::guard::Authenticated;
use crate::operation::{Operation, Parameter, Shape, Tag};
use crate::route::Access::Workspace;
use crate::route::Route;

const TAG: Tag = Tag {
    name: "Usage",
    about: "Tokens and cost of a workspace.",
};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get(
        workspace("/usage"),
        Workspace(Reads, RunsRead),
        get_usage,
        Operation::new(TAG, "get_usage", "Read the usage of the workspace")
            .parameters([
                Parameter::text(
                    "from",
                    "The first day, `2026-10-01` or a time, UTC; default: the first of the month.",
                ),
                Parameter::text("to", "The last day, inclusive; default: today."),
                Parameter::word(
                    "groupBy",
                    &["day", "model", "key"],
                    "How the rows are grouped; default: `day`.",
                ),
            ])
            .returns(200, "Tokens and cost.", Shape::json::<UsageReport>()),
    )]
}

async fn get_usage(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    query: QueryPairs,
) -> Answer<Json<UsageReport>> {
    let group_by = query.word("groupBy", UsageGroupBy::parse, "day, model, key")?;
    let request = UsageRequest {
        from: day(&query, "from")?,
        to: day(&query, "to")?,
        group_by: group_by.unwrap_or(UsageGroupBy::Day),
    };
    Ok(Json(app.service.usage().report(&caller, request).await?))
}

/// A day, or the UTC day of a timestamp.
fn day(query: &QueryPairs, name: &str) -> Answer<Option<Day>> {
    let Some(text) = query.text(name)? else {
        return Ok(None);
    };
    match Day::parse(&text) {
        Some(day) => Ok(Some(day)),
        None => {
            let message = "must be a day like `2026-10-31`, or a moment like `2026-10-31T12:00:00Z`; days are UTC's";
            Err(Error::invalid(name, message).into())
        }
    }
}
