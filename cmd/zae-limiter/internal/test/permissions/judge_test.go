//go:build conformance

package permissions_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/iamtrace"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

const judgeModule = root + "/internal/test/peers/node/judge.mjs"

// judge asks IAM Simulate which of the policies allow each request.
func judge(t *testing.T, names []string, requests []permissions.Request) (allowed [][]string) {
	t.Helper()
	text, err := os.ReadFile(policiesFile)
	if err != nil {
		t.Fatal(err)
	}
	var documents map[string]json.RawMessage
	if err := json.Unmarshal(text, &documents); err != nil {
		t.Fatal(err)
	}
	_, commands := recorded(t)
	for _, name := range permissions.Operators {
		d, err := permissions.OperatorPolicy(name, commands)
		if err != nil {
			t.Fatal(err)
		}
		if documents[name], err = json.Marshal(d); err != nil {
			t.Fatal(err)
		}
	}
	var policies []json.RawMessage
	for _, name := range names {
		policies = append(policies, documents[name])
	}
	for _, verdict := range verdicts(t, policies, requests) {
		allows := []string{}
		for i, yes := range verdict {
			if yes {
				allows = append(allows, names[i])
			}
		}
		allowed = append(allowed, allows)
	}
	return allowed
}

// verdicts asks IAM Simulate for each request which of the policies allow it.
func verdicts[T any](t *testing.T, policies []json.RawMessage, requests []T) (all [][]bool) {
	t.Helper()
	input, err := json.Marshal(map[string]any{"policies": policies, "requests": requests})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(peers.RunNode(t, judgeModule, input), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != len(requests) {
		t.Fatalf("%d verdicts on %d requests", len(all), len(requests))
	}
	return all
}

func request(t *testing.T, access, ns string) permissions.Request {
	t.Helper()
	r, err := permissions.NewRequest(access, ns)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// IAM Simulate comes to the recorded verdicts.
func TestTheJudgeAgrees(t *testing.T) {
	t.Parallel()
	sum, err := permissions.Checksum(policiesFile)
	if err != nil {
		t.Fatal(err)
	}
	got := permissions.Verdicts{Policies: sum, Allowed: map[string][]string{}}
	accesses := permissions.Accesses(recorded(t))
	var requests []permissions.Request
	for _, access := range accesses {
		requests = append(requests, request(t, access, "ns1"))
	}
	for i, allowed := range judge(t, slices.Concat(permissions.Policies, permissions.Operators), requests) {
		got.Allowed[accesses[i]] = allowed
	}
	if *update {
		if err := got.Write(verdictsFile); err != nil {
			t.Fatal(err)
		}
	}
	want, err := permissions.ReadVerdicts(verdictsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-recorded +judged):\n%s", diff)
	}
}

// namespacePairs are a tenant and a namespace that is not the tenant's. Some are prefixes of
// each other, or differ in case.
var namespacePairs = [][2]string{{"ns1", "ns10"}, {"ns10", "ns1"}, {"ns1", "ns2"}, {"ns1", "NS1"}, {"a-b", "a"}, {"a", "a-b"}}

// tenants are the policies of one namespace.
var tenants = []string{"ns-acq", "ns-full", "ns-read"}

// refusedToTenants fails the test if a policy of one namespace allows a request.
func refusedToTenants(t *testing.T, requests []permissions.Request) {
	t.Helper()
	if len(requests) == 0 {
		t.Fatal("there are no requests")
	}
	slices.SortFunc(requests, compare)
	requests = slices.CompactFunc(requests, func(r, s permissions.Request) bool { return compare(r, s) == 0 })
	for i, allowed := range judge(t, tenants, requests) {
		if len(allowed) > 0 {
			t.Errorf("%v allow %+v", allowed, requests[i])
		}
	}
}

// compare orders requests.
func compare(r, s permissions.Request) int { return cmp.Compare(fmt.Sprint(r), fmt.Sprint(s)) }

// A tenant can neither read nor write another tenant's items, in whatever recorded request:
// with the other's keys alone, with one of them among its own, or with one more.
func TestATenantReachesNoOther(t *testing.T) {
	t.Parallel()
	var requests []permissions.Request
	for _, access := range accessesThat(t, func(a iamtrace.Access) bool {
		return slices.ContainsFunc(a.LeadingKeys, isInNamespace)
	}) {
		for _, pair := range namespacePairs {
			own, other := request(t, access, pair[0]), request(t, access, pair[1])
			for i, key := range other.Keys {
				if strings.HasPrefix(key, "_/") {
					continue // the table's own, which mixed requests may name
				}
				alone, among, more := own, own, own
				alone.Keys = []string{key}
				among.Keys = slices.Clone(own.Keys)
				among.Keys[i] = key
				more.Keys = append(slices.Clone(own.Keys), key)
				requests = append(requests, alone, among, more)
			}
		}
	}
	refusedToTenants(t, requests)
}

func isInNamespace(key string) bool { return strings.HasPrefix(key, "{ns}") }

// No tenant writes what belongs to the table: the recorded writes with keys of its partitions,
// by principals with the tag of a namespace, with a forged tag, and without a tag.
func TestNoTenantWritesTheTablesOwn(t *testing.T) {
	t.Parallel()
	var requests []permissions.Request
	for _, access := range accessesThat(t, func(a iamtrace.Access) bool { return a.IsWrite() && len(a.LeadingKeys) > 0 }) {
		for _, key := range []string{"_/SYSTEM#", "_/AUDIT#one", "_/STREAM#one", "_/BUCKET#one", "_"} {
			for _, tag := range []string{"ns1", "_", "*", ""} {
				r := request(t, access, tag)
				r.Keys = []string{key}
				requests = append(requests, r)
			}
		}
	}
	refusedToTenants(t, requests)
}

// A principal without a tag, or with a tag that is a pattern, reaches no namespace.
func TestAPrincipalWithoutANamespaceReachesNone(t *testing.T) {
	t.Parallel()
	var requests []permissions.Request
	for _, access := range accessesThat(t, func(a iamtrace.Access) bool { return slices.ContainsFunc(a.LeadingKeys, isInNamespace) }) {
		for _, tag := range []string{"", "*", "ns*", "ns?"} {
			r := request(t, access, "ns1")
			r.Tag = tag
			requests = append(requests, r)
		}
	}
	refusedToTenants(t, requests)
}

// Requests that name no keys, or name what no call of a tenant needs, are refused: a scan
// would read all tenants' items.
func TestATenantHasNothingBesides(t *testing.T) {
	t.Parallel()
	var requests []permissions.Request
	for _, action := range []string{
		"Scan", "PartiQLSelect", "PartiQLUpdate", "PartiQLInsert", "PartiQLDelete", "UpdateTable", "DeleteTable",
		"UpdateTimeToLive", "ExportTableToPointInTime", "CreateBackup", "PutResourcePolicy", "BatchGetItem", "Query",
	} {
		requests = append(requests, permissions.Request{Action: "dynamodb:" + action, ARN: "arn:aws:dynamodb:eu-west-1:123456789012:table/limits", Tag: "ns1"})
	}
	for _, index := range []string{"GSI1", "GSI2", "GSI3", "GSI4"} {
		arn := "arn:aws:dynamodb:eu-west-1:123456789012:table/limits/index/" + index
		requests = append(
			requests, permissions.Request{Action: "dynamodb:Scan", ARN: arn, Tag: "ns1"},
			permissions.Request{Action: "dynamodb:Query", ARN: arn, Tag: "ns1"},
			permissions.Request{Action: "dynamodb:Query", ARN: arn, Tag: "ns1", Keys: []string{"ns10"}},
			permissions.Request{Action: "dynamodb:Query", ARN: arn, Tag: "ns1", Keys: []string{"_/SYSTEM#"}},
		)
	}
	refusedToTenants(t, requests)
}
