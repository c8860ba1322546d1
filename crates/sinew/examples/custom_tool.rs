//! Adds tools of the program: typed functions, one that only looks and one that asks.

use std::error::Error;
use std::sync::Arc;

use serde_json::{Value, json};
use sinew::{CallOptions, Kind, Reply, Request, Runtime, ToolError, dialects, tool_fn};

/// The arguments of both tools; the schema that the model sees comes from here.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct City {
    /// The name of the city, such as `Oslo`.
    name: String,
}

async fn population(city: City) -> Result<u32, ToolError> {
    match city.name.as_str() {
        "Oslo" => Ok(717_710),
        "Bergen" => Ok(291_940),
        other => Err(ToolError::new(Kind::NotFound, format!("no such city: `{other}`"))),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let looks = tool_fn("Population", "Returns how many people live in a city.", population);
    let books = tool_fn("Book", "Books a hotel.", async |city: City| {
        Ok::<_, ToolError>(format!("booked a hotel in {}", city.name))
    });
    let runtime = Runtime::builder(dialects::NATIVE)
        .root(dir.path())
        .tool(Arc::new(looks.observes()))
        // Without facts a tool may do anything, so each call asks.
        .tool(Arc::new(books))
        .build()?;

    let found = call(&runtime, "Population", json!({"name": "Oslo"})).await?;
    println!("Population: {}", found.into_text()?);
    for (name, arguments, expected) in [
        ("Population", json!({"name": "Atlantis"}), Kind::NotFound),
        ("Population", json!({"name": 7}), Kind::InvalidArgs),
        ("Population", json!({"town": "Oslo"}), Kind::InvalidArgs),
        // No approver is there to answer.
        ("Book", json!({"name": "Oslo"}), Kind::ApprovalDenied),
    ] {
        let error = call(&runtime, name, arguments).await?.error.ok_or("the call must fail")?;
        println!("{name}: {}: {}", error.kind.as_str(), error.message);
        assert_eq!(error.kind, expected);
    }
    Ok(())
}

async fn call(runtime: &Arc<Runtime>, name: &str, args: Value) -> Result<Reply, Box<dyn Error>> {
    let request = Request::new("call-1", name, serde_json::from_value(args)?);
    Ok(runtime.call(request, CallOptions::default()).await)
}
