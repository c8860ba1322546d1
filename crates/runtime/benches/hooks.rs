//! What hooks cost: a trivial call without any, with one that does nothing at the events of calls, and
//! with ten of them.
//!
//! `cargo bench -p sinew-runtime --bench hooks`

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail loudly")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use sinew_runtime::{Builder, CallOptions, Runtime};
use sinew_tool::{
    Arguments, BoxFuture, Context, Conventions, Decision, Dialect, Facts, FileSettings, Hook,
    Reply, Request, Tool, ToolCall, ToolError,
};

/// Answers at once.
struct Trivial;

impl Tool for Trivial {
    fn name(&self) -> &str {
        "trivial"
    }
    fn description(&self) -> &str {
        "Answers at once."
    }
    fn parameters(&self) -> Value {
        json!({ "type": "object" })
    }
    fn facts(&self) -> Facts {
        Facts::OBSERVES
    }
    fn execute<'a>(
        &'a self,
        _args: Arguments,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        Box::pin(std::future::ready(Ok(Reply::text("done"))))
    }
}

/// Is asked at every event, and looks at what most hooks look at.
struct Looking;

impl Hook for Looking {
    fn name(&self) -> &str {
        "looking"
    }
    fn before_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Decision, ToolError>> {
        let decision = match call.arguments.get("no") {
            Some(_) => Decision::Block(String::from("no")),
            None => Decision::Continue,
        };
        Box::pin(std::future::ready(Ok(decision)))
    }
}

const ROUNDS: u32 = 20_000;

fn time(tokio: &tokio::runtime::Runtime, runtime: &Arc<Runtime>) -> Duration {
    let began = Instant::now();
    tokio.block_on(async {
        for _ in 0..ROUNDS {
            let request = Request::new("c", "trivial", Map::new());
            assert!(runtime.call(request, CallOptions::default()).await.ok);
        }
    });
    began.elapsed() / ROUNDS
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let dialect = Dialect {
        name: "bench",
        tools: || vec![Arc::new(Trivial) as Arc<dyn Tool>],
        settings: FileSettings::default,
        approval_timeout_ms: 1_000,
        conventions: Conventions::DEFAULT,
    };
    let with = |n: usize| {
        let builder = Runtime::builder(dialect).root(dir.path());
        let add = |builder: Builder, _| builder.hook(Arc::new(Looking));
        (0..n).fold(builder, add).build().unwrap()
    };
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let all = [0, 1, 10].map(|n| (n, with(n)));
    let mut best = [Duration::MAX; 3];
    for _ in 0..7 {
        for (best, (_, runtime)) in best.iter_mut().zip(&all) {
            *best = time(&tokio, runtime).min(*best);
        }
    }
    for (best, (n, _)) in best.iter().zip(&all) {
        println!("{n:2} hooks  {best:?} a call");
    }
}
