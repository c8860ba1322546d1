//! Tools from typed functions: the argument type gives the schema and checks the arguments.
//!
//! Most tools of a program are one function, and a schema beside a decoder would be the same facts twice. A tool that
//! needs a [`World`](crate::World), claims of paths or pictures in its reply implements [`Tool`] instead.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sinew_tool::{
    Arguments, BoxFuture, Claim, Context, Cost, Effects, Facts, FileSettings, Kind, Prepared,
    Preview, Ran, Reply, Targets, Tool, ToolError,
};

/// Returns a tool that calls an async function with typed arguments.
///
/// - The schema comes from the argument type, which is a struct with braces; its doc comments describe the arguments. A tool
///   without arguments has `struct Nothing {}`: a unit struct means null.
/// - Arguments that do not fit give `invalid_args`, and the message names the argument.
/// - Unknown arguments are ignored, unless the type has `#[serde(deny_unknown_fields)]`.
/// - Limits that only the schema has, such as a range, are checked with the feature `json-schema` alone.
/// - A string is the text of the reply. Any other result is its structured result too, as JSON.
/// - A [`ToolError`] as the error is the error of the call. Any other error is `execution_failed` with its text, which the
///   model reads.
/// - The tool has all effects, so every call asks, unless [`FunctionTool::observes`] or [`FunctionTool::facts`] tell less.
///
/// ```
/// use sinew::{ToolError, tool_fn};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Sum {
///     /// The numbers to add.
///     numbers: Vec<f64>,
/// }
///
/// let add = tool_fn("Add", "Adds numbers.", async |sum: Sum| {
///     Ok::<_, ToolError>(sum.numbers.iter().sum::<f64>())
/// })
/// .observes();
/// ```
pub fn tool_fn<A, F, T, E>(
    name: impl Into<String>,
    description: impl Into<String>,
    function: impl Fn(A) -> F + Send + Sync + 'static,
) -> FunctionTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let function = Arc::new(function);
    FunctionTool::new::<A>(name.into(), description.into(), Cost::Waits, move |args| {
        let (function, args) = (Arc::clone(&function), decode::<A>(args)?);
        Ok(Box::pin(async move { reply(function(args).await) }))
    })
}

/// Returns a tool like [`tool_fn`] that calls a function that blocks, such as one that computes or reads files.
///
/// It runs on a thread for such work, and neither a cancellation nor a deadline interrupts it.
pub fn blocking_tool_fn<A, T, E>(
    name: impl Into<String>,
    description: impl Into<String>,
    function: impl Fn(A) -> Result<T, E> + Send + Sync + 'static,
) -> FunctionTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    T: Serialize,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let function = Arc::new(function);
    FunctionTool::new::<A>(name.into(), description.into(), Cost::Long, move |args| {
        let (function, args) = (Arc::clone(&function), decode::<A>(args)?);
        Ok(Box::pin(async move { reply(function(args)) }))
    })
}

/// A tool of one function, made by [`tool_fn`].
pub struct FunctionTool {
    name: String,
    title: Option<String>,
    description: String,
    schema: Value,
    facts: Facts,
    cost: Cost,
    prepare: Box<Prepare>,
}

type Running = BoxFuture<'static, Result<Reply, ToolError>>;
/// Decodes arguments, and returns the call of the function with them.
type Prepare = dyn Fn(Arguments) -> Result<Running, ToolError> + Send + Sync;

impl FunctionTool {
    fn new<A: JsonSchema>(
        name: String,
        description: String,
        cost: Cost,
        prepare: impl Fn(Arguments) -> Result<Running, ToolError> + Send + Sync + 'static,
    ) -> Self {
        let (schema, facts, prepare) = (schema::<A>(), Facts::UNKNOWN, Box::new(prepare));
        Self { name, title: None, description, schema, facts, cost, prepare }
    }

    /// Declares that the tool changes nothing and reaches no network, so that it runs unasked and in parallel.
    #[must_use]
    pub fn observes(self) -> Self {
        self.facts(Facts::OBSERVES)
    }

    /// Sets the facts by which rules and approvals judge the tool.
    #[must_use]
    pub fn facts(self, facts: Facts) -> Self {
        Self { facts, ..self }
    }

    /// Sets a name for people.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }
}

impl fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool")
            .field("name", &self.name)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

impl Tool for FunctionTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters(&self) -> Value {
        self.schema.clone()
    }

    fn facts(&self) -> Facts {
        self.facts
    }

    fn checked_by_schema(&self) -> bool {
        cfg!(feature = "json-schema")
    }

    fn execute<'a>(
        &'a self,
        args: Arguments,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        (self.prepare)(args).unwrap_or_else(|error| Box::pin(std::future::ready(Err(error))))
    }

    /// Decodes the arguments before a question is asked, so that an approver sees no call that cannot run.
    fn prepare(
        self: Arc<Self>,
        args: Arguments,
        _settings: &Arc<FileSettings>,
    ) -> Result<Box<dyn Prepared>, ToolError> {
        let running = Mutex::new((self.prepare)(args)?);
        Ok(Box::new(PreparedFunction { facts: self.facts, cost: self.cost, running }))
    }
}

/// A call of a function with decoded arguments.
struct PreparedFunction {
    facts: Facts,
    cost: Cost,
    /// Polled by the run alone; a future is not `Sync` by itself.
    running: Mutex<Running>,
}

impl Prepared for PreparedFunction {
    fn effects(&self) -> Effects {
        self.facts.effects
    }

    fn claims(&mut self) -> Vec<Claim> {
        Vec::new()
    }

    fn cost(&self, _targets: &Targets) -> Cost {
        self.cost
    }

    fn preview(&self, _cx: &Context) -> Preview {
        Preview::Unknown
    }

    fn notes(&self) -> &[String] {
        &[]
    }

    fn run(self: Box<Self>, _cx: Context) -> BoxFuture<'static, Result<Box<dyn Ran>, ToolError>> {
        let running = self.running.into_inner().unwrap_or_else(PoisonError::into_inner);
        Box::pin(async move { Ok(Box::new(running.await?) as Box<dyn Ran>) })
    }
}

/// Returns the schema of an argument type, without references where possible: not every model API follows them.
fn schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    // The name of a Rust type tells a model nothing.
    schema.remove("title");
    if schema.get("type").is_none() {
        schema.insert(String::from("type"), Value::from("object"));
    }
    schema.to_value()
}

/// Decodes arguments; an error names the argument by its path.
fn decode<A: DeserializeOwned>(args: Arguments) -> Result<A, ToolError> {
    serde_path_to_error::deserialize(Value::Object(args)).map_err(|error| {
        let path = error.path().to_string();
        let what = error.into_inner();
        match path.as_str() {
            // A field that is missing is named by the error itself.
            "." => ToolError::new(Kind::InvalidArgs, format!("arguments do not fit: {what}")),
            path => ToolError::argument(path, format!("does not fit: {what}")),
        }
    })
}

/// Returns the reply of a result.
fn reply<T: Serialize>(
    result: Result<T, impl Into<Box<dyn Error + Send + Sync>>>,
) -> Result<Reply, ToolError> {
    let result = result.map_err(|error| tool_error(error.into()))?;
    match serde_json::to_value(result) {
        Ok(Value::String(text)) => Ok(Reply::text(text)),
        Ok(value) => Ok(Reply::json(value)),
        Err(error) => {
            let what = "the result of this tool is not JSON";
            Err(ToolError::new(Kind::ExecutionFailed, what).source(error))
        }
    }
}

fn tool_error(error: Box<dyn Error + Send + Sync>) -> ToolError {
    match error.downcast::<ToolError>() {
        Ok(error) => *error,
        Err(error) => ToolError::new(Kind::ExecutionFailed, error.to_string()).source(error),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;
    use sinew_runtime::{CallOptions, Runtime};
    use sinew_tool::Request;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Order {
        /// The lines of the order.
        lines: Vec<Line>,
        /// A note for the kitchen.
        #[serde(default)]
        note: Option<String>,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Line {
        dish: Dish,
        n: u8,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Dish {
        Soup,
        Stew,
    }

    async fn count(order: Order) -> Result<u32, String> {
        match order.note.as_deref() {
            Some("late") => Err(String::from("the kitchen is closed")),
            _ => Ok(order
                .lines
                .iter()
                .map(|Line { dish: Dish::Soup | Dish::Stew, n }| u32::from(*n))
                .sum()),
        }
    }

    /// Calls a tool with arguments, where no approver can answer.
    async fn reply(tool: FunctionTool, arguments: Value) -> Result<Reply, ToolError> {
        let dir = tempfile::tempdir().expect("a directory");
        let name = tool.name.clone();
        let runtime = Runtime::builder(sinew_dialects::NATIVE).root(dir.path());
        let runtime = runtime.tool(Arc::new(tool)).build().expect("a runtime");
        let arguments = arguments.as_object().cloned().expect("an object");
        let request = Request::new("call-1", name, arguments);
        runtime.call(request, CallOptions::default()).await.into_result()
    }

    #[test]
    fn schema_comes_from_the_argument_type() {
        let tool = tool_fn("Count", "Counts dishes.", count);
        let expected = json!({
            "type": "object",
            "properties": {
                "lines": {
                    "description": "The lines of the order.",
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "dish": { "type": "string", "enum": ["soup", "stew"] },
                            "n": { "type": "integer", "format": "uint8", "minimum": 0, "maximum": 255 },
                        },
                        "required": ["dish", "n"],
                    },
                },
                "note": {
                    "description": "A note for the kitchen.",
                    "type": ["string", "null"],
                    "default": null,
                },
            },
            "additionalProperties": false,
            "required": ["lines"],
        });
        assert_eq!(tool.parameters(), expected);
    }

    #[tokio::test]
    async fn arguments_that_do_not_fit_are_named() {
        for (arguments, named) in [
            (json!({}), "`lines`"),
            (json!({ "lines": 1 }), "`lines`"),
            (json!({ "lines": [], "tip": 1 }), "`tip`"),
            (
                json!({ "lines": [{ "dish": "soup", "n": 1 }, { "dish": "pie", "n": 1 }] }),
                "`lines[1].dish`",
            ),
            (json!({ "lines": [{ "dish": "soup" }] }), "`n`"),
        ] {
            // The feature `json-schema` checks them first, in its own words.
            let named = match cfg!(feature = "json-schema") {
                true => named.trim_matches('`').rsplit('.').next().unwrap_or(named),
                false => named,
            };
            // They are refused before a question.
            let tool = tool_fn("Count", "Counts dishes.", count);
            let error = reply(tool, arguments.clone()).await.expect_err("an error");
            assert_eq!(error.kind, Kind::InvalidArgs, "{arguments}");
            assert!(error.message.contains(named), "{arguments}: {error}");
        }
    }

    #[tokio::test]
    async fn results_are_text_or_json() {
        let soup = json!({ "lines": [{ "dish": "soup", "n": 2 }] });
        let tool = tool_fn("Count", "Counts dishes.", count).observes();
        let counted = reply(tool, soup.clone()).await.expect("a reply");
        assert_eq!(
            (&counted.structured, counted.clone().into_text().ok().as_deref()),
            (&Some(json!(2)), Some("2"))
        );
        let tool = blocking_tool_fn("Say", "Says it.", |_: Order| Ok::<_, ToolError>("it"));
        let said = reply(tool.observes(), soup).await.expect("a reply");
        assert_eq!(
            (&said.structured, said.clone().into_text().ok().as_deref()),
            (&None, Some("it"))
        );
    }

    #[tokio::test]
    async fn errors_of_functions_keep_their_kind() {
        let late = json!({ "lines": [], "note": "late" });
        let tool = tool_fn("Count", "Counts dishes.", count).observes();
        let error = reply(tool, late.clone()).await.expect_err("an error");
        assert_eq!((error.kind, &*error.message), (Kind::ExecutionFailed, "the kitchen is closed"));
        let fails =
            async |_: Order| Err::<(), _>(ToolError::new(Kind::Timeout, "late").hint("later"));
        let tool = tool_fn("Count", "Counts dishes.", fails).observes();
        let error = reply(tool, late).await.expect_err("an error");
        assert_eq!((error.kind, error.hint.as_deref()), (Kind::Timeout, Some("later")));
    }

    #[tokio::test]
    async fn tool_without_facts_asks() {
        let tool = tool_fn("Count", "Counts dishes.", count);
        let error = reply(tool, json!({ "lines": [] })).await.expect_err("an error");
        assert_eq!(error.kind, Kind::ApprovalDenied);
    }
}
