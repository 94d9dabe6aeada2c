{{- define "autocompress.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* Prefix of everything the release owns; suffixes of up to 20 characters are added to it. */ -}}
{{- define "autocompress.fullname" -}}
{{- $name := include "autocompress.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Call with (list $ "component"). */ -}}
{{- define "autocompress.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "autocompress.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- /* Call with (list $ "component"). */ -}}
{{- define "autocompress.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: autocompress
{{ include "autocompress.selectorLabels" . }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Call with (list $ $image): registry/repository by digest, else by tag, else by the chart's version. */ -}}
{{- define "autocompress.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $registry := default $image.registry $root.Values.global.imageRegistry -}}
{{- $name := ternary (printf "%s/%s" $registry $image.repository) $image.repository (ne $registry "") -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "autocompress.imagePullSecrets" -}}
{{- with .Values.global.imagePullSecrets -}}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "autocompress.operatorServiceAccount" -}}
{{- if .Values.operator.serviceAccount.create -}}
{{- default (include "autocompress.fullname" .) .Values.operator.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.operator.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* Namespaces in which stage pods run as far as the chart knows, as a JSON list. */ -}}
{{- define "autocompress.stageNamespaces" -}}
{{- $chosen := default .Values.watchNamespaces .Values.stages.namespaces -}}
{{- default (list .Release.Namespace) $chosen | uniq | sortAlpha | toJson -}}
{{- end -}}

{{- define "autocompress.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "autocompress.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "autocompress.minioName" -}}
{{ include "autocompress.fullname" . }}-minio
{{- end -}}

{{- define "autocompress.minioSecret" -}}
{{- default (include "autocompress.minioName" .) .Values.minio.existingSecret -}}
{{- end -}}
