{{/* Settings of a pipeline: the defaults, overridden by its own. Takes (root, name). Refuses what cannot work. */}}
{{- define "eos.settings" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $at := printf "pipelines.%s" $name -}}
{{- $own := index $root.Values.pipelines $name | default dict -}}
{{- $found := mustMergeOverwrite (deepCopy $root.Values.defaults) (deepCopy $own) -}}
{{- if gt (len (include "eos.fullname" .)) 52 -}}
{{- fail (printf "%s: the name %s has more than 52 characters. Choose a shorter name of the release or of the pipeline." $at (include "eos.fullname" .)) -}}
{{- end -}}
{{- if and $found.existingConfigMap (or $found.spec $found.files) -}}
{{- fail (printf "%s: existingConfigMap and spec exclude each other. Remove one of them." $at) -}}
{{- end -}}
{{- if not (or $found.existingConfigMap $found.spec) -}}
{{- fail (printf "%s has no spec. Set %s.spec (--set-file %s.spec=%s.yaml), or %s.existingConfigMap." $at $at $at $name $at) -}}
{{- end -}}
{{- $spec := fromYaml $found.spec -}}
{{- if hasKey $spec "Error" -}}
{{- fail (printf "%s.spec is not YAML: %s" $at $spec.Error) -}}
{{- end -}}
{{- range $file, $text := merge (dict (printf "%s.yaml" $name) $found.spec) $found.files -}}
{{- include "eos.refuseSecrets" (list $at $file $text) -}}
{{- end -}}
{{- include "eos.refuseSecretsOfPod" (list $at $found.env) -}}
{{- include "eos.refuseRepeated" (list (printf "%s.podLabels" $at) $found.podLabels (include "eos.selector" . | fromYaml | keys)) -}}
{{- include "eos.refuseRepeated" (list (printf "%s.podAnnotations" $at) $found.podAnnotations (list "kubectl.kubernetes.io/default-container" "checksum/spec")) -}}
{{- include "eos.refuseRepeated" (list (printf "%s.serviceMonitor.labels" $at) $found.serviceMonitor.labels (include "eos.labels" . | fromYaml | keys)) -}}
{{- $checkpoint := $spec.checkpoint | default dict -}}
{{- $several := or (hasKey $spec "profiles") (hasKey $spec "include") -}}
{{- if and $several (not $found.location) -}}
{{- fail (printf "%s: the spec has profiles or include, so the chart does not know checkpoint.location of the driver. Set %s.location to store or volume." $at $at) -}}
{{- end -}}
{{- $location := $found.location -}}
{{- if not $several -}}
{{- $location = include "eos.location" (list $at ($checkpoint.location | default "" | toString) $found.location) -}}
{{- end -}}
{{- $_ := set $found "location" $location -}}
{{- if and $found.standby (ne $location "store") -}}
{{- fail (printf "%s.standby: a standby on another node cannot see a volume. Set checkpoint.location of the spec to a store (s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, hdfs://namenode:8020/path), or %s.standby to 0." $at $at) -}}
{{- end -}}
{{- if and $found.serviceMonitor.enabled (not $found.page.tokens.secret) -}}
{{- fail (printf "%s.serviceMonitor: Prometheus needs the token that reads. Set %s.page.tokens.secret to a Secret with the keys %s and %s." $at $at $found.page.tokens.steerKey $found.page.tokens.readKey) -}}
{{- end -}}
{{- if kindIs "invalid" $found.terminationGracePeriodSeconds -}}
{{- if or $several (and (hasKey $found.files "eos.yaml") (not $checkpoint.timeout)) -}}
{{- fail (printf "%s: checkpoint.timeout may be in profiles, an included file or eos.yaml, which the chart does not read. Set %s.terminationGracePeriodSeconds to the timeout and a minute (660 for the default of 10min)." $at $at) -}}
{{- end -}}
{{- $_ := set $found "terminationGracePeriodSeconds" (include "eos.grace" ($checkpoint.timeout | default "10min") | int) -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/* `store` or `volume`. Takes (place in the values, checkpoint.location of the spec, location of the values). */}}
{{- define "eos.location" -}}
{{- $at := index . 0 -}}
{{- $written := index . 1 -}}
{{- $wanted := index . 2 -}}
{{- $found := "" -}}
{{- if regexMatch "^(s3|gs|az|hdfs)://" $written -}}
{{- $found = "store" -}}
{{- else if hasPrefix "/var/lib/eos/" $written -}}
{{- $found = "volume" -}}
{{- else if and $written (not (contains "${" $written)) -}}
{{- fail (printf "%s.spec: checkpoint.location %s would be lost with the pod. Write a folder below /var/lib/eos, or a store (s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, hdfs://namenode:8020/path)." $at $written) -}}
{{- else if not $wanted -}}
{{- fail (printf "%s: checkpoint.location is not known to the chart. Set %s.location to store or volume." $at $at) -}}
{{- end -}}
{{- if and $wanted $found (ne $wanted $found) -}}
{{- fail (printf "%s.location is %s, and checkpoint.location of the spec is %s. Remove %s.location." $at $wanted $written $at) -}}
{{- end -}}
{{- $found | default $wanted -}}
{{- end -}}

{{/* Refuse a key that the chart sets: YAML has each key once. Takes (place in the values, map, keys of the chart). */}}
{{- define "eos.refuseRepeated" -}}
{{- $at := index . 0 -}}
{{- $set := index . 2 -}}
{{- range $key, $_ := index . 1 -}}
{{- if has $key $set -}}
{{- fail (printf "%s: the chart sets %s itself. Remove it from %s." $at $key $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuse a file for a ConfigMap that shows a password. Takes (place in the values, file name, text). */}}
{{- define "eos.refuseSecrets" -}}
{{- $text := regexReplaceAll "\\$\\{[^}]*\\}" (include "eos.withDefaults" (index . 2)) "" -}}
{{- $found := regexMatch "://[^\\s/@:'\"]*:[^\\s/@'\"]+@" $text -}}
{{- $found = or $found (regexMatch "(?i)(?:[?&;]|-D[\\w.]*)(?:password|passwd|pwd|sslpassword|ssl_key_password)=[^\\s&;\"'}]" $text) -}}
{{- if regexMatch "(?i)\\.(yaml|yml|json)$" (index . 1) -}}
{{- $found = or $found (regexMatch "(?im)(?:^[ \\t-]*|[{,][ \\t]*)[\"']?[\\w.-]*(password|passwd|passphrase|secret|token|credential|secret_access_key|account_key|sas_key|api_key)[\"']?[ \\t]*:[ \\t]+[\"']?[^\\s\"'#&*{\\[]" $text) -}}
{{- $found = or $found (include "eos.secretsIn" (list "" "" (fromYaml (index . 2)))) -}}
{{- end -}}
{{- if $found -}}
{{- fail (printf "%s: %s shows a password or a key, and everybody who may read ConfigMaps would see it. Write ${env:NAME}, put the value into a Secret, and name the Secret in %s.envFrom." (index . 0) (index . 1) (index . 0)) -}}
{{- end -}}
{{- end -}}

{{/* Refuse a variable that shows a password. $(NAME) is a reference of Kubernetes. Takes (place in the values, env). */}}
{{- define "eos.refuseSecretsOfPod" -}}
{{- $at := index . 0 -}}
{{- range index . 1 -}}
{{- $value := regexReplaceAll "\\$\\((\\w+)\\)" (.value | default "") "$${${1}}" -}}
{{- if include "eos.secretsIn" (list "" .name $value) -}}
{{- fail (printf "%s.env: %s shows a password or a key, and everybody who may read pods would see it. Put the value into a Secret, and name the Secret in %s.envFrom or in valueFrom.secretKeyRef." $at .name $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A text in which the default takes the place of ${NAME:-default}: it is a part of the file, and so no secret. */}}
{{- define "eos.withDefaults" -}}
{{- regexReplaceAll "\\$\\{(?:env:)?[A-Za-z_]\\w*:-([^}]*)\\}" (. | replace "$${" "_{") "${1}" -}}
{{- end -}}

{{/* `found` where a value at any depth shows a secret: by its key, or by its text.
   Takes (place: "", "notifications" or "headers", key, value). */}}
{{- define "eos.secretsIn" -}}
{{- $place := index . 0 -}}
{{- $key := index . 1 -}}
{{- $value := index . 2 -}}
{{- if kindIs "slice" $value -}}
{{- range $value }}{{ include "eos.secretsIn" (list $place $key .) }}{{ end -}}
{{- else if kindIs "map" $value -}}
{{- if eq $key "notifications" -}}
{{- $place = "notifications" -}}
{{- else if and (eq $place "notifications") (eq $key "headers") -}}
{{- $place = "headers" -}}
{{- end -}}
{{- range $name, $each := $value }}{{ include "eos.secretsIn" (list $place $name $each) }}{{ end -}}
{{- else if $value -}}
{{- $written := include "eos.withDefaults" ($value | toString) -}}
{{- $named := or (eq $place "headers") (regexMatch "(?i)(?:password|passwd|passphrase|secret|token|credential|user\\.info|connection[._-]?string|(?:secret|secret[._-]access|account|sas|api|private)[._-]?key(?:[._-]?pem)?|\\bkey\\.pem)$|account\\.key\\.|(?:^|header\\.|proxy[.-])authorization$" $key) -}}
{{- $literal := regexReplaceAll "\\$\\{[^}]*\\}" $written "" -}}
{{- $withoutPorts := regexReplaceAll "(://[^\\s/@:]*):[0-9]+([/?,]|$)" $literal "${1}${2}" -}}
{{- if or (and $named $written (not (contains "${" $written))) (regexMatch "://[^\\s/@:\\[]*:[^@\\s]+@" $withoutPorts) (and (not (has $key (list "sql" "condition"))) (regexMatch "(?i)\\b(?:password|passwd|pwd|secret|token)=[\"']?[^\\s$\"',;&]" $written)) -}}
found
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Seconds until SIGKILL: a duration of a spec, and a minute. */}}
{{- define "eos.grace" -}}
{{- $number := regexFind "^[0-9.]+" . -}}
{{- $unit := trim (trimPrefix $number .) -}}
{{- $seconds := get (dict "ms" 0.001 "s" 1.0 "min" 60.0 "h" 3600.0 "d" 86400.0) $unit -}}
{{- if or (not $number) (not $seconds) -}}
{{- fail (printf "checkpoint.timeout %s is not known to the chart. Set terminationGracePeriodSeconds of the pipeline." .) -}}
{{- end -}}
{{- addf (mulf (float64 $number) $seconds) 60.0 | ceil | int -}}
{{- end -}}

{{/* Name of a pipeline's objects. Takes (root, name). */}}
{{- define "eos.fullname" -}}
{{- $release := (index . 0).Release.Name -}}
{{- if eq $release (index . 1) -}}{{ $release }}{{- else -}}{{ $release }}-{{ index . 1 }}{{- end -}}
{{- end -}}

{{/* Labels by which a pipeline's pods are found. Takes (root, name). */}}
{{- define "eos.selector" -}}
app.kubernetes.io/name: eos-spark
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 | quote }}
{{- end -}}

{{- define "eos.labels" -}}
{{ include "eos.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "eos.image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end -}}
