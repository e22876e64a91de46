//! A live list of the server objects in all watched namespaces, for objects that are about to adopt a server. A list is
//! expensive for the API server, so waiting objects share one.

use super::{
    context::Watched,
    objects::ObservedObject,
    writes::{ApiServerError, bounded},
};
use crate::runtime::clock;
use api::BareMetalServer;
use flexmetal_core::account::key::AccountKey;
use kube::{Client, api::ListParams};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Mutex;

/// Objects in one page.
const PAGE: u32 = 500;

/// What one server object owns.
pub struct ListedServerObject {
    /// Its UID.
    pub uid: String,
    /// Its namespace and name, as in an order tag.
    pub place: Option<String>,
    /// The server that it has recorded, in lower case, and its account.
    pub recorded: Option<(String, AccountKey)>,
}

/// The last list. A clone shares it.
#[derive(Clone, Default)]
pub struct LiveList(Arc<Mutex<Option<LastServerList>>>);

/// The last list, and when it started.
type LastServerList = (Duration, Arc<ServerObjectIndex>);

/// What all server objects own.
#[derive(Default)]
pub struct ServerObjectIndex {
    recorded: HashMap<String, Vec<(String, AccountKey)>>,
    places: HashMap<String, String>,
}

impl ServerObjectIndex {
    fn add(&mut self, row: ListedServerObject) {
        if let Some(place) = row.place {
            self.places.insert(place, row.uid.clone());
        }
        if let Some((server, account)) = row.recorded {
            let of = self.recorded.entry(server).or_default();
            of.push((row.uid, account));
        }
    }

    /// Whether an object with another UID has recorded this server, at one of these accounts.
    pub fn is_recorded(&self, uuid: &str, except: &str, accounts: &HashSet<AccountKey>) -> bool {
        let all = self.recorded.get(&uuid.to_ascii_lowercase());
        let mut all = all.into_iter().flatten();
        all.any(|(uid, account)| uid != except && accounts.contains(account))
    }

    /// Whether an object with another UID has this namespace and name.
    pub fn is_owned(&self, place: &str, except: &str) -> bool {
        self.places.get(place).is_some_and(|uid| uid != except)
    }
}

impl LiveList {
    /// A list that started after this moment.
    ///
    /// # Errors
    /// The error of the API server.
    pub async fn list_started_after(
        &self,
        since: Duration,
        (watched, client): (&Watched, &Client),
        row: impl Fn(&ObservedObject<BareMetalServer>) -> ListedServerObject,
    ) -> Result<Arc<ServerObjectIndex>, ApiServerError> {
        let mut last = self.0.lock().await;
        if let Some((began, listed)) = last.as_ref()
            && *began > since
        {
            return Ok(listed.clone());
        }
        let began = clock::now().mono;
        let mut listed = ServerObjectIndex::default();
        for api in watched.apis::<BareMetalServer>(client) {
            let mut params = ListParams::default().limit(PAGE);
            loop {
                let page = bounded(api.list(&params)).await?;
                let objects = page.items.into_iter().map(ObservedObject::from_guarded);
                objects.for_each(|object| listed.add(row(&object)));
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => break,
                }
            }
        }
        let listed = Arc::new(listed);
        *last = Some((began, listed.clone()));
        Ok(listed)
    }
}
