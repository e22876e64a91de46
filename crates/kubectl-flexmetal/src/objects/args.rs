//! The object that arguments name.

use super::{
    Object, ObjectKind,
    reads::{describe_place, read_object},
};
use crate::{context::PluginContext, exit::PluginError};
use api::references::is_object_name;

/// Which object.
#[derive(Clone, Debug, clap::Args)]
pub struct ObjectArgs {
    /// Name, or kind and name such as skey/admin
    pub name: String,
    /// Kind; default: a server of this name, or else any kind
    #[arg(long, value_enum, ignore_case = true, hide_possible_values = true)]
    pub kind: Option<ObjectKind>,
}

impl ObjectArgs {
    /// The kind, if one is given, and the name.
    pub fn parse(&self) -> Result<(Option<ObjectKind>, &str), PluginError> {
        let (kind, name) = match self.name.split_once('/') {
            None => (self.kind, self.name.as_str()),
            Some((kind, name)) => {
                let parsed = ObjectKind::parse(kind);
                let parsed = parsed.ok_or_else(|| {
                    PluginError::Usage(format!("{kind:?} is not a kind of flexmetal.dev"))
                })?;
                if self.kind.is_some_and(|kind| kind != parsed) {
                    return Err(PluginError::Usage(format!(
                        "{} and --kind name two kinds; remove one",
                        self.name
                    )));
                }
                (Some(parsed), name)
            }
        };
        match is_object_name(name) {
            true => Ok((kind, name)),
            false => Err(PluginError::Usage(format!(
                "{name:?} cannot be the name of an object"
            ))),
        }
    }

    /// Reads the object. None: no kind has one of this name.
    pub async fn find(&self, context: &PluginContext) -> Result<Option<Object>, PluginError> {
        let (kind, name) = self.parse()?;
        if let Some(kind) = kind {
            return read_object(context, kind, name).await;
        }
        if let Some(server) = read_object(context, ObjectKind::BareMetalServer, name).await? {
            return Ok(Some(server));
        }
        let mut found = Vec::new();
        let mut forbidden = None;
        for kind in ObjectKind::ALL.into_iter().skip(1) {
            match read_object(context, kind, name).await {
                Ok(object) => found.extend(object),
                Err(error) => forbidden = forbidden.or(Some(error)),
            }
        }
        let titles: Vec<_> = found.iter().map(|it| it.kind().as_str()).collect();
        match (titles.as_slice(), forbidden) {
            ([], Some(error)) => Err(error),
            ([] | [_], _) => Ok(found.pop()),
            (kinds, _) => Err(PluginError::Usage(format!(
                "{name} is the name of several objects ({}); add --kind",
                kinds.join(", ")
            ))),
        }
    }

    /// Reads the object, or says that there is none.
    pub async fn get(&self, context: &PluginContext) -> Result<Object, PluginError> {
        let found = self.find(context).await?;
        found.ok_or_else(|| self.not_found(context))
    }

    /// The error for an object that does not exist.
    pub fn not_found(&self, context: &PluginContext) -> PluginError {
        let (kind, name) = match self.parse() {
            Ok(parsed) => parsed,
            Err(error) => return error,
        };
        let kind_or_any = kind.unwrap_or(ObjectKind::BareMetalServer);
        let place = describe_place(kind_or_any, Some(&context.namespace));
        let kind = kind.map_or("object", ObjectKind::as_str);
        PluginError::Other(format!(
            "no {kind} {name}{place}; see --namespace and --kind"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments_of(name: &str, kind: Option<ObjectKind>) -> ObjectArgs {
        ObjectArgs {
            name: name.into(),
            kind,
        }
    }

    #[test]
    fn name_may_have_its_kind_before_a_slash() {
        let key = Some(ObjectKind::SshKey);
        let parsed = |name, kind| {
            arguments_of(name, kind)
                .parse()
                .map(|(kind, name)| (kind, name.to_owned()))
                .ok()
        };
        assert_eq!(parsed("web", None), Some((None, "web".into())));
        assert_eq!(parsed("web", key), Some((key, "web".into())));
        assert_eq!(parsed("skey/web", None), Some((key, "web".into())));
        assert_eq!(parsed("skey/web", key), Some((key, "web".into())));
        assert_eq!(parsed("bms/web", key), None);
        assert_eq!(parsed("pod/web", None), None);
        assert_eq!(parsed("../web", None), None);
        assert_eq!(parsed("Web", None), None);
    }
}
