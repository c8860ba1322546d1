//! standing: what an answer can cover beside its call, and how that is kept.

use std::sync::Arc;

use sinew_guard::Rule;
use sinew_tool::{CommandLine, Cover, Event, Kind, Scope, ToolError};

use crate::broker::Digest;
use crate::grants::SessionGrant;
use crate::question;
use crate::runtime::Runtime;

/// Returns the scopes that an answer can cover beside the call itself.
pub(super) fn covers(
    runtime: &Runtime,
    (tool, call): (&str, &sinew_guard::Judged),
    always: Option<&[Rule]>,
) -> Vec<Cover> {
    let mut covers = Vec::new();
    let targets = call.contained().targets();
    // The same command words may meet other files, so commands get patterns, not exact grants.
    if call.can_be_granted() && targets.command.is_none() {
        let what = vec![format!("{tool} with these arguments")];
        covers.push(Cover { scope: Scope::Exact, what, only_at_terminal: false });
    }
    let is_long = |line: &CommandLine| match line {
        CommandLine::Shell(_, text) => question::MAX_SHOWN_COMMAND < text.len(),
        CommandLine::Argv(_) => false,
    };
    // A long text must be read in full, each time.
    let is_long = targets.command.as_ref().is_some_and(|one| is_long(&one.command.line));
    if let Some(rules) = always.filter(|_| !is_long) {
        let what: Vec<String> = rules.iter().map(ToString::to_string).collect();
        let only_at_terminal = call.leaves_sandbox();
        covers.push(Cover { scope: Scope::Session, what: what.clone(), only_at_terminal });
        if runtime.grant_store.is_some() {
            covers.push(Cover { scope: Scope::Forever, what, only_at_terminal });
        }
    }
    covers
}

/// Keeps grants as long as the session. Blocks elsewhere: another process may write to the store.
async fn keep_stored(runtime: &Arc<Runtime>, session: &str, grants: Vec<SessionGrant>) {
    let (kept, session_name, stored) = (Arc::clone(runtime), session.to_owned(), grants.clone());
    let storing = move || kept.grants.store(&session_name, &stored);
    // Grants that cannot be stored count until the process ends.
    let _ = tokio::task::spawn_blocking(storing).await;
    runtime.grants.keep(session, grants);
}

fn of_rules(rules: Vec<Rule>) -> Vec<SessionGrant> {
    rules.into_iter().map(|rule| SessionGrant::Rule(Box::new(rule))).collect()
}

/// Stores the grants of an answer and settles other pending questions that they cover.
pub(super) async fn grant(
    runtime: &Arc<Runtime>,
    (session, call_id, by): (&str, &str, Option<&str>),
    scope: Scope,
    always: Option<Vec<Rule>>,
    digest: Digest,
) -> Result<(), ToolError> {
    let rules = always.unwrap_or_default();
    let what: Vec<String> = rules.iter().map(ToString::to_string).collect();
    match scope {
        Scope::Call => return Ok(()),
        Scope::Exact => keep_stored(runtime, session, vec![SessionGrant::Call(digest)]).await,
        Scope::Session => keep_stored(runtime, session, of_rules(rules)).await,
        Scope::Forever => {
            if let Some(grant_store) = &runtime.grant_store {
                // Blocks: another process may hold the grant store.
                let (grant_store, rules) = (Arc::clone(grant_store), rules.clone());
                let kept = tokio::task::spawn_blocking(move || grant_store.keep(&rules)).await;
                kept.unwrap_or_else(|error| {
                    Err(ToolError::new(Kind::ExecutionFailed, "the answer could not be kept")
                        .source(error.to_string()))
                })?;
            }
            // Stored once: who takes the rule away is asked again, also in this session.
            runtime.grants.keep(session, of_rules(rules));
        }
    }
    let what = match scope {
        Scope::Exact => String::from("one call as it is"),
        _ => what.join(", "),
    };
    runtime.ledger.event(Event {
        kind: "grant",
        text: format!(
            "{}: {what}; answered by {} for the call {}",
            scope.as_str(),
            by.unwrap_or("no approver"),
            call_id
        ),
        session: Some(session.to_owned()),
    });
    runtime.broker.tell_granted();
    Ok(())
}
