{{- /* What the operator does in each namespace it serves. */ -}}
{{- define "autocompress.rules.namespaced" -}}
- apiGroups: [autocompress.dev]
  resources: [compressionjobs]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [autocompress.dev]
  resources: [compressionjobs/status]
  verbs: [get, patch]
- apiGroups: [autocompress.dev]
  resources: [compressionjobs/finalizers]
  verbs: [update]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, create, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [list, watch, create, patch]
{{- if .Values.kueue.enabled }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.jobset.enabled }}
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- if .Values.trainer.enabled }}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- end -}}

{{- /* What it reads of the cluster as a whole. */ -}}
{{- define "autocompress.rules.cluster" -}}
{{- if not .Values.watchNamespaces }}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end }}
{{- if .Values.nodes.enabled }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end }}
{{- end -}}
