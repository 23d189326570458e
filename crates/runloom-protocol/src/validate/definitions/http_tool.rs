//! Tools that are one HTTP request.

use std::collections::BTreeMap;

use super::super::templates;
use super::tool::output_bytes;
use crate::check::documents::document;
use crate::check::web;
use crate::definition::template::{self, Piece};
use crate::definition::{HttpCall, HttpMethod, ResponseMapping};
use crate::limits;
use crate::read::{Excerpt, Fields, Node};

pub(super) fn read(fields: &Fields<'_, '_>) -> Option<HttpCall> {
    let method = fields.get("method").and_then(method);
    let url = fields.require("url").and_then(url_template);
    let headers = headers(fields);
    let query = query(fields);
    let body = document(fields, "body");
    if body.is_some() {
        fields.get("body").as_ref().map(templates::check_inside);
    }
    let response = response(fields);
    let max_response_bytes = output_bytes(fields, "maxResponseBytes");
    Some(HttpCall {
        method: method.unwrap_or_default(),
        url: url?,
        headers,
        query,
        body,
        response,
        max_response_bytes,
    })
}

/// Headers whose values are templates.
fn headers(fields: &Fields<'_, '_>) -> BTreeMap<String, String> {
    web::checked_headers(fields, |name, node| {
        web::refuse_servers_header(name, node);
        templates::check(node);
    })
}

/// A method in upper or lower case.
fn method(node: Node<'_, '_>) -> Option<HttpMethod> {
    let word = node.string()?;
    let is_word = |method: &HttpMethod| method.as_str().eq_ignore_ascii_case(word);
    let method = HttpMethod::ALL.into_iter().find(is_word);
    if method.is_none() {
        let all = HttpMethod::ALL.map(HttpMethod::as_str).join(", ");
        node.refuse(format_args!(
            "expected one of {all}, got `{}`",
            Excerpt(word)
        ));
    }
    method
}

/// A URL whose host has no placeholders: an argument in the host would let the model choose where credentials are sent.
fn url_template(node: Node<'_, '_>) -> Option<String> {
    let text = node.string()?;
    match plain_url(text).and_then(|url| web::check_url(&url).map_err(str::to_owned)) {
        Ok(()) => Some(text.to_owned()),
        Err(message) => {
            node.refuse(message);
            None
        }
    }
}

/// The URL with an `x` for each placeholder.
fn plain_url(text: &str) -> Result<String, String> {
    let mut plain = String::new();
    for piece in template::pieces(text).map_err(|error| error.to_string())? {
        match piece {
            Piece::Text(text) => plain.push_str(text),
            Piece::Argument(_) | Piece::Secret(_) => {
                let is_behind_host = plain
                    .split_once("://")
                    .is_some_and(|(_, rest)| rest.contains(['/', '?']));
                if !is_behind_host {
                    let message =
                        "arguments and secrets may stand only behind the host, after a `/` or `?`";
                    return Err(message.to_owned());
                }
                plain.push('x');
            }
        }
    }
    Ok(plain)
}

fn query(fields: &Fields<'_, '_>) -> BTreeMap<String, String> {
    let mut query = BTreeMap::new();
    let Some(node) = fields.get("query") else {
        return query;
    };
    let Some(fields) = node.fields() else {
        return query;
    };
    node.has_entries_within(fields.object().len(), limits::HEADERS_MAX);
    for (name, node) in fields.entries() {
        if let Some(text) = node.string() {
            templates::check(&node);
            query.insert(name.to_owned(), text.to_owned());
        }
    }
    query
}

fn response(fields: &Fields<'_, '_>) -> ResponseMapping {
    let Some(fields) = fields.fields("response") else {
        return ResponseMapping::default();
    };
    let pointer = fields.text("pointer", limits::REFERENCE_MAX_CHARS);
    if pointer.is_some_and(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
        fields.refuse("pointer", "expected a JSON Pointer like `/items/0/name`");
    }
    let text = fields.text("template", limits::DESCRIPTION_MAX_CHARS);
    match text.map(template::pieces) {
        None => {}
        Some(Err(error)) => fields.refuse("template", error),
        // The model's input is stored and streamed, so a secret must not get there.
        Some(Ok(pieces)) if pieces.iter().any(|p| matches!(p, Piece::Secret(_))) => {
            fields.refuse("template", "must not name secrets");
        }
        Some(Ok(_)) => {}
    }
    fields.refuse_unread();
    ResponseMapping {
        pointer: pointer.filter(|text| !text.is_empty()).map(str::to_owned),
        template: text.filter(|text| !text.is_empty()).map(str::to_owned),
    }
}
