//! The operations on dedicated hosts (section 4.8).

use http::Method;

use crate::{
    client::{Call, Client},
    page::{HostCursor, HostPage},
    record,
};
use hosting_types::{
    error::Error,
    host::{Host, HostInstall, HostResult, InstallLogEntry},
    identity::HostId,
    page::Page,
    request::InvalidRequest,
    secret::SecretText,
};

mod decode;

impl Client {
    /// A part of the list of hosts: `GET /v3/host` (4.8-1), including on-demand servers (2.20-16). `labels` is a filter
    /// in the API's own syntax (4.8-4), which is ignored for a page by token.
    ///
    /// # Errors
    /// [`Error::NotSent`]: the token has expired. [`Error::Undecodable`]: a record cannot be read, or the next token
    /// cannot be sent back.
    pub async fn hosts(&self, labels: Option<&str>, at: &HostCursor) -> Result<HostPage, Error> {
        let mut call = Call::new(Method::GET, &["host"]).large();
        match at {
            HostCursor::Range(page) => call = call.page(*page),
            HostCursor::Token(token) if token.is_expired() => {
                return Err(InvalidRequest::PageToken.into());
            }
            HostCursor::Token(token) => call = call.token(token),
        }
        if let Some(labels) = labels {
            call = call.query("labels", labels);
        }
        let answer = self.call(call).await?;
        Ok(HostPage {
            hosts: answer.decode_each(decode::host)?,
            next: answer.next.clone().map_err(|why| answer.misfit(why))?,
        })
    }

    /// One host: `GET /v3/host/{hostId}` (4.8-5).
    ///
    /// # Errors
    /// [`Error::NotFound`]: no such host (4.8-15). [`Error::Undecodable`]: also if the answer shows another host.
    pub async fn host(&self, id: HostId) -> Result<Host, Error> {
        let number = id.to_string();
        self.get(&["host", &number]).await?.decode(|body| {
            let host = decode::host(&record::one(body)?)?;
            if host.id == id {
                Ok(host)
            } else {
                Err(format!("asked for host {id}, the answer shows {}", host.id))
            }
        })
    }

    /// Powers a host on: `PUT /v3/host/{hostId}/start` (4.8-6).
    ///
    /// # Errors
    /// [`Error::NotFound`]: no such host (4.8-15). [`Error::Undecodable`]: a success is neither empty nor records.
    /// Their content is not documented, so a missing field is no error.
    pub async fn start_host(&self, id: HostId) -> Result<HostResult, Error> {
        self.act_on_host(id, "start").await
    }

    /// Powers a host off: `PUT /v3/host/{hostId}/stop` (4.8-7). Errors: as [`Client::start_host`].
    pub async fn stop_host(&self, id: HostId) -> Result<HostResult, Error> {
        self.act_on_host(id, "stop").await
    }

    /// Restarts a host: `PUT /v3/host/{hostId}/restart` (4.8-8). Errors: as [`Client::start_host`].
    pub async fn restart_host(&self, id: HostId) -> Result<HostResult, Error> {
        self.act_on_host(id, "restart").await
    }

    async fn act_on_host(&self, id: HostId, action: &str) -> Result<HostResult, Error> {
        let id = id.to_string();
        let path = ["host", id.as_str(), action];
        let answer = self.call(Call::new(Method::PUT, &path)).await?;
        answer.may_show(decode::result)
    }

    /// Installs a system on a host: `POST /v3/host/{hostId}/os/install` (4.8-11). **All its data is lost.**
    /// [`Host::install_status`] shows the progress. The answer repeats the request (4.8-12) and is dropped, since it
    /// may contain the script.
    ///
    /// # Errors
    /// [`Error::NotSent`]: a rule is broken. [`Error::NotFound`]: no such host (4.8-15). [`Error::Refused`] with 422: a
    /// rule that is not known here (4.8-16), an on-demand server (4.8-17), or a running installation (3.3-2).
    /// [`Error::Undecodable`]: a success is neither empty nor records. After an error that may have taken effect, read
    /// the host before sending again.
    pub async fn install_host(&self, id: HostId, request: &HostInstall) -> Result<(), Error> {
        request.check()?;
        let id = id.to_string();
        let path = ["host", id.as_str(), "os", "install"];
        let call = Call::new(Method::POST, &path)
            .hiding(request.secrets())
            .json(&request.body())?
            .repeating();
        self.call(call).await?.may_show(|_| ())
    }

    /// One page of a host's installation log: `GET /v3/host/{hostId}/os/installLog` (4.8-13). `hidden` texts, such as
    /// the script, are masked.
    ///
    /// # Errors
    /// [`Error::NotFound`]: no such host (4.8-15). [`Error::Undecodable`]: a record has no field of an entry (2.22).
    pub async fn install_log(
        &self,
        id: HostId,
        page: Page,
        hidden: &[SecretText],
    ) -> Result<Vec<InstallLogEntry>, Error> {
        let id = id.to_string();
        let path = ["host", id.as_str(), "os", "installLog"];
        let call = Call::new(Method::GET, &path)
            .page(page)
            .hiding(hidden.iter().cloned());
        self.call(call).await?.decode_each(decode::log_entry)
    }
}
