//! Providers: a program's own tools under a namespace, as clawft's page describes them.

use std::sync::Arc;

use serde_json::Value;
use sinew_tool::{
    Arguments, BoxFuture, Context, Kind, Reply, Tool, ToolError, function_call, shown_line,
};

use crate::build_error::BuildError;
use crate::runtime::Runtime;

/// The text between a namespace and the name of a tool.
const SEPARATOR: &str = "__";

/// A tool as a provider defines it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// The name; [`CompositeToolProvider`] puts the namespace before it.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON schema of the arguments, an object. The provider checks them.
    pub input_schema: Value,
}

/// Tools of a program under one namespace.
///
/// ```
/// use serde_json::{Value, json};
/// use sinew_runtime::{CompositeToolProvider, ToolDefinition, ToolProvider};
/// use sinew_tool::ToolError;
///
/// struct Clock;
///
/// impl ToolProvider for Clock {
///     fn namespace(&self) -> &str {
///         "clock"
///     }
///     fn list_tools(&self) -> Vec<ToolDefinition> {
///         vec![ToolDefinition {
///             name: String::from("hour"),
///             description: String::from("Returns the hour."),
///             input_schema: json!({"type": "object"}),
///         }]
///     }
///     fn call_tool(&self, _name: &str, _args: Value) -> Result<Value, ToolError> {
///         Ok(json!(12))
///     }
/// }
///
/// let mut all = CompositeToolProvider::default();
/// all.register(Box::new(Clock));
/// assert_eq!(all.list_tools()[0].name, "clock__hour");
/// assert_eq!(all.call_tool("clock__hour", json!({})).unwrap(), json!(12));
/// ```
pub trait ToolProvider: Send + Sync {
    /// Returns the namespace of its tools.
    fn namespace(&self) -> &str;

    /// Returns its tools.
    fn list_tools(&self) -> Vec<ToolDefinition>;

    /// Calls a tool by the name that [`ToolProvider::list_tools`] gives it. It may block.
    fn call_tool(&self, name: &str, args: Value) -> Result<Value, ToolError>;
}

/// Several providers as one, whose tools are named `{namespace}__{tool}`.
#[derive(Default, Clone)]
pub struct CompositeToolProvider {
    providers: Vec<Arc<dyn ToolProvider>>,
}

impl CompositeToolProvider {
    /// Adds a provider. Its tools replace those of the same name that were registered before.
    pub fn register(&mut self, provider: Box<dyn ToolProvider>) {
        self.providers.push(Arc::from(provider));
    }

    /// Returns the tools of all providers, in the order of their registration; of two with a name the last.
    pub fn list_tools(&self) -> Vec<ToolDefinition> {
        let mut tools: Vec<ToolDefinition> = Vec::new();
        for (_, tool) in self.routes() {
            match tools.iter_mut().find(|other| other.name == tool.name) {
                Some(other) => *other = tool,
                None => tools.push(tool),
            }
        }
        tools
    }

    /// Calls a tool by its whole name, or by its own name alone, which the first provider has that knows it.
    pub fn call_tool(&self, name: &str, args: Value) -> Result<Value, ToolError> {
        let whole = self.routes().filter(|(_, tool)| tool.name == name).last();
        if let Some((provider, tool)) = whole {
            let own = own_name(&*provider, &tool.name);
            return provider.call_tool(own, args);
        }
        let has = |provider: &&Arc<dyn ToolProvider>| {
            provider.list_tools().iter().any(|tool| tool.name == name)
        };
        match self.providers.iter().find(has) {
            Some(provider) => provider.call_tool(name, args),
            None => Err(ToolError::new(
                Kind::NotFound,
                format!("no tool of this name: {}", shown_line(name)),
            )),
        }
    }

    /// Returns every tool with its whole name, beside its provider.
    fn routes(&self) -> impl Iterator<Item = (Arc<dyn ToolProvider>, ToolDefinition)> + '_ {
        self.providers.iter().flat_map(|provider| {
            let tools = provider.list_tools().into_iter();
            tools.map(|tool| {
                let name = format!("{}{SEPARATOR}{}", provider.namespace(), tool.name);
                (Arc::clone(provider), ToolDefinition { name, ..tool })
            })
        })
    }

    /// Adds the tools to a runtime as tools of the program, which replace those of the same name.
    pub fn add_to(&self, runtime: &Runtime) -> Result<(), BuildError> {
        self.routes().try_for_each(|(provider, definition)| {
            let tool: Arc<dyn Tool> = Arc::new(ProviderTool { provider, definition });
            runtime.add_tool(&tool)
        })
    }
}

impl std::fmt::Debug for CompositeToolProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.providers.iter().map(|provider| provider.namespace());
        f.debug_tuple("CompositeToolProvider").field(&names.collect::<Vec<_>>()).finish()
    }
}

/// Returns the name of a tool at its provider.
fn own_name<'n>(provider: &dyn ToolProvider, whole: &'n str) -> &'n str {
    let own = whole.strip_prefix(provider.namespace());
    own.and_then(|own| own.strip_prefix(SEPARATOR)).unwrap_or(whole)
}

/// A tool of a provider as the runtime sees it.
struct ProviderTool {
    provider: Arc<dyn ToolProvider>,
    definition: ToolDefinition,
}

impl Tool for ProviderTool {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn description(&self) -> &str {
        &self.definition.description
    }

    fn parameters(&self) -> Value {
        self.definition.input_schema.clone()
    }

    fn checked_by_schema(&self) -> bool {
        false
    }

    fn prepare(
        self: Arc<Self>,
        args: Arguments,
        _settings: &Arc<sinew_tool::FileSettings>,
    ) -> Result<Box<dyn sinew_tool::Prepared>, ToolError> {
        Ok(function_call(self, args))
    }

    fn execute<'a>(
        &'a self,
        args: Arguments,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        let (provider, name) = (Arc::clone(&self.provider), self.definition.name.clone());
        Box::pin(async move {
            let call = move || {
                let own = own_name(&*provider, &name);
                provider.call_tool(own, Value::Object(args))
            };
            let called = tokio::task::spawn_blocking(call).await.map_err(|error| {
                ToolError::new(Kind::ExecutionFailed, "the provider failed").source(error)
            })?;
            Ok(match called? {
                Value::String(text) => Reply::text(text),
                value => Reply::json(value),
            })
        })
    }
}
