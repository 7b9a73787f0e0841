{{/* Template of the driver's pod. Takes (root, name, settings). */}}
{{- define "eos.pod" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $of := index . 2 -}}
{{- $fullname := include "eos.fullname" . -}}
{{- $image := $root.Values.image -}}
metadata:
  labels:
    {{- include "eos.selector" . | nindent 4 }}
    {{- with $of.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    kubectl.kubernetes.io/default-container: eos
    {{- if not $of.existingConfigMap }}
    checksum/spec: {{ list $of.spec $of.files | toJson | sha256sum | quote }} # a changed spec restarts the pods
    {{- end }}
    {{- with $of.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "eos.serviceAccountName" . | quote }}
  automountServiceAccountToken: false # steps run in this pod
  enableServiceLinks: false # a Service named eos-ui would set EOS_UI_PORT
  terminationGracePeriodSeconds: {{ $of.terminationGracePeriodSeconds | int64 }}
  {{- with $of.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml $of.podSecurityContext | nindent 4 }}
  containers:
    - name: eos
      image: {{ include "eos.image" (mustMergeOverwrite (dict "tag" $root.Chart.AppVersion) (pick $image "repository" "digest") (empty $image.tag | ternary dict (pick $image "tag"))) | quote }}
      imagePullPolicy: {{ $image.pullPolicy }}
      args:
        - run
        - /etc/eos/{{ $name }}.yaml
        {{- if eq $of.location "store" }}
        - --standby # also of a single driver: its successor starts before it ends, and waits
        {{- end }}
        - --log-format
        - {{ $of.logFormat }}
        - --ui
        - --ui-host
        - {{ $of.page.host | quote }}
        - --ui-port
        - {{ $of.page.port | int64 | quote }}
        {{- if $of.page.metricsPerSplit }}
        - --metrics-per-split
        {{- end }}
        {{- range $of.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      ports: [{name: page, containerPort: {{ $of.page.port | int64 }}}]
      startupProbe:
        {{- merge (dict "httpGet" (dict "path" "/healthz" "port" "page")) $of.probes.startup | toYaml | nindent 8 }}
      readinessProbe:
        {{- merge (dict "httpGet" (dict "path" "/readyz" "port" "page")) $of.probes.readiness | toYaml | nindent 8 }}
      livenessProbe:
        {{- merge (dict "httpGet" (dict "path" "/healthz" "port" "page")) $of.probes.liveness | toYaml | nindent 8 }}
      {{- with $of.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      env:
        - {name: HOME, value: /var/lib/eos}
        {{- with $of.page.tokens }}{{ if .secret }}
        - name: EOS_UI_TOKEN
          valueFrom: {secretKeyRef: {name: {{ .secret | quote }}, key: {{ .steerKey | quote }}}}
        - name: EOS_UI_READ_TOKEN
          valueFrom: {secretKeyRef: {name: {{ .secret | quote }}, key: {{ .readKey | quote }}}}
        {{- end }}{{ end }}
        {{- with $of.env }}{{ toYaml . | nindent 8 }}{{ end }}
      securityContext:
        {{- toYaml $of.securityContext | nindent 8 }}
      resources:
        {{- toYaml $of.resources | nindent 8 }}
      volumeMounts:
        - {name: home, mountPath: /var/lib/eos}
        - {name: tmp, mountPath: /tmp}
        - {name: spec, mountPath: /etc/eos, readOnly: true}
        {{- range $number, $file := $of.secretFiles }}
        - {name: secret-{{ $number }}, mountPath: {{ $file.path | quote }}, readOnly: true}
        {{- end }}
        {{- with $of.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    - {name: spec, configMap: {name: {{ $of.existingConfigMap | default $fullname | quote }}}}
    - {name: tmp, emptyDir: {sizeLimit: {{ $of.scratch.tmp }}}}
    {{- if eq $of.location "store" }}
    - {name: home, emptyDir: {sizeLimit: {{ $of.scratch.home }}}}
    {{- else if $of.volume.existingClaim }}
    - {name: home, persistentVolumeClaim: {claimName: {{ $of.volume.existingClaim | quote }}}}
    {{- end }}
    {{- range $number, $file := $of.secretFiles }}
    - {name: secret-{{ $number }}, secret: {secretName: {{ $file.secret | quote }}, defaultMode: 288}} # 0440
    {{- end }}
    {{- with $of.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with $of.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $of.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $of.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if not (kindIs "invalid" $of.topologySpreadConstraints) }}
  topologySpreadConstraints:
    {{- toYaml $of.topologySpreadConstraints | nindent 4 }}
  {{- else }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector: {matchLabels: {{ include "eos.selector" . | fromYaml | toJson }}}
  {{- end }}
{{- end -}}

{{- define "eos.serviceAccountName" -}}
{{- $account := (index . 2).serviceAccount -}}
{{- $account.name | default ($account.create | ternary (include "eos.fullname" .) "default") -}}
{{- end -}}
