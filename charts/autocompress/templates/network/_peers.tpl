{{- /* Labels that the operator puts on every stage pod, preflight and clean-up included. */ -}}
{{- define "autocompress.stagePodLabels" -}}
app.kubernetes.io/managed-by: autocompress-operator
app.kubernetes.io/part-of: autocompress
{{- end -}}

{{- define "autocompress.recoveryPodLabels" -}}
{{ include "autocompress.stagePodLabels" . }}
autocompress.dev/stage: recover
{{- end -}}

{{- define "autocompress.egressDNS" -}}
- to:
    {{- toYaml .Values.networkPolicy.dns.to | nindent 4 }}
  ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end -}}

{{- define "autocompress.egressAPIServer" -}}
- ports:
    {{- range .Values.networkPolicy.apiServer.ports }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
  {{- with .Values.networkPolicy.apiServer.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "autocompress.egressMinIO" -}}
- to:
    - podSelector:
        matchLabels:
          {{- include "autocompress.selectorLabels" (list . "minio") | nindent 10 }}
      namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: {{ .Release.Namespace }}
  ports:
    - {port: 9000, protocol: TCP}
{{- end -}}
