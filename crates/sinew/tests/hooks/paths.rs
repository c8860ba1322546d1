//! Which paths hooks see in the arguments of a call.

use serde_json::{Value, json};

use super::Place;

/// Hooks had seen the paths of molf as the model wrote them, so that a rule of a hook had to know the directory.
#[test]
fn molf_hooks_see_joined_paths() {
    let place = Place::new();
    place.hook("before_tool_execute", "cat > {home}/seen", "");
    std::fs::create_dir(place.place.root.join("sub")).unwrap();
    for (tool, args, expected) in [
        ("read_file", json!({"path": "a.txt"}), json!({"path": "{root}/a.txt"})),
        ("read_file", json!({"path": "./sub/../a.txt"}), json!({"path": "{root}/sub/../a.txt"})),
        ("read_file", json!({"path": "{root}/a.txt"}), json!({"path": "{root}/a.txt"})),
        (
            "write_file",
            json!({"path": "sub/b", "content": "a.txt"}),
            json!({"path": "{root}/sub/b", "content": "a.txt"}),
        ),
        (
            "edit_file",
            json!({"path": "sub/b", "oldString": "sub/b", "newString": "x"}),
            json!({"path": "{root}/sub/b", "oldString": "sub/b", "newString": "x"}),
        ),
        ("glob", json!({"pattern": "*"}), json!({"pattern": "*", "path": "{root}"})),
        ("glob", json!({"pattern": "*", "path": ""}), json!({"pattern": "*", "path": "{root}"})),
        ("grep", json!({"pattern": "x", "path": "."}), json!({"pattern": "x", "path": "{root}"})),
        ("shell_exec", json!({"command": "ls"}), json!({"command": "ls", "cwd": "{root}"})),
        (
            "shell_exec",
            json!({"command": "ls", "cwd": "sub"}),
            json!({"command": "ls", "cwd": "{root}/sub"}),
        ),
        // What cannot be decoded stays as it is, and is refused after the hooks.
        ("read_file", json!({"path": 1}), json!({"path": 1})),
    ] {
        let args = place.filled(&args.to_string());
        let ran =
            place.run(&["--dialect", "molf", "--approvals", "allow", "call", tool, &args], "");
        let seen = place.noted("seen").unwrap_or_else(|| panic!("{tool} {args}: {ran:?}"));
        let seen: Value = serde_json::from_str(&seen).unwrap();
        let expected: Value = serde_json::from_str(&place.filled(&expected.to_string())).unwrap();
        assert_eq!(seen["arguments"], expected, "{tool} {args}");
    }
    // Other vocabularies show them as they were written.
    place.run(&["call", "Read", "{\"file_path\": \"a.txt\"}"], "");
    let seen: Value = serde_json::from_str(&place.noted("seen").unwrap()).unwrap();
    assert_eq!(seen["arguments"], json!({"file_path": "a.txt"}));
}
