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

/// A switch that a step of every complete drill observes.
const fn observed_by_every_drill(
    name: &'static str,
    document: &'static str,
    observed: &'static str,
) -> Switch {
    let why_unobserved = "the drill did not get to this step";
    observed_by_some_drills(name, document, observed, why_unobserved)
}

/// A switch that a complete drill does not always observe, and why.
const fn observed_by_some_drills(
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
    observed_by_every_drill("stateView", "short", "long"),
    observed_by_every_drill("singleAnswer", "array", "array"),
    observed_by_every_drill("absentFields", "omit", "zero"),
    observed_by_every_drill("idleMessage", "empty", "ok"),
    observed_by_every_drill("addresses", "two", "two"),
    observed_by_every_drill("wrongKey", "answer403", "answer403"),
    observed_by_every_drill("resultsAbove50", "refuse422", "clamp"),
    observed_by_every_drill("badRange", "refuse422", "ignore"),
    observed_by_every_drill("listOrder", "oldestFirst", "oldestFirst"),
    observed_by_every_drill("listFilters", "optional", "optional"),
    observed_by_every_drill("unknownStatusFilter", "refuse422", "matchRecord"),
    observed_by_some_drills(
        "creatingFilter",
        "waiting",
        "waiting",
        "the server showed no state between created and provisioning",
    ),
    observed_by_every_drill("unknownFields", "refuse422", "refuse422"),
    observed_by_every_drill("missingSshKey", "refuse422", "accept"),
    observed_by_every_drill("publicKeys", "openssh", "openssh"),
    observed_by_every_drill("catalogueNames", "exact", "caseless"),
    observed_by_every_drill("ipxeScriptUrl", "enforce", "enforce"),
    observed_by_every_drill("fileSystems", "any", "enforce"),
    observed_by_every_drill("siderolinkApi", "optional", "required"),
    observed_by_every_drill("unknownContract", "refuse422", "refuse422"),
    observed_by_some_drills(
        "exhausted",
        "refuse422",
        "refuse422",
        "needs an order without stock; if it were accepted, a second server would cost money",
    ),
    observed_by_some_drills(
        "releaseFailed",
        "refuse422",
        "refuse422",
        "the server was delivered; only a failed one shows it",
    ),
    observed_by_some_drills(
        "releaseWhileWaiting",
        "accept",
        "accept",
        "a release before delivery would end the only server; a drill that stops before shows it",
    ),
    observed_by_every_drill("releaseReleasing", "answer200", "answer200"),
    observed_by_every_drill("releaseReleased", "refuse422", "refuse422"),
    observed_by_every_drill("tagReleased", "accept", "accept"),
    observed_by_every_drill("removeAbsentTag", "answer404", "answer404"),
    observed_by_every_drill("addUnknownTag", "make", "make"),
    observed_by_every_drill("unusedTags", "keep", "keep"),
    observed_by_every_drill("deleteUsedTag", "detach", "detach"),
    observed_by_every_drill("renameTag", "follow", "follow"),
    observed_by_every_drill("duplicateTag", "refuse422", "refuse422"),
    observed_by_every_drill("duplicateKeyName", "accept", "accept"),
    observed_by_every_drill("unknownSshKey", "accept", "accept"),
    observed_by_some_drills(
        "whitelistActive",
        "required",
        "optional",
        "a new whitelist entry could lock the account out",
    ),
    observed_by_every_drill("commandUndelivered", "refuse422", "refuse422"),
    observed_by_every_drill("commandBusy", "accept", "accept"),
    observed_by_every_drill("commandOrder", "newestFirst", "newestFirst"),
    observed_by_every_drill("commandKeys", "camel", "snake"),
    observed_by_every_drill("commandType", "filter", "filter"),
    observed_by_every_drill("updatePayload", "object", "emptyArray"),
    observed_by_every_drill("reinstallBusy", "refuse409", "refuse409"),
    observed_by_every_drill("reinstallUndelivered", "refuse422", "refuse422"),
    observed_by_every_drill("reinstallSshKey", "optional", "required"),
    observed_by_every_drill("usageOpenEnd", "now", "now"),
    observed_by_every_drill("usageDates", "month", "month"),
    observed_by_every_drill("bandwidthOut", "omit", "omit"),
    observed_by_every_drill("hostStatus", "running", "running"),
    observed_by_every_drill("hostPaging", "range", "range"),
    observed_by_some_drills("installKey", "sshKeyId", "sshKeyUuid", NEEDS_HOST),
    observed_by_some_drills("installKeyNeeded", "always", "linux", NEEDS_HOST),
    observed_by_some_drills("installKernelParams", "text", "list", NEEDS_HOST),
    observed_by_some_drills("installBusy", "refuse422", "refuse422", NEEDS_HOST),
    observed_by_some_drills("factoryParams", "refuse422", "accept", NEEDS_HOST),
    observed_by_some_drills(
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
        if !self.has_value(switch) {
            let details = details.into();
            self.0.insert(switch, Observation { value, details });
        }
    }

    /// Whether a value is known.
    pub(crate) fn has_value(&self, switch: &str) -> bool {
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
