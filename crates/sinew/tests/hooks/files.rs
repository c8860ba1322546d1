//! Where hooks are written: layers of configuration, folders, and what comes with a project.

use std::fs;
use std::path::Path;

use sinew::config::Layers;

use super::{Place, has};

fn folder(dir: &Path, name: &str, file: &str, text: &str) {
    let folder = dir.join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(file), text).unwrap();
    let program = folder.join("handler.sh");
    fs::write(&program, format!("#!/bin/sh\ncat >/dev/null\necho {name} $PWD >>\"$OUT\"\n"))
        .unwrap();
    fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_hook_lies_in_a_folder_with_its_program() {
    let place = Place::new();
    let dir = place.at("config/sinew/hooks");
    let out = place.at("out");
    let out = out.to_str().unwrap();
    let toml = format!(
        "+++\nname = \"audit\"\ndescription = \"notes\"\nemoji = \"*\"\nevents = [\"BeforeToolCall\"]\n\
         command = \"./handler.sh\"\ntimeout = 5\n\n[requires]\nos = [\"linux\"]\nbins = [\"sh\"]\n\n\
         [env]\nOUT = \"{out}\"\n+++\n\n# Audit\n"
    );
    folder(&dir, "a-toml", "HOOK.md", &toml);
    let yaml = format!(
        "---\n# Sinew's own\nevent: before_tool_execute\ncommand: [./handler.sh]\nenv:\n  OUT: {out}\n---\n"
    );
    folder(&dir, "b-yaml", "HOOK.md", &yaml);
    let plain = format!(
        "event = \"before_tool_execute\"\ncommand = [\"./handler.sh\"]\nenv = {{ OUT = \"{out}\" }}\n"
    );
    folder(&dir, "c-plain", "hook.toml", &plain);
    fs::create_dir(dir.join("empty")).unwrap();
    let ran = place.run(&["call", "List"], "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let at =
        |name: &str| format!("{name} {}\n", fs::canonicalize(dir.join(name)).unwrap().display());
    let expected: String = ["a-toml", "b-yaml", "c-plain"].map(at).concat();
    assert_eq!(place.noted("out").unwrap(), expected);
    let listed = place.run(&["hook", "list"], "").out;
    for words in ["audit\n", "b-yaml\n", "HOOK.md", "hook.toml", "payload moltis"] {
        has(&listed, words);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told_with_its_place() {
    for (file, text, words) in [
        ("HOOK.md", "# no front matter\n", "HOOK.md:1:1: begin the file with front matter"),
        ("HOOK.md", "+++\nevent = \"persist\"\ncommand = [\n+++\n", "HOOK.md:3:12: "),
        ("HOOK.md", "+++\nevent = 7\n+++\n", "HOOK.md:2:9: "),
        ("HOOK.md", "---\nname: 7\n---\n", "HOOK.md:2:7: value requires quoting"),
        (
            "HOOK.md",
            "+++\nevent = \"never\"\ncommand = [\"x\"]\n+++\n",
            "HOOK.md:2:1: `event` names no event",
        ),
        (
            "HOOK.md",
            "---\nevent: persist\ncommand: [x]\ntimeout: 0\n---\n",
            "HOOK.md:4:1: `timeout`",
        ),
        ("HOOK.md", "+++\ncommand = [\"x\"]\n+++\n", "HOOK.md:1:1: `event` is missing"),
        ("hook.toml", "event = \"persist\"\n  command = []\n", "hook.toml:2:3: `command` is empty"),
        ("hook.toml", "event = \"persist\"\ncommand = [\"x\"\n", "hook.toml:2:"),
    ] {
        let place = Place::new();
        folder(&place.at("config/sinew/hooks"), "bad", file, text);
        let ran = place.run(&["call", "List"], "");
        assert_eq!(ran.code, 2, "{text}: {ran:?}");
        has(&ran.err, words);
        has(&ran.err, "config/sinew/hooks/bad/");
    }
    for (toml, words) in [
        (
            "[[hooks]]\nevent = \"persist\"\ncommand = [\n",
            "config.toml: TOML parse error at line 3, column 12",
        ),
        (
            "log = \"warn\"\n[[hooks]]\nevent = \"never\"\ncommand = [\"x\"]\n",
            "config.toml:2:1: `hooks[0].event`",
        ),
        ("[[hooks.stop]]\ncommand = []\n", "config.toml:1:1: `hooks.stop[0].command`"),
    ] {
        let place = Place::new();
        place.config(toml);
        let ran = place.run(&["call", "List"], "");
        assert_eq!(ran.code, 2, "{toml}: {ran:?}");
        has(&ran.err, words);
    }
}

#[test]
fn every_layer_adds_hooks() {
    let place = Place::new();
    let note = place.program("note", "echo $1 >>{home}/out");
    let one = |name: &str| {
        format!("[[hooks]]\nevent = \"before_tool_execute\"\ncommand = [\"{note}\", \"{name}\"]\n")
    };
    place.config(&one("person"));
    fs::write(place.at("named.toml"), one("named")).unwrap();
    let named = place.at("named.toml");
    let ran = place.run(&["--config", named.to_str().unwrap(), "call", "List"], "");
    assert_eq!((ran.code, place.noted("out").as_deref()), (0, Some("person\nnamed\n")), "{ran:?}");
    // A flag says what all of them are.
    fs::remove_file(place.at("out")).unwrap();
    let ran = place.run(&["--set", "hooks=[]", "call", "List"], "");
    assert_eq!((ran.code, place.noted("out")), (0, None), "{ran:?}");
    let shown = place.run(&["config", "show"], "").out;
    has(&shown, "hooks = [{");
}

#[test]
fn what_a_project_brings_is_left_out_and_told() {
    let place = Place::new();
    let out = place.at("out");
    let project = &place.place.root;
    let own = format!(
        "log = \"warn\"\n[[hooks]]\nevent = \"before_tool_execute\"\ncommand = [\"/usr/bin/touch\", \"{}\"]\n",
        out.display()
    );
    fs::create_dir(project.join(".sinew")).unwrap();
    fs::write(project.join(".sinew/config.toml"), own).unwrap();
    let text = format!(
        "+++\nevent = \"before_tool_execute\"\ncommand = [\"./handler.sh\"]\nenv = {{ OUT = \"{}\" }}\n+++\n",
        out.display()
    );
    folder(&project.join(".sinew/hooks"), "own", "HOOK.md", &text);
    let ran = place.run(&["call", "List"], "");
    assert_eq!((ran.code, place.noted("out")), (0, None), "{ran:?}");
    has(&ran.err, ".sinew/config.toml:2: `hooks[0]` is left out, because it would run a program");
    has(&ran.err, ".sinew/hooks/own/HOOK.md: it is left out");
    has(&ran.err, "`sinew trust`");

    // Once the person has said so they are like any other.
    let mut layers = Layers::with_defaults().unwrap();
    layers.trust_project(project);
    layers.add_project_file(project).unwrap();
    layers.add_project_hooks(project).unwrap();
    let layered = layers.merge().unwrap();
    let hooks = layered.options.hooks.unwrap().0;
    assert_eq!((hooks.len(), layered.hooks.len(), layered.warnings), (2, 2, Vec::new()));
    assert_eq!(hooks[1].name.as_deref(), Some("own"));

    // A link to another place is none of the project's.
    fs::rename(project.join(".sinew/hooks/own"), place.at("elsewhere")).unwrap();
    std::os::unix::fs::symlink(place.at("elsewhere"), project.join(".sinew/hooks/own")).unwrap();
    let mut layers = Layers::with_defaults().unwrap();
    layers.trust_project(project);
    let error = layers.add_project_hooks(project).unwrap_err();
    has(&error.to_string(), "may not be reached by a link");
    // A repository does not keep sinew from starting by it.
    assert_eq!(place.run(&["call", "List"], "").code, 0);
}

/// What cannot be looked at was no hook, and whatever it was to stop went on.
#[test]
fn a_folder_that_cannot_be_read_keeps_sinew_from_starting() {
    let hook = "event = \"before_tool_execute\"\ncommand = [\"/bin/false\"]\n";
    for (what, named) in [
        ("file", "hooks: "),
        ("dangling", "hooks: "),
        ("loop", "hooks: "),
        ("lost", "hooks/guard: "),
        ("none", ""),
    ] {
        let place = Place::new();
        let dir = place.at("config/sinew/hooks");
        fs::create_dir_all(dir.parent().unwrap()).unwrap();
        match what {
            "file" => fs::write(&dir, "").unwrap(),
            "dangling" => std::os::unix::fs::symlink("nowhere", &dir).unwrap(),
            "loop" => std::os::unix::fs::symlink("hooks", &dir).unwrap(),
            "lost" => {
                fs::create_dir(&dir).unwrap();
                std::os::unix::fs::symlink("nowhere", dir.join("guard")).unwrap();
            }
            _ => {
                fs::create_dir(&dir).unwrap();
                fs::write(dir.join("README"), hook).unwrap();
            }
        }
        let ran = place.run(&["call", "List"], "");
        assert_eq!(ran.code, if named.is_empty() { 0 } else { 2 }, "{what}: {ran:?}");
        has(&ran.err, named);
    }
}

/// Trusts the project of a place.
fn trust(place: &Place) {
    let ran = place.run(&["trust", "--yes", place.place.root.to_str().unwrap()], "");
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn project_hook(more: &str) -> String {
    format!("+++\nname = \"own\"\nevent = \"before_tool_execute\"\n{more}\n+++\n")
}

/// It was refused as one that a model can write, although none can.
#[test]
fn a_project_that_is_trusted_runs_its_hooks_and_nothing_else_of_it() {
    for (command, code, words) in [
        ("command = [\"./handler.sh\"]", 0, ""),
        ("command = [\"/bin/sh\", \"handler.sh\"]", 0, ""),
        ("command = [\"{root}/check\"]", 2, "beneath `.sinew/hooks`"),
        ("command = [\"{root}/check\"]\nin_root = true", 2, "beneath `.sinew/hooks`"),
        ("command = [\"/bin/sh\", \"../../../check\"]\nin_root = true", 2, "except those beneath"),
    ] {
        let place = Place::new();
        let project = place.place.root.clone();
        let check = place.program("check", "echo check >>{home}/out");
        fs::rename(check, project.join("check")).unwrap();
        let env = format!("\nenv = {{ OUT = \"{}\" }}", place.at("out").display());
        let text = project_hook(&(place.filled(command) + &env));
        folder(&project.join(".sinew/hooks"), "own", "HOOK.md", &text);
        trust(&place);
        let ran = place.run(&["call", "List"], "");
        assert_eq!(ran.code, code, "{command}: {ran:?}");
        assert_eq!(place.noted("out").is_some(), code == 0, "{command}: {ran:?}");
        has(&ran.err, words);
    }
}

/// What changed while sinew ran was run at the next call.
#[test]
fn a_project_whose_hooks_change_runs_none_of_them_until_it_is_trusted_anew() {
    for (changed, on_error, is_ok) in [
        ("handler.sh", "block", false),
        ("handler.sh", "continue", true),
        ("beside.py", "block", false),
    ] {
        let place = Place::new();
        let project = place.place.root.clone();
        let dir = project.join(".sinew/hooks");
        let text = project_hook(&format!(
            "on_error = \"{on_error}\"\ncommand = [\"./handler.sh\"]\nenv = {{ OUT = \"{}\" }}",
            place.at("out").display()
        ));
        folder(&dir, "own", "HOOK.md", &text);
        trust(&place);
        let mut served = crate::served::Served::start(&place.place.home, &[&project], &[], 1_024);
        assert_eq!(served.call("List", &serde_json::json!({}))["ok"], true);
        let script = place.filled("#!/bin/sh\necho changed >{home}/changed\n");
        let program = dir.join("own").join(changed);
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let reply = served.call("List", &serde_json::json!({}));
        assert_eq!(reply["ok"], is_ok, "{changed} {on_error}: {reply}");
        assert_eq!(place.noted("changed"), None);
        assert_eq!(place.noted("out").unwrap().lines().count(), 1);
    }
}
