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
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "flexmetal.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "flexmetal.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: flexmetal-operator
{{- end }}

{{- define "flexmetal.selector" -}}
app.kubernetes.io/name: {{ include "flexmetal.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The image of one program. Takes root, image, and and for the message the name of the program and of the value. */ -}}
{{- define "flexmetal.image" -}}
{{- if not .image.repository }}
{{- fail (printf "%s is empty, and it has no default; build an image with deploy/Dockerfile, push it, and add --set %s=registry.example.com/%s" .value .value .program) }}
{{- end }}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
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

{{- /* Placement, the same for all pods. */ -}}
{{- define "flexmetal.placement" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
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

{{- /* Labels of a pod. Takes root and component; the chart's own win over podLabels. */ -}}
{{- define "flexmetal.podLabels" -}}
{{- $own := include "flexmetal.labels" .root | fromYaml }}
{{- $_ := set $own "app.kubernetes.io/component" .component }}
{{- merge $own .root.Values.podLabels | toYaml }}
{{- end }}

{{- /* Whether the roles edit and admin of Kubernetes contain a role. */ -}}
{{- define "flexmetal.aggregateToEdit" -}}
rbac.authorization.k8s.io/aggregate-to-admin: {{ .Values.rbac.aggregateToEdit | quote }}
rbac.authorization.k8s.io/aggregate-to-edit: {{ .Values.rbac.aggregateToEdit | quote }}
{{- end }}
