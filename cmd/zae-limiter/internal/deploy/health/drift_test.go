package health_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/store"
)

// CloudFormation sees none of these changes by hand.
func TestWhatSomebodyChangedInAFunctionIsFound(t *testing.T) {
	t.Parallel()
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of hello
	const key = "functions/" + sum + ".zip"
	parameters := map[string]string{"CodeKey": key, "LambdaMemorySize": "256", "LambdaTimeout": "60", "Architecture": "arm64", "LogLevel": "info", "SnapshotRetentionDays": "90"}
	code := func() stack.Function {
		return stack.Function{
			SHA256: sum, Handler: "aggregator", Runtime: "provided.al2023", Architecture: "arm64", MemoryMB: 256, TimeoutS: 60,
			Environment: map[string]string{"TABLE_NAME": "limits", "LOG_LEVEL": "info", "SNAPSHOT_TTL_DAYS": "90"},
		}
	}
	for name, c := range map[string]struct {
		change func(*stack.Function)
		finds  string
	}{
		"nothing":     {func(*stack.Function) {}, ""},
		"code":        {func(c *stack.Function) { c.SHA256 = "AAAA" }, "the code of the function is not the one that was deployed"},
		"handler":     {func(c *stack.Function) { c.Handler = "index.handler" }, "the handler of the function is index.handler, and not aggregator as the stack says"},
		"runtime":     {func(c *stack.Function) { c.Runtime = "python3.12" }, "the runtime of the function is python3.12, and not provided.al2023 as the stack says"},
		"memory":      {func(c *stack.Function) { c.MemoryMB = 128 }, "the memory in MB of the function is 128, and not 256 as the stack says"},
		"timeout":     {func(c *stack.Function) { c.TimeoutS = 3 }, "the timeout in seconds of the function is 3, and not 60 as the stack says"},
		"environment": {func(c *stack.Function) { c.Environment["TABLE_NAME"] = "other" }, "the variable TABLE_NAME of the function is other, and not limits as the stack says"},
		"retention":   {func(c *stack.Function) { delete(c.Environment, "SNAPSHOT_TTL_DAYS") }, "the variable SNAPSHOT_TTL_DAYS of the function is , and not 90 as the stack says"},
	} {
		has := code()
		c.change(&has)
		r := &health.Report{
			Stack:      health.Read(health.Stack{Name: "limits", Status: "UPDATE_COMPLETE", Parameters: parameters}),
			Aggregator: &health.Function{Name: "limits-aggregator", Code: health.Read(health.Code{Has: has})},
		}
		r.Table = health.Failed[admin.Description]("dynamodb:DescribeTable", store.ErrAccessDenied)
		r.Judge()
		found := ""
		for _, f := range r.Findings {
			if f.Part == "aggregator" && f.Verdict == health.Degraded {
				found = f.What
			}
		}
		if found != c.finds {
			t.Errorf("%s: found %q, want %q", name, found, c.finds)
		}
	}
}
