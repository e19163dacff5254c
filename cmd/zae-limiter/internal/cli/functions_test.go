package cli_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

// changes are what somebody may do to a function by hand: to each property that the template
// has, and to each variable that the function has.
func changes(has *lambda.GetFunctionConfigurationOutput, own bool) map[string]func(*lambda.GetFunctionConfigurationOutput) {
	all := map[string]func(*lambda.GetFunctionConfigurationOutput){
		"code":         func(f *lambda.GetFunctionConfigurationOutput) { f.CodeSha256 = aws.String("bm90IG91cnM=") },
		"handler":      func(f *lambda.GetFunctionConfigurationOutput) { f.Handler = aws.String("index.handler") },
		"runtime":      func(f *lambda.GetFunctionConfigurationOutput) { f.Runtime = types.RuntimePython312 },
		"architecture": func(f *lambda.GetFunctionConfigurationOutput) { f.Architectures = nil },
		"no variables": func(f *lambda.GetFunctionConfigurationOutput) { f.Environment = nil },
	}
	if own { // parameters of the stack say how large the aggregator is
		all["memory"] = func(f *lambda.GetFunctionConfigurationOutput) { f.MemorySize = aws.Int32(128) }
		all["timeout"] = func(f *lambda.GetFunctionConfigurationOutput) { f.Timeout = aws.Int32(3) }
	}
	for name := range has.Environment.Variables {
		all["variable "+name] = func(f *lambda.GetFunctionConfigurationOutput) {
			variables := maps.Clone(f.Environment.Variables)
			variables[name] = "other"
			f.Environment = &types.EnvironmentResponse{Variables: variables}
		}
	}
	return all
}

// An upgrade makes a function again what the stack says, whatever somebody changed in it.
func TestAnUpgradePutsBackWhatSomebodyChanged(t *testing.T) {
	t.Parallel()
	w := newStackWorld(t)
	if code, _, stderr := w.run(t.Context(), "deploy", "-n", "limits", "--yes", "--merge-quiet", "0"); code != 0 {
		t.Fatal(stderr)
	}
	show := func(name string) *lambda.GetFunctionConfigurationOutput {
		f, err := w.cloud.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &name})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	upgraded := func() (repaired []string) {
		var out struct {
			Repaired []string `json:"repaired_functions"`
		}
		code, stdout, stderr := w.run(t.Context(), "upgrade", "-n", "limits", "--yes", "--output", "json")
		if err := json.Unmarshal([]byte(stdout), &out); code != 0 || err != nil {
			t.Fatalf("upgrade: exit code %d, %v: %s", code, err, stderr)
		}
		return out.Repaired
	}
	if repaired := upgraded(); len(repaired) > 0 {
		t.Errorf("repaired %v without a need", repaired)
	}
	for _, name := range []string{"limits-aggregator", "limits-limits-provisioner"} {
		before := show(name)
		for what, change := range changes(before, name == "limits-aggregator") {
			w.cloud.ChangeFunction(name, change)
			if repaired := upgraded(); !slices.Equal(repaired, []string{name}) {
				t.Errorf("%s of %s: repaired %v", what, name, repaired)
			}
			if diff := cmp.Diff(stack.FunctionOf(before), stack.FunctionOf(show(name))); diff != "" {
				t.Errorf("%s of %s (-before +after):\n%s", what, name, diff)
			}
		}
		w.cloud.ChangeFunction(name, func(f *lambda.GetFunctionConfigurationOutput) {
			f.Handler, f.Environment = aws.String("index.handler"), &types.EnvironmentResponse{Variables: map[string]string{"OWN": "value"}}
		})
		upgraded()
		if variables := show(name).Environment.Variables; variables["OWN"] != "value" || len(variables) < len(before.Environment.Variables) {
			t.Errorf("the variables of %s are %v", name, variables)
		}
	}
}
