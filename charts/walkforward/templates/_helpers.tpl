{{- define "walkforward.labels" -}}
app.kubernetes.io/name: alpha-rl
app.kubernetes.io/component: walkforward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* A claim that outlives the release. Takes root, name (of the claim) and storage (its values). */ -}}
{{- define "walkforward.claim" -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ .name | toJson }}
  namespace: {{ .root.Release.Namespace | toJson }}
  labels:
    {{- include "walkforward.labels" .root | nindent 4 }}
  annotations:
    # Checkpoints and recordings stay when the release goes.
    helm.sh/resource-policy: keep
spec:
  accessModes:
    - {{ .storage.accessMode }}
  {{- with .storage.storageClass }}
  storageClassName: {{ . | toJson }}
  {{- end }}
  resources:
    requests:
      storage: {{ .storage.size | toJson }}
{{- end }}

{{- /* Refuses a claim that pods on several nodes would wait for forever. Takes root, name, storage and key. */ -}}
{{- define "walkforward.checkAccess" -}}
{{- if not .root.Values.singleNode }}
{{- if eq .storage.accessMode "ReadWriteOnce" }}
{{- fail (printf "%s.accessMode: ReadWriteOnce hangs when folds run on several nodes; use ReadWriteMany, or set singleNode=true where all pods run on one node" .key) }}
{{- end }}
{{- if not .storage.create }}
{{- with lookup "v1" "PersistentVolumeClaim" .root.Release.Namespace .name }}
{{- if not (or (has "ReadWriteMany" .spec.accessModes) (and (eq $.key "dataStorage") (has "ReadOnlyMany" .spec.accessModes))) }}
{{- fail (printf "claim %s allows %s: it hangs when folds run on several nodes; use a ReadWriteMany claim, or set singleNode=true where all pods run on one node" $.name (join ", " .spec.accessModes)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* An egress rule to one endpoint. The wide default leaves out link-local: clouds answer machine credentials there. */ -}}
{{- define "walkforward.egress" -}}
- to:
    - ipBlock:
        cidr: {{ .cidr | toJson }}
        {{- if eq .cidr "0.0.0.0/0" }}
        except:
          - 169.254.0.0/16
        {{- end }}
  ports:
    - protocol: TCP
      port: {{ int64 (default 443 .port) }}
{{- end }}
