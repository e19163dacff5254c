package permissions_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/iamtrace"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
)

// judged returns the verdicts.
func judged(t *testing.T) permissions.Verdicts {
	t.Helper()
	v, err := permissions.ReadVerdicts(verdictsFile)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// accessesThat returns the recorded accesses for which f is true.
func accessesThat(t *testing.T, f func(iamtrace.Access) bool) (some []string) {
	t.Helper()
	for _, access := range permissions.Accesses(recorded(t)) {
		a, err := iamtrace.Parse(access)
		if err != nil {
			t.Fatal(err)
		}
		if f(a) {
			some = append(some, access)
		}
	}
	if len(some) == 0 {
		t.Fatal("no access is such")
	}
	return some
}

// allows fails the test unless a policy allows all branches of the calls whose names have
// one of the prefixes.
func allows(t *testing.T, policy string, prefixes ...string) {
	t.Helper()
	library, _ := recorded(t)
	v, calls := judged(t), 0
	for call, branches := range library {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(call, p) }) {
			continue
		}
		calls++
		for branch, accesses := range branches {
			for _, access := range accesses {
				if !slices.Contains(v.Allowed[access], policy) {
					t.Errorf("%s forbids %s, %s: %s", policy, call, branch, access)
				}
			}
		}
	}
	if calls < len(prefixes) {
		t.Errorf("only %d calls have the prefixes %v", calls, prefixes)
	}
}

// forbids fails the test if a policy allows one of the accesses.
func forbids(t *testing.T, policy string, accesses []string) {
	t.Helper()
	v := judged(t)
	for _, access := range accesses {
		if slices.Contains(v.Allowed[access], policy) {
			t.Errorf("%s allows %s", policy, access)
		}
	}
}

// hotPath are the calls of an application.
var hotPath = []string{"Limiter.", "Lease.", "dynamo.Open"}

func TestTheHotPathIsAllowed(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"acq", "ns-acq", "full", "ns-full"} {
		allows(t, policy, hotPath...)
	}
}

// An application writes buckets and their pages of usage, one by one, and nothing else.
func TestAnApplicationWritesOnlyBuckets(t *testing.T) {
	t.Parallel()
	isOther := func(key string) bool { return !strings.Contains(key, "/BUCKET#") && !strings.Contains(key, "/USAGE#") }
	others := accessesThat(t, func(a iamtrace.Access) bool {
		isOwn := len(a.LeadingKeys) > 0 && !slices.ContainsFunc(a.LeadingKeys, isOther) && a.Action != "dynamodb:BatchWriteItem"
		return a.IsWrite() && !isOwn
	})
	for _, policy := range []string{"acq", "ns-acq"} {
		forbids(t, policy, others)
	}
}

func TestReadersChangeNothing(t *testing.T) {
	t.Parallel()
	writes := accessesThat(t, iamtrace.Access.IsWrite)
	for _, policy := range []string{"read", "ns-read"} {
		forbids(t, policy, writes)
		allows(t, policy, "Limiter.Available", "Limiter.TimeUntilAvailable", "usage.Snapshots.Read", "usage.Snapshots.Sum", "usage.Snapshots.Each", "usage.Snapshots.ScopeOf", "dynamo.Store.AuditEvents")
	}
}

// No policy of one namespace writes what belongs to the table.
func TestTenantsDoNotWriteTheTablesOwn(t *testing.T) {
	t.Parallel()
	own := accessesThat(t, func(a iamtrace.Access) bool {
		return a.IsWrite() && (len(a.LeadingKeys) == 0 || slices.ContainsFunc(a.LeadingKeys, func(key string) bool { return strings.HasPrefix(key, "_") }))
	})
	for _, policy := range []string{"ns-acq", "ns-full", "ns-read"} {
		forbids(t, policy, own)
	}
}

// The aggregator's role runs all that its function does.
func TestTheAggregatorsRoleSuffices(t *testing.T) {
	t.Parallel()
	allows(
		t, "aggregator", "lambda.Handler.Handle", "aggregator.Aggregator.Process", "archive.Open", "archive.Archive.Put", "dynamo.OpenID",
		"admin.Namespaces.NameOf", "usage.Snapshots.Save", "upkeep.Keeper.Double", "upkeep.Keeper.Mend", "upkeep.Keeper.Merge", "upkeep.Keeper.Replenish", "upkeep.Keeper.Shards",
	)
}

// The provisioner's role runs the handler of its function.
func TestTheProvisionersRoleSuffices(t *testing.T) {
	t.Parallel()
	allows(t, "provisioner", "customresource.Handler.Handle", "manifest.Manager.", "dynamo.Store.SetLevels", "dynamo.Store.DeleteLevels")
}

// An administrator of the table, or of one namespace, may make all calls about its items.
func TestAdministratorsMayDoEverything(t *testing.T) {
	t.Parallel()
	allows(t, "full", "dynamo.Store.", "admin.Namespaces.", "manifest.", "upkeep.", "usage.")
	allows(t, "ns-full", "dynamo.Store.", "manifest.", "upkeep.", "usage.")
}

// Who deploys and operates by the published policies may run the commands of which they are
// made, and a deployer reaches no item of a namespace.
func TestOperatorsMayOperate(t *testing.T) {
	t.Parallel()
	_, commands := recorded(t)
	v := judged(t)
	for command, policy := range map[string]string{
		"deploy": "deployer", "upgrade": "deployer", "status": "deployer", "list": "deployer", "rollback": "deployer", "delete": "deployer",
		"redrive": "operator", "backup restore": "operator", "backup create": "operator", "table create": "operator", "table delete": "operator", "table show": "operator",
	} {
		for _, access := range permissions.Accesses(permissions.Recorded{command: commands[command]}) {
			if !slices.Contains(v.Allowed[access], policy) {
				t.Errorf("%s forbids %s: %s", policy, command, access)
			}
		}
	}
	forbids(t, "deployer", accessesThat(t, func(a iamtrace.Access) bool {
		return slices.ContainsFunc(a.LeadingKeys, func(key string) bool { return strings.HasPrefix(key, "{ns}") })
	}))
}
