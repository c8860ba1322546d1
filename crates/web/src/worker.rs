//! The process that converts HTML: it is this executable in another role, with limits of its own, and it reads one page.
//!
//! A converter may take hours, all memory or the whole process down on a hostile page. The worker has 256 MiB, one
//! second and a large stack; when it dies, a second one reads the page in one pass.
#![expect(clippy::disallowed_methods, reason = "starts the worker and is it")]

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use sinew_tool::{Kind, PageForm, ReadPage, ToolError};

use crate::html::{self, ShownPage};

/// The argument that makes a program the worker.
const WORKER: &str = "--sinew-html";
/// The word of the form that is read in one pass.
const PLAIN: &str = "plain";
/// How much memory the worker may have, in bytes.
const MAX_MEMORY: u64 = 256 << 20;
/// The processor time of a worker that converts, in seconds, and of one that reads in one pass.
const MAX_CPU_S: [u64; 2] = [1, 2];
/// How long a worker may live.
pub(crate) const MAX_LIFE: Duration = Duration::from_secs(5);
/// The stack of the conversion: a converter descends into nested elements.
const STACK: usize = 64 << 20;
/// The largest page that is converted; the rest is left out.
pub const MAX_HTML: usize = 10 << 20;

/// Becomes the worker and exits, if this process was started as one. Called first in `main`.
pub fn worker_main() {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_none_or(|first| first != WORKER) {
        return;
    }
    let args: Vec<OsString> = args.collect();
    let done = match args.as_slice() {
        [form] => work(&form.to_string_lossy()),
        _ => None,
    };
    std::process::exit(i32::from(done.is_none()));
}

fn work(form: &str) -> Option<()> {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let limit = |resource, most| {
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    };
    limit(Resource::As, MAX_MEMORY);
    let [converts, reads] = MAX_CPU_S;
    limit(Resource::Cpu, if form == PLAIN { reads } else { converts });
    limit(Resource::Core, 0);
    limit(Resource::Fsize, 0);
    std::thread::Builder::new()
        .stack_size(64 << 10)
        .spawn(|| {
            std::thread::sleep(MAX_LIFE);
            std::process::exit(3);
        })
        .ok()?;
    let mut html = Vec::new();
    std::io::stdin().lock().read_to_end(&mut html).ok()?;
    let read = String::from_utf8_lossy(&html).into_owned();
    let form = form.to_owned();
    let convert = move || {
        let (base, html) = read.split_once('\n').unwrap_or_default();
        match PageForm::from_word(&form) {
            Some(form) => html::convert(html, base, form),
            None => html::plain(html),
        }
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(convert).ok()?;
    let page = serde_json::to_vec(&thread.join().ok()?).ok()?;
    std::io::stdout().lock().write_all(&page).ok()
}

/// Converts a page in a worker. `helper` is an executable that calls [`worker_main`] first in its `main`.
///
/// It blocks, for some seconds at most.
pub fn convert(
    helper: &Path,
    html: &str,
    base: &str,
    form: PageForm,
) -> Result<ReadPage, ToolError> {
    let html = html.get(..html.floor_char_boundary(MAX_HTML)).unwrap_or(html);
    let read =
        |is_plain| move |ShownPage { title, text }: ShownPage| ReadPage { title, text, is_plain };
    if let Some(page) = run(helper, html, base, form.as_str()) {
        return Ok(read(false)(page));
    }
    run(helper, html, base, PLAIN).map(read(true)).ok_or_else(|| {
        ToolError::new(
            Kind::Unavailable,
            "the page could not be converted: its worker process failed",
        )
        .hint("fetch it with `format` `raw`")
    })
}

fn run(helper: &Path, html: &str, base: &str, form: &str) -> Option<ShownPage> {
    let mut child = Command::new(helper)
        .args([WORKER, form])
        .env_clear()
        // A second arena of glibc takes more address space than the worker may have, and without one each
        // allocation of its thread is a mapping.
        .env("MALLOC_ARENA_MAX", "1")
        .current_dir(PathBuf::from("/"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let (mut stdin, mut stdout) = (child.stdin.take()?, child.stdout.take()?);
    // The worker reads the whole page before it writes; one that died closes the pipe. The address of the page is its
    // first line: others would see arguments.
    let _ = stdin
        .write_all(format!("{base}\n").as_bytes())
        .and_then(|()| stdin.write_all(html.as_bytes()));
    drop(stdin);
    let mut page = Vec::new();
    let read = stdout.read_to_end(&mut page);
    let ended = child.wait().ok()?;
    read.ok()?;
    ended.success().then(|| serde_json::from_slice(&page).ok())?
}
