package permissions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/iamtrace"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// Placeholders in recorded accesses stand for what differs between tables and runs.
const (
	table     = "{table}"
	bucket    = "{bucket}" // of the archive
	code      = "{code}"   // the bucket of the functions' code
	namespace = "{ns}"
	rest      = "*" // of a key or of the name of an object
)

// AnyRun is the branch of all runs of a command.
const AnyRun = "always"

// Recorded are the accesses of calls or commands, by the call and by its branch: what the
// call met or was asked for. Each access is the text of an [iamtrace.Access] with
// placeholders, once, in order.
type Recorded map[string]map[string][]string

// A Recorder collects accesses. It is safe for concurrent use.
type Recorder struct {
	mu   sync.Mutex
	seen Recorded
}

// NewRecorder returns a recorder that has seen nothing.
func NewRecorder() *Recorder { return &Recorder{seen: Recorded{}} }

// Seen returns what was recorded so far.
func (r *Recorder) Seen() Recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := Recorded{}
	for call, branches := range r.seen {
		seen[call] = maps.Clone(branches)
	}
	return seen
}

// Note records a request of a branch of a call, given the SDK's input.
func (r *Recorder) Note(call, branch string, input any) {
	accesses, ok := iamtrace.Of(input)
	if !ok {
		panic(fmt.Sprintf("%s, %s: iamtrace does not know %T", call, branch, input))
	}
	for _, a := range accesses {
		r.add(call, branch, generalize(a).String())
	}
}

// Began records that a branch of a call was run, even if it sends nothing.
func (r *Recorder) Began(call, branch string) { r.add(call, branch) }

func (r *Recorder) add(call, branch string, accesses ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[call] == nil {
		r.seen[call] = map[string][]string{}
	}
	of := append(slices.Clone(r.seen[call][branch]), accesses...)
	slices.Sort(of)
	r.seen[call][branch] = slices.Compact(of)
}

// Hook returns a hook that records the requests of a branch of a call.
func (r *Recorder) Hook(call, branch string) faults.Hook {
	return func(ctx context.Context, c *faults.Call, next faults.Next) error {
		r.Note(call, branch, c.Input)
		return next(ctx)
	}
}

// generalize puts placeholders in place of names.
func generalize(a iamtrace.Access) iamtrace.Access {
	switch service, _, _ := strings.Cut(a.Action, ":"); service {
	case "s3":
		a.Resource = generalizeObject(a.Resource)
	case "dynamodb", "cloudformation":
		a.Resource = generalizePath(a.Resource)
	default:
		a.Resource = generalizePart(a.Resource)
	}
	var keys []string
	for _, key := range a.LeadingKeys {
		keys = append(keys, generalizeKey(key))
	}
	slices.Sort(keys)
	a.LeadingKeys = slices.Compact(keys)
	return a
}

// generalizeObject keeps which bucket it is: that of the code, whose name has its logical
// ID, or that of the archive.
func generalizeObject(resource string) string {
	name, _, object := strings.Cut(resource, "/")
	kind := bucket
	if strings.Contains(name, "functioncodebucket") {
		kind = code
	}
	if object {
		kind += "/" + rest
	}
	return kind
}

// generalizePath keeps the kind of a resource of a table or stack, and the names of indexes.
// A stack has the name of its table.
func generalizePath(resource string) string {
	parts := strings.SplitN(resource, "/", 4) // table, its name, index or stream, the name of that
	switch {
	case resource == rest:
		return rest
	case parts[0] == "stack" && parts[1] == rest:
		return resource // all stacks
	case parts[0] == "stack":
		parts[2] = rest
	case len(parts) == 4 && parts[2] != "index":
		parts[3] = rest
	}
	parts[1] = table
	return strings.Join(parts, "/")
}

// generalizePart keeps what follows the stack's name in the name of a part, and what
// precedes it in the kind of the part.
func generalizePart(resource string) string {
	for _, suffix := range []string{"-aggregator-dlq", "-aggregator", "-limits-provisioner"} {
		if before, after, ok := strings.Cut(resource, suffix); ok {
			return before[:strings.LastIndexAny(before, ":/")+1] + table + suffix + after
		}
	}
	return resource
}

// generalizeKey keeps the kind of a key: what follows the namespace, up to the first #.
func generalizeKey(key string) string {
	ns, path, isPath := strings.Cut(key, "/")
	if ns != schema.TableNamespace {
		ns = namespace
	}
	if !isPath {
		return ns
	}
	kind, name, named := strings.Cut(path, "#")
	if !named {
		panic(fmt.Sprintf("the key %q has no kind", key))
	}
	if name != "" {
		name = rest
	}
	return ns + "/" + kind + "#" + name
}

// Read reads a file of recorded accesses.
func Read(file string) (Recorded, error) { return readFile[Recorded](file) }

// Write writes a file of recorded accesses.
func (r Recorded) Write(file string) error { return writeFile(file, r) }

// Compare fails the test if a file does not have exactly what was recorded. Unless all
// calls were run, the file may have more. The calls in varying send more or less from run
// to run: of them, the file may have more, and a request for more kinds of keys stands for
// one for some of them.
func (r Recorded) Compare(tb testing.TB, file string, all bool, varying ...string) {
	tb.Helper()
	want, err := Read(file)
	if err != nil {
		tb.Fatal(err)
	}
	r.without(want, func(call, branch, access string) {
		if !slices.Contains(varying, call) || !slices.ContainsFunc(want[call][branch], func(known string) bool { return covers(known, access) }) {
			tb.Errorf("%s lacks %s, %s: %s; make permissions records it", file, call, branch, access)
		}
	})
	if !all {
		return
	}
	want.without(r, func(call, branch, access string) {
		if !slices.Contains(varying, call) {
			tb.Errorf("%s has %s, %s: %s, which no test has sent; make permissions removes it", file, call, branch, access)
		}
	})
}

// covers reports whether an access has the action and the resource of another, and all its
// keys.
func covers(access, other string) bool {
	a, o := strings.Fields(access), strings.Fields(other)
	return slices.Equal(a[:2], o[:2]) && !slices.ContainsFunc(o[2:], func(key string) bool { return !slices.Contains(a[2:], key) })
}

// without reports what r has and other lacks. The access of a branch that other does not
// have is "".
func (r Recorded) without(other Recorded, report func(call, branch, access string)) {
	for _, call := range slices.Sorted(maps.Keys(r)) {
		for _, branch := range slices.Sorted(maps.Keys(r[call])) {
			known, ok := other[call][branch]
			if !ok {
				report(call, branch, "")
			}
			for _, access := range r[call][branch] {
				if ok && !slices.Contains(known, access) {
					report(call, branch, access)
				}
			}
		}
	}
}
