//! The table of refusals: which circumstance makes the API refuse which calls, and with what message.

use crate::{
    circumstances::*,
    operations::Operation::{self, *},
};

/// One refusal of one operation.
pub(crate) struct Case {
    pub(crate) operation: Operation,
    /// Rows of the API's page.
    pub(crate) ids: &'static [&'static str],
    pub(crate) why: &'static str,
    pub(crate) circumstance: Circumstance,
    pub(crate) status: u16,
    pub(crate) code: i64,
    /// Part of the message.
    pub(crate) message: &'static str,
    /// The blamed fields.
    pub(crate) fields: &'static [&'static str],
}

macro_rules! cases {
    ($($operations:ident $ids:tt $why:literal $circumstance:ident $status:literal $code:literal
        $message:literal $fields:tt)+) => {
        /// All refusals that a circumstance causes.
        pub(crate) fn cases() -> Vec<Case> {
            let mut cases = Vec::new();
            $(
                cases.extend($operations.to_operations().into_iter().map(|operation| Case {
                    operation,
                    ids: &$ids,
                    why: $why,
                    circumstance: $circumstance,
                    status: $status,
                    code: $code,
                    message: $message,
                    fields: &$fields,
                }));
            )+
            cases
        }
    };
}

/// One operation, or several.
trait Operations {
    fn to_operations(&self) -> Vec<Operation>;
}

impl Operations for Operation {
    fn to_operations(&self) -> Vec<Operation> {
        vec![*self]
    }
}

impl Operations for &[Operation] {
    fn to_operations(&self) -> Vec<Operation> {
        self.to_vec()
    }
}

/// All operations that need a key; the whitelist has its own rows.
struct WithKey;

impl Operations for WithKey {
    fn to_operations(&self) -> Vec<Operation> {
        let all = Operation::ALL.iter().copied();
        all.filter(|it| *it != Health).collect()
    }
}

const OF_WHITELIST: &[Operation] = &[
    Whitelist,
    AddToWhitelist,
    ChangeWhitelist,
    RemoveFromWhitelist,
];
const OF_API_KEY: &[Operation] = &[Whitelist, AddToWhitelist];
const OF_ENTRY: &[Operation] = &[ChangeWhitelist, RemoveFromWhitelist];
const OF_RESET: &[Operation] = &[ResetPassword, ValidateReset];
const OF_SERVER: &[Operation] = &[Server, Release, RootPassword];
const OF_SERVER_AS_WELL: &[Operation] = &[Reinstall, HardwareListing];
const OF_COMMAND: &[Operation] = &[Commands, SendCommand, Command];
const OF_SERVER_TAG: &[Operation] = &[AddTag, RemoveTag];
const OF_TAG: &[Operation] = &[Tag, RenameTag, DeleteTag];
const OF_HOST: &[Operation] = &[StartHost, StopHost, RestartHost, InstallHost, InstallLog];
const OF_SSH_KEY: &[Operation] = &[SshKey, DeleteSshKey];

cases! {
    // operations, rows, why, circumstance, status, code, message, fields
    WithKey       ["5-4"] "an unknown key" wrong_key 403 10_003 "Invalid credentials" []
    WithKey       ["5-5"] "an unknown key, told by 401" wrong_key_401 401 10_003 "Invalid credentials" []
    WithKey       ["5-3"] "another address" shut_out 403 10_003 "Invalid credentials" []
    OF_WHITELIST  ["4.1-10"] "an unknown key" wrong_key 403 10_003 "Invalid credentials" []

    OF_API_KEY    ["4.1-7"] "no such API key" no_api_key 404 10_001 "Entity not found" []
    OF_WHITELIST  ["5-6"] "an API key of somebody else" other_api_key 404 10_001 "Entity not found" []
    OF_ENTRY      ["4.1-8"] "no such entry" no_entry 404 10_001 "Entity not found" []
    InstanceTypes ["4.3-6"] "no such location" no_location 404 10_001 "Entity not found" []
    OF_SERVER     ["4.4-28"] "no such server" no_server 404 10_001 "Entity not found" []
    OF_SERVER     ["5-6"] "a server of somebody else" other_server 404 10_001 "Entity not found" []
    OF_SERVER_AS_WELL ["4.4-29"] "no such server" no_server 404 10_001 "Entity not found" []
    OF_SERVER_AS_WELL ["5-6"] "a server of somebody else" other_server 404 10_001 "Entity not found" []
    RootPassword  ["4.4-27"] "no Windows" linux_for_windows 404 10_001 "Entity not found" []
    RootPassword  ["4.4-27"] "a day is over" a_day_later 404 10_001 "Entity not found" []
    OF_COMMAND    ["4.5-8"] "no such server" no_server 404 10_001 "Entity not found" []
    OF_COMMAND    ["5-6"] "a server of somebody else" other_server 404 10_001 "Entity not found" []
    Command       ["4.5-8"] "no such command" no_command 404 10_001 "Entity not found" []
    OF_TAG        ["4.6-12"] "no such tag" no_tag 404 10_001 "Entity not found" []
    OF_SERVER_TAG ["4.4-28", "4.6-17"] "no such server" no_server 404 10_001 "Entity not found" []
    OF_SERVER_TAG ["5-6"] "a server of somebody else" other_server 404 10_001 "Entity not found" []
    RemoveTag     ["4.6-21"] "a tag that it does not bear" tag_not_on_server 404 10_001 "Entity not found" []
    OF_HOST       ["4.8-15"] "no such host" no_host 404 10_001 "Entity not found" []
    Host          ["4.8-27"] "no such host" no_host 404 10_001 "Entity not found" []
    Hosts         ["4.8-28"] "labels that cannot be read" labels_of_no_language 422 10_004 "Validation failed" ["labels"]
    OF_SSH_KEY    ["4.8-25"] "no such key" no_ssh_key 404 10_001 "Entity not found" []

    ChangePassword ["4.2-3"] "a wrong password" wrong_password 401 10_003 "Invalid credentials" []
    ChangePassword ["4.2-4"] "five attempts before" five_attempts 429 10_008 "Too many" []
    ValidateReset  ["4.2-10"] "a wrong hash" wrong_hash 403 10_003 "Invalid credentials" []
    OF_RESET       ["4.2-7"] "logged in" logged_in 422 10_005 "already logged in" []

    Servers ["4.4-8"] "no filter" filters_required 422 10_004 "Validation failed" ["status"]
    Order   ["4.4-12"] "no such place" order_to_nowhere 422 10_004 "Validation failed" ["location"]
    Order   ["4.4-12"] "nothing of it exists" order_of_nothing 422 10_004 "Validation failed" ["instanceType", "os.slug"]
    Order   ["4.4-13"] "quota used up" no_quota 422 10_006 "Validation failed" ["instanceType"]
    Order   ["4.4-13"] "none in stock" no_stock 422 10_006 "Validation failed" ["instanceType"]
    Order   ["7-10"] "quota used up, told by 409" no_quota_409 409 10_006 "quota is used up" []
    Order   ["4.4-14"] "no such contract" no_contract 422 10_004 "Validation failed" ["contractId"]

    Reinstall   ["4.4-19"] "not delivered" not_delivered 422 10_005 "not delivered" []
    Reinstall   ["4.4-19"] "no such system" reinstall_nothing 422 10_004 "Validation failed" ["os.slug"]
    Reinstall   ["4.4-20"] "being installed" being_installed 409 10_005 "being installed" []
    SendCommand ["4.5-9"] "not delivered" not_delivered 422 10_005 "not delivered" []
    SendCommand ["4.5-10"] "being installed" being_installed 409 10_005 "being installed" []
    Release     ["4.4-22"] "failed" failed 422 10_005 "cannot be released" []
    Release     ["4.4-24"] "released" released 422 10_005 "already released" []

    CreateTag ["4.6-20"] "the tag exists" new_tag_exists 422 10_005 "already exists" []
    RenameTag ["4.6-7"] "the name exists" new_tag_exists 409 10_005 "already exists" []
    RenameTag ["4.6-23"] "its own name" tags_own_name 409 10_005 "already exists" []
    AddTag    ["4.6-18"] "sixty tags" sixty_tags 422 10_004 "Validation failed" ["tag"]

    InstallHost ["4.8-16"] "no such system" install_nothing 422 10_004 "Validation failed" ["os.id"]
    InstallHost ["3.3-2"] "another one is under way" installing 422 10_005 "being installed" []
    InstallHost ["4.8-17"] "an on-demand server" on_demand_host 422 10_005 "installed by PATCH" []
}
