//go:build conformance

package permissions_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/iamtrace"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
)

// loadWorkerFile has the policy of the workers of load tests, in the namespace ns1. A test of
// deploy/loadstack compares it with the template.
const loadWorkerFile = "recorded/loadworker.json"

// loadWorkerMay judges requests by the policy of the workers, whose principal has no tag.
func loadWorkerMay(t *testing.T, requests []permissions.Request) (allowed []bool) {
	t.Helper()
	policy, err := os.ReadFile(loadWorkerFile)
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		requests[i].Tag = ""
	}
	for _, verdict := range verdicts(t, []json.RawMessage{policy}, requests) {
		allowed = append(allowed, verdict[0])
	}
	return allowed
}

// A worker opens the table, sets up entities and limits, and acquires.
func TestALoadWorkerMayCarryLoad(t *testing.T) {
	t.Parallel()
	library, _ := recorded(t)
	calls := []string{
		"Limiter.Acquire", "Limiter.Available", "Lease.", "dynamo.Open",
		"dynamo.Store.CreateEntity", "dynamo.Store.SetLimits", "dynamo.Store.Limits", "dynamo.Store.Entity",
		"dynamo.Store.Children", "dynamo.Store.ResourcesWithDefaults",
	}
	found, accesses := map[string]bool{}, []string{}
	for call, branches := range library {
		i := slices.IndexFunc(calls, func(c string) bool { return call == c || strings.HasSuffix(c, ".") && strings.HasPrefix(call, c) })
		if i < 0 {
			continue
		}
		found[calls[i]] = true
		for _, of := range branches {
			accesses = append(accesses, of...)
		}
	}
	for _, c := range calls {
		if !found[c] {
			t.Errorf("no call %s is recorded", c)
		}
	}
	slices.Sort(accesses)
	accesses = slices.Compact(accesses)
	var requests []permissions.Request
	for _, a := range accesses {
		requests = append(requests, request(t, a, "ns1"))
	}
	for i, ok := range loadWorkerMay(t, requests) {
		if !ok {
			t.Errorf("a worker may not %s", accesses[i])
		}
	}
}

// A worker reaches no other namespace, writes nothing of the table's own, deletes nothing,
// and has no request without a key. The peer's workers have full access to the table.
func TestALoadWorkerMayDoNothingElse(t *testing.T) {
	t.Parallel()
	var requests []permissions.Request
	for _, access := range permissions.Accesses(recorded(t)) {
		a, err := iamtrace.Parse(access)
		if err != nil {
			t.Fatal(err)
		}
		service, verb, _ := strings.Cut(a.Action, ":")
		if service != "dynamodb" {
			continue
		}
		own := request(t, access, "ns1")
		if strings.HasPrefix(verb, "Delete") || verb == "BatchWriteItem" || strings.HasPrefix(verb, "Update") && len(a.LeadingKeys) == 0 || verb == "Scan" {
			requests = append(requests, own)
		}
		if slices.ContainsFunc(a.LeadingKeys, isInNamespace) {
			for _, ns := range []string{"ns10", "ns2", "NS1"} {
				requests = append(requests, request(t, access, ns))
			}
		}
		if a.IsWrite() && len(a.LeadingKeys) > 0 {
			for _, key := range []string{"_/SYSTEM#", "_/AUDIT#one", "_/BUCKET#one", "_"} {
				r := own
				r.Keys = []string{key}
				requests = append(requests, r)
			}
		}
	}
	if len(requests) < 100 {
		t.Fatalf("only %d requests", len(requests))
	}
	slices.SortFunc(requests, compare)
	requests = slices.CompactFunc(requests, func(r, s permissions.Request) bool { return compare(r, s) == 0 })
	for i, ok := range loadWorkerMay(t, requests) {
		if ok {
			t.Errorf("a worker may %+v", requests[i])
		}
	}
}
