{{/* What a container may do: compute, and write where a volume is. */}}
{{- define "clew.container.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* What holds for all containers of a pod. */}}
{{- define "clew.pod.security" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
# Volumes with many files are not gone through at every start.
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Where pods of a role may run: (dict "root" $ "role" "gateway" "values" .Values.gateway). */}}
{{- define "clew.pod.placement" -}}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Environment of every node: its own name and address, and where Redis is. */}}
{{- define "clew.env" -}}
- name: CLEW_LOG
  value: {{ .Values.log | quote }}
- name: CLEW_CLUSTER__NODE_ID
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: CLEW_CLUSTER__ADVERTISE
  value: {{ ternary "https" "http" (ne .Values.secrets.tls "") }}://{{ ternary "[$(POD_IP)]" "$(POD_IP)" (hasPrefix "[" .Values.config.listen) }}:{{ include "clew.port" .Values.config.listen }}
{{- if and .Values.redis.enabled .Values.secrets.redis }}
- name: REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .Values.secrets.redis }}, key: password}}
- name: CLEW_CLUSTER__REDIS
  value: redis://:$(REDIS_PASSWORD)@{{ include "clew.name" . }}-redis:6379
{{- else if .Values.redis.enabled }}
- name: CLEW_CLUSTER__REDIS
  value: redis://{{ include "clew.name" . }}-redis:6379
{{- else if .Values.secrets.redis }}
- name: CLEW_CLUSTER__REDIS
  valueFrom: {secretKeyRef: {name: {{ .Values.secrets.redis }}, key: url}}
{{- end }}
{{- end }}

{{/*
A pod of a role, which runs one of Clew's services:
  (dict "root" $ "role" "gateway" "values" .Values.gateway "preStopSecs" 5 "env" "…" "mounts" "…" "volumes" "…")
*/}}
{{- define "clew.pod" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $gpus := int (.values.gpus | default 0) -}}
{{- $preStop := int (.preStopSecs | default 0) -}}
metadata:
  labels:
    {{- include "clew.labels" . | nindent 4 }}
  annotations:
    # A changed configuration makes new pods.
    checksum/config: {{ include "clew.config" $root | sha256sum }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "clew.name" $root }}-{{ .role }}
  automountServiceAccountToken: false
  # Kubernetes' variables for Services begin with CLEW_ as configuration keys do.
  enableServiceLinks: false
  # Time to hand over and to finish, and a bit for what comes before and after.
  terminationGracePeriodSeconds: {{ add $values.config.shutdown_secs $preStop 15 }}
  securityContext:
    {{- include "clew.pod.security" . | nindent 4 }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "clew.selector" . | nindent 10 }}
  {{- with include "clew.pod.placement" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    - name: {{ .role }}
      image: {{ include "clew.image" (dict "root" $root "image" .values.image "name" (ternary (printf "%s-cuda" .role) .role (gt $gpus 0))) }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args: [--config, /etc/clew/config/clew.toml, --log-json]
      env:
        {{- include "clew.env" $root | nindent 8 }}
        {{- with .env }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with .values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: grpc
          containerPort: {{ include "clew.port" $values.config.listen }}
        {{- if and (eq .role "gateway") $values.config.http.listen }}
        - name: http
          containerPort: {{ include "clew.port" $values.config.http.listen }}
        {{- end }}
        - name: admin
          containerPort: {{ include "clew.port" $values.config.admin.listen }}
      startupProbe:
        httpGet: {path: /health/live, port: admin}
        periodSeconds: 5
        failureThreshold: {{ div (add $values.probes.startupSecs 4) 5 }}
      livenessProbe:
        httpGet: {path: /health/live, port: admin}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /health/ready, port: admin}
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
      {{- if $preStop }}
      lifecycle:
        preStop:
          sleep: {seconds: {{ $preStop }}}
      {{- end }}
      resources:
        requests:
          {{- toYaml .values.resources.requests | nindent 10 }}
        limits:
          {{- toYaml .values.resources.limits | nindent 10 }}
          {{- if $gpus }}
          nvidia.com/gpu: {{ $gpus }}
          {{- end }}
      securityContext:
        {{- include "clew.container.security" . | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/clew/config, readOnly: true}
        {{- if $values.secrets.tls }}
        - {name: tls, mountPath: /etc/clew/tls, readOnly: true}
        {{- end }}
        {{- if $values.secrets.redisTls }}
        - {name: redis-tls, mountPath: /etc/clew/redis, readOnly: true}
        {{- end }}
        - {name: temporary, mountPath: /tmp}
        {{- with .mounts }}
        {{- . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "clew.name" $root }}}
    {{- with include "clew.tls" . }}
    - name: tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- with $values.secrets.redisTls }}
    - name: redis-tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    - name: temporary
      emptyDir: {sizeLimit: {{ .values.temporaryBytes | default "1Gi" }}}
    {{- with .volumes }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end }}

{{- /* Not empty if any of `ingest.paths` is below /input and not in a bucket. */}}
{{- define "clew.ingest.readsFiles" -}}
{{- range .Values.ingest.paths }}{{ if not (hasPrefix "s3://" .) }}true{{ end }}{{ end }}
{{- end }}
