//! Providers and their models.

use std::collections::HashSet;

use crate::check::documents::object_document;
use crate::check::web;
use crate::definition::{ModelDefinition, ModelPrice, ProviderDefinition};
use crate::limits;
use crate::read::{Excerpt, Fields, Node};

pub(super) fn read(fields: &Fields<'_, '_>) -> Option<ProviderDefinition> {
    let kind = fields.require("kind").and_then(|node| node.keyword());
    let base_url = fields.get("baseUrl").as_ref().and_then(web::url);
    let api_key = fields.text("apiKey", limits::HEADER_VALUE_MAX_BYTES);
    let headers = web::headers(fields);
    let proxy = fields.text("proxy", limits::URL_MAX_BYTES);
    let models = models(fields);
    let allow_unlisted_models = fields.boolean("allowUnlistedModels");
    let options = object_document(fields, "options");
    fields.accept(&["slug", "id"]);
    fields.refuse_unread();
    Some(ProviderDefinition {
        kind: kind?,
        base_url,
        api_key: api_key.filter(|key| !key.is_empty()).map(str::to_owned),
        headers,
        proxy: proxy.map(str::to_owned),
        models,
        allow_unlisted_models,
        options: options.unwrap_or_default(),
    })
}

fn models(fields: &Fields<'_, '_>) -> Vec<ModelDefinition> {
    let mut ids = HashSet::new();
    let mut has_default = false;
    let models = fields.list("models", limits::PROVIDER_MODELS_MAX, |node| {
        let fields = node.fields()?;
        let model = model(&fields)?;
        if model.default && std::mem::replace(&mut has_default, true) {
            fields.refuse("default", "only one model can be the default");
        }
        if !ids.insert(model.id.clone()) {
            fields.refuse("id", format_args!("`{}` is used twice", Excerpt(&model.id)));
            return None;
        }
        Some(model)
    });
    models.unwrap_or_default()
}

fn model(fields: &Fields<'_, '_>) -> Option<ModelDefinition> {
    let id = fields.required_text("id", limits::REFERENCE_MAX_CHARS);
    let label = fields.text("label", limits::LABEL_MAX_CHARS);
    let tokens = 1..=u64::from(u32::MAX);
    let context_window = fields.integer("contextWindow", tokens.clone());
    let max_output_tokens = fields.integer("maxOutputTokens", tokens);
    let reasoning = fields.boolean("reasoning");
    let pricing = fields.fields("pricing").and_then(|fields| pricing(&fields));
    let default = fields.flag("default");
    fields.refuse_unread();
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

fn pricing(fields: &Fields<'_, '_>) -> Option<ModelPrice> {
    let input = fields.require("input").and_then(price);
    let output = fields.require("output").and_then(price);
    let cache_read = fields.get("cacheRead").and_then(price);
    fields.refuse_unread();
    Some(ModelPrice {
        input: input?,
        output: output?,
        cache_read,
    })
}

fn price(node: Node<'_, '_>) -> Option<f64> {
    let wanted = "a number of US dollars per million tokens, 0 or more";
    node.number(wanted, |dollars| dollars >= 0.0)
}
