//! What the document leaves open, as named switches with a value in each profile.

use serde::Serialize;

use super::options::Profile;

/// Why a switch has the value it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Origin {
    /// The document says so (the `document` profile follows its letter).
    Documented,
    /// Real clients of the API see or rely on it.
    Seen,
    /// Not known; this is our reading.
    OurChoice,
}

/// One switch as `/_simulator/switches` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    name: &'static str,
    value: &'static str,
    values: Vec<&'static str>,
    document: &'static str,
    observed: &'static str,
    origin: Origin,
    about: &'static str,
}

/// A switch or a value that does not exist.
#[derive(Debug, thiserror::Error)]
pub enum UnknownSwitch {
    /// No switch has this name.
    #[error("there is no switch {0:?}")]
    Name(String),
    /// The switch exists, the value does not.
    #[error("switch {name} has no value {value:?}, only {known}")]
    Value {
        /// The switch.
        name: &'static str,
        /// What was asked for.
        value: String,
        /// The known values, separated by commas.
        known: String,
    },
}

/// Declares every switch once: its type, its words, both profiles and its row.
macro_rules! switches {
    ($($field:ident $name:literal $kind:ident { $($word:ident = $text:literal),+ $(,)? }
       $document:ident | $observed:ident, $origin:ident, $about:literal;)+) => {
        $(
            #[doc = $about]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub(crate) enum $kind { $(#[doc = $text] $word),+ }

            impl $kind {
                const WORDS: &'static [(&'static str, Self)] = &[$(($text, Self::$word)),+];

                fn word(self) -> &'static str {
                    match self { $(Self::$word => $text),+ }
                }
            }
        )+

        /// The value of every switch.
        #[derive(Clone, Debug)]
        pub(crate) struct Switches {
            $(#[doc = $about] pub(crate) $field: $kind,)+
        }

        impl Switches {
            /// All switches as the profile has them.
            pub(crate) fn of(profile: Profile) -> Self {
                match profile {
                    Profile::Document => Self { $($field: $kind::$document,)+ },
                    Profile::Observed => Self { $($field: $kind::$observed,)+ },
                }
            }

            /// Sets one switch.
            ///
            /// # Errors
            /// When no such switch or value exists.
            pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), UnknownSwitch> {
                match name {
                    $($name => {
                        let found = $kind::WORDS.iter().find(|(word, _)| *word == value);
                        let (_, kind) = found.ok_or_else(|| UnknownSwitch::Value {
                            name: $name,
                            value: value.to_owned(),
                            known: $kind::WORDS.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "),
                        })?;
                        self.$field = *kind;
                        Ok(())
                    })+
                    _ => Err(UnknownSwitch::Name(name.to_owned())),
                }
            }

            /// All switches with their values and where those come from.
            pub(crate) fn rows(&self) -> Vec<Row> {
                vec![$(Row {
                    name: $name,
                    value: self.$field.word(),
                    values: $kind::WORDS.iter().map(|(word, _)| *word).collect(),
                    document: $kind::$document.word(),
                    observed: $kind::$observed.word(),
                    origin: Origin::$origin,
                    about: $about,
                }),+]
            }
        }
    };
}

// Each line: field "name" Type { values } document | observed, origin, meaning.
switches! {
    state_view "stateView" StateView { Short = "short", Long = "long" }
        Short | Long, Documented, "States on the way to delivered: only created, or the whole pipeline.";
    single_answer "singleAnswer" SingleAnswer { Array = "array", Object = "object" }
        Array | Array, Documented, "A single record comes in an array of one, or bare.";
    absent_fields "absentFields" AbsentFields { Omit = "omit", Zero = "zero" }
        Omit | Zero, Documented, "deliveredAt, releasedAt and contractId without a value: left out, or 0 and empty.";
    idle_message "idleMessage" IdleMessage { Empty = "empty", Ok = "ok", Null = "null" }
        Empty | Ok, Seen, "statusMessage of a server that has not failed: empty, OK, or null.";
    addresses "addresses" Addresses { Two = "two", One = "one", None = "none" }
        Two | Two, Seen, "Addresses of a delivered server: IPv4 and IPv6, IPv4 alone, or none.";
    wrong_key "wrongKey" WrongKey { Answer403 = "answer403", Answer401 = "answer401" }
        Answer403 | Answer403, Seen, "Answer to a missing, unknown or revoked key.";
    results_above_50 "resultsAbove50" ResultsAbove50 { Refuse422 = "refuse422", Clamp = "clamp" }
        Refuse422 | Clamp, OurChoice, "RANGED-DATA asks for a longer page than the limit.";
    bad_range "badRange" BadRange { Refuse422 = "refuse422", Ignore = "ignore" }
        Refuse422 | Ignore, OurChoice, "RANGED-DATA cannot be read, or asks for 0 results.";
    list_order "listOrder" ListOrder { OldestFirst = "oldestFirst", NewestFirst = "newestFirst" }
        OldestFirst | OldestFirst, OurChoice, "Order of the server list.";
    list_filters "listFilters" ListFilters { Optional = "optional", Required = "required" }
        Optional | Optional, Documented, "Whether status and tag must be given to list servers.";
    unknown_status_filter "unknownStatusFilter" UnknownStatusFilter { Refuse422 = "refuse422", MatchRecord = "matchRecord" }
        Refuse422 | MatchRecord, OurChoice, "A status filter outside the documented six: refused, or compared with the record's status.";
    creating_filter "creatingFilter" CreatingFilter { Waiting = "waiting", Created = "created" }
        Waiting | Waiting, OurChoice, "The status filter creating: all that comes before provisioning, or only created; provisioning has the rest.";
    unknown_fields "unknownFields" UnknownFields { Refuse422 = "refuse422", Ignore = "ignore" }
        Refuse422 | Refuse422, Documented, "A field of a request body that the API does not name.";
    missing_ssh_key "missingSshKey" MissingSshKey { Refuse422 = "refuse422", Accept = "accept" }
        Refuse422 | Accept, Documented, "An order without sshKey, or with null there.";
    public_keys "publicKeys" PublicKeys { OpenSsh = "openssh", Any = "any" }
        OpenSsh | OpenSsh, OurChoice, "What an sshKey entry that is no UUID must look like.";
    catalogue_names "catalogueNames" CatalogueNames { Exact = "exact", Caseless = "caseless" }
        Exact | Caseless, OurChoice, "Spelling of location and instanceType in an order; the answer has the catalogue's spelling.";
    ipxe_url "ipxeScriptUrl" IpxeUrl { Enforce = "enforce", Ignore = "ignore" }
        Enforce | Enforce, Seen, "os.ipxeScriptUrl is required by custom-ipxe, and refused elsewhere.";
    file_systems "fileSystems" FileSystems { Any = "any", Enforce = "enforce" }
        Any | Enforce, Seen, "os.partitions[].filesystem: any word, or only ext2, ext3, ext4, xfs and swap.";
    siderolink_api "siderolinkApi" SiderolinkApi { Optional = "optional", Required = "required" }
        Optional | Required, Seen, "The kernel parameter siderolink.api in an order or re-installation of the Kubernetes-focused system.";
    unknown_contract "unknownContract" UnknownContract { Refuse422 = "refuse422", OnDemand = "onDemand" }
        Refuse422 | Refuse422, OurChoice, "An order on a contract that has no quota here.";
    exhausted "exhausted" Exhausted { Refuse422 = "refuse422", Refuse409 = "refuse409" }
        Refuse422 | Refuse422, OurChoice, "Quota used up, or nothing in stock.";
    release_failed "releaseFailed" ReleaseFailed { Refuse422 = "refuse422", Accept = "accept" }
        Refuse422 | Refuse422, Seen, "DELETE of a failed server.";
    release_waiting "releaseWhileWaiting" ReleaseWaiting { Accept = "accept", Refuse409 = "refuse409", Refuse422 = "refuse422" }
        Accept | Accept, OurChoice, "DELETE before the server is delivered.";
    release_releasing "releaseReleasing" ReleaseReleasing { Answer200 = "answer200", Refuse409 = "refuse409" }
        Answer200 | Answer200, OurChoice, "DELETE of a server that is being released.";
    release_released "releaseReleased" ReleaseReleased { Refuse422 = "refuse422", Answer200 = "answer200" }
        Refuse422 | Refuse422, OurChoice, "DELETE of a released server.";
    tag_released "tagReleased" TagReleased { Accept = "accept", Refuse422 = "refuse422" }
        Accept | Accept, OurChoice, "Adding a tag to, or removing it from, a released server.";
    remove_absent_tag "removeAbsentTag" RemoveAbsentTag { Answer404 = "answer404", Answer200 = "answer200" }
        Answer404 | Answer404, OurChoice, "Removing a tag that the server does not have.";
    add_unknown_tag "addUnknownTag" AddUnknownTag { Make = "make", Refuse404 = "refuse404" }
        Make | Make, OurChoice, "Adding a tag that the account does not have to a server: makes it, or no such tag.";
    unused_tags "unusedTags" UnusedTags { Keep = "keep", Drop = "drop" }
        Keep | Keep, OurChoice, "A tag that no server has any more stays in the account's list, or leaves it.";
    delete_used_tag "deleteUsedTag" DeleteUsedTag { Detach = "detach", Keep = "keep", Refuse409 = "refuse409" }
        Detach | Detach, OurChoice, "DELETE of a tag that servers have: they lose it, keep it, or it is refused.";
    rename_tag "renameTag" RenameTag { Follow = "follow", Detach = "detach", Keep = "keep" }
        Follow | Follow, OurChoice, "PUT of a tag that servers have: they get the new name, none, or still the old one.";
    duplicate_tag "duplicateTag" DuplicateTag { Refuse422 = "refuse422", Refuse409 = "refuse409", Answer200 = "answer200" }
        Refuse422 | Refuse422, OurChoice, "POST of a tag that exists.";
    duplicate_key_name "duplicateKeyName" DuplicateKeyName { Accept = "accept", Refuse422 = "refuse422" }
        Accept | Accept, OurChoice, "A second SSH key of the same name.";
    unknown_ssh_key "unknownSshKey" UnknownSshKey { Accept = "accept", Refuse422 = "refuse422" }
        Accept | Accept, OurChoice, "An order, a re-installation or an installation of a host that names a key UUID which is not stored.";
    whitelist_active "whitelistActive" WhitelistActive { Required = "required", Optional = "optional" }
        Required | Optional, Documented, "active in a whitelist entry: must be sent, or is 1 when left out.";
    command_undelivered "commandUndelivered" CommandUndelivered { Refuse422 = "refuse422", Accept = "accept" }
        Refuse422 | Refuse422, Seen, "A command to a server that is not delivered.";
    command_busy "commandBusy" CommandBusy { Accept = "accept", Refuse409 = "refuse409" }
        Accept | Accept, OurChoice, "A command while another one is pending.";
    command_order "commandOrder" CommandOrder { NewestFirst = "newestFirst", OldestFirst = "oldestFirst" }
        NewestFirst | NewestFirst, Seen, "Order of a server's commands.";
    command_keys "commandKeys" CommandKeys { Camel = "camel", Snake = "snake" }
        Camel | Snake, Documented, "Keys of a command's record: serverUuid and createdAt, or server_uuid and created_at.";
    command_type "commandType" CommandType { Filter = "filter", Ignore = "ignore" }
        Filter | Filter, Seen, "The query type of the command list: only those, or no effect.";
    update_payload "updatePayload" UpdatePayload { Object = "object", EmptyArray = "emptyArray", Null = "null" }
        Object | EmptyArray, Seen, "payload of the command that a re-installation makes.";
    reinstall_busy "reinstallBusy" ReinstallBusy { Refuse409 = "refuse409", Accept = "accept" }
        Refuse409 | Refuse409, OurChoice, "A re-installation while another one is pending.";
    reinstall_undelivered "reinstallUndelivered" ReinstallUndelivered { Refuse422 = "refuse422", Refuse409 = "refuse409" }
        Refuse422 | Refuse422, OurChoice, "A re-installation of a server that is not delivered.";
    reinstall_ssh_key "reinstallSshKey" ReinstallSshKey { Optional = "optional", Required = "required" }
        Optional | Required, Seen, "sshKey in a re-installation that names an os other than Windows and Talos.";
    usage_open_end "usageOpenEnd" UsageOpenEnd { Now = "now", Null = "null" }
        Now | Now, OurChoice, "endedAt of usage that goes on: the present moment, or null.";
    usage_dates "usageDates" UsageDates { Month = "month", All = "all" }
        Month | Month, OurChoice, "Usage without dates: the present month, or everything so far.";
    bandwidth_out "bandwidthOut" BandwidthOut { Omit = "omit", Show = "show" }
        Omit | Omit, Seen, "bandwidthOut in usage records.";
    host_status "hostStatus" HostStatus { Running = "running", On = "on", Active = "active" }
        Running | Running, OurChoice, "Words for a host's power: running and stopped, on and off, or active whether it runs or not.";
    host_paging "hostPaging" HostPaging { Range = "range", Token = "token" }
        Range | Range, OurChoice, "Pages of hosts: RANGED-DATA alone, or PAGE-TOKEN headers too.";
    install_key "installKey" InstallKey { SshKeyId = "sshKeyId", SshKeyUuid = "sshKeyUuid", Both = "both" }
        SshKeyId | SshKeyUuid, Documented, "Name of the SSH key in an installation of a host.";
    install_key_needed "installKeyNeeded" InstallKeyNeeded { Always = "always", Linux = "linux" }
        Always | Linux, Documented, "Who has to name an SSH key in an installation: all, or only Linux.";
    install_kernel_params "installKernelParams" InstallKernelParams { Text = "text", List = "list", Both = "both" }
        Text | List, Documented, "os.kernelParams of an installation: one text, or a list of key and value.";
    install_busy "installBusy" InstallBusy { Refuse422 = "refuse422", Accept = "accept" }
        Refuse422 | Refuse422, OurChoice, "An installation while another one goes on.";
    factory_params "factoryParams" FactoryParams { Refuse422 = "refuse422", Accept = "accept" }
        Refuse422 | Accept, OurChoice, "Further kernel parameters beside factoryhash in an installation: a breach, or only unwise.";
    reset_logged_in "resetLoggedIn" ResetLoggedIn { Accept = "accept", Refuse422 = "refuse422" }
        Accept | Accept, Documented, "A password reset by somebody whose key is valid: fine, or already logged in.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_differ_in_observed_behaviour() {
        let document = Switches::of(Profile::Document);
        let observed = Switches::of(Profile::Observed);
        assert_eq!(document.missing_ssh_key, MissingSshKey::Refuse422);
        assert_eq!(observed.missing_ssh_key, MissingSshKey::Accept);
        assert_eq!(document.results_above_50, ResultsAbove50::Refuse422);
        assert_eq!(observed.results_above_50, ResultsAbove50::Clamp);
        assert_eq!(document.state_view, StateView::Short);
        assert_eq!(observed.state_view, StateView::Long);
    }

    #[test]
    fn a_switch_is_turned_by_name_and_word() {
        let mut switches = Switches::of(Profile::Document);
        switches.set("wrongKey", "answer401").unwrap();
        assert_eq!(switches.wrong_key, WrongKey::Answer401);
        assert!(matches!(
            switches.set("wrongkey", "answer401"),
            Err(UnknownSwitch::Name(_))
        ));
        let error = switches.set("wrongKey", "answer418").unwrap_err();
        assert_eq!(
            error.to_string(),
            "switch wrongKey has no value \"answer418\", only answer403, answer401"
        );
    }

    #[test]
    fn simulator_page_lists_every_switch_value() {
        let page = include_str!("../../../docs/contributing/simulator.md");
        for row in Switches::of(Profile::Document).rows() {
            let line = format!("| `{}` |", row.name);
            let found = page.lines().find(|text| text.starts_with(&line));
            let text = found.unwrap_or_else(|| panic!("{} is not on the page", row.name));
            for value in &row.values {
                assert!(text.contains(value), "{} lacks {value}", row.name);
            }
        }
    }
}
