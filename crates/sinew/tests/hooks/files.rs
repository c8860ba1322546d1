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
        ("HOOK.md", "---\ncommand: |\n  x\n---\n", "HOOK.md:2:10: this form of YAML"),
        (
            "HOOK.md",
            "+++\nevent = \"never\"\ncommand = [\"x\"]\n+++\n",
            "HOOK.md: `event` names no event",
        ),
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
    layers.trust_project();
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
    layers.trust_project();
    let error = layers.add_project_hooks(project).unwrap_err();
    has(&error.to_string(), "may not be reached by a link");
    // A repository does not keep sinew from starting by it.
    assert_eq!(place.run(&["call", "List"], "").code, 0);
}
