{{- define "zae-limiter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* The full name leaves room for -aggregator. */}}
{{- define "zae-limiter.fullname" -}}
{{- $name := include "zae-limiter.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Selectors do not change during an update. */}}
{{- define "zae-limiter.selector" -}}
app.kubernetes.io/name: {{ include "zae-limiter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "zae-limiter.labels" -}}
{{ include "zae-limiter.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "zae-limiter.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name of a service account: of .account, where .fullname is the name that the chart gives. */}}
{{- define "zae-limiter.account" -}}
{{- if .account.create -}}{{ .account.name | default .fullname }}{{- else -}}{{ .account.name | default "default" }}{{- end -}}
{{- end -}}

{{- define "zae-limiter.service" -}}
{{- .Values.service.name | default (include "zae-limiter.fullname" .) -}}
{{- end -}}

{{/* Whether Envoy is served: "true", or nothing. */}}
{{- define "zae-limiter.envoy" -}}
{{- if or .Values.envoy.rules .Values.envoy.ratelimitConfig .Values.envoy.xds.address -}}true{{- end -}}
{{- end -}}

{{/* Whether its rules are files: "true", or nothing. */}}
{{- define "zae-limiter.envoyFiles" -}}
{{- if or .Values.envoy.rules .Values.envoy.ratelimitConfig -}}true{{- end -}}
{{- end -}}

{{/* Flags about the table, which all commands have. */}}
{{- define "zae-limiter.tableArgs" -}}
- --table={{ .Values.table.name }}
{{- with .Values.table.region }}
- --region={{ . }}
{{- end }}
{{- with .Values.table.endpointURL }}
- {{ printf "--endpoint-url=%s" . | quote }}
{{- end }}
- --timeout={{ int .Values.timeoutSeconds }}s
- --log-level={{ .Values.logLevel }}
{{- end -}}

{{/* The process is nobody, writes nowhere, and may do nothing but use the network. */}}
{{- define "zae-limiter.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}
{{- define "zae-limiter.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Values that the schema admits one by one, and that do not fit together. */}}
{{- define "zae-limiter.check" -}}
{{- with .Values -}}
{{- if not (or .auth.tokenSecret.name .auth.oidc.issuer .auth.allowUnauthenticated) -}}
{{- fail "nobody can prove who calls: give auth.tokenSecret.name or auth.oidc.issuer, or set auth.allowUnauthenticated" -}}
{{- end -}}
{{- if and .auth.oidc.issuer (not (and .auth.oidc.audience .auth.oidc.roles)) -}}
{{- fail "auth.oidc.issuer needs auth.oidc.audience, and at least one of auth.oidc.roles" -}}
{{- end -}}
{{- if and (not .auth.oidc.issuer) (or .auth.oidc.audience .auth.oidc.claim .auth.oidc.roles) -}}
{{- fail "auth.oidc.audience, auth.oidc.claim and auth.oidc.roles need auth.oidc.issuer" -}}
{{- end -}}
{{- if and .tls.clientCA (not .tls.secret) -}}
{{- fail "tls.clientCA needs tls.secret: callers show certificates over TLS only" -}}
{{- end -}}
{{- if and .envoy.rules .envoy.ratelimitConfig -}}
{{- fail "give envoy.rules or envoy.ratelimitConfig, not both" -}}
{{- end -}}
{{- if and .envoy.xds.address (or .envoy.rules .envoy.ratelimitConfig) -}}
{{- fail "envoy.xds.address takes the place of envoy.rules and envoy.ratelimitConfig: give one of the three" -}}
{{- end -}}
{{- with .envoy.xds -}}
{{- if and (not .address) (or .tls.secret .tls.clientCertificate .tls.serverName) -}}
{{- fail "envoy.xds.tls needs envoy.xds.address: it is for the connection to the management server" -}}
{{- end -}}
{{- if and .tls.clientCertificate (not .tls.secret) -}}
{{- fail "envoy.xds.tls.clientCertificate needs envoy.xds.tls.secret, which has the certificate" -}}
{{- end -}}
{{- end -}}
{{- if and .autoscaling.enabled (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas: give fewer, or more" -}}
{{- end -}}
{{- if and .autoscaling.enabled (not (dig "requests" "cpu" "" .resources)) -}}
{{- fail "autoscaling needs resources.requests.cpu, of which its target is a part" -}}
{{- end -}}
{{- if and .autoscaling.enabled (eq .onUnavailable "share") -}}
{{- fail "onUnavailable share divides each limit by the number of pods, which autoscaling changes: set replicas instead, or give block or allow" -}}
{{- end -}}
{{- if eq (int .service.port) (int .service.grpcPort) -}}
{{- fail "service.port and service.grpcPort are the same: give two ports" -}}
{{- end -}}
{{- if and .networkPolicy.enabled (not .networkPolicy.callers) -}}
{{- fail "networkPolicy.enabled needs networkPolicy.callers: nobody could call" -}}
{{- end -}}
{{- if and .serviceMonitor.enabled (not .auth.allowUnauthenticated) (not .serviceMonitor.tokenSecret.name) -}}
{{- fail "serviceMonitor.enabled needs serviceMonitor.tokenSecret.name: the metrics are for readers" -}}
{{- end -}}
{{- range $name := list "app.kubernetes.io/name" "app.kubernetes.io/instance" -}}
{{- if hasKey $.Values.podLabels $name -}}
{{- fail (printf "podLabels has %s, by which the chart selects pods: give another label" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
