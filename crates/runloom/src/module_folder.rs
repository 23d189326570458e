//! A project module as a folder: `module.toml`, `index.md`, and a card `<method>.md` for each action.

use std::path::Path;

use runloom_project::module::{CARD_MAX_BYTES, INDEX_MAX_BYTES, Module, ModuleTexts, method_names};
use runloom_protocol::limits;
use runloom_protocol::tools::is_project_name;
use serde_json::Value;

/// Reads a module's folder.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn read(folder: &Path) -> Result<Module, Vec<String>> {
    let place = folder
        .canonicalize()
        .map_err(|error| vec![format!("{} cannot be read: {error}", folder.display())])?;
    let file = place.join("module.toml");
    let text = bounded(&file, limits::DEFINITION_MAX_BYTES).map_err(|problem| vec![problem])?;
    let body: Value = toml::from_str(&text)
        .map_err(|error| vec![format!("{}: {}", file.display(), error.to_string().trim())])?;
    let mut problems = Vec::new();
    let mut texts = ModuleTexts::default();
    match bounded(&place.join("index.md"), INDEX_MAX_BYTES) {
        Ok(text) => texts.index = text,
        Err(problem) => problems.push(problem),
    }
    for name in method_names(&body)
        .into_iter()
        .filter(|name| is_project_name(name))
    {
        match bounded(&place.join(format!("{name}.md")), CARD_MAX_BYTES) {
            Ok(text) => drop(texts.cards.insert(name, text)),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Module::of_operator(&body, texts, place.clone()).map_err(|problems| {
        let place = place.display();
        let told = problems.iter().map(|problem| format!("{place}: {problem}"));
        told.collect()
    })
}

fn bounded(path: &Path, most: usize) -> Result<String, String> {
    let size = std::fs::metadata(path).map_or(0, |found| found.len());
    if size > most as u64 {
        let path = path.display();
        return Err(format!("{path} has {size} bytes, more than {most}"));
    }
    std::fs::read_to_string(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))
}
