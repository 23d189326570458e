//! The project of a workspace.

use std::collections::HashSet;

use crate::definition::{NamedModule, ProjectDefinition};
use crate::limits;
use crate::read::{Excerpt, Fields, Node};
use crate::tools::is_project_name;

pub(super) fn read(fields: &Fields<'_, '_>) -> ProjectDefinition {
    let mut seen = HashSet::new();
    let modules = fields.list("modules", limits::PROJECT_MODULES_MAX, |node| {
        let module = module(&node)?;
        if !seen.insert(module.name.clone()) {
            let name = Excerpt(&module.name);
            node.refuse(format_args!("the module `{name}` is named twice"));
        }
        Some(module)
    });
    if !fields.has("modules") {
        fields.refuse("modules", "is required");
    }
    let timeout_ms = fields.integer("timeoutMs", 100..=120_000);
    let max_output_bytes = fields.integer(
        "maxOutputBytes",
        1024..=ProjectDefinition::MAX_OUTPUT_BYTES as u64,
    );
    let credential_ttl_seconds = fields.integer("credentialTtlSeconds", 1..=600);
    fields.refuse_unread();
    let bytes = max_output_bytes.and_then(|bytes| usize::try_from(bytes).ok());
    ProjectDefinition {
        modules: modules.unwrap_or_default(),
        timeout_ms: timeout_ms.unwrap_or(ProjectDefinition::TIMEOUT_MS),
        max_output_bytes: bytes.unwrap_or(ProjectDefinition::MAX_OUTPUT_BYTES),
        credential_ttl_seconds: credential_ttl_seconds
            .unwrap_or(ProjectDefinition::CREDENTIAL_TTL_SECONDS),
    }
}

fn module(node: &Node<'_, '_>) -> Option<NamedModule> {
    let fields = node.fields()?;
    let name = fields.require("name").as_ref().and_then(name);
    let methods = fields.list("methods", limits::PROJECT_METHODS_MAX, |node| {
        self::name(&node)
    });
    fields.refuse_unread();
    Some(NamedModule {
        name: name?,
        methods,
    })
}

fn name(node: &Node<'_, '_>) -> Option<String> {
    let text = node.string()?;
    if !is_project_name(text) {
        let wanted = "expected 1 to 32 of a-z, 0-9 and _, beginning with a letter";
        node.refuse(format_args!("{wanted}, got `{}`", Excerpt(text)));
        return None;
    }
    Some(text.to_owned())
}
