use super::*;

fn places(dir: &Path) -> SkillPlaces {
    SkillPlaces {
        project: Some(dir.join("project")),
        config: Some(dir.join("config")),
        home: Some(dir.join("home")),
    }
}

/// Lays out files and returns the found skills, with the project trusted as it is.
fn found(files: &[(&str, &str)]) -> (tempfile::TempDir, FoundSkills) {
    let dir = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        match text.strip_prefix("-> ") {
            Some(target) => std::os::unix::fs::symlink(target, &path).expect("a link"),
            None => fs::write(&path, text).expect("a file"),
        }
    }
    let trusted = |project: &Path| match Content::of(project) {
        Ok(content) => Known::Now(content),
        Err(error) => Known::Before(Some(error.to_string())),
    };
    let found = skills(&places(dir.path()), trusted);
    (dir, found)
}

/// Reads one skill of the user.
fn read(text: &str) -> Result<SkillFile, Vec<String>> {
    let (_dir, mut found) = found(&[("config/skills/x/SKILL.md", text)]);
    found.skills.pop().ok_or(found.problems)
}

#[test]
fn first_of_two_with_a_name_wins() {
    let (_dir, found) = found(&[
        ("project/.sinew/skills/a/SKILL.md", "---\nname: one\n---\nsinew's\n"),
        ("project/.agents/skills/b/SKILL.md", "---\nname: one\n---\nlater\n"),
        ("project/.claude/skills/two/SKILL.md", "# Second\nbody\n"),
        ("project/.claude/skills/two/deep/words.md", "words"),
        ("project/.claude/skills/no-skill/README.md", "nothing"),
        ("config/skills/two/SKILL.md", "user's"),
        ("home/.agents/skills/three/SKILL.md", "---\ndescription: Third.\n---\n"),
    ]);
    let said: Vec<_> = found
        .skills
        .iter()
        .map(|skill| (skill.name.as_str(), skill.source.as_str(), skill.head.description.as_str()))
        .collect();
    let expected =
        [("one", "project", "sinew's"), ("three", "user", "Third."), ("two", "project", "Second")];
    assert_eq!(said, expected);
    assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
    assert!(found.problems.iter().all(|problem| problem.contains("has this name too")));
    let two = &found.skills[2];
    assert_eq!(two.files, ["deep/words.md"]);
    assert_eq!(two.text("deep/words.md").expect("a text"), "words");
}

#[test]
fn skills_of_a_project_count_while_it_is_trusted() {
    let dir = tempfile::tempdir().expect("a directory");
    let project = dir.path().join("project");
    let own = project.join(".agents/skills/x");
    fs::create_dir_all(&own).expect("directories");
    fs::write(own.join(FILE), "do it").expect("a file");
    fs::write(own.join("more.md"), "more").expect("a file");
    for (known, words) in [
        (Known::Never, "until you trust the project"),
        (Known::Before(None), "another one than you trusted"),
        (Known::Before(Some(String::from("a link"))), "cannot be read: a link"),
    ] {
        let found = skills(&places(dir.path()), |_| known);
        assert_eq!(found.skills, []);
        assert!(found.problems[0].contains(words), "{:?}", found.problems);
    }
    let content = Content::of(&project).expect("its content");
    let found = skills(&places(dir.path()), |_| Known::Now(content));
    let skill = &found.skills[0];
    assert_eq!(skill.text("more.md").expect("a text"), "more");
    // A later change is not the content that was trusted.
    fs::write(own.join("more.md"), "other").expect("a file");
    assert!(skill.text("more.md").is_err());
}

#[test]
fn links_and_other_directories_are_not_reached() {
    let (_dir, found) = found(&[
        ("secret/SKILL.md", "secret"),
        ("project/.claude", "-> ../home/.claude"),
        ("home/.claude/skills/x/SKILL.md", "of the user"),
        ("home/.claude/skills/x/link.md", "-> /etc/hostname"),
        ("home/.claude/skills/x/file.md", "a file"),
    ]);
    let [skill] = found.skills.as_slice() else { panic!("{found:?}") };
    assert_eq!(
        (skill.source, skill.files.as_slice()),
        (SkillSource::User, &[String::from("file.md")][..])
    );
    for file in ["../../../../secret/SKILL.md", "/etc/hostname", "link.md", "", "SKILL.md"] {
        let error = skill.text(file).expect_err(file);
        assert!(error.to_string().contains("other files: file.md"), "{error}");
    }
}

#[test]
fn front_matter_has_the_keys_of_every_form() {
    let skill = read(
        "---\nname: greet\ndescription: |\n  Greets\n  people.\nallowed-tools: Read, Bash(git add:*, x) mail__*\n\
         variables:\n  place: world\n  tone: {default: warm, description: how}\n  who:\npaths: [\"*.md\"]\n\
         disable-model-invocation: true\nuser-invocable: true\nmodel: small\nversion: 1.0\ncolour: red\n---\nBody.\n",
    )
    .expect("a skill");
    assert_eq!((skill.name.as_str(), skill.body.as_str()), ("greet", "Body.\n"));
    let head = &skill.head;
    assert_eq!(head.description, "Greets people.");
    assert_eq!(head.allowed_tools, Some(vec![String::from("Read"), String::from("mail__*")]));
    let variables: Vec<_> =
        head.variables.iter().map(|one| (one.name.as_str(), one.default.as_deref())).collect();
    assert_eq!(variables, [("place", Some("world")), ("tone", Some("warm")), ("who", None)]);
    assert_eq!((head.for_model, head.for_user, head.paths.len()), (false, true, 1));
    let [limits, unknown] = head.warnings.as_slice() else { panic!("{:?}", head.warnings) };
    assert!(
        limits.contains("`Bash(git add:*, x)` limits arguments") && unknown.contains("`colour`")
    );
    for spelling in
        ["allowed_tools: [Read, Grep]", "allowed-tools: Read Grep", "allowedTools:\n- Read\n- Grep"]
    {
        let skill = read(&format!("---\n{spelling}\n---\n")).expect(spelling);
        assert_eq!(skill.head.allowed_tools.map(|tools| tools.len()), Some(2), "{spelling}");
    }
    let none = read("---\nallowed-tools: []\n---\n").expect("a skill");
    assert_eq!(none.head.allowed_tools, Some(Vec::new()), "an empty list leaves no tool");
}

#[test]
fn broken_skills_are_told() {
    let large = "x".repeat(300 << 10);
    for (text, words) in [
        ("---\nname: a\n", "does not end"),
        ("---\nname: [a\n---\n", "line "),
        ("---\ntools: [Read]\nallowed-tools: [Bash]\n---\n", "another list of the allowed tools"),
        ("---\n- a\n---\n", "must have keys"),
        ("---\nname: {a: b}\n---\n", "`name` must be a text"),
        ("---\nname: ../x\n---\n", "its name must have"),
        ("---\nallowed-tools: {a: b}\n---\n", "`allowed-tools` must be a list"),
        ("---\nallowed-tools: [1]\n---\n", "must be a list of texts"),
        ("---\nvariables: 3\n---\n", "`variables` must be a list of names"),
        ("---\nvariables: [\"a b\"]\n---\n", "must have letters"),
        ("---\nuser-invocable: perhaps\n---\n", "`user-invocable` must be true or false"),
        (large.as_str(), "256 KiB"),
    ] {
        let problems = read(text).expect_err(words);
        assert!(problems.iter().any(|problem| problem.contains(words)), "{words}: {problems:?}");
    }
    // Aliases do not multiply: ten levels of ten would be ten thousand million texts.
    let levels = (1..10).map(|n| format!("l{n}: &l{n} [{}]\n", format!("*l{},", n - 1).repeat(10)));
    let bomb = format!("---\nl0: &l0 [x]\n{}---\n", levels.collect::<String>());
    let began = std::time::Instant::now();
    let problems = read(&bomb).expect_err("a bomb");
    assert!(problems.iter().any(|problem| problem.contains("10000")), "{problems:?}");
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
}

#[track_caller]
fn filled(body: &str, arguments: &str, variables: &[(&str, &str)]) -> Result<Vec<Piece>, String> {
    let skill =
        read(&format!("---\nvariables: {{who: you, must: }}\n---\n{body}")).expect("a skill");
    let mut variables: Vec<(String, String)> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    variables.push((String::from("must"), String::from("M")));
    let values = TemplateValues { arguments, variables: &variables };
    skill.pieces(values).map_err(|(argument, why)| format!("{argument} {why}"))
}

#[test]
fn arguments_take_their_places() {
    for (body, arguments, expected) in [
        ("Hi $ARGUMENTS.", "a b", "Hi a b."),
        ("$0 $1 $2 ${1} ${2} ${3}", "a b", "a b $2 a b ${3}"),
        (
            "{{who}} {{ must }} ${who} ${absent} {{absent}} $",
            "",
            "you M you ${absent} {{absent}} $",
        ),
        ("costs $5 {x}", "", "costs $5 {x}"),
        ("costs $5", "a", "costs $5\n\nArguments: a\n"),
        ("$ARGUMENTS_X $10 $0", "a b", "$ARGUMENTS_X $10 a"),
        ("no place", "a b", "no place\n\nArguments: a b\n"),
        ("é$ARGUMENTSé", "{{who}} !`x`", "é{{who}} !`x`é"),
    ] {
        let text: String = filled(body, arguments, &[])
            .expect(body)
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => text,
                Piece::Command(command) => panic!("a command: {command}"),
            })
            .collect();
        assert_eq!(text, expected, "{body}");
    }
    let error = filled("x", "", &[("other", "1")]).expect_err("unknown");
    assert_eq!(error, "variables has `other`, but the skill's variables are: who, must");
    let skill = read("---\nvariables: [must]\n---\n").expect("a skill");
    let values = TemplateValues { arguments: "", variables: &[] };
    assert_eq!(skill.pieces(values), Err(("variables", String::from("lacks `must`"))));
    // The directory has a name in every form.
    let skill = read("${CLAUDE_SKILL_DIR}").expect("a skill");
    let pieces = skill.pieces(values).expect("pieces");
    let [Piece::Text(dir)] = pieces.as_slice() else { panic!("{pieces:?}") };
    assert!(dir.ends_with("config/skills/x"), "{dir}");
}

#[test]
fn commands_get_arguments_as_parameters() {
    let command = |text: &str| Piece::Command(text.to_owned());
    let pieces = filled("State: !`git status`, and `!x` and a!`b`\n", "", &[]).expect("pieces");
    assert_eq!(
        pieces,
        [
            Piece::Text(String::from("State: ")),
            command("git status"),
            Piece::Text(String::from(", and `!x` and a!`b`\n")),
        ]
    );
    let pieces = filled("!`grep \"$1\" $who`", "it's; $(rm x)", &[]).expect("pieces");
    assert_eq!(
        pieces[1],
        command(
            "ARGUMENTS='it'\\''s; $(rm x)'\nwho='you'\nset -- 'it'\\''s;' '$(rm' 'x)'\ngrep \"$1\" $who"
        )
    );
    // A command without parameters leaves the arguments to the text.
    let pieces = filled("!`git log $(x)`", "for users", &[]).expect("pieces");
    assert_eq!(pieces.last(), Some(&Piece::Text(String::from("\n\nArguments: for users\n"))));
    let many = "!`x`\n".repeat(21);
    assert!(filled(&many, "", &[]).expect_err("too many").contains("21 commands, 20 may be"));
}
