//! Judges an address (URL) as WebFetch would, with the answers of name servers and servers as they are given.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::json;
use sinew_guard::judge_addresses;
use sinew_tool::{Arguments, Host, Kind, Request, Ruling, ToolError, Verdict, shown};

use super::{Answer, By};
use crate::wiring::{Loaded, Wired};

/// The tools that fetch pages, by dialect.
const TOOLS: [&str; 3] = ["WebFetch", "tool::web_fetch", "web_fetch"];
/// The ruling on a text that is no address.
const INVALID: &str = "invalid";
/// The rule on addresses that are not public.
const NOT_PUBLIC: &str = "network.address";

/// An address, and what happens with it.
#[derive(Debug, Clone)]
pub(super) struct Fetched {
    pub(super) url: String,
    pub(super) dns: Option<Resolved>,
    pub(super) redirects: Vec<String>,
    pub(super) agent: Option<String>,
}

/// What names mean.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Resolved {
    /// Every name means these addresses.
    Every(Vec<IpAddr>),
    /// The addresses of each name; others do not exist.
    Each(HashMap<String, Vec<IpAddr>>),
}

impl Resolved {
    fn of(&self, name: &str) -> Option<&[IpAddr]> {
        match self {
            Self::Every(addresses) => Some(addresses),
            Self::Each(names) => names.get(name).map(Vec::as_slice),
        }
    }
}

/// Judges the address and each one where it redirects; the first that does not run decides.
pub(super) fn answer(loaded: &Loaded, wired: &Wired, fetched: &Fetched, by: By) -> Answer {
    let mut last: Option<Answer> = None;
    for url in std::iter::once(&fetched.url).chain(&fetched.redirects) {
        let mut step = step(loaded, wired, fetched, url, &by);
        let runs = step.ruling == Verdict::Allow.as_str();
        // A redirect never waits for an answer.
        if last.is_some() && step.ruling == Verdict::Ask.as_str() {
            step.ruling = Verdict::Deny.as_str();
        }
        last = Some(step);
        if !runs {
            break;
        }
    }
    last.unwrap_or_else(|| invalid(&fetched.url, "there is no address"))
}

fn step(loaded: &Loaded, wired: &Wired, fetched: &Fetched, url: &str, by: &By) -> Answer {
    let judged = TOOLS.iter().find_map(|tool| {
        let mut arguments = Arguments::new();
        arguments.insert(String::from("url"), json!(url));
        let agent = fetched.agent.clone();
        let request = Request { agent, ..Request::new("policy", *tool, arguments) };
        let by = by.clone();
        match wired.runtime.judge_call(request, |rules| by.change(rules)) {
            Err(ToolError { kind: Kind::NotFound, .. }) => None,
            judged => Some(judged),
        }
    });
    let (targets, ruling) = match judged {
        None => return invalid(url, "no tool of this dialect fetches pages"),
        Some(Err(error)) if error.kind == Kind::InvalidArgs => return invalid(url, &error.message),
        Some(Err(error)) => {
            let why = error.message.into_owned();
            return ruled(url, Verdict::Deny.as_str(), error.kind.as_str(), None, why, None);
        }
        Some(Ok(judged)) => judged,
    };
    let Ruling { verdict, rule, why, origin } = ruling;
    let origin = origin.map(|origin| origin.to_string());
    let host = targets.hosts.first();
    let (address, refused) = match host {
        Some(host) => address(loaded, fetched, host),
        None => (None, None),
    };
    match refused {
        // What a rule denies is never looked up.
        Some(why) if verdict != Verdict::Deny => {
            ruled(url, Verdict::Deny.as_str(), NOT_PUBLIC, None, why, address)
        }
        _ => ruled(url, verdict.as_str(), rule, origin, why.into_owned(), address),
    }
}

/// Returns the address that would be connected to, if it is known, and why it must not be.
fn address(loaded: &Loaded, fetched: &Fetched, host: &Host) -> (Option<IpAddr>, Option<String>) {
    let literal = host.name().parse::<IpAddr>().ok().map(|address| vec![address]);
    let resolved = || fetched.dns.as_ref()?.of(host.name()).map(<[IpAddr]>::to_vec);
    let addresses = match (literal.or_else(resolved), &fetched.dns) {
        (Some(addresses), _) if !addresses.is_empty() => addresses,
        (_, None) => return (None, None),
        (_, Some(_)) => return (None, Some(format!("{} cannot be resolved", host.name()))),
    };
    let is_allowed = loaded.settings.web.allow_hosts.iter().any(|one| one.means(host, false));
    let refused = judge_addresses(&addresses).err().filter(|_| !is_allowed);
    let shown = refused.as_ref().map(|refused| refused.address).or(addresses.first().copied());
    (shown, refused.map(|refused| refused.to_string()))
}

fn invalid(url: &str, why: &str) -> Answer {
    ruled(url, INVALID, Kind::InvalidArgs.as_str(), None, why.to_owned(), None)
}

fn ruled(
    url: &str,
    ruling: &'static str,
    rule: &str,
    origin: Option<String>,
    why: String,
    address: Option<IpAddr>,
) -> Answer {
    Answer {
        ruling,
        rule: rule.to_owned(),
        origin,
        segments: Vec::new(),
        paths: Vec::new(),
        why,
        display: shown(url),
        runs: None,
        address,
    }
}
