package stack

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Task is a task of ECS with a container that Session Manager reaches.
type Task struct {
	Cluster, ID string
	// Runtime is the ID of the container.
	Runtime string
}

// Target is what a session of Session Manager connects to.
func (t Task) Target() string { return "ecs:" + t.Cluster + "_" + t.ID + "_" + t.Runtime }

// Task returns the task of a service that runs, with one of its containers. It fails with
// [store.ErrNotFound] if the service has no task, and with [store.ErrUnavailable] while the
// task, the container or its agent of Session Manager starts.
func (m *Manager) Task(ctx context.Context, cluster, service, container string) (Task, error) {
	op := "find the task of service " + service
	if m.o.Clients.Tasks == nil {
		return Task{}, &store.ValidationError{Field: "Clients.Tasks", Reason: "give a client"}
	}
	listed, err := m.o.Clients.Tasks.ListTasks(ctx, &ecs.ListTasksInput{Cluster: &cluster, ServiceName: &service})
	if err != nil {
		return Task{}, translate(op, err)
	}
	if len(listed.TaskArns) == 0 {
		return Task{}, &store.NotFoundError{Kind: "task of service", Name: service, Hint: "it is switched off, or its task does not start: see the events of the service in ECS"}
	}
	out, err := m.o.Clients.Tasks.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &cluster, Tasks: listed.TaskArns})
	if err != nil {
		return Task{}, translate(op, err)
	}
	waits := "it has ended"
	for i := range out.Tasks {
		t := &out.Tasks[i]
		runtime, reason := reachable(t, container)
		if reason == "" {
			arn := aws.ToString(t.TaskArn)
			return Task{cluster, arn[strings.LastIndexByte(arn, '/')+1:], runtime}, nil
		}
		waits = reason
	}
	return Task{}, fmt.Errorf("%s: %w: %s: try again in a minute", op, store.ErrUnavailable, waits)
}

// reachable returns the ID of a container in which the agent of Session Manager runs, or the
// reason for which there is none.
func reachable(t *types.Task, container string) (runtime, reason string) {
	const running = "RUNNING"
	if s := aws.ToString(t.LastStatus); s != running {
		return "", "its task is " + s
	}
	for _, c := range t.Containers {
		if aws.ToString(c.Name) != container {
			continue
		}
		for _, agent := range c.ManagedAgents {
			if agent.Name == types.ManagedAgentNameExecuteCommandAgent && aws.ToString(agent.LastStatus) == running && aws.ToString(c.RuntimeId) != "" {
				return *c.RuntimeId, ""
			}
		}
		return "", "the agent of Session Manager in container " + container + " does not run yet"
	}
	return "", "its task has no container " + container
}
