//! The measured programs: sinew, the servers and programs to compare it with, and how each is obtained and started.
//!
//! Peers are installed once, in fixed versions, beneath the folder of the bench. A peer that cannot
//! be had on this machine (Node is not there) leaves its part of a row out.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::client::{Client, Link};
use crate::dist;

const RIPGREP: &str = "ripgrep@15.2.0";
const RUST_FS: &str = "rust-mcp-filesystem@0.4.5";
const NODE_FS: &str = "@modelcontextprotocol/server-filesystem@2026.8.31";
const CODEX: &str = "@openai/codex@0.169.0";

/// The shell of every command that is measured.
pub(super) const SHELL: &str = "/bin/sh";

/// A server of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Null,
    Ours,
    RustFs,
    NodeFs,
}

impl Server {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Ours => "sinew",
            Self::RustFs => "rust-fs",
            Self::NodeFs => "node-fs",
        }
    }
}

/// The binaries of sinew.
pub(super) struct Ours {
    pub(super) command: PathBuf,
    /// The example that holds 512 MiB, where it was built beside the command.
    pub(super) heavy: Option<PathBuf>,
}

/// Where every side of a row is found.
pub(super) struct Peers {
    folder: PathBuf,
    null: PathBuf,
    ours: Option<Ours>,
    rust_fs: PathBuf,
    node_fs: Option<PathBuf>,
    /// The program that applies patches in envelopes.
    apply_patch: Option<PathBuf>,
    rg: PathBuf,
}

impl Peers {
    /// Installs the missing programs. `ours` is the sinew to measure, `None` where only peers are.
    pub(super) fn obtain(root: &Path, folder: &Path, ours: Option<Ours>) -> Result<Self> {
        let rg = ripgrep(root, folder)?;
        let rust_fs = installed(root, folder, "rust-mcp-filesystem", RUST_FS, &[])?;
        let node_fs = or_left_out("node-fs", node_fs(folder));
        let apply_patch = or_left_out("codex", apply_patch(folder));
        let null = std::env::current_exe()?;
        Ok(Self { folder: folder.to_owned(), null, ours, rust_fs, node_fs, apply_patch, rg })
    }

    /// Returns the program that applies patches in envelopes, if it is there.
    pub(super) fn apply_patch(&self, folder: &Path) -> Option<Run> {
        self.apply_patch.as_ref().map(|program| Run::new(program, folder))
    }

    /// Returns the program of the sinew that is measured.
    pub(super) fn ours(&self) -> Option<&Path> {
        self.ours.as_ref().map(|ours| ours.command.as_path())
    }

    /// Returns the program of the server that does nothing.
    pub(super) fn null(&self) -> &Path {
        &self.null
    }

    /// Prepares a server over `root`, if the server is there.
    pub(super) fn launch(&self, server: Server, root: &Path) -> Option<Launch> {
        let (program, args): (&Path, Vec<OsString>) = match server {
            Server::Null => (&self.null, vec!["null-mcp".into()]),
            Server::Ours => (&self.ours.as_ref()?.command, vec!["--root".into(), root.into()]),
            Server::RustFs => (&self.rust_fs, vec!["--allow-write".into(), root.into()]),
            Server::NodeFs => {
                (Path::new("node"), vec![self.node_fs.clone()?.into(), root.to_owned().into()])
            }
        };
        Some(Launch {
            server,
            program: program.to_owned(),
            args,
            tools: &["--tools", "all"],
            root: root.to_owned(),
            folder: self.folder.clone(),
            link: Link::Pipes,
            max_descriptors: None,
            state: "state",
        })
    }

    /// Prepares sinew over `root` in a process that holds 512 MiB.
    pub(super) fn launch_heavy(&self, root: &Path) -> Option<Launch> {
        let program = self.ours.as_ref()?.heavy.clone()?;
        Some(Launch { program, ..self.launch(Server::Ours, root)? })
    }

    /// Returns ripgrep as every row runs it: over what sinew searches, without the configuration of the
    /// user.
    pub(super) fn rg(&self, folder: &Path, args: &[&str]) -> Run {
        Run::new(&self.rg, folder)
            .args(&["--no-config", "--no-ignore-global", "--hidden", "--glob", "!.git"])
            .args(args)
    }

    /// Returns the versions of all sides, for the report.
    pub(super) fn versions(&self) -> Vec<(&'static str, String)> {
        let first_line = |program: &Path| {
            let said = Run::new(program, &self.folder).args(&["--version"]).output();
            let text = said.map(|(_, text)| text).unwrap_or_default();
            text.lines().next().unwrap_or_default().to_owned()
        };
        let ours = self.ours.as_ref().map(|ours| first_line(&ours.command));
        let ours = ours.unwrap_or_else(|| String::from("left out"));
        let node_fs = if self.node_fs.is_some() { NODE_FS } else { "left out" };
        let codex = if self.apply_patch.is_some() { CODEX } else { "left out" };
        vec![
            ("sinew", ours),
            ("rust-fs", String::from(RUST_FS)),
            ("node-fs", String::from(node_fs)),
            ("node", first_line(Path::new("node"))),
            ("codex", String::from(codex)),
            ("patch", first_line(Path::new("patch"))),
            ("rg", first_line(&self.rg)),
        ]
    }
}

/// A server that is ready to start.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    server: Server,
    program: PathBuf,
    args: Vec<OsString>,
    tools: &'static [&'static str],
    root: PathBuf,
    folder: PathBuf,
    link: Link,
    max_descriptors: Option<u32>,
    state: &'static str,
}

impl Launch {
    pub(super) fn link(mut self, link: Link) -> Self {
        self.link = link;
        self
    }

    /// Adds global options of sinew.
    pub(super) fn options(mut self, options: &[&str]) -> Self {
        self.args.extend(options.iter().map(OsString::from));
        self
    }

    /// Serves the whole table of a dialect instead of every native tool.
    pub(super) fn dialect(mut self, name: &str) -> Self {
        self.tools = &[];
        self.options(&["--dialect", name])
    }

    /// Keeps what sinew keeps apart from other servers, which would wait for one another there.
    pub(super) fn state(mut self, folder: &'static str) -> Self {
        self.state = folder;
        self
    }

    /// Starts the server by a shell that lowers the limit on open files.
    pub(super) fn max_descriptors(mut self, n: u32) -> Self {
        self.max_descriptors = Some(n);
        self
    }

    pub(super) fn start(&self) -> Result<Client> {
        let mut command = match self.max_descriptors {
            None => Command::new(&self.program),
            Some(n) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(format!("ulimit -n {n} && exec \"$0\" \"$@\""));
                shell.arg(&self.program);
                shell
            }
        };
        command.args(&self.args);
        if self.server == Server::Ours {
            command.arg("mcp").args(self.tools).args(["--approvals", "allow"]);
        }
        // Nothing that the person has configured takes part, and all that is kept is kept here.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SINEW_") {
                command.env_remove(name);
            }
        }
        command
            .env("XDG_STATE_HOME", super::state_home(self.state))
            .env("XDG_CONFIG_HOME", super::config_home())
            // Commands are run by the shell that they are compared with.
            .env("SHELL", SHELL)
            .current_dir(&self.root);
        let log = self.folder.join(format!("{}.log", self.server.name()));
        Client::start(command, self.link, log)
            .with_context(|| format!("{} over {}", self.server.name(), self.root.display()))
    }
}

/// A program that is run to its end, its output read to its end.
pub(super) struct Run {
    command: Command,
    head: Option<Command>,
}

impl Run {
    pub(super) fn new(program: impl AsRef<Path>, folder: &Path) -> Self {
        let mut command = Command::new(program.as_ref());
        command.current_dir(folder).stdin(Stdio::null());
        Self { command, head: None }
    }

    pub(super) fn args(mut self, args: &[&str]) -> Self {
        self.command.args(args);
        self
    }

    pub(super) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.command.arg(arg.into());
        self
    }

    /// Gives it a file as its input.
    pub(super) fn input(mut self, path: &Path) -> Result<Self> {
        self.command.stdin(fs::File::open(path)?);
        Ok(self)
    }

    /// Passes the output through `head`, which ends the program once it has enough.
    pub(super) fn head(mut self, n_lines: usize) -> Self {
        let mut head = Command::new("head");
        head.arg("-n").arg(n_lines.to_string());
        self.head = Some(head);
        self
    }

    /// Runs; returns the seconds it took and the output.
    ///
    /// A status other than success means nothing found in some programs and is taken as that. What
    /// a program says on its standard error is a failure, since then the answer may not be whole.
    pub(super) fn output(mut self) -> Result<(f64, String)> {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let begun = Instant::now();
        let mut program = self.command.spawn().context("a program does not start")?;
        let (output, errors) = match self.head {
            None => {
                let output = program.wait_with_output()?;
                (output.stdout, output.stderr)
            }
            Some(mut head) => {
                head.stdin(program.stdout.take().context("no output")?).stdout(Stdio::piped());
                let running = head.spawn()?;
                // It holds the stream between the two, without which gone the program goes on.
                drop(head);
                let output = running.wait_with_output()?;
                program.wait()?;
                (output.stdout, Vec::new())
            }
        };
        let seconds = begun.elapsed().as_secs_f64();
        if !errors.is_empty() {
            bail!("a program complains: {}", String::from_utf8_lossy(&errors));
        }
        Ok((seconds, String::from_utf8_lossy(&output).into_owned()))
    }

    /// Runs; returns the seconds it took.
    pub(super) fn seconds(self) -> Result<f64> {
        Ok(self.output()?.0)
    }
}

/// Builds sinew as people get it, and the example by itself: its dependencies have features that sinew's lack.
pub(super) fn build_ours(root: &Path) -> Result<Ours> {
    println!("building sinew");
    let command = dist::build(root)?;
    let mut cargo = dist::cargo(root, &["--example", "heavy"])?;
    Ok(Ours { command, heavy: Some(dist::executable(root, &mut cargo, "heavy")?) })
}

/// Returns a built sinew, with the example where cargo puts it.
pub(super) fn ours_at(command: PathBuf) -> Ours {
    let heavy = command.parent().map(|folder| folder.join("examples/heavy"));
    Ours { heavy: heavy.filter(|path| path.is_file()), command }
}

/// Returns ripgrep, which is installed unless it is there.
pub(super) fn ripgrep(root: &Path, folder: &Path) -> Result<PathBuf> {
    installed(root, folder, "rg", RIPGREP, &[])
}

/// Returns ripgrep for comparisons of answers alone: it compiles in half the time of the one that is measured.
pub(super) fn ripgrep_for_tests(root: &Path, folder: &Path) -> Result<PathBuf> {
    let quickly = ["opt-level=1", "lto='off'", "codegen-units=16"];
    installed(root, folder, "rg", RIPGREP, &quickly)
}

/// Returns a binary of a crate, which is installed unless it is there in this version. `profile` has settings of the
/// release profile.
pub(super) fn installed(
    root: &Path,
    folder: &Path,
    binary: &str,
    package: &str,
    profile: &[&str],
) -> Result<PathBuf> {
    let path = folder.join("bin").join(binary);
    let version = package.rsplit('@').next().unwrap_or_default();
    let said = Command::new(&path).arg("--version").output();
    if said.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(version)) {
        return Ok(path);
    }
    println!("installing {package}");
    let status = crate::cargo_command()
        .args(["install", "--locked", "--force", "--root"])
        .arg(folder)
        .arg(package)
        // The release profile of ripgrep has debug information, which takes long to compile and helps no test.
        .args(["--config", "profile.release.debug=false"])
        .args(profile.iter().map(|setting| format!("--config=profile.release.{setting}")))
        .current_dir(root)
        .status()
        .context("cargo does not start")?;
    if !status.success() {
        bail!("`{package}` cannot be installed: {status}");
    }
    Ok(path)
}

/// Returns a peer, or says why a row does without it.
fn or_left_out(name: &str, peer: Result<PathBuf>) -> Option<PathBuf> {
    peer.inspect_err(|error| println!("{name} is left out: {error:#}")).ok()
}

/// Returns the entry of the npm server, which is installed unless it is there.
fn node_fs(folder: &Path) -> Result<PathBuf> {
    Command::new("node").arg("--version").output().context("`node` does not start")?;
    Ok(npm(folder, NODE_FS)?.join("dist/index.js"))
}

/// Returns the program that applies patches in envelopes: the peer, by another name.
fn apply_patch(folder: &Path) -> Result<PathBuf> {
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let platform = match (system, machine) {
        ("linux", "x86_64") => "codex-linux-x64/vendor/x86_64-unknown-linux-musl",
        ("linux", "aarch64") => "codex-linux-arm64/vendor/aarch64-unknown-linux-musl",
        _ => bail!("there is none for {system} on {machine}"),
    };
    let beside = npm(folder, CODEX)?;
    let program = beside.with_file_name(platform).join("bin/codex");
    let link = folder.join("bin/apply_patch");
    if fs::read_link(&link).ok().as_ref() != Some(&program) {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&program, &link)?;
    }
    if !link.is_file() {
        bail!("it is not where it was expected: {}", program.display());
    }
    Ok(link)
}

/// Returns the folder of a package of npm, which is installed unless it is there in this version.
fn npm(folder: &Path, package: &str) -> Result<PathBuf> {
    let (name, version) = package.rsplit_once('@').context("a package has a version")?;
    let place = folder.join("npm/node_modules").join(name);
    let manifest = fs::read_to_string(place.join("package.json"));
    if manifest.is_ok_and(|text| text.contains(&format!("\"version\": \"{version}\""))) {
        return Ok(place);
    }
    println!("installing {package}");
    let status = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--prefix"])
        .arg(folder.join("npm"))
        .arg(package)
        .status()
        .context("`npm` does not start")?;
    if !status.success() {
        bail!("`{package}` cannot be installed: {status}");
    }
    Ok(place)
}

/// Returns the value of a line of `/proc/PID/status` in bytes.
pub(super) fn memory(pid: u32, line: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let value = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
    let digits = value.and_then(|value| value.split_whitespace().next());
    let kib: f64 = digits.with_context(|| format!("no line in status: `{line}`"))?.parse()?;
    Ok(kib * 1024.0)
}

/// Returns the seconds that all threads of a process have run, to the nanosecond. It is asked while
/// the process waits, as a running thread is counted up to its last tick only.
pub(super) fn cpu_seconds(pid: u32) -> Result<f64> {
    std::thread::sleep(Duration::from_millis(5));
    let mut nanoseconds = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let schedstat = fs::read_to_string(task?.path().join("schedstat"))?;
        let ran = schedstat.split_whitespace().next().context("`schedstat` is empty")?;
        nanoseconds += ran.parse::<f64>()?;
    }
    Ok(nanoseconds / 1e9)
}
