//! A tool as the runtime sees it, erased of its operation.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    Arguments, Bound, BoxFuture, Claim, Command, Context, Cost, Effects, Facts, FileSettings, Kind,
    Preview, Reply, Restore, Shaping, Targets, ToolError,
};

/// Something a model can call.
///
/// An embedding program implements [`Tool::name`], [`Tool::description`], [`Tool::parameters`] and
/// [`Tool::execute`]; arguments are checked against the schema first, and a tool that gives no
/// [`Tool::facts`] always asks. Rows of dialects implement [`Tool::prepare`] instead.
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
    /// Returns the name on the wire.
    fn name(&self) -> &str;

    /// Returns a name for people.
    fn title(&self) -> Option<&str> {
        None
    }

    /// Returns what the model is told.
    fn description(&self) -> &str;

    /// Returns the JSON schema of the arguments, an object.
    fn parameters(&self) -> Value;

    /// Returns the JSON schema of the structured result, where every reply carries one.
    fn output_schema(&self) -> Option<Value> {
        None
    }

    /// Returns what may be known of every call. It is asked when the tool is added, and must not change.
    fn facts(&self) -> Facts {
        Facts::UNKNOWN
    }

    /// Returns the operation that a rule with this tool's name stands for.
    fn operation(&self) -> &str {
        self.name()
    }

    /// Returns the most that a reply may hold.
    fn bound(&self) -> Bound {
        Bound::DEFAULT
    }

    /// Returns whether the tool belongs to the short catalog that MCP clients get by default.
    fn core(&self) -> bool {
        true
    }

    /// Returns whether the runtime checks arguments against [`Tool::parameters`] first.
    fn checked_by_schema(&self) -> bool {
        true
    }

    /// Does the deed of a tool that needs no containment of its own.
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

    /// Decodes arguments into a call that can be judged and run.
    fn prepare(
        self: Arc<Self>,
        args: Arguments,
        settings: &Arc<FileSettings>,
    ) -> Result<Box<dyn Prepared>, ToolError> {
        let _ = settings;
        Ok(Box::new(FunctionCall { tool: self, args }))
    }

    /// Shapes a refusal or failure.
    fn fail(&self, error: &ToolError, path: Option<&str>) -> Reply {
        let _ = path;
        Reply::failure(error)
    }
}

/// A decoded call: it can say what it wants before it may do it.
pub trait Prepared: Send + Sync {
    /// Returns what this call can do to the outside.
    fn effects(&self) -> Effects;

    /// Hands out the paths it names, with the wire names of their arguments. Asked once.
    fn claims(&mut self) -> Vec<Claim>;

    /// Returns the command it names, which starts in the first of its paths.
    fn command(&self) -> Option<Command> {
        None
    }

    /// Returns the hosts that it names, which rules may judge.
    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns what it wants to have as it was, of which the guard makes claims.
    fn restores(&self) -> Option<Restore> {
        None
    }

    /// Returns how long it may occupy a thread.
    fn cost(&self, targets: &Targets) -> Cost;

    /// Works out what it would change, on a World that can only look.
    fn preview(&self, cx: &Context) -> Preview;

    /// Returns what decoding wants the caller to know, such as a value that was cut.
    fn notes(&self) -> &[String];

    /// Does the deed.
    fn run(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<Box<dyn Ran>, ToolError>>;
}

/// A call that ran and waits for its shape.
pub trait Ran: Send {
    /// Gives the outcome the shape of the dialect: pure.
    fn shape(self: Box<Self>, shaping: &Shaping<'_>) -> Reply;
}

impl Ran for Reply {
    fn shape(self: Box<Self>, _shaping: &Shaping<'_>) -> Reply {
        *self
    }
}

/// A call of a tool that is one function from arguments to a reply.
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
