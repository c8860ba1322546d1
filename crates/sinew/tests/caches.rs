//! What lasts of caches for later sessions: of real package managers with a registry on loopback, and of what a command plants.
#![expect(clippy::disallowed_types, reason = "a registry of the test listens on loopback")]

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256, Sha512};

use crate::examples::skipped;
use crate::pipe::{Piped, text};
use crate::served::Place;

const NETWORK: &[&str] = &["network"];
const NOTHING: &[&str] = &[];

/// Serves files over HTTP on loopback; returns its address.
fn registry(files: impl FnOnce(&str) -> HashMap<String, Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let files = files(&address);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = serve(&mut stream.unwrap(), &files);
        }
    });
    address
}

fn serve(stream: &mut TcpStream, files: &HashMap<String, Vec<u8>>) -> std::io::Result<()> {
    let (mut request, mut chunk) = (Vec::new(), [0; 4_096]);
    while !request.windows(4).any(|part| part == b"\r\n\r\n") {
        let n = stream.read(&mut chunk)?;
        if n == 0 {
            return Ok(());
        }
        request.extend_from_slice(&chunk[..n]);
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (status, body) = match files.get(path) {
        Some(body) => ("200 OK", body.as_slice()),
        None => ("404 Not Found", &[][..]),
    };
    let n = body.len();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {n}\r\nconnection: close\r\n\r\n")?;
    stream.write_all(body)
}

/// Returns a compressed archive of files in one directory.
fn archive(dir: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    for (name, content) in files {
        write(&place.path().join(dir).join(name), content);
    }
    let made = Command::new("tar").args(["-cz", dir]).current_dir(place.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    made.stdout
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn integrity(sha512: &[u8]) -> String {
    format!("sha512-{}", STANDARD.encode(sha512))
}

/// How a session ends.
#[derive(Clone, Copy)]
enum Ends {
    InOrder,
    Killed,
}

/// The roots of a session and the value of `run.caches`.
struct Sessions<'p> {
    place: &'p Place,
    more: Vec<String>,
}

impl Sessions<'_> {
    /// Begins a session; without a value for `run.caches` the project says it, which is not trusted.
    fn begin(&self, caches: &str) -> Piped {
        let set = format!("run.caches={caches}");
        let mut args = vec!["--approvals", "allow", "--require-sandbox=namespaces"];
        if !caches.is_empty() {
            args.extend(["--set", &set]);
        }
        args.extend(self.more.iter().map(String::as_str));
        Piped::start(self.place, &args)
    }

    /// Runs a command in a session of its own and returns its reply.
    fn run(&self, caches: &str, line: &str, needs: &[&str], ends: Ends) -> Value {
        let mut pipe = self.begin(caches);
        let reply = run(&mut pipe, line, needs);
        match ends {
            Ends::InOrder => drop(pipe.end()),
            Ends::Killed => pipe.kill(),
        }
        reply
    }
}

fn run(pipe: &mut Piped, line: &str, needs: &[&str]) -> Value {
    let mut arguments = json!({ "command": line });
    if !needs.is_empty() {
        arguments["needs"] = json!(needs);
        arguments["why"] = json!("to fetch");
    }
    pipe.call(1, "Bash", arguments);
    pipe.next("reply")
}

/// Returns whether a test can run; says that it is skipped if not.
fn can_run(test: &str, program: &str, sessions: &Sessions<'_>) -> bool {
    if Command::new(program).arg("--version").output().is_err() {
        skipped(test, &format!("no {program}"));
        return false;
    }
    let reply = sessions.run("session", "true", NOTHING, Ends::InOrder);
    if reply["error"]["kind"] == "unavailable" {
        skipped(test, "no namespaces");
        return false;
    }
    true
}

/// A package manager: the command that fetches, and the one that installs without a network and then says `fetched`.
fn check_offline(sessions: &Sessions<'_>, fetch: &str, offline: &str) {
    let installs = |caches: &str| {
        let reply = sessions.run(caches, offline, NOTHING, Ends::InOrder);
        let is_done = reply["error"].is_null() && text(&reply).contains("fetched");
        assert!(is_done || !reply["error"].is_null(), "{reply}");
        (is_done, reply)
    };
    assert!(!installs("project").0, "the control: nothing is fetched yet");
    // Its downloads stay with the session.
    let reply = sessions.run("session", fetch, NETWORK, Ends::InOrder);
    assert!(reply["error"].is_null(), "{reply}");
    assert!(!installs("project").0);
    for ends in [Ends::InOrder, Ends::Killed] {
        let stores = sessions.place.home.join("state/sinew/caches");
        fs::remove_dir_all(stores).unwrap();
        let reply = sessions.run("project", fetch, NETWORK, ends);
        assert!(reply["error"].is_null(), "{reply}");
        for _ in 0..2 {
            let (is_done, reply) = installs("project");
            assert!(is_done, "{reply}");
        }
        assert!(!installs("session").0);
    }
}

#[test]
fn npm_installs_offline_in_later_sessions() {
    let place = Place::seen_by_commands();
    let sessions = Sessions { place: &place, more: Vec::new() };
    fs::create_dir(place.home.join(".npm")).unwrap();
    if !can_run("npm_installs_offline_in_later_sessions", "npm", &sessions) {
        return;
    }
    let files = [
        ("package.json", r#"{"name": "small", "version": "1.0.0"}"#),
        ("index.js", "console.log('fetched')"),
    ];
    let package = archive("package", &files);
    let address = registry(|address| {
        let dist = json!({
            "tarball": format!("{address}/small/-/small-1.0.0.tgz"),
            "integrity": integrity(&Sha512::digest(&package)),
        });
        let version = json!({ "name": "small", "version": "1.0.0", "dist": dist });
        let versions = json!({ "1.0.0": version });
        let latest = json!({ "latest": "1.0.0" });
        let all = json!({ "name": "small", "dist-tags": latest, "versions": versions });
        let all = all.to_string().into_bytes();
        HashMap::from([("/small".into(), all), ("/small/-/small-1.0.0.tgz".into(), package)])
    });
    let project = json!({ "name": "x", "version": "1.0.0", "dependencies": { "small": "1.0.0" } });
    write(&place.root.join("package.json"), &project.to_string());
    let quiet = "--no-audit --no-fund --no-update-notifier";
    let fetch = format!("npm install {quiet} --registry {address}");
    let offline =
        format!("rm -rf node_modules; npm ci --offline {quiet} && node node_modules/small");
    check_offline(&sessions, &fetch, &offline);
}

#[test]
fn cargo_builds_offline_in_later_sessions() {
    let place = Place::seen_by_commands();
    let cargo = Path::new(env!("CARGO"));
    let sysroot = cargo.ancestors().nth(2).unwrap().display();
    let more = vec!["--set".into(), format!("run.show=[\"{sysroot}\"]")];
    let sessions = Sessions { place: &place, more };
    if !can_run("cargo_builds_offline_in_later_sessions", env!("CARGO"), &sessions) {
        return;
    }
    let manifest = "[package]\nname = \"small\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    let files =
        [("Cargo.toml", manifest), ("src/lib.rs", "pub fn say() { println!(\"fetched\") }\n")];
    let package = archive("small-1.0.0", &files);
    let entry = json!({
        "name": "small", "vers": "1.0.0", "deps": [], "features": {}, "yanked": false,
        "cksum": hex(&Sha256::digest(&package)),
    });
    let address = registry(|address| {
        let config = json!({ "dl": format!("{address}/{{crate}}.crate") }).to_string();
        HashMap::from([
            ("/config.json".into(), config.into_bytes()),
            ("/sm/al/small".into(), format!("{entry}\n").into_bytes()),
            ("/small.crate".into(), package),
        ])
    });
    let home = place.home.join(".cargo");
    let replaced = format!(
        "[source.crates-io]\nreplace-with = \"near\"\n[source.near]\nregistry = \"sparse+{address}/\"\n"
    );
    write(&home.join("config.toml"), &replaced);
    let manifest = manifest.replace("small", "uses") + "[dependencies]\nsmall = \"1\"\n";
    write(&place.root.join("Cargo.toml"), &manifest);
    write(&place.root.join("src/main.rs"), "fn main() { small::say() }\n");
    // The user's own cargo knows the index; no lockfile verifies that.
    let mut fetch = Command::new(cargo);
    fetch.arg("fetch").env("CARGO_HOME", &home).env("CARGO_TARGET_DIR", place.home.join("target"));
    let fetched = fetch.current_dir(&place.root).output().unwrap();
    assert!(fetched.status.success(), "{fetched:?}");
    for dir in ["registry/cache", "registry/src"] {
        fs::remove_dir_all(home.join(dir)).unwrap();
    }
    let path = format!("PATH={sysroot}/bin:$PATH");
    let fetch = format!("{path} cargo fetch --locked");
    let offline = format!("rm -rf target; {path} cargo run --offline --locked");
    check_offline(&sessions, &fetch, &offline);
}

/// A file that a command plants where npm looks for a content.
struct Plant {
    content: &'static str,
    is_locked: bool,
    /// `$P` is the path, `$D` its directory.
    script: &'static str,
    lasts: bool,
}

const PLANTS: &[Plant] = &[
    Plant { content: "good", is_locked: true, script: "printf good >$P", lasts: true },
    Plant {
        content: "mode",
        is_locked: true,
        script: "printf mode >$P; chmod 4777 $P",
        lasts: true,
    },
    Plant {
        content: "hard",
        is_locked: true,
        script: "printf hard >real; ln real $P",
        lasts: true,
    },
    Plant { content: "right", is_locked: true, script: "printf wrong >$P", lasts: false },
    Plant { content: "empty", is_locked: true, script: ": >$P", lasts: false },
    Plant {
        content: "linked",
        is_locked: true,
        script: "printf linked >link; ln -s ~/.npm/link $P",
        lasts: false,
    },
    Plant {
        content: "moved",
        is_locked: true,
        script: "mkdir else; printf moved >else/${P##*/}; rmdir $D; ln -s ~/.npm/else $D",
        lasts: false,
    },
    Plant { content: "pipe", is_locked: true, script: "mkfifo $P", lasts: false },
    Plant {
        content: "directory",
        is_locked: true,
        script: "mkdir $P; printf x >$P/x",
        lasts: false,
    },
    Plant { content: "unlocked", is_locked: false, script: "printf unlocked >$P", lasts: false },
];

/// Files that a command plants for cargo, beneath `registry`, with their contents. The lockfile names `a` and `b` of 1.0.0,
/// and `c` of another registry.
const CRATES: &[(&str, &str, bool)] = &[
    ("cache/index.crates.io-0123456789abcdef/a-1.0.0.crate", "crate a", true),
    ("cache/index.crates.io-0123456789abcdef/b-1.0.0.crate", "poison", false),
    ("cache/index.crates.io-0123456789abcdef/a-1.0.1.crate", "crate a", false),
    ("cache/other-0123456789abcdef/a-1.0.0.crate", "crate a", false),
    // Of another registry, whose crates have the same names.
    ("cache/private.example-0123456789abcdef/a-1.0.0.crate", "crate a", false),
    ("cache/private.example-0123456789abcdef/c-1.0.0.crate", "crate c", false),
    ("cache/a-1.0.0.crate", "crate a", false),
    ("index/index.crates.io-0123456789abcdef/.cache/1/a", "entry", false),
    ("index/index.crates.io-0123456789abcdef/config.json", "{}", false),
    ("src/index.crates.io-0123456789abcdef/a-1.0.0/lib.rs", "crate a", false),
];

/// The size of a download that is too large, in bytes.
const TOO_LARGE: u64 = (128 << 20) + 1;

fn npm_path(sha512: &str) -> String {
    format!(".npm/_cacache/content-v2/sha512/{}/{}/{}", &sha512[..2], &sha512[2..4], &sha512[4..])
}

fn package_lock(hashes: &[String]) -> String {
    let package = |hash: &String| (hash.clone(), json!({ "integrity": hash }));
    let packages: serde_json::Map<String, Value> = hashes.iter().map(package).collect();
    json!({ "lockfileVersion": 3, "packages": packages }).to_string()
}

fn planted(reply: &Value) -> BTreeSet<String> {
    text(reply).lines().filter(|line| line.starts_with('.')).map(str::to_owned).collect()
}

const LIST: &str = "cd; find .npm .cargo ! -type d | sort";

#[test]
fn what_no_lockfile_verifies_ends_with_its_session() {
    let place = Place::seen_by_commands();
    let sessions = Sessions { place: &place, more: Vec::new() };
    fs::create_dir(place.home.join(".npm")).unwrap();
    for registry in ["index.crates.io-0123456789abcdef", "private.example-0123456789abcdef"] {
        fs::create_dir_all(place.home.join(".cargo/registry/index").join(registry)).unwrap();
    }
    if !can_run("what_no_lockfile_verifies_ends_with_its_session", "sh", &sessions) {
        return;
    }
    let (mut hashes, mut script, mut all, mut lasting) =
        (Vec::new(), String::from("cd ~/.npm;"), BTreeSet::new(), BTreeSet::new());
    for plant in PLANTS {
        let hash = Sha512::digest(plant.content);
        let path = npm_path(&hex(&hash));
        let script_of_plant = plant.script;
        script += &format!("P=~/{path}; D=${{P%/*}}; mkdir -p $D; {script_of_plant};");
        if plant.is_locked {
            hashes.push(integrity(&hash));
        }
        if plant.lasts {
            lasting.insert(path.clone());
        }
        // Their paths are others.
        if !["moved", "directory"].contains(&plant.content) {
            all.insert(path);
        }
    }
    let zeros = format!("head -c {TOO_LARGE} /dev/zero | sha512sum");
    let zeros = Command::new("sh").args(["-c", &zeros]).output().unwrap();
    let zeros = String::from_utf8(zeros.stdout).unwrap()[..128].to_owned();
    let byte = |at: usize| u8::from_str_radix(&zeros[at..at + 2], 16).unwrap();
    hashes.push(integrity(&(0..128).step_by(2).map(byte).collect::<Vec<u8>>()));
    let path = npm_path(&zeros);
    script += &format!("P=~/{path}; mkdir -p ${{P%/*}}; truncate -s {TOO_LARGE} $P;");
    all.insert(path);
    for (name, content, lasts) in CRATES {
        let path = format!(".cargo/registry/{name}");
        script += &format!("P=~/{path}; mkdir -p ${{P%/*}}; printf '{content}' >$P;");
        if *lasts {
            lasting.insert(path.clone());
        }
        all.insert(path);
    }
    let crates = [
        ("a", "crate a", "https://github.com/rust-lang/crates.io-index"),
        ("b", "crate b", "https://github.com/rust-lang/crates.io-index"),
        ("c", "crate c", "https://private.example/index"),
    ];
    let crates = crates.map(|(name, content, registry)| {
        let hash = hex(&Sha256::digest(content));
        format!(
            "[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\nsource = \"registry+{registry}\"\n\
             checksum = \"{hash}\"\n\n"
        )
    });
    fs::write(place.root.join("Cargo.lock"), crates.concat()).unwrap();
    let lockfile = place.root.join("package-lock.json");
    fs::write(&lockfile, package_lock(&hashes)).unwrap();

    // A project does not turn it on.
    write(&place.root.join(".sinew/config.toml"), "[run]\ncaches = \"project\"\n");
    let fetched = format!("{script} ls ~/{}", npm_path(&hex(&Sha512::digest("good"))));
    let reply = sessions.run("", &fetched, NOTHING, Ends::InOrder);
    assert!(reply["error"].is_null(), "{reply}");
    let stores = place.home.join("state/sinew/caches");
    assert!(!stores.exists());
    fs::remove_dir_all(place.root.join(".sinew")).unwrap();

    // A copy of all that the session has would have all of it.
    let reply = sessions.run("project", &(script + LIST), NOTHING, Ends::InOrder);
    let listed = planted(&reply);
    assert!(all.is_subset(&listed), "{:?}: {reply}", all.difference(&listed));
    let after = || planted(&sessions.run("project", LIST, NOTHING, Ends::InOrder));
    assert_eq!(after(), lasting);

    // What a command does to it stays with its session; the store itself is out of sight.
    let good = npm_path(&hex(&Sha512::digest("good")));
    let state = stores.display();
    let line = format!(
        "echo more >>~/{good}; cat ~/{good}; stat -c 'mode %a' ~/{}; ls {state}",
        npm_path(&hex(&Sha512::digest("mode")))
    );
    let reply = sessions.run("project", &line, NOTHING, Ends::InOrder);
    assert!(text(&reply).contains("goodmore\nmode 644\n"), "{reply}");
    assert!(!reply["error"].is_null(), "commands see the store: {reply}");
    let reply = sessions.run("project", &format!("cat ~/{good}"), NOTHING, Ends::InOrder);
    assert_eq!(text(&reply).trim_end(), "good");

    // Two sessions at once.
    let (mut one, mut other) = (sessions.begin("project"), sessions.begin("project"));
    let read = format!("cat ~/{good}; printf '!'");
    for pipe in [&mut one, &mut other] {
        assert_eq!(text(&run(pipe, &read, NOTHING)), "good!");
    }
    drop(one.end());
    fs::write(&lockfile, package_lock(&hashes[1..])).unwrap();
    // A later one no longer gets what an undone lockfile named, though another session still has it.
    lasting.remove(&good);
    assert_eq!(after(), lasting);
    assert_eq!(text(&run(&mut other, &read, NOTHING)), "good!");
    drop(other.end());
    fs::write(&lockfile, package_lock(&hashes)).unwrap();
    assert_eq!(after(), lasting);
    // Another project has nothing of it.
    let beside = place.beside();
    fs::write(beside.root.join("package-lock.json"), package_lock(&hashes)).unwrap();
    let sessions = Sessions { place: &beside, more: Vec::new() };
    assert_eq!(planted(&sessions.run("project", LIST, NOTHING, Ends::InOrder)), BTreeSet::new());
}
