//! `sinew chat`: a conversation with an agent at the terminal.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, bail};
use indicatif::ProgressBar;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Editor, Helper};
use sinew_agent::TurnEvent;
use sinew_guard::{CheckpointId, Redactor};
use sinew_ops::skill::loaded_text;
use sinew_tool::sync::lock;
use sinew_tool::{Approver, Cancel, Kind, SkillCaller, SkillRequest, shown_line};

use crate::agent::report::{change_lines, changed, newest, resumed, say_stop};
use crate::agent::text_output::{self, TextOutput};
use crate::agent::{AgentParts, AgentWishes, choose_model, set_up, switch_model, transcript};
use crate::cli::{AgentArgs, CheckpointCommand};
use crate::live_output;
use crate::screen::{self, say};
use crate::signals::{self, TurnCancel};
use crate::terminal::{self, Terminal};
use crate::wiring::{self, Loaded};

/// The commands of a line, and what they do.
const COMMANDS: &[(&str, &str)] = &[
    ("/model", "show the model, or go on with another one: /model NAME"),
    ("/tools", "list the tools that the model has"),
    ("/undo", "undo what the last turn changed, after showing it"),
    ("/checkpoint", "list what was kept before changes"),
    ("/compact", "replace the older messages by a summary"),
    ("/sessions", "list the sessions of this directory"),
    ("/cost", "say what this session cost"),
    ("/help", "list these commands"),
    ("/SKILL", "begin a turn with a skill: /SKILL what it works on"),
    ("/exit", "leave; Ctrl-D does too"),
];
/// The name of the file of earlier lines, in the state directory.
const HISTORY: &str = "chat_history";
/// The most lines that are kept.
const MAX_HISTORY: usize = 1_000;

/// The editor of lines.
type LineEditor = Editor<Completion, FileHistory>;

/// What the conversation needs.
struct Chat<'a> {
    loaded: Loaded,
    /// Loads the configuration anew, for a command that is one of the command line too.
    load: &'a dyn Fn() -> anyhow::Result<Loaded>,
    parts: AgentParts,
    tokio: tokio::runtime::Runtime,
    turns: TurnCancel,
    progress: ProgressBar,
    /// What the command line asked for.
    wishes: AgentWishes,
    /// Removes secrets from the lines that are kept.
    redactor: Redactor,
    /// The first checkpoint of the last turn that changed something.
    last_change: Option<CheckpointId>,
}

/// Runs the conversation.
pub(crate) fn run(
    load: &dyn Fn() -> anyhow::Result<Loaded>,
    args: &AgentArgs,
) -> anyhow::Result<ExitCode> {
    if !terminal::is_attended() {
        bail!("`sinew chat` needs a terminal; `sinew run` works without one");
    }
    let loaded = load()?;
    super::warn(&loaded);
    let mut loaded = super::call::without_client(loaded)?;
    let wishes = AgentWishes::of(args);
    let stored = resumed(&loaded, args.resume.as_deref())?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let progress = text_output::progress();
    let terminal = Terminal { progress: Some(progress.clone()), ..Terminal::default() };
    let approver = Some(Arc::new(terminal) as Arc<dyn Approver>);
    let mut parts = tokio.block_on(async {
        let chosen = choose_model(&loaded, &wishes, stored.as_ref()).await?;
        set_up(&mut loaded, &wishes, chosen, "chat", approver, stored).await
    })?;
    parts.agent.set_progress(live_output::tail(progress.clone()));
    let turns = Arc::new(Mutex::new(Cancel::default()));
    signals::end_turns(Arc::clone(&turns), &parts.wired.runtime)?;
    let redactor = wiring::redactor(&loaded);
    let mut chat =
        Chat { loaded, load, parts, tokio, turns, progress, wishes, redactor, last_change: None };
    chat.greet()?;
    let talked = chat.talk();
    let Chat { parts, tokio, .. } = chat;
    tokio.block_on(parts.agent.ended());
    tokio.shutdown_background();
    super::close(&parts.wired);
    talked?;
    Ok(ExitCode::SUCCESS)
}

impl Chat<'_> {
    fn greet(&self) -> anyhow::Result<()> {
        let AgentParts { wired, chosen, agent, .. } = &self.parts;
        let root = self.loaded.roots.first().context("there is no root")?;
        say(&format!(
            "{} ({}) in {}; session {}; /help lists the commands",
            shown_line(&chosen.name),
            chosen.provider,
            root.display(),
            wired.session
        ));
        let n_turns = agent.session().n_turns();
        if 0 < n_turns {
            say(&format!("the session continues after {n_turns} turns"));
        }
        if agent.session().is_in_turn() {
            say("its last turn was interrupted; an empty line continues it");
        }
        Ok(())
    }

    /// Reads lines until the user leaves.
    fn talk(&mut self) -> anyhow::Result<()> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(MAX_HISTORY)?
            .build();
        let mut editor: LineEditor = Editor::with_config(config)?;
        editor.set_helper(Some(Completion(FilenameCompleter::new())));
        let history = self.loaded.state.as_ref().map(|state| state.join(HISTORY));
        // Without earlier lines it works too.
        let _ = history.as_ref().map(|path| editor.load_history(path));
        loop {
            let line = match editor.readline("> ") {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => {
                    say("Ctrl-D or /exit leaves");
                    continue;
                }
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let line = line.trim();
            if !line.is_empty() {
                editor.add_history_entry(self.redactor.redact(line))?;
                keep(&mut editor, history.as_ref());
            }
            match line.strip_prefix('/') {
                Some(_) => {
                    if self.command(line) {
                        return Ok(());
                    }
                }
                None if line.is_empty() && !self.parts.agent.session().is_in_turn() => {}
                None => self.turn((!line.is_empty()).then(|| line.to_owned())),
            }
        }
    }

    /// Runs a turn and says what it changed.
    fn turn(&mut self, prompt: Option<String>) {
        let cancel = Cancel::default();
        *lock(&self.turns) = cancel.clone();
        let before = newest(&self.parts);
        let mut output = TextOutput::for_chat(self.progress.clone());
        let mut listener = |event: TurnEvent<'_>| output.event(&event);
        let agent = &mut self.parts.agent;
        let ended = self.tokio.block_on(agent.turn(prompt, &cancel, &mut listener));
        // What cannot be written to the terminal is lost anyway.
        let _ = output.ends(&ended);
        say_stop(&ended);
        let changes = changed(&self.loaded, &self.parts, before);
        if !changes.files.is_empty() {
            self.last_change = changes.first.as_ref().and_then(|first| first.parse().ok());
            change_lines(&self.loaded, &changes);
        }
    }

    /// Does what a command says. Returns whether the user leaves.
    fn command(&mut self, line: &str) -> bool {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let done = match name {
            "/exit" | "/quit" => return true,
            "/help" => self.help(),
            "/model" => self.model(rest.trim()),
            "/tools" => self.tools(),
            "/undo" => self.undo(),
            "/checkpoint" | "/checkpoints" => self.checkpoints(),
            "/compact" => self.compact(),
            "/sessions" => self.sessions(),
            "/cost" => self.cost(),
            _ => self.skill(name, rest.trim()),
        };
        if let Err(error) = done {
            say(&format!("{error:#}"));
        }
        false
    }

    #[expect(clippy::unused_self, reason = "every command is a method")]
    fn help(&self) -> anyhow::Result<()> {
        let mut text = String::new();
        for (name, about) in COMMANDS {
            writeln!(text, "{name:<12} {about}")?;
        }
        text.push_str(
            "All else is for the model. A line that ends with `\\` continues on the next one.\n",
        );
        print(&text)
    }

    fn model(&mut self, name: &str) -> anyhow::Result<()> {
        if name.is_empty() {
            let chosen = &self.parts.chosen;
            return print(&format!(
                "{} ({}), a window of {} tokens\n",
                shown_line(&chosen.name),
                chosen.provider,
                chosen.context
            ));
        }
        let wishes = AgentWishes { model: Some(name.to_owned()), ..self.wishes.clone() };
        let chosen = self.tokio.block_on(choose_model(&self.loaded, &wishes, None))?;
        if chosen.is_lean() != self.parts.chosen.is_lean() {
            say(&format!(
                "the tools stay those of the first model; `sinew chat --resume {} --model {name}` serves those for this one",
                self.parts.wired.session
            ));
        }
        switch_model(&self.loaded, &wishes, chosen, &mut self.parts)?;
        self.model("")
    }

    /// Begins a turn with the instructions of a skill.
    fn skill(&mut self, command: &str, arguments: &str) -> anyhow::Result<()> {
        let name = command.trim_start_matches('/');
        let wired = &self.parts.wired;
        let caller = SkillCaller { session: &wired.session, ..SkillCaller::default() };
        let wanted = SkillRequest { name, arguments, variables: &[], file: None };
        let skills = wired.runtime.skills();
        let loaded = match self.tokio.block_on(skills.load(caller, wanted)) {
            Ok(loaded) => loaded,
            Err(error) if error.kind == Kind::NotFound => {
                let known: Vec<String> =
                    skills.list().into_iter().map(|skill| format!("/{}", skill.name)).collect();
                let known = match known.as_slice() {
                    [] => String::new(),
                    known => format!(", and the skills are {}", known.join(", ")),
                };
                bail!("there is no command `{}`; /help lists them{known}", shown_line(command));
            }
            Err(error) => bail!("{error}"),
        };
        let session = wired.session.clone();
        self.turn(Some(loaded_text(loaded, true)));
        // A turn that did not begin leaves nothing behind.
        self.parts.wired.runtime.widen_tools(&session);
        Ok(())
    }

    fn tools(&self) -> anyhow::Result<()> {
        let session = &self.parts.wired.session;
        let names: Vec<String> =
            self.parts.wired.runtime.with_listed_tools(None, (session, None), |tools| {
                tools.map(|tool| shown_line(&tool.name)).collect()
            });
        print(&format!("{}\n", names.join(", ")))
    }

    fn undo(&mut self) -> anyhow::Result<()> {
        let Some(id) = self.last_change else {
            bail!("no turn of this conversation changed a file; /checkpoint lists earlier changes");
        };
        let command = CheckpointCommand::Restore {
            id: id.to_string(),
            only: false,
            turn: false,
            path: None,
            force: false,
            partial: false,
            dry_run: false,
            yes: false,
            json: false,
        };
        if super::checkpoint::run((self.load)()?, &command)? == ExitCode::SUCCESS {
            self.last_change = None;
        }
        Ok(())
    }

    fn checkpoints(&self) -> anyhow::Result<()> {
        let mut loaded = (self.load)()?;
        loaded.settings.session = Some(self.parts.wired.session.clone());
        let command = CheckpointCommand::List { turn: None, path: None, limit: None, json: false };
        super::checkpoint::run(loaded, &command).map(drop)
    }

    fn compact(&mut self) -> anyhow::Result<()> {
        let cancel = Cancel::default();
        *lock(&self.turns) = cancel.clone();
        let mut output = TextOutput::for_chat(self.progress.clone());
        let mut listener = |event: TurnEvent<'_>| output.event(&event);
        self.tokio.block_on(self.parts.agent.compact(&cancel, &mut listener))?;
        Ok(())
    }

    fn sessions(&self) -> anyhow::Result<()> {
        let sessions = transcript::sessions(&self.loaded)?;
        let root = self.loaded.roots.first().context("there is no root")?.to_string_lossy();
        super::sessions::list(&sessions.list(Some(&root), 20)?, false)
    }

    fn cost(&self) -> anyhow::Result<()> {
        let usage = self.parts.agent.session().usage();
        print(&format!("{}\n", self.parts.chosen.usage_words(&usage)))
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut out = screen::output();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Stores the lines so far.
fn keep(editor: &mut LineEditor, path: Option<&PathBuf>) {
    if let Some(path) = path {
        // The next line tries again.
        let _ = editor.save_history(path);
    }
}

/// Completes commands and paths, and continues lines that end with a backslash.
struct Completion(FilenameCompleter);

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        context: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..at).unwrap_or_default();
        if before.starts_with('/') && !before.contains(' ') {
            let fitting = COMMANDS.iter().filter(|(name, _)| name.starts_with(before));
            let pair = |(name, about): &(&str, &str)| Pair {
                display: format!("{name}  {about}"),
                replacement: (*name).to_owned(),
            };
            return Ok((0, fitting.map(pair).collect()));
        }
        self.0.complete(line, at, context)
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}

impl Validator for Completion {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match context.input().ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Helper for Completion {}
