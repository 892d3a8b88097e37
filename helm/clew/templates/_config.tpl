{{/* `config` as all programs read it, without what is not there, and without what is for gateways only. */}}
{{- define "clew.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if not .Values.secrets.tls }}{{ $_ := unset $config "tls" }}{{ end -}}
{{- $_ := unset $config.auth "keys_file" -}}
{{- range $key, $value := $config }}
  {{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ $key }} = {{ include "clew.toml" $value }}
  {{- end }}
{{- end }}
{{- range $section, $keys := $config }}
  {{- if kindIs "map" $keys }}

[{{ $section }}]
    {{- range $key, $value := $keys }}
      {{- if not (kindIs "invalid" $value) }}
{{ $key }} = {{ include "clew.toml" $value }}
      {{- end }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* A value in TOML. JSON's strings and booleans are TOML's; whole numbers come as floats out of YAML. */}}
{{- define "clew.toml" -}}
{{- if kindIs "map" . -}}
  {{- $pairs := list -}}
  {{- range $key, $value := . -}}
    {{- if not (kindIs "invalid" $value) -}}
      {{- $pairs = append $pairs (printf "%s = %s" $key (include "clew.toml" $value)) -}}
    {{- end -}}
  {{- end -}}
  { {{ join ", " $pairs }} }
{{- else if kindIs "slice" . -}}
  {{- $items := list -}}
  {{- range . -}}{{- $items = append $items (include "clew.toml" .) -}}{{- end -}}
  [{{ join ", " $items }}]
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
  {{ int64 . }}
{{- else -}}
  {{ toJson . }}
{{- end -}}
{{- end }}

{{/* Refuses values that contradict each other, which a schema cannot tell. */}}
{{- define "clew.check" -}}
{{- $config := .Values.config -}}
{{- $problems := list -}}
{{- if not $config.data_dir -}}
  {{- $problems = append $problems "config.data_dir: expected s3://bucket/prefix, or a folder below /data that all retrievers share, got nothing" -}}
{{- else if and (not (hasPrefix "s3://" $config.data_dir)) (not .Values.retriever.dataVolume) -}}
  {{- $problems = append $problems "retriever.dataVolume: expected a volume, since config.data_dir is a folder" -}}
{{- end -}}
{{- if not (or (and .Values.secrets.tls .Values.secrets.apiKeys) $config.auth.insecure) -}}
  {{- $problems = append $problems "secrets.tls, secrets.apiKeys: expected the names of Secrets; without them everybody who reaches the cluster may read and write everything, which config.auth.insecure=true allows" -}}
{{- end -}}
{{- if eq (regexFind "[0-9]+$" ($config.http.listen | default "")) (include "clew.port" $config.listen) -}}
  {{- $problems = append $problems "config.http.listen: expected another port than that of config.listen" -}}
{{- end -}}
{{- if and $config.http.listen (eq (int .Values.gateway.service.port) (int .Values.gateway.service.httpPort)) -}}
  {{- $problems = append $problems "gateway.service.httpPort: expected another port than gateway.service.port" -}}
{{- end -}}
{{- if and .Values.secrets.apiKeys $config.auth.insecure -}}
  {{- $problems = append $problems "config.auth.insecure: expected false, or secrets.apiKeys=\"\": whoever reaches a node in plain text goes past every key" -}}
{{- end -}}
{{- if and $config.tls.client_ca .Values.ingest.enabled -}}
  {{- $problems = append $problems "ingest.enabled: the Job has no certificate of config.tls.client_ca" -}}
{{- end -}}
{{- if and .Values.redis.enabled (or $config.cluster.redis $config.cluster.members) -}}
  {{- $problems = append $problems "config.cluster: names other nodes or another Redis; set redis.enabled=false, or remove them" -}}
{{- end -}}
{{- if not (or .Values.redis.enabled .Values.secrets.redis $config.cluster.redis $config.cluster.members) -}}
  {{- $problems = append $problems "redis.enabled: is off; expected the address of another Redis in secrets.redis or config.cluster.redis" -}}
{{- end -}}
{{- if not (or $config.encoder.model $config.encoder.endpoint) -}}
  {{- $problems = append $problems "config.encoder.model: expected a folder, or config.encoder.endpoint, got neither" -}}
{{- end -}}
{{- if and $config.encoder.model $config.encoder.endpoint -}}
  {{- $problems = append $problems "config.encoder.endpoint: expected config.encoder.model=null beside it, got both" -}}
{{- end -}}
{{- $devices := list $config.encoder.device $config.memory_model.device -}}
{{- if ne (gt (int .Values.memoryEncoder.gpus) 0) (ne (join "" $devices) "cpucpu") -}}
  {{- $problems = append $problems (printf "memoryEncoder.gpus: is %v, but config.encoder.device and config.memory_model.device are %s" .Values.memoryEncoder.gpus (join " and " $devices)) -}}
{{- end -}}
{{- $device := (($config.generator.local | default dict).device | default "cpu") -}}
{{- if ne (gt (int .Values.generator.gpus) 0) (ne $device "cpu") -}}
  {{- $problems = append $problems (printf "generator.gpus: is %v, but config.generator.local.device is %s" .Values.generator.gpus $device) -}}
{{- end -}}
{{- $scaling := .Values.gateway.autoscaling -}}
{{- if and $scaling.enabled (gt (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
  {{- $problems = append $problems "gateway.autoscaling.minReplicas: is more than maxReplicas" -}}
{{- end -}}
{{- if and $scaling.enabled (not $scaling.queueDepth) (not $scaling.cpuPercent) -}}
  {{- $problems = append $problems "gateway.autoscaling: expected queueDepth or cpuPercent, got neither" -}}
{{- end -}}
{{- if $problems }}{{ fail (printf "\n  %s\n" (join "\n  " $problems)) }}{{ end -}}
{{- end }}
