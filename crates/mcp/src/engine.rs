//! State shared by both ways of answering: runtime, catalog, and the conversion of calls to requests.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use sinew_runtime::{Attached, CallOptions, Runtime};
use sinew_tool::sync::lock;
use sinew_tool::{Approver, Arguments, Reply, Request};

use crate::catalog::Shown;
use crate::elicit::Elicitation;
use crate::server::Options;
use crate::transport::Output;

pub(crate) struct Engine {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) options: Options,
    pub(crate) elicitation: Arc<Elicitation>,
    _attached: Attached,
    /// The catalog, once it was asked for.
    shown: Mutex<Option<Arc<Shown>>>,
    next: AtomicU64,
}

impl Engine {
    pub(crate) fn new(runtime: Arc<Runtime>, options: Options, output: Output) -> Self {
        let elicitation = Elicitation::new(output, options.session.clone());
        let attached = runtime.add_approver(Arc::clone(&elicitation) as Arc<dyn Approver>);
        Self {
            runtime,
            options,
            elicitation,
            _attached: attached,
            shown: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    /// Forgets the catalog after the tools changed.
    pub(crate) fn forget_shown(&self) {
        *lock(&self.shown) = None;
    }

    /// Returns the catalog, built when it is asked for first.
    pub(crate) fn shown(&self) -> Arc<Shown> {
        let mut shown = lock(&self.shown);
        Arc::clone(shown.get_or_insert_with(|| Arc::new(self.build_shown())))
    }

    fn build_shown(&self) -> Shown {
        let catalogs = self.runtime.catalogs();
        let dialect = self.options.dialect.as_deref();
        let catalog = match dialect {
            None => catalogs.first(),
            Some(name) => catalogs.iter().find(|catalog| catalog.name() == name),
        };
        Shown::new(catalog.map(|catalog| catalog.tools()).unwrap_or_default())
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
