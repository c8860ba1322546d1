use proptest::prelude::*;
use serde_json::json;

use super::*;

fn item(path: &[&str], value: Value, role: Role) -> Item {
    Item { path: path.iter().map(ToString::to_string).collect(), value, role }
}

fn server(table: &str) -> Item {
    let value = json!({ "command": "/opt/sinew", "args": ["mcp"] });
    item(&[table, "sinew"], value, Role::Server)
}

/// Merges, and checks that the old text comes back.
#[track_caller]
fn merged(format: TextFormat, text: &str, wanted: &[Item]) -> Merged {
    let merged = merge(format, text, wanted).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let undone = undo(format, &merged.text, &merged.edit, true);
    let old = Undone { text: text.to_owned(), kept: Vec::new(), is_exact: true };
    assert_eq!(undone, Ok(old), "{text:?}");
    // A second merge finds every value and adds nothing.
    let again = merge(format, &merged.text, wanted);
    assert_eq!(again.map(|again| again.text), Ok(merged.text.clone()));
    merged
}

#[test]
fn insertions_follow_the_layout_around_them() {
    let deny = |tool: &str| item(&["deny"], json!(tool), Role::Element);
    for (text, wanted, new) in [
        ("{}", vec![item(&["a"], json!(1), Role::Setting)], "{\n  \"a\": 1\n}"),
        ("{\r\n}", vec![item(&["a"], json!(1), Role::Setting)], "{\r\n  \"a\": 1\r\n}"),
        ("{\"b\":2}", vec![item(&["a"], json!(1), Role::Setting)], "{\"b\":2, \"a\": 1}"),
        ("{\"b\":2,}", vec![item(&["a"], json!(1), Role::Setting)], "{\"b\":2, \"a\": 1,}"),
        (
            "{\n\t\"b\": 2 // two\n}",
            vec![item(&["a"], json!(1), Role::Setting)],
            "{\n\t\"b\": 2, // two\n\t\"a\": 1\n}",
        ),
        (
            "{\n    \"b\": 2, // two\n    // \"c\": 3\n}",
            vec![item(&["a"], json!(1), Role::Setting)],
            "{\n    \"b\": 2, // two\n    \"a\": 1,\n    // \"c\": 3\n}",
        ),
        (
            "{\n  \"x\": {\n    // none\n  }\n}",
            vec![item(&["x", "a"], json!(1), Role::Setting)],
            "{\n  \"x\": {\n    // none\n    \"a\": 1\n  }\n}",
        ),
        (
            "{\"deny\": [\"A\"]}",
            vec![deny("A"), deny("B"), deny("C")],
            "{\"deny\": [\"A\", \"B\", \"C\"]}",
        ),
        ("// only this\n", vec![deny("A")], "// only this\n{\n  \"deny\": [\"A\"]\n}\n"),
        ("", vec![deny("A")], "{\n  \"deny\": [\"A\"]\n}\n"),
        ("\u{feff}{ }\n", vec![deny("A")], "\u{feff}{\n  \"deny\": [\"A\"]\n }\n"),
    ] {
        assert_eq!(merged(TextFormat::Json, text, &wanted).text, new);
    }
}

#[test]
fn tables_of_toml_are_added_where_they_are_valid() {
    let off = || item(&["features", "shell_tool"], json!(false), Role::Setting);
    let table = "[servers.sinew]\ncommand = \"/opt/sinew\"\nargs = [\"mcp\"]\n";
    for (text, wanted, new) in [
        ("", vec![server("servers")], table.to_owned()),
        ("a = 1", vec![server("servers")], format!("a = 1\n\n{}", table.trim_end())),
        ("a = 1\n", vec![off()], String::from("a = 1\n\n[features]\nshell_tool = false\n")),
        (
            "[features] # of mine\r\n\r\n[b]\r\n",
            vec![off()],
            String::from("[features] # of mine\r\nshell_tool = false\r\n\r\n[b]\r\n"),
        ),
        (
            "features.a = [\n  1,\n] # x\nb = 2\n",
            vec![off()],
            String::from("features.a = [\n  1,\n] # x\nfeatures.shell_tool = false\nb = 2\n"),
        ),
        (
            "servers = { a = { command = \"x\" } } # in line\n",
            vec![server("servers")],
            String::from(
                "servers = { a = { command = \"x\" }, sinew = { command = \"/opt/sinew\", args = [\"mcp\"] } } # in \
                 line\n",
            ),
        ),
        (
            "servers.a.command = \"x\"\n",
            vec![server("servers")],
            format!("servers.a.command = \"x\"\n\n{table}"),
        ),
        (
            "[features.sub]\nx = 1\n",
            vec![off()],
            String::from("[features.sub]\nx = 1\n\n[features]\nshell_tool = false\n"),
        ),
    ] {
        assert_eq!(merged(TextFormat::Toml, text, &wanted).text, new);
    }
}

#[test]
fn a_changed_file_loses_only_what_is_still_equal() {
    let deny = |tool: &str| item(&["deny"], json!(tool), Role::Element);
    let wanted = [server("servers"), deny("A"), deny("B")];
    for (old, change, undone, n_kept) in [
        // Another server beside ours, where the container was made by the setup.
        (
            "{}\n",
            ("\"args\": [\"mcp\"]\n    }", "\"args\": [\"mcp\"]\n    },\n    \"x\": {}"),
            "{\n  \"servers\": {\n    \"x\": {}\n  }\n}\n",
            0,
        ),
        // A value of ours that changed.
        (
            "{}\n",
            ("/opt/sinew", "/usr/bin/sinew"),
            "{\n  \"servers\": {\n    \"sinew\": {\n      \"command\": \"/usr/bin/sinew\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n",
            1,
        ),
        // A key elsewhere.
        ("{\n  \"a\": 1\n}\n", ("\"a\": 1", "\"a\": 2"), "{\n  \"a\": 2\n}\n", 0),
        // An element that its owner removed, and one that was added.
        (
            "{\"a\": 1, \"deny\": [\"Z\"]}",
            ("\"A\", \"B\"", "\"B\", \"C\""),
            "{\"a\": 1, \"deny\": [\"Z\", \"C\"]}",
            0,
        ),
        // Another layout.
        ("{}\n", ("{\n      \"command\": ", "{\"command\":"), "{\n}\n", 0),
    ] {
        let merged = merged(TextFormat::Json, old, &wanted);
        let (from, to) = change;
        assert_eq!(merged.text.matches(from).count(), 1, "{}", merged.text);
        let changed = merged.text.replace(from, to);
        let found =
            undo(TextFormat::Json, &changed, &merged.edit, false).expect("it can be undone");
        assert_eq!((found.text.as_str(), found.kept.len()), (undone, n_kept), "{changed}");
    }
}

/// What followed a removed value on its line moved behind the comment before it.
#[test]
fn removal_behind_a_line_comment_keeps_its_end() {
    let server = server("servers");
    let ours = "\"sinew\": {\"command\": \"/opt/sinew\", \"args\": [\"mcp\"]}";
    for (old, new) in [
        (
            format!("{{\"servers\": {{\"a\": 1, // mine\n  {ours}}}}}\n"),
            "{\"servers\": {\"a\": 1 // mine\n  }}\n",
        ),
        (
            format!("{{\"servers\": {{ // mine\r\n{ours}, \"a\": 1}}}}"),
            "{\"servers\": { // mine\r\n \"a\": 1}}",
        ),
        (
            format!("{{\"servers\": {{\n  // mine\n  {ours},\n  \"a\": 1}}}}"),
            "{\"servers\": {\n  // mine\n  \"a\": 1}}",
        ),
    ] {
        let edit = Edit { items: vec![server.clone()], ..Edit::default() };
        let undone = undo(TextFormat::Json, &old, &edit, false).map(|undone| undone.text);
        assert_eq!(undone, Ok(String::from(new)));
    }
}

/// A printer dropped comments before a removed table and made all line ends the same.
#[test]
fn removal_from_toml_keeps_other_bytes() {
    let off = item(&["features", "x"], json!(false), Role::Setting);
    let table = "[servers.sinew]\ncommand = \"/opt/sinew\"\nargs = [\"mcp\"]\n";
    let inline = "sinew = { command = \"/opt/sinew\", args = [\"mcp\"] }";
    for (item, old, new) in [
        (
            server("servers"),
            format!("a = 1\r\n# mine\n\n{table}\n# b\n[b]\r\n"),
            "a = 1\r\n# mine\n\n# b\n[b]\r\n",
        ),
        (
            server("servers"),
            table.replace("args", "# mine\nargs").replace("]\n", "] # ours\n"),
            "# mine\n",
        ),
        (
            server("servers"),
            format!("[servers] # all\n{inline}\na = 1\n"),
            "[servers] # all\na = 1\n",
        ),
        (server("servers"), format!("servers = {{ {inline} , a = 1 }}"), "servers = {  a = 1 }"),
        (
            server("servers"),
            format!("servers = {{ a = 1, {inline} }} # in line"),
            "servers = { a = 1 } # in line",
        ),
        (
            off.clone(),
            String::from("features.a = 1\nfeatures.x = false # ours\nb = 2"),
            "features.a = 1\nb = 2",
        ),
        (off, String::from("# mine\n[features]\nx = false"), "# mine\n"),
    ] {
        let containers = vec![vec![item.path[0].clone()]];
        let edit = Edit { items: vec![item], containers, ..Edit::default() };
        let undone = undo(TextFormat::Toml, &old, &edit, false).map(|undone| undone.text);
        assert_eq!(undone, Ok(String::from(new)), "{old}");
    }
}

#[test]
fn what_cannot_be_edited_is_an_error() {
    let wanted = [server("servers")];
    let off = [item(&["features", "x"], json!(false), Role::Setting)];
    for (format, text, error) in [
        (TextFormat::Json, "{\n  \"a\": 1,,\n}", "line 2, column 10: "),
        (TextFormat::Json, "{'a': 1}", "line 1, column 2: "),
        (TextFormat::Json, "{\"a\": 1 \"b\": 2}", "line 1, column "),
        (TextFormat::Json, "[]", "the file holds no object"),
        (TextFormat::Json, "{\"servers\": \"x\"}", "`servers` is not an object"),
        (
            TextFormat::Json,
            "{\"servers\": {\"sinew\": 1}}",
            "servers.sinew = a value without a command",
        ),
        (TextFormat::Json, "{\"servers\": {}, \"servers\": {}}", "the key appears twice"),
        (TextFormat::Toml, "a = 1\nb = \n", "line 2, column "),
        (TextFormat::Toml, "servers = \"x\"", "`servers` is not an object"),
        (TextFormat::Toml, "[[servers]]\na = 1", "`servers` is not an object"),
        (
            TextFormat::Toml,
            "[servers.sinew]\nurl = \"x\"",
            "servers.sinew = a value without a command",
        ),
    ] {
        let found = merge(format, text, &wanted).expect_err(text).to_string();
        assert!(found.contains(error), "{text}: {found}");
    }
    // A parser that calls itself ran out of stack.
    for deep in ["[", "{\"a\":"] {
        let found =
            merge(TextFormat::Json, &deep.repeat(300_000), &wanted).expect_err("it is deep");
        assert!(found.to_string().contains("256 brackets"), "{found}");
    }
    let brackets = "{[ \\\"".repeat(1_000);
    let text = format!("{{\"a\": \"{brackets}\", // {brackets}\n/* {brackets} */}}");
    assert!(merged(TextFormat::Json, &text, &wanted).text.contains("/opt/sinew"));
    // A setting in the way of one of ours stays.
    for text in ["features = 1\n", "[features]\nx = true\n"] {
        let merged = merge(TextFormat::Toml, text, &off).expect("a setting is left");
        assert_eq!((merged.text.as_str(), merged.left.len()), (text, 1));
    }
}

/// A document of JSON in some layout, from random numbers.
struct Writer {
    numbers: Vec<u8>,
    at: usize,
    newline: &'static str,
}

impl Writer {
    fn below(&mut self, n: u8) -> u8 {
        let number = self.numbers.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        number % n
    }

    fn blank(&mut self) -> String {
        let newline = self.newline;
        match self.below(9) {
            0 => String::from(" "),
            1 => format!("{newline}\t"),
            2 => format!("{newline}    "),
            3 => String::from(" /* a, \"b\": { */"),
            4 => format!(" // c, ] }}{newline}  "),
            _ => String::new(),
        }
    }

    fn value(&mut self, depth: u8) -> String {
        match self.below(if depth == 0 { 4 } else { 8 }) {
            0 => String::from("-1.5e3"),
            1 => String::from("\"x, \\\"{ // \\u00e9\""),
            2 => String::from("null"),
            3 => String::from("true"),
            4 | 5 => self.container(depth, '[', &[]),
            _ => self.container(depth, '{', &["a", "servers", "deny", "b"]),
        }
    }

    fn container(&mut self, depth: u8, open: char, keys: &[&str]) -> String {
        let n = self.below(4);
        let mut text = String::from(open);
        for at in 0..n {
            text += &self.blank();
            if let Some(key) = keys.get(usize::from(at)) {
                text += &format!("\"{key}\"{}:{}", self.blank(), self.blank());
            }
            text += &self.value(depth.saturating_sub(1));
            text += &self.blank();
            if at + 1 < n || self.below(3) == 0 {
                text.push(',');
            }
        }
        text += &self.blank();
        text.push(if open == '{' { '}' } else { ']' });
        text
    }
}

proptest! {
    #[test]
    fn every_document_comes_back(numbers in prop::collection::vec(any::<u8>(), 0..160), crlf: bool, bom: bool) {
        let mut writer = Writer { numbers, at: 0, newline: if crlf { "\r\n" } else { "\n" } };
        let bom = if bom { BOM } else { "" };
        let text = format!("{bom}{}{}{}", writer.blank(), writer.container(4, '{', &["a", "servers", "deny", "b"]), writer.blank());
        let wanted = [
            server("servers"),
            item(&["deny"], json!("A"), Role::Element),
            item(&["deny"], json!("B"), Role::Element),
            item(&["b", "c"], json!(false), Role::Setting),
        ];
        match merge(TextFormat::Json, &text, &wanted) {
            Err(EditError::Shape { .. } | EditError::Taken { .. }) => {}
            Err(error) => return Err(TestCaseError::fail(format!("{text:?}: {error}"))),
            Ok(found) => {
                let body = |text: &str| parse(TextFormat::Json, text.strip_prefix(BOM).unwrap_or(text)).expect("it is JSON");
                prop_assert_eq!(revert(&found.text, &found.edit.insertions), Some(text.clone()));
                // Without the record of the bytes, the values come back all the same.
                let undone = undo(TextFormat::Json, &found.text, &Edit { insertions: Vec::new(), ..found.edit.clone() }, false);
                let undone = undone.map_err(|error| TestCaseError::fail(format!("{}: {error}", found.text)))?;
                prop_assert_eq!(body(&undone.text), body(&text));
            }
        }
    }

    #[test]
    fn no_text_makes_the_editor_panic(text in "(?s)[\\[\\]{}\":,/*# =a-d\\n\\r\\t.1]{0,60}") {
        for format in [TextFormat::Json, TextFormat::Toml] {
            if let Ok(found) = merge(format, &text, &[server("servers")]) {
                prop_assert_eq!(revert(&found.text, &found.edit.insertions), Some(text.clone()));
            }
        }
    }
}
