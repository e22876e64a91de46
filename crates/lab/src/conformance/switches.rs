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

/// A switch that a step of every complete drill probes.
const fn always_probed(
    name: &'static str,
    document: &'static str,
    observed: &'static str,
) -> Switch {
    let why_unobserved = "the drill did not get to this step";
    not_always_probed(name, document, observed, why_unobserved)
}

/// A switch that a complete drill may not probe, and why.
const fn not_always_probed(
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
    always_probed("stateView", "short", "long"),
    always_probed("singleAnswer", "array", "array"),
    always_probed("absentFields", "omit", "zero"),
    always_probed("idleMessage", "empty", "ok"),
    always_probed("addresses", "two", "two"),
    always_probed("wrongKey", "answer403", "answer403"),
    always_probed("resultsAbove50", "refuse422", "clamp"),
    always_probed("badRange", "refuse422", "ignore"),
    always_probed("listOrder", "oldestFirst", "oldestFirst"),
    always_probed("listFilters", "optional", "optional"),
    always_probed("unknownStatusFilter", "refuse422", "matchRecord"),
    not_always_probed(
        "creatingFilter",
        "waiting",
        "waiting",
        "the server showed no state between created and provisioning",
    ),
    always_probed("unknownFields", "refuse422", "refuse422"),
    always_probed("missingSshKey", "refuse422", "accept"),
    always_probed("publicKeys", "openssh", "openssh"),
    always_probed("catalogueNames", "exact", "caseless"),
    always_probed("ipxeScriptUrl", "enforce", "enforce"),
    always_probed("fileSystems", "any", "enforce"),
    always_probed("siderolinkApi", "optional", "required"),
    always_probed("unknownContract", "refuse422", "refuse422"),
    not_always_probed(
        "exhausted",
        "refuse422",
        "refuse422",
        "needs an order without stock; if it were accepted, a second server would cost money",
    ),
    not_always_probed(
        "releaseFailed",
        "refuse422",
        "refuse422",
        "the server was delivered; only a failed one shows it",
    ),
    not_always_probed(
        "releaseWhileWaiting",
        "accept",
        "accept",
        "a release before delivery would end the only server; a drill that stops before shows it",
    ),
    always_probed("releaseReleasing", "answer200", "answer200"),
    always_probed("releaseReleased", "refuse422", "refuse422"),
    always_probed("tagReleased", "accept", "accept"),
    always_probed("removeAbsentTag", "answer404", "answer404"),
    always_probed("addUnknownTag", "make", "make"),
    always_probed("unusedTags", "keep", "keep"),
    always_probed("deleteUsedTag", "detach", "detach"),
    always_probed("renameTag", "follow", "follow"),
    always_probed("duplicateTag", "refuse422", "refuse422"),
    always_probed("duplicateKeyName", "accept", "accept"),
    always_probed("unknownSshKey", "accept", "accept"),
    not_always_probed(
        "whitelistActive",
        "required",
        "optional",
        "a new whitelist entry could lock the account out",
    ),
    always_probed("commandUndelivered", "refuse422", "refuse422"),
    always_probed("commandBusy", "accept", "accept"),
    always_probed("commandOrder", "newestFirst", "newestFirst"),
    always_probed("commandKeys", "camel", "snake"),
    always_probed("commandType", "filter", "filter"),
    always_probed("updatePayload", "object", "emptyArray"),
    always_probed("reinstallBusy", "refuse409", "refuse409"),
    always_probed("reinstallUndelivered", "refuse422", "refuse422"),
    always_probed("reinstallSshKey", "optional", "required"),
    always_probed("usageOpenEnd", "now", "now"),
    always_probed("usageDates", "month", "month"),
    always_probed("bandwidthOut", "omit", "omit"),
    always_probed("hostStatus", "running", "running"),
    always_probed("hostPaging", "range", "range"),
    not_always_probed("installKey", "sshKeyId", "sshKeyUuid", NEEDS_HOST),
    not_always_probed("installKeyNeeded", "always", "linux", NEEDS_HOST),
    not_always_probed("installKernelParams", "text", "list", NEEDS_HOST),
    not_always_probed("installBusy", "refuse422", "refuse422", NEEDS_HOST),
    not_always_probed("factoryParams", "refuse422", "accept", NEEDS_HOST),
    not_always_probed(
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
