//! What a reply leaves out of files that are larger than it, and of names that begin with a dot.

use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, Pages, ROOT, call};
use sinew_tool::{Block, Reply, SearchResult};

/// Calls a tool on a tree with one large file, a directory of many names and hidden ones.
fn reply(dialect: &str, tool: &str, args: Value) -> Option<Reply> {
    let dialect = sinew_dialects::dialect(dialect)?;
    let world = MemoryWorld::with_settings((dialect.settings)());
    world
        .file("lines", "x\n".repeat(3_000))
        .file("wide", format!("{}\nend\n", "y".repeat(60_000)))
        .file("large", "0123456789\"\n".repeat(100_000))
        .file(".env", "secret = 1\n")
        .file(".hidden/a.txt", "secret = 2\n")
        .file("shown.txt", "secret = 3\n");
    for n in 0..2_500 {
        world.file(&format!("many/{n:04}-{}", "n".repeat(40)), "");
    }
    let tools = (dialect.tools)();
    let tool = tools.iter().find(|known| known.name() == tool)?;
    Some(call(&world, tool, args))
}

/// Fetches a page in a dialect.
fn fetched(dialect: &str, tool: &str, n_bytes: usize) -> Option<Value> {
    let dialect = sinew_dialects::dialect(dialect)?;
    let page = Pages::answer("text/plain", &b"0123456789\"\n".repeat(n_bytes / 12));
    let pages = Pages::default().with("http://x.test/", page);
    let mut world = MemoryWorld::with_settings((dialect.settings)());
    world.pages = pages;
    let tools = (dialect.tools)();
    let tool = tools.iter().find(|known| known.name() == tool)?;
    let reply = call(&world, tool, json!({ "url": "http://x.test/" }));
    serde_json::from_str(text(&reply)).ok()
}

#[test]
fn pages_are_cut() {
    let page = fetched("agentos", "tool::web_fetch", 90_000).expect("a page");
    assert_eq!(page["truncated"], false);
    for n_bytes in [120_000, 600_000] {
        let page = fetched("agentos", "tool::web_fetch", n_bytes).expect("a page");
        assert_eq!(page["content"].as_str().expect("a text").len(), 100_000);
        assert_eq!(page["truncated"], true);
    }
    let page = fetched("clawft", "web_fetch", 12_000).expect("a page");
    assert_eq!((&page["bytes"], &page["truncated"]), (&json!(12_000), &Value::Null));
    let page = fetched("clawft", "web_fetch", 120_000).expect("a page");
    assert!(page.to_string().len() <= 64 * 1024 && 60 * 1024 < page.to_string().len());
    assert_eq!((&page["bytes"], &page["truncated"]), (&json!(120_000), &json!(true)));
    assert_eq!(page["limit_bytes"], Value::Null);
    let page = fetched("clawft", "web_fetch", 12_000_000).expect("a page");
    assert_eq!((&page["bytes"], &page["limit_bytes"]), (&json!(10_485_760), &json!(10_485_760)));
    assert_eq!(page["warning"], "Response body truncated at 10485760 bytes");
}

/// Reads a memory in clawft.
fn remembered(memory: &str, args: Value) -> Option<Value> {
    let dialect = sinew_dialects::dialect("clawft")?;
    let world = MemoryWorld::with_settings((dialect.settings)());
    world.file(".sinew/MEMORY.md", memory);
    let tools = (dialect.tools)();
    let tool = tools.iter().find(|known| known.name() == "memory_read")?;
    serde_json::from_str(text(&call(&world, tool, args))).ok()
}

#[test]
fn memories_are_cut() {
    let whole = remembered(&"\"".repeat(30_000), json!({})).expect("a memory");
    assert_eq!(whole.as_object().expect("an object").len(), 1);
    let cut = remembered(&"\"".repeat(60_000), json!({})).expect("a memory");
    assert_eq!((&cut["truncated"], &cut["original_bytes"]), (&json!(true), &json!(60_000)));
    assert!(cut.to_string().len() <= 64 * 1024 && 60 * 1024 < cut.to_string().len());
    let paragraphs = vec!["a".repeat(10_000); 15].join("\n\n");
    let found = remembered(&paragraphs, json!({ "query": "a" })).expect("a memory");
    assert_eq!(found["matches"].as_array().expect("a list").len(), 6);
    assert_eq!((&found["count"], &found["truncated"]), (&json!(15), &json!(true)));
}

/// Searches in clawft by an endpoint, or without one.
fn searched(body: Option<&[u8]>) -> Option<Value> {
    let dialect = sinew_dialects::dialect("clawft")?;
    let one = SearchResult {
        title: String::from("title"),
        url: String::from("http://x.test/"),
        content: "\"".repeat(1_000),
    };
    let found = Pages::default().finding("x", vec![one; 50], body.unwrap_or_default());
    let mut world = MemoryWorld::with_settings((dialect.settings)());
    world.pages = if body.is_some() { found.with_endpoint() } else { found };
    let tools = (dialect.tools)();
    let tool = tools.iter().find(|known| known.name() == "web_search")?;
    let reply = call(&world, tool, json!({ "query": "x", "num_results": 20 }));
    serde_json::from_str(text(&reply)).ok()
}

#[test]
fn answers_of_endpoints_are_cut() {
    let whole = searched(Some(br#"{"a": [1]}"#)).expect("an answer");
    assert_eq!(whole["results"], json!({ "a": [1] }));
    let long = format!("[\"{}\"]", "x".repeat(64 * 1024));
    let cut = searched(Some(long.as_bytes())).expect("an answer");
    assert_eq!(cut["results"].as_array().expect("results").len(), 20);
    assert_eq!(cut["results"][0]["url"], "http://x.test/");
    assert!(cut.to_string().len() <= 64 * 1024);
    let unset = searched(None).expect("an answer");
    assert_eq!(unset["error"], "web search not configured");
    assert_eq!((&unset["query"], &unset["results"]), (&json!("x"), &Value::Null));
}

fn text(reply: &Reply) -> &str {
    match reply.content.first() {
        Some(Block::Text { text }) => text,
        _ => "",
    }
}

const GO_ON: &str = "Use read_file with startLine and endLine to view a section of it, or grep to \
                     search it.";

/// What one read takes is handed on whole, so that the copy of a cut reply has all of it.
#[test]
fn molf_cuts_what_is_more_than_one_read() {
    let read = |args| reply("molf", "read_file", args).expect("a tool");
    let whole = read(json!({ "path": "lines" }));
    let lines = format!("Content of {ROOT}/lines (3001 lines):\n{}", "x\n".repeat(3_000));
    assert_eq!(text(&whole), lines);
    assert!(!whole.meta.truncated && !whole.bounded);

    let part = read(json!({ "path": "lines", "startLine": 2_900, "endLine": 3_000 }));
    let lines = "x\n".repeat(101);
    assert_eq!(
        text(&part),
        format!("Content of {ROOT}/lines (3001 lines):\n{}", lines.trim_end_matches('\n'))
    );
    assert!(!part.meta.truncated);

    let large = read(json!({ "path": "large" }));
    let (head, tail) = text(&large).split_once("\n\n...").expect("a cut");
    assert_eq!(head.lines().count(), 2_000);
    assert_eq!(
        tail,
        format!(
            "98002 lines truncated...\n\nOutput was truncated. The full text is in the file itself: \
             {ROOT}/large\n{GO_ON}"
        )
    );
    assert!(large.meta.truncated && large.bounded);
}

#[test]
fn aionrs_leaves_out_the_middle() {
    let large = reply("aionrs", "Read", json!({ "file_path": "large" })).expect("a tool");
    let (head, rest) = text(&large).split_once("\n\n... [truncated ").expect("a mark");
    let (n, tail) = rest.split_once(" chars] ...\n\n").expect("the end of the mark");
    let n: usize = n.parse().expect("a number");
    assert_eq!((head.len(), head.starts_with("     1\t0123456789\"\n")), (50_000, true));
    assert_eq!(head.len() + tail.len() + n, 100_000 * 19 - 1);
    assert!(tail.ends_with("\n100000\t0123456789\""), "{}", &tail[tail.len() - 40..]);
    assert!(large.meta.truncated);
}

#[test]
fn results_in_json_keep_their_names_and_their_size() {
    let large = reply("clawft", "read_file", json!({ "path": "large" })).expect("a tool");
    let result = large.structured.clone().expect("a result");
    assert_eq!(result["truncated"], true);
    assert_eq!(result["original_bytes"], 1_200_000);
    assert!(result["content"].as_str().is_some_and(|text| text.starts_with("0123456789\"\n")));
    assert!((65_000..=65_536).contains(&text(&large).len()), "{}", text(&large).len());

    let many = reply("clawft", "list_directory", json!({ "path": "many" })).expect("a tool");
    let result = many.structured.clone().expect("a result");
    assert_eq!((&result["truncated"], &result["total"]), (&json!(true), &json!(2_500)));
    assert!((60_000..=65_536).contains(&text(&many).len()), "{}", text(&many).len());

    let large = reply("agentos", "tool::file_read", json!({ "path": "large" })).expect("a tool");
    let result = large.structured.clone().expect("a result");
    assert_eq!(result["size"], 1_200_000);
    assert!((900_000..=1_048_576).contains(&text(&large).len()), "{}", text(&large).len());
    assert!(large.meta.truncated);
}

#[test]
fn names_with_a_dot_are_found_where_they_are_named() {
    for (dialect, tool, args, expected) in [
        ("molf", "glob", json!({ "pattern": "*" }), "wide\nlines\nlarge\nshown.txt"),
        ("molf", "glob", json!({ "pattern": ".e*" }), ".env"),
        ("molf", "glob", json!({ "pattern": ".hidden/*" }), ".hidden/a.txt"),
        ("aionrs", "Grep", json!({ "pattern": "secret" }), "./shown.txt:1:secret = 3"),
        ("aionrs", "Grep", json!({ "pattern": "secret", "glob": ".env" }), "./.env:1:secret = 1"),
        ("aionrs", "Grep", json!({ "pattern": "secret", "path": ".env" }), "1:secret = 1"),
        (
            "aionrs",
            "Grep",
            json!({ "pattern": "secret", "path": ".hidden" }),
            ".hidden/a.txt:1:secret = 2",
        ),
    ] {
        let reply = reply(dialect, tool, args.clone()).expect("a tool");
        let mut rows: Vec<&str> = text(&reply).lines().collect();
        let mut expected: Vec<&str> = expected.lines().collect();
        rows.sort_unstable();
        expected.sort_unstable();
        assert_eq!(rows, expected, "{dialect} {tool} {args}");
    }
}
