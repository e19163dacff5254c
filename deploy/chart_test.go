package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/networking"
	"k8s.io/kubernetes/pkg/apis/policy"
	"sigs.k8s.io/yaml"
)

const (
	chartFolder = "helm/zae-limiter"
	space       = "limits" // the namespace of releases
)

// built is where the program of the repository is, which the tests share.
var built = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "deploy")
	if err != nil {
		return "", err
	}
	program := filepath.Join(folder, "zae-limiter")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "./cmd/zae-limiter")
	build.Dir, build.Env = "..", append(os.Environ(), "GOWORK=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
})

// TestMain removes the program at the end.
func TestMain(m *testing.M) {
	code := m.Run()
	if program, err := built(); err == nil {
		_ = os.RemoveAll(filepath.Dir(program)) // the next run makes it again
	}
	os.Exit(code)
}

// binary returns the path of the program.
func binary(t *testing.T) string {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// parse reads values.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// render returns the manifests of the chart with these values, as helm template prints them.
func render(values map[string]any, release string) (manifests []string, err error) {
	chart, err := loader.Load(chartFolder)
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: release, Namespace: space, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".yaml" {
			continue
		}
		for text := range strings.SplitSeq("\n"+files[name], "\n---\n") {
			if strings.TrimSpace(text) != "" {
				manifests = append(manifests, text)
			}
		}
	}
	return manifests, nil
}

// A release is what the chart makes, by kind.
type release struct {
	service, aggregator *apps.Deployment
	objects             map[string][]runtime.Object
	rules               map[string]string
}

// install renders the chart, and admits all that it makes.
func install(t *testing.T, values, name string) release {
	t.Helper()
	manifests, err := render(parse(t, values), name)
	if err != nil {
		t.Fatal(err)
	}
	r := release{objects: map[string][]runtime.Object{}}
	decode, names := decoder(t), map[string]bool{}
	for _, manifest := range manifests {
		object, err := admit(decode, manifest)
		if err != nil {
			t.Fatalf("%v\n%s", err, manifest)
		}
		kind := reflect.TypeOf(object).Elem().Name()
		meta, ok := object.(metav1.Object)
		if !ok || meta.GetNamespace() != space || names[kind+meta.GetName()] {
			t.Errorf("a %s has no namespace, or a name that another one has: %s", kind, manifest)
			continue
		}
		names[kind+meta.GetName()] = true
		r.objects[kind] = append(r.objects[kind], object)
		switch o := object.(type) {
		case *core.ConfigMap:
			r.rules = o.Data
		case *apps.Deployment:
			if problem, err := restricted(manifest); problem != "" || err != nil {
				t.Errorf("%s does not fit the standard: %s %v", o.Name, problem, err)
			}
			if o.Spec.Template.Spec.Containers[0].Args[0] == "aggregate" {
				r.aggregator = o
			} else {
				r.service = o
			}
		}
	}
	return r
}

// cases are values of every kind of user.
var cases = map[string]string{
	"defaults": "{}",
	"TLS": `
tls: {secret: limits-tls, clientCA: true}
auth: {tokenSecret: {name: ""}, allowUnauthenticated: true}
`,
	"AI gateway": `
fullnameOverride: envoy-ai-gateway-ratelimit
auth: {tokenSecret: {name: ""}, allowUnauthenticated: true}
networkPolicy: {enabled: true, callers: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: envoy-gateway-system}}}]}
envoy: {xds: {address: "ai-gateway-controller.envoy-ai-gateway-system:18002", node: envoy-ai-gateway-ratelimit}}
service: {name: envoy-ai-gateway-ratelimit}
`,
	"Envoy Gateway": `
auth: {tokenSecret: {name: ""}, allowUnauthenticated: true}
tls: {secret: envoy-rate-limit, clientCA: true}
networkPolicy: {enabled: true, callers: [{podSelector: {}}]}
envoy: {xds: {address: "envoy-gateway:18001", node: envoy-ratelimit, tls: {secret: envoy-rate-limit, clientCertificate: true, serverName: envoy-gateway}}}
`,
	"xDS with authorities alone":          `{envoy: {xds: {address: "rules.example.com:443", tls: {secret: authorities}}}}`,
	"xDS with authorities of the machine": `{envoy: {xds: {address: "rules.internal:443", tls: {serverName: rules.example.com}}}}`,
	"envoyproxy/ratelimit": `
envoy:
  ratelimitConfig:
    gateway.yaml: {domain: gateway, descriptors: [{key: tenant, rate_limit: {unit: minute, requests_per_unit: 5}}]}
    other.yml: {domain: other, descriptors: [{key: tenant, rate_limit: {unit: hour, requests_per_unit: 5}}]}
`,
	"OpenID": `
auth:
  tokenSecret: {name: ""}
  oidc: {issuer: https://id.example.com, audience: limits, claim: sub, roles: {"system:serviceaccount:shop:checkout": caller@shop, platform: operator}}
`,
	"share":         "{onUnavailable: share, replicas: 3}",
	"as a subchart": "{global: {anything: 1}}",
	"everything": `
image: {repository: registry.example.com:5000/limits/zae-limiter, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", pullPolicy: Always, pullSecrets: [registry]}
nameOverride: limits
table: {name: my.Table_1, namespace: "a: {b} #c", region: eu-central-1, endpointURL: "https://dynamodb.example.com:8000"}
fallback: ["rpm:60/min", "tpm:1000/min:2000"]
onUnavailable: allow
clampPercent: 50
drainSeconds: 20
maxWaitSeconds: 0
timeoutSeconds: 7
logLevel: warn
extraEnv: [{name: GOMEMLIMIT, value: 900MiB}]
auth: {oidc: {issuer: https://id.example.com, audience: limits, roles: {platform: operator}}}
tls: {secret: limits-tls, clientCA: true}
leaseKeySecret: {name: leases}
envoy: {rules: {domains: {gateway: [{entries: [tenant], entity: "{tenant}", resource: llm, take: {rpm: 1}}]}}}
autoscaling: {enabled: true, minReplicas: 3, maxReplicas: 20}
podDisruptionBudget: {maxUnavailable: 2}
service: {name: limits, type: LoadBalancer, port: 443, grpcPort: 8443, annotations: {service.beta.kubernetes.io/aws-load-balancer-scheme: internal}}
serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}, tokenSecret: {name: reader}}
networkPolicy: {enabled: true, callers: [{podSelector: {}}], scrapers: [{namespaceSelector: {}}], egress: [{ports: [{port: 8000}]}]}
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::123456789012:role/limits"}}
podAnnotations: {a: "1"}
podLabels: {team: limits}
nodeSelector: {kubernetes.io/arch: arm64}
tolerations: [{key: spot, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
priorityClassName: high
aggregator: {enabled: true, archive: "s3://trail/limits", serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::123456789012:role/aggregator"}}}
`,
	"nothing optional": "{podDisruptionBudget: {enabled: false}, topologySpread: false, serviceAccount: {create: false}, resources: {}, aggregator: {enabled: true, serviceAccount: {create: false, name: other}, resources: {}}}",
	"a long release":   "{nameOverride: a-name-of-sixty-three-characters-which-is-the-most-of-any-label, aggregator: {enabled: true}, envoy: {rules: {domains: {}}}}",
}

// Helm finds nothing to complain about, the API server takes all that the chart makes, and the program takes its flags.
func TestTheChart(t *testing.T) {
	t.Parallel()
	program := binary(t)
	for name, values := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, m := range lint.RunAll(chartFolder, parse(t, values), space).Messages {
				if m.Severity > support.InfoSev {
					t.Error(m)
				}
			}
			for _, releaseName := range []string{"zae-limiter", "l", "a-release-of-fifty-three-characters-is-the-longest-one"[:53]} {
				r := install(t, values, releaseName)
				checkPods(t, r, program)
				checkReferences(t, r)
			}
		})
	}
}

// checkPods checks what every pod of the chart has.
func checkPods(t *testing.T, r release, program string) {
	t.Helper()
	for _, d := range []*apps.Deployment{r.service, r.aggregator} {
		if d == nil {
			continue
		}
		pod := d.Spec.Template.Spec
		c := pod.Containers[0]
		out, err := exec.CommandContext(t.Context(), program, append(slices.Clone(c.Args), "--help")...).CombinedOutput()
		if err != nil {
			t.Errorf("the program refuses %q: %v\n%s", c.Args, err, out)
		}
		s := c.SecurityContext
		if !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || s.Capabilities.Drop[0] != "ALL" || !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser != 65532 {
			t.Errorf("%s has rights that it does not need", d.Name)
		}
		if *pod.AutomountServiceAccountToken {
			t.Errorf("%s has a token of Kubernetes", d.Name)
		}
		for _, probe := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe} {
			if probe.HTTPGet.Port.StrVal != "admin" || probe.HTTPGet.Scheme != core.URISchemeHTTP {
				t.Errorf("%s is asked for its health at %+v", d.Name, probe.HTTPGet)
			}
		}
	}
	// A pod is not killed before its calls have ended.
	drain := durationOf(t, r.service, "drain-wait") + durationOf(t, r.service, "max-wait") + 2*durationOf(t, r.service, "timeout")
	if grace := time.Duration(*r.service.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; grace <= drain {
		t.Errorf("Kubernetes kills pods after %v, and a drain takes %v", grace, drain)
	}
	if a := r.aggregator; a != nil && (a.Spec.Replicas != 1 || a.Spec.Strategy.Type != apps.RecreateDeploymentStrategyType) {
		t.Errorf("several aggregators may run: %+v", a.Spec)
	}
}

// flagOf is the value of a flag of a container, or nothing.
func flagOf(d *apps.Deployment, name string) string {
	for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

func durationOf(t *testing.T, d *apps.Deployment, name string) time.Duration {
	t.Helper()
	duration, err := time.ParseDuration(flagOf(d, name))
	if err != nil {
		t.Errorf("--%s: %v", name, err)
	}
	return duration
}

// checkReferences checks that what names something names what is there.
func checkReferences(t *testing.T, r release) {
	t.Helper()
	pods := labels.Set(r.service.Spec.Template.Labels)
	selects := func(what string, selector *metav1.LabelSelector) {
		t.Helper()
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() || !s.Matches(pods) {
			t.Errorf("%s does not select the pods of the service: %v, %v", what, selector, err)
		}
		if r.aggregator != nil && what != "the policy" && s.Matches(labels.Set(r.aggregator.Spec.Template.Labels)) {
			t.Errorf("%s selects the aggregator", what)
		}
	}
	selects("the deployment", r.service.Spec.Selector)
	for _, o := range r.objects["Service"] {
		s, _ := o.(*core.Service)
		selects("the service", &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
		for _, p := range s.Spec.Ports {
			if p.TargetPort.StrVal == "admin" || p.TargetPort.IntVal != 0 || portOf(r.service, p.TargetPort.StrVal) == 0 {
				t.Errorf("the service leads to %+v", p)
			}
		}
		if hasGRPC := flagOf(r.service, "grpc") != ""; hasGRPC != (len(s.Spec.Ports) == 2) {
			t.Errorf("gRPC is served %v, and the service has %+v", hasGRPC, s.Spec.Ports)
		}
	}
	for _, o := range r.objects["PodDisruptionBudget"] {
		b, _ := o.(*policy.PodDisruptionBudget)
		selects("the budget", b.Spec.Selector)
	}
	for _, o := range r.objects["NetworkPolicy"] {
		p, _ := o.(*networking.NetworkPolicy)
		selects("the policy", &p.Spec.PodSelector)
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				if portOf(r.service, port.Port.StrVal) == 0 || len(rule.From) == 0 {
					t.Errorf("the policy admits %+v", rule)
				}
			}
		}
	}
	for _, o := range r.objects["HorizontalPodAutoscaler"] {
		a, _ := o.(*autoscaling.HorizontalPodAutoscaler)
		if a.Spec.ScaleTargetRef.Name != r.service.Name {
			t.Errorf("the autoscaler scales %+v", a.Spec.ScaleTargetRef)
		}
	}
	for _, o := range r.objects["ServiceMonitor"] {
		m, _ := o.(*monitoring.ServiceMonitor)
		service, _ := r.objects["Service"][0].(*core.Service)
		if s, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector); err != nil || !s.Matches(labels.Set(service.Labels)) {
			t.Errorf("the monitor does not select the service: %v, %v", m.Spec.Selector, err)
		}
		if portOf(r.service, m.Spec.Endpoints[0].TargetPort.StrVal) == 0 {
			t.Errorf("the monitor scrapes %+v", m.Spec.Endpoints[0])
		}
	}
	checkMounts(t, r)
	checkAccounts(t, r)
}

// portOf is the port of a name in the pods, or 0.
func portOf(d *apps.Deployment, name string) int32 {
	for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

// checkMounts checks that each file of a flag is in a volume, and that no volume is without a flag.
func checkMounts(t *testing.T, r release) {
	t.Helper()
	pod := r.service.Spec.Template.Spec
	used := map[string]bool{}
	for _, arg := range pod.Containers[0].Args {
		_, file, _ := strings.Cut(arg, "=")
		if !strings.HasPrefix(file, "/") {
			continue
		}
		found := false
		for _, m := range pod.Containers[0].VolumeMounts {
			if file == m.MountPath || path.Dir(file) == m.MountPath {
				found, used[m.Name] = true, true
			}
			if m.SubPath != "" || !m.ReadOnly {
				t.Errorf("%s does not follow changes, or can be written to", m.MountPath)
			}
		}
		if !found {
			t.Errorf("nothing is mounted for %s", arg)
		}
	}
	for _, v := range pod.Volumes {
		if !used[v.Name] {
			t.Errorf("no flag uses the volume %s", v.Name)
		}
		if v.ConfigMap == nil {
			continue
		}
		config, _ := r.objects["ConfigMap"][0].(*core.ConfigMap)
		if v.ConfigMap.Name != config.Name {
			t.Errorf("a volume has the map %s, and the chart makes %s", v.ConfigMap.Name, config.Name)
		}
		if file := flagOf(r.service, "config"); file != "" && r.rules[path.Base(file)] == "" {
			t.Errorf("%s is not in the map: %v", file, r.rules)
		}
	}
	if flagOf(r.service, "config")+flagOf(r.service, "ratelimit-config") == "" && r.rules != nil {
		t.Errorf("nothing reads the map")
	}
}

// checkAccounts checks that pods have the service accounts that the chart makes.
func checkAccounts(t *testing.T, r release) {
	t.Helper()
	made := map[string]bool{}
	for _, o := range r.objects["ServiceAccount"] {
		a, _ := o.(*core.ServiceAccount)
		made[a.Name] = true
	}
	for _, d := range []*apps.Deployment{r.service, r.aggregator} {
		if d == nil {
			continue
		}
		if name := d.Spec.Template.Spec.ServiceAccountName; len(made) > 0 && !made[name] {
			t.Errorf("%s has the account %s, and the chart makes %v", d.Name, name, made)
		}
		delete(made, d.Spec.Template.Spec.ServiceAccountName)
	}
	if len(made) > 0 {
		t.Errorf("nobody uses %v", made)
	}
}

// The values reach what they name.
func TestTheValuesOfTheChart(t *testing.T) {
	t.Parallel()
	r := install(t, cases["everything"], "zae-limiter")
	c := r.service.Spec.Template.Spec.Containers[0]
	for _, want := range []string{
		"--table=my.Table_1", "--namespace=a: {b} #c", "--region=eu-central-1", "--endpoint-url=https://dynamodb.example.com:8000",
		"--fallback=rpm:60/min", "--fallback=tpm:1000/min:2000", "--on-unavailable=allow", "--clamp-percent=50", "--log-level=warn",
		"--oidc-role=platform=operator", "--tls-client-ca=/etc/zae-limiter/tls/ca.crt", "--lease-key-file=/etc/zae-limiter/leases/keys",
	} {
		if !slices.Contains(c.Args, want) {
			t.Errorf("%s is not among %q", want, c.Args)
		}
	}
	if !strings.HasPrefix(c.Image, "registry.example.com:5000/limits/zae-limiter@sha256:") {
		t.Errorf("the image is %s", c.Image)
	}
	for kind, want := range map[string]int{"Deployment": 2, "ServiceAccount": 2, "Service": 1, "ConfigMap": 1, "PodDisruptionBudget": 1, "HorizontalPodAutoscaler": 1, "NetworkPolicy": 1, "ServiceMonitor": 1} {
		if got := len(r.objects[kind]); got != want {
			t.Errorf("everything has %d of %s, want %d", got, kind, want)
		}
	}
	for _, o := range r.objects["ServiceAccount"] {
		if a, _ := o.(*core.ServiceAccount); a.Annotations["eks.amazonaws.com/role-arn"] == "" {
			t.Errorf("%s has no role", a.Name)
		}
	}
	gateway := install(t, cases["AI gateway"], "zae-limiter")
	service, _ := gateway.objects["Service"][0].(*core.Service)
	if service.Name != "envoy-ai-gateway-ratelimit" || service.Spec.Ports[1].Port != 8081 {
		t.Errorf("the AI gateway finds %s at %+v", service.Name, service.Spec.Ports)
	}
	if len(gateway.objects["ConfigMap"]) > 0 || flagOf(gateway.service, "xds-node") != "envoy-ai-gateway-ratelimit" || flagOf(gateway.service, "ratelimit-xds") == "" {
		t.Error("its rules do not come from its controller")
	}
	policy, _ := gateway.objects["NetworkPolicy"][0].(*networking.NetworkPolicy)
	if !slices.ContainsFunc(policy.Spec.Egress, func(r networking.NetworkPolicyEgressRule) bool {
		return len(r.Ports) == 1 && r.Ports[0].Port.IntValue() == 18002
	}) {
		t.Error("the policy keeps the service from the controller")
	}
	secured := install(t, cases["Envoy Gateway"], "zae-limiter").service
	for name, file := range map[string]string{"ca": "ca.crt", "cert": "tls.crt", "key": "tls.key"} {
		if got := flagOf(secured, "xds-tls-"+name); got != "/etc/zae-limiter/xds/"+file || secretAt(secured, path.Dir(got)) != "envoy-rate-limit" {
			t.Errorf("--xds-tls-%s is %q, of the Secret %q", name, got, secretAt(secured, path.Dir(got)))
		}
	}
	if got := flagOf(secured, "xds-tls-name"); got != "envoy-gateway" {
		t.Errorf("the server is to be %q", got)
	}
	if d := install(t, cases["xDS with authorities alone"], "zae-limiter").service; flagOf(d, "xds-tls-ca") == "" || flagOf(d, "xds-tls-cert")+flagOf(d, "xds-tls-name") != "" {
		t.Errorf("authorities alone: %q", d.Spec.Template.Spec.Containers[0].Args)
	}
	if d := install(t, cases["xDS with authorities of the machine"], "zae-limiter").service; flagOf(d, "xds-tls-name") == "" || flagOf(d, "xds-tls-ca") != "" || secretAt(d, "/etc/zae-limiter/xds") != "" {
		t.Errorf("authorities of the machine: %q", d.Spec.Template.Spec.Containers[0].Args)
	}
	if got := flagOf(install(t, cases["share"], "zae-limiter").service, "processes"); got != "3" {
		t.Errorf("three pods share for %q processes", got)
	}
}

// secretAt is the name of the Secret that is mounted at a folder; "" if none is.
func secretAt(d *apps.Deployment, folder string) string {
	pod := &d.Spec.Template.Spec
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, volume := range pod.Volumes {
			if mount.MountPath == folder && volume.Name == mount.Name && volume.Secret != nil {
				return volume.Secret.SecretName
			}
		}
	}
	return ""
}

// Values that are not valid are refused, and the message names the value and what to do.
func TestBadValuesAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range [][2]string{
		{"{replica: 3}", "additional properties 'replica' not allowed"},
		{"{replicas: 0}", "at '/replicas': minimum: got 0, want 1"},
		{"{replicas: two}", "at '/replicas': got string, want integer"},
		{"{table: {name: ab}}", "at '/table/name': minLength: got 2, want 3"},
		{"{table: {endpointURL: localhost}}", "at '/table/endpointURL'"},
		{"{onUnavailable: deny}", "at '/onUnavailable': value must be one of '', 'block', 'allow', 'share'"},
		{"{fallback: [rpm]}", "at '/fallback/0'"},
		{"{logLevel: trace}", "at '/logLevel': value must be one of"},
		{"{image: {digest: abc}}", "at '/image/digest'"},
		{"{image: {repository: \"\"}}", "at '/image/repository'"},
		{"{service: {name: Limits}}", "at '/service/name'"},
		{"{service: {name: 1limits}}", "at '/service/name'"},
		{"{service: {port: 70000}}", "at '/service/port': maximum: got 70,000, want 65,535"},
		{"{service: {grpcPort: 8080}}", "service.port and service.grpcPort are the same: give two ports"},
		{"{drainSeconds: -1}", "at '/drainSeconds': minimum"},
		{"{clampPercent: 101}", "at '/clampPercent': maximum"},
		{"{podLabels: {a: 1}}", "at '/podLabels/a': got number, want string"},
		{"{podLabels: {app.kubernetes.io/name: x}}", "podLabels has app.kubernetes.io/name"},
		{"{envoy: {ratelimitConfig: {a: {}}}}", "at '/envoy/ratelimitConfig': additional properties 'a' not allowed"},
		{"{auth: {tokenSecret: {name: \"\"}}}", "nobody can prove who calls: give auth.tokenSecret.name or auth.oidc.issuer, or set auth.allowUnauthenticated"},
		{"{auth: {oidc: {issuer: http://id}}}", "at '/auth/oidc/issuer'"},
		{"{auth: {oidc: {issuer: https://id}}}", "auth.oidc.issuer needs auth.oidc.audience"},
		{"{auth: {oidc: {audience: limits}}}", "auth.oidc.audience, auth.oidc.claim and auth.oidc.roles need auth.oidc.issuer"},
		{"{tls: {clientCA: true}}", "tls.clientCA needs tls.secret"},
		{"{envoy: {rules: {domains: {}}, ratelimitConfig: {a.yaml: {}}}}", "give envoy.rules or envoy.ratelimitConfig, not both"},
		{"{envoy: {rules: {domains: {}}, xds: {address: 'a:1'}}}", "give one of the three"},
		{"{envoy: {xds: {address: controller}}}", "at '/envoy/xds/address': 'controller' does not match pattern"},
		{"{envoy: {xds: {address: 'a:1', node: ''}}}", "at '/envoy/xds/node'"},
		{"{envoy: {xds: {tls: {secret: a}}}}", "envoy.xds.tls needs envoy.xds.address"},
		{"{envoy: {xds: {address: 'a:1', tls: {clientCertificate: true}}}}", "envoy.xds.tls.clientCertificate needs envoy.xds.tls.secret"},
		{"{envoy: {xds: {address: 'a:1', tls: {secret: A}}}}", "at '/envoy/xds/tls/secret'"},
		{"{envoy: {xds: {address: 'a:1', tls: {ca: a}}}}", "at '/envoy/xds/tls': additional properties 'ca' not allowed"},
		{"{autoscaling: {enabled: true, minReplicas: 11}}", "autoscaling.minReplicas is above autoscaling.maxReplicas"},
		{"{autoscaling: {enabled: true}, onUnavailable: share}", "onUnavailable share divides each limit by the number of pods"},
		{"{autoscaling: {enabled: true}, resources: {requests: null}}", "autoscaling needs resources.requests.cpu"},
		{"{networkPolicy: {enabled: true}}", "networkPolicy.enabled needs networkPolicy.callers"},
		{"{serviceMonitor: {enabled: true}}", "serviceMonitor.enabled needs serviceMonitor.tokenSecret.name"},
		{"{serviceMonitor: {interval: 30}}", "at '/serviceMonitor/interval': got number, want string"},
	} {
		values, want := tt[0], tt[1]
		if _, err := render(parse(t, values), "zae-limiter"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}
