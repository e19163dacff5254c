package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	externalapps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsv1 "k8s.io/kubernetes/pkg/apis/apps/v1"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	autoscalingv2 "k8s.io/kubernetes/pkg/apis/autoscaling/v2"
	autoscalingvalidation "k8s.io/kubernetes/pkg/apis/autoscaling/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	networkingv1 "k8s.io/kubernetes/pkg/apis/networking/v1"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	policyv1 "k8s.io/kubernetes/pkg/apis/policy/v1"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	security "k8s.io/pod-security-admission/api"
	securitypolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// decoder decodes, sets defaults and converts as the API server of Kubernetes does. Unknown fields are errors.
func decoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, corev1.AddToScheme, apps.AddToScheme, appsv1.AddToScheme, autoscaling.AddToScheme, autoscalingv2.AddToScheme,
		networking.AddToScheme, networkingv1.AddToScheme, policy.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
}

// admit does what the API server does with a manifest, and returns the object.
func admit(decode runtime.Decoder, manifest string) (runtime.Object, error) {
	text, err := yaml.YAMLToJSONStrict([]byte(manifest))
	if err != nil {
		return nil, err
	}
	var kind struct{ Kind string }
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, err
	}
	if kind.Kind == monitoring.ServiceMonitorsKind { // of the Prometheus operator
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		monitor := &monitoring.ServiceMonitor{}
		return monitor, strict.Decode(monitor)
	}
	object, _, err := decode.Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	problems, err := validate(object)
	if err != nil {
		return nil, err
	}
	return object, problems.ToAggregate()
}

// validate runs the API server's own validation.
func validate(object runtime.Object) (field.ErrorList, error) {
	switch o := object.(type) {
	case *apps.Deployment:
		return appsvalidation.ValidateDeployment(o, corevalidation.PodValidationOptions{}), nil
	case *core.Service:
		return corevalidation.ValidateServiceCreate(o), nil
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(o), nil
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(o), nil
	case *policy.PodDisruptionBudget:
		return policyvalidation.ValidatePodDisruptionBudget(o, policyvalidation.PodDisruptionBudgetValidationOptions{}), nil
	case *autoscaling.HorizontalPodAutoscaler:
		return autoscalingvalidation.ValidateHorizontalPodAutoscaler(o, autoscalingvalidation.HorizontalPodAutoscalerSpecValidationOptions{MinReplicasLowerBound: 1}), nil
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(o, networkingvalidation.NetworkPolicyValidationOptions{}), nil
	default:
		return nil, fmt.Errorf("nothing validates %T", object)
	}
}

// A mistake that the API server refuses is seen: a field that does not exist, a value that is not valid, and fields that do
// not fit together.
func TestMistakesAreSeen(t *testing.T) {
	t.Parallel()
	decode := decoder(t)
	for name, manifest := range map[string]string{
		"an unknown field":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\ndate: {}\n",
		"a name":                       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_B, namespace: b}\n",
		"two budgets":                  "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a, namespace: b}\nspec: {minAvailable: 1, maxUnavailable: 1, selector: {}}\n",
		"a key that repeats":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\nmetadata: {name: c, namespace: b}\n",
		"a field of the operator":      "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: a}\nspec: {endpoint: []}\n",
		"a kind that is not validated": "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: b}\n",
	} {
		if _, err := admit(decode, manifest); err == nil {
			t.Errorf("%s is admitted", name)
		}
	}
}

// restricted says what keeps the pods of a manifest from the standard "restricted" for the security of pods.
func restricted(manifest string) (string, error) {
	var d externalapps.Deployment
	if err := yaml.Unmarshal([]byte(manifest), &d); err != nil {
		return "", err
	}
	evaluator, err := securitypolicy.NewEvaluator(securitypolicy.DefaultChecks(), nil)
	if err != nil {
		return "", err
	}
	level := security.LevelVersion{Level: security.LevelRestricted, Version: security.LatestVersion()}
	verdict := securitypolicy.AggregateCheckResults(evaluator.EvaluatePod(level, &d.Spec.Template.ObjectMeta, &d.Spec.Template.Spec))
	return verdict.ForbiddenDetail(), nil
}
