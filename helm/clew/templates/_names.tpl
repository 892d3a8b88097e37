{{/* Beginning of every name: the release's, with `clew` in it, and short enough for what follows. */}}
{{- define "clew.name" -}}
{{- $name := .Release.Name | trunc 35 | trimSuffix "-" -}}
{{- if not (contains "clew" $name) }}{{ $name = printf "%s-clew" $name }}{{ end -}}
{{- $name -}}
{{- end }}

{{/* What selects the pods of a role, for ever: (dict "root" $ "role" "gateway"). */}}
{{- define "clew.selector" -}}
app.kubernetes.io/name: clew
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{/* Labels of what belongs to a role. */}}
{{- define "clew.labels" -}}
{{ include "clew.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* Name, namespace and labels of an object of a role. */}}
{{- define "clew.metadata" -}}
name: {{ include "clew.name" .root }}-{{ .role }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "clew.labels" . | nindent 2 }}
{{- end }}

{{/* An image: (dict "root" $ "image" "the value or empty" "name" "gateway"). */}}
{{- define "clew.image" -}}
{{- $image := .root.Values.image -}}
{{- .image | default (printf "%s/%s:%s" $image.repository .name ($image.tag | default .root.Chart.AppVersion)) | quote -}}
{{- end }}

{{/* The Secret with the certificate of a role: (dict "root" $ "role" "gateway"). */}}
{{- define "clew.tls" -}}
{{- .root.Values.secrets.tls | replace "{role}" .role -}}
{{- end }}

{{/* The port of an address `host:port`. */}}
{{- define "clew.port" -}}
{{- regexFind "[0-9]+$" . -}}
{{- end }}

{{/* Where clients reach the gateways. */}}
{{- define "clew.endpoint" -}}
{{- ternary "https" "http" (ne .Values.secrets.tls "") }}://{{ include "clew.name" . }}-gateway.{{ .Release.Namespace }}.svc:{{ .Values.gateway.service.port }}
{{- end }}
