//! A plugin as a folder: `plugin.toml` or `plugin.json`, and the files that its code tools name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use runloom_protocol::limits;
use serde_json::Value;

/// The files that may be the manifest.
const MANIFESTS: [&str; 2] = ["plugin.toml", "plugin.json"];

/// A plugin folder.
#[derive(Debug)]
pub(crate) struct Folder {
    /// The slug, if the manifest has a name.
    pub(crate) slug: Option<String>,
    /// The manifest with `files`, as the admin API takes it.
    pub(crate) body: Value,
    /// The folder's path without symbolic links.
    pub(crate) place: PathBuf,
}

/// Reads a plugin folder. The caller checks the manifest.
///
/// # Errors
/// All problems of the folder.
pub(crate) fn read(folder: &Path) -> Result<Folder, Vec<String>> {
    let place = folder
        .canonicalize()
        .map_err(|error| vec![format!("{} cannot be read: {error}", folder.display())])?;
    let mut body = manifest(&place).map_err(|problem| vec![problem])?;
    let mut problems = Vec::new();
    let mut files = BTreeMap::new();
    for name in named_files(&body) {
        match file(&place, &name) {
            Ok(text) => drop(files.insert(name, text)),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let slug = body
        .get("slug")
        .or_else(|| body.get("name"))
        .and_then(Value::as_str)
        .map(|name| name.trim_start_matches('@').to_owned());
    if let (Value::Object(object), false) = (&mut body, files.is_empty()) {
        object.insert("files".to_owned(), serde_json::json!(files));
    }
    Ok(Folder { slug, body, place })
}

fn manifest(place: &Path) -> Result<Value, String> {
    let there: Vec<PathBuf> = MANIFESTS
        .iter()
        .map(|name| place.join(name))
        .filter(|path| path.exists())
        .collect();
    let path = match there.as_slice() {
        [one] => one,
        [] => {
            let folder = place.display();
            return Err(format!("{folder} has neither plugin.toml nor plugin.json"));
        }
        _ => {
            let folder = place.display();
            return Err(format!("{folder} has both plugin.toml and plugin.json"));
        }
    };
    let text = bounded(path, limits::DEFINITION_MAX_BYTES as u64)?;
    let parsed = if path.extension().is_some_and(|end| end == "toml") {
        toml::from_str(&text).map_err(|error| error.to_string())
    } else {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    let parsed: Value = parsed.map_err(|error| format!("{}: {}", path.display(), error.trim()))?;
    if !parsed.is_object() {
        return Err(format!("{} must be an object", path.display()));
    }
    Ok(parsed)
}

/// The files that code tools name.
fn named_files(body: &Value) -> Vec<String> {
    let tools = body.get("tools").and_then(Value::as_array);
    let named = |tool: &Value| tool.get("file").and_then(Value::as_str).map(str::to_owned);
    tools.into_iter().flatten().filter_map(named).collect()
}

/// A file inside the folder; a symbolic link must not lead out of it.
fn file(place: &Path, name: &str) -> Result<String, String> {
    let path = place.join(name);
    let real = path
        .canonicalize()
        .map_err(|error| format!("the file {} cannot be read: {error}", path.display()))?;
    if !real.starts_with(place) {
        return Err(format!("the file {name} is outside the plugin's folder"));
    }
    bounded(&real, limits::CODE_SOURCE_MAX_BYTES as u64)
}

fn bounded(path: &Path, most: u64) -> Result<String, String> {
    let size = std::fs::metadata(path).map_or(0, |found| found.len());
    if size > most {
        return Err(format!(
            "{} has {size} bytes, more than {most}",
            path.display()
        ));
    }
    std::fs::read_to_string(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    const TOML: &str =
        "name = \"@math\"\n[[tools]]\ntype = \"code\"\nname = \"add\"\nfile = \"lib/add.js\"\n";

    #[test]
    fn reads_a_manifest_with_its_files() {
        let found = folder(&[
            ("plugin.toml", TOML),
            ("lib/add.js", "return 1"),
            ("other.txt", "x"),
        ]);
        let read = read(found.path()).unwrap();
        assert_eq!(read.slug.as_deref(), Some("math"));
        assert_eq!(
            read.body["files"],
            serde_json::json!({"lib/add.js": "return 1"})
        );
        let json = folder(&[("plugin.json", r#"{"slug": "x", "servers": []}"#)]);
        assert_eq!(super::read(json.path()).unwrap().slug.as_deref(), Some("x"));
    }

    #[test]
    fn reports_problems_of_a_folder() {
        for (files, part) in [
            (vec![], "neither plugin.toml nor plugin.json"),
            (vec![("plugin.toml", ""), ("plugin.json", "{}")], "both"),
            (vec![("plugin.json", "[]")], "must be an object"),
            (vec![("plugin.json", "{")], "plugin.json"),
            (vec![("plugin.toml", "a = ")], "plugin.toml"),
            (vec![("plugin.toml", TOML)], "add.js"),
        ] {
            let found = folder(&files);
            let problems = read(found.path()).unwrap_err();
            assert!(problems[0].contains(part), "{part}: {problems:?}");
        }
        assert!(read(Path::new("/nonexistent/plugin")).is_err());
    }

    #[test]
    fn refuses_files_outside_the_folder() {
        let outside = folder(&[("secret.txt", "x")]);
        let found = folder(&[("plugin.toml", TOML), ("lib/keep", "")]);
        let link = found.path().join("lib/add.js");
        std::os::unix::fs::symlink(outside.path().join("secret.txt"), link).unwrap();
        let problems = read(found.path()).unwrap_err();
        assert!(problems[0].contains("outside"), "{problems:?}");
    }
}
