package health

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

// A setting is what a function has, and what its stack says.
type setting struct{ name, has, want string }

// settings compare a function with the parameters of its stack. There are none of a stack of
// the Python package, which has other parameters. A setting whose wanted value is "" is not
// compared.
func (s *Stack) settings(part string, c *Code) []setting {
	p := s.Parameters
	if p[stack.ParameterCodeKey] == "" {
		return nil
	}
	all := []setting{
		{"code", hexOf(c.SHA256), hashIn(p[stack.ParameterCodeKey])},
		{"handler", c.Handler, part},
		{"runtime", c.Runtime, "provided.al2023"},
		{"architecture", c.Architecture, p["Architecture"]},
		{"variable TABLE_NAME", c.Environment["TABLE_NAME"], s.Table()},
		{"variable LOG_LEVEL", c.Environment["LOG_LEVEL"], p["LogLevel"]},
	}
	if part == "aggregator" {
		all = append(
			all,
			setting{"memory in MB", strconv.Itoa(int(c.MemoryMB)), p["LambdaMemorySize"]},
			setting{"timeout in seconds", strconv.Itoa(int(c.TimeoutS)), p["LambdaTimeout"]},
			setting{"variable SNAPSHOT_WINDOWS", c.Environment["SNAPSHOT_WINDOWS"], p["SnapshotWindows"]},
			setting{"variable SNAPSHOT_TTL_DAYS", c.Environment["SNAPSHOT_TTL_DAYS"], p["SnapshotRetentionDays"]},
			setting{"variable ZAEL_MERGE_QUIET", c.Environment["ZAEL_MERGE_QUIET"], p["MergeQuiet"]},
		)
	}
	return slices.DeleteFunc(all, func(s setting) bool { return s.want == "" || s.has == s.want })
}

// hexOf is a checksum as Lambda tells it, in hexadecimal.
func hexOf(checksum string) string {
	sum, err := base64.StdEncoding.DecodeString(checksum)
	if err != nil {
		return checksum
	}
	return hex.EncodeToString(sum)
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

// judgeDrift finds what somebody changed in a function by hand. CloudFormation does not see it.
func (r *Report) judgeDrift(part string, f *Function) {
	if r.Stack.Value == nil || f.Code.Value == nil {
		return
	}
	for _, s := range r.Stack.Value.settings(part, f.Code.Value) {
		what := fmt.Sprintf("the %s of the function is %s, and not %s as the stack says", s.name, s.has, s.want)
		do := "set it back in Lambda: CloudFormation does not see the difference"
		if s.name == "code" {
			what, do = "the code of the function is not the one that was deployed", "zae-limiter upgrade puts it back"
		}
		r.find(Degraded, part, do, "%s", what)
	}
}
