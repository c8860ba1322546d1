//! The network of a call: the hosts that it named, those where they redirect, judged by the rules of the call, and
//! who answers its search.

use std::sync::Arc;

use sinew_fs::store::Store;
use sinew_policy::judge::{Case, Rules, judge};
use sinew_policy::rule::{Rule, covering};
use sinew_tool::{
    BoxFuture, Caller, Effects, Facts, Host, Kind, Net, NoNet, PageForm, ReadPage, Ruling,
    SearchAnswer, SearchClaim, SearchQuery, SearchTarget, Slot, Targets, ToolError, UrlClaim,
    UrlTarget, Verdict, WebRequest, WebResponse, shown_url,
};
use sinew_web::fetch::{FetchSettings, Fetcher, Method, WebAddress};
use sinew_web::search::Searcher;

use crate::guard::{Guard, WebSettings};
use crate::web_sessions::WebSessions;

/// The network of every call; nothing is opened yet.
#[derive(Debug)]
pub(crate) struct Web {
    fetcher: Fetcher,
    searcher: Searcher,
    pub(crate) sessions: Arc<WebSessions>,
}

impl Web {
    pub(crate) fn new(settings: WebSettings) -> Self {
        let WebSettings {
            allow_hosts,
            proxies,
            max_redirects,
            timeout,
            idle_timeout,
            cache,
            helper,
            search,
        } = settings;
        let fetching = FetchSettings {
            allowed: allow_hosts,
            proxies: proxies.clone(),
            max_redirects,
            timeout,
            idle_timeout,
            cache,
            helper: helper.map(|helper| helper.path().to_owned()),
            ..FetchSettings::default()
        };
        let searcher = Searcher::new(search, Arc::clone(&fetching.resolver), proxies);
        Self { fetcher: Fetcher::new(fetching), searcher, sessions: Arc::default() }
    }
}

/// Parses the addresses of a call, each once, finds who answers its search, and adds the hosts of both to the others.
///
/// The provider of a search is named by the user or by sinew, so it is never a host that a page may have named.
pub(crate) fn reach(
    guard: &Guard,
    session: &str,
    targets: &mut Targets,
    urls: Vec<UrlClaim>,
    search: Option<SearchClaim>,
) -> Result<(), ToolError> {
    let Some(web) = &guard.shared.web else {
        return match urls.is_empty() && search.is_none() {
            true => Ok(()),
            false => Err(ToolError::new(Kind::Unavailable, "this server has no network")),
        };
    };
    targets.urls = contain(urls)?;
    let others = targets.hosts.iter();
    let other = || others.into_iter().find_map(|host| web.sessions.unnamed_host(session, host));
    targets.unnamed_host = web.sessions.unnamed(session, &targets.urls).or_else(other);
    targets.search = search.map(|claim| web.searcher.target(&claim)).transpose()?;
    let of_search = targets.search.iter().filter_map(SearchTarget::host);
    let hosts = targets.urls.iter().map(|url| &url.host).chain(of_search);
    targets.hosts = hosts.chain(&targets.hosts).cloned().collect();
    Ok(())
}

/// What judges a host where a call is redirected; nothing, if the call named no host.
#[derive(Debug)]
pub(crate) struct HostRules(Option<CallRules>);

impl HostRules {
    /// Keeps the rules of a call that names hosts.
    pub(crate) fn of(case: &Case<'_>, targets: &Targets, rules: &Rules) -> Self {
        Self((!targets.hosts.is_empty()).then(|| CallRules::new(case, rules)))
    }

    /// Adds rules that were granted for the session.
    pub(crate) fn grant(&mut self, granted: &[Rule]) {
        if let Some(rules) = &mut self.0 {
            rules.granted = granted.to_vec();
        }
    }

    /// Returns the network of the cleared call, which keeps downloads in `store` under the number of the call.
    pub(crate) fn net(
        self,
        guard: &Guard,
        targets: &Arc<Targets>,
        call: Option<(&Caller, Option<&Store>)>,
    ) -> Arc<dyn Net> {
        match (self.0, &guard.shared.web) {
            (Some(rules), Some(web)) => {
                let (web, targets) = (Arc::clone(web), Arc::clone(targets));
                let store =
                    call.and_then(|(caller, store)| Some((store?.clone(), caller.call_id.clone())));
                let session = call.map(|(caller, _)| caller.session.clone()).unwrap_or_default();
                Arc::new(CallNet { web, targets, rules, store, session })
            }
            _ => Arc::new(NoNet),
        }
    }
}

#[derive(Debug, Clone)]
struct CallRules {
    rules: Rules,
    tool: String,
    operation: String,
    facts: Facts,
    effects: Effects,
    agent: Option<String>,
    /// Rules that were granted for the session.
    granted: Vec<Rule>,
}

impl CallRules {
    fn new(case: &Case<'_>, rules: &Rules) -> Self {
        Self {
            rules: rules.clone(),
            tool: case.tool.to_owned(),
            operation: case.operation.to_owned(),
            facts: *case.facts,
            effects: case.effects,
            agent: case.agent.map(str::to_owned),
            granted: Vec::new(),
        }
    }

    /// Returns the ruling on the call if it had named this host.
    fn ruling(&self, host: &Host, effects: Effects, unnamed_host: Option<Host>) -> Ruling {
        let case = Case {
            tool: &self.tool,
            operation: &self.operation,
            facts: &self.facts,
            effects,
            agent: self.agent.as_deref(),
        };
        let hosts = vec![host.clone()];
        let targets = Targets { hosts, unnamed_host, ..Targets::default() };
        let ruling = judge(&case, &targets, &self.rules);
        // As for a call, a grant settles what only a built-in rule asks.
        let asks = ruling.verdict == Verdict::Ask && ruling.origin.is_none();
        match covering(self.granted.iter(), &case, &targets) {
            Some(rule) if asks => {
                let why = format!("`{rule}` was granted for this session").into();
                Ruling { verdict: Verdict::Allow, rule: "grant", why, origin: None }
            }
            _ => ruling,
        }
    }

    /// Judges an address where the call is redirected, and the method that is sent there: a redirect can turn what
    /// changes something into what reads.
    fn judge(
        &self,
        address: &WebAddress,
        method: &Method,
        unnamed_host: Option<Host>,
    ) -> Result<(), ToolError> {
        let host = address.host();
        let effects = match matches!(*method, Method::GET | Method::HEAD) {
            true => Effects::OBSERVE | Effects::NETWORK,
            false => self.effects,
        };
        let ruling = self.ruling(host, effects, unnamed_host);
        let refused = match ruling.verdict {
            Verdict::Allow => return Ok(()),
            Verdict::Ask => "which asks first",
            Verdict::Deny => "which is denied",
        };
        Err(ToolError::new(
            Kind::PolicyDenied,
            format!("the address redirects to {host}, {refused}: {}", ruling.why),
        )
        .hint(format!(
            "call again with {}, so that it is judged by itself",
            shown_url(address.as_str())
        )))
    }
}

/// The network of a cleared call.
#[derive(Debug)]
struct CallNet {
    web: Arc<Web>,
    targets: Arc<Targets>,
    rules: CallRules,
    /// Where downloads are kept, and the number of the call.
    store: Option<(Store, String)>,
    /// The name of its session.
    session: String,
}

impl Net for CallNet {
    fn send(
        &self,
        url: Slot,
        request: WebRequest,
    ) -> BoxFuture<'static, Result<WebResponse, ToolError>> {
        let (web, rules) = (Arc::clone(&self.web), self.rules.clone());
        let address = self.targets.urls.get(url.0).map(|target| WebAddress::parse(&target.url));
        let session = self.session.clone();
        Box::pin(async move {
            let unnamed = || ToolError::new(Kind::PolicyDenied, "the call names no such address");
            let address = address.and_then(Result::ok).ok_or_else(unnamed)?;
            let named = address.host().clone();
            let is_found = web.sessions.is_found(&session, address.as_str(), &named);
            let judge = |address: &WebAddress, method: &Method| {
                // Another port of the same name is no other host, as it is for what a session knows.
                let is_named = address.host().name() == named.name();
                let unnamed = web.sessions.unnamed_host(&session, address.host());
                let unnamed = unnamed.filter(|_| !is_named || is_found);
                // A refusal shows where the server leads.
                rules
                    .judge(address, method, unnamed)
                    .inspect_err(|_| web.sessions.note_text(&session))
            };
            let answer = web.fetcher.fetch(address, request, &judge).await?;
            // Where it led was judged, so it is known now as well. A page that only a search named makes its host no
            // better known.
            let last = WebAddress::parse(&answer.url).ok();
            let hosts = std::iter::once(&named).chain(last.iter().map(WebAddress::host));
            for host in hosts.filter(|host| !is_found || **host != named) {
                web.sessions.note(&session, host);
            }
            Ok(answer)
        })
    }

    fn search(&self, query: SearchQuery) -> BoxFuture<'static, Result<SearchAnswer, ToolError>> {
        let (web, session) = (Arc::clone(&self.web), self.session.clone());
        let target = self.targets.search.clone();
        let wants_list = query.wants_list;
        Box::pin(async move {
            let Some(SearchTarget::Provider(provider, _)) = target else {
                return Err(ToolError::new(Kind::PolicyDenied, "the call asks for no search"));
            };
            let answer = web.searcher.search(provider, &query).await?;
            if !answer.results.is_empty() {
                web.sessions.note_found(&session, &answer.results);
            } else if !wants_list {
                web.sessions.note_text(&session);
            }
            Ok(answer)
        })
    }

    fn read_html(
        &self,
        html: String,
        address: String,
        form: PageForm,
    ) -> BoxFuture<'static, Result<ReadPage, ToolError>> {
        let web = Arc::clone(&self.web);
        Box::pin(async move { web.fetcher.read_html(html, address, form).await })
    }

    fn keep(&self, body: &[u8], extension: &str) -> Result<Option<String>, ToolError> {
        let kept = self.store.as_ref().map(|(store, id)| store.put_as(id, body, extension));
        kept.transpose()
    }
}

fn contain(claims: Vec<UrlClaim>) -> Result<Vec<UrlTarget>, ToolError> {
    let one = |claim: UrlClaim| match WebAddress::parse(&claim.url) {
        Ok(address) => {
            let (url, host) = (address.as_str().to_owned(), address.host().clone());
            Ok(UrlTarget { claim, url, host })
        }
        Err(why) => Err(ToolError::argument(claim.argument, format!("cannot be fetched: {why}"))),
    };
    claims.into_iter().map(one).collect()
}
