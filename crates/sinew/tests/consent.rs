//! What only a person answers: changes of protected names, and calls for which a rule of the user asks. The
//! confirmation of a client (`--approvals trust-client`) can come with a repository and is no answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{self, Answers, ServerOutput};
use crate::database;
use crate::served::{Place, command};

/// A project, and a user who wants to be asked about two tools and one command.
struct Project(Place);

const ASKS: &str = "[[rules]]\nverdict = \"ask\"\ntools = [\"List\"]\n\n[[rules]]\nverdict = \"ask\"\n\
                    tools = [\"Edit\"]\npaths = [\"guarded/**\"]\n\n[[rules]]\nverdict = \"ask\"\n\
                    command = \"touch *\"\n";

impl Project {
    fn new(rules: &str) -> Self {
        let place = Place::new();
        for (path, text) in [
            (place.home.join("config/sinew/config.toml"), rules),
            (place.root.join("guarded/a.txt"), "one\n"),
            (place.root.join("a.txt"), "one\n"),
            (place.root.join(".git/config"), ""),
        ] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(place)
    }

    fn sinew(&self, args: &[&str]) -> Command {
        let mut command = command(&self.0.home);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.args(args).current_dir(&self.0.root);
        command
    }

    /// Serves as a client starts the server, with all tools.
    fn serve(
        &self,
        approvals: &str,
        answers: Answers,
        calls: &[(&str, &str, Value)],
    ) -> ServerOutput {
        let args = ["mcp", "--tools", "all", "--approvals", approvals];
        client::serve(&mut self.sinew(&args), answers, calls)
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.root.join(name)).ok()
    }
}

fn write(name: &str) -> Value {
    json!({ "file_path": name, "content": "two\n" })
}

const PROTECTED: [&str; 4] =
    [".git/hooks/pre-commit", ".mcp.json", ".claude/settings.json", ".github/workflows/x.yml"];

/// README says that these names always ask; over `trust-client` they were changed unasked.
#[test]
fn protected_name_is_not_changed_on_word_of_client() {
    if !database::can_bind("protected_name_is_not_changed_on_word_of_client") {
        return;
    }
    let calls: Vec<_> = PROTECTED.iter().map(|name| (*name, "Write", write(name))).collect();
    for (answers, is_done) in [(Answers::Never, false), (Answers::No, false), (Answers::Yes, true)]
    {
        let project = Project::new("");
        let said = project.serve("trust-client", answers, &calls);
        for name in PROTECTED {
            let text = said.text(name);
            assert_eq!(said.is_done(name), is_done, "{answers:?} {name}: {text} {}", said.err);
            assert_eq!(project.text(name).is_some(), is_done, "{answers:?} {name}");
            let kind = (!is_done).then_some("approval_denied");
            assert_eq!(said.kind(name), kind, "{answers:?} {name}: {text}");
            if answers == Answers::Never {
                assert!(text.contains("by a person") && text.contains("always asks"), "{text}");
            }
        }
        let n_asked = if answers == Answers::Never { 0 } else { PROTECTED.len() };
        assert_eq!(said.questions.len(), n_asked, "{answers:?}");
    }
    // A patch, and a directory that takes such a name along.
    let project = Project::new("");
    fs::create_dir_all(project.0.root.join("d/.claude")).unwrap();
    fs::write(project.0.root.join("d/.claude/settings.json"), "{}").unwrap();
    let patch = "*** Begin Patch\n*** Add File: .husky/pre-commit\n+x\n*** End Patch\n";
    let calls = [("patch", "ApplyPatch", json!({ "patch": patch }))];
    let said = project.serve("trust-client", Answers::Never, &calls);
    assert_eq!(said.kind("patch"), Some("approval_denied"), "{}", said.text("patch"));
    let root = project.0.root.to_str().unwrap();
    let moved = json!({ "source": format!("{root}/d"), "destination": format!("{root}/e") });
    let args = ["mcp", "--dialect", "mcp-filesystem", "--approvals", "trust-client"];
    let calls = [("move", "move_file", moved)];
    let said = client::serve(&mut project.sinew(&args), Answers::Never, &calls);
    assert!(!said.is_done("move") && project.0.root.join("d").is_dir(), "{}", said.text("move"));
}

/// A name in the text of a command is part of its question, and the answer allows the change of that name alone.
#[test]
fn name_in_the_text_of_a_command_asks() {
    if !database::can_bind("name_in_the_text_of_a_command_asks") {
        return;
    }
    let bash = |command: &str| json!({ "command": command });
    for (answers, is_done) in [(Answers::Never, false), (Answers::No, false), (Answers::Yes, true)]
    {
        let project = Project::new("");
        fs::write(project.0.root.join("write.sh"), "echo x > .envrc\n").unwrap();
        let calls = [
            ("named", "Bash", bash("printf two > .mcp.json && echo $?")),
            ("beside", "Bash", bash("printf two > .mcp.json; sh write.sh")),
            ("unnamed", "Bash", bash("sh write.sh")),
            ("plain", "Bash", bash("cat .git/config")),
        ];
        let said = project.serve("trust-client", answers, &calls);
        let text = said.text("named");
        assert_eq!(said.is_done("named"), is_done, "{answers:?}: {text} {}", said.err);
        assert_eq!(project.text(".mcp.json").is_some(), is_done, "{answers:?}");
        if answers == Answers::Never {
            assert_eq!(said.kind("named"), Some("approval_denied"), "{text}");
            assert!(text.contains("`.mcp.json`") && text.contains("always asks"), "{text}");
        }
        // What only a script names is refused in the middle, with any answer.
        assert!(!said.is_done("beside") && !said.is_done("unnamed"), "{answers:?}");
        assert_eq!(project.text(".envrc"), None, "{answers:?}");
        assert!(said.text("unnamed").contains(".envrc"), "{}", said.text("unnamed"));
        assert!(said.is_done("plain"), "{}", said.text("plain"));
        let n_asked = if answers == Answers::Never { 0 } else { 2 };
        assert_eq!(said.questions.len(), n_asked, "{answers:?}");
    }
    // No profile and no rule answers it; the control is a command that names nothing.
    let rule = "[[rules]]\nverdict = \"allow\"\ncommand = \"cp *\"\n";
    for (args, rules) in
        [(&["--profile", "full"][..], ""), (&["--profile", "sandboxed"], ""), (&[], rule)]
    {
        for (command, is_done) in [("cp a.txt .envrc", false), ("cp a.txt b.txt", true)] {
            let project = Project::new(rules);
            let arguments = bash(command).to_string();
            let args = [args, &["call", "Bash", &arguments]].concat();
            let output = project.sinew(&args).output().unwrap();
            assert_eq!(output.status.success(), is_done, "{args:?}: {output:?}");
            assert_eq!(project.text(".envrc"), None, "{args:?}");
        }
    }
}

/// The controls: what else asks rests on the client as ever, and `allow` is an answer for everything.
#[test]
fn word_of_client_answers_built_in_questions() {
    if !database::can_bind("word_of_client_answers_built_in_questions") {
        return;
    }
    let project = Project::new(ASKS);
    let command = json!({ "command": "true" });
    let calls = [("write", "Write", write("b.txt")), ("bash", "Bash", command)];
    let said = project.serve("trust-client", Answers::Yes, &calls);
    assert!(said.is_done("write") && said.is_done("bash"), "{:?} {}", said.replies, said.err);
    assert!(said.questions.is_empty());

    let project = Project::new(&format!("approvals = \"allow\"\n{ASKS}"));
    let list = ("list", "List", json!({}));
    let calls = [("write", "Write", write(".mcp.json")), list];
    let said = client::serve(&mut project.sinew(&["mcp"]), Answers::Yes, &calls);
    assert!(said.is_done("write") && said.is_done("list"), "{:?} {}", said.replies, said.err);
    assert!(said.questions.is_empty());
}

/// A repository's `.mcp.json` with `--approvals trust-client` ran what the user's own rule asks about. So did
/// `auto`, where a checkpoint keeps what the call changes.
#[test]
fn ask_rule_of_user_is_asked_or_denied() {
    if !database::can_bind("ask_rule_of_user_is_asked_or_denied") {
        return;
    }
    let edit = json!({ "file_path": "guarded/a.txt", "old_string": "one", "new_string": "two" });
    let calls = [
        ("list", "List", json!({})),
        ("edit", "Edit", edit),
        ("bash", "Bash", json!({ "command": "touch made" })),
    ];
    for approvals in ["trust-client", "auto", "ask"] {
        for (answers, is_done) in
            [(Answers::Never, false), (Answers::No, false), (Answers::Yes, true)]
        {
            let project = Project::new(ASKS);
            let said = project.serve(approvals, answers, &calls);
            for (id, ..) in &calls {
                let what = format!("{approvals} {answers:?} {id}: {} {}", said.text(id), said.err);
                assert_eq!(said.is_done(id), is_done, "{what}");
                let kind = (!is_done).then_some("approval_denied");
                assert_eq!(said.kind(id), kind, "{what}");
            }
            let n_asked = if answers == Answers::Never { 0 } else { calls.len() };
            assert_eq!(said.questions.len(), n_asked, "{approvals} {answers:?}");
            let text = if is_done { "two\n" } else { "one\n" };
            assert_eq!(project.text("guarded/a.txt").as_deref(), Some(text));
            assert_eq!(project.text("made").is_some(), is_done, "{approvals} {answers:?}");
        }
    }
}

/// What an answer does not hold for, because the words of the command do not name it, was not said.
#[test]
fn question_says_that_loaded_files_are_unknown() {
    if !database::can_bind("question_says_that_loaded_files_are_unknown") {
        return;
    }
    const SAYS: &str = "it may load files that sinew does not know";
    for (command, is_open) in [
        ("node .", true),
        ("node lib", true),
        ("python3 -m mod", true),
        ("python3 main.py", true),
        ("make", true),
        ("./run.sh", true),
        ("sh run.sh", true),
        ("git commit -m x", true),
        ("mkdir x && git commit -m x", true),
        ("env A=1 rm a.txt", true),
        ("rm a.*", false),
        ("cp here/rm b.txt && rm b.txt", false),
        ("mkdir -p x && cp a.txt x/", false),
        ("touch made", false),
        ("/usr/bin/touch made", false),
        ("./here/touch made", true),
    ] {
        let project = Project::new("");
        for (name, text) in [
            ("lib/index.js", ""),
            ("index.js", "require('./lib')"),
            ("mod.py", ""),
            ("main.py", "import mod"),
            ("Makefile", "include other.mk"),
            ("other.mk", "all:"),
            ("run.sh", "#!here/sh"),
            ("here/rm", ""),
            ("here/touch", ""),
        ] {
            let path = project.0.root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let calls = [("bash", "Bash", json!({ "command": command }))];
        let said = project.serve("ask", Answers::No, &calls);
        let [question] = said.questions.as_slice() else { panic!("{command}: {:?}", said.replies) };
        assert_eq!(question.contains(SAYS), is_open, "{command}: {question}");
        assert!(question.matches(SAYS).count() <= 1, "{command}: {question}");
    }
}

/// `require_approval = true` of the user says that each change asks; the word of a client ran it unasked.
#[test]
fn required_approval_is_answered_by_person() {
    if !database::can_bind("required_approval_is_answered_by_person") {
        return;
    }
    let edit = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" });
    let calls = [("write", "Write", write("b.txt")), ("edit", "Edit", edit)];
    let required = "[tools.fs]\nrequire_approval = true\n";
    for approvals in ["trust-client", "auto", "ask"] {
        for (answers, is_done) in
            [(Answers::Never, false), (Answers::No, false), (Answers::Yes, true)]
        {
            let project = Project::new(required);
            let said = project.serve(approvals, answers, &calls);
            for (id, ..) in &calls {
                let what = format!("{approvals} {answers:?} {id}: {} {}", said.text(id), said.err);
                assert_eq!(said.is_done(id), is_done, "{what}");
            }
            let n_asked = if answers == Answers::Never { 0 } else { calls.len() };
            assert_eq!(said.questions.len(), n_asked, "{approvals} {answers:?}");
        }
    }
    // The control: without it the client's word is an answer.
    let said = Project::new("").serve("trust-client", Answers::Never, &calls);
    assert!(said.is_done("write") && said.is_done("edit"), "{:?}", said.replies);
}
