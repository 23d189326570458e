//! The content of a body: its media type and its schema.

use serde_json::Value;

/// The content of a request or response body.
#[cfg_attr(not(test), expect(dead_code, reason = "read by the generator"))]
pub(crate) struct Shape {
    /// `None` for a response without a body.
    pub(crate) media_type: Option<&'static str>,
    pub(crate) schema: Schema,
}

/// Where the schema of a body comes from.
#[cfg_attr(not(test), expect(dead_code, reason = "read by the generator"))]
pub(crate) enum Schema {
    /// A type of ours.
    Type(TypeSchema),
    /// A schema under a name, for bodies that another protocol defines.
    Named(&'static str, fn() -> Value),
    /// Any text.
    Text,
}

impl Shape {
    /// JSON of a type.
    pub(crate) fn json<T: Described>() -> Self {
        Self::new("application/json", Schema::Type(TypeSchema::of::<T>()))
    }

    /// JSON that another protocol defines.
    pub(crate) fn named_json(name: &'static str, schema: fn() -> Value) -> Self {
        Self::new("application/json", Schema::Named(name, schema))
    }

    /// A form that another protocol defines.
    pub(crate) fn form(name: &'static str, schema: fn() -> Value) -> Self {
        let media_type = "application/x-www-form-urlencoded";
        Self::new(media_type, Schema::Named(name, schema))
    }

    /// Server-sent events whose `data` is JSON of a type.
    pub(crate) fn events<T: Described>() -> Self {
        Self::new("text/event-stream", Schema::Type(TypeSchema::of::<T>()))
    }

    /// Server-sent events whose `data` is JSON that another protocol defines.
    pub(crate) fn named_events(name: &'static str, schema: fn() -> Value) -> Self {
        Self::new("text/event-stream", Schema::Named(name, schema))
    }

    /// A text of this media type.
    pub(crate) fn text(media_type: &'static str) -> Self {
        Self::new(media_type, Schema::Text)
    }

    /// No body.
    pub(crate) fn empty() -> Self {
        Self {
            media_type: None,
            schema: Schema::Text,
        }
    }

    fn new(media_type: &'static str, schema: Schema) -> Self {
        Self {
            media_type: Some(media_type),
            schema,
        }
    }
}

#[cfg(not(test))]
pub(crate) use in_a_server::{Described, TypeSchema};
#[cfg(test)]
pub(crate) use in_the_generator::{Described, TypeSchema};

/// A server generates nothing: every type will do.
#[cfg(not(test))]
mod in_a_server {
    pub(crate) trait Described {}

    impl<T> Described for T {}

    pub(crate) struct TypeSchema;

    impl TypeSchema {
        pub(crate) fn of<T: Described>() -> Self {
            Self
        }
    }
}

/// The generator needs the schema of every type.
#[cfg(test)]
mod in_the_generator {
    use schemars::{JsonSchema, Schema, SchemaGenerator};

    pub(crate) trait Described: JsonSchema {}

    impl<T: JsonSchema> Described for T {}

    #[derive(Clone, Copy)]
    pub(crate) struct TypeSchema(pub(crate) fn(&mut SchemaGenerator) -> Schema);

    impl TypeSchema {
        pub(crate) fn of<T: Described>() -> Self {
            Self(SchemaGenerator::subschema_for::<T>)
        }
    }
}
