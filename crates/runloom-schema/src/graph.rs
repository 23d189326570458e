//! Which subschema applies where: the schema as a graph whose edges are the applying keywords and the references.
//!
//! The graph serves measuring only, so it errs on the side of more edges: keywords of all drafts count.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::error::{SchemaError, SchemaErrorKind};
use crate::limits::{MAX_PATTERN_BYTES, MAX_PATTERNS};
use crate::measure;

pub(super) type NodeId = usize;

/// One subschema.
#[derive(Default)]
pub(super) struct Node {
    /// JSON pointer.
    pub(super) pointer: String,
    /// Apply to the same value.
    pub(super) in_place: Vec<NodeId>,
    /// Apply to the property of that name.
    pub(super) named: HashMap<String, NodeId>,
    /// Applies to properties that `named` does not have.
    pub(super) unnamed: Option<NodeId>,
    /// May apply to any property.
    pub(super) properties: Vec<NodeId>,
    /// Apply to names of properties.
    pub(super) names: Vec<NodeId>,
    /// Applies to the item of that index.
    pub(super) prefix: Vec<NodeId>,
    /// May apply to any item.
    pub(super) items: Vec<NodeId>,
    /// How often `in_place` is gone through: once, or more to learn what is left for `unevaluated…`.
    pub(super) passes: u64,
    /// What a visit costs: one, and one for each value to compare with.
    pub(super) weight: u64,
    /// Regular expressions that run on the value or on the names of its properties.
    pub(super) patterns: u64,
}

/// A schema, taken apart.
pub(super) struct Graph {
    /// The root is the first.
    pub(super) nodes: Vec<Node>,
    /// One per node; filled in after the graph was read.
    pub(super) fan_out: Vec<FanOut>,
    /// Every regular expression.
    pub(super) patterns: Vec<String>,
    /// Pointers of identifiers that mean nothing and that some drafts refuse.
    pub(super) idle_ids: Vec<String>,
}

/// A subschema with everything that applies to the same value because of it.
#[derive(Clone, Copy)]
pub(super) struct FanOut {
    /// Subschemas.
    pub(super) applied: u64,
    /// The same, each with its weight: long enums cost but are no fan-out.
    pub(super) visits: u64,
    /// Runs of a regular expression.
    pub(super) patterns: u64,
    /// Longest chain.
    pub(super) depth: u32,
}

/// Takes a schema apart, without its fan-out. Its depth and number of values have been checked.
pub(super) fn read(schema: &Value, draft: jsonschema::Draft) -> Result<Graph, SchemaError> {
    let mut reader = Reader {
        root: schema,
        old_ids: draft <= jsonschema::Draft::Draft7,
        id_keyword: if draft == jsonschema::Draft::Draft4 {
            "id"
        } else {
            "$id"
        },
        nodes: Vec::new(),
        by_pointer: HashMap::new(),
        anchors: HashMap::new(),
        unread: Vec::new(),
        references: Vec::new(),
        patterns: Vec::new(),
        pattern_bytes: 0,
        idle_ids: Vec::new(),
    };
    reader.node(String::new(), schema);
    reader.read_all()?;
    Ok(Graph {
        nodes: reader.nodes,
        fan_out: Vec::new(),
        patterns: reader.patterns,
        idle_ids: reader.idle_ids,
    })
}

struct Reference<'a> {
    from: NodeId,
    keyword: &'static str,
    target: &'a str,
}

struct Reader<'a> {
    root: &'a Value,
    /// Drafts up to 7: `$id: "#name"` is an anchor.
    old_ids: bool,
    id_keyword: &'static str,
    nodes: Vec<Node>,
    by_pointer: HashMap<String, NodeId>,
    anchors: HashMap<&'a str, NodeId>,
    unread: Vec<(NodeId, &'a Value)>,
    references: Vec<Reference<'a>>,
    patterns: Vec<String>,
    pattern_bytes: usize,
    idle_ids: Vec<String>,
}

impl<'a> Reader<'a> {
    fn read_all(&mut self) -> Result<(), SchemaError> {
        loop {
            while let Some((id, value)) = self.unread.pop() {
                if let Value::Object(fields) = value {
                    self.read_schema(id, fields)?;
                }
            }
            let Some(reference) = self.references.pop() else {
                return Ok(());
            };
            let target = self.resolve(&reference)?;
            self.nodes[reference.from].in_place.push(target);
        }
    }

    fn node(&mut self, pointer: String, value: &'a Value) -> NodeId {
        if let Some(id) = self.by_pointer.get(&pointer) {
            return *id;
        }
        let id = self.nodes.len();
        self.nodes.push(Node {
            pointer: pointer.clone(),
            weight: 1,
            passes: 1,
            ..Node::default()
        });
        self.by_pointer.insert(pointer, id);
        self.unread.push((id, value));
        id
    }

    fn child(&mut self, parent: NodeId, tokens: &[&str], value: &'a Value) -> NodeId {
        let mut pointer = self.nodes[parent].pointer.clone();
        for token in tokens {
            pointer.push('/');
            pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
        }
        self.node(pointer, value)
    }

    fn list(&mut self, id: NodeId, keyword: &str, value: &'a Value) -> Vec<NodeId> {
        let items = value.as_array().map_or(&[][..], Vec::as_slice);
        let child = |(index, item): (usize, &'a Value)| {
            self.child(id, &[keyword, &index.to_string()], item)
        };
        items.iter().enumerate().map(child).collect()
    }

    fn map(&mut self, id: NodeId, keyword: &str, value: &'a Value) -> Vec<(&'a str, NodeId)> {
        let fields = value.as_object().into_iter().flatten();
        let schemas = fields.filter(|(_, item)| item.is_object() || item.is_boolean());
        let child = |(name, item): (&'a String, &'a Value)| {
            (name.as_str(), self.child(id, &[keyword, name], item))
        };
        schemas.map(child).collect()
    }

    fn read_schema(
        &mut self,
        id: NodeId,
        fields: &'a Map<String, Value>,
    ) -> Result<(), SchemaError> {
        for (keyword, value) in fields {
            let keyword = keyword.as_str();
            match keyword {
                "allOf" | "anyOf" | "oneOf" => {
                    let nodes = self.list(id, keyword, value);
                    self.nodes[id].in_place.extend(nodes);
                }
                "not" | "if" | "then" | "else" => {
                    let node = self.child(id, &[keyword], value);
                    self.nodes[id].in_place.push(node);
                }
                "dependentSchemas" | "dependencies" => {
                    let nodes = self.map(id, keyword, value);
                    self.nodes[id].in_place.extend(nodes.iter().map(|n| n.1));
                }
                "$ref" | "$dynamicRef" | "$recursiveRef" => self.reference(id, keyword, value),
                "$defs" | "definitions" => {
                    self.map(id, keyword, value);
                }
                "$anchor" | "$dynamicAnchor" => {
                    if let Value::String(name) = value {
                        self.anchors.insert(name, id);
                    }
                }
                "id" | "$id" if keyword == self.id_keyword => self.identifier(id, value)?,
                "$schema" if id != 0 && self.root.get("$schema") != Some(value) => {
                    return Err(SchemaError::new(
                        SchemaErrorKind::Invalid,
                        format!("{}/$schema", self.nodes[id].pointer),
                        "a subschema has another $schema than the whole; only the root may have one",
                    ));
                }
                "properties"
                | "patternProperties"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "propertyNames" => {
                    self.object_keyword(id, keyword, value)?;
                }
                "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "contains" => {
                    self.array_keyword(id, keyword, value);
                }
                "pattern" => {
                    if let Value::String(pattern) = value {
                        self.pattern(id, pattern)?;
                    }
                }
                "enum" | "const" | "required" | "dependentRequired" => {
                    self.nodes[id].weight += measure::count(value);
                }
                _ => {}
            }
        }
        if fields
            .keys()
            .any(|keyword| keyword.starts_with("unevaluated"))
        {
            self.nodes[id].passes = 3;
        }
        Ok(())
    }

    fn object_keyword(
        &mut self,
        id: NodeId,
        keyword: &str,
        value: &'a Value,
    ) -> Result<(), SchemaError> {
        match keyword {
            "properties" => {
                let nodes = self.map(id, keyword, value);
                let named = nodes
                    .into_iter()
                    .map(|(name, node)| (name.to_owned(), node));
                self.nodes[id].named.extend(named);
            }
            "patternProperties" => {
                for (pattern, node) in self.map(id, keyword, value) {
                    self.pattern(id, pattern)?;
                    self.nodes[id].properties.push(node);
                }
            }
            "propertyNames" => {
                let node = self.child(id, &[keyword], value);
                self.nodes[id].names.push(node);
            }
            "additionalProperties" => {
                self.nodes[id].unnamed = Some(self.child(id, &[keyword], value));
            }
            _ => {
                let node = self.child(id, &[keyword], value);
                self.nodes[id].properties.push(node);
            }
        }
        Ok(())
    }

    fn array_keyword(&mut self, id: NodeId, keyword: &str, value: &'a Value) {
        if value.is_array() {
            self.nodes[id].prefix = self.list(id, keyword, value);
        } else {
            let node = self.child(id, &[keyword], value);
            self.nodes[id].items.push(node);
        }
    }

    fn pattern(&mut self, id: NodeId, pattern: &str) -> Result<(), SchemaError> {
        self.nodes[id].patterns += 1;
        self.pattern_bytes += pattern.len();
        self.patterns.push(pattern.to_owned());
        if self.patterns.len() > MAX_PATTERNS || self.pattern_bytes > MAX_PATTERN_BYTES {
            let message = format!(
                "the schema has too many regular expressions; at most {MAX_PATTERNS} with \
                 {MAX_PATTERN_BYTES} bytes in all are allowed"
            );
            let path = self.nodes[id].pointer.clone();
            return Err(SchemaError::new(SchemaErrorKind::TooLarge, path, message));
        }
        Ok(())
    }

    fn identifier(&mut self, id: NodeId, value: &'a Value) -> Result<(), SchemaError> {
        let Value::String(name) = value else {
            return Ok(());
        };
        match name.strip_prefix('#') {
            // Generators write the subschema's own place here; it names nothing.
            Some(place) if place.is_empty() || place.starts_with('/') => {
                self.idle_ids.push(self.nodes[id].pointer.clone());
                Ok(())
            }
            Some(anchor) if self.old_ids => {
                self.anchors.insert(anchor, id);
                Ok(())
            }
            // The root's own address is ignored: nothing but `#…` may be referred to.
            _ if id == 0 => Ok(()),
            _ => Err(SchemaError::new(
                SchemaErrorKind::Reference,
                format!("{}/{}", self.nodes[id].pointer, self.id_keyword),
                "a subschema must not have an address of its own; name it with $anchor or refer to it by \
                 its place, like \"#/$defs/name\"",
            )),
        }
    }

    fn reference(&mut self, from: NodeId, keyword: &str, value: &'a Value) {
        let keyword = match keyword {
            "$ref" => "$ref",
            "$dynamicRef" => "$dynamicRef",
            _ => "$recursiveRef",
        };
        if let Value::String(target) = value {
            self.references.push(Reference {
                from,
                keyword,
                target,
            });
        }
    }

    fn resolve(&mut self, reference: &Reference<'a>) -> Result<NodeId, SchemaError> {
        let fail = |message: String| {
            let path = format!(
                "{}/{}",
                self.nodes[reference.from].pointer, reference.keyword
            );
            Err(SchemaError::new(SchemaErrorKind::Reference, path, message))
        };
        let shown = crate::error::shorten(reference.target);
        let Some(fragment) = reference.target.strip_prefix('#') else {
            return fail(format!(
                "\"{shown}\" leaves the schema; nothing is fetched or read, so include the schema under $defs \
                 and refer to it as \"#/$defs/name\""
            ));
        };
        let Some(fragment) = percent_decode(fragment) else {
            return fail(format!("\"{shown}\" is not a valid reference"));
        };
        if let Some(id) = self.anchors.get(fragment.as_str()) {
            return Ok(*id);
        }
        let root = self.root;
        match root.pointer(&fragment) {
            Some(value) if value.is_object() || value.is_boolean() => {
                Ok(self.node(fragment, value))
            }
            Some(_) => fail(format!("\"{shown}\" does not point to a schema")),
            None => fail(format!("\"{shown}\" points to nothing in this schema")),
        }
    }
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let hex = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}
