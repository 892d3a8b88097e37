{{/* Gives a pod what lies at /models: (dict "root" $ …) as for `clew.pod`. */}}
{{- define "clew.models.mount" -}}
- {name: models, mountPath: /models, readOnly: true}
{{- end }}

{{- define "clew.models.volume" -}}
- name: models
  {{- toYaml .Values.models.volume | nindent 2 }}
{{- end }}
