//! Servers that are spoken to over pipes.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use sinew_guard::{Helper, SandboxLevel, ServerProcess, ServerProgram};
use sinew_tool::{Exit, Kind};

use crate::hazards::{number, sleepers};
use crate::world::{Place, beside_others, block_on, works};

type Case = fn(&Place, SandboxLevel) -> Result<(), Failed>;

const CASES: &[(&str, Case)] = &[
    ("it answers until its input ends", answers),
    ("it has its own variables and no others", variables),
    ("it writes in the roots and nowhere else", writes),
    ("it reaches the network only if it may", network),
    ("all that it started ends with it", drops),
    ("one that stays is stopped", stays),
    ("one that does not start says why", missing),
];

pub(crate) fn trials(helper: &Helper) -> Vec<Trial> {
    let of = |name: &'static str, case: Case| {
        SandboxLevel::ALL.map(|level| {
            let helper = helper.clone();
            Trial::test(format!("server: {name} on {level}"), move || {
                let _turn = beside_others();
                if !works(&helper, level) {
                    return Ok(());
                }
                case(&Place::new(&helper, level), level)
            })
        })
    };
    let denied = SandboxLevel::ALL.map(|level| {
        let helper = helper.clone();
        Trial::test(format!("server: denied paths are denied to it on {level}"), move || {
            let _turn = beside_others();
            if level == SandboxLevel::None || !works(&helper, level) {
                return Ok(());
            }
            denied(&Place::judging_reads(&helper, level))
        })
    });
    CASES.iter().flat_map(|&(name, case)| of(name, case)).chain(denied).collect()
}

fn that(holds: bool, words: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(words().into()) }
}

fn start(place: &Place, text: &str, network: bool) -> Result<ServerProcess, Failed> {
    let program = ServerProgram {
        argv: ["sh", "-c", text].map(String::from).to_vec(),
        cwd: place.root.clone(),
        env: vec![(String::from("TOKEN"), String::from("own"))],
        network,
    };
    block_on(place.guard.start_server(program)).map_err(|error| format!("{error:?}").into())
}

/// Returns all that a server writes until it ends, and how it ended.
fn output(server: ServerProcess) -> Result<(String, Exit), Failed> {
    let ServerProcess { stdin, stdout, running, .. } = server;
    drop(stdin);
    let mut text = String::new();
    File::from(stdout).read_to_string(&mut text)?;
    Ok((text, block_on(running.ended())))
}

fn read_line(stdout: &OwnedFd) -> Result<String, Failed> {
    let mut file = File::from(stdout.try_clone()?);
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') && file.read(&mut byte)? == 1 {
        line.push(byte[0]);
    }
    Ok(String::from_utf8(line)?)
}

fn answers(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let text = "while read line; do echo \"$TOKEN $line\"; done; exit 7";
    let server = start(place, text, false)?;
    let (contained, _) = server.running.containment();
    that(contained == level, || format!("{contained}"))?;
    let mut stdin = File::from(server.stdin.try_clone()?);
    for said in ["one", "two"] {
        stdin.write_all(format!("{said}\n").as_bytes())?;
        let line = read_line(&server.stdout)?;
        that(line == format!("own {said}\n"), || line)?;
    }
    drop(stdin);
    let (text, exit) = output(server)?;
    that(text.is_empty() && exit == Exit::Code(7), || format!("{text} {exit:?}"))
}

fn variables(place: &Place, _: SandboxLevel) -> Result<(), Failed> {
    let (text, _) = output(start(place, "env", false)?)?;
    let has = |line: &str| text.lines().any(|own| own == line);
    that(has("TOKEN=own") && has("LANG=C.UTF-8"), || text.clone())?;
    that(!text.contains("canary") && !text.contains("GIT_PAGER"), || text.clone())
}

fn writes(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let outside = place.outside.join("escaped");
    let text = format!("echo a > inside; echo b > {}; echo done", outside.display());
    let (text, _) = output(start(place, &text, false)?)?;
    that(text == "done\n", || text)?;
    that(fs::read(place.root.join("inside"))? == b"a\n", || String::from("nothing was written"))?;
    // A program in no sandbox escapes, so the case can fail.
    that(outside.exists() == (level == SandboxLevel::None), || String::from("it wrote outside"))
}

fn network(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let text = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached' 2>&1");
    for network in [false, true] {
        let (text, _) = output(start(place, &text, network)?)?;
        let may = network || level == SandboxLevel::None;
        that((text == "reached\n") == may, || format!("network {network}: {text}"))?;
    }
    Ok(())
}

fn drops(place: &Place, _: SandboxLevel) -> Result<(), Failed> {
    let number = number();
    let text = format!("setsid sleep 9{number} & echo begun; sleep 9{number}");
    let server = start(place, &text, false)?;
    let line = read_line(&server.stdout)?;
    that(line == "begun\n", || line)?;
    drop(server);
    that(sleepers(&number).is_empty(), || format!("{:?}", sleepers(&number)))
}

fn stays(place: &Place, _: SandboxLevel) -> Result<(), Failed> {
    let number = number();
    let text = format!("trap '' TERM HUP; echo begun; while :; do sleep 9{number}; done");
    let ServerProcess { stdin, stdout, running, .. } = start(place, &text, false)?;
    let line = read_line(&stdout)?;
    that(line == "begun\n", || line)?;
    drop(stdin);
    let since = Instant::now();
    block_on(running.end());
    that(sleepers(&number).is_empty(), || format!("{:?}", sleepers(&number)))?;
    that(since.elapsed() < Duration::from_secs(4), || format!("{:?}", since.elapsed()))
}

fn missing(place: &Place, _: SandboxLevel) -> Result<(), Failed> {
    let program = |name: &str| ServerProgram {
        argv: vec![name.to_owned()],
        cwd: place.root.clone(),
        env: Vec::new(),
        network: false,
    };
    let started = block_on(place.guard.start_server(program("no-such-server")));
    let kind = started.as_ref().err().map(|error| error.kind);
    that(kind == Some(Kind::FileNotFound), || format!("{started:?}"))?;
    fs::write(place.root.join("broken"), "#!/no/such/interpreter\n")?;
    fs::set_permissions(
        place.root.join("broken"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )?;
    let server = block_on(place.guard.start_server(program("./broken")));
    let server = server.map_err(|error| format!("{error:?}"))?;
    let (_, exit) = output(server)?;
    that(matches!(exit, Exit::NotStarted { is_missing: true, .. }), || format!("{exit:?}"))
}

fn denied(place: &Place) -> Result<(), Failed> {
    fs::create_dir(place.root.join("denied"))?;
    fs::write(place.root.join("denied/key"), "canary")?;
    fs::write(place.root.join("free"), "free\n")?;
    let (text, _) = output(start(place, "cat free; cat denied/key", false)?)?;
    that(text == "free\n", || text)
}
