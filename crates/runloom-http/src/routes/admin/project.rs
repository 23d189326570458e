//! The project of a workspace, and the contacts and data of its owners.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use runloom_ports::store::DocumentKind;
use runloom_protocol::definition::ProjectDefinition;
use runloom_protocol::error::Issue;
use runloom_protocol::resource::{
    self, Contact, ContactList, ContactView, OwnerErased, StoredDocument,
};
use runloom_service::registry::PROJECT;
use serde_json::Value;

use super::documents::{self, Definition};
use super::{TAG, wire};
use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checkable, Checked, QueryPairs, Target};
use crate::operation::{Operation, Parameter, Shape};
use crate::route::Access::Admin;
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    let project = "/api/admin/v1/workspaces/{slug}/project";
    let owner = format!("{project}/owners/{{owner}}");
    let contacts = format!("{owner}/contacts");
    let contact = format!("{contacts}/{{id}}");
    let mut routes = project_routes(project);
    routes.extend([
        Route::delete(
            owner,
            Admin,
            erase_owner,
            Operation::new(TAG, "erase_project_owner", "Erase all data of an owner")
                .about("Events with their invites, contacts, memories, and invites to the address of the owner.")
                .parameters([owner_parameter()])
                .returns(200, "The data is erased.", Shape::json::<OwnerErased>()),
        ),
        Route::get(
            contacts,
            Admin,
            list_contacts,
            Operation::new(TAG, "list_project_contacts", "List the contacts of an owner")
                .parameters([owner_parameter()])
                .returns(200, "The contacts, by name.", Shape::json::<ContactList>()),
        ),
        Route::get(
            contact.as_str(),
            Admin,
            get_contact,
            on_contact("get_project_contact", "Read a contact of an owner")
                .returns(200, "The contact.", Shape::json::<ContactView>()),
        ),
        Route::put(
            contact.as_str(),
            Admin,
            put_contact,
            on_contact("put_project_contact", "Create or replace a contact of an owner")
                .body(Shape::json::<Contact>())
                .errors(&[409])
                .returns(201, "The contact was created.", Shape::json::<ContactView>())
                .returns(200, "The contact was replaced.", Shape::json::<ContactView>()),
        ),
        Route::delete(
            contact,
            Admin,
            delete_contact,
            on_contact("delete_project_contact", "Delete a contact of an owner")
                .errors(&[409])
                .returns(200, "The contact is deleted.", Shape::json::<resource::Ok>()),
        ),
    ]);
    routes
}

fn project_routes(project: &str) -> Vec<Route> {
    let shape = Shape::json::<StoredDocument<ProjectDefinition>>;
    vec![
        Route::get(
            project,
            Admin,
            get_project,
            Operation::new(TAG, "get_project", "Read the project of a workspace")
                .errors(&[400])
                .etag()
                .returns(200, "The project.", shape()),
        ),
        Route::put(
            project,
            Admin,
            put_project,
            Operation::new(
                TAG,
                "put_project",
                "Create or replace the project of a workspace",
            )
            .parameters([documents::if_match(), documents::if_none_match()])
            .body(Shape::json::<ProjectDefinition>())
            .etag()
            .errors(&[409, 412])
            .returns(201, "The project was created.", shape())
            .returns(200, "The project was replaced, or is unchanged.", shape()),
        ),
        Route::delete(
            project,
            Admin,
            delete_project,
            Operation::new(TAG, "delete_project", "Delete the project of a workspace")
                .about("The data of owners stays.")
                .parameters([documents::if_match()])
                .errors(&[409, 412])
                .returns(
                    200,
                    "The project is deleted.",
                    Shape::json::<resource::Ok>(),
                ),
        ),
    ]
}

fn on_contact(id: &str, summary: &str) -> Operation {
    Operation::new(TAG, id, summary)
        .target("The id of the contact.")
        .parameters([owner_parameter()])
}

fn owner_parameter() -> Parameter {
    let about = "The owner: `workspace`, `user:…`, `app:…`, `ext:…` or `key:…`.";
    Parameter::path("owner", about)
}

/// The one project of the workspace in the path.
fn the_project(target: Target) -> Target {
    Target {
        id: PROJECT.to_owned(),
        ..target
    }
}

async fn get_project(app: State<App>, target: Target, query: QueryPairs) -> Answer<Response> {
    documents::get_document(app, the_project(target), query, DocumentKind::Project).await
}

async fn put_project(
    app: State<App>,
    target: Target,
    headers: HeaderMap,
    body: Checked<Definition>,
) -> Answer<Response> {
    let kind = DocumentKind::Project;
    documents::put_document(app, the_project(target), headers, body, kind).await
}

async fn delete_project(
    app: State<App>,
    target: Target,
    headers: HeaderMap,
) -> Answer<Json<resource::Ok>> {
    let kind = DocumentKind::Project;
    documents::delete_document(app, the_project(target), headers, kind).await
}

impl Checkable for Contact {
    const OPERATION: &'static str = "put_project_contact";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        wire::read(body)
    }
}

async fn erase_owner(
    State(app): State<App>,
    Path((slug, owner)): Path<(String, String)>,
) -> Answer<Json<OwnerErased>> {
    let erased = app.service.project().erase_owner(&slug, &owner).await?;
    Ok(Json(OwnerErased { erased }))
}

async fn list_contacts(
    State(app): State<App>,
    Path((slug, owner)): Path<(String, String)>,
) -> Answer<Json<ContactList>> {
    let contacts = app.service.project().contacts(&slug, &owner).await?;
    Ok(Json(ContactList { contacts }))
}

async fn get_contact(
    State(app): State<App>,
    Path((slug, owner, id)): Path<(String, String, String)>,
) -> Answer<Json<ContactView>> {
    let contact = app.service.project().contact(&slug, &owner, &id).await?;
    Ok(Json(contact))
}

async fn put_contact(
    State(app): State<App>,
    Path((slug, owner, id)): Path<(String, String, String)>,
    body: Checked<Contact>,
) -> Answer<(StatusCode, Json<ContactView>)> {
    let project = app.service.project();
    let (created, contact) = project
        .put_contact(&slug, &owner, &id, body.request)
        .await?;
    let status = match created {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(contact)))
}

async fn delete_contact(
    State(app): State<App>,
    Path((slug, owner, id)): Path<(String, String, String)>,
) -> Answer<Json<resource::Ok>> {
    app.service
        .project()
        .delete_contact(&slug, &owner, &id)
        .await?;
    Ok(Json(resource::Ok::default()))
}
