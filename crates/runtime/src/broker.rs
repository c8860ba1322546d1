//! Sends approval questions to approvers and settles them.
//!
//! - All approvers of a session get a question at once, also those that arrive later; the first answer counts, the rest are
//!   dropped.
//! - An equal pending question is not asked again; it gets the same answer.
//! - An answer with a wider scope settles all pending questions of the session that it covers.
//! - Pending questions end unanswered with the process.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sinew_tool::sync::{lock, read, write};
use sinew_tool::{Answer, Approver, Filled, Form, Question, Scope};
use tokio::sync::watch;

/// The most sessions with a question counter.
const MAX_SESSIONS: usize = 10_000;
/// How often a pending question looks for approvers that can be asked now, such as a terminal that was opened.
const LOOKS_AGAIN: Duration = Duration::from_secs(1);
/// How often that time doubles for an approver that was gone when it was asked.
const MAX_DOUBLED: u32 = 6;

/// Identifies equal questions.
pub(crate) type Digest = [u8; 32];

/// An answer and the approver that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) answer: Answer,
    /// The approver; `None` if none answered.
    pub(crate) by: Option<&'static str>,
}

/// The key data of a question.
pub(crate) struct About<'a> {
    pub(crate) digest: Digest,
    pub(crate) session: &'a str,
    pub(crate) call_id: &'a str,
    pub(crate) timeout: Duration,
}

/// Sends questions to approvers.
pub(crate) struct Broker {
    approvers: RwLock<Vec<(u64, Arc<dyn Approver>)>>,
    waiting: Mutex<HashMap<Digest, watch::Receiver<Option<Settled>>>>,
    n_asked: Mutex<HashMap<String, u64>>,
    next: AtomicU64,
    /// Wakes pending questions when a grant may cover them.
    granted: watch::Sender<u64>,
    /// Wakes pending questions when an approver arrives.
    arrived: watch::Sender<u64>,
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
            arrived: watch::Sender::new(0),
        }
    }

    /// Adds an approver, which gets the questions that wait too; returns its id for [`Broker::remove`].
    pub(crate) fn add(&self, approver: Arc<dyn Approver>) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        write(&self.approvers).push((id, approver));
        self.arrived.send_modify(|n| *n += 1);
        id
    }

    /// Removes an approver. Its open questions continue until it answers `Gone`.
    pub(crate) fn remove(&self, id: u64) {
        let mut approvers = write(&self.approvers);
        approvers.retain(|(other, _)| *other != id);
    }

    /// Returns the approvers of a call.
    pub(crate) fn approvers(&self, session: &str, call_id: &str) -> Vec<Arc<dyn Approver>> {
        let others = self.others(session, call_id, &HashSet::new());
        others.into_iter().map(|(_, approver)| approver).collect()
    }

    /// Returns the approvers of a call that are not among the known ones, with their ids.
    fn others(
        &self,
        session: &str,
        call_id: &str,
        known: &HashSet<u64>,
    ) -> Vec<(u64, Arc<dyn Approver>)> {
        let approvers = read(&self.approvers);
        let others = approvers.iter().filter(|(id, _)| !known.contains(id));
        others.filter(|(_, approver)| approver.serves(session, call_id)).cloned().collect()
    }

    pub(crate) fn shows_forms(&self) -> bool {
        read(&self.approvers).iter().any(|(_, approver)| approver.fills())
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        let approvers = read(&self.approvers);
        approvers.iter().map(|(_, approver)| approver.name()).collect()
    }

    /// Wakes pending questions after a new grant.
    pub(crate) fn tell_granted(&self) {
        self.granted.send_modify(|n| *n += 1);
    }

    /// Settles a question by an equal pending one, the first answer, a new grant or the timeout.
    ///
    /// The timeout starts when `question` is sent; `covered` says whether grants cover the call.
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
                    // The question ahead times out first, unless its call is cancelled.
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
                // A pending equal question is sent again if the grant does not cover it.
                () = until_covered(&mut granted, &covered) => {
                    return Settled { answer: Answer::Yes(Scope::Call), by: Some("grant") };
                }
            }
        }
    }

    fn place(&self, digest: Digest) -> QuestionPlace<'_> {
        let mut waiting = lock(&self.waiting);
        if let Some(ahead) = waiting.get(&digest) {
            return QuestionPlace::Behind(ahead.clone());
        }
        let (tell, told) = watch::channel(None);
        waiting.insert(digest, told);
        QuestionPlace::First(First { broker: self, digest, tell })
    }

    /// Sends a question and waits for the first answer or the timeout.
    async fn put(
        &self,
        first: First<'_>,
        about: &About<'_>,
        question: impl Fn(u64, String) -> Question,
    ) -> Settled {
        let n_asked = self.count(about.session);
        let id = format!("q{}", self.next.fetch_add(1, Ordering::Relaxed));
        let question = question(n_asked, id);
        let answered = self.first_answer(&question, about);
        let settled = tokio::time::timeout(about.timeout, answered)
            .await
            .unwrap_or(Settled { answer: Answer::TimedOut, by: None });
        first.tell.send_replace(Some(settled.clone()));
        settled
    }

    /// Asks all approvers at once, and those that arrive later; returns the first answer, [`Answer::Gone`] if no approver is
    /// left.
    async fn first_answer(&self, question: &Question, about: &About<'_>) -> Settled {
        let mut arrived = self.arrived.subscribe();
        let mut known = HashSet::new();
        let mut gone: HashMap<u64, (u32, Instant)> = HashMap::new();
        let mut asked = FuturesUnordered::new();
        loop {
            for (id, approver) in self.others(about.session, about.call_id, &known) {
                known.insert(id);
                let question = question.clone();
                asked.push(
                    async move { (id, approver.comes_back(), ask(approver, question).await) },
                );
            }
            let answered = tokio::select! {
                biased;
                answered = asked.next() => answered,
                Ok(()) = arrived.changed() => continue,
                () = tokio::time::sleep(LOOKS_AGAIN) => {
                    let is_due = |id: &u64| gone.get(id).is_some_and(|(_, due)| *due <= Instant::now());
                    known.retain(|id| !is_due(id));
                    continue;
                }
            };
            let Some((id, comes_back, settled)) = answered else {
                return Settled { answer: Answer::Gone, by: None };
            };
            if !matches!(settled.answer, Answer::Gone | Answer::TimedOut) {
                return settled;
            }
            if comes_back {
                // A terminal that is stopped takes no question each time.
                let (n, due) = gone.entry(id).or_insert((0, Instant::now()));
                *due = Instant::now() + LOOKS_AGAIN * 2_u32.pow(*n);
                *n = (*n + 1).min(MAX_DOUBLED);
            }
        }
    }

    /// Shows a form to every approver that shows forms; the first answer counts.
    pub(crate) async fn fill(&self, form: &Form, within: Duration) -> Filled {
        let approvers = self.approvers(&form.session, &form.call_id);
        let mut shown: FuturesUnordered<_> =
            approvers.iter().map(|approver| approver.fill(form.clone())).collect();
        let first = async {
            while let Some(filled) = shown.next().await {
                if filled != Filled::Gone {
                    return filled;
                }
            }
            Filled::Gone
        };
        tokio::time::timeout(within, first).await.unwrap_or(Filled::Closed)
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

/// Waits for a grant that covers the call.
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

/// The place of a question among equal ones.
enum QuestionPlace<'b> {
    First(First<'b>),
    Behind(watch::Receiver<Option<Settled>>),
}

/// The first of equal questions; dropping it lets the next one be sent.
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

/// Asks one approver. A scope that was not offered counts as a yes to the call alone.
async fn ask(approver: Arc<dyn Approver>, mut question: Question) -> Settled {
    if !approver.may_grant() {
        question.covers.clear();
    }
    if !approver.is_at_terminal() {
        question.covers.retain(|cover| !cover.only_at_terminal);
    }
    let offered: Vec<Scope> = question.covers.iter().map(|cover| cover.scope).collect();
    let answer = match approver.ask(question).await {
        Answer::Yes(scope) if !offered.contains(&scope) => Answer::Yes(Scope::Call),
        answer => answer,
    };
    Settled { answer, by: Some(approver.name()) }
}
