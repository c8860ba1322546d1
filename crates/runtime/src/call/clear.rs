//! clear: a ruling, and an answer where it asks, become a World.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sinew_guard::Guard;
use sinew_tool::{
    Answer, Context, Cost, Kind, Preview, Question, Ruling, Targets, ToolError, Verdict, World,
};

use super::approval_hooks;
use super::decode::Decoded;
use super::judge::Judged;
use super::open::Open;
use crate::approvals::Approvals;
use crate::runtime::{CallOptions, Runtime};

/// A call with the World it may touch.
pub(super) struct Clear {
    pub(super) decoded: Decoded,
    pub(super) effects: sinew_tool::Effects,
    pub(super) context: Context,
    /// The temporary files that the change may leave behind if the process dies in it.
    pub(super) temporaries: Vec<PathBuf>,
    pub(super) ruling: Ruling,
}

/// What the question about a call came to.
enum Asked {
    /// Somebody answered for this call.
    Answered(Answer),
    /// An answer stands for every call.
    Standing,
    /// Nothing would change, so the call runs on a World that can only look.
    Looking,
}

/// Clears a call, or says why it may not run. Waiting for an answer holds no lock.
pub(super) async fn clear(
    runtime: &Runtime,
    judged: Judged,
    open: &mut Open,
    options: &CallOptions,
) -> Result<Clear, ToolError> {
    let asked = match judged.call.ruling().verdict {
        // Most calls never ask: what asking needs to remember is kept apart.
        Verdict::Ask => Some(Box::pin(ask(runtime, &judged, open, options)).await?),
        Verdict::Allow | Verdict::Deny => None,
    };
    let Judged { decoded, call } = judged;
    let (effects, ruling) = (call.effects(), call.ruling().clone());
    let places = places(&call);
    let clearance = match asked {
        Some(Asked::Looking) => {
            let world = call.looking().ok_or_else(|| denied_by_rule(&ruling))?;
            let context = context(runtime, &decoded, places, world, open, options);
            return Ok(Clear { decoded, effects, context, temporaries: Vec::new(), ruling });
        }
        Some(Asked::Answered(answer)) => call.by_answer(&answer),
        Some(Asked::Standing) => call.by_standing_answer(),
        None => call.by_ruling(),
    };
    let cleared = Guard::clear(clearance.ok_or_else(|| denied_by_rule(&ruling))?)?;
    let context = context(runtime, &decoded, places, cleared.world, open, options);
    Ok(Clear { decoded, effects, context, temporaries: cleared.temporaries, ruling })
}

/// Returns what a call names, and where relative paths start.
fn places(call: &sinew_guard::Judged) -> (Arc<Targets>, Arc<Path>) {
    let contained = call.contained();
    (Arc::clone(contained.targets()), Arc::clone(contained.cwd()))
}

fn context(
    runtime: &Runtime,
    decoded: &Decoded,
    (targets, cwd): (Arc<Targets>, Arc<Path>),
    world: World,
    open: &Open,
    options: &CallOptions,
) -> Context {
    Context {
        world,
        targets,
        cwd,
        settings: Arc::clone(&decoded.settings),
        memo: Arc::clone(&runtime.memo),
        cancel: options.cancel.clone(),
        progress: options.progress.clone(),
        deadline: open.request.deadline,
        sleep: |time| Box::pin(tokio::time::sleep(time)),
    }
}

async fn ask(
    runtime: &Runtime,
    judged: &Judged,
    open: &mut Open,
    options: &CallOptions,
) -> Result<Asked, ToolError> {
    let Judged { decoded, call } = judged;
    let ruling = call.ruling();
    match runtime.asking.approvals {
        Approvals::Allow | Approvals::TrustClient => {
            open.entry.answered(runtime.asking.approvals.as_str());
            return Ok(Asked::Standing);
        }
        Approvals::Deny => return Err(nobody(ruling, "`--approvals deny` is set")),
        Approvals::Auto | Approvals::Ask => {}
    }
    let Some(approver) = &runtime.asking.approver else {
        let asks_each = decoded.rules.require_approval;
        if runtime.asking.approvals == Approvals::Auto && !asks_each && call.can_be_undone() {
            open.entry.answered("checkpoint");
            return Ok(Asked::Standing);
        }
        return Err(nobody(ruling, "nobody can be asked here"));
    };
    let diff = match preview(runtime, judged, open, options).await {
        Preview::Nothing => return Ok(Asked::Looking),
        Preview::Diff(diff) => Some(diff),
        Preview::Unknown => None,
    };
    let always = call.always();
    let question = Question {
        call_id: open.request.call_id.clone(),
        session: open.request.session.clone(),
        tool: decoded.tool.name().to_owned(),
        effects: call.effects().names(),
        targets: call.contained().targets().as_ref().clone(),
        diff,
        rule: ruling.rule,
        why: ruling.why.to_string(),
        always: always.as_ref().map(|all| all.iter().map(ToString::to_string).collect()),
    };
    open.entry.answered(approver.name());
    let told = approval_hooks::asked(runtime, &question, approver.name());
    let answer = tokio::select! {
        answer = tokio::time::timeout(runtime.asking.timeout, approver.ask(question)) => {
            answer.unwrap_or(Answer::TimedOut)
        }
        () = options.cancel.cancelled() => {
            return Err(ToolError::new(Kind::Cancelled, "the call was cancelled"));
        }
    };
    approval_hooks::answered(told, &answer).await;
    match answer {
        Answer::Yes => Ok(Asked::Answered(answer)),
        Answer::Always => {
            runtime.grants.keep(&open.request.session, always.unwrap_or_default());
            Ok(Asked::Answered(answer))
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
                "nobody answered within {} s, so the call did not run; it was not denied",
                runtime.asking.timeout.as_secs()
            ),
        )),
    }
}

/// Works out what a call would change, on a thread for long work where the call is long.
async fn preview(
    runtime: &Runtime,
    judged: &Judged,
    open: &Open,
    options: &CallOptions,
) -> Preview {
    let Judged { decoded, call } = judged;
    let Some(looking) = call.looking() else { return Preview::Unknown };
    let context = context(runtime, decoded, places(call), looking, open, options);
    match decoded.prepared.cost(&context.targets) {
        Cost::Waits => Preview::Unknown,
        // Whoever answers is slower than any preview, and nothing else waits for this thread: the
        // question is about to move the call off it.
        Cost::Cheap | Cost::Long => decoded.prepared.preview(&context),
    }
}

fn denied_by_rule(ruling: &Ruling) -> ToolError {
    ToolError::new(
        Kind::PolicyDenied,
        format!("denied by the rule `{}`: {}", ruling.rule, ruling.why),
    )
}

fn nobody(ruling: &Ruling, because: &str) -> ToolError {
    ToolError::new(
        Kind::ApprovalDenied,
        format!("this call needs approval ({}), and {because}", ruling.why),
    )
    .hint(
        "the person in charge can start sinew with `--approvals allow` or, over MCP, `--approvals \
         trust-client` (the client's own confirmation counts); `sinew call` asks at a terminal",
    )
}
