//! Signing in at a server (OAuth 2.1): the authorization code with PKCE, the tokens, and their refresh.
//!
//! Tokens are for one server at one address: where the address of the configuration is another one, they are not sent.
//! Processes that refresh at once wait for one another, since a refresh token is often good for one use.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, CredentialRefreshGuard,
    CredentialStore, OAuthClientConfig, OAuthHttpClient, OAuthHttpClientError,
    OAuthHttpClientFuture, OAuthHttpRequest, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use sinew_guard::{CallbackListener, HttpAddress, SignInClient};
use sinew_tool::sync::lock;
use sinew_tool::{Kind, ToolError, shown_line};

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
    /// Returns what is stored for a server.
    fn load(&self, server: &str) -> Result<Option<String>, ToolError>;

    /// Replaces what is stored for a server.
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

/// What is stored for a server.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// The address that the tokens are for.
    address: String,
    /// The client as it was registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    credentials: StoredCredentials,
}

/// The tokens of one server.
#[derive(Clone)]
struct Store {
    files: Arc<dyn CredentialFiles>,
    server: String,
    address: String,
    /// The secret of the client, as far as it has one.
    client_secret: Arc<Mutex<Option<String>>>,
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
}

#[async_trait]
impl CredentialStore for Store {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.read()?.map(|stored| stored.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let client_secret = lock(&self.client_secret).clone();
        let stored = Stored { address: self.address.clone(), client_secret, credentials };
        let text = serde_json::to_string_pretty(&stored).map_err(not_stored)?;
        self.files.save(&self.server, &text).map_err(not_stored)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.files.remove(&self.server).map(drop).map_err(not_stored)
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let (files, server) = (Arc::clone(&self.files), self.server.clone());
        let locked = tokio::task::spawn_blocking(move || files.lock(&server)).await;
        let locked = locked.map_err(not_stored)?.map_err(not_stored)?;
        Ok(Some(CredentialRefreshGuard::new(locked)))
    }
}

/// Sends the requests of a sign-in to judged hosts, and follows no redirect.
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
        let mut response = client.execute(request.try_into()?).await?;
        let mut answer = http::Response::builder().status(response.status());
        for (name, value) in response.headers() {
            answer = answer.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if MAX_ANSWER < body.len() + chunk.len() {
                return Err(format!("an answer of more than {} MiB", MAX_ANSWER >> 20).into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(answer.body(body)?)
    }
}

/// The tokens of a connection, and their refresh.
pub(crate) struct Tokens {
    store: Store,
    settings: SignInSettings,
    /// With whether it knows the authorization server, which the first refresh looks up.
    manager: tokio::sync::Mutex<(AuthorizationManager, bool)>,
}

impl Tokens {
    pub(crate) async fn new(
        settings: &ServerSettings,
        files: Arc<dyn CredentialFiles>,
    ) -> Result<Self, AuthError> {
        let (store, manager, sign_in) = prepared(settings, files).await?;
        Ok(Self { store, settings: sign_in, manager: tokio::sync::Mutex::new((manager, false)) })
    }

    /// Returns the token, refreshed where it expires soon; `None` before a sign-in.
    pub(crate) async fn token(&self) -> Result<Option<String>, AuthError> {
        let mut manager = self.manager.lock().await;
        let mut token = manager.0.get_access_token().await;
        // Without an authorization server a token that expires cannot be refreshed.
        if let (Err(AuthError::InternalError(_)), false) = (&token, manager.1) {
            self.find_authorization_server(&mut manager).await?;
            token = manager.0.get_access_token().await;
        }
        match token {
            Ok(token) => Ok(Some(token)),
            Err(AuthError::AuthorizationRequired) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns another token than the one that the server refused; `None` where only a person can get one.
    pub(crate) async fn after(&self, refused: &str) -> Result<Option<String>, AuthError> {
        let mut manager = self.manager.lock().await;
        // Another process or call may have refreshed it meanwhile.
        match manager.0.get_access_token().await {
            Ok(token) if token != refused => return Ok(Some(token)),
            _ => self.find_authorization_server(&mut manager).await?,
        }
        match manager.0.refresh_token().await {
            Ok(_) => {}
            Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        Ok(manager.0.get_access_token().await.ok().filter(|token| token != refused))
    }

    async fn find_authorization_server(
        &self,
        manager: &mut (AuthorizationManager, bool),
    ) -> Result<(), AuthError> {
        let (manager, is_found) = manager;
        if !*is_found && manager.initialize_from_store().await? {
            let stored = self.store.read()?.ok_or(AuthError::AuthorizationRequired)?;
            let secret = stored.client_secret.or_else(|| self.settings.client_secret.clone());
            if let Some(secret) = secret {
                let client =
                    OAuthClientConfig::new(stored.credentials.client_id, &self.store.address);
                manager.configure_client(client.with_client_secret(secret.as_str()))?;
                *lock(&self.store.client_secret) = Some(secret);
            }
            *is_found = true;
        }
        Ok(())
    }
}

async fn prepared(
    settings: &ServerSettings,
    files: Arc<dyn CredentialFiles>,
) -> Result<(Store, AuthorizationManager, SignInSettings), AuthError> {
    let Endpoint::Http { address, sign_in, .. } = &settings.endpoint else {
        return Err(AuthError::NoAuthorizationSupport);
    };
    let client = SignInClient::new(address.clone()).map_err(AuthError::InternalError)?;
    let client = Arc::new(Requests(client));
    let mut manager =
        AuthorizationManager::new_with_oauth_http_client(address.as_str(), client).await?;
    let store = Store {
        files,
        server: settings.pin.clone(),
        address: address.as_str().to_owned(),
        client_secret: Arc::default(),
    };
    manager.set_credential_store(store.clone());
    Ok((store, manager, sign_in.clone()))
}

/// A sign-in that waits for a person.
pub struct SignIn {
    manager: AuthorizationManager,
    listener: CallbackListener,
    server: String,
    page: String,
}

impl SignIn {
    /// Finds the authorization server of a server, and registers this program there where it has no client yet.
    pub async fn begin(
        settings: &ServerSettings,
        files: Arc<dyn CredentialFiles>,
        more_scopes: &[String],
    ) -> Result<Self, ToolError> {
        let server = settings.name.clone();
        let failed = |error: AuthError| {
            let words = format!("no sign-in at the server `{server}`: {}", words_of(&error));
            ToolError::new(Kind::Unavailable, words)
        };
        let (store, mut manager, sign_in) = prepared(settings, files).await.map_err(failed)?;
        let listener = CallbackListener::bind(sign_in.callback_port).await.map_err(|error| {
            ToolError::new(Kind::Unavailable, "the browser cannot be led back to this machine")
                .source(error)
                .hint("another `callback_port` may be free")
        })?;
        let found = manager.resolve_metadata().await.map_err(failed)?;
        manager.set_metadata(found.metadata);
        let mut scopes = sign_in.scopes.clone();
        if scopes.is_empty() {
            scopes = manager.select_scopes(None, &[]);
        }
        let new = more_scopes.iter().filter(|scope| !sign_in.scopes.contains(scope));
        scopes.extend(new.cloned());
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let secret = match &sign_in.client_id {
            Some(id) => {
                let mut client = OAuthClientConfig::new(id, listener.address());
                if let Some(secret) = &sign_in.client_secret {
                    client = client.with_client_secret(secret);
                }
                manager.configure_client(client).map_err(failed)?;
                None
            }
            None => {
                let client =
                    manager.register_client(CLIENT_NAME, listener.address(), &scopes).await;
                client.map_err(failed)?.client_secret
            }
        };
        *lock(&store.client_secret) = secret;
        let page = manager.get_authorization_url(&scopes).await.map_err(failed)?;
        HttpAddress::parse(&page).map_err(|why| {
            failed(AuthError::AuthorizationFailed(format!("its page is no usable address: {why}")))
        })?;
        Ok(Self { manager, listener, server, page })
    }

    /// Returns the address of the page where the person signs in.
    pub fn page(&self) -> &str {
        &self.page
    }

    /// Waits until the browser is led back, and returns the address to which it was.
    pub async fn callback(&self) -> Result<String, ToolError> {
        self.listener.wait().await.map_err(|error| {
            ToolError::new(Kind::Unavailable, "the answer of the browser is lost").source(error)
        })
    }

    /// Gets the tokens for what the browser was led back with, and stores them.
    pub async fn finish(&self, callback: &str) -> Result<(), ToolError> {
        let failed = |why: String| {
            let words = format!("the sign-in at the server `{}` failed: {why}", self.server);
            ToolError::new(Kind::ExecutionFailed, words)
        };
        let callback = AuthorizationCallback::from_redirect_url(callback.trim())
            .map_err(|error| failed(denied(callback).unwrap_or_else(|| words_of(&error))))?;
        let AuthorizationCallback { code, csrf_token, issuer, .. } = &callback;
        let exchanged =
            self.manager.exchange_code_for_token_with_issuer(code, csrf_token, issuer.as_deref());
        exchanged.await.map(drop).map_err(|error| failed(words_of(&error)))
    }
}

/// Returns why the authorization server refused, as its answer says.
fn denied(callback: &str) -> Option<String> {
    let url = reqwest::Url::parse(callback.trim()).ok()?;
    let value = |wanted: &str| {
        url.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| shown_line(&value))
    };
    let error = value("error")?;
    Some(match value("error_description") {
        Some(words) => format!("{error}: {words}"),
        None => error,
    })
}
