package stack_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/store"
)

// service is a stack with one service of ECS.
const service = `
Resources:
  Cluster: {Type: AWS::ECS::Cluster, Properties: {ClusterName: limits-load}}
  Service: {Type: AWS::ECS::Service, Properties: {Cluster: !Ref Cluster, ServiceName: master, DesiredCount: COUNT}}
`

func TestATaskIsFoundOnceItsAgentRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		m, err := stack.New(stack.Options{Type: stack.TypeLoadTest, Clients: stack.Clients{
			CloudFormation: w.cloud, Buckets: w.cloud, Functions: w.cloud, Tagging: w.cloud, Database: w.engine, Tasks: w.cloud,
		}})
		if err != nil {
			w.Fatal(err)
		}
		spec := stack.Spec{Name: "limits-load", Template: strings.Replace(service, "COUNT", "1", 1), Tags: map[string]string{stack.TagManagedBy: stack.ManagedBy, stack.TagType: stack.TypeLoadTest}}
		if _, err := m.Deploy(w.Context(), stack.Rollout{Spec: spec}); err != nil {
			w.Fatal(err)
		}
		const id = "0123456789abcdef0123456789abcdef"
		got, err := m.Task(w.Context(), "limits-load", "master", "locust")
		if want := "ecs:limits-load_" + id + "_" + id + "-0987654321"; err != nil || got.Target() != want {
			w.Errorf("target %s, want %s: %v", got.Target(), want, err)
		}
		for _, c := range []struct{ status, agent, container, says string }{
			{"PENDING", "PENDING", "locust", "its task is PENDING"},
			{"RUNNING", "STOPPED", "locust", "the agent of Session Manager"},
			{"RUNNING", "RUNNING", "other", "no container other"},
		} {
			w.cloud.SetTasks(c.status, c.agent)
			if _, err := m.Task(w.Context(), "limits-load", "master", c.container); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), c.says) {
				w.Errorf("%s, %s: %v", c.status, c.agent, err)
			}
		}
		if _, err := m.Task(w.Context(), "limits-load", "other", "locust"); err == nil {
			w.Error("a service that does not exist has a task")
		}
		w.cloud.Fault(func(string) cfntest.Fault { return cfntest.Fault{Before: cfntest.Expired()} })
		if _, err := m.Task(w.Context(), "limits-load", "master", "locust"); !errors.Is(err, store.ErrAccessDenied) {
			w.Errorf("without credentials: %v", err)
		}
		w.cloud.Fault(func(string) cfntest.Fault { return cfntest.Fault{} })
		spec.Template = strings.Replace(service, "COUNT", "0", 1)
		if _, err := m.Deploy(w.Context(), stack.Rollout{Spec: spec}); err != nil {
			w.Fatal(err)
		}
		if _, err := m.Task(w.Context(), "limits-load", "master", "locust"); !errors.Is(err, store.ErrNotFound) {
			w.Errorf("without tasks: %v", err)
		}
		if _, err := w.Task(w.Context(), "limits-load", "master", "locust"); !errors.As(err, new(*store.ValidationError)) {
			w.Errorf("without a client: %v", err)
		}
	})
}

func TestTheTypeIsChecked(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := stack.New(stack.Options{Type: "queue", Clients: stack.Clients{CloudFormation: w.cloud, Buckets: w.cloud, Functions: w.cloud, Tagging: w.cloud, Database: w.engine}})
		if bad := (*store.ValidationError)(nil); !errors.As(err, &bad) || bad.Field != "Type" {
			w.Error(err)
		}
	})
}

// Whoever stops waiting for a stack for load tests learns the commands on it.
func TestAnInterruptedWaitNamesTheCommandsOfItsType(t *testing.T) {
	for kind, says := range map[string]string{stack.TypeLimiter: "zae-limiter status --watch -n limits", stack.TypeLoadTest: "zae-limiter loadtest list"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				m, err := stack.New(stack.Options{Type: kind, Clients: stack.Clients{CloudFormation: w.cloud, Buckets: w.cloud, Functions: w.cloud, Tagging: w.cloud, Database: w.engine}})
				if err != nil {
					w.Fatal(err)
				}
				spec := stack.Spec{Name: "limits", Template: service, Tags: map[string]string{stack.TagManagedBy: stack.ManagedBy, stack.TagType: kind}}
				r := stack.Rollout{Spec: spec, Progress: func(stack.Event) {
					w.cloud.Fault(func(string) cfntest.Fault { return cfntest.Fault{Before: cfntest.Expired()} })
				}}
				_, err = m.Deploy(w.Context(), r)
				if stopped := (*stack.InterruptedError)(nil); !errors.As(err, &stopped) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "deploy again") {
					w.Errorf("%v", err)
				}
			})
		})
	}
}
