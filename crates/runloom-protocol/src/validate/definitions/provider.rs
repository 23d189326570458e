//! Providers and their models.

use std::collections::HashSet;

use serde_json::Value;

use super::super::fields::{Fields, expect, json_bytes, within_count};
use super::super::issues::{Issues, Short};
use super::super::web;
use crate::definition::{ModelDefinition, ModelPrice, ProviderDefinition, ProviderKind};
use crate::limits;
use crate::tools::Object;

pub(super) fn read(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<ProviderDefinition> {
    let known = [
        "slug", "id", "kind", "baseUrl", "apiKey", "headers", "proxy", "models", "options",
    ];
    fields.only(&known, issues);
    let kind = kind(fields, issues);
    let base_url = fields
        .get("baseUrl")
        .and_then(|_| web::url(fields, "baseUrl", issues));
    let api_key = fields.text("apiKey", limits::HEADER_VALUE_MAX_BYTES, issues);
    let headers = web::headers(fields, issues);
    let proxy = fields.text("proxy", limits::URL_MAX_BYTES, issues);
    let models = models(fields, issues);
    let options = options(fields, issues);
    Some(ProviderDefinition {
        kind: kind?,
        base_url,
        api_key: api_key.filter(|key| !key.is_empty()).map(str::to_owned),
        headers,
        proxy: proxy.map(str::to_owned),
        models,
        options,
    })
}

fn kind(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<ProviderKind> {
    fields.require("kind", issues)?;
    let word = fields.str("kind", issues)?;
    let kind = ProviderKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == word);
    if kind.is_none() {
        let all = ProviderKind::ALL.map(ProviderKind::as_str).join(", ");
        let message = format_args!("expected one of {all}, got `{}`", Short(word));
        fields.refuse("kind", message, issues);
    }
    kind
}

fn options(fields: &Fields<'_, '_>, issues: &mut Issues) -> Object {
    let Some(options) = fields.object("options", issues) else {
        return Object::new();
    };
    let (bytes, max) = (json_bytes(options), limits::TOOL_DOCUMENT_MAX_BYTES);
    if bytes > max {
        let message = format_args!("must be at most {max} bytes of JSON, got {bytes}");
        fields.refuse("options", message, issues);
    }
    options.clone()
}

fn models(fields: &Fields<'_, '_>, issues: &mut Issues) -> Vec<ModelDefinition> {
    let Some(array) = fields.array("models", issues) else {
        return Vec::new();
    };
    let path = fields.path.key("models");
    if !within_count(array.len(), limits::PROVIDER_MODELS_MAX, &path, issues) {
        return Vec::new();
    }
    let mut seen = HashSet::new();
    let mut models = Vec::with_capacity(array.len());
    for (index, value) in array.iter().enumerate() {
        let path = path.index(index);
        let Some(fields) = Fields::of(value, &path, issues) else {
            continue;
        };
        let Some(model) = model(&fields, issues) else {
            continue;
        };
        if model.default && models.iter().any(|other: &ModelDefinition| other.default) {
            fields.refuse("default", "only one model can be the default", issues);
        }
        if seen.insert(model.id.clone()) {
            models.push(model);
        } else {
            fields.refuse(
                "id",
                format_args!("`{}` is used twice", Short(&model.id)),
                issues,
            );
        }
    }
    models
}

fn model(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<ModelDefinition> {
    let known = [
        "id",
        "label",
        "contextWindow",
        "maxOutputTokens",
        "reasoning",
        "pricing",
        "default",
    ];
    fields.only(&known, issues);
    let id = fields.required_text("id", limits::REFERENCE_MAX_CHARS, issues);
    let label = fields.text("label", limits::LABEL_MAX_CHARS, issues);
    let tokens = 1..=u64::from(u32::MAX);
    let context_window = fields.integer("contextWindow", tokens.clone(), issues);
    let max_output_tokens = fields.integer("maxOutputTokens", tokens, issues);
    let reasoning = fields
        .get("reasoning")
        .map(|_| fields.flag("reasoning", issues));
    let pricing = pricing(fields, issues);
    let default = fields.flag("default", issues);
    Some(ModelDefinition {
        id: id?.to_owned(),
        label: label.map(str::to_owned),
        context_window,
        max_output_tokens,
        reasoning,
        pricing,
        default,
    })
}

fn pricing(fields: &Fields<'_, '_>, issues: &mut Issues) -> Option<ModelPrice> {
    let object = fields.object("pricing", issues)?;
    let path = fields.path.key("pricing");
    let fields = Fields::new(object, &path);
    fields.only(&["input", "output", "cacheRead"], issues);
    let (input, output) = (
        fields.require("input", issues),
        fields.require("output", issues),
    );
    let input = input.and_then(|value| price(&fields, "input", value, issues));
    let output = output.and_then(|value| price(&fields, "output", value, issues));
    let cache_read = fields
        .get("cacheRead")
        .and_then(|value| price(&fields, "cacheRead", value, issues));
    Some(ModelPrice {
        input: input?,
        output: output?,
        cache_read,
    })
}

fn price(fields: &Fields<'_, '_>, key: &str, value: &Value, issues: &mut Issues) -> Option<f64> {
    let dollars = value
        .as_f64()
        .filter(|number| number.is_finite() && *number >= 0.0);
    let wanted = "a number of US dollars per million tokens, 0 or more";
    expect(dollars, value, &fields.path.key(key), wanted, issues)
}
