//! State shared by both ways of answering: runtime, catalog, and the conversion of calls to requests.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use sinew_runtime::{Attached, CallOptions, Catalog, Runtime, ToolInfo};
use sinew_tool::sync::lock;
use sinew_tool::{Approver, Arguments, Reply, Request};
use tokio::sync::watch;

use crate::catalog;
use crate::elicit::Elicitation;
use crate::server::Options;
use crate::transport::Output;

pub(crate) struct Engine {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) options: Options,
    pub(crate) elicitation: Arc<Elicitation>,
    _attached: Attached,
    list: Mutex<CachedList>,
    /// Whether the tools were listed.
    has_listed: AtomicBool,
    next: AtomicU64,
}

/// The list of tools that was asked for last.
struct CachedList {
    /// Says that the tools changed since.
    changes: watch::Receiver<Arc<Vec<Catalog>>>,
    /// Its JSON, and whether it has the stateless shape.
    made: Option<(bool, Arc<[u8]>)>,
}

impl Engine {
    pub(crate) fn new(runtime: Arc<Runtime>, options: Options, output: Output) -> Self {
        let elicitation = Elicitation::new(output, options.session.clone());
        let list = CachedList { changes: runtime.watch_catalogs(), made: None };
        let attached = runtime.add_approver(Arc::clone(&elicitation) as Arc<dyn Approver>);
        Self {
            runtime,
            options,
            elicitation,
            _attached: attached,
            list: Mutex::new(list),
            has_listed: AtomicBool::default(),
            next: AtomicU64::new(1),
        }
    }

    /// Returns the list of tools in JSON, made when it is asked for first and after each change of the tools.
    pub(crate) fn list(&self, stateless: bool) -> Arc<[u8]> {
        let mut list = lock(&self.list);
        // The runtime holds the sender.
        let is_old = list.changes.has_changed().unwrap_or_default();
        match &list.made {
            Some((shape, bytes)) if *shape == stateless && !is_old => Arc::clone(bytes),
            _ => {
                list.changes.mark_unchanged();
                let bytes = self.with_tools(|tools| catalog::list_bytes(tools, stateless));
                let bytes: Arc<[u8]> = bytes.into();
                list.made = Some((stateless, Arc::clone(&bytes)));
                bytes
            }
        }
    }

    /// Gives the tools of the catalog to `make`.
    pub(crate) fn with_tools<T>(
        &self,
        make: impl FnOnce(&mut dyn Iterator<Item = ToolInfo>) -> T,
    ) -> T {
        // From here on a change concerns the client.
        self.has_listed.store(true, Ordering::SeqCst);
        let Options { dialect, session, .. } = &self.options;
        self.runtime.with_listed_tools(dialect.as_deref(), (session, None), make)
    }

    /// Returns whether the client knows a list of tools, which a change makes an old one.
    pub(crate) fn has_listed(&self) -> bool {
        self.has_listed.load(Ordering::SeqCst)
    }

    /// Returns a new unique call id: JSON-RPC ids repeat between connections.
    pub(crate) fn call_id(&self) -> String {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let mut call_id = String::with_capacity(self.options.session.len() + 21);
        let _ = write!(call_id, "{}-{n}", self.options.session);
        call_id
    }

    pub(crate) fn call(
        &self,
        call_id: String,
        name: &str,
        arguments: Arguments,
        options: CallOptions,
    ) -> impl Future<Output = Reply> + Send + use<> {
        let mut request = Request::new(call_id, name, arguments);
        request.session.clone_from(&self.options.session);
        request.dialect.clone_from(&self.options.dialect);
        let cancel = options.cancel.clone();
        self.options.calls.run(cancel, self.runtime.call(request, options))
    }
}
