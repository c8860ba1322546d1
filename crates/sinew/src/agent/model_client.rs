//! Connects a model to its server: the guard's streaming client as the agent's [`ModelClient`].

use sinew_agent::{ApiModel, ApiModelSettings, ModelClient, ModelStream};
use sinew_guard::{StreamAnswer, StreamClient};
use sinew_tool::BoxFuture;

use super::models::ChosenModel;

/// Returns the model; sends nothing yet.
pub(crate) fn connect(chosen: &ChosenModel) -> anyhow::Result<ApiModel> {
    let fail = |why: String| anyhow::anyhow!("the model `{}`: {why}", chosen.written);
    let address = chosen.url.below(chosen.wire.path());
    let client = StreamClient::new(address).map_err(fail)?;
    let settings = ApiModelSettings {
        wire: chosen.wire,
        name: chosen.name.clone(),
        key: chosen.key.clone(),
        context: chosen.context,
    };
    Ok(ApiModel::new(settings, Box::new(Client(client))))
}

struct Client(StreamClient);

impl ModelClient for Client {
    fn post<'a>(
        &'a self,
        headers: &'a [(&'static str, String)],
        body: Vec<u8>,
    ) -> BoxFuture<'a, Result<Box<dyn ModelStream>, String>> {
        Box::pin(async move {
            let answer = self.0.post(headers, body).await?;
            Ok(Box::new(StreamedAnswer(answer)) as Box<dyn ModelStream>)
        })
    }
}

struct StreamedAnswer(StreamAnswer);

impl ModelStream for StreamedAnswer {
    fn status(&self) -> u16 {
        self.0.status()
    }

    fn header(&self, name: &str) -> Option<String> {
        self.0.header(name).map(str::to_owned)
    }

    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, String>> {
        Box::pin(self.0.chunk())
    }
}
