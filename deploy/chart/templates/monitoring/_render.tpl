{{- /*
  Whether an object of the API monitoring.coreos.com/v1 is rendered: "true" or nothing. Takes root and value, the name
  of the object's values below "monitoring".
*/ -}}
{{- define "flexmetal.rendersMonitoring" -}}
{{- $monitoring := .root.Values.monitoring }}
{{- if (index $monitoring .value).enabled }}
{{- if not .root.Values.metrics.enabled }}
{{- fail (printf "monitoring.%s.enabled is true, but metrics.enabled is false; set it to true" .value) }}
{{- end }}
{{- $isServed := .root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}
{{- if and (eq $monitoring.renderMode "fail") (not $isServed) }}
{{- fail (printf "monitoring.%s.enabled is true, but the cluster has no API monitoring.coreos.com/v1; install the Prometheus Operator, or set monitoring.renderMode to skip or always" .value) }}
{{- end }}
{{- if or $isServed (eq $monitoring.renderMode "always") -}}
true
{{- end }}
{{- end }}
{{- end }}

{{- /*
  How a monitor scrapes a pod. honorLabels: some metrics have a label "namespace", the one of an object. Takes the
  values of the monitor.
*/ -}}
{{- define "flexmetal.scrape" -}}
port: metrics
path: /metrics
honorLabels: true
{{- with .interval }}
interval: {{ . }}
{{- end }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
