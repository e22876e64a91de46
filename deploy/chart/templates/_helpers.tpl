{{- define "flexmetal.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* At most 52 characters, so that suffixes still fit into 63. */ -}}
{{- define "flexmetal.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Cluster-scoped names carry the namespace: two releases may have the same name. */ -}}
{{- define "flexmetal.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "flexmetal.fullname" .) }}
{{- end }}

{{- define "flexmetal.simulatorName" -}}
{{- printf "%s-simulator" (include "flexmetal.fullname" .) }}
{{- end }}

{{- /* Where the simulator answers, as the operator sees it. */ -}}
{{- define "flexmetal.simulatorURL" -}}
{{- $port := int .Values.simulator.service.port }}
{{- printf "http://%s.%s.svc" (include "flexmetal.simulatorName" .) .Release.Namespace }}
{{- if ne $port 80 }}{{ printf ":%d" $port }}{{ end }}
{{- end }}

{{- define "flexmetal.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "flexmetal.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- if has .Values.serviceAccount.name (list "" "default") }}
{{- fail "serviceAccount.create is false; set serviceAccount.name to the operator's own ServiceAccount. Every pod that names none uses \"default\", and would get its rights" }}
{{- end }}
{{- .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /*
  Labels of an object. Takes root, labels that the values give this object only, and optionally component. The chart's
  own have precedence over labels, and these over commonLabels.
*/ -}}
{{- define "flexmetal.labelsWith" -}}
{{- $chart := .root.Chart }}
{{- $own := dict
  "helm.sh/chart" (printf "%s-%s" $chart.Name $chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/name" (include "flexmetal.name" .root)
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/version" $chart.AppVersion
  "app.kubernetes.io/managed-by" .root.Release.Service
  "app.kubernetes.io/part-of" "flexmetal-operator" }}
{{- with .component }}
{{- $_ := set $own "app.kubernetes.io/component" . }}
{{- end }}
{{- merge $own .labels .root.Values.commonLabels .root.Values.global.commonLabels | toYaml }}
{{- end }}

{{- define "flexmetal.labels" -}}
{{- include "flexmetal.labelsWith" (dict "root" . "labels" dict) }}
{{- end }}

{{- /* The same for an object of one component. Takes root and component. */ -}}
{{- define "flexmetal.componentLabels" -}}
{{- include "flexmetal.labelsWith" (dict "root" .root "labels" dict "component" .component) }}
{{- end }}

{{- define "flexmetal.selector" -}}
app.kubernetes.io/name: {{ include "flexmetal.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The image of one program. Takes root, image, and for the message the name of the program and of the value. */ -}}
{{- define "flexmetal.image" -}}
{{- if not .image.repository }}
{{- fail (printf "%s is empty, and it has no default; build an image with deploy/Dockerfile, push it, and add --set %s=registry.example.com/%s" .value .value .program) }}
{{- end }}
{{- $repository := .image.repository }}
{{- with .root.Values.global.imageRegistry }}
{{- /* As in every client of registries: the part before the first slash is a registry if it has a dot or a port. */}}
{{- $registry := regexFind "^(localhost|[^/]*[.:][^/]*)/" $repository }}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (trimPrefix $registry $repository) }}
{{- end }}
{{- if .image.digest -}}
{{ $repository }}@{{ .image.digest }}
{{- else -}}
{{ $repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* What every pod of this chart is held to: Pod Security "restricted". */ -}}
{{- define "flexmetal.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "flexmetal.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end }}

{{- /* Placement, DNS and pull secrets, the same for all pods. */ -}}
{{- define "flexmetal.podScheduling" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $secrets := list }}
{{- range concat .Values.imagePullSecrets .Values.global.imagePullSecrets }}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- with $secrets | uniq }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Labels of a pod. Takes root and component. */ -}}
{{- define "flexmetal.podLabels" -}}
{{- include "flexmetal.labelsWith" (dict "root" .root "labels" .root.Values.podLabels "component" .component) }}
{{- end }}

{{- /* Whether the roles edit and admin of Kubernetes contain a role. */ -}}
{{- define "flexmetal.aggregateToEdit" -}}
rbac.authorization.k8s.io/aggregate-to-admin: {{ .Values.rbac.aggregateToEdit | quote }}
rbac.authorization.k8s.io/aggregate-to-edit: {{ .Values.rbac.aggregateToEdit | quote }}
{{- end }}
