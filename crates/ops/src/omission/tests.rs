use super::*;

/// Lines that stand for content left out in a program.
const PLACEHOLDERS: &[&str] = &[
    "// ... existing code ...",
    "// existing code",
    "// existing code here",
    "    // ... existing code ...",
    "// your existing code here",
    "// ... rest of the code ...",
    "// rest of the code",
    "// rest of code remains the same",
    "// rest of methods unchanged",
    "// The rest of the file stays the same.",
    "// rest of the file unchanged",
    "// ... rest of file",
    "// Rest of the implementation...",
    "// ...rest of the component",
    "// (rest of the class unchanged)",
    "// ... other methods ...",
    "// ... other imports remain unchanged ...",
    "// other methods remain the same",
    "// ... unchanged ...",
    "// unchanged",
    "// remaining code unchanged",
    "// [existing code]",
    "/// ... rest of the function ...",
    "// ... (same as before)",
    "// ... same as before ...",
    "// no changes here",
    "// ... keep existing code",
    "// --- rest of the code ---",
    "// ... previous implementation ...",
    "// ... existing imports and helper methods ...",
    "// code omitted for brevity",
    "// ... omitted ...",
    "# (unchanged)",
    "# ... rest of the code ...",
    "# ... existing code ...",
    "# rest of the function remains unchanged",
    "# … rest unchanged …",
    "-- ... rest of the file unchanged ...",
    "; ... existing code ...",
    "% ... rest of the file ...",
    "/* same as before */",
    "/* ... existing styles ... */",
    "{/* ... existing code ... */}",
    "{/* rest of the component */}",
    "<!-- rest remains -->",
    "<!-- ... existing content ... -->",
    "<!-- rest of the file unchanged -->",
    "(* ... rest of the module ... *)",
    "... rest of the code ...",
    "...rest of the file unchanged...",
    "... (rest of the code remains the same)",
    "[... rest of the file unchanged ...]",
    "[rest of the code unchanged]",
    "(rest of the file stays the same)",
    "… existing code …",
    "[rest unchanged]",
    "(rest unchanged)",
    "rest unchanged",
    "    Rest unchanged",
    "the rest of the file stays the same",
    "remaining code unchanged",
    "// (previous code here)",
    "// [original code]",
    "// previous code here",
    "# same implementation here",
    "// truncated for brevity",
    "// ... truncated ...",
    "// rest of the file truncated",
    "// fields omitted for brevity",
    "# shortened for brevity",
    "// [...]",
    "    # [...]",
    "// (…)",
    "/* [...] */",
    "<!-- [...] -->",
];

/// Lines of programs that do not.
const CONTENT: &[&str] = &[
    "...",
    "    ...",
    "// ...",
    "# ...",
    "/* ... */",
    "..",
    "    Self { n: 1, ..Self::default() }",
    "        ..",
    "    ..rest",
    "match rest { [first, ..] => {} }",
    "...rest,",
    "    ...props,",
    "  ...existing,",
    "  ...state.unchanged,",
    "return { ...existing, ...other };",
    "def f(self): ...",
    "x: tuple[int, ...]",
    "let existing = code(rest);",
    "existing code",
    "unchanged",
    "rest of the code",
    "// Rest of the header is padding.",
    "// the rest of the line",
    "// remaining bytes",
    "// Other imports",
    "// other methods",
    "// other tests",
    "// same as above",
    "// Same as `Foo`, but unchanged by the rest.",
    "// `foo` remains unchanged.",
    "// Existing users keep their password.",
    "// the existing file is replaced",
    "// nothing changes here",
    "// methods",
    "// code",
    "// The content is unchanged, so the cache is kept.",
    "// everything else stays where the compiler put it",
    "# remaining arguments",
    "# existing connections are closed first",
    "# Keep the rest of the arguments for later",
    "#include <code>",
    "#[test]",
    "[package]",
    "[existing]",
    "[other.code]",
    "(unchanged)",
    "-- the rest of the rows",
    "--no-changes",
    "* rest of the code",
    "<code>",
    "<script>",
    "</script>",
    "%rest",
    "'...existing code...'",
    "\"// ... existing code ...\",",
    "println!(\"... rest of the code ...\");",
    "[...]",
    "    [...],",
    "x = [...]",
    "r\"[...]\"",
    "(...)",
    "[rest, unchanged]",
    "[rest..., unchanged]",
    "rest, unchanged",
    "rest = unchanged",
    "rest unchanged;",
    "rest",
    "rest_unchanged",
    "remaining unchanged -= 1",
    "the rest of the code",
    "rest of the code stays fast",
    "restore unchanged",
    "// truncated",
    "// truncated to the limit",
    "// ...truncated to the limit of a reply",
    "// previous code",
    "// (previous line)",
    "// (original file)",
    "// the other implementation is slower here",
    "// brevity is a virtue",
];

#[track_caller]
fn check_line(path: &str, line: &str, expected: bool) {
    let found: Vec<_> = find(path, line).collect();
    assert_eq!(!found.is_empty(), expected, "{path}: {line}");
}

#[test]
fn placeholders_are_found() {
    for line in PLACEHOLDERS {
        check_line("a.rs", line, true);
    }
    for line in [
        "... rest of the code ...",
        "[... rest of the file unchanged ...]",
        "<!-- ... existing sections ... -->",
    ] {
        check_line("docs/a.md", line, true);
    }
}

#[test]
fn code_and_text_are_not() {
    for line in CONTENT {
        check_line("a.rs", line, false);
    }
    for line in [
        "# Existing code",
        "## Rest of the file",
        "The rest of the code is unchanged.",
        "...and the rest is history.",
        "... the same as before, she said.",
        "Unchanged:",
        "- unchanged",
        "* other methods",
        "// ... existing code ...",
        "(same as before)",
        "The existing code... well, the rest of it stays.",
        "The rest is unchanged since 2020",
        "the rest is unchanged",
        "Rest unchanged",
        "[...]",
    ] {
        check_line("README.md", line, false);
    }
}

/// A sentence goes on over the end of a line, in comments and in texts inside a program.
#[test]
fn the_end_of_a_sentence_is_none() {
    for (text, expected) in [
        ("f();\nrest unchanged\n", 1),
        ("fn f() {\n\n    rest unchanged\n}\n", 1),
        ("/*\nThe first line goes, the\nrest stays unchanged\n*/\n", 0),
        ("// It reads\n// [...]\n", 0),
        ("f();\n// [...]\n", 1),
    ] {
        assert_eq!(find("a.c", text).count(), expected, "{text}");
    }
}

#[test]
fn own_sources_have_none() {
    for (path, text) in [
        ("edit.rs", include_str!("../edit.rs")),
        ("diff.rs", include_str!("../diff.rs")),
        ("lines.rs", include_str!("../lines.rs")),
        ("omission.rs", include_str!("../omission.rs")),
        ("patch/name.rs", include_str!("../patch/name.rs")),
        ("read.rs", include_str!("../read.rs")),
        ("ARCHITECTURE.md", include_str!("../../../../ARCHITECTURE.md")),
        ("CONTRIBUTING.md", include_str!("../../../../CONTRIBUTING.md")),
        ("SECURITY.md", include_str!("../../../../SECURITY.md")),
    ] {
        let found: Vec<_> = find(path, text).collect();
        assert!(found.is_empty(), "{path}: {found:?}");
    }
}

#[test]
fn what_the_old_text_has_may_stay() {
    for (new, old, refused) in [
        ("fn a() {\n    // ... existing code ...\n}\n", "fn a() {\n    b();\n}\n", true),
        ("a\n  // existing code\n", "// existing code\n", false),
        ("a\r\n# (unchanged)\r\n", "# (unchanged)\r\nb", false),
        ("# (unchanged)\n\n// rest of the code\n", "# (unchanged)\n", true),
        ("// What it returns is\n// unchanged.\n", "", false),
        ("// A\n// ... unchanged ...\n", "", true),
        ("a\n", "", false),
    ] {
        let refusal = check("content", "a.rs", new, old).err();
        assert_eq!(refusal.is_some(), refused, "{new}");
        if let Some(error) = refusal {
            assert_eq!(error.kind, Kind::InvalidArgs);
            assert!(error.message.starts_with("argument `content` stands for content"), "{error}");
        }
    }
}
