//! The paths of the API, one file per resource.

mod catalogue;
mod commands;
mod hosts;
mod password;
mod servers;
mod ssh_keys;
mod tags;
mod usage;
mod whitelist;

use axum::Router;
use axum::extract::{FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use serde::de::DeserializeOwned;
use tower::ServiceExt;

use super::answer::{Answer, Refusal, code};
use super::world::Shared;

/// The result of every route.
pub(crate) type Outcome = Result<Answer, Refusal>;

/// The variable parts of a path. One that is not text names nothing: 404, with the
/// API's own error record.
pub(super) struct Path<T>(pub(super) T);

impl<S, T> FromRequestParts<S> for Path<T>
where
    S: Send + Sync,
    T: DeserializeOwned + Send,
{
    type Rejection = Refusal;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let read = axum::extract::Path::from_request_parts(head, state).await;
        let axum::extract::Path(parts) = read.map_err(|_| Refusal::not_found())?;
        Ok(Self(parts))
    }
}

pub(crate) const SERVERS: &str = "/v3/flexMetal/servers";
pub(crate) const SERVER: &str = "/v3/flexMetal/servers/{uuid}";
const SERVER_TAG: &str = "/v3/flexMetal/servers/{uuid}/tag/{tag}";
pub(crate) const TAGS: &str = "/v3/flexMetal/tags";
pub(crate) const TAG: &str = "/v3/flexMetal/tags/{tag}";
const LOCATIONS: &str = "/v3/flexMetal/location";
const INSTANCE_TYPES: &str = "/v3/flexMetal/location/{locationId}/instanceTypes";
const PLANS: &str = "/v3/flexMetal/plans";
const QUOTA: &str = "/v3/flexMetal/quota/usage";
const SYSTEMS: &str = "/v3/operatingsystem";

const LSHW: &str = "/v3/flexMetal/servers/{uuid}/lshw";
const ROOT_PASSWORD: &str = "/v3/flexMetal/servers/{uuid}/rootPassword";
pub(crate) const COMMANDS: &str = "/v3/flexMetal/servers/{uuid}/commands";
pub(crate) const COMMAND: &str = "/v3/flexMetal/servers/{uuid}/commands/{commandUuid}";
const USAGE: &str = "/v3/flexMetal/usage";
const COMMITS: &str = "/v3/flexMetal/capacity/commit";
pub(crate) const WHITELIST: &str = "/v3/account/apiKey/{apiKeyId}/whitelist";
const WHITELIST_ENTRY: &str = "/v3/account/apiKey/{apiKeyId}/whitelist/{apiKeyWhitelistId}";
const PASSWORD: &str = "/v3/account/password";
const RESET: &str = "/v3/account/password/reset";
const VALIDATE: &str = "/v3/account/password/reset/validate";
pub(crate) const HOSTS: &str = "/v3/host";
const HOST: &str = "/v3/host/{hostId}";
const HOST_START: &str = "/v3/host/{hostId}/start";
const HOST_STOP: &str = "/v3/host/{hostId}/stop";
const HOST_RESTART: &str = "/v3/host/{hostId}/restart";
pub(crate) const INSTALL: &str = "/v3/host/{hostId}/os/install";
pub(crate) const INSTALL_LOG: &str = "/v3/host/{hostId}/os/installLog";
const SSH_KEYS: &str = "/v3/sshKey";
const SSH_KEY: &str = "/v3/sshKey/{uuid}";
pub(crate) const HEALTH: &str = "/v3/health";

const ALL: &[&str] = &[
    SERVERS,
    SERVER,
    SERVER_TAG,
    TAGS,
    TAG,
    LOCATIONS,
    INSTANCE_TYPES,
    PLANS,
    QUOTA,
    SYSTEMS,
    LSHW,
    ROOT_PASSWORD,
    COMMANDS,
    COMMAND,
    USAGE,
    COMMITS,
    WHITELIST,
    WHITELIST_ENTRY,
    PASSWORD,
    RESET,
    VALIDATE,
    HOSTS,
    HOST,
    HOST_START,
    HOST_STOP,
    HOST_RESTART,
    INSTALL,
    INSTALL_LOG,
    SSH_KEYS,
    SSH_KEY,
    HEALTH,
];

/// Whether paths of this template name a host.
pub(crate) fn names_host(template: &str) -> bool {
    template.starts_with(HOST)
}

/// Whether a change at this path changes a whitelist.
pub(crate) fn changes_whitelist(path: &str) -> bool {
    matches!(template(path), Some(WHITELIST | WHITELIST_ENTRY))
}

/// Paths whose GET answers a list.
const LISTS: &[&str] = &[
    SERVERS,
    TAGS,
    LOCATIONS,
    INSTANCE_TYPES,
    PLANS,
    QUOTA,
    SYSTEMS,
    COMMANDS,
    USAGE,
    COMMITS,
    WHITELIST,
    HOSTS,
    INSTALL_LOG,
    SSH_KEYS,
];

/// Whether a GET of this path answers a list.
pub(crate) fn is_list(path: &str) -> bool {
    template(path).is_some_and(lists)
}

/// Whether a GET of a path that matches this template answers a list.
pub(crate) fn lists(template: &str) -> bool {
    LISTS.contains(&template)
}

/// The template that a path matches. The ledger needs it also for requests that
/// never reach a route.
pub(crate) fn template(path: &str) -> Option<&'static str> {
    ALL.iter().copied().find(|template| {
        let parts = template.split('/').zip(path.split('/'));
        template.split('/').count() == path.split('/').count()
            && parts.into_iter().all(|(known, part)| {
                if known.starts_with('{') {
                    !part.is_empty()
                } else {
                    known == part
                }
            })
    })
}

/// The API.
pub(crate) fn router(shared: Shared) -> Router {
    Router::new()
        .route(SERVERS, get(servers::list).post(servers::order))
        .route(
            SERVER,
            get(servers::get)
                .patch(servers::reinstall)
                .delete(servers::release),
        )
        .route(
            SERVER_TAG,
            post(servers::add_tag).delete(servers::remove_tag),
        )
        .route(TAGS, get(tags::list).post(tags::create))
        .route(TAG, get(tags::get).put(tags::rename).delete(tags::delete))
        .route(LOCATIONS, get(catalogue::locations))
        .route(INSTANCE_TYPES, get(catalogue::instance_types))
        .route(PLANS, get(catalogue::plans))
        .route(QUOTA, get(usage::quota))
        .route(SYSTEMS, get(catalogue::systems))
        .route(LSHW, get(servers::lshw))
        .route(ROOT_PASSWORD, get(servers::root_password))
        .route(COMMANDS, get(commands::list).post(commands::send))
        .route(COMMAND, get(commands::get))
        .route(USAGE, get(usage::usage))
        .route(COMMITS, get(usage::commits))
        .route(WHITELIST, get(whitelist::list).post(whitelist::add))
        .route(
            WHITELIST_ENTRY,
            put(whitelist::change).delete(whitelist::remove),
        )
        .route(PASSWORD, put(password::change))
        .route(RESET, post(password::ask_for_reset))
        .route(VALIDATE, put(password::reset))
        .route(HOSTS, get(hosts::list))
        .route(HOST, get(hosts::get))
        .route(HOST_START, put(hosts::start))
        .route(HOST_STOP, put(hosts::stop))
        .route(HOST_RESTART, put(hosts::restart))
        .route(INSTALL, post(hosts::install))
        .route(INSTALL_LOG, get(hosts::log))
        .route(SSH_KEYS, get(ssh_keys::list).post(ssh_keys::store))
        .route(SSH_KEY, get(ssh_keys::get).delete(ssh_keys::delete))
        .route(HEALTH, get(catalogue::health))
        .fallback(|| async { Refusal::not_found().into_response() })
        .method_not_allowed_fallback(|| async {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            Refusal::new(status, code::METHOD, "Method not allowed").into_response()
        })
        .with_state(shared)
}

/// Lets the router answer a request. The API has no HEAD; the router would accept
/// it wherever there is a GET, and list it in `Allow`.
pub(crate) async fn answer(router: Router, mut request: Request) -> Response {
    if request.method() == Method::HEAD {
        // Another method that no path has.
        *request.method_mut() = Method::TRACE;
    }
    let Ok(mut response) = router.oneshot(request).await;
    let allowed = response.headers().get(ALLOW);
    if let Some(allowed) = allowed.and_then(|allowed| allowed.to_str().ok()) {
        let methods: Vec<_> = allowed.split(',').filter(|one| *one != "HEAD").collect();
        if let Ok(methods) = HeaderValue::from_str(&methods.join(",")) {
            response.headers_mut().insert(ALLOW, methods);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_find_their_template() {
        assert_eq!(template("/v3/flexMetal/servers"), Some(SERVERS));
        assert_eq!(template("/v3/flexMetal/servers/abc"), Some(SERVER));
        assert_eq!(
            template("/v3/flexMetal/servers/abc/tag/x"),
            Some(SERVER_TAG)
        );
        assert_eq!(template("/v3/flexMetal/servers/abc/lamp"), None);
        assert_eq!(
            template("/v3/flexMetal/location/6/instanceTypes"),
            Some(INSTANCE_TYPES)
        );
        assert_eq!(template("/"), None);
        assert!(is_list("/v3/flexMetal/servers/abc/commands") && !is_list("/v3/host/1"));
    }
}
