//! Facts of a model and of compaction as the pure machine needs them.

use runloom_protocol::outcome::{ModelInfo, effort_of_level};
use runloom_protocol::spec::{Compaction, CompactionSettings};

use super::StoredRun;
use crate::catalog::CatalogModel;
use crate::run::{CompactionPlan, ModelFacts, Price};

pub(super) fn model_facts(model: &CatalogModel, level: Option<u8>) -> ModelFacts {
    ModelFacts {
        model: info_of(model, level),
        capabilities: model.model.capabilities(),
        price: price_of(model),
        context_window: model.context_window,
        max_output_tokens: model.max_output_tokens,
    }
}

/// The setting of the spec, or the default: on in sessions.
pub(super) fn compaction_of(stored: &StoredRun) -> Option<Compaction> {
    let default = || Compaction::On(CompactionSettings::default());
    let in_session = stored.session.is_some();
    stored
        .spec
        .compaction
        .clone()
        .or_else(|| in_session.then(default))
}

pub(super) fn compaction_plan(
    stored: &StoredRun,
    summariser: Option<&CatalogModel>,
) -> Option<CompactionPlan> {
    match compaction_of(stored)? {
        Compaction::Off => None,
        Compaction::On(settings) => Some(CompactionPlan {
            at_fraction: settings.at_fraction,
            keep_turns: settings.keep_turns,
            model: summariser.map(|model| model_facts(model, None)),
            instructions: settings.instructions,
        }),
    }
}

pub(super) fn info_of(model: &CatalogModel, level: Option<u8>) -> ModelInfo {
    let effort = level
        .filter(|_| model.model.capabilities().reasoning)
        .map(|level| effort_of_level(level).to_owned());
    ModelInfo {
        id: model.id.clone(),
        provider: model.provider.clone(),
        vendor_model_id: model.vendor_model_id.clone(),
        reasoning_effort: effort,
    }
}

pub(super) fn price_of(model: &CatalogModel) -> Option<Price> {
    model.pricing.map(|price| Price {
        input: price.input_per_1m_usd,
        output: price.output_per_1m_usd,
        cache_read: price
            .cache_read_per_1m_usd
            .unwrap_or(price.input_per_1m_usd),
    })
}
