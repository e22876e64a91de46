//! The operations on servers (sections 4.4 and 4.6 of
//! `docs/contributing/hosting-api.md`).

use http::Method;

use crate::{
    answer::ApiAnswer,
    client::{Call, Client},
    record,
};
use hosting_types::{
    error::Error,
    page::Page,
    request::InvalidRequest,
    server::{Order, OrderResult, Reinstall, Server, ServerFilter, ServerId},
    tag::check_tag,
};

pub(super) mod decode;
mod hardware_and_password;

const SERVERS: [&str; 2] = ["flexMetal", "servers"];

impl Client {
    /// Orders a server: `POST /v3/flexMetal/servers` (4.4-10), with at most one request. `order_tag` must be a tag of
    /// the order: it shows that the answer is about this order, and finds the server if no answer came.
    ///
    /// [`OrderResult::Refused`] is a 400 for an unreadable body (4.4-11), or a 422 for a broken rule, a used-up quota
    /// or no free server (4.4-12 to 4.4-14). Once polled, poll the future to its end: dropping it earlier leaves an
    /// unknown outcome.
    pub async fn order(&self, order: &Order, order_tag: &str) -> OrderResult {
        match self.send_order(order, order_tag).await {
            Ok(answer) => Self::created(&answer, order_tag),
            Err(error @ Error::NotSent(_)) => OrderResult::NotSent(error),
            Err(error) if error.may_have_taken_effect() => OrderResult::Unknown(error.explain()),
            Err(error) => OrderResult::Refused(error),
        }
    }

    async fn send_order(&self, order: &Order, order_tag: &str) -> Result<ApiAnswer, Error> {
        order.check()?;
        if !order.tags.iter().any(|tag| tag == order_tag) {
            return Err(InvalidRequest::OrderTag.into());
        }
        let call = Call::new(Method::POST, &SERVERS)
            .order()
            .hiding(order.secrets());
        self.call(call.json(&order.body())?).await
    }

    /// A success needs a record that certainly belongs to this order.
    fn created(answer: &ApiAnswer, order_tag: &str) -> OrderResult {
        let server = match one_server(answer) {
            Ok(server) => server,
            Err(error) => return OrderResult::Unknown(error.explain()),
        };
        if server.has_tag(order_tag) {
            OrderResult::Created(Box::new(server))
        } else {
            OrderResult::Unknown(format!(
                "the answer shows server {}, which does not have the tag of this order",
                server.id
            ))
        }
    }

    /// One page of servers: `GET /v3/flexMetal/servers` (4.4-1), with one request. The list includes released servers,
    /// only grows, and has no documented order.
    ///
    /// # Errors
    /// [`Error::NotSent`]: a tag breaks the rule. [`Error::Undecodable`]: a record cannot be read, since a page with a
    /// gap confirms nothing. [`Error::Refused`] with 422: the API does not have this page (8-7).
    pub async fn servers(&self, filter: &ServerFilter, page: Page) -> Result<Vec<Server>, Error> {
        for tag in &filter.tags {
            check_tag(tag)?;
        }
        let mut call = Call::new(Method::GET, &SERVERS).page(page);
        if let Some(status) = filter.status {
            call = call.query("status", status.as_str());
        }
        for tag in &filter.tags {
            call = call.query("tag", tag);
        }
        self.call(call).await?.decode_each(decode::server)
    }

    /// One server: `GET /v3/flexMetal/servers/{uuid}` (4.4-15), also a released one (3.1-10).
    ///
    /// # Errors
    /// [`Error::NotFound`]: the account has no such server (4.4-28). [`Error::Undecodable`]: also if the answer shows
    /// another server.
    pub async fn server(&self, id: &ServerId) -> Result<Server, Error> {
        let [product, servers] = SERVERS;
        let path = [product, servers, id.as_str()];
        let answer = self.call(Call::new(Method::GET, &path)).await?;
        Self::this_server(&answer, id)
    }

    /// Re-installs a server: `PATCH /v3/flexMetal/servers/{uuid}` (4.4-16). **All its data is lost.** The server stays
    /// `delivered` (3.1-12); its commands of the kind [`REINSTALLATIONS`] show the progress.
    ///
    /// # Errors
    /// [`Error::NotSent`]: a rule is broken. 404: no such server. [`Error::Refused`]: it is not delivered (4.4-19) or
    /// being re-installed already (4.4-20). After an error that may have taken effect, read the commands before sending
    /// again.
    ///
    /// [`REINSTALLATIONS`]: hosting_types::command::REINSTALLATIONS
    pub async fn reinstall(&self, id: &ServerId, request: &Reinstall) -> Result<Server, Error> {
        request.check()?;
        let [product, servers] = SERVERS;
        let path = [product, servers, id.as_str()];
        let call = Call::new(Method::PATCH, &path)
            .query("wipeDisk", request.wipe.as_str())
            .hiding(request.secrets())
            .json(&request.body())?;
        let answer = self.call(call).await?;
        Self::this_server(&answer, id)
    }

    /// Releases a server: `DELETE /v3/flexMetal/servers/{uuid}` (4.4-21). All its data is erased. The answer shows the
    /// start; the end is the status `released` in a later read.
    ///
    /// # Errors
    /// As [`Client::server`]. [`Error::Refused`] with 422: the server has failed (4.4-22) or is already released
    /// (4.4-24).
    pub async fn release(&self, id: &ServerId) -> Result<Server, Error> {
        let [product, servers] = SERVERS;
        let path = [product, servers, id.as_str()];
        let call = Call::new(Method::DELETE, &path).idempotent();
        let answer = self.call(call).await?;
        Self::this_server(&answer, id)
    }

    /// Adds a tag to a server: `POST /v3/flexMetal/servers/{uuid}/tag/{tag}` (4.6-13).
    ///
    /// # Errors
    /// [`Error::NotSent`]: the tag breaks the rule. [`Error::Refused`] with 422: the server already has 60 tags
    /// (4.6-18). Otherwise as [`Client::server`].
    pub async fn add_tag(&self, id: &ServerId, tag: &str) -> Result<Server, Error> {
        self.change_tag(Method::POST, id, tag).await
    }

    /// Removes a tag from a server: `DELETE /v3/flexMetal/servers/{uuid}/tag/{tag}` (4.6-16). The tag stays in the
    /// account's list.
    ///
    /// # Errors
    /// [`Error::NotSent`]: the tag breaks the rule. [`Error::NotFound`]: also if the server does not have it (4.6-17).
    /// Otherwise as [`Client::server`].
    pub async fn remove_tag(&self, id: &ServerId, tag: &str) -> Result<Server, Error> {
        self.change_tag(Method::DELETE, id, tag).await
    }

    async fn change_tag(&self, method: Method, id: &ServerId, tag: &str) -> Result<Server, Error> {
        check_tag(tag)?;
        let [product, servers] = SERVERS;
        let path = [product, servers, id.as_str(), "tag", tag];
        let call = Call::new(method, &path).idempotent();
        let answer = self.call(call).await?;
        Self::this_server(&answer, id)
    }

    /// The only server of an answer, which must be the requested one: releases depend on it.
    fn this_server(answer: &ApiAnswer, id: &ServerId) -> Result<Server, Error> {
        let server = one_server(answer)?;
        if server.id == *id {
            return Ok(server);
        }
        Err(answer.misfit(format!(
            "asked for server {id}, the answer shows {}",
            server.id
        )))
    }
}

fn one_server(answer: &ApiAnswer) -> Result<Server, Error> {
    answer.decode(|body| decode::server(&record::one(body)?))
}
