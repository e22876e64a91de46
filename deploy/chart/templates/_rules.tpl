{{- /* Exactly the verbs that the operator uses. Secrets are read by name: no list, no watch. */ -}}

{{- define "flexmetal.rules.namespaced" -}}
- apiGroups: ["flexmetal.dev"]
  resources: ["servertags", "sshkeys", "ipwhitelists"]
  verbs: ["get", "list", "watch", "patch"]
{{- /* The operator releases no dedicated host, so they have no finalizer. */}}
- apiGroups: ["flexmetal.dev"]
  resources: ["dedicatedhosts"]
  verbs: ["get", "list", "watch"]
{{- /* delete: an object that is past its spec.expiresAt, or its spec.ttlSecondsAfterFinished, deletes itself. */}}
- apiGroups: ["flexmetal.dev"]
  resources: ["baremetalservers", "servercommands"]
  verbs: ["get", "list", "watch", "patch", "delete"]
{{- /* A change of spec.power of a server or a dedicated host is sent as a ServerCommand. */}}
- apiGroups: ["flexmetal.dev"]
  resources: ["servercommands"]
  verbs: ["create"]
- apiGroups: ["flexmetal.dev"]
  resources: ["provideraccounts"]
  verbs: ["get", "list", "watch", "patch"]
- apiGroups: ["flexmetal.dev"]
  resources: ["baremetalservers/status", "provideraccounts/status", "servertags/status", "sshkeys/status", "ipwhitelists/status", "servercommands/status", "dedicatedhosts/status"]
  verbs: ["patch"]
{{- /* The owner of a server is identified by the UID of its object's namespace. */}}
- apiGroups: [""]
  resources: ["namespaces"]
  verbs: ["get"]
{{- /* create, update: what spec.outputs of a server names. */}}
- apiGroups: [""]
  resources: ["configmaps"]
  verbs: ["get", "create", "update"]
{{- end }}

{{- /* patch: the finalizer on the key Secret of an account that is in use. create, update, delete: what spec.outputs
       and spec.rootPassword of a server name. The admission policies narrow all of them. */ -}}
{{- define "flexmetal.rules.secrets" -}}
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["get", "patch", "create", "update", "delete"]
{{- end }}

{{- define "flexmetal.rules.events" -}}
- apiGroups: ["events.k8s.io"]
  resources: ["events"]
  verbs: ["create", "patch"]
{{- end }}

{{- /* The Lease that elects the leader. A rule on create cannot name an object. */ -}}
{{- define "flexmetal.rules.lease" -}}
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["create"]
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  resourceNames: [{{ include "flexmetal.fullname" . | quote }}]
  verbs: ["get", "update"]
{{- end }}

{{- /* The Lease of another operator, that status.operatorLease of an account names: whether it is still held. */ -}}
{{- define "flexmetal.rules.otherLeases" -}}
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["get"]
{{- end }}

{{- /* ClusterProviderAccounts belong to the operator of the whole cluster. */ -}}
{{- define "flexmetal.rules.clusterAccounts" -}}
- apiGroups: ["flexmetal.dev"]
  resources: ["clusterprovideraccounts"]
  verbs: ["get", "list", "watch", "patch"]
- apiGroups: ["flexmetal.dev"]
  resources: ["clusterprovideraccounts/status"]
  verbs: ["patch"]
# Their allowedNamespaces may select namespaces by labels.
- apiGroups: [""]
  resources: ["namespaces"]
  verbs: ["list", "watch"]
{{- end }}

{{- define "flexmetal.rules.cluster" -}}
# No request has this verb. The admission policies check it, to let operators and cluster admins through.
- apiGroups: ["flexmetal.dev"]
  resources: ["baremetalservers"]
  verbs: ["operate"]
# The identifier of the cluster is a hash of this namespace's UID.
- apiGroups: [""]
  resources: ["namespaces"]
  resourceNames: ["kube-system"]
  verbs: ["get"]
# When a CustomResourceDefinition is deleted, the objects deleted with it must release nothing at the provider.
- apiGroups: ["apiextensions.k8s.io"]
  resources: ["customresourcedefinitions"]
  resourceNames: ["baremetalservers.flexmetal.dev", "servertags.flexmetal.dev", "sshkeys.flexmetal.dev", "ipwhitelists.flexmetal.dev", "servercommands.flexmetal.dev"]
  verbs: ["get"]
{{- end }}

{{- /* A Role and its binding. Takes root, name, namespace, and rules as text. */ -}}
{{- define "flexmetal.role" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "flexmetal.labels" .root | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "flexmetal.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "flexmetal.serviceAccountName" .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
