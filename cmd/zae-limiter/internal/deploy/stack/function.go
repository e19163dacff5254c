package stack

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// A Function is what a function of a stack is, or what its stack says of it. A zero field says
// nothing.
type Function struct {
	SHA256                         string // of the code, in hexadecimal
	Handler, Runtime, Architecture string
	MemoryMB, TimeoutS             int32
	Environment                    map[string]string
}

// FunctionOf is a function as Lambda tells it.
func FunctionOf(out *lambda.GetFunctionConfigurationOutput) Function {
	f := Function{
		SHA256: aws.ToString(out.CodeSha256), Handler: aws.ToString(out.Handler), Runtime: string(out.Runtime), Architecture: string(types.ArchitectureX8664),
		MemoryMB: aws.ToInt32(out.MemorySize), TimeoutS: aws.ToInt32(out.Timeout),
	}
	if sum, err := base64.StdEncoding.DecodeString(f.SHA256); err == nil {
		f.SHA256 = hex.EncodeToString(sum)
	}
	if len(out.Architectures) > 0 {
		f.Architecture = string(out.Architectures[0])
	}
	if out.Environment != nil {
		f.Environment = out.Environment.Variables
	}
	return f
}

const handlerAggregator = "aggregator"

// handlerOf is the handler of a limiter's function, "" for other functions.
func (s *Stack) handlerOf(function string) string {
	switch function {
	case s.Outputs[OutputAggregator]:
		return handlerAggregator
	case s.Outputs[OutputProvisioner]:
		return "provisioner"
	}
	return ""
}

// Function is what the stack of a limiter says of its function with a handler. A stack of the
// Python package says nothing: its parameters are others.
func (s *Stack) Function(handler string) Function {
	p := s.Parameters
	if p[ParameterCodeKey] == "" || handler == "" {
		return Function{}
	}
	f := Function{
		SHA256: hashIn(p[ParameterCodeKey]), Handler: handler, Runtime: string(types.RuntimeProvidedal2023), Architecture: p["Architecture"],
		Environment: map[string]string{"TABLE_NAME": cmp.Or(s.Outputs[OutputTable], s.Name), "LOG_LEVEL": p["LogLevel"]},
	}
	if handler != handlerAggregator {
		return f
	}
	f.MemoryMB, f.TimeoutS = number(p["LambdaMemorySize"]), number(p["LambdaTimeout"])
	maps.Copy(f.Environment, map[string]string{
		"SNAPSHOT_TTL_DAYS": p["SnapshotRetentionDays"], "ZAEL_MERGE_QUIET": p["MergeQuiet"],
		"ZAE_LIMITER_SCHEMA_VERSION": p["SchemaVersion"], "ENABLE_ARCHIVAL": p["EnableAuditArchival"], "ARCHIVE_BUCKET_NAME": s.Outputs[OutputArchive],
	})
	return f
}

// number is what text says, 0 for none.
func number(text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// text is a number, "" for none.
func text(n int32) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(int(n))
}

// hashIn is the hash in the key of the code, "" for a key that this program did not make.
func hashIn(key string) string {
	hash, ok := strings.CutPrefix(key, "functions/")
	hash, zip := strings.CutSuffix(hash, ".zip")
	if sum, err := hex.DecodeString(hash); !ok || !zip || err != nil || len(sum) != 32 {
		return ""
	}
	return hash
}

// A Difference is a setting of a function that differs from what its stack says.
type Difference struct{ Name, Has, Want string }

// Differences compare a function with what its stack says: what somebody changed by hand, and
// CloudFormation does not see.
func (f *Function) Differences(want Function) []Difference {
	all := []Difference{
		{"code", f.SHA256, want.SHA256},
		{"architecture", f.Architecture, want.Architecture},
		{"handler", f.Handler, want.Handler},
		{"runtime", f.Runtime, want.Runtime},
		{"memory in MB", text(f.MemoryMB), text(want.MemoryMB)},
		{"timeout in seconds", text(f.TimeoutS), text(want.TimeoutS)},
	}
	for _, name := range slices.Sorted(maps.Keys(want.Environment)) {
		all = append(all, Difference{"variable " + name, f.Environment[name], want.Environment[name]})
	}
	return slices.DeleteFunc(all, func(d Difference) bool { return d.Want == "" || d.Has == d.Want })
}

// inCode reports whether a setting belongs to the code: Lambda changes the two together.
func (d Difference) inCode() bool { return d.Name == "code" || d.Name == "architecture" }

// update is the request that gives a function its settings again. Lambda replaces all variables,
// so the request keeps those that the stack does not name.
func (f *Function) update(name string, variables map[string]string) *lambda.UpdateFunctionConfigurationInput {
	in := &lambda.UpdateFunctionConfigurationInput{
		FunctionName: &name, Handler: &f.Handler, Runtime: types.Runtime(f.Runtime), Environment: &types.Environment{Variables: map[string]string{}},
	}
	if f.MemoryMB > 0 {
		in.MemorySize = &f.MemoryMB
	}
	if f.TimeoutS > 0 {
		in.Timeout = &f.TimeoutS
	}
	maps.Copy(in.Environment.Variables, variables)
	for name, value := range f.Environment {
		if value != "" {
			in.Environment.Variables[name] = value
		}
	}
	return in
}
