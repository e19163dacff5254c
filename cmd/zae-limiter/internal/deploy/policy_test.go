package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
)

// statements are those of a managed policy, or of the own policy of a role.
func (s *stack) statements(resource string) []map[string]any {
	s.t.Helper()
	p := s.properties(resource)
	if policies, ok := p["Policies"].([]any); ok {
		p = policies[0].(map[string]any)
	}
	var all []map[string]any
	for _, v := range p["PolicyDocument"].(map[string]any)["Statement"].([]any) {
		all = append(all, v.(map[string]any))
	}
	return all
}

func list(v any) []string {
	if one, ok := v.(string); ok {
		return []string{one}
	}
	var all []string
	for _, item := range v.([]any) {
		all = append(all, item.(string))
	}
	return all
}

// like is IAM's StringLike.
func like(pattern, text string) bool {
	known, ok := compiled.Load(pattern)
	if !ok {
		quoted := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
		known, _ = compiled.LoadOrStore(pattern, regexp.MustCompile(`\A`+quoted+`\z`))
	}
	return known.(*regexp.Regexp).MatchString(text)
}

// compiled are the patterns that like has met.
var compiled sync.Map

// A request is what IAM judges of a call to DynamoDB.
type request struct {
	action string
	index  bool
	keys   []string // of partitions; none in a scan
	tag    string   // zael_namespace_id of the principal
}

// allows evaluates the statements as IAM does, for requests to the table.
func allows(t *testing.T, statements []map[string]any, r request) bool {
	t.Helper()
	resource := "<RateLimitsTable>.Arn"
	if r.index {
		resource += "/index/GSI3"
	}
	return slices.ContainsFunc(statements, func(st map[string]any) bool {
		if st["Effect"] != "Allow" {
			t.Fatalf("the evaluator knows no %v", st["Effect"])
		}
		action := slices.ContainsFunc(list(st["Action"]), func(p string) bool { return like(p, "dynamodb:"+r.action) })
		on := slices.ContainsFunc(list(st["Resource"]), func(p string) bool { return like(p, resource) })
		conditions, _ := st["Condition"].(map[string]any)
		return action && on && holds(t, conditions, r)
	})
}

func holds(t *testing.T, conditions map[string]any, r request) bool {
	t.Helper()
	for operator, v := range conditions {
		for key, values := range v.(map[string]any) {
			patterns := list(values)
			for i := range patterns {
				patterns[i] = strings.ReplaceAll(patterns[i], "${aws:PrincipalTag/zael_namespace_id}", r.tag)
			}
			matches := func(k string) bool {
				return slices.ContainsFunc(patterns, func(p string) bool { return like(p, k) })
			}
			ok := false
			switch operator + " " + key {
			case "ForAllValues:StringLike dynamodb:LeadingKeys": // also true of no keys
				ok = !slices.ContainsFunc(r.keys, func(k string) bool { return !matches(k) })
			case "ForAllValues:StringNotLike dynamodb:LeadingKeys":
				ok = !slices.ContainsFunc(r.keys, matches)
			case "Null dynamodb:LeadingKeys":
				ok = patterns[0] == "false" && len(r.keys) > 0
			case "StringNotEquals aws:PrincipalTag/zael_namespace_id":
				ok = !slices.Contains(patterns, r.tag)
			default:
				t.Fatalf("the evaluator knows no condition %s on %s", operator, key)
			}
			if !ok {
				return false
			}
		}
	}
	return true
}

var (
	policies = []string{"AcquireOnlyPolicy", "FullAccessPolicy", "ReadOnlyPolicy", "NamespaceAcquirePolicy", "NamespaceFullAccessPolicy", "NamespaceReadOnlyPolicy"}
	tenants  = policies[3:]
	reads    = []string{"GetItem", "BatchGetItem", "Query"}
	writes   = []string{"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"}
)

func TestThereAreSixPolicies(t *testing.T) {
	t.Parallel()
	want := slices.Sorted(slices.Values(policies))
	if diff := cmp.Diff(want, newStack(t, deploy.Defaults()).ofType("AWS::IAM::ManagedPolicy")); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
	if got := newStack(t, with(func(o *deploy.Options) { o.IAM = false })).ofType("AWS::IAM::ManagedPolicy"); len(got) > 0 {
		t.Errorf("without IAM the stack has %v", got)
	}
}

// The hot path of a limiter: it opens the table, reads configuration, and writes buckets.
func TestWhatAnAcquireNeedsIsAllowed(t *testing.T) {
	t.Parallel()
	s := newStack(t, deploy.Defaults())
	for _, policy := range []string{"AcquireOnlyPolicy", "FullAccessPolicy", "NamespaceAcquirePolicy", "NamespaceFullAccessPolicy"} {
		for _, r := range []request{
			{action: "BatchGetItem", keys: []string{"_/SYSTEM#"}},
			{action: "BatchGetItem", keys: []string{"ns1/ENTITY#a", "ns1/SYSTEM#", "ns1/RESOURCE#r", "ns1/BUCKET#a#r#0"}},
			{action: "GetItem", keys: []string{"ns1/BUCKET#a#r#0"}},
			{action: "Query", index: true, keys: []string{"ns1/ENTITY#a"}},
			{action: "ConditionCheckItem", keys: []string{"ns1/BUCKET#a#r#0"}},
			{action: "UpdateItem", keys: []string{"ns1/BUCKET#a#r#0"}},
			{action: "PutItem", keys: []string{"ns1/BUCKET#a#r#3"}},
		} {
			if r.tag = "ns1"; !allows(t, s.statements(policy), r) {
				t.Errorf("%s forbids %s of %v", policy, r.action, r.keys)
			}
		}
	}
}

func TestAnAcquireMayWriteNothingButBuckets(t *testing.T) {
	t.Parallel()
	s := newStack(t, deploy.Defaults())
	for _, policy := range []string{"AcquireOnlyPolicy", "NamespaceAcquirePolicy"} {
		for _, r := range []request{
			{action: "UpdateItem", keys: []string{"ns1/ENTITY#a"}},
			{action: "PutItem", keys: []string{"ns1/SYSTEM#"}},
			{action: "DeleteItem", keys: []string{"ns1/BUCKET#a#r#0"}},
			{action: "BatchWriteItem", keys: []string{"ns1/BUCKET#a#r#0"}},
			{action: "UpdateItem", keys: []string{"ns1/BUCKET#a#r#0", "ns1/ENTITY#a"}},
			{action: "UpdateItem"},
			{action: "Scan"},
			{action: "DeleteTable"},
			{action: "UpdateTable"},
			{action: "PartiQLUpdate", keys: []string{"ns1/BUCKET#a#r#0"}},
		} {
			if r.tag = "ns1"; allows(t, s.statements(policy), r) {
				t.Errorf("%s allows %s of %v", policy, r.action, r.keys)
			}
		}
	}
}

func TestReadersWriteNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t, deploy.Defaults())
	for _, policy := range []string{"ReadOnlyPolicy", "NamespaceReadOnlyPolicy"} {
		for _, action := range append([]string{"UpdateTable", "DeleteTable"}, writes...) {
			if allows(t, s.statements(policy), request{action: action, keys: []string{"ns1/BUCKET#a#r#0"}, tag: "ns1"}) {
				t.Errorf("%s allows %s", policy, action)
			}
		}
	}
}

func TestATenantStaysInItsNamespace(t *testing.T) {
	t.Parallel()
	s := newStack(t, widest())
	for _, policy := range tenants {
		statements := s.statements(policy)
		for _, keys := range [][]string{
			{"ns2/BUCKET#a#r#0"}, {"ns10/BUCKET#a#r#0"}, {"ns2"}, {"ns1/BUCKET#a#r#0", "ns2/BUCKET#a#r#0"}, {"_/AUDIT#x"}, {"_/STREAM#x"}, {"_"}, nil,
		} {
			for _, action := range slices.Concat(reads, writes, []string{"ConditionCheckItem", "Scan", "PartiQLSelect"}) {
				for _, index := range []bool{false, true} {
					if r := (request{action, index, keys, "ns1"}); allows(t, statements, r) {
						t.Errorf("%s allows %s of %v", policy, action, keys)
					}
				}
			}
		}
	}
}

// The registry of namespaces and the version of the table belong to all tenants. A principal
// without a tag, or with that of the registry, writes nothing anywhere.
func TestNoTenantWritesTheRegistry(t *testing.T) {
	t.Parallel()
	s := newStack(t, deploy.Defaults())
	for _, policy := range tenants {
		statements := s.statements(policy)
		for _, tag := range []string{"ns1", "_", ""} {
			for _, key := range []string{"_/SYSTEM#", "_/BUCKET#a#r#0", "_/AUDIT#x", "_"} {
				for _, action := range append([]string{"Query"}, writes...) {
					if allows(t, statements, request{action: action, keys: []string{key}, tag: tag}) {
						t.Errorf("%s allows a principal tagged %q %s of %s", policy, tag, action, key)
					}
				}
			}
		}
	}
}

// The tag of the registry is no namespace: it reads nothing either, by key or by query.
func TestTheTagOfTheRegistryReadsNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t, deploy.Defaults())
	for _, policy := range tenants {
		statements := s.statements(policy)
		for _, key := range []string{"_/AUDIT#x", "_/STREAM#x", "_/SYSTEM#", "_"} {
			for _, action := range append([]string{"ConditionCheckItem"}, reads...) {
				if allows(t, statements, request{action: action, keys: []string{key}, tag: "_"}) {
					t.Errorf("%s allows a principal tagged _ %s of %s", policy, action, key)
				}
			}
		}
	}
}

func TestATenantListsItsOwnNamespace(t *testing.T) {
	t.Parallel()
	s := newStack(t, deploy.Defaults())
	for _, policy := range tenants {
		statements := s.statements(policy)
		for _, key := range []string{"ns1", "ns1/ENTITY#a", "ns1/RESOURCE#r"} {
			if !allows(t, statements, request{"Query", true, []string{key}, "ns1"}) {
				t.Errorf("%s forbids a query of %s", policy, key)
			}
		}
	}
}

func TestAdministratorsMayInspectTheTable(t *testing.T) {
	t.Parallel()
	s := newStack(t, deploy.Defaults())
	for _, policy := range []string{"FullAccessPolicy", "ReadOnlyPolicy"} {
		for _, action := range []string{"DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups", "Scan"} {
			if !allows(t, s.statements(policy), request{action: action}) {
				t.Errorf("%s forbids %s", policy, action)
			}
		}
	}
}

func TestTheFunctionsHaveWhatTheyCallAndNoMore(t *testing.T) {
	t.Parallel()
	s := newStack(t, deploy.Defaults())
	for _, c := range []struct {
		role, action, key string
		want              bool
	}{
		{"AggregatorRole", "UpdateItem", "ns1/BUCKET#a#r#0", true}, // refill
		{"AggregatorRole", "PutItem", "ns1/BUCKET#a#r#1", true},    // double
		{"AggregatorRole", "DeleteItem", "ns1/BUCKET#a#r#1", true}, // merge
		{"AggregatorRole", "UpdateItem", "ns1/USAGE#", true},       // months with usage
		{"AggregatorRole", "PutItem", "ns1/USAGE#r#7", true},       // last pages
		{"AggregatorRole", "BatchWriteItem", "ns1/USAGE#r#7", true},
		{"AggregatorRole", "BatchGetItem", "ns1/ENTITY#a", true}, // configuration
		{"AggregatorRole", "GetItem", "_/SYSTEM#", true},         // names of namespaces
		{"AggregatorRole", "ConditionCheckItem", "ns1/B", true},  // parts of transactions
		{"AggregatorRole", "PutItem", "ns1/ENTITY#a", false},
		{"AggregatorRole", "UpdateItem", "ns1/ENTITY#a", false},
		{"AggregatorRole", "DeleteItem", "ns1/USAGE#r#7", false},
		{"AggregatorRole", "DeleteItem", "ns1/ENTITY#a", false},
		{"AggregatorRole", "UpdateItem", "ns1/SYSTEM#", false},
		{"AggregatorRole", "UpdateItem", "_/SYSTEM#", false},
		{"ProvisionerRole", "PutItem", "ns1/SYSTEM#", true},
		{"ProvisionerRole", "UpdateItem", "ns1/BUCKET#a#r#0", true}, // limits reach buckets in use
		{"ProvisionerRole", "PutItem", "_/SYSTEM#", false},
		{"ProvisionerRole", "Scan", "", false},
	} {
		r := request{action: c.action, keys: []string{c.key}}
		if got := allows(t, s.statements(c.role), r); got != c.want {
			t.Errorf("%s: %s of %s is allowed: %v", c.role, c.action, c.key, got)
		}
	}
}

func TestASessionHasTheNamespaceOfItsCaller(t *testing.T) {
	t.Parallel()
	s := newStack(t, widest())
	for _, role := range []string{"NamespaceAppRole", "NamespaceAdminRole", "NamespaceReadOnlyRole"} {
		trust := s.properties(role)["AssumeRolePolicyDocument"].(map[string]any)["Statement"].([]any)[0].(map[string]any)
		want := map[string]any{"StringEquals": map[string]any{"aws:RequestTag/zael_namespace_id": "${aws:PrincipalTag/zael_namespace_id}"}}
		if diff := cmp.Diff(want, trust["Condition"]); diff != "" {
			t.Errorf("the trust of %s (-want +got):\n%s", role, diff)
		}
	}
}
