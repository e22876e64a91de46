//! The paths of the API, one file a resource.

mod catalogue;
mod servers;
mod tags;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::{delete, get, post};
use http::StatusCode;

use super::answer::{Answer, Refusal, code};
use super::world::Shared;

/// What every route gives.
pub(crate) type Outcome = Result<Answer, Refusal>;

pub(crate) const SERVERS: &str = "/v3/flexMetal/servers";
const SERVER: &str = "/v3/flexMetal/servers/{uuid}";
const SERVER_TAG: &str = "/v3/flexMetal/servers/{uuid}/tag/{tag}";
const TAGS: &str = "/v3/flexMetal/tags";
const TAG: &str = "/v3/flexMetal/tags/{tag}";
const LOCATIONS: &str = "/v3/flexMetal/location";
const INSTANCE_TYPES: &str = "/v3/flexMetal/location/{locationId}/instanceTypes";
const PLANS: &str = "/v3/flexMetal/plans";
const QUOTA: &str = "/v3/flexMetal/quota/usage";
const SYSTEMS: &str = "/v3/operatingsystem";

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
];

/// The template that a path follows. The ledger needs it also for requests
/// that never come to a route.
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
        .route(SERVER, get(servers::get).delete(servers::release))
        .route(
            SERVER_TAG,
            post(servers::add_tag).delete(servers::remove_tag),
        )
        .route(TAGS, get(tags::list))
        .route(TAG, get(tags::get))
        .route(TAG, delete(tags::delete))
        .route(LOCATIONS, get(catalogue::locations))
        .route(INSTANCE_TYPES, get(catalogue::instance_types))
        .route(PLANS, get(catalogue::plans))
        .route(QUOTA, get(catalogue::quota))
        .route(SYSTEMS, get(catalogue::systems))
        .fallback(|| async { Refusal::not_found().into_response() })
        .method_not_allowed_fallback(|| async {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            Refusal::new(status, code::METHOD, "Method not allowed").into_response()
        })
        .with_state(shared)
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
    }
}
