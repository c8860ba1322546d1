//! `sinew approve`: shows the questions of other sinew processes at this terminal, and sends them the answers.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use sinew_tool::{Answer, Scope, shown_path};
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::screen::say;
use crate::second_terminal::{ARRIVAL, FromTerminal, SOCKET, read_line, write_line};
use crate::shown_question::{OnEnter, ShownQuestion};
use crate::wiring::{self, Loaded};
use crate::{signals, terminal};

/// The file that one `sinew approve` at a time has locked.
const LOCK: &str = "approve.lock";
/// The most questions that wait at once. More are refused, and the calls are denied unless others answer.
const MAX_WAITING: usize = 64;
/// The most connections: processes also look whether a terminal is there.
const MAX_CONNECTIONS: usize = 256;
/// The pause after a connection that the system did not accept, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers until a signal.
pub(crate) fn run(loaded: &Loaded) -> anyhow::Result<ExitCode> {
    if !terminal::is_attended() {
        bail!(
            "`sinew approve` shows questions and reads keys at a terminal, and there is none; `sinew pipe` and the webhook \
             (`webhook.url`) ask programs"
        );
    }
    if rustix::termios::tcgetpgrp(std::io::stdin()) != Ok(rustix::process::getpgrp()) {
        bail!("`sinew approve` reads keys, so it cannot run in the background of its terminal");
    }
    let state = wiring::state_dir(loaded)?;
    let _lock = lock(state.path())?;
    let socket = state.path().join(SOCKET);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _entered = runtime.enter();
        listen(&socket).with_context(|| format!("the socket {}", socket.display()))?
    };
    let removed = socket.clone();
    signals::exit_after(move || remove(&removed))?;
    say(&format!(
        "questions about calls appear here, of each sinew with its state in {}; Ctrl-C ends this",
        shown_path(state.path())
    ));
    if let Some(other) = loaded.said.places.other_state() {
        say(&format!(
            "clients start `sinew mcp` with another state directory until you confirm {} (`sinew trust`); unset it to \
             answer them",
            other.variable
        ));
    }
    runtime.block_on(serve(&listener))
}

/// Locks the state directory for this command.
#[expect(clippy::disallowed_methods, reason = "the lock is a file of sinew's own")]
fn lock(state: &Path) -> anyhow::Result<std::fs::File> {
    let file = std::fs::File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(state.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            bail!("another `sinew approve` answers already; end that one first")
        }
        Err(std::fs::TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Listens at a socket that this user alone may connect to, in place of one that an ended process left.
fn listen(socket: &PathBuf) -> std::io::Result<UnixListener> {
    remove(socket);
    let before = rustix::process::umask(rustix::fs::Mode::from(0o177));
    let listener = UnixListener::bind(socket);
    rustix::process::umask(before);
    listener
}

#[expect(clippy::disallowed_methods, reason = "the socket is a file of sinew's own")]
fn remove(socket: &Path) {
    let _ = std::fs::remove_file(socket);
}

async fn serve(listener: &UnixListener) -> ! {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let seats = Arc::new(Semaphore::new(MAX_WAITING));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if let Ok(connection) = Arc::clone(&connections).try_acquire_owned() {
            let seats = Arc::clone(&seats);
            tokio::spawn(async move {
                // A process that only looked whether a terminal is there sends nothing.
                let _ = answer(stream, &seats).await;
                drop(connection);
            });
        }
    }
}

/// Answers the question of a connection, unless it is taken back.
async fn answer(stream: UnixStream, seats: &Semaphore) -> std::io::Result<()> {
    if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read);
    let question = read_line::<ShownQuestion>(&mut lines);
    let question = tokio::time::timeout(ARRIVAL, question).await??;
    let Ok(_seat) = seats.try_acquire() else { return Ok(()) };
    write_line(&mut write, &FromTerminal::Arrived).await?;
    tokio::select! {
        answer = terminal::ask(question, OnEnter::AsByDefault) => {
            match in_words(answer) {
                Some(answer) => write_line(&mut write, &answer).await,
                None => Ok(()),
            }
        }
        _ = lines.read_u8() => Ok(()),
    }
}

/// Returns an answer as it is sent, unless no person gave one.
fn in_words(answer: Answer) -> Option<FromTerminal> {
    let (answer, reason) = match answer {
        Answer::Yes(Scope::Call) => ("yes", None),
        Answer::Yes(scope) => (scope.as_str(), None),
        Answer::No(reason) => ("no", reason),
        Answer::TimedOut | Answer::Gone => return None,
    };
    Some(FromTerminal::Answer { answer: answer.to_owned(), reason })
}
