//! Parameters of a row: names, types, units, defaults and limits, as schema and decoder.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::{Arguments, FileSettings, ToolError, line_name};

/// The type of a parameter.
#[derive(Debug, Clone, Copy)]
pub enum ParamKind {
    /// Any text.
    String,
    /// One of these words.
    Enum(&'static [&'static str]),
    /// True or false.
    Boolean,
    /// An integer of at least `min`; above `cap` it is reduced, with a note in the reply.
    Integer {
        /// The minimum; less is rejected.
        min: i64,
        /// The maximum; more is reduced to it.
        cap: Option<i64>,
    },
    /// A number of at least `min`; above `cap` it is reduced, with a note in the reply.
    Number {
        /// The minimum; less is rejected.
        min: i64,
        /// The maximum; more is reduced to it.
        cap: Option<i64>,
    },
    /// A list of at least `min` texts.
    Strings {
        /// The minimum length; fewer are rejected.
        min: usize,
    },
    /// A non-empty list of objects with these parameters.
    Objects(&'static [Param]),
    /// An object of texts under any names.
    Map,
}

impl ParamKind {
    /// Reads a number or a boolean that was written as a text, as models and command lines do; leaves any other value.
    fn read(self, value: Value) -> Value {
        let Value::String(text) = &value else { return value };
        let is_meant = |read: &Value| match self {
            Self::Integer { .. } | Self::Number { .. } => read.is_number(),
            Self::Boolean => read.is_boolean(),
            _ => false,
        };
        match serde_json::from_str(text) {
            Ok(read) if is_meant(&read) => read,
            _ => value,
        }
    }
}

/// The conversion from the wire unit to the canonical unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// The same unit.
    One,
    /// From 0 on the wire, from 1 in the canonical field.
    FromZero,
    /// Seconds on the wire, milliseconds in the canonical field.
    Seconds,
}

/// A default for schema and decoding.
#[derive(Debug, Clone, Copy)]
pub enum Preset {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text.
    Str(&'static str),
    /// A list of texts.
    Strings(&'static [&'static str]),
}

impl Preset {
    /// Returns the value as JSON.
    pub fn value(self) -> Value {
        match self {
            Self::Bool(value) => Value::from(value),
            Self::Int(value) => Value::from(value),
            Self::Str(value) => Value::from(value),
            Self::Strings(values) => Value::from(values.to_vec()),
        }
    }
}

/// One parameter of a row.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// The name on the wire.
    pub name: &'static str,
    /// The canonical field.
    pub field: &'static str,
    /// The type.
    pub kind: ParamKind,
    /// Whether it is required.
    pub required: bool,
    /// The default in the schema, if any.
    pub default: Option<Preset>,
    /// Returns the configured default in the wire unit, which replaces `default`.
    pub configured: Option<fn(&FileSettings) -> Option<i64>>,
    /// The description for the model.
    pub description: &'static str,
    /// Accepted names that the schema does not list.
    pub aliases: &'static [&'static str],
    /// The unit conversion.
    pub scale: Scale,
    /// Whether an empty text counts as present.
    pub may_be_empty: bool,
}

impl Param {
    /// Returns an optional parameter.
    pub const fn optional(
        name: &'static str,
        field: &'static str,
        kind: ParamKind,
        description: &'static str,
    ) -> Self {
        Self {
            name,
            field,
            kind,
            required: false,
            default: None,
            configured: None,
            description,
            aliases: &[],
            scale: Scale::One,
            may_be_empty: true,
        }
    }

    /// Returns a required parameter.
    pub const fn required(
        name: &'static str,
        field: &'static str,
        kind: ParamKind,
        description: &'static str,
    ) -> Self {
        Self { required: true, ..Self::optional(name, field, kind, description) }
    }

    /// Returns the parameter with a default.
    #[must_use]
    pub const fn or(self, default: Preset) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Returns the parameter with a default that settings may replace.
    #[must_use]
    pub const fn or_configured(self, configured: fn(&FileSettings) -> Option<i64>) -> Self {
        Self { configured: Some(configured), ..self }
    }

    /// Returns the parameter with aliases.
    #[must_use]
    pub const fn also(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Returns the parameter in another unit.
    #[must_use]
    pub const fn scaled(self, scale: Scale) -> Self {
        Self { scale, ..self }
    }

    /// Returns the parameter with an empty text counted as absent.
    #[must_use]
    pub const fn absent_if_empty(self) -> Self {
        Self { may_be_empty: false, ..self }
    }

    /// Returns the default in the wire unit.
    fn default(&self, settings: &FileSettings) -> Option<Preset> {
        let configured = self.configured.and_then(|configured| configured(settings));
        configured.map(Preset::Int).or(self.default)
    }

    fn schema(&self, settings: &FileSettings) -> Value {
        let mut schema = match self.kind {
            ParamKind::String => json!({ "type": "string" }),
            ParamKind::Enum(words) => json!({ "type": "string", "enum": words }),
            ParamKind::Boolean => json!({ "type": "boolean" }),
            ParamKind::Integer { min, .. } => json!({ "type": "integer", "minimum": min }),
            ParamKind::Number { min, .. } => json!({ "type": "number", "minimum": min }),
            ParamKind::Strings { min: 0 } => {
                json!({ "type": "array", "items": { "type": "string" } })
            }
            ParamKind::Strings { min } => {
                json!({ "type": "array", "minItems": min, "items": { "type": "string" } })
            }
            ParamKind::Map => {
                json!({ "type": "object", "additionalProperties": { "type": "string" } })
            }
            ParamKind::Objects(params) => {
                json!({ "type": "array", "minItems": 1, "items": schema(params, settings) })
            }
        };
        if let Some(object) = schema.as_object_mut() {
            if !self.description.is_empty() {
                object.insert(String::from("description"), Value::from(self.description));
            }
            if let Some(default) = self.default(settings) {
                object.insert(String::from("default"), default.value());
            }
        }
        schema
    }

    /// Decodes one value; `path` names it in messages.
    fn decode(
        &self,
        path: &str,
        value: Value,
        settings: &FileSettings,
        notes: &mut Vec<String>,
    ) -> Result<Value, ToolError> {
        let wrong = |wanted: &str, got: &Value| {
            ToolError::argument(path, format!("must be {wanted}, not {}", type_of(got)))
        };
        match (self.kind, self.kind.read(value)) {
            (ParamKind::String, value @ Value::String(_))
            | (ParamKind::Boolean, value @ Value::Bool(_)) => Ok(value),
            (ParamKind::String, got) => Err(wrong("a string", &got)),
            (ParamKind::Boolean, got) => Err(wrong("true or false", &got)),
            (ParamKind::Enum(words), Value::String(word)) if words.contains(&word.as_str()) => {
                Ok(Value::String(word))
            }
            (ParamKind::Enum(words), got) => Err(ToolError::argument(
                path,
                format!("must be one of {}, not {got}", words.join(", ")),
            )),
            (ParamKind::Integer { min, cap }, got) => match whole(&got) {
                Some(n) => self.bounded(path, n, min, cap, notes),
                None if got.is_number() => Err(ToolError::argument(
                    path,
                    format!("must be a whole number of at most 15 digits, not {got}"),
                )),
                None => Err(wrong("a whole number", &got)),
            },
            (ParamKind::Number { min, cap }, got) => match (whole(&got), got.as_f64()) {
                (Some(n), _) => self.bounded(path, n, min, cap, notes),
                (None, Some(n)) => self.bounded(path, n.ceil() as i64, min, cap, notes),
                (None, None) => Err(wrong("a number", &got)),
            },
            (ParamKind::Strings { min }, Value::Array(items)) if items.len() < min => {
                Err(fewer(path, min))
            }
            (ParamKind::Strings { .. }, Value::Array(items)) => items
                .into_iter()
                .enumerate()
                .map(|(at, item)| match item {
                    Value::String(_) => Ok(item),
                    got => Err(ToolError::argument(
                        &format!("{path}[{at}]"),
                        format!("must be a string, not {}", type_of(&got)),
                    )),
                })
                .collect(),
            (ParamKind::Objects(params), Value::Array(items)) => {
                if items.is_empty() {
                    return Err(fewer(path, 1));
                }
                items
                    .into_iter()
                    .enumerate()
                    .map(|(at, item)| match item {
                        Value::Object(fields) => {
                            let prefix = format!("{path}[{at}].");
                            let fields = decode(params, &prefix, fields, settings, notes)?;
                            let named = |(name, value): (&str, Value)| (name.to_owned(), value);
                            Ok(Value::Object(fields.into_iter().map(named).collect()))
                        }
                        got => Err(ToolError::argument(
                            &format!("{path}[{at}]"),
                            format!("must be an object, not {}", type_of(&got)),
                        )),
                    })
                    .collect()
            }
            (ParamKind::Map, Value::Object(fields)) => {
                match fields.iter().find(|(_, value)| !value.is_string()) {
                    None => Ok(Value::Object(fields)),
                    Some((name, got)) => Err(ToolError::argument(
                        &format!("{path}.{}", line_name(Path::new(name))),
                        format!("must be a string, not {}", type_of(got)),
                    )),
                }
            }
            (ParamKind::Map, got) => Err(wrong("an object", &got)),
            (ParamKind::Strings { .. } | ParamKind::Objects(_), got) => Err(wrong("a list", &got)),
        }
    }

    fn bounded(
        &self,
        path: &str,
        n: i64,
        min: i64,
        cap: Option<i64>,
        notes: &mut Vec<String>,
    ) -> Result<Value, ToolError> {
        if n < min {
            return Err(ToolError::argument(path, format!("must be at least {min}, not {n}")));
        }
        let cut = cap.map_or(n, |cap| n.min(cap));
        if cut < n {
            notes.push(format!("`{path}` was cut from {n} to the maximum of {cut}"));
        }
        Ok(self.canonical(cut))
    }

    /// Converts a number to the canonical unit.
    fn canonical(&self, n: i64) -> Value {
        Value::from(match self.scale {
            Scale::One => n,
            Scale::FromZero => n.saturating_add(1),
            Scale::Seconds => n.saturating_mul(1000),
        })
    }

    /// Returns the default in the canonical unit; the schema has the wire unit.
    fn default_value(&self, settings: &FileSettings) -> Option<Value> {
        self.default(settings).map(|default| match default {
            Preset::Int(n) => self.canonical(n),
            other => other.value(),
        })
    }
}

pub(crate) type Canonical = Vec<(&'static str, Value)>;

pub(crate) fn schema(params: &[Param], settings: &FileSettings) -> Value {
    let properties: Map<String, Value> =
        params.iter().map(|param| (param.name.to_owned(), param.schema(settings))).collect();
    let required: Vec<&str> =
        params.iter().filter(|param| param.required).map(|param| param.name).collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if let Some(object) = schema.as_object_mut() {
        if !required.is_empty() {
            object.insert(String::from("required"), json!(required));
        }
        object.insert(String::from("additionalProperties"), Value::Bool(false));
    }
    schema
}

/// Decodes wire arguments to canonical ones: names, types, units and defaults. `null` counts as absent.
/// Errors name unknown arguments and wrong types; `notes` lists values reduced to a maximum.
pub(crate) fn decode(
    params: &'static [Param],
    prefix: &str,
    mut wire: Arguments,
    settings: &FileSettings,
    notes: &mut Vec<String>,
) -> Result<Canonical, ToolError> {
    refuse_unknown(params, prefix, &wire)?;
    let mut canonical = Canonical::with_capacity(params.len());
    for param in params {
        let is_there = |value: &Value| {
            !value.is_null() && (param.may_be_empty || value.as_str().is_none_or(|s| !s.is_empty()))
        };
        let written = std::iter::once(param.name)
            .chain(param.aliases.iter().copied())
            .find_map(|name| Some((name, wire.shift_remove(name).filter(is_there)?)));
        let path = |name: &'static str| match prefix {
            "" => Cow::Borrowed(name),
            prefix => Cow::Owned(format!("{prefix}{name}")),
        };
        match written {
            Some((name, value)) => {
                let value = param.decode(&path(name), value, settings, notes)?;
                canonical.push((param.field, value));
            }
            None if param.required => {
                return Err(ToolError::argument(&path(param.name), "is missing"));
            }
            None => {
                if let Some(default) = param.default_value(settings) {
                    canonical.push((param.field, default));
                }
            }
        }
    }
    // The rest are aliases of arguments given twice.
    match wire.iter().find(|(_, value)| !value.is_null()) {
        None => Ok(canonical),
        Some((twice, _)) => Err(ToolError::argument(
            &format!("{prefix}{twice}"),
            "is another name of an argument that is given already",
        )),
    }
}

fn refuse_unknown(params: &[Param], prefix: &str, wire: &Arguments) -> Result<(), ToolError> {
    let is_known =
        |name: &str| params.iter().any(|param| param.name == name || param.aliases.contains(&name));
    match wire.keys().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(unknown) => {
            let known: Vec<&str> = params.iter().map(|param| param.name).collect();
            let name = format!("{prefix}{unknown}");
            Err(ToolError::argument(&line_name(Path::new(&name)), "is unknown")
                .hint(format!("known arguments: {}", known.join(", "))))
        }
    }
}

fn fewer(path: &str, min: usize) -> ToolError {
    let items = if min == 1 { String::from("one item") } else { format!("{min} items") };
    ToolError::argument(path, format!("must hold at least {items}"))
}

fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let float = value.as_f64()?;
        (float.fract() == 0.0 && float.abs() < 9.0e15).then_some(float as i64)
    })
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDITS: &[Param] = &[
        Param::required("old", "old_string", ParamKind::String, ""),
        Param::optional("all", "replace_all", ParamKind::Boolean, "").or(Preset::Bool(false)),
    ];
    const PARAMS: &[Param] = &[
        Param::required("file", "path", ParamKind::String, "the file").also(&["path"]),
        Param::optional("line", "offset", ParamKind::Integer { min: 0, cap: Some(10) }, "")
            .scaled(Scale::FromZero),
        Param::optional("mode", "mode", ParamKind::Enum(&["a", "b"]), ""),
        Param::optional("beneath", "root", ParamKind::String, "").absent_if_empty(),
        Param::optional("names", "names", ParamKind::Strings { min: 2 }, ""),
        Param::optional("edits", "edits", ParamKind::Objects(EDITS), ""),
    ];
    const TIMED: &[Param] =
        &[Param::optional("wait", "wait_ms", ParamKind::Number { min: 1, cap: Some(300) }, "")
            .or(Preset::Int(30))
            .scaled(Scale::Seconds)];

    #[track_caller]
    fn check(wire: Value, expected: Result<Value, &str>) {
        let mut notes = Vec::new();
        let wire = wire.as_object().expect("an object").clone();
        let decoded = decode(PARAMS, "", wire, &FileSettings::default(), &mut notes);
        match (decoded, expected) {
            (Ok(decoded), Ok(expected)) => {
                let decoded = decoded.into_iter().map(|(name, value)| (name.to_owned(), value));
                assert_eq!(decoded.collect::<Value>(), expected);
            }
            (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected),
            (decoded, expected) => panic!("{decoded:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn decoding_names_the_argument_that_is_wrong() {
        check(json!({"file": "a"}), Ok(json!({"path": "a"})));
        check(json!({"path": "a", "line": 2.0}), Ok(json!({"path": "a", "offset": 3})));
        check(json!({"file": "a", "line": 99}), Ok(json!({"path": "a", "offset": 11})));
        check(json!({"file": "a", "line": "2"}), Ok(json!({"path": "a", "offset": 3})));
        check(json!({"file": "2"}), Ok(json!({"path": "2"})));
        check(
            json!({"file": "a", "edits": [{"old": "true", "all": "true"}]}),
            Ok(json!({"path": "a", "edits": [{"old_string": "true", "replace_all": true}]})),
        );
        for text in ["", "two", "2 lines", "\"2\"", "[2]", "true"] {
            check(
                json!({"file": "a", "line": text}),
                Err("argument `line` must be a whole number, not a string"),
            );
        }
        check(json!({"file": "a", "mode": null}), Ok(json!({"path": "a"})));
        check(json!({"file": "", "beneath": ""}), Ok(json!({"path": ""})));
        check(json!({"file": "a", "beneath": "b"}), Ok(json!({"path": "a", "root": "b"})));
        check(
            json!({"file": "a", "names": ["b", "c"]}),
            Ok(json!({"path": "a", "names": ["b", "c"]})),
        );
        check(
            json!({"file": "a", "names": ["b"]}),
            Err("argument `names` must hold at least 2 items"),
        );
        check(
            json!({"file": "a", "beneath": 3}),
            Err("argument `beneath` must be a string, not a number"),
        );
        check(json!({}), Err("argument `file` is missing"));
        check(json!({"file": 3}), Err("argument `file` must be a string, not a number"));
        check(json!({"file": "a", "x": 1}), Err("argument `x` is unknown"));
        check(json!({"file": "a", "line": -1}), Err("argument `line` must be at least 0, not -1"));
        check(
            json!({"file": "a", "line": 1.5}),
            Err("argument `line` must be a whole number of at most 15 digits, not 1.5"),
        );
        check(
            json!({"file": "a", "mode": "c"}),
            Err("argument `mode` must be one of a, b, not \"c\""),
        );
        check(
            json!({"file": "a", "edits": []}),
            Err("argument `edits` must hold at least one item"),
        );
        check(
            json!({"file": "a", "edits": [{"old": "x"}, {"all": true}]}),
            Err("argument `edits[1].old` is missing"),
        );
        check(
            json!({"file": "a", "edits": [{"old": "x"}]}),
            Ok(json!({"path": "a", "edits": [{"old_string": "x", "replace_all": false}]})),
        );
    }

    /// Regression: a default in seconds reached the canonical field unconverted.
    #[test]
    fn numbers_and_defaults_are_brought_to_the_canonical_unit() {
        for (wire, expected) in [
            (json!({}), 30_000),
            (json!({"wait": 2}), 2_000),
            (json!({"wait": 1.5}), 2_000),
            (json!({"wait": 301}), 300_000),
        ] {
            let fields = wire.as_object().expect("an object").clone();
            let decoded = decode(TIMED, "", fields, &FileSettings::default(), &mut Vec::new())
                .expect("it decodes");
            assert_eq!(decoded, [("wait_ms", json!(expected))], "{wire}");
        }
        assert_eq!(schema(TIMED, &FileSettings::default())["properties"]["wait"]["default"], 30);
    }

    #[test]
    fn a_cut_value_is_named() {
        let mut notes = Vec::new();
        let wire = json!({"file": "a", "line": 99}).as_object().expect("an object").clone();
        decode(PARAMS, "", wire, &FileSettings::default(), &mut notes).expect("it decodes");
        assert_eq!(notes, ["`line` was cut from 99 to the maximum of 10"]);
    }

    #[test]
    fn schemas_show_types_marks_and_defaults() {
        assert_eq!(
            schema(&PARAMS[..2], &FileSettings::default()),
            json!({
                "type": "object",
                "properties": {
                    "file": {"type": "string", "description": "the file"},
                    "line": {"type": "integer", "minimum": 0},
                },
                "required": ["file"],
                "additionalProperties": false,
            })
        );
    }
}
