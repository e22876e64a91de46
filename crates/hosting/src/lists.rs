//! The lists that have pages, each as a whole.

use std::borrow::Borrow;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{
    client::Client,
    listing::{Ask, Listing, ListingPage},
    page::{HostCursor, HostPage},
};
use hosting_types::{
    command::Command,
    host::{Host, InstallLogEntry},
    identity::{ApiKeyId, HostId},
    list::ListGap,
    page::Page,
    server::{Server, ServerFilter, ServerId},
    tag::TagRecord,
    whitelist::WhitelistEntry,
};

/// These lists have no tokens; a token in an answer is ignored.
fn range(ask: &Ask) -> Page {
    match ask {
        Ask::Range(page) => *page,
        Ask::Token(_) => Page::first(),
    }
}

impl<'a, T: Borrow<Server> + Send + 'a> Listing<'a, T> {
    /// A list of servers whose pages the caller fetches.
    pub fn of_servers(
        mut fetch: impl FnMut(Page) -> BoxFuture<'a, Result<Vec<T>, ListGap>> + Send + 'a,
    ) -> Self {
        // The API may be case-sensitive, but two spellings of a UUID are one server.
        let identity = |server: &T, _| server.borrow().id.as_str().to_ascii_lowercase();
        Self::new(identity, move |ask| {
            let page = fetch(range(&ask));
            async move { Ok(page.await?.into()) }.boxed()
        })
    }
}

impl<'a> Listing<'a, TagRecord> {
    /// A list of tags whose pages the caller fetches.
    pub fn of_tags(
        mut fetch: impl FnMut(Page) -> BoxFuture<'a, Result<Vec<TagRecord>, ListGap>> + Send + 'a,
    ) -> Self {
        let identity = |tag: &TagRecord, _| tag.tag.clone();
        Self::new(identity, move |ask| {
            let page = fetch(range(&ask));
            async move { Ok(page.await?.into()) }.boxed()
        })
    }
}

impl<'a> Listing<'a, WhitelistEntry> {
    /// A whitelist whose pages the caller fetches.
    pub fn of_whitelist(
        mut fetch: impl FnMut(Page) -> BoxFuture<'a, Result<Vec<WhitelistEntry>, ListGap>> + Send + 'a,
    ) -> Self {
        let identity = |entry: &WhitelistEntry, _| entry.id.to_string();
        Self::new(identity, move |ask| {
            let page = fetch(range(&ask));
            async move { Ok(page.await?.into()) }.boxed()
        })
    }
}

impl<'a> Listing<'a, Command> {
    /// The commands of one server whose pages the caller fetches.
    pub fn of_commands(
        mut fetch: impl FnMut(Page) -> BoxFuture<'a, Result<Vec<Command>, ListGap>> + Send + 'a,
    ) -> Self {
        let identity = |command: &Command, _| command.id.as_str().to_ascii_lowercase();
        Self::new(identity, move |ask| {
            let page = fetch(range(&ask));
            async move { Ok(page.await?.into()) }.boxed()
        })
    }
}

impl<'a> Listing<'a, Host> {
    /// A list of hosts whose parts the caller fetches: by range, or by the token of the part before.
    pub fn of_hosts(
        mut fetch: impl FnMut(HostCursor) -> BoxFuture<'a, Result<HostPage, ListGap>> + Send + 'a,
    ) -> Self {
        let identity = |host: &Host, _| host.id.to_string();
        Self::new(identity, move |ask| {
            let page = fetch(match ask {
                Ask::Range(page) => HostCursor::Range(page),
                Ask::Token(token) => HostCursor::Token(token),
            });
            async move {
                let page = page.await?;
                Ok(ListingPage {
                    records: page.hosts,
                    next: page.next,
                })
            }
            .boxed()
        })
    }
}

impl<'a> Listing<'a, InstallLogEntry> {
    /// The installation log of one host whose pages the caller fetches.
    pub fn of_install_log(
        mut fetch: impl FnMut(Page) -> BoxFuture<'a, Result<Vec<InstallLogEntry>, ListGap>> + Send + 'a,
    ) -> Self {
        // A log may have the same line twice.
        let identity = |entry: &InstallLogEntry, place| match entry.id {
            Some(id) => id.to_string(),
            None => format!("{place} {entry:?}"),
        };
        Self::new(identity, move |ask| {
            let page = fetch(range(&ask));
            async move { Ok(page.await?.into()) }.boxed()
        })
    }
}

impl Client {
    /// All servers that match a filter (4.4-1).
    pub fn all_servers<'a>(&'a self, filter: &'a ServerFilter) -> Listing<'a, Server> {
        Listing::of_servers(move |page| {
            async move { Ok(self.servers(filter, page).await?) }.boxed()
        })
    }

    /// All commands of a server (4.5-1); `kind` as in [`Client::commands`].
    pub fn all_commands<'a>(
        &'a self,
        id: &'a ServerId,
        kind: Option<&'a str>,
    ) -> Listing<'a, Command> {
        Listing::of_commands(move |page| {
            async move { Ok(self.commands(id, kind, page).await?) }.boxed()
        })
    }

    /// All tags of the account (4.6-1).
    pub fn all_tags(&self) -> Listing<'_, TagRecord> {
        Listing::of_tags(move |page| async move { Ok(self.tags(page).await?) }.boxed())
    }

    /// The whole whitelist of an API key (4.1-1).
    pub fn all_of_whitelist(&self, key: ApiKeyId) -> Listing<'_, WhitelistEntry> {
        Listing::of_whitelist(move |page| {
            async move { Ok(self.whitelist(key, page).await?) }.boxed()
        })
    }

    /// The whole installation log of a host (4.8-13).
    pub fn all_of_install_log(&self, id: HostId) -> Listing<'_, InstallLogEntry> {
        Listing::of_install_log(move |page| {
            async move { Ok(self.install_log(id, page, &[]).await?) }.boxed()
        })
    }

    /// All hosts (4.8-1), by token if the API gives one (4.8-3). By token, `labels` (see [`Client::hosts`]) is ignored
    /// from the second page on (4.8-4), so other hosts may be included.
    pub fn all_hosts<'a>(&'a self, labels: Option<&'a str>) -> Listing<'a, Host> {
        Listing::of_hosts(move |cursor| {
            async move { Ok(self.hosts(labels, &cursor).await?) }.boxed()
        })
    }
}
