//! Counts the calls to the API server, as a layer of its client.

use super::{clock, metrics::Metrics};
use hyper::{Method, Request, Response, Uri};
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tower::{Layer, Service};

/// Adds the counter to a client.
#[derive(Clone)]
pub struct CountCalls(pub Metrics);

/// A client whose calls are counted.
#[derive(Clone)]
pub struct CountedClient<S> {
    inner: S,
    metrics: Metrics,
}

impl<S> Layer<S> for CountCalls {
    type Service = CountedClient<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CountedClient {
            inner,
            metrics: self.0.clone(),
        }
    }
}

impl<S, B, R> Service<Request<B>> for CountedClient<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let call = ApiServerCall {
            verb: verb(request.method(), request.uri()),
            resource: resource(request.uri()),
            code: None,
            started: clock::now().mono,
            metrics: self.metrics.clone(),
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            // The whole call, not only its code: it is counted when it is dropped.
            let mut call = call;
            let answer = answer.await;
            call.code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            answer
        })
    }
}

/// A call in progress. It is counted when this is dropped, so that one whose caller gave up counts, too.
struct ApiServerCall {
    verb: &'static str,
    resource: String,
    code: Option<u16>,
    started: Duration,
    metrics: Metrics,
}

impl Drop for ApiServerCall {
    fn drop(&mut self) {
        let took = clock::now().mono.saturating_sub(self.started);
        let code = self
            .code
            .map_or_else(|| "none".to_owned(), |code| code.to_string());
        let metrics = &self.metrics;
        metrics.record_api_server_call(self.verb, &self.resource, &code, took);
    }
}

/// The verb of a call, in Kubernetes' words.
fn verb(method: &Method, uri: &Uri) -> &'static str {
    let (has_name, query) = (segments(uri).len() > 1, uri.query().unwrap_or_default());
    match *method {
        Method::GET
            if query
                .split('&')
                .any(|part| matches!(part, "watch=true" | "watch=1")) =>
        {
            "watch"
        }
        Method::GET if has_name => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

/// The resource of a call, such as `servertags/status`. Never the name of an object or a namespace.
fn resource(uri: &Uri) -> String {
    match segments(uri).as_slice() {
        [] => "other".to_owned(),
        [resource, _, part] => format!("{resource}/{part}"),
        [resource, ..] => (*resource).to_owned(),
    }
}

/// Resource, name and sub-resource in a path, without what stands before the resource.
fn segments(uri: &Uri) -> Vec<&str> {
    let mut path = uri.path().split('/').filter(|segment| !segment.is_empty());
    // The API server may be below a path of its own.
    let groups = path
        .by_ref()
        .find(|segment| matches!(*segment, "api" | "apis"));
    let before = match groups {
        Some("api") => 1,
        Some(_) => 2,
        None => return Vec::new(),
    };
    let rest: Vec<&str> = path.skip(before).collect();
    match rest.as_slice() {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest.to_vec(),
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_show_verb_and_resource_without_names() {
        for (method, url, expected) in [
            (
                "GET",
                "/api/v1/namespaces/kube-system",
                ("get", "namespaces"),
            ),
            (
                "GET",
                "/api/v1/namespaces/shop/secrets/key",
                ("get", "secrets"),
            ),
            (
                "POST",
                "/api/v1/namespaces/shop/events",
                ("create", "events"),
            ),
            (
                "PATCH",
                "/apis/flexmetal.dev/v1alpha1/namespaces/shop/servertags/web/status?fieldManager=x",
                ("patch", "servertags/status"),
            ),
            (
                "GET",
                "https://host/k8s/clusters/c/apis/flexmetal.dev/v1alpha1/servertags?watch=true&x=1",
                ("watch", "servertags"),
            ),
            (
                "GET",
                "/apis/flexmetal.dev/v1alpha1/servertags?limit=500",
                ("list", "servertags"),
            ),
            ("GET", "/version", ("list", "other")),
        ] {
            let uri: Uri = url.parse().unwrap();
            let method: Method = method.parse().unwrap();
            assert_eq!((verb(&method, &uri), &*resource(&uri)), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn unanswered_call_counts_without_code() {
        let metrics = Metrics::new();
        let never =
            tower::service_fn(|_: Request<()>| std::future::pending::<Result<Response<()>, ()>>());
        let mut counted = CountCalls(metrics.clone()).layer(never);
        let request = Request::get("/api/v1/namespaces/shop/secrets/key")
            .body(())
            .unwrap();
        drop(counted.call(request));
        let text = metrics
            .scrape(crate::runtime::metrics::ScrapeFormat::Prometheus)
            .unwrap();
        let expected =
            "flexmetal_apiserver_calls_total{verb=\"get\",resource=\"secrets\",code=\"none\"} 1";
        assert!(text.lines().any(|line| line == expected), "{text}");
    }
}
