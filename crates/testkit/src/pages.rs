//! Pages of a World in memory: answers by address.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sinew_tool::sync::lock;
use sinew_tool::{
    BoxFuture, Kind, Net, PageForm, ReadPage, Slot, Targets, ToolError, WebRequest, WebResponse,
};

/// The answers to requests, and the requests.
#[derive(Debug, Clone, Default)]
pub struct Pages {
    answers: Arc<BTreeMap<String, WebResponse>>,
    requests: Arc<Mutex<Vec<WebRequest>>>,
}

impl Pages {
    /// Returns an answer with status 200 that is marked by `b0b0`.
    pub fn answer(content_type: &str, body: &[u8]) -> WebResponse {
        WebResponse {
            url: String::new(),
            status: 200,
            headers: vec![(String::from("content-type"), content_type.to_owned())],
            body: body.to_vec(),
            is_cut: false,
            redirects: Vec::new(),
            boundary: String::from("b0b0"),
        }
    }

    /// Adds the answer of an address.
    #[must_use]
    pub fn with(mut self, url: &str, answer: WebResponse) -> Self {
        let answer = WebResponse { url: url.to_owned(), ..answer };
        Arc::make_mut(&mut self.answers).insert(url.to_owned(), answer);
        self
    }

    /// Takes the requests so far.
    pub fn requests(&self) -> Vec<WebRequest> {
        std::mem::take(&mut lock(&self.requests))
    }
}

/// The pages of one call.
#[derive(Debug)]
pub(crate) struct PagesOfCall {
    pub(crate) pages: Pages,
    pub(crate) targets: Arc<Targets>,
}

impl Net for PagesOfCall {
    fn send(
        &self,
        url: Slot,
        request: WebRequest,
    ) -> BoxFuture<'static, Result<WebResponse, ToolError>> {
        let answer = self.targets.urls.get(url.0).and_then(|url| self.pages.answers.get(&url.url));
        let nothing = || ToolError::new(Kind::ExecutionFailed, "the host cannot be reached");
        let answered = answer.cloned().ok_or_else(nothing).map(|mut answer| {
            answer.is_cut |= request.max_bytes < answer.body.len();
            answer.body.truncate(request.max_bytes);
            answer
        });
        lock(&self.pages.requests).push(request);
        Box::pin(std::future::ready(answered))
    }

    /// Says what would be shown. A page that holds `deep` cannot be converted.
    fn read_html(
        &self,
        html: String,
        address: String,
        form: PageForm,
    ) -> BoxFuture<'static, Result<ReadPage, ToolError>> {
        let title = html.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
        let title = title.map(|(title, _)| title.to_owned()).unwrap_or_default();
        let is_plain = html.contains("deep");
        let text = format!("{form} of {html} at {address}");
        Box::pin(std::future::ready(Ok(ReadPage { title, text, is_plain })))
    }

    fn keep(&self, _body: &[u8]) -> Result<Option<String>, ToolError> {
        Ok(Some(String::from(".sinew/tool-output/call.bin")))
    }
}
