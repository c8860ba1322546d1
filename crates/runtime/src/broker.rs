//! Who answers questions, and what one answer settles.
//!
//! A question is put to every approver of its session at once. The first answer counts; the others are taken
//! back, and what they answer then counts for nothing. A question that is equal to one that waits is not put a
//! second time: it gets the same answer. An answer that covers more than its call settles everything else of
//! the session that waits and is covered too. Nothing here outlives the process: what waits when it ends was
//! never answered.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::task::Poll;
use std::time::Duration;

use sinew_tool::sync::{lock, read, write};
use sinew_tool::{Answer, Approver, BoxFuture, Question, Scope};
use tokio::sync::watch;

/// The most sessions whose questions are counted.
const MAX_SESSIONS: usize = 10_000;

/// What tells a question from every other that is not equal to it.
pub(crate) type Digest = [u8; 32];

/// An answer, and who gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) answer: Answer,
    /// The approver; nobody where none answered.
    pub(crate) by: Option<&'static str>,
}

/// What a question is about.
pub(crate) struct About<'a> {
    /// What makes questions equal.
    pub(crate) digest: Digest,
    /// The session of the call.
    pub(crate) session: &'a str,
    /// The call.
    pub(crate) call_id: &'a str,
    /// How long an answer may take.
    pub(crate) timeout: Duration,
}

/// Puts questions to whoever can answer.
pub(crate) struct Broker {
    approvers: RwLock<Vec<(u64, Arc<dyn Approver>)>>,
    waiting: Mutex<HashMap<Digest, watch::Receiver<Option<Settled>>>>,
    n_asked: Mutex<HashMap<String, u64>>,
    next: AtomicU64,
    /// Seen by everything that waits when an answer may settle more than its own question.
    granted: watch::Sender<u64>,
}

impl Broker {
    pub(crate) fn new(approvers: Vec<Arc<dyn Approver>>) -> Self {
        let next = approvers.len() as u64;
        Self {
            approvers: RwLock::new((0..).zip(approvers).collect()),
            waiting: Mutex::default(),
            n_asked: Mutex::default(),
            next: AtomicU64::new(next),
            granted: watch::Sender::new(0),
        }
    }

    /// Adds an approver; returns what takes it away again.
    pub(crate) fn add(&self, approver: Arc<dyn Approver>) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        write(&self.approvers).push((id, approver));
        id
    }

    /// Takes an approver away. What it is asked goes on until it says that it is gone.
    pub(crate) fn remove(&self, id: u64) {
        let mut approvers = write(&self.approvers);
        approvers.retain(|(other, _)| *other != id);
    }

    /// Returns whoever can answer questions about a call of a session.
    pub(crate) fn approvers(&self, session: &str, call_id: &str) -> Vec<Arc<dyn Approver>> {
        let approvers = read(&self.approvers);
        let serving = approvers.iter().filter(|(_, approver)| approver.serves(session, call_id));
        serving.map(|(_, approver)| Arc::clone(approver)).collect()
    }

    /// Returns the names of all approvers.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let approvers = read(&self.approvers);
        approvers.iter().map(|(_, approver)| approver.name()).collect()
    }

    /// Tells everything that waits that more is granted than was.
    pub(crate) fn tell_granted(&self) {
        self.granted.send_modify(|n| *n += 1);
    }

    /// Settles a question: by an equal one that waits, by whoever answers first, by what is granted meanwhile,
    /// or by time, which begins anew where the question is put. `question` makes it then; `covered` says whether
    /// what is granted covers it.
    pub(crate) async fn settle(
        &self,
        about: &About<'_>,
        question: impl Fn(u64, String) -> Question,
        covered: impl Fn() -> bool,
    ) -> Settled {
        let mut granted = self.granted.subscribe();
        loop {
            let wait = async {
                match self.place(about.digest) {
                    // Its own time is over before this one's, unless it is taken back.
                    QuestionPlace::Behind(mut ahead) => match ahead.wait_for(Option::is_some).await
                    {
                        Ok(settled) => settled.clone(),
                        Err(_) => None,
                    },
                    QuestionPlace::First(first) => Some(self.put(first, about, &question).await),
                }
            };
            tokio::select! {
                biased;
                settled = wait => if let Some(settled) = settled {
                    return settled;
                },
                // Whatever waits is put again where it is not covered: its place is kept by its digest.
                () = until_covered(&mut granted, &covered) => {
                    return Settled { answer: Answer::Yes(Scope::Call), by: Some("grant") };
                }
            }
        }
    }

    /// Returns the place of a question among equal ones.
    fn place(&self, digest: Digest) -> QuestionPlace<'_> {
        let mut waiting = lock(&self.waiting);
        if let Some(ahead) = waiting.get(&digest) {
            return QuestionPlace::Behind(ahead.clone());
        }
        let (tell, told) = watch::channel(None);
        waiting.insert(digest, told);
        QuestionPlace::First(First { broker: self, digest, tell })
    }

    /// Puts a question and waits for the first answer, as long as it may take.
    async fn put(
        &self,
        first: First<'_>,
        about: &About<'_>,
        question: impl Fn(u64, String) -> Question,
    ) -> Settled {
        let approvers = self.approvers(about.session, about.call_id);
        let n_asked = self.count(about.session);
        let id = format!("q{}", self.next.fetch_add(1, Ordering::Relaxed));
        let question = question(n_asked, id);
        let answered = first_answer(&approvers, &question);
        let settled = tokio::time::timeout(about.timeout, answered)
            .await
            .unwrap_or(Settled { answer: Answer::TimedOut, by: None });
        first.tell.send_replace(Some(settled.clone()));
        settled
    }

    fn count(&self, session: &str) -> u64 {
        let mut counts = lock(&self.n_asked);
        if MAX_SESSIONS <= counts.len() && !counts.contains_key(session) {
            counts.clear();
        }
        let n = counts.entry(session.to_owned()).or_default();
        *n += 1;
        *n
    }

    /// Returns how many questions a session has had.
    pub(crate) fn n_asked(&self, session: &str) -> u64 {
        lock(&self.n_asked).get(session).copied().unwrap_or_default()
    }
}

/// Waits until more is granted and covers what waits.
async fn until_covered(granted: &mut watch::Receiver<u64>, covered: &impl Fn() -> bool) {
    loop {
        if covered() {
            return;
        }
        if granted.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Where a question stands.
enum QuestionPlace<'b> {
    /// It is the first of its kind.
    First(First<'b>),
    /// An equal one waits already.
    Behind(watch::Receiver<Option<Settled>>),
}

/// The first of equal questions. Others may be put once it is dropped.
struct First<'b> {
    broker: &'b Broker,
    digest: Digest,
    tell: watch::Sender<Option<Settled>>,
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        lock(&self.broker.waiting).remove(&self.digest);
    }
}

/// Asks every approver at once and returns the first answer; [`Answer::Gone`] where nobody is left.
async fn first_answer(approvers: &[Arc<dyn Approver>], question: &Question) -> Settled {
    let mut asked: Vec<(&'static str, bool, BoxFuture<'_, Answer>)> = approvers
        .iter()
        .map(|approver| {
            let mut question = question.clone();
            if !approver.may_grant() {
                question.covers.clear();
            }
            (approver.name(), approver.may_grant(), approver.ask(question))
        })
        .collect();
    poll_fn(|context| {
        let mut at = 0;
        while let Some((name, may_grant, answer)) = asked.get_mut(at) {
            match answer.as_mut().poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(Answer::Gone | Answer::TimedOut) => drop(asked.swap_remove(at)),
                Poll::Ready(answer) => {
                    let offered = |scope: Scope| {
                        *may_grant && question.covers.iter().any(|cover| cover.scope == scope)
                    };
                    let answer = match answer {
                        Answer::Yes(scope) if !offered(scope) => Answer::Yes(Scope::Call),
                        answer => answer,
                    };
                    return Poll::Ready(Settled { answer, by: Some(*name) });
                }
            }
        }
        match asked.is_empty() {
            true => Poll::Ready(Settled { answer: Answer::Gone, by: None }),
            false => Poll::Pending,
        }
    })
    .await
}
