//! Plans of the records as contract types, with the reasons of conflicts in words.

use sinew_tool::{PathChange, RestoreAct, RestoreConflict, RestorePlan, RestoreStep, Was};

use super::States;
use sinew_records::checkpoints::{
    Act, Changer, CheckpointId, Conflict, Entry, Listed, PathState, Plan, PlannedStep,
};

/// Returns a plan as contract types, with the kept states that it names.
pub(super) fn told<'a>(
    plan: &Plan,
    listed: &Listed,
    entries: impl Iterator<Item = &'a Entry> + Clone,
) -> (RestorePlan, States) {
    let mut states = States::new();
    for step in &plan.steps {
        states.entry(step.path.clone()).or_default().push(step.wanted.clone());
    }
    for entry in entries.clone() {
        let both = [Some(&entry.before), entry.after.as_ref()].into_iter().flatten();
        states.entry(entry.path.clone()).or_default().extend(both.cloned());
    }
    let steps = plan.steps.iter().map(|step| RestoreStep {
        slot: None,
        path: step.path.clone(),
        act: act_of(step),
        now: was(&step.now),
        wanted: was(&step.wanted),
        conflict: step.conflict.as_ref().map(conflict_of),
        rebuild: None,
    });
    let told = RestorePlan {
        id: plan.id.to_string(),
        at_ms: listed.at_ms,
        tool: listed.mark.tool.clone(),
        session: plan.session.clone(),
        undone: plan.undone.iter().map(CheckpointId::to_string).collect(),
        changes: entries.map(change_of).collect(),
        steps: steps.collect(),
        left: Vec::new(),
    };
    (told, states)
}

fn act_of(step: &PlannedStep) -> RestoreAct {
    match step.act {
        Act::SetMode if matches!(step.wanted, PathState::Directory { .. }) => {
            RestoreAct::MakeDirectory
        }
        Act::SetAside => RestoreAct::SetAside,
        Act::BringBack => RestoreAct::BringBack,
        Act::Remove => RestoreAct::Remove,
        Act::RemoveDirectory => RestoreAct::RemoveDirectory,
        Act::MakeDirectory => RestoreAct::MakeDirectory,
        // A mode change rewrites the file, so that all changes take one code path.
        Act::Write | Act::SetMode => RestoreAct::Write,
        Act::MakeLink => RestoreAct::MakeLink,
        Act::Nothing => RestoreAct::Nothing,
    }
}

fn conflict_of(conflict: &Conflict) -> RestoreConflict {
    let why = match conflict {
        Conflict::Changed { after, by: Changer::Session { session, id } } => {
            format!("session {session} changed it after {after}, in {id}")
        }
        Conflict::Changed { after, by: Changer::Unknown } => {
            format!("a person, another program or a command changed it after {after}")
        }
        Conflict::Foreign => String::from("what is there was not made by the session, and stays"),
        Conflict::NotKept => String::from("its content is not kept"),
    };
    RestoreConflict { why, can_be_forced: conflict.can_be_forced() }
}

pub(super) fn change_of(entry: &Entry) -> PathChange {
    PathChange {
        path: entry.path.clone(),
        before: was(&entry.before),
        after: entry.after.as_ref().map(was),
        settled: entry.settled,
    }
}

pub(super) fn was(state: &PathState) -> Was {
    state.into()
}
