//! Which BareMetalServer has a server of the provider.

use crate::{
    account_client::{AccountArgs, is_forbidden},
    context::{Context, Scope},
    exit::PluginError,
};
use api::{BareMetalServer, references::PinnedAccount};
use hosting_types::ServerId;
use kube::ResourceExt as _;
use std::collections::HashMap;

/// The objects that the caller may list, by the UUIDs of their servers.
#[derive(Debug, Default)]
pub struct ServerObjects(HashMap<ServerId, ServerObject>);

/// An object with a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerObject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The provider's message for the server, without texts that may be secret.
    pub message: Option<String>,
}

impl ServerObjects {
    /// Reads the objects that can use an account. Without the right to list those of all namespaces it reads the
    /// context's namespace, and without any right none; it warns of both.
    pub async fn read(context: &Context, args: &AccountArgs) -> Result<Self, PluginError> {
        let own = &context.namespace;
        let missing_right = |place: &str| {
            context.printer.warn(&format!(
                "warning: needs \"list\" on baremetalservers in {place} to show the objects of all servers"
            ));
        };
        if args.cluster_account.is_some() || args.base_url.is_some() {
            match context.list::<BareMetalServer>(&Scope::default()).await {
                Ok(objects) => return Ok(Self::index(&objects)),
                Err(error) if is_forbidden(&error) => missing_right("all namespaces"),
                Err(error) => return Err(error),
            }
        }
        let scope = Scope {
            namespace: Some(own.clone()),
            selector: None,
        };
        match context.list::<BareMetalServer>(&scope).await {
            Ok(objects) => Ok(Self::index(&objects)),
            Err(error) if is_forbidden(&error) => {
                missing_right(&format!("namespace {own}"));
                Ok(Self::default())
            }
            Err(error) => Err(error),
        }
    }

    /// By the UUIDs of the present servers, and of those that were replaced.
    fn index(objects: &[BareMetalServer]) -> Self {
        let mut found = HashMap::new();
        let named = |object: &BareMetalServer| ServerObject {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            message: None,
        };
        for object in objects {
            let replaced = object.status.iter().flat_map(|it| &it.replaced_servers);
            for replaced in replaced {
                if let Ok(id) = ServerId::parse(&replaced.uuid) {
                    found.insert(id, named(object));
                }
            }
        }
        for object in objects {
            let Some(status) = &object.status else {
                continue;
            };
            if let Some(Ok(id)) = status.uuid.as_deref().map(ServerId::parse) {
                let message = status.status_message.clone();
                found.insert(
                    id,
                    ServerObject {
                        message,
                        ..named(object)
                    },
                );
            }
        }
        Self(found)
    }

    /// The object of a server.
    pub fn find(&self, id: &ServerId) -> Option<&ServerObject> {
        self.0.get(id)
    }
}

/// The server of an object, and the account that has it.
pub fn locate_server(
    object: &BareMetalServer,
    args: &AccountArgs,
) -> Result<(ServerId, AccountArgs), PluginError> {
    let status = object.status.as_ref();
    let pinned = status.and_then(|status| status.account_ref.as_ref());
    let account = PinnedAccount::in_force(pinned, object.spec.account_ref.as_ref());
    let uuid = status.and_then(|status| status.uuid.as_deref());
    let Some(Ok(id)) = uuid.map(ServerId::parse) else {
        let name = object.name_any();
        return Err(PluginError::Other(format!(
            "BareMetalServer {name} has no server yet; see kubectl flexmetal status {name}"
        )));
    };
    Ok((id, args.of_object(&account)))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A UUID that ends with this number.
    pub fn uuid(number: u8) -> String {
        format!("00000000-0000-4000-8000-0000000000{number:02x}")
    }

    /// The objects with these servers: namespace, name, status.
    pub fn objects(all: &[(&str, &str, Value)]) -> ServerObjects {
        let objects: Vec<BareMetalServer> = all
            .iter()
            .map(|(namespace, name, status)| {
                serde_json::from_value(json!({
                    "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
                    "metadata": {"namespace": namespace, "name": name},
                    "spec": {}, "status": status,
                }))
                .unwrap()
            })
            .collect();
        ServerObjects::index(&objects)
    }

    #[test]
    fn servers_are_found_by_their_present_and_replaced_uuids() {
        let replaced = |number| {
            json!([{"uuid": uuid(number), "providerStatus": "failed", "location": "L",
                "instanceType": "T", "recordedAt": "2026-11-01T00:00:00Z"}])
        };
        let objects = objects(&[
            (
                "a",
                "web",
                json!({"uuid": uuid(0xa1).to_uppercase(), "statusMessage": "no disk"}),
            ),
            // Its replaced server is adopted by the first one now.
            (
                "b",
                "db",
                json!({"uuid": uuid(2), "replacedServers": replaced(0xa1)}),
            ),
            ("b", "old", json!({"replacedServers": replaced(3)})),
            ("b", "new", json!({})),
        ]);
        let title = |number| {
            let id = ServerId::parse(&uuid(number)).unwrap();
            let object = objects.find(&id)?;
            Some(format!("{}/{}", object.namespace, object.name))
        };
        assert_eq!(title(0xa1).as_deref(), Some("a/web"));
        assert_eq!(title(2).as_deref(), Some("b/db"));
        assert_eq!(title(3).as_deref(), Some("b/old"));
        assert_eq!(title(4), None);
        let id = ServerId::parse(&uuid(0xa1)).unwrap();
        let message = &objects.find(&id).unwrap().message;
        assert_eq!(message.as_deref(), Some("no disk"));
    }
}
