package permissions

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/iamtrace"
)

// Policies are the names of the template's policies, in the order of the table. The last
// two are the own policies of the roles of its functions.
var Policies = []string{"acq", "full", "read", "ns-acq", "ns-full", "ns-read", "aggregator", "provisioner"}

// Verdicts say which policies allow which accesses.
type Verdicts struct {
	// Policies is the checksum of the file of policies that were judged.
	Policies string `json:"policies"`
	// Allowed has, for each recorded access, the policies that allow it. For a policy of one
	// namespace, the principal has the tag of the namespace {ns}.
	Allowed map[string][]string `json:"allowed"`
}

// Checksum returns the checksum of a file of policies, for [Verdicts.Policies].
func Checksum(file string) (string, error) {
	text, err := os.ReadFile(file)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// ReadVerdicts reads a file of verdicts.
func ReadVerdicts(file string) (Verdicts, error) { return readFile[Verdicts](file) }

// Write writes a file of verdicts.
func (v Verdicts) Write(file string) error { return writeFile(file, v) }

// allows reports whether a policy allows all of some accesses.
func (v Verdicts) allows(policy string, accesses []string) bool {
	return !slices.ContainsFunc(accesses, func(a string) bool { return !slices.Contains(v.Allowed[a], policy) })
}

// Accesses returns every access that was recorded, once, in order.
func Accesses(all ...Recorded) (accesses []string) {
	for _, r := range all {
		for _, branches := range r {
			for _, of := range branches {
				accesses = append(accesses, of...)
			}
		}
	}
	slices.Sort(accesses)
	return slices.Compact(accesses)
}

// A Request is what the judge is asked: an access with names in place of placeholders, by a
// principal with a tag.
type Request struct {
	Action      string   `json:"action"`
	ARN         string   `json:"arn"`
	Keys        []string `json:"keys,omitempty"`
	Transaction bool     `json:"transaction,omitempty"`
	// Tag is the principal's tag zael_namespace_id, "" for a principal without one.
	Tag string `json:"tag,omitempty"`
}

// NewRequest returns the request for a recorded access in a namespace, by the principal of
// that namespace.
func NewRequest(access, ns string) (Request, error) {
	a, err := iamtrace.Parse(access)
	if err != nil {
		return Request{}, err
	}
	r := Request{Action: a.Action, ARN: arn(a), Transaction: a.Transaction, Tag: ns}
	for _, key := range a.LeadingKeys {
		r.Keys = append(r.Keys, strings.NewReplacer(namespace, ns, rest, "one").Replace(key))
	}
	return r, nil
}

// arn is the ARN of an access, with the names that the recorded policies have.
func arn(a iamtrace.Access) string {
	switch {
	case strings.Contains(a.Resource, "/stream/"):
		return named(a, "2026-01-02T03:04:05.678")
	case strings.HasPrefix(a.Resource, bucket):
		return named(a, "audit/year=2026/one.gz")
	}
	return named(a, "1")
}

// named is the ARN of an access. What a run chooses, such as the name of an object, becomes
// one.
func named(a iamtrace.Access, one string) string {
	service, _, _ := strings.Cut(a.Action, ":")
	resource := strings.NewReplacer(table, "limits", bucket, "trail", code, "limits-functioncodebucket-1", rest, one).Replace(a.Resource)
	switch {
	case a.Resource == "*":
		return "*"
	case service == "s3":
		return "arn:aws:s3:::" + resource
	}
	return "arn:aws:" + service + ":eu-west-1:123456789012:" + resource
}
