//! clear: turns a ruling, and the approval it asks for, into a World.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sinew_guard::{ApprovalFingerprint, Guard};
use sinew_tool::agents::is_sub_agent;
use sinew_tool::sync::{into_inner, lock};
use sinew_tool::{
    Answer, AsksMidway, Context, Cost, Cover, Kind, Preview, Question, Ruling, Targets, ToolError,
    ToolIndex, Verdict, World,
};

use super::approval_hooks;
use super::decode::Decoded;
use super::judge::Judged;
use super::midway::MidwayAsker;
use super::open::{Open, asked_for, digest_of_question};
use super::run::in_time;
use super::standing::{covers, grant};
use crate::approvals::Approvals;
use crate::broker::{About, Digest};
use crate::hooks::messages;
use crate::runtime::{CallOptions, Runtime};
use crate::session_turns::HeldTurn;

pub(super) struct Clear {
    pub(super) decoded: Decoded,
    pub(super) effects: sinew_tool::Effects,
    pub(super) context: Context,
    /// Temporary files that may remain if the process dies during the change.
    pub(super) temporaries: Vec<PathBuf>,
    pub(super) ruling: Ruling,
    /// Held until the call ends, where the dialect takes turns.
    pub(super) session_turn: Option<HeldTurn>,
    /// Asks about what undo cannot keep of its command, if that runs only because it can be undone.
    pub(super) midway: Option<Arc<MidwayAsker>>,
}

/// The result of the question about a call.
enum Asked {
    /// An answer for this call, valid for this fingerprint.
    Answered(Answer, ApprovalFingerprint),
    /// A fixed answer mode decides for every call.
    Standing,
    /// The preview is empty, so the call runs on a read-only World.
    Looking,
}

/// Clears a call or rejects it. It holds no lock while it waits for an answer.
pub(super) async fn clear(
    runtime: &Arc<Runtime>,
    judged: Judged,
    open: &mut Open,
    options: &CallOptions,
) -> Result<Clear, ToolError> {
    let asked = match judged.call.ruling().verdict {
        // Boxed: most calls never ask, and its state is large.
        Verdict::Ask => Some(Box::pin(ask(runtime, &judged, open, options)).await?),
        Verdict::Allow | Verdict::Deny => None,
    };
    // Boxed: few dialects take turns. The approved targets are checked once more after the wait.
    let has_turn = open.request.parent.is_some() && !is_sub_agent(open.request.agent.as_deref());
    let takes_turn = judged.decoded.takes_turns && !has_turn && !options.loads_skill;
    let session_turn = match takes_turn {
        true => Some(Box::pin(session_turn(runtime, &judged.decoded, open, options)).await?),
        false => None,
    };
    let Judged { decoded, call, .. } = judged;
    let (effects, ruling) = (call.effects(), call.ruling().clone());
    let places = places(&call);
    let clearance = match asked {
        Some(Asked::Looking) => {
            let world = call.looking().ok_or_else(|| denied_by_rule(&ruling))?;
            let context = context(runtime, &decoded, places, world, open, options);
            let (temporaries, midway) = (Vec::new(), None);
            return Ok(Clear {
                decoded,
                effects,
                context,
                temporaries,
                ruling,
                session_turn,
                midway,
            });
        }
        Some(Asked::Answered(answer, fingerprint)) => call.by_answer(&answer, &fingerprint)?,
        Some(Asked::Standing) => call.by_standing_answer(),
        None => call.by_ruling(),
    };
    let cleared = Guard::clear(clearance.ok_or_else(|| denied_by_rule(&ruling))?)?;
    let mut context = context(runtime, &decoded, places, cleared.world, open, options);
    let temporaries = cleared.temporaries;
    let midway = context
        .targets
        .command
        .is_some()
        .then(|| MidwayAsker::new(runtime, &decoded, (effects, &context.targets), open));
    context.midway = midway.clone().map(|asker| asker as Arc<dyn AsksMidway>);
    Ok(Clear { decoded, effects, context, temporaries, ruling, session_turn, midway })
}

/// Waits for the turn of a call in its session. A call of another call takes none, since that one has it; sub-agents have
/// turns of their own.
async fn session_turn(
    runtime: &Arc<Runtime>,
    decoded: &Decoded,
    open: &Open,
    options: &CallOptions,
) -> Result<HeldTurn, ToolError> {
    let facts = decoded.facts;
    let address = open.request.address();
    let turn = async {
        match facts.parallel && facts.effects.only_observes() {
            true => runtime.session_turns.shared(address).await,
            false => runtime.session_turns.alone(address).await,
        }
    };
    in_time(turn, &options.cancel, open.request.deadline).await
}

fn places(call: &sinew_guard::Judged) -> (Arc<Targets>, Arc<Path>) {
    let contained = call.contained();
    (Arc::clone(contained.targets()), Arc::clone(contained.cwd()))
}

fn context(
    runtime: &Arc<Runtime>,
    decoded: &Decoded,
    (targets, cwd): (Arc<Targets>, Arc<Path>),
    world: World,
    open: &Open,
    options: &CallOptions,
) -> Context {
    let by = (open.request.session.as_str(), open.request.call_id.as_str());
    let messages =
        messages::with_hooks(runtime, Arc::clone(&world.messages), targets.message.as_ref(), by);
    let world = World { messages, ..world };
    Context {
        session: open.request.session.clone(),
        agent: open.request.agent.clone(),
        turn: open.request.turn.clone(),
        roots: open.request.roots.clone(),
        call_id: open.request.call_id.clone(),
        dialect: decoded.dialect,
        tools: Arc::clone(runtime) as Arc<dyn ToolIndex>,
        skills: runtime.skills(),
        agents: runtime.agents(),
        world,
        targets,
        cwd,
        settings: Arc::clone(&decoded.settings),
        memo: Arc::clone(&runtime.memo),
        cancel: options.cancel.clone(),
        // A hook may withhold the reply.
        progress: match runtime.hooks.see_replies() {
            true => options.progress.without_output(),
            false => options.progress.clone(),
        },
        midway: None,
        deadline: open.request.deadline,
        sleep: |time| Box::pin(tokio::time::sleep(time)),
    }
}

async fn ask(
    runtime: &Arc<Runtime>,
    judged: &Judged,
    open: &mut Open,
    options: &CallOptions,
) -> Result<Asked, ToolError> {
    let call = &judged.call;
    let ruling = call.ruling();
    match runtime.approvals {
        Approvals::TrustClient if call.wants_person() => {}
        // It is a yes to what stays in the roots and in the sandbox.
        Approvals::Allow if call.leaves_roots() || call.leaves_sandbox() => {
            return Err(call.outside_denied(false).unwrap_or_else(|| no_person(call, false)));
        }
        Approvals::Allow | Approvals::TrustClient => {
            open.entry.asked(runtime.approvals.as_str());
            return Ok(Asked::Standing);
        }
        Approvals::Deny => {
            let denied = || {
                unanswered(ruling, "`--approvals deny` is set")
                    .hint("the user can restart sinew without it, so that a person is asked")
            };
            return Err(call.outside_denied(false).unwrap_or_else(denied));
        }
        Approvals::Auto | Approvals::Ask => {}
    }
    if let Some(error) = call.missing_program() {
        return Err(error);
    }
    let session = open.request.session.clone();
    let asked_for = asked_for(runtime, &open.request);
    if runtime.broker.approvers(&session, &asked_for).is_empty() {
        let denied = || match call.wants_person() {
            true => no_person(call, true),
            false => unanswered(ruling, "no approver is connected"),
        };
        return Err(call.outside_denied(true).unwrap_or_else(denied));
    }
    let diff = match preview(runtime, judged, open, options).await {
        // What would come of it tells what is in the file.
        Preview::Nothing if call.leaves_roots() => None,
        Preview::Nothing => return Ok(Asked::Looking),
        Preview::Diff(diff) => Some(diff),
        Preview::Unknown => None,
    };
    // The answer holds for the state from here on.
    let fingerprint = call.fingerprint()?;
    let always = call.always();
    let digest = judged.digest.unwrap_or_else(|| open.digest(call));
    let covers = covers(runtime, (judged.decoded.tool.name(), call), always.as_deref());
    let answer = put(runtime, judged, open, options, (diff, covers, &fingerprint, digest)).await?;
    match answer {
        Answer::Yes(scope) => {
            let by = (session.as_str(), open.request.call_id.as_str(), open.entry.approver());
            grant(runtime, by, scope, always, digest).await?;
            Ok(Asked::Answered(Answer::Yes(scope), fingerprint))
        }
        Answer::No(words) => Err(ToolError::new(
            Kind::ApprovalDenied,
            match words {
                Some(words) => format!("the call was denied: {words}"),
                None => String::from("the call was denied"),
            },
        )),
        Answer::TimedOut => Err(ToolError::new(
            Kind::ApprovalTimeout,
            format!(
                "no approver answered within {} s, so the call did not run; it was not denied",
                runtime.answer_within.as_secs()
            ),
        )),
        // An approver may have seen the question, so its answer is unknown.
        Answer::Gone => Err(unanswered(ruling, "no approver answered")),
    }
}

/// Sends the question about a call and waits until it is settled.
async fn put(
    runtime: &Arc<Runtime>,
    judged: &Judged,
    open: &mut Open,
    options: &CallOptions,
    (diff, covers, fingerprint, digest): (Option<String>, Vec<Cover>, &ApprovalFingerprint, Digest),
) -> Result<Answer, ToolError> {
    let Judged { decoded, call, .. } = judged;
    let (ruling, request) = (call.ruling(), &open.request);
    let session = &request.session;
    let asked_for = asked_for(runtime, request);
    let asked = runtime.broker.approvers(session, &asked_for);
    let names: Vec<&str> = asked.iter().map(|approver| approver.name()).collect();
    let told = Mutex::new(None);
    let question = |n_asked, id| {
        let question = Question {
            id,
            call_id: request.call_id.clone(),
            session: session.clone(),
            agent: request.agent.clone(),
            asked_for: asked_for.clone(),
            tool: decoded.tool.name().to_owned(),
            tool_origin: decoded.tool.origin(),
            effects: call.effects().names(),
            targets: call.contained().targets().as_ref().clone(),
            arguments: decoded.shown_arguments.clone(),
            is_open: call.loads_unnamed(),
            undo: call.undo_cover(),
            unkept: None,
            is_running: false,
            diff: diff.clone(),
            sandbox: match call.leaves_sandbox() {
                true => Some(String::from("none")),
                false => fingerprint.containment().map(str::to_owned),
            },
            rule: ruling.rule,
            origin: ruling.origin.as_ref().map(ToString::to_string),
            why: ruling.why.to_string(),
            covers: covers.clone(),
            n_asked,
            timeout: runtime.answer_within,
        };
        let hooks = approval_hooks::asked(runtime, &*decoded.tool, &question, &names.join(", "));
        *lock(&told) = hooks;
        question
    };
    let asked_at = runtime.clock.now();
    let covered = || runtime.grants.cover(session, call, &digest);
    let alone = asked.iter().any(|approver| !approver.joins());
    let about = About {
        digest: digest_of_question(
            &digest,
            call,
            fingerprint,
            diff.as_deref(),
            alone.then_some(request.call_id.as_str()),
        ),
        session,
        call_id: &asked_for,
        timeout: runtime.answer_within,
    };
    let settled = tokio::select! {
        biased;
        () = options.cancel.cancelled() => None,
        settled = runtime.broker.settle(&about, question, covered) => Some(settled),
    };
    let waited = runtime.clock.now().saturating_duration_since(asked_at);
    // The time an approver takes does not count against the deadline.
    open.request.deadline =
        open.request.deadline.map(|deadline| deadline.checked_add(waited).unwrap_or(deadline));
    let Some(settled) = settled else {
        open.entry.asked(names.join(", "));
        open.entry.waited(waited);
        return Err(cancelled());
    };
    match settled.by {
        Some(by) => open.entry.asked(by),
        // No approver answered: note all of them.
        None => open.entry.asked(names.join(", ")),
    }
    open.entry.answered(&settled.answer, waited);
    let told = into_inner(told);
    approval_hooks::answered(told, settled.by, &settled.answer);
    match options.cancel.is_cancelled() {
        false => Ok(settled.answer),
        true => Err(cancelled()),
    }
}

fn cancelled() -> ToolError {
    ToolError::new(Kind::Cancelled, "the call was cancelled")
}

/// Computes the preview of a call; a long one runs on a blocking thread.
async fn preview(
    runtime: &Arc<Runtime>,
    judged: &Judged,
    open: &Open,
    options: &CallOptions,
) -> Preview {
    let Judged { decoded, call, .. } = judged;
    let Some(looking) = call.looking() else { return Preview::Unknown };
    let context = context(runtime, decoded, places(call), looking, open, options);
    match decoded.prepared.cost(&context.targets) {
        Cost::Waits => Preview::Unknown,
        // A preview is faster than any approver, and the question leaves this thread next.
        Cost::Cheap | Cost::Long => decoded.prepared.preview(&context),
    }
}

fn denied_by_rule(ruling: &Ruling) -> ToolError {
    ToolError::new(
        Kind::PolicyDenied,
        format!("denied by the rule `{}`: {}", ruling.rule, ruling.why),
    )
}

/// The error where only a person may answer, with how to attach one. `asks`: whether this mode asks one.
fn no_person(call: &sinew_guard::Judged, asks: bool) -> ToolError {
    let (because, how) = match asks {
        true => (
            "no approver is connected",
            "an MCP client that supports elicitation asks its user, `sinew approve` in a terminal asks for every client, \
             `sinew call` asks at its terminal",
        ),
        false => ("`--approvals allow` asks no person", "without that option a person is asked"),
    };
    let needs: Vec<String> =
        call.extra().needs().iter().map(|need| format!("\"{need}\"")).collect();
    let hint = match needs.as_slice() {
        [] => format!(
            "{how}, and `--approvals allow` runs it unasked; `--approvals trust-client` does not count here"
        ),
        _ if call.leaves_sandbox() => format!("{how}; no setting allows it"),
        needs => format!(
            "{how}, and a rule of the user allows it: `verdict = \"allow\"`, the `command`, and `needs = [{}]`",
            needs.join(", ")
        ),
    };
    let why = &call.ruling().why;
    ToolError::new(
        Kind::ApprovalDenied,
        format!("this call needs approval by a person ({why}), and {because}"),
    )
    .hint(hint)
}

fn unanswered(ruling: &Ruling, because: &str) -> ToolError {
    ToolError::new(
        Kind::ApprovalDenied,
        format!("this call needs approval ({}), and {because}", ruling.why),
    )
    .hint(
        "the user can answer at `sinew approve` in another terminal, restart sinew with `--approvals allow` or, over MCP, with \
         `--approvals trust-client` (the client's own confirmation counts); `sinew call` asks at a terminal",
    )
}
