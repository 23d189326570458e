//! Input types: JSON Schemas of methods. Checking a value against one, and rendering it as `input_schema`.
//!
//! The walk in `check` knows the keywords that most methods use and says what is wrong without repeating a value.
//! Whatever it does not know is decided by the compiled schema.

mod check;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use runloom_schema::Validator;

use self::check::{dotted, walk};

pub use self::check::is_email;

/// What is wrong with an input, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputIssue {
    /// `start_at`, `invitees[0].email`; empty for the input itself.
    pub path: String,
    /// What would be right.
    pub message: String,
}

/// Maximum number of issues in a failure.
const ISSUES_MAX: usize = 20;

/// Checks that need more than one field.
pub type CrossCheck = fn(&Map<String, Value>) -> Vec<InputIssue>;

/// The type of a method's input.
#[derive(Debug, Clone)]
pub struct InputType {
    schema: Value,
    validator: Validator,
    cross_check: Option<CrossCheck>,
}

impl InputType {
    /// A type of a schema that `additionalProperties: false` was added to where it says nothing.
    ///
    /// # Errors
    /// Why the schema cannot be used.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let mut schema = schema.clone();
        if schema.get("type").and_then(Value::as_str) != Some("object") && !is_union(&schema) {
            return Err("must be a JSON Schema with type = \"object\"".to_owned());
        }
        close(&mut schema);
        let cache = runloom_schema::SchemaCache::new();
        let validator = cache.compile(&schema).map_err(|error| error.to_string())?;
        Ok(Self {
            schema,
            validator,
            cross_check: None,
        })
    }

    /// The same with checks that need more than one field.
    #[must_use]
    pub fn with_cross_check(mut self, check: CrossCheck) -> Self {
        self.cross_check = Some(check);
        self
    }

    /// What is wrong with an input; nothing when it fits.
    #[must_use]
    pub fn issues(&self, input: &Value) -> Vec<InputIssue> {
        let mut issues = Vec::new();
        walk(&self.schema, input, "", &mut issues);
        if issues.is_empty()
            && let Err(violations) = self.validator.check(input)
        {
            issues.extend(violations.into_iter().map(|violation| InputIssue {
                path: dotted(&violation.path),
                message: "does not match the input type of this action".to_owned(),
            }));
        }
        if issues.is_empty()
            && let (Some(check), Value::Object(fields)) = (self.cross_check, input)
        {
            issues = check(fields);
        }
        issues.truncate(ISSUES_MAX);
        issues
    }

    /// `input_schema` for an input: each field as `"<type>[ enum(a|b)][ optional]"`.
    #[must_use]
    pub fn rendered_for(&self, input: &Value) -> Value {
        match union(&self.schema) {
            None => Value::Object(fields_of(&self.schema)),
            Some(union) => union.rendered(input.get(union.tag)),
        }
    }

    /// `input_schema` without an input: of a tagged union the tag.
    #[must_use]
    pub fn rendered(&self) -> Value {
        self.rendered_for(&Value::Null)
    }
}

/// A schema whose variants are told apart by one field.
struct Union<'s> {
    tag: &'s str,
    variants: Vec<(&'s Value, &'s Value)>,
}

impl<'s> Union<'s> {
    fn variant(&self, tag: Option<&Value>) -> Option<&'s Value> {
        let mut variants = self.variants.iter();
        let found = variants.find(|(value, _)| Some(*value) == tag);
        found.map(|(_, variant)| *variant)
    }

    fn words(&self) -> String {
        let words: Vec<&str> = self
            .variants
            .iter()
            .filter_map(|(value, _)| value.as_str())
            .collect();
        words.join("|")
    }

    fn rendered(&self, tag: Option<&Value>) -> Value {
        let words = format!("string enum({})", self.words());
        let mut fields = Map::from_iter([(self.tag.to_owned(), json!(words))]);
        if let Some(variant) = self.variant(tag) {
            for (name, shape) in fields_of(variant) {
                fields.entry(name).or_insert(shape);
            }
        }
        Value::Object(fields)
    }
}

fn is_union(schema: &Value) -> bool {
    union(schema).is_some()
}

/// The tagged union that a schema is: every variant of `oneOf` has the same field with a `const` text.
fn union(schema: &Value) -> Option<Union<'_>> {
    let variants = schema.get("oneOf")?.as_array()?;
    let tag_of = |variant: &'_ Value| -> Option<Vec<String>> {
        let fields = variant.get("properties")?.as_object()?;
        let tagged = fields
            .iter()
            .filter(|(_, field)| field.get("const").is_some_and(Value::is_string));
        Some(tagged.map(|(name, _)| name.clone()).collect())
    };
    let first = variants.first()?;
    let names = tag_of(first)?;
    let shared = names.into_iter().find(|name| {
        variants
            .iter()
            .all(|variant| tag_of(variant).is_some_and(|tags| tags.contains(name)))
    })?;
    let (tag, _) = first
        .get("properties")?
        .as_object()?
        .get_key_value(&shared)?;
    let with_value = |variant: &'_ Value| -> Option<()> {
        variant["properties"][tag.as_str()].get("const").map(drop)
    };
    variants
        .iter()
        .all(|variant| with_value(variant).is_some())
        .then(|| Union {
            tag,
            variants: variants
                .iter()
                .map(|variant| (&variant["properties"][tag.as_str()]["const"], variant))
                .collect(),
        })
}

/// Adds `additionalProperties: false` to every object that says nothing about it.
fn close(schema: &mut Value) {
    let Value::Object(object) = schema else {
        return;
    };
    let combined = ["oneOf", "anyOf", "allOf", "$ref"];
    let is_combined = combined.iter().any(|key| object.contains_key(*key));
    let is_object = object.get("type").and_then(Value::as_str) == Some("object");
    if (object.contains_key("properties") || is_object)
        && !is_combined
        && !object.contains_key("additionalProperties")
    {
        object.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    if let Some(Value::Object(fields)) = object.get_mut("properties") {
        fields.values_mut().for_each(close);
    }
    if let Some(items) = object.get_mut("items") {
        close(items);
    }
    if let Some(Value::Array(variants)) = object.get_mut("oneOf") {
        variants.iter_mut().for_each(close);
    }
}

/// The fields of an object schema, rendered.
fn fields_of(schema: &Value) -> Map<String, Value> {
    let required = required(schema);
    let fields = schema.get("properties").and_then(Value::as_object);
    let rendered = fields.into_iter().flatten().map(|(name, field)| {
        let mut text = type_word(field).to_owned();
        if let Some(words) = enum_words(field) {
            text.push_str(&format!(" enum({words})"));
        }
        if !required.contains(&name.as_str()) {
            text.push_str(" optional");
        }
        (name.clone(), Value::String(text))
    });
    rendered.collect()
}

fn required(schema: &Value) -> Vec<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn enum_words(field: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if let Some(only) = field.get("const") {
        return Some(text(only));
    }
    let words = field.get("enum")?.as_array()?.iter().map(text);
    Some(words.collect::<Vec<_>>().join("|"))
}

/// The types that a schema allows; empty when it does not say.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The type of a field in `input_schema`.
fn type_word(schema: &Value) -> &str {
    let named = types(schema).into_iter().find(|word| *word != "null");
    match (named, schema.get("format").and_then(Value::as_str)) {
        (Some("string"), Some("date")) => "date",
        (Some("string"), Some("date-time")) => "datetime",
        (Some("string"), Some("email")) => "email",
        (Some(word), _) => word,
        (None, _) if schema.get("properties").is_some() => "object",
        (None, _) if schema.get("items").is_some() => "array",
        (None, _) => "string",
    }
}
