//! Permits for calls.

use super::super::{Connection, session::Session};
use crate::runtime::clock;
use flexmetal_core::account::priority::Priority;
use hosting::Client;
use hosting_types::{Error, Server, ServerId, error::NotSent};
use std::sync::Arc;

/// The answer to a request for a permit.
#[must_use]
pub enum PermitAnswer {
    /// The calls may be made now.
    Now(Permit),
    /// The object is in the queue, and is reconciled when its permit is granted.
    Queued,
}

/// Permission for some calls of one object. It takes a slot in flight until it is dropped; calls that were not made go
/// back.
#[must_use]
pub struct Permit {
    session: Session,
    connection: Arc<Connection>,
    priority: Priority,
    left: u32,
}

impl Permit {
    /// For calls that the rate limiter of this session granted.
    pub(in crate::account) fn new(
        live: Session,
        connection: Arc<Connection>,
        priority: Priority,
        calls: u32,
    ) -> Self {
        Self {
            session: live,
            connection,
            priority,
            left: calls.max(1),
        }
    }

    /// Makes one of the calls.
    ///
    /// # Errors
    /// As the call itself; [`Error::NotSent`] if the key was rejected meanwhile, or all calls of the permit are made.
    pub async fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let core = &self.session.core;
        core.check_key().map_err(|error| match error {
            // The refusal of another call is no answer to this one.
            Error::AccessDenied(refusal) => Error::NotSent(NotSent::KeyRefused(refusal)),
            other => other,
        })?;
        if self.left == 0 {
            let why = "all calls of this permit are made";
            return Err(Error::NotSent(NotSent::Build(why.into())));
        }
        self.left -= 1;
        let result = core.await_answer(call(&self.connection.client)).await;
        if let Err(error) = &result {
            core.record_call_error(error);
        }
        core.record_answer(&self.connection, result.as_ref().map(drop));
        result
    }

    /// Reads one server, and records the answer in the snapshot.
    ///
    /// # Errors
    /// As [`Client::server`] and [`Permit::call`].
    pub async fn read_server(&mut self, id: &ServerId) -> Result<Server, Error> {
        let asked_for = clock::now().mono;
        let answer = self.call(async |client| client.server(id).await).await;
        let kept = self.session.core.record_read(id, answer, asked_for)?;
        Ok((*kept).clone())
    }

    /// Records the answer to a change, as of now: earlier requests are older.
    pub fn record_server(&self, server: Server) -> Server {
        let kept = self.session.core.record_server(server, clock::now().mono);
        (*kept).clone()
    }

    /// Records the answer to a release: the server, or that its outcome is unknown.
    pub fn record_release(&self, id: &ServerId, answer: &Result<Server, Error>) {
        if matches!(answer, Err(error) if !error.may_have_taken_effect()) {
            return;
        }
        // First, as the answer may say "releasing" already: without the cluster's tag only this makes a server pending.
        self.session.core.record_release(id);
        if let Ok(server) = answer {
            self.record_server(server.clone());
        }
    }

    pub(in crate::account) fn session(&self) -> &Session {
        &self.session
    }

    pub(in crate::account) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Counts one of the calls as made by other means than [`Permit::call`].
    pub(in crate::account) fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.session
            .core
            .rate_limiter
            .end_permit(self.priority, self.left);
    }
}
