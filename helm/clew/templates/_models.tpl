{{/* Gives a pod what lies at /models: (dict "root" $ …) as for `clew.pod`. */}}
{{- define "clew.models.mount" -}}
- {name: models, mountPath: /models, readOnly: true}
{{- end }}

{{- define "clew.models.volume" -}}
- name: models
  {{- toYaml .Values.models.volume | nindent 2 }}
{{- end }}

{{/* The keys of endpoints, for those that ask them. */}}
{{- define "clew.model-keys.mount" -}}
{{- if .Values.secrets.modelKeys }}
- {name: model-keys, mountPath: /etc/clew/model-keys, readOnly: true}
{{- end }}
{{- end }}

{{- define "clew.model-keys.volume" -}}
{{- with .Values.secrets.modelKeys }}
- name: model-keys
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{/* Whether encoders ask endpoints; empty: no. */}}
{{- define "clew.encoder.asks" -}}
{{- with .Values.config -}}
{{- if or .encoder.endpoint .encoder.next_endpoint .reranker.endpoint }}yes{{ end -}}
{{- end -}}
{{- end }}
