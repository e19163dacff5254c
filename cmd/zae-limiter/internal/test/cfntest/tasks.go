package cfntest

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// SetTasks sets the status of all tasks, and that of the agent of Session Manager in them.
// Otherwise both are RUNNING.
func (c *Cloud) SetTasks(status, agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.task, c.agent = status, agent
}

// ListTasks lists the tasks of a service: one, unless it is to have none.
func (c *Cloud) ListTasks(_ context.Context, in *ecs.ListTasksInput, _ ...func(*ecs.Options)) (*ecs.ListTasksOutput, error) {
	return call(c, "ListTasks", func() (*ecs.ListTasksOutput, error) {
		cluster, service := aws.ToString(in.Cluster), aws.ToString(in.ServiceName)
		if !c.exists["AWS::ECS::Cluster "+cluster] {
			return nil, &types.ClusterNotFoundException{Message: aws.String("Cluster not found.")}
		}
		for _, s := range c.stacks {
			for _, r := range s.resources {
				if r.Type != "AWS::ECS::Service" || r.values["Cluster"] != cluster || r.values["ServiceName"] != service || !c.exists[r.Type+" "+r.physical] {
					continue
				}
				out := &ecs.ListTasksOutput{}
				if r.values["DesiredCount"] != "0" {
					out.TaskArns = []string{fmt.Sprintf("arn:aws:ecs:%s:%s:task/%s/0123456789abcdef0123456789abcdef", Region, Account, cluster)}
				}
				return out, nil
			}
		}
		return nil, &types.ServiceNotFoundException{Message: aws.String("Service not found.")}
	})
}

// DescribeTasks shows tasks, each with the container of a Locust master.
func (c *Cloud) DescribeTasks(_ context.Context, in *ecs.DescribeTasksInput, _ ...func(*ecs.Options)) (*ecs.DescribeTasksOutput, error) {
	return call(c, "DescribeTasks", func() (*ecs.DescribeTasksOutput, error) {
		out := &ecs.DescribeTasksOutput{}
		for _, arn := range in.Tasks {
			id := arn[strings.LastIndexByte(arn, '/')+1:]
			out.Tasks = append(out.Tasks, types.Task{
				TaskArn: &arn, LastStatus: &c.task,
				Containers: []types.Container{{
					Name: aws.String("locust"), RuntimeId: aws.String(id + "-0987654321"),
					ManagedAgents: []types.ManagedAgent{{Name: types.ManagedAgentNameExecuteCommandAgent, LastStatus: &c.agent}},
				}},
			})
		}
		return out, nil
	})
}
