package loadstack_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/optiontest"
)

func TestTheTemplateFits(t *testing.T) {
	t.Parallel()
	if n := len(newSpec(t, least()).Template()); n > deploy.MaxTemplateBytes {
		t.Errorf("the template has %d bytes, of %d that CloudFormation takes", n, deploy.MaxTemplateBytes)
	}
}

// Nothing outside the stack can connect to anything in it. The peer opens its ports, and one
// that Locust no longer uses.
func TestOnlyTheStackItselfConnects(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(widest())
		for _, id := range w.ofType("AWS::EC2::SecurityGroup") {
			rules, _ := w.property(id, "SecurityGroupIngress").([]any)
			for _, rule := range rules {
				if _, ok := rule.(map[string]any)["SourceSecurityGroupId"]; !ok {
					w.Errorf("%s admits %v", id, rule)
				}
			}
		}
		var admitted []string
		for _, id := range w.ofType("AWS::EC2::SecurityGroupIngress") {
			p := w.cloud.Properties("limits-load", id)
			admitted = append(admitted, fmt.Sprint(id, " ", p["FromPort"], "-", p["ToPort"], " ", p["SourceSecurityGroupId"] != nil, " ", p["CidrIp"] != nil))
		}
		if diff := cmp.Diff([]string{"MasterFromOrchestrator 8089-8089 true false", "MasterFromWorkers 5557-5557 true false"}, admitted); diff != "" {
			w.Errorf("rules (-want +got):\n%s", diff)
		}
	})
}

func TestEveryLogEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(widest())
		groups := w.ofType("AWS::Logs::LogGroup")
		for _, id := range groups {
			if got := w.property(id, "RetentionInDays"); got != "30" {
				w.Errorf("%s keeps logs for %v days", id, got)
			}
		}
		if len(groups) != 3 {
			w.Errorf("groups %v", groups)
		}
	})
}

// The functions are this program, each with its handler.
func TestTheFunctionsAreThisProgram(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(widest())
		for id, handler := range map[string]string{"WorkerFunction": "loadworker", "OrchestratorFunction": "loadorchestrator"} {
			p := w.cloud.Properties("limits-load", id)
			if p["Handler"] != handler || p["Runtime"] != "provided.al2023" || fmt.Sprint(p["Architectures"]) != "[x86_64]" || fmt.Sprint(p["Code"]) != "map[S3Bucket:limits-code S3Key:functions/0.zip]" {
				w.Errorf("%s: %v", id, p)
			}
		}
		if got := w.property("WorkerFunction", "ReservedConcurrentExecutions"); got != strconv.Itoa(newSpec(w.T, widest()).Concurrency()) {
			w.Errorf("the workers have %v concurrent calls", got)
		}
		if got := w.property("OrchestratorFunction", "ReservedConcurrentExecutions"); got != "1" {
			w.Errorf("there can be %v orchestrators at a time", got)
		}
		for _, id := range []string{"WorkerInvocation", "OrchestratorInvocation"} { // an old event is not repeated
			if p := w.cloud.Properties("limits-load", id); p["MaximumRetryAttempts"] != "0" || p["MaximumEventAgeInSeconds"] != "60" {
				w.Errorf("%s: %v", id, p)
			}
		}
	})
}

func TestTheMasterIsALocustThatRebalances(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(widest())
		p := w.cloud.Properties("limits-load", "MasterService")
		if p["EnableExecuteCommand"] != "true" || fmt.Sprint(p["DeploymentConfiguration"].(map[string]any)["MaximumPercent"]) != "100" {
			w.Errorf("the service is %v", p)
		}
		c := w.property("MasterTask", "ContainerDefinitions").([]any)[0].(map[string]any)
		want := []any{"--master", "--master-bind-port", "5557", "--web-port", "8089", "--enable-rebalancing", "--class-picker", "--loglevel", "DEBUG"}
		if diff := cmp.Diff(want, c["Command"]); diff != "" {
			w.Errorf("arguments (-want +got):\n%s", diff)
		}
	})
	t.Run("without arguments", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.deploy(least())
			c := w.property("MasterTask", "ContainerDefinitions").([]any)[0].(map[string]any)
			if args := c["Command"].([]any); slices.Contains(args, any("")) || args[len(args)-1] != "--class-picker" {
				w.Errorf("arguments %q", args)
			}
		})
	})
}

func TestTheBoundaryIsAnARN(t *testing.T) {
	t.Parallel()
	for boundary, want := range map[string]any{"": nil, "edge": "arn:aws:iam::" + cfntest.Account + ":policy/edge", "arn:aws:iam::aws:policy/edge": "arn:aws:iam::aws:policy/edge"} {
		t.Run(boundary, func(t *testing.T) {
			inWorld(t, func(w *world) {
				o := widest()
				o.PermissionBoundary = boundary
				w.deploy(o)
				for _, role := range w.ofType("AWS::IAM::Role") {
					if got := w.property(role, "PermissionsBoundary"); got != want {
						w.Errorf("the boundary of %s is %v, not %v", role, got, want)
					}
				}
			})
		})
	}
}

func TestNamesFollowTheFormat(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(widest())
		var names []string
		for _, role := range w.ofType("AWS::IAM::Role") {
			names = append(names, w.property(role, "RoleName").(string))
		}
		if diff := cmp.Diff([]string{"team-limits-load-exec-role", "team-limits-load-master-role", "team-limits-load-orch-role", "team-limits-load-worker-role"}, names); diff != "" {
			w.Errorf("roles (-want +got):\n%s", diff)
		}
	})
}

// statements are those of all policies of a role.
func (w *world) statements(role string) (all []any) {
	w.Helper()
	for _, p := range w.property(role, "Policies").([]any) {
		all = append(all, p.(map[string]any)["PolicyDocument"].(map[string]any)["Statement"].([]any)...)
	}
	return all
}

// Only the workers have access to the table.
func TestTheRolesHaveWhatTheyCallAndNoMore(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(widest())
		for role, want := range map[string][]string{
			"MasterRole": {"ssmmessages"}, "ExecutionRole": {"ecr", "logs"},
			"OrchestratorRole": {"ec2", "lambda", "logs"}, "WorkerRole": {"dynamodb", "ec2", "logs"},
		} {
			services := map[string]bool{}
			for _, s := range w.statements(role) {
				actions, ok := s.(map[string]any)["Action"].([]any)
				if !ok {
					actions = []any{s.(map[string]any)["Action"]}
				}
				for _, a := range actions {
					service, verb, _ := strings.Cut(a.(string), ":")
					if services[service] = true; strings.Contains(verb, "*") {
						w.Errorf("%s has %s", role, a)
					}
				}
			}
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(services))); diff != "" {
				w.Errorf("services of %s (-want +got):\n%s", role, diff)
			}
		}
	})
}

var updatePolicies = flag.Bool("update.policies", false, "write the policy of the workers to the file that the judge of permissions reads")

// recordedPolicy has the policy of the workers, in the namespace ns1.
const recordedPolicy = "../../test/permissions/recorded/loadworker.json"

// The judge of permissions reads the policy of the workers as the template has it now.
func TestTheJudgedPolicyIsThatOfTheTemplate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(least())
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", "\t")
		if err := e.Encode(map[string]any{"Version": "2012-10-17", "Statement": w.statements("WorkerRole")}); err != nil {
			w.Fatal(err)
		}
		got := strings.ReplaceAll(text.String(), ":eu-central-1:", ":eu-west-1:") // where the judge's requests are
		if *updatePolicies {
			if err := os.WriteFile(recordedPolicy, []byte(got), 0o600); err != nil {
				w.Fatal(err)
			}
		}
		want, err := os.ReadFile(recordedPolicy)
		if err != nil {
			w.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			w.Errorf("the policy has changed; make permissions and make conformance judge it (-recorded +template):\n%s", diff)
		}
	})
}

// The template itself refuses what the options refuse: others may deploy it.
func TestTheTemplateRefusesWrongParameters(t *testing.T) {
	t.Parallel()
	spec := newSpec(t, widest())
	for _, p := range spec.Parameters() {
		if optiontest.Refuses(string(spec.Template()), p.Key, p.Value) {
			t.Errorf("%s=%.20q is refused", p.Key, p.Value)
		}
	}
	for key, value := range map[string]string{
		"TableName": "a.b", "TableArn": "limits", "Namespace": "a/b", "NamespaceId": "ns*", "AssignPublicIp": "yes", "PrivateEndpoints": "yes", "MasterCount": "2",
		"LocustImage": "Locust", "LocustArguments": "--x; rm", "Locustfile": "", "TaskCpu": "100", "TaskMemory": "1", "TaskArchitecture": "arm64", "CapacityProvider": "EC2",
		"CodeBucket": "A", "CodeKey": "", "Architecture": "ppc", "Scenario": "A", "ScenarioFile": strings.Repeat("a", 3001), "WorkerMemorySize": "1", "WorkerTimeout": "300",
		"MinWorkers": "0", "MaxWorkers": "0", "WorkerConcurrency": "1", "UsersPerWorker": "0", "WorkerImage": "A", "FargateWorkers": "-1", "LogRetentionDays": "2",
	} {
		if !optiontest.Refuses(string(spec.Template()), key, value) {
			t.Errorf("%s=%.20q is taken", key, value)
		}
	}
}
