//! `compaction` of a spec.

use crate::check::reference::model_id;
use crate::check::unknown::UnknownFields;
use crate::limits;
use crate::read::Fields;
use crate::spec::{Compaction, CompactionSettings};

const FRACTION: &str = "atFraction";

pub(super) fn compaction(fields: &Fields<'_, '_>, unknown: UnknownFields) -> Option<Compaction> {
    let node = fields.get("compaction")?;
    match node.value().as_bool() {
        Some(false) => return Some(Compaction::Off),
        Some(true) => return Some(Compaction::On(CompactionSettings::default())),
        None => {}
    }
    node.expect("`true`, `false` or an object", node.value().as_object())?;
    let fields = node.fields()?;
    let default = CompactionSettings::default();
    let at_fraction = fields.get(FRACTION).and_then(|node| {
        let number = node.expect("a number", node.value().as_f64())?;
        let range = limits::COMPACTION_FRACTION_MIN..=limits::COMPACTION_FRACTION_MAX;
        if !range.contains(&number) {
            let (min, max) = (range.start(), range.end());
            node.refuse(format_args!("must be from {min} to {max}, got {number}"));
        }
        Some(number)
    });
    let settings = CompactionSettings {
        at_fraction: at_fraction.unwrap_or(default.at_fraction),
        keep_turns: fields
            .integer("keepTurns", 0..=limits::COMPACTION_KEEP_TURNS_MAX)
            .unwrap_or(default.keep_turns),
        model_id: model_id(&fields, "modelId"),
        instructions: fields
            .text("instructions", limits::COMPACTION_INSTRUCTIONS_MAX_CHARS)
            .filter(|text| !text.trim().is_empty())
            .map(str::to_owned),
    };
    unknown.check(&fields);
    Some(Compaction::On(settings))
}
