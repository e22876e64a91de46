//! The simulator's switches, and what the drill has observed of each.

use std::collections::BTreeMap;

/// A switch of the simulator.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) name: &'static str,
    /// Value in the simulator's profile `document`.
    pub(crate) document: &'static str,
    /// Value in the simulator's profile `observed`.
    pub(crate) observed: &'static str,
    /// Why the drill has no observation, unless a step says otherwise.
    why_unobserved: &'static str,
}

/// A switch that a step of the drill observes.
const fn observable(name: &'static str, document: &'static str, observed: &'static str) -> Switch {
    let why_unobserved = "the drill did not get to this step";
    unobservable(name, document, observed, why_unobserved)
}

/// A switch that a complete drill does not observe.
const fn unobservable(
    name: &'static str,
    document: &'static str,
    observed: &'static str,
    why_unobserved: &'static str,
) -> Switch {
    Switch {
        name,
        document,
        observed,
        why_unobserved,
    }
}

const NEEDS_HOST: &str = "needs a dedicated host, which the drill never changes";

/// All switches, in the simulator's order.
pub(crate) const SWITCHES: &[Switch] = &[
    observable("stateView", "short", "long"),
    observable("singleAnswer", "array", "array"),
    observable("absentFields", "omit", "zero"),
    observable("idleMessage", "empty", "ok"),
    observable("addresses", "two", "two"),
    observable("wrongKey", "answer403", "answer403"),
    observable("resultsAbove50", "refuse422", "clamp"),
    observable("badRange", "refuse422", "ignore"),
    observable("listOrder", "oldestFirst", "oldestFirst"),
    observable("listFilters", "optional", "optional"),
    observable("unknownStatusFilter", "refuse422", "matchRecord"),
    unobservable(
        "creatingFilter",
        "waiting",
        "waiting",
        "the server showed no state between created and provisioning",
    ),
    observable("unknownFields", "refuse422", "refuse422"),
    observable("missingSshKey", "refuse422", "accept"),
    observable("publicKeys", "openssh", "openssh"),
    observable("catalogueNames", "exact", "caseless"),
    observable("ipxeScriptUrl", "enforce", "enforce"),
    observable("fileSystems", "any", "enforce"),
    observable("siderolinkApi", "optional", "required"),
    observable("unknownContract", "refuse422", "refuse422"),
    unobservable(
        "exhausted",
        "refuse422",
        "refuse422",
        "needs an order without stock; if it were accepted, a second server would cost money",
    ),
    unobservable(
        "releaseFailed",
        "refuse422",
        "refuse422",
        "the server was delivered; only a failed one shows it",
    ),
    unobservable(
        "releaseWhileWaiting",
        "accept",
        "accept",
        "a release before delivery would end the only server; an interrupted drill shows it",
    ),
    observable("releaseReleasing", "answer200", "answer200"),
    observable("releaseReleased", "refuse422", "refuse422"),
    observable("tagReleased", "accept", "accept"),
    observable("removeAbsentTag", "answer404", "answer404"),
    observable("addUnknownTag", "make", "make"),
    observable("unusedTags", "keep", "keep"),
    observable("deleteUsedTag", "detach", "detach"),
    observable("renameTag", "follow", "follow"),
    observable("duplicateTag", "refuse422", "refuse422"),
    observable("duplicateKeyName", "accept", "accept"),
    observable("unknownSshKey", "accept", "accept"),
    unobservable(
        "whitelistActive",
        "required",
        "optional",
        "a new whitelist entry could lock the account out",
    ),
    observable("commandUndelivered", "refuse422", "refuse422"),
    observable("commandBusy", "accept", "accept"),
    observable("commandOrder", "newestFirst", "newestFirst"),
    observable("commandKeys", "camel", "snake"),
    observable("commandType", "filter", "filter"),
    observable("updatePayload", "object", "emptyArray"),
    observable("reinstallBusy", "refuse409", "refuse409"),
    observable("reinstallUndelivered", "refuse422", "refuse422"),
    observable("reinstallSshKey", "optional", "required"),
    observable("usageOpenEnd", "now", "now"),
    observable("usageDates", "month", "month"),
    observable("bandwidthOut", "omit", "omit"),
    observable("hostStatus", "running", "running"),
    observable("hostPaging", "range", "range"),
    unobservable("installKey", "sshKeyId", "sshKeyUuid", NEEDS_HOST),
    unobservable("installKeyNeeded", "always", "linux", NEEDS_HOST),
    unobservable("installKernelParams", "text", "list", NEEDS_HOST),
    unobservable("installBusy", "refuse422", "refuse422", NEEDS_HOST),
    unobservable("factoryParams", "refuse422", "accept", NEEDS_HOST),
    unobservable(
        "resetLoggedIn",
        "accept",
        "accept",
        "a password reset would change the account's login",
    ),
];

/// What the drill observed of a switch.
#[derive(Debug)]
struct Observation {
    /// The switch's value, if the observation is one of its values.
    value: Option<&'static str>,
    details: String,
}

/// The observations so far.
#[derive(Debug, Default)]
pub(crate) struct Observations(BTreeMap<&'static str, Observation>);

impl Observations {
    /// Records an observation. The first observation with a value stays.
    pub(crate) fn record(
        &mut self,
        switch: &'static str,
        value: Option<&'static str>,
        details: impl Into<String>,
    ) {
        let is_known = self
            .0
            .get(switch)
            .is_some_and(|known| known.value.is_some());
        if !is_known {
            let details = details.into();
            self.0.insert(switch, Observation { value, details });
        }
    }

    /// Whether a value is known.
    pub(crate) fn has(&self, switch: &str) -> bool {
        self.0
            .get(switch)
            .is_some_and(|known| known.value.is_some())
    }

    /// One line of a Markdown table for each switch: name, value, profiles with this value, observation.
    pub(crate) fn table(&self) -> String {
        let mut text =
            String::from("| Switch | Value | Profile | Observation |\n|---|---|---|---|\n");
        for switch in SWITCHES {
            let observation = self.0.get(switch.name);
            let details = observation.map_or(switch.why_unobserved, |it| &it.details);
            let value = observation.and_then(|observation| observation.value);
            let profile = match value {
                None => "not observed",
                Some(value) if value == switch.document && value == switch.observed => {
                    "document and observed"
                }
                Some(value) if value == switch.document => "document",
                Some(value) if value == switch.observed => "observed",
                Some(_) => "neither",
            };
            let details = details.replace('|', "\\|");
            text.push_str(&format!(
                "| {} | {} | {profile} | {details} |\n",
                switch.name,
                value.unwrap_or("-")
            ));
        }
        text
    }

    /// The flags of a simulator with the observed values.
    pub(crate) fn simulator_flags(&self) -> String {
        let differing = SWITCHES.iter().filter_map(|switch| {
            let value = self.0.get(switch.name)?.value?;
            (value != switch.document).then(|| format!(" --switch {}={value}", switch.name))
        });
        differing.collect()
    }
}
