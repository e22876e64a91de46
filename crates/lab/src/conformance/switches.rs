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
    obstacle: &'static str,
}

/// A switch that a step of the drill observes.
const fn seen(name: &'static str, document: &'static str, observed: &'static str) -> Switch {
    let obstacle = "the drill did not get to this step";
    unseen(name, document, observed, obstacle)
}

/// A switch that a complete drill does not observe.
const fn unseen(
    name: &'static str,
    document: &'static str,
    observed: &'static str,
    obstacle: &'static str,
) -> Switch {
    Switch {
        name,
        document,
        observed,
        obstacle,
    }
}

const NEEDS_HOST: &str = "needs a dedicated host, which the drill never changes";

/// All switches, in the simulator's order.
pub(crate) const SWITCHES: &[Switch] = &[
    seen("stateView", "short", "long"),
    seen("singleAnswer", "array", "array"),
    seen("absentFields", "omit", "zero"),
    seen("idleMessage", "empty", "ok"),
    seen("addresses", "two", "two"),
    seen("wrongKey", "answer403", "answer403"),
    seen("resultsAbove50", "refuse422", "clamp"),
    seen("badRange", "refuse422", "ignore"),
    seen("listOrder", "oldestFirst", "oldestFirst"),
    seen("listFilters", "optional", "optional"),
    seen("unknownStatusFilter", "refuse422", "matchRecord"),
    unseen(
        "creatingFilter",
        "waiting",
        "waiting",
        "the server showed no state between created and provisioning",
    ),
    seen("unknownFields", "refuse422", "refuse422"),
    seen("missingSshKey", "refuse422", "accept"),
    seen("publicKeys", "openssh", "openssh"),
    seen("catalogueNames", "exact", "caseless"),
    seen("ipxeScriptUrl", "enforce", "enforce"),
    seen("fileSystems", "any", "enforce"),
    seen("siderolinkApi", "optional", "required"),
    seen("unknownContract", "refuse422", "refuse422"),
    unseen(
        "exhausted",
        "refuse422",
        "refuse422",
        "needs an order without stock; if it were accepted, a second server would cost money",
    ),
    unseen(
        "releaseFailed",
        "refuse422",
        "refuse422",
        "the server was delivered; only a failed one shows it",
    ),
    unseen(
        "releaseWhileWaiting",
        "accept",
        "accept",
        "a release before delivery would end the only server; an interrupted drill shows it",
    ),
    seen("releaseReleasing", "answer200", "answer200"),
    seen("releaseReleased", "refuse422", "refuse422"),
    seen("tagReleased", "accept", "accept"),
    seen("removeAbsentTag", "answer404", "answer404"),
    seen("addUnknownTag", "make", "make"),
    seen("unusedTags", "keep", "keep"),
    seen("deleteUsedTag", "detach", "detach"),
    seen("renameTag", "follow", "follow"),
    seen("duplicateTag", "refuse422", "refuse422"),
    seen("duplicateKeyName", "accept", "accept"),
    seen("unknownSshKey", "accept", "accept"),
    unseen(
        "whitelistActive",
        "required",
        "optional",
        "a new whitelist entry could lock the account out",
    ),
    seen("commandUndelivered", "refuse422", "refuse422"),
    seen("commandBusy", "accept", "accept"),
    seen("commandOrder", "newestFirst", "newestFirst"),
    seen("commandKeys", "camel", "snake"),
    seen("commandType", "filter", "filter"),
    seen("updatePayload", "object", "emptyArray"),
    seen("reinstallBusy", "refuse409", "refuse409"),
    seen("reinstallUndelivered", "refuse422", "refuse422"),
    seen("reinstallSshKey", "optional", "required"),
    seen("usageOpenEnd", "now", "now"),
    seen("usageDates", "month", "month"),
    seen("bandwidthOut", "omit", "omit"),
    seen("hostStatus", "running", "running"),
    seen("hostPaging", "range", "range"),
    unseen("installKey", "sshKeyId", "sshKeyUuid", NEEDS_HOST),
    unseen("installKeyNeeded", "always", "linux", NEEDS_HOST),
    unseen("installKernelParams", "text", "list", NEEDS_HOST),
    unseen("installBusy", "refuse422", "refuse422", NEEDS_HOST),
    unseen("factoryParams", "refuse422", "accept", NEEDS_HOST),
    unseen(
        "resetLoggedIn",
        "accept",
        "accept",
        "a password reset would change the account's login",
    ),
];

/// What was seen of a switch.
#[derive(Debug)]
struct Observation {
    /// The switch's value, if what was seen is one of its values.
    value: Option<&'static str>,
    seen: String,
}

/// The observations so far.
#[derive(Debug, Default)]
pub(crate) struct Observations(BTreeMap<&'static str, Observation>);

impl Observations {
    /// Records what was seen of a switch. The first observation with a value stays.
    pub(crate) fn record(
        &mut self,
        switch: &'static str,
        value: Option<&'static str>,
        seen: impl Into<String>,
    ) {
        let is_known = self
            .0
            .get(switch)
            .is_some_and(|known| known.value.is_some());
        if !is_known {
            let seen = seen.into();
            self.0.insert(switch, Observation { value, seen });
        }
    }

    /// Whether a value is known.
    pub(crate) fn has(&self, switch: &str) -> bool {
        self.0
            .get(switch)
            .is_some_and(|known| known.value.is_some())
    }

    /// One line of a Markdown table for each switch: name, value, profiles with this value, what was seen.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from("| Switch | Value | Profile | Seen |\n|---|---|---|---|\n");
        for switch in SWITCHES {
            let observation = self.0.get(switch.name);
            let seen = observation.map_or(switch.obstacle, |observation| &observation.seen);
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
            let seen = seen.replace('|', "\\|");
            text.push_str(&format!(
                "| {} | {} | {profile} | {seen} |\n",
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
