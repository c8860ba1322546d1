//! Signing in at a server (OAuth 2.1): the authorization code with PKCE, the tokens, and their refresh.
//!
//! Tokens are for one server at one address: where the address of the configuration is another one, they are not sent.
//! Processes that refresh at once wait for one another, since a refresh token is often good for one use.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationMetadata, CredentialStore,
    OAuthClientConfig, OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture,
    OAuthHttpRequest, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use sinew_guard::{CallbackListener, HttpAddress, SignInClient};
use sinew_tool::sync::lock;
use sinew_tool::{Kind, ToolError, shown_line};
use tokio::sync::OnceCell;

use crate::settings::{Endpoint, ServerSettings};
use crate::wire::words_of;

/// How long one request of a sign-in may take.
const REQUEST: Duration = Duration::from_secs(30);
/// The longest answer to such a request, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// How this client is named where it registers itself.
const CLIENT_NAME: &str = "sinew";

/// Stores what a sign-in brought, across processes.
pub trait CredentialFiles: Send + Sync {
    /// Returns the stored credentials of a server.
    fn load(&self, server: &str) -> Result<Option<String>, ToolError>;

    /// Replaces the stored credentials of a server.
    fn save(&self, server: &str, text: &str) -> Result<(), ToolError>;

    /// Removes it, and returns whether there was some.
    fn remove(&self, server: &str) -> Result<bool, ToolError>;

    /// Waits until no other process refreshes the tokens of a server; none does until the returned value is dropped.
    fn lock(&self, server: &str) -> Result<Box<dyn Send>, ToolError>;
}

/// Who sinew is at an authorization server, where it does not register itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignInSettings {
    /// The client that was registered for it.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<String>,
    /// The scopes that are asked for. Empty: those that the server names.
    pub scopes: Vec<String>,
    /// The port of this machine to which the browser is led. Default: a free one.
    pub callback_port: Option<u16>,
}

/// The stored credentials of a server.
#[derive(Clone, Serialize, Deserialize)]
struct Stored {
    /// The address that the tokens are for.
    address: String,
    /// Where they are refreshed. A server that names another place later gets no refresh token there.
    authorization: AuthorizationServer,
    /// The secret of the client, where sinew registered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registered_secret: Option<String>,
    credentials: StoredCredentials,
}

/// The authorization server of a sign-in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AuthorizationServer {
    issuer: Option<String>,
    token_endpoint: String,
}

impl AuthorizationServer {
    fn of(metadata: &AuthorizationMetadata) -> Self {
        let token_endpoint = metadata.token_endpoint.clone();
        Self { issuer: metadata.issuer.clone(), token_endpoint }
    }
}

/// The tokens of one server. Writers hold the lock of their file.
#[derive(Clone)]
struct Store {
    files: Arc<dyn CredentialFiles>,
    server: String,
    address: String,
    /// What a new sign-in stores beside its tokens; `None` keeps the stored values.
    begun: Option<(AuthorizationServer, Option<String>)>,
}

fn not_stored(error: impl std::fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

impl Store {
    fn read(&self) -> Result<Option<Stored>, AuthError> {
        let Some(text) = self.files.load(&self.server).map_err(not_stored)? else {
            return Ok(None);
        };
        let stored: Stored = serde_json::from_str(&text).map_err(not_stored)?;
        Ok(Some(stored).filter(|stored| stored.address == self.address))
    }

    async fn locked(&self) -> Result<Box<dyn Send>, AuthError> {
        let (files, server) = (Arc::clone(&self.files), self.server.clone());
        let locked = tokio::task::spawn_blocking(move || files.lock(&server)).await;
        locked.map_err(not_stored)?.map_err(not_stored)
    }
}

#[async_trait]
impl CredentialStore for Store {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.read()?.map(|stored| stored.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let (authorization, registered_secret) = match &self.begun {
            Some(begun) => begun.clone(),
            None => {
                let stored = self.read()?.ok_or(AuthError::AuthorizationRequired)?;
                (stored.authorization, stored.registered_secret)
            }
        };
        let address = self.address.clone();
        let stored = Stored { address, authorization, registered_secret, credentials };
        let text = serde_json::to_string_pretty(&stored).map_err(not_stored)?;
        self.files.save(&self.server, &text).map_err(not_stored)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.files.remove(&self.server).map(drop).map_err(not_stored)
    }
}

/// Sends the requests of a sign-in to judged hosts.
struct Requests(SignInClient);

impl OAuthHttpClient for Requests {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let sent = tokio::time::timeout(REQUEST, self.sent(request.request)).await;
            sent.unwrap_or_else(|_| Err(format!("no answer within {} s", REQUEST.as_secs()).into()))
        })
    }
}

impl Requests {
    async fn sent(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        let client = self.0.client(&request.uri().to_string())?;
        let sent = client.execute(request.try_into()?).await;
        // An address can hold a secret.
        let mut response = sent.map_err(reqwest::Error::without_url)?;
        let mut answer = http::Response::builder().status(response.status());
        for (name, value) in response.headers() {
            answer = answer.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
            if MAX_ANSWER < body.len() + chunk.len() {
                return Err(format!("an answer of more than {} MiB", MAX_ANSWER >> 20).into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(answer.body(body)?)
    }
}

/// The tokens of a connection, and their refresh.
#[derive(Clone)]
pub(crate) struct Tokens {
    address: HttpAddress,
    store: Store,
    settings: SignInSettings,
    /// Reads the stored tokens.
    reader: Arc<OnceCell<AuthorizationManager>>,
    /// The token of the last refresh, and until when it is sent without another one, however short it lives.
    fresh: Arc<Mutex<Option<(String, Instant)>>>,
}

impl Tokens {
    pub(crate) fn new(
        settings: &ServerSettings,
        files: Arc<dyn CredentialFiles>,
    ) -> Result<Self, AuthError> {
        let Endpoint::Http { address, sign_in, .. } = &settings.endpoint else {
            return Err(AuthError::NoAuthorizationSupport);
        };
        let store = Store {
            files,
            server: settings.pin.clone(),
            address: address.as_str().to_owned(),
            begun: None,
        };
        let (address, settings) = (address.clone(), sign_in.clone());
        Ok(Self { address, store, settings, reader: Arc::default(), fresh: Arc::default() })
    }

    /// Returns the token, refreshed where it expires soon; `None` where only a person can get one.
    pub(crate) async fn token(&self) -> Result<Option<String>, AuthError> {
        if self.store.read()?.is_none() {
            return Ok(None);
        }
        if let Some((token, until)) = lock(&self.fresh).clone()
            && Instant::now() < until
        {
            return Ok(Some(token));
        }
        match self.usable().await? {
            Some(token) => Ok(Some(token)),
            None => self.refreshed(None).await,
        }
    }

    /// Returns another token than the one that the server refused; `None` where only a person can get one.
    pub(crate) async fn after(&self, refused: &str) -> Result<Option<String>, AuthError> {
        lock(&self.fresh).take();
        self.refreshed(Some(refused.to_owned())).await
    }

    /// Returns the stored token, unless it expires soon.
    async fn usable(&self) -> Result<Option<String>, AuthError> {
        let made = || async { Ok::<_, AuthError>(self.manager().await?.0) };
        let reader = self.reader.get_or_try_init(made).await?;
        match reader.get_access_token().await {
            Ok(token) => Ok(Some(token)),
            // Without an authorization server the manager can only return the stored token.
            Err(AuthError::InternalError(_) | AuthError::AuthorizationRequired) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Refreshes the token as a task of its own: a refresh token is often good for one use, so a caller that stops waiting must
    /// not lose the next one.
    async fn refreshed(&self, refused: Option<String>) -> Result<Option<String>, AuthError> {
        let tokens = self.clone();
        let refresh = tokio::spawn(async move { tokens.refresh(refused).await });
        refresh.await.map_err(not_stored)?
    }

    async fn refresh(&self, refused: Option<String>) -> Result<Option<String>, AuthError> {
        let _locked = self.store.locked().await?;
        if let Some((token, until)) = lock(&self.fresh).clone()
            && Instant::now() < until
            && refused.as_ref() != Some(&token)
        {
            return Ok(Some(token));
        }
        // Another process or call may have refreshed it, or signed in anew.
        if let Some(token) = self.usable().await?.filter(|token| refused.as_ref() != Some(token)) {
            return Ok(Some(token));
        }
        let Some(stored) = self.store.read()? else { return Ok(None) };
        let (mut manager, _) = self.manager().await?;
        let metadata = manager.resolve_metadata().await?.metadata;
        if AuthorizationServer::of(&metadata) != stored.authorization {
            return Ok(None);
        }
        manager.set_metadata(metadata);
        let mut client = OAuthClientConfig::new(&stored.credentials.client_id, &self.store.address);
        let is_own = self.settings.client_id.is_some();
        let secret = if is_own { &self.settings.client_secret } else { &stored.registered_secret };
        if let Some(secret) = secret {
            client = client.with_client_secret(secret);
        }
        manager.configure_client(client)?;
        match manager.refresh_token().await {
            Ok(response) => {
                let new = access_token(&response);
                let new = new.filter(|(token, _)| refused.as_ref() != Some(token));
                *lock(&self.fresh) =
                    new.clone().map(|(token, lives)| (token, Instant::now() + lives / 2));
                Ok(new.map(|(token, _)| token))
            }
            Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns what speaks to the authorization server, which it does not know yet, and what judges the hosts of it.
    async fn manager(&self) -> Result<(AuthorizationManager, Arc<Requests>), AuthError> {
        let client = SignInClient::new(self.address.clone()).map_err(AuthError::InternalError)?;
        let requests = Arc::new(Requests(client));
        let http = Arc::clone(&requests) as Arc<dyn OAuthHttpClient>;
        let made = AuthorizationManager::new_with_oauth_http_client(self.address.as_str(), http);
        let mut manager = made.await?;
        manager.set_credential_store(self.store.clone());
        Ok((manager, requests))
    }
}

/// A sign-in that waits for a person.
pub struct SignIn {
    manager: AuthorizationManager,
    store: Store,
    listener: CallbackListener,
    server: String,
    page: String,
    token_endpoint: String,
}

impl SignIn {
    /// Finds the authorization server of a server, and registers this program there where it has no client yet.
    pub async fn begin(
        settings: &ServerSettings,
        files: Arc<dyn CredentialFiles>,
        more_scopes: &[String],
    ) -> Result<Self, ToolError> {
        let server = settings.name.clone();
        let mut tokens = Tokens::new(settings, files).map_err(|error| refused(&server, &error))?;
        let port = tokens.settings.callback_port;
        let listener = CallbackListener::bind(port).await.map_err(|error| {
            ToolError::new(Kind::Unavailable, "the browser cannot be led back to this machine")
                .source(error)
                .hint("another `callback_port` may be free")
        })?;
        let begun = begun(&mut tokens, &listener, more_scopes).await;
        let (manager, page, token_endpoint) = begun.map_err(|error| refused(&server, &error))?;
        Ok(Self { manager, store: tokens.store, listener, server, page, token_endpoint })
    }

    /// Returns the address of the page where the person signs in.
    pub fn page(&self) -> &str {
        &self.page
    }

    /// Returns the address where the tokens are got.
    pub fn token_endpoint(&self) -> &str {
        &self.token_endpoint
    }

    /// Waits until the browser is led back, and returns the address to which it was. What does not answer this sign-in is
    /// passed over.
    pub async fn callback(&self) -> Result<String, ToolError> {
        loop {
            let address = self.listener.wait().await.map_err(|error| {
                ToolError::new(Kind::Unavailable, "the answer of the browser is lost").source(error)
            })?;
            if self.answers(&address) {
                return Ok(address);
            }
        }
    }

    /// Returns whether an address is one to which a browser is led at the end of this sign-in.
    pub fn answers(&self, address: &str) -> bool {
        let state = parameter(&self.page, "state");
        state.is_some() && parameter(address.trim(), "state") == state
    }

    /// Gets the tokens for what the browser was led back with, and stores them.
    pub async fn finish(&self, callback: &str) -> Result<(), ToolError> {
        let failed = |why: String| {
            let words = format!("the sign-in at the server `{}` failed: {why}", self.server);
            ToolError::new(Kind::ExecutionFailed, words)
        };
        if let Some(why) = denied(callback) {
            return Err(failed(why));
        }
        let callback = AuthorizationCallback::from_redirect_url(callback.trim())
            .map_err(|error| failed(words_of(&error)))?;
        let _locked = self.store.locked().await.map_err(|error| failed(words_of(&error)))?;
        let AuthorizationCallback { code, csrf_token, issuer, .. } = &callback;
        let exchanged =
            self.manager.exchange_code_for_token_with_issuer(code, csrf_token, issuer.as_deref());
        exchanged.await.map(drop).map_err(|error| failed(words_of(&error)))
    }
}

fn refused(server: &str, error: &AuthError) -> ToolError {
    let words = format!("no sign-in at the server `{server}`: {}", words_of(error));
    ToolError::new(Kind::Unavailable, words)
}

/// Returns what waits for the person: the client at the authorization server, its page, and where tokens are got.
async fn begun(
    tokens: &mut Tokens,
    listener: &CallbackListener,
    more_scopes: &[String],
) -> Result<(AuthorizationManager, String, String), AuthError> {
    // Where tokens cannot be kept, no person need sign in.
    drop(tokens.store.locked().await?);
    let settings = tokens.settings.clone();
    let (mut manager, requests) = tokens.manager().await?;
    let metadata = manager.resolve_metadata().await?.metadata;
    let authorization = AuthorizationServer::of(&metadata);
    manager.set_metadata(metadata);
    let mut scopes = match settings.scopes.is_empty() {
        true => manager.select_scopes(None, &[]),
        false => settings.scopes.clone(),
    };
    let new = more_scopes.iter().filter(|scope| !settings.scopes.contains(scope));
    scopes.extend(new.cloned());
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let mut registered_secret = None;
    let client = match &settings.client_id {
        Some(id) => {
            let client = OAuthClientConfig::new(id, listener.address());
            match &settings.client_secret {
                Some(secret) => client.with_client_secret(secret),
                None => client,
            }
        }
        None => {
            let client = manager.register_client(CLIENT_NAME, listener.address(), &scopes).await?;
            registered_secret = client.client_secret.clone();
            client
        }
    };
    manager.configure_client(client)?;
    let token_endpoint = authorization.token_endpoint.clone();
    tokens.store.begun = Some((authorization, registered_secret));
    manager.set_credential_store(tokens.store.clone());
    let page = manager.get_authorization_url(&scopes).await?;
    // The page is the word of the server, and a browser opens it.
    requests.0.client(&page).map_err(|why| {
        AuthError::AuthorizationFailed(format!("the address of its page cannot be used: {why}"))
    })?;
    Ok((manager, page, token_endpoint))
}

/// Returns the access token of an answer with tokens, and how long it lives.
fn access_token(response: &impl Serialize) -> Option<(String, Duration)> {
    let response = serde_json::to_value(response).ok()?;
    let lives = response.get("expires_in").and_then(serde_json::Value::as_u64).unwrap_or_default();
    let token = response.get("access_token")?.as_str()?.to_owned();
    Some((token, Duration::from_secs(lives)))
}

/// Returns a parameter of an address.
fn parameter(address: &str, wanted: &str) -> Option<String> {
    let url = reqwest::Url::parse(address).ok()?;
    url.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
}

/// Returns why the authorization server refused, as its answer says.
fn denied(callback: &str) -> Option<String> {
    let value = |name| parameter(callback.trim(), name).map(|value| shown_line(&value));
    let error = value("error")?;
    Some(match value("error_description") {
        Some(words) => format!("{error}: {words}"),
        None => error,
    })
}
