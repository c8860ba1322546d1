//! A row: one tool of a dialect over one operation.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde_json::Value;

use crate::param::{self, Preset};
use crate::{
    Arguments, BoxFuture, Claim, Command, Context, Cost, Effects, Facts, FileError, FileSettings,
    Kind, MessageClaim, Operation, Param, Prepared, Preview, Ran, ReceiverClaim, Reply, Restore,
    SearchClaim, Targets, Tool, ToolError, UrlClaim,
};

/// The size limit of a reply; the full text of a longer one goes to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Lines of text.
    pub max_lines: Option<usize>,
    /// Bytes of text.
    pub max_bytes: usize,
}

impl Bound {
    /// 2,000 lines or 50 KiB, whichever comes first.
    pub const DEFAULT: Self = Self { max_lines: Some(2_000), max_bytes: 50 * 1024 };
    /// 1 MiB: the hard cap of any reply, for rows whose operation bounds itself.
    pub const HARD: Self = Self { max_lines: None, max_bytes: 1024 * 1024 };
}

/// The context of a reply shape beside the outcome.
#[derive(Debug, Clone, Copy)]
pub struct Shaping<'a> {
    /// The targets of the call.
    pub targets: &'a Targets,
    /// The working directory of the call.
    pub cwd: &'a Path,
    /// The settings of the call.
    pub settings: &'a FileSettings,
    /// The id of the call's checkpoint, if any.
    pub checkpoint: Option<&'a str>,
}

impl Shaping<'_> {
    /// Returns the display form of a path; see [`Context::shown`].
    pub fn shown(&self, path: &Path) -> String {
        crate::operation::shown(self.cwd, path)
    }

    /// Returns the error of a target by index, in words for the model; see [`Context::about`].
    pub fn about(&self, at: usize, error: FileError) -> ToolError {
        match self.targets.files.get(at) {
            Some(target) => crate::operation::about(self.cwd, target, error),
            None => error.about(""),
        }
    }

    /// Returns the real path of a target by index, or an empty path.
    pub fn path(&self, at: usize) -> &Path {
        self.targets.files.get(at).map_or(Path::new(""), |target| &target.path)
    }
}

/// One tool of a dialect: names, parameters, presets and a pure shape over an operation.
#[derive(Debug)]
pub struct Row<O: Operation> {
    /// The name on the wire.
    pub name: &'static str,
    /// The description for the model.
    pub description: &'static str,
    /// The parameters, in the order of the schema.
    pub params: &'static [Param],
    /// Canonical fields with fixed values.
    pub presets: &'static [(&'static str, Preset)],
    /// Whether it rejects relative and missing paths.
    pub absolute_paths: bool,
    /// The size limit of a reply.
    pub bound: Bound,
    /// Whether it belongs to the short catalog.
    pub core: bool,
    /// Whether it is listed only where other tools are not.
    pub for_deferred: bool,
    /// The parameter that names a skill: the row is listed only where there are some, with their names as its values.
    pub skill_argument: Option<&'static str>,
    /// Whether it spawns sub-agents: the row is listed only where they can work, with the templates that there are.
    pub spawns: bool,
    /// Shapes an outcome.
    pub shape: fn(&O::Args, O::Out, &Shaping<'_>) -> Reply,
    /// Shapes an error, with the path as written.
    pub fail: fn(&ToolError, Option<&str>) -> Reply,
}

impl<O: Operation> Clone for Row<O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Operation> Copy for Row<O> {}

impl<O: Operation> Row<O> {
    /// Returns a row with defaults: short catalog, usual limit, plain errors. Rows override what differs.
    pub const fn shaped(shape: fn(&O::Args, O::Out, &Shaping<'_>) -> Reply) -> Self {
        Self {
            name: "",
            description: "",
            params: &[],
            presets: &[],
            absolute_paths: false,
            bound: Bound::DEFAULT,
            core: true,
            for_deferred: false,
            skill_argument: None,
            spawns: false,
            shape,
            fail: |error, _| Reply::failure(error),
        }
    }

    /// Returns the row as a tool.
    pub fn tool(self) -> Arc<dyn Tool> {
        Arc::new(self)
    }

    fn wire_name(&self, field: &str) -> &'static str {
        self.params.iter().find(|param| param.field == field).map_or("", |param| param.name)
    }

    fn claims(&self, args: &O::Args, settings: &FileSettings) -> Vec<Claim> {
        let mut claims = O::claims(args, settings);
        for claim in &mut claims {
            claim.argument = self.wire_name(claim.argument);
        }
        claims
    }

    /// Rejects empty paths, and relative or missing ones if the dialect requires absolute paths.
    fn check_paths(&self, claims: &[Claim]) -> Result<(), ToolError> {
        for claim in claims {
            let Some(path) = &claim.path else {
                if self.absolute_paths {
                    return Err(ToolError::argument(claim.argument, "is missing")
                        .hint("it has no default unless `tools.fs.workspace_root` is configured"));
                }
                continue;
            };
            if path.is_empty() {
                return Err(ToolError::argument(claim.argument, "is empty; name a path"));
            }
            if self.absolute_paths && !path.starts_with('/') {
                return Err(ToolError::argument(
                    claim.argument,
                    format!("must be an absolute path, not `{path}`"),
                ));
            }
        }
        Ok(())
    }
}

impl<O: Operation> Tool for Row<O> {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        self.description
    }

    fn parameters(&self) -> Value {
        self.parameters_with(&FileSettings::default())
    }

    fn parameters_with(&self, settings: &FileSettings) -> Value {
        param::schema(self.params, settings)
    }

    fn facts(&self) -> Facts {
        O::FACTS
    }

    fn operation(&self) -> &str {
        O::NAME
    }

    fn bound(&self) -> Bound {
        self.bound
    }

    fn core(&self) -> bool {
        self.core
    }

    fn for_deferred(&self) -> bool {
        self.for_deferred
    }

    fn skill_argument(&self) -> Option<&str> {
        self.skill_argument
    }

    fn spawns(&self) -> bool {
        self.spawns
    }

    fn checked_by_schema(&self) -> bool {
        false
    }

    fn shows_arguments(&self) -> bool {
        false
    }

    fn prepare(
        self: Arc<Self>,
        args: Arguments,
        settings: &Arc<FileSettings>,
    ) -> Result<Box<dyn Prepared>, ToolError> {
        let mut notes = Vec::new();
        let mut canonical = param::decode(self.params, "", args, settings, &mut notes)?;
        for (field, preset) in self.presets {
            if canonical.iter().all(|(name, _)| name != field) {
                canonical.push((field, preset.value()));
            }
        }
        let canonical = MapDeserializer::new(canonical.into_iter());
        let args = O::Args::deserialize(canonical).map_err(|error: serde_json::Error| {
            ToolError::new(Kind::InvalidArgs, format!("arguments do not fit: {error}"))
        })?;
        O::check(&args)?;
        let claims = self.claims(&args, settings);
        self.check_paths(&claims)?;
        Ok(Box::new(Decoded { row: *self, args, claims, notes }))
    }

    fn fail(&self, error: &ToolError, path: Option<&str>) -> Reply {
        (self.fail)(error, path)
    }
}

struct Decoded<O: Operation> {
    row: Row<O>,
    args: O::Args,
    claims: Vec<Claim>,
    notes: Vec<String>,
}

impl<O: Operation> Prepared for Decoded<O> {
    fn effects(&self) -> Effects {
        O::effects(&self.args)
    }

    fn claims(&mut self) -> Vec<Claim> {
        std::mem::take(&mut self.claims)
    }

    fn command(&self) -> Option<Command> {
        let command = O::command(&self.args)?;
        Some(Command { argument: self.row.wire_name(command.argument), ..command })
    }

    fn urls(&self) -> Vec<UrlClaim> {
        let mut urls = O::urls(&self.args);
        urls.iter_mut().for_each(|claim| claim.argument = self.row.wire_name(claim.argument));
        urls
    }

    fn search(&self) -> Option<SearchClaim> {
        let claim = O::search(&self.args)?;
        Some(SearchClaim { argument: self.row.wire_name(claim.argument), ..claim })
    }

    fn message(&self) -> Option<MessageClaim> {
        let mut claim = O::message(&self.args)?;
        claim.content_argument = self.row.wire_name(claim.content_argument);
        match &mut claim.receiver {
            ReceiverClaim::Agent { argument, sender, .. } => {
                *argument = self.row.wire_name(argument);
                if let Some((argument, _)) = sender {
                    *argument = self.row.wire_name(argument);
                }
            }
            ReceiverClaim::Channel { argument, chat_argument, .. } => {
                *argument = self.row.wire_name(argument);
                *chat_argument = self.row.wire_name(chat_argument);
            }
        }
        Some(claim)
    }

    fn restores(&self) -> Option<Restore> {
        let restore = O::restores(&self.args)?;
        Some(Restore { argument: self.row.wire_name(restore.argument), ..restore })
    }

    fn cost(&self, targets: &Targets) -> Cost {
        O::cost(&self.args, targets)
    }

    fn preview(&self, cx: &Context) -> Preview {
        O::preview(&self.args, cx)
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn run(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<Box<dyn Ran>, ToolError>> {
        Box::pin(async move {
            let out = O::run(&self.args, &cx).await?;
            Ok(Box::new(FinishedCall { row: self.row, args: self.args, out }) as Box<dyn Ran>)
        })
    }
}

struct FinishedCall<O: Operation> {
    row: Row<O>,
    args: O::Args,
    out: O::Out,
}

impl<O: Operation> Ran for FinishedCall<O> {
    fn shape(self: Box<Self>, shaping: &Shaping<'_>) -> Reply {
        (self.row.shape)(&self.args, self.out, shaping)
    }
}
