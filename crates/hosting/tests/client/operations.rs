//! The table of operations: each public call of the client, its kind, and the request that it makes.

/// What a call does to the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Change,
    Order,
}

/// What a good answer contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// 204.
    Nothing,
    /// A record that the call reads.
    Record,
    /// A record that the call does not need.
    Unread,
    /// All records at once.
    List,
    /// Records by pages.
    Paged,
}

macro_rules! operations {
    ($($name:ident $call:literal $kind:ident $body:ident $method:literal $path:literal)+) => {
        /// One operation of the client.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Operation {
            $($name,)+
        }

        impl Operation {
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name of the client's method.
            pub(crate) fn call_name(self) -> &'static str {
                match self {
                    $(Self::$name => $call,)+
                }
            }

            pub(crate) fn kind(self) -> Kind {
                match self {
                    $(Self::$name => Kind::$kind,)+
                }
            }

            pub(crate) fn body(self) -> Body {
                match self {
                    $(Self::$name => Body::$body,)+
                }
            }

            pub(crate) fn method(self) -> &'static str {
                match self {
                    $(Self::$name => $method,)+
                }
            }

            /// The path with its variable parts named, as on the page.
            pub(crate) fn template(self) -> &'static str {
                match self {
                    $(Self::$name => $path,)+
                }
            }
        }
    };
}

impl Operation {
    /// Whether it is idempotent.
    pub(crate) fn is_idempotent(self) -> bool {
        let same_twice = [
            Self::ChangeWhitelist,
            Self::RemoveFromWhitelist,
            Self::Release,
            Self::DeleteTag,
            Self::AddTag,
            Self::RemoveTag,
            Self::DeleteSshKey,
        ];
        self.kind() == Kind::Read || same_twice.contains(&self)
    }

    /// Whether it starts something that can fail later.
    pub(crate) fn begins(self) -> bool {
        use Operation as O;
        [O::Order, O::Reinstall, O::SendCommand, O::InstallHost].contains(&self)
    }

    /// Whether its answer can show a previous state.
    pub(crate) fn is_dated(self) -> bool {
        let lists = [Self::Servers, Self::Tags, Self::Commands, Self::Hosts];
        let records = [Self::Server, Self::Tag, Self::Command, Self::InstallLog];
        lists.contains(&self) || records.contains(&self)
    }
}

operations! {
    Whitelist "whitelist" Read Paged "GET" "/v3/account/apiKey/{apiKeyId}/whitelist"
    AddToWhitelist "add_to_whitelist" Change Record "POST" "/v3/account/apiKey/{apiKeyId}/whitelist"
    ChangeWhitelist "change_whitelist" Change Record "PUT" "/v3/account/apiKey/{apiKeyId}/whitelist/{apiKeyWhitelistId}"
    RemoveFromWhitelist "remove_from_whitelist" Change Nothing "DELETE" "/v3/account/apiKey/{apiKeyId}/whitelist/{apiKeyWhitelistId}"
    ChangePassword "change_password" Change Nothing "PUT" "/v3/account/password"
    ResetPassword "reset_password" Change Nothing "POST" "/v3/account/password/reset"
    ValidateReset "validate_password_reset" Change Nothing "PUT" "/v3/account/password/reset/validate"
    Locations "locations" Read List "GET" "/v3/flexMetal/location"
    InstanceTypes "instance_types" Read List "GET" "/v3/flexMetal/location/{locationId}/instanceTypes"
    Plans "plans" Read List "GET" "/v3/flexMetal/plans"
    Servers "servers" Read Paged "GET" "/v3/flexMetal/servers"
    Order "order" Order Record "POST" "/v3/flexMetal/servers"
    Server "server" Read Record "GET" "/v3/flexMetal/servers/{uuid}"
    Reinstall "reinstall" Change Record "PATCH" "/v3/flexMetal/servers/{uuid}"
    Release "release" Change Record "DELETE" "/v3/flexMetal/servers/{uuid}"
    HardwareListing "hardware_listing" Read Record "GET" "/v3/flexMetal/servers/{uuid}/lshw"
    RootPassword "root_password" Read Record "GET" "/v3/flexMetal/servers/{uuid}/rootPassword"
    Commands "commands" Read Paged "GET" "/v3/flexMetal/servers/{uuid}/commands"
    SendCommand "send_command" Change Record "POST" "/v3/flexMetal/servers/{uuid}/commands"
    Command "command" Read Record "GET" "/v3/flexMetal/servers/{uuid}/commands/{commandUuid}"
    Tags "tags" Read Paged "GET" "/v3/flexMetal/tags"
    CreateTag "create_tag" Change Record "POST" "/v3/flexMetal/tags"
    Tag "tag" Read Record "GET" "/v3/flexMetal/tags/{tag}"
    RenameTag "rename_tag" Change Record "PUT" "/v3/flexMetal/tags/{tag}"
    DeleteTag "delete_tag" Change Nothing "DELETE" "/v3/flexMetal/tags/{tag}"
    AddTag "add_tag" Change Record "POST" "/v3/flexMetal/servers/{uuid}/tag/{tag}"
    RemoveTag "remove_tag" Change Record "DELETE" "/v3/flexMetal/servers/{uuid}/tag/{tag}"
    QuotaUsage "quota_usage" Read List "GET" "/v3/flexMetal/quota/usage"
    Usage "usage" Read List "GET" "/v3/flexMetal/usage"
    CapacityCommits "capacity_commits" Read List "GET" "/v3/flexMetal/capacity/commit"
    Hosts "hosts" Read Paged "GET" "/v3/host"
    Host "host" Read Record "GET" "/v3/host/{hostId}"
    StartHost "start_host" Change Unread "PUT" "/v3/host/{hostId}/start"
    StopHost "stop_host" Change Unread "PUT" "/v3/host/{hostId}/stop"
    RestartHost "restart_host" Change Unread "PUT" "/v3/host/{hostId}/restart"
    InstallHost "install_host" Change Unread "POST" "/v3/host/{hostId}/os/install"
    InstallLog "install_log" Read Paged "GET" "/v3/host/{hostId}/os/installLog"
    OperatingSystems "operating_systems" Read List "GET" "/v3/operatingsystem"
    SshKeys "ssh_keys" Read List "GET" "/v3/sshKey"
    CreateSshKey "create_ssh_key" Change Record "POST" "/v3/sshKey"
    SshKey "ssh_key" Read Record "GET" "/v3/sshKey/{uuid}"
    DeleteSshKey "delete_ssh_key" Change Nothing "DELETE" "/v3/sshKey/{uuid}"
    Health "health" Read Record "GET" "/v3/health"
}
