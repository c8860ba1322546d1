//! running_call: what a question says of a call whose command runs, and what that command needs beyond its sandbox, judged as if
//! its call had named it.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_guard::{ApprovalFingerprint, Case, Clearance, Guard, Judged, OutsideGrant, Rule, Rules};
use sinew_tool::sync::lock;
use sinew_tool::{
    Access, Answer, Arguments, Caller, Claim, Effects, Event, Facts, Kind, MidwayAnswer, Need,
    Needs, OutsideAnswer, OutsideOpen, Question, Targets, Tool, ToolError, UndoCover, UnkeptChange,
    Verdict, line_name,
};

use super::decode::Decoded;
use super::midway::{self, QuestionState, UNKEPT};
use super::open::Open;
use super::standing;
use crate::approvals::Approvals;
use crate::broker::Digest;
use crate::catalog::Looker;
use crate::runtime::Runtime;

/// The most questions of one command about files outside the roots.
const MAX_ASKED_OUTSIDE: u32 = 3;

/// A call whose command runs.
pub(super) struct RunningCall {
    pub(super) tool: Arc<dyn Tool>,
    effects: Effects,
    targets: Arc<Targets>,
    arguments: Arguments,
    caller: Caller,
    roots: Option<Vec<PathBuf>>,
    pub(super) asked_for: String,
    guard: Arc<Guard>,
    rules: Arc<Rules>,
    own_rules: Arc<Rules>,
    lookers: Arc<[Looker]>,
    facts: Facts,
    is_denied: bool,
    outside: Mutex<OutsideSoFar>,
}

/// What was answered about files outside the roots.
#[derive(Default)]
struct OutsideSoFar {
    granted: Vec<OutsideGrant>,
    /// The answer that was no yes: it holds for each later one that a person would be asked about.
    refused: Option<MidwayAnswer>,
    n_asked: u32,
}

/// What the broker says of a question.
pub(super) struct QuestionOrder {
    pub(super) id: String,
    pub(super) n_asked: u64,
    pub(super) timeout: Duration,
    pub(super) sandbox: Option<String>,
}

impl RunningCall {
    pub(super) fn new(
        decoded: &Decoded,
        (effects, targets): (Effects, &Arc<Targets>),
        open: &Open,
        asked_for: String,
    ) -> Self {
        let request = &open.request;
        Self {
            tool: Arc::clone(&decoded.tool),
            effects,
            targets: Arc::clone(targets),
            arguments: decoded.shown_arguments.clone(),
            caller: Caller {
                session: request.session.clone(),
                agent: request.agent.clone(),
                turn: request.turn.clone(),
                call_id: request.call_id.clone(),
                tool: request.name.clone(),
                dialect: Cow::Owned(open.entry.dialect().into_owned()),
            },
            roots: request.roots.clone(),
            asked_for,
            guard: Arc::clone(&decoded.guard),
            rules: Arc::clone(&decoded.rules),
            own_rules: Arc::clone(&decoded.own_rules),
            lookers: Arc::clone(&decoded.lookers),
            facts: decoded.facts,
            is_denied: decoded.is_denied,
            outside: Mutex::default(),
        }
    }

    pub(super) fn session(&self) -> &str {
        &self.caller.session
    }

    pub(super) fn call_id(&self) -> &str {
        &self.caller.call_id
    }

    /// Hashes the call and what is asked about it; equal digests mean equal questions.
    pub(super) fn digest(&self, about: &[&str]) -> Digest {
        let mut hasher = blake3::Hasher::new();
        let Caller { session, agent, call_id, .. } = &self.caller;
        let call = [session.as_str(), agent.as_deref().unwrap_or_default(), call_id.as_str()];
        for text in call.iter().chain(about) {
            hasher.update(text.as_bytes()).update(&[0]);
        }
        hasher.finalize().into()
    }

    fn question(&self, order: QuestionOrder) -> Question {
        Question {
            id: order.id,
            call_id: self.caller.call_id.clone(),
            session: self.caller.session.clone(),
            agent: self.caller.agent.clone(),
            asked_for: self.asked_for.clone(),
            tool: self.tool.name().to_owned(),
            tool_origin: self.tool.origin(),
            effects: self.effects.names(),
            targets: self.targets.as_ref().clone(),
            arguments: self.arguments.clone(),
            is_open: false,
            undo: UndoCover::None,
            unkept: None,
            is_running: true,
            diff: None,
            sandbox: order.sandbox,
            rule: UNKEPT,
            origin: None,
            why: String::new(),
            covers: Vec::new(),
            n_asked: order.n_asked,
            timeout: order.timeout,
        }
    }

    /// Returns the question about a change that undo cannot keep.
    pub(super) fn question_of_unkept(
        &self,
        order: QuestionOrder,
        change: &UnkeptChange,
    ) -> Question {
        Question {
            unkept: Some(change.clone()),
            why: format!("it ran unasked, and {}", change.why),
            ..self.question(order)
        }
    }

    /// Returns whether the command may open a file outside the roots for writing. It needs that file, or its directory if it is
    /// new, and is judged as if its call had said so. `asking` is called once an approver is asked.
    pub(super) async fn opens(
        &self,
        runtime: &Arc<Runtime>,
        state: &Arc<QuestionState>,
        wanted: &OutsideOpen,
        asking: Box<dyn FnOnce() + Send>,
    ) -> OutsideAnswer {
        let Some(need) = self.guard.need_of_open(&wanted.path) else {
            return OutsideAnswer::Refused(MidwayAnswer::Unanswered);
        };
        let known = lock(&self.outside).granted.iter().find_map(|granted| granted.right(wanted));
        if let Some(right) = known {
            return OutsideAnswer::Granted(right);
        }
        let cleared = match self.needing(runtime, &need) {
            Ok(judged) => self.cleared(runtime, state, judged, (&need, wanted, asking)).await,
            Err(_) => Ok(None),
        };
        let clearance = match cleared {
            Ok(Some(clearance)) => clearance,
            Ok(None) => return OutsideAnswer::Refused(MidwayAnswer::Unanswered),
            Err(NotCleared::Answered(answer)) => {
                lock(&self.outside).refused = Some(answer.clone());
                return OutsideAnswer::Refused(answer);
            }
            Err(NotCleared::Failed(error)) if error.kind == Kind::Stale => {
                return OutsideAnswer::Failed(sinew_guard::stale());
            }
            Err(NotCleared::Failed(error)) => {
                return OutsideAnswer::Failed(io::Error::other(error.message.into_owned()));
            }
        };
        // A person may think for long.
        if self.guard.need_of_open(&wanted.path).as_ref() != Some(&need) {
            return OutsideAnswer::Failed(sinew_guard::stale());
        }
        let granted = need.path().and_then(|(path, _)| clearance.opens_at(path));
        let right = granted.as_ref().and_then(|granted| granted.right(wanted));
        lock(&self.outside).granted.extend(granted);
        right.map_or(OutsideAnswer::Refused(MidwayAnswer::Unanswered), OutsideAnswer::Granted)
    }

    /// Judges the call as if it had said that its command needs this.
    fn needing(&self, runtime: &Runtime, need: &Need) -> Result<Judged, ToolError> {
        let missing = || ToolError::new(Kind::PathDenied, "no call can name it");
        let target = self.targets.command.as_ref().ok_or_else(missing)?;
        let path = need.path().and_then(|(path, _)| path.to_str()).ok_or_else(missing)?;
        let mut claims: Vec<Claim> =
            self.targets.files.iter().map(|file| file.claim.clone()).collect();
        claims.push(Claim::new("needs", Some(path.to_owned()), Access::Lend { is_writable: true }));
        let mut command = target.command.clone();
        command.needs.get_or_insert_with(Needs::default).list.push(need.clone());
        let roots = self.roots.as_deref();
        let contained = self.guard.contain_command(&claims, Some(&target.cwd), roots)?;
        let contained = contained.by(self.caller.clone(), None);
        let agent = self.caller.agent.as_deref();
        let effects = match self.is_denied {
            true => self.effects | self.facts.effects,
            false => self.effects,
        };
        let (tool, operation) = (self.tool.name(), self.tool.operation());
        let case = Case { tool, operation, facts: &self.facts, effects, agent };
        let looks = self.lookers.iter().map(|looker| looker.case(agent));
        let lookers: Vec<_> = std::iter::once(case).chain(looks).collect();
        let contained = contained.with_command(command, &self.rules, &lookers)?;
        let judged = contained.judge(&case, &self.own_rules);
        Ok(runtime.grants.applied(self.session(), judged, None))
    }

    /// Clears the judged call, by its ruling or by the answer of an approver.
    async fn cleared(
        &self,
        runtime: &Arc<Runtime>,
        state: &Arc<QuestionState>,
        judged: Judged,
        (need, wanted, asking): (&Need, &OutsideOpen, Box<dyn FnOnce() + Send>),
    ) -> Result<Option<Clearance>, NotCleared> {
        match judged.ruling().verdict {
            Verdict::Allow => return Ok(judged.by_ruling()),
            Verdict::Deny => return Ok(None),
            Verdict::Ask => {}
        }
        let asks = matches!(runtime.approvals, Approvals::Auto | Approvals::Ask);
        if !asks || midway::approvers(runtime, self).is_empty() {
            return Ok(None);
        }
        {
            let mut outside = lock(&self.outside);
            if let Some(answer) = &outside.refused {
                return Err(NotCleared::Answered(answer.clone()));
            }
            if MAX_ASKED_OUTSIDE <= outside.n_asked {
                return Ok(None);
            }
            outside.n_asked += 1;
        }
        // The answer holds for the state from here on.
        let fingerprint = judged.fingerprint().map_err(NotCleared::Failed)?;
        let always = judged.always();
        let digest = self.digest(&["needs", &need.to_string()]);
        asking();
        let about = (&fingerprint, always.as_deref(), digest);
        let asked = self.ask(runtime, state, &judged, &wanted.path, about);
        let (answer, by) = asked.await;
        let Answer::Yes(scope) = answer else {
            return Err(NotCleared::Answered(midway::answer_of(&answer)));
        };
        runtime.ledger.event(Event {
            kind: "grant",
            text: format!(
                "{need} while the command of the call {} runs; answered by {}",
                self.call_id(),
                by.unwrap_or("a standing answer"),
            ),
            session: Some(self.session().to_owned()),
        });
        let granting =
            standing::grant(runtime, (self.session(), self.call_id(), by), scope, always, digest);
        granting.await.map_err(NotCleared::Failed)?;
        judged.by_answer(&Answer::Yes(scope), &fingerprint).map_err(NotCleared::Failed)
    }

    /// Asks about what the command needs. Returns the answer, and who gave it.
    async fn ask(
        &self,
        runtime: &Arc<Runtime>,
        state: &Arc<QuestionState>,
        judged: &Judged,
        path: &Path,
        (fingerprint, always, digest): (&ApprovalFingerprint, Option<&[Rule]>, Digest),
    ) -> (Answer, Option<&'static str>) {
        let ruling = judged.ruling();
        let covers = standing::covers(runtime, (self.tool.name(), judged), always);
        let question = |order: QuestionOrder| Question {
            effects: judged.effects().names(),
            targets: judged.contained().targets().as_ref().clone(),
            is_open: judged.loads_unnamed(),
            undo: judged.undo_cover(),
            sandbox: fingerprint.containment().map(str::to_owned),
            rule: ruling.rule,
            origin: ruling.origin.as_ref().map(ToString::to_string),
            why: format!("the command waits to open {} for writing", line_name(path)),
            covers: covers.clone(),
            ..self.question(order)
        };
        let covered = || runtime.grants.cover(self.session(), judged, &digest);
        midway::put(runtime, self, state, (digest, &question), &covered).await
    }
}

/// Why a command does not get what it needs.
enum NotCleared {
    /// An approver answered so, or none did.
    Answered(MidwayAnswer),
    /// The answer cannot be kept, or what it was about has changed.
    Failed(ToolError),
}
