//! What workspaces remember: listed and forgotten. Remembering is for agents.

use axum::Json;
use axum::extract::State;
use runloom_protocol::resource::{self, MemoriesForgotten, MemoryList};
use runloom_service::error::Error;

use super::TAG;
use crate::app::App;
use crate::error::Answer;
use crate::extract::{QueryPairs, Target};
use crate::operation::{Operation, Parameter, Shape};
use crate::route::Access::Admin;
use crate::route::Route;

/// Memories of one page, unless asked for.
const PAGE: u64 = 50;
const PAGE_MAX: u64 = 200;

/// Days; more than anybody has lived through.
const DAYS_MAX: u64 = 36_500;

pub(super) fn routes() -> Vec<Route> {
    let all = "/api/admin/v1/workspaces/{slug}/memories";
    vec![
        Route::get(
            all,
            Admin,
            list_memories,
            Operation::new(TAG, "list_memories", "List the memories of a workspace")
                .parameters([
                    Parameter::integer("limit", (1, PAGE_MAX), "The size of the page.")
                        .default(PAGE),
                    Parameter::text("cursor", "`nextCursor` of the page before."),
                ])
                .returns(
                    200,
                    "A page of memories, newest first.",
                    Shape::json::<MemoryList>(),
                ),
        ),
        Route::delete(
            all,
            Admin,
            forget_memories,
            Operation::new(TAG, "forget_memories", "Delete old memories")
                .parameters([Parameter::integer(
                    "olderThanDays",
                    (0, DAYS_MAX),
                    "Delete the memories that were not changed for this many days; 0 deletes all.",
                )
                .required()])
                .returns(
                    200,
                    "The number of deleted memories.",
                    Shape::json::<MemoriesForgotten>(),
                ),
        ),
        Route::delete(
            format!("{all}/{{id}}"),
            Admin,
            forget_memory,
            Operation::new(TAG, "forget_memory", "Delete a memory")
                .target("The key of the memory, percent-encoded.")
                .returns(200, "The memory is deleted.", Shape::json::<resource::Ok>()),
        ),
    ]
}

async fn list_memories(
    State(app): State<App>,
    target: Target,
    query: QueryPairs,
) -> Answer<Json<MemoryList>> {
    let limit = query.integer("limit", (1, PAGE_MAX))?.unwrap_or(PAGE);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let cursor = query.text("cursor")?;
    let memory = app.service.memory();
    let (memories, next_cursor) = memory.list(&target.slug, limit, cursor.as_deref()).await?;
    Ok(Json(MemoryList {
        memories,
        next_cursor,
    }))
}

async fn forget_memories(
    State(app): State<App>,
    target: Target,
    query: QueryPairs,
) -> Answer<Json<MemoriesForgotten>> {
    let Some(days) = query.integer("olderThanDays", (0, DAYS_MAX))? else {
        let message = "is required; 0 forgets everything";
        return Err(Error::invalid("olderThanDays", message).into());
    };
    let forgotten = app
        .service
        .memory()
        .forget_older(&target.slug, days)
        .await?;
    Ok(Json(MemoriesForgotten { forgotten }))
}

async fn forget_memory(State(app): State<App>, target: Target) -> Answer<Json<resource::Ok>> {
    app.service
        .memory()
        .forget(&target.slug, &target.id)
        .await?;
    Ok(Json(resource::Ok::default()))
}
