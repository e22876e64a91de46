//! Which requests a fault can affect.

use super::super::routes::{
    self, COMMAND, COMMANDS, HOSTS, INSTALL, INSTALL_LOG, SERVER, SERVERS, TAG, TAGS, WHITELIST,
};
use super::{Candidate, Fault};

/// GETs that are answered as of a moment.
const DATED: [&str; 8] = [
    SERVERS,
    SERVER,
    COMMANDS,
    COMMAND,
    TAGS,
    TAG,
    HOSTS,
    INSTALL_LOG,
];

/// Lists that come in pages.
const PAGED: [&str; 6] = [SERVERS, COMMANDS, TAGS, HOSTS, INSTALL_LOG, WHITELIST];

/// Whether any of them can affect a request. If none can, it is not a hit: a rule
/// with a `count` would be used up without any effect.
pub(super) fn reach(faults: &[Fault], request: Candidate<'_>) -> bool {
    let mut faults = faults.iter();
    faults.any(|fault| fault.acts_on(request.method, request.template))
}

impl Fault {
    fn acts_on(&self, method: &str, template: Option<&str>) -> bool {
        let read = template.filter(|_| method == "GET");
        match self {
            Self::Fail { .. } => matches!(
                (method, template),
                ("POST", Some(SERVERS | COMMANDS | INSTALL)) | ("PATCH", Some(SERVER))
            ),
            Self::EmptyList => read.is_some_and(|path| path == TAG || routes::lists(path)),
            Self::StaleList { .. } => read.is_some_and(|path| DATED.contains(&path)),
            Self::ShiftedPage | Self::RepeatedPage => {
                read.is_some_and(|path| PAGED.contains(&path))
            }
            Self::RepeatedRecord => read == Some(SERVERS),
            Self::UpperCase
            | Self::Refuse { .. }
            | Self::Delay { .. }
            | Self::DropBefore
            | Self::DropAfter
            | Self::Status { .. }
            | Self::Truncate
            | Self::EmptyBody
            | Self::Body { .. }
            | Self::Oversize { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fault_acts_on_what_it_is_about() {
        let fail = json!({"fail": {"message": ""}});
        let stale = json!({"staleList": {"seconds": 1}});
        for (fault, method, path, acts) in [
            (&fail, "POST", "/v3/flexMetal/servers", true),
            (&fail, "PATCH", "/v3/flexMetal/servers/a", true),
            (&fail, "POST", "/v3/flexMetal/servers/a/commands", true),
            (&fail, "POST", "/v3/host/1/os/install", true),
            (&fail, "GET", "/v3/health", false),
            (&fail, "DELETE", "/v3/flexMetal/servers/a", false),
            (&fail, "POST", "/v3/flexMetal/servers/a/tag/b", false),
            (&json!("emptyList"), "GET", "/v3/sshKey", true),
            (&json!("emptyList"), "GET", "/v3/flexMetal/tags/a", true),
            (&json!("emptyList"), "GET", "/v3/flexMetal/servers/a", false),
            (&json!("emptyList"), "POST", "/v3/flexMetal/tags", false),
            (&stale, "GET", "/v3/flexMetal/servers/a", true),
            (&stale, "GET", "/v3/sshKey", false),
            (&stale, "POST", "/v3/flexMetal/servers", false),
            (&json!("shiftedPage"), "GET", "/v3/host", true),
            (&json!("repeatedPage"), "GET", "/v3/flexMetal/plans", false),
            (
                &json!("repeatedRecord"),
                "GET",
                "/v3/flexMetal/servers",
                true,
            ),
            (&json!("repeatedRecord"), "GET", "/v3/host", false),
            (&json!("dropAfter"), "PUT", "/v3/nothing", true),
        ] {
            let read: Fault = serde_json::from_value(fault.clone()).unwrap();
            let found = read.acts_on(method, routes::template(path));
            assert_eq!(found, acts, "{fault} {method} {path}");
        }
    }
}
