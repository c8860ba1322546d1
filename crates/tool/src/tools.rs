//! A tool as the runtime sees it, without its operation type.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::{
    Arguments, Bound, BoxFuture, Claim, Command, ContentHash, Context, Cost, Effects, Facts,
    FileSettings, Host, Kind, MessageClaim, Preview, Reply, Restore, SearchClaim, Shaping, Targets,
    ToolError, UrlClaim, shown_line,
};

/// A tool that a model can call.
///
/// Custom tools implement [`Tool::name`], [`Tool::description`], [`Tool::parameters`] and [`Tool::execute`];
/// with the feature `json-schema` the schema checks their arguments, and without [`Tool::facts`] they always ask.
/// Rows of dialects implement [`Tool::prepare`] instead.
///
/// ```
/// use serde_json::{Value, json};
/// use sinew_tool::{Arguments, BoxFuture, Context, Facts, Reply, Tool, ToolError};
///
/// struct Add;
///
/// impl Tool for Add {
///     fn name(&self) -> &str {
///         "Add"
///     }
///     fn description(&self) -> &str {
///         "Adds two numbers."
///     }
///     fn parameters(&self) -> Value {
///         json!({
///             "type": "object",
///             "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
///             "required": ["a", "b"],
///         })
///     }
///     fn facts(&self) -> Facts {
///         Facts::OBSERVES
///     }
///     fn execute<'a>(
///         &'a self,
///         args: Arguments,
///         _cx: &'a Context,
///     ) -> BoxFuture<'a, Result<Reply, ToolError>> {
///         Box::pin(async move {
///             let number = |name: &str| args.get(name).and_then(Value::as_f64).unwrap_or(0.0);
///             Ok(Reply::json(json!({"sum": number("a") + number("b")})))
///         })
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    /// Returns the wire name.
    fn name(&self) -> &str;

    /// Returns a name for people.
    fn title(&self) -> Option<&str> {
        None
    }

    /// Returns the description for the model.
    fn description(&self) -> &str;

    /// Returns the JSON schema of the arguments, an object.
    fn parameters(&self) -> Value;

    /// Returns the JSON schema of the arguments with configured defaults.
    fn parameters_with(&self, settings: &FileSettings) -> Value {
        let _ = settings;
        self.parameters()
    }

    /// Returns the JSON schema of the structured result, if every reply has one.
    fn output_schema(&self) -> Option<Value> {
        None
    }

    /// Returns the facts of every call; read once when the tool is added.
    fn facts(&self) -> Facts {
        Facts::UNKNOWN
    }

    /// Returns the operation behind this tool's name in rules.
    fn operation(&self) -> &str {
        self.name()
    }

    /// Returns where a tool of another server comes from, for the ledger.
    fn origin(&self) -> Option<ToolOrigin> {
        None
    }

    /// Returns the hosts that every call reaches, which rules may judge.
    fn hosts(&self) -> Vec<Host> {
        Vec::new()
    }

    /// Returns the size limit of a reply.
    fn bound(&self) -> Bound {
        Bound::DEFAULT
    }

    /// Returns whether the tool is in the short catalog, the default of MCP clients.
    fn core(&self) -> bool {
        true
    }

    /// Returns whether the runtime checks arguments against [`Tool::parameters`] first.
    fn checked_by_schema(&self) -> bool {
        true
    }

    /// Returns whether the tool is listed only where other tools are not.
    fn for_deferred(&self) -> bool {
        false
    }

    /// Returns the argument that names a skill, for a tool that loads skills: it is listed only where there are some, with
    /// their names as the values of this argument.
    fn skill_argument(&self) -> Option<&str> {
        None
    }

    /// Returns whether it spawns sub-agents: then it is listed only where they can work.
    fn spawns(&self) -> bool {
        false
    }

    /// Returns the call to which a call of this tool is forwarded: the name of another tool, and its arguments.
    fn forwards(&self, args: &Arguments) -> Option<Result<(String, Arguments), ToolError>> {
        let _ = args;
        None
    }

    /// Returns whether a question shows all arguments of a call. One with claims shows what those name instead.
    fn shows_arguments(&self) -> bool {
        true
    }

    /// Runs a tool that needs no containment of its own.
    fn execute<'a>(
        &'a self,
        args: Arguments,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        let _ = (args, cx);
        Box::pin(std::future::ready(Err(ToolError::new(
            Kind::Unavailable,
            "this tool does nothing yet",
        ))))
    }

    /// Decodes arguments into a call to judge and run.
    fn prepare(
        self: Arc<Self>,
        args: Arguments,
        settings: &Arc<FileSettings>,
    ) -> Result<Box<dyn Prepared>, ToolError> {
        let _ = settings;
        Ok(function_call(self, args))
    }

    /// Shapes a refusal or failure.
    fn fail(&self, error: &ToolError, path: Option<&str>) -> Reply {
        let _ = path;
        Reply::failure(error)
    }
}

/// A decoded call, which says what it needs before it runs.
pub trait Prepared: Send + Sync {
    /// Returns the effects of this call.
    fn effects(&self) -> Effects;

    /// Takes the paths it names, with their argument names; called once.
    fn claims(&mut self) -> Vec<Claim>;

    /// Returns its command, which starts in the first of its paths.
    fn command(&self) -> Option<Command> {
        None
    }

    /// Returns the addresses (URLs) that it fetches.
    fn urls(&self) -> Vec<UrlClaim> {
        Vec::new()
    }

    /// Returns its search of the web.
    fn search(&self) -> Option<SearchClaim> {
        None
    }

    /// Returns its other hosts, which rules may judge.
    fn hosts(&self) -> Vec<Host> {
        Vec::new()
    }

    /// Returns the message that it sends.
    fn message(&self) -> Option<MessageClaim> {
        None
    }

    /// Returns its restore, which the guard turns into claims.
    fn restores(&self) -> Option<Restore> {
        None
    }

    /// Returns how long it may occupy a thread.
    fn cost(&self, targets: &Targets) -> Cost;

    /// Computes its change on a read-only World.
    fn preview(&self, cx: &Context) -> Preview;

    /// Returns the notes of decoding, such as a truncated value.
    fn notes(&self) -> &[String];

    /// Runs the call.
    fn run(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<Box<dyn Ran>, ToolError>>;
}

/// An outcome without its reply shape yet.
pub trait Ran: Send {
    /// Shapes the outcome for the dialect, as a pure function.
    fn shape(self: Box<Self>, shaping: &Shaping<'_>) -> Reply;
}

impl Ran for Reply {
    fn shape(self: Box<Self>, _shaping: &Shaping<'_>) -> Reply {
        *self
    }
}

/// Where a tool of another server comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOrigin {
    /// The server, by its name in the configuration.
    pub server: Arc<str>,
    /// The name of the tool at the server.
    pub tool: String,
    /// The hash of the definition that a person approved.
    pub definition: ContentHash,
}

impl fmt::Display for ToolOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, tool, definition } = self;
        write!(
            f,
            "the tool `{}` of the server `{server}`, definition {definition}",
            shown_line(tool)
        )
    }
}

/// Returns the call of a tool that needs no containment of its own: [`Tool::execute`] with these arguments.
pub fn function_call<T: Tool + ?Sized>(tool: Arc<T>, args: Arguments) -> Box<dyn Prepared> {
    Box::new(FunctionCall { tool, args })
}

/// A call of a custom tool: one function from arguments to a reply.
struct FunctionCall<T: Tool + ?Sized> {
    tool: Arc<T>,
    args: Arguments,
}

impl<T: Tool + ?Sized> Prepared for FunctionCall<T> {
    fn effects(&self) -> Effects {
        self.tool.facts().effects
    }

    fn claims(&mut self) -> Vec<Claim> {
        Vec::new()
    }

    fn hosts(&self) -> Vec<Host> {
        self.tool.hosts()
    }

    fn cost(&self, _targets: &Targets) -> Cost {
        Cost::Waits
    }

    fn preview(&self, _cx: &Context) -> Preview {
        Preview::Unknown
    }

    fn notes(&self) -> &[String] {
        &[]
    }

    fn run(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<Box<dyn Ran>, ToolError>> {
        Box::pin(async move {
            let reply = self.tool.execute(self.args, &cx).await?;
            Ok(Box::new(reply) as Box<dyn Ran>)
        })
    }
}
