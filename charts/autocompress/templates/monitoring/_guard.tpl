{{- /* Fails with the remedy where the Prometheus operator's API is absent. Call with (list $ "Kind" "value"). */ -}}
{{- define "autocompress.requireMonitoring" -}}
{{- $root := index . 0 -}}
{{- if not ($root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1") -}}
{{- fail (printf "%s=true needs %s of monitoring.coreos.com/v1, which this cluster does not have: install the Prometheus operator's definitions first, or set %s=false" (index . 2) (index . 1) (index . 2)) -}}
{{- end -}}
{{- end -}}
