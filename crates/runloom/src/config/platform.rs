//! `[platform]`: providers of every workspace.

use std::collections::BTreeSet;

use runloom_protocol::definition::ProviderKind;

use super::provider::{self, ProviderConfig};
use super::table_reader::Table;

/// `[platform]`.
#[derive(Debug, Clone)]
pub struct PlatformConfig {
    /// Whether `platform:demo` is offered; `None` = only by `runloom dev`.
    pub demo: Option<bool>,
    /// Providers of every workspace.
    pub providers: Vec<ProviderConfig>,
}

pub(super) fn read(table: &Table<'_>) -> PlatformConfig {
    let config = PlatformConfig {
        demo: table.boolean("demo"),
        providers: provider::read_all(table),
    };
    let mut seen = BTreeSet::from(["demo", "demo-spare"]);
    for provider in &config.providers {
        for model in &provider.models {
            let is_demo = provider.kind == ProviderKind::Demo && model.id == "demo";
            if !is_demo && !seen.insert(&model.id) {
                let id = &model.id;
                table.refuse(
                    "providers",
                    format_args!("two platform models have the id platform:{id}"),
                );
            }
        }
    }
    table.finish();
    config
}
