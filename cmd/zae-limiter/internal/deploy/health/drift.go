package health

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

// judgeDrift finds what somebody changed in a function by hand. CloudFormation does not see it.
func (r *Report) judgeDrift(part string, f *Function) {
	if r.Stack.Value == nil || f.Code.Value == nil {
		return
	}
	s := &stack.Stack{Name: r.Stack.Value.Name, Parameters: r.Stack.Value.Parameters, Outputs: r.Stack.Value.Outputs}
	for _, d := range f.Code.Value.Has.Differences(s.Function(part)) {
		what := fmt.Sprintf("the %s of the function is %s, and not %s as the stack says", d.Name, d.Has, d.Want)
		if d.Name == "code" {
			what = "the code of the function is not the one that was deployed"
		}
		r.find(Degraded, part, "zae-limiter upgrade puts it back", "%s", what)
	}
}
