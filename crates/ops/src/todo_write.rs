//! TodoWrite: the list of open tasks, which the model keeps for itself and shows to the person.

use serde::Deserialize;
use sinew_tool::{
    Context, Cost, Facts, Operation, Param, ParamKind, Reply, Row, Targets, ToolError, shown_line,
};

/// The most items of a list.
pub const MAX_ITEMS: usize = 200;
/// The longest text of an item, in bytes.
pub const MAX_TEXT: usize = 1_000;

/// Replaces the list of tasks.
#[derive(Debug)]
pub struct TodoWrite;

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// It did not begin.
    Pending,
    /// It is being done.
    InProgress,
    /// It is done.
    Completed,
}

/// One item.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// The task.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// What it is called while it is being done.
    #[serde(default)]
    pub active_form: Option<String>,
}

/// Arguments of TodoWrite.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TodoWriteArgs {
    /// The whole list.
    #[serde(default)]
    pub todos: Vec<Todo>,
}

const TODO: &[Param] = &[
    Param::required("content", "content", ParamKind::String, ""),
    Param::required(
        "status",
        "status",
        ParamKind::Enum(&["pending", "in_progress", "completed"]),
        "",
    ),
    Param::optional("activeForm", "active_form", ParamKind::String, "as shown while it is done"),
];

/// The native row.
pub const NATIVE: Row<TodoWrite> = Row {
    name: "TodoWrite",
    description: "Replaces your list of tasks, which the user sees. Use it for work of three steps or more, with one \
                  task in progress at a time.",
    params: &[Param::required("todos", "todos", ParamKind::Objects(TODO), "")],
    core: false,
    ..Row::<TodoWrite>::shaped(|args, (), _| Reply::text(shown(&args.todos)))
};

impl Operation for TodoWrite {
    const NAME: &'static str = "TodoWrite";
    const FACTS: Facts = Facts { parallel: false, ..Facts::OBSERVES };
    type Args = TodoWriteArgs;
    type Out = ();

    fn check(args: &TodoWriteArgs) -> Result<(), ToolError> {
        if MAX_ITEMS < args.todos.len() {
            let problem = format!("has {} items; {MAX_ITEMS} are the most", args.todos.len());
            return Err(ToolError::argument("todos", problem));
        }
        for (at, todo) in args.todos.iter().enumerate() {
            let problem = match todo.content.len() {
                _ if todo.content.trim().is_empty() => String::from("is empty"),
                n if MAX_TEXT < n => format!("has {n} bytes; {MAX_TEXT} are the most"),
                _ => continue,
            };
            return Err(ToolError::argument(&format!("todos[{at}].content"), problem));
        }
        Ok(())
    }

    fn cost(_args: &TodoWriteArgs, _targets: &Targets) -> Cost {
        Cost::Cheap
    }

    async fn run(_args: &TodoWriteArgs, _cx: &Context) -> Result<(), ToolError> {
        Ok(())
    }
}

/// Returns the list, one line for each item.
fn shown(todos: &[Todo]) -> String {
    let n_done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
    let mut text = format!("{n_done} of {} done\n", todos.len());
    for todo in todos {
        let (mark, words) = match todo.status {
            TodoStatus::Pending => (' ', &todo.content),
            TodoStatus::InProgress => ('>', todo.active_form.as_ref().unwrap_or(&todo.content)),
            TodoStatus::Completed => ('x', &todo.content),
        };
        text.push_str(&format!("[{mark}] {}\n", shown_line(words)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(todos: &str, expected: Result<&str, &str>) {
        let args: TodoWriteArgs =
            serde_json::from_str(&format!("{{\"todos\":{todos}}}")).expect(todos);
        let found = TodoWrite::check(&args).map(|()| shown(&args.todos));
        match (found, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected, "{todos}"),
            (Err(error), Err(expected)) => assert!(error.message.contains(expected), "{error:?}"),
            (found, _) => panic!("{todos}: {found:?}"),
        }
    }

    #[test]
    fn lists_are_shown_and_bounded() {
        check(
            r#"[{"content":"a","status":"completed"},{"content":"b","status":"in_progress","active_form":"doing\nb"},{"content":"c","status":"pending"}]"#,
            Ok("1 of 3 done\n[x] a\n[>] doing\\nb\n[ ] c\n"),
        );
        check(r#"[{"content":" ","status":"pending"}]"#, Err("todos[0].content"));
        let long = format!(r#"[{{"content":"{}","status":"pending"}}]"#, "x".repeat(MAX_TEXT + 1));
        check(&long, Err("1001 bytes"));
        let item = r#"{"content":"a","status":"pending"}"#;
        let many = format!("[{}]", vec![item; MAX_ITEMS + 1].join(","));
        check(&many, Err("201 items"));
    }
}
