//! Checks the answers of hook programs, and applies them to replies.

use serde_json::{Map, Value};
use sinew_tool::{AgentEvent, Arguments, Block, HookAnswer, HookEvent, Reply};

/// Rejects an answer whose keys have the wrong types.
pub(super) fn check(event: HookEvent, answer: HookAnswer) -> Result<HookAnswer, String> {
    let (HookAnswer::Change(changes) | HookAnswer::Replace(changes)) = &answer else {
        return Ok(answer);
    };
    if changes.get("arguments").is_some_and(|arguments| !arguments.is_object()) {
        return Err(String::from("its `arguments` are not an object"));
    }
    if let Some(moment) = AgentEvent::example(event) {
        moment.changed(changes.clone()).map_err(|why| format!("its answer does not fit: {why}"))?;
    }
    let Some(reply) = changes.get("reply") else { return Ok(answer) };
    let Some(reply) = reply.as_object() else {
        return Err(String::from("its `reply` is not an object"));
    };
    if let Some(key) = reply.keys().find(|key| !["content", "structured"].contains(&key.as_str())) {
        return Err(format!("`{key}` of a reply cannot be changed; known: content, structured"));
    }
    if reply.get("content").is_some_and(|content| blocks(content).is_none()) {
        return Err(String::from("its `content` is neither a text nor a list of blocks of text"));
    }
    Ok(answer)
}

/// Returns the content blocks that a hook wrote.
fn blocks(content: &Value) -> Option<Vec<Block>> {
    let text = |text: &str| Block::Text { text: text.to_owned() };
    match content {
        Value::String(written) => Some(vec![text(written)]),
        Value::Array(written) => written
            .iter()
            .map(|block| match (block.get("type").and_then(Value::as_str), block.get("text")) {
                (Some("text"), Some(Value::String(written))) => Some(text(written)),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// Changes a reply; `is_whole` also removes the keys that the hook did not name.
pub(super) fn change(reply: &mut Reply, changed: &Map<String, Value>, is_whole: bool) {
    if let Some(content) = changed.get("content").and_then(blocks) {
        reply.content = content;
        reply.bounded = false;
    }
    match changed.get("structured") {
        Some(Value::Null) => reply.structured = None,
        Some(structured) => reply.structured = Some(structured.clone()),
        None if is_whole => reply.structured = None,
        None => {}
    }
}

/// Takes the object of a key out of an answer.
pub(super) fn part(mut changes: Map<String, Value>, key: &str) -> Arguments {
    match changes.shift_remove(key) {
        Some(Value::Object(part)) => part,
        _ => Arguments::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_change(answer: &str, expected: Result<(), &str>) {
        check_at(HookEvent::Persist, answer, expected);
    }

    #[track_caller]
    fn check_at(event: HookEvent, answer: &str, expected: Result<(), &str>) {
        let Value::Object(changes) = serde_json::from_str(answer).expect("JSON") else {
            panic!("no object")
        };
        match (check(event, HookAnswer::Change(changes)), expected) {
            (Ok(_), Ok(())) => {}
            (Err(why), Err(words)) => assert!(why.contains(words), "{answer}: {why}"),
            (checked, _) => panic!("{answer}: {checked:?}"),
        }
    }

    #[test]
    fn answers_of_other_types_are_failures() {
        check_change(r#"{"arguments":{}}"#, Ok(()));
        check_change(r#"{"arguments":[]}"#, Err("not an object"));
        check_change(r#"{"reply":"x"}"#, Err("not an object"));
        check_change(r#"{"reply":{"ok":true}}"#, Err("`ok` of a reply"));
        check_change(r#"{"reply":{"content":"x","structured":null}}"#, Ok(()));
        check_change(r#"{"reply":{"content":[{"type":"text","text":"x"}]}}"#, Ok(()));
        check_change(r#"{"reply":{"content":[{"type":"image","data":"x"}]}}"#, Err("neither"));
        check_change(r#"{"reply":{"content":1}}"#, Err("neither"));
        check_at(HookEvent::BeforePrompt, r#"{"messages":[]}"#, Ok(()));
        check_at(HookEvent::BeforePrompt, r#"{"messages":5}"#, Err("expected a sequence"));
        check_at(HookEvent::AfterModelCall, r#"{"text":5}"#, Err("does not fit"));
    }

    #[test]
    fn a_reply_changes_in_part_or_whole() {
        for (changed, is_whole, content, structured) in [
            (json!({ "content": "new" }), false, "new", Some(json!(1))),
            (json!({ "content": "new" }), true, "new", None),
            (json!({ "structured": 2 }), false, "old", Some(json!(2))),
            (json!({ "structured": null }), false, "old", None),
        ] {
            let mut reply = Reply::text("old");
            reply.structured = Some(json!(1));
            change(&mut reply, changed.as_object().expect("keys"), is_whole);
            let expected = Block::Text { text: content.to_owned() };
            assert_eq!((reply.content, reply.structured), (vec![expected], structured));
        }
    }
}
