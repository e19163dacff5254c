package permissions_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
)

var update = flag.Bool("update", false, "write what is recorded to the files of recorded accesses")

const libraryFile = "recorded/library.json"

// Every call of the library sends the requests that are recorded for it, and every call
// has a scenario.
func TestLibrary(t *testing.T) {
	t.Parallel()
	recorder := permissions.NewRecorder()
	t.Run("scenarios", func(t *testing.T) {
		for name, f := range map[string]func(*world){
			"acquires": acquires, "cascades": cascades, "oddities": oddities, "queues": queues, "sharded": sharded, "throttled": throttled,
			"leases": leases, "questions": questions, "upkeep": tending,
			"tables": tables, "namespaces": namespaces, "configuration": configuration, "entities": entities,
			"usages": usages, "aggregation": aggregation, "following": following, "delivered": delivered,
			"manifests": manifests, "levels": levels, "provisioning": provisioning,
		} {
			t.Run(name, scenario(recorder, f))
		}
		t.Run("archived", archived(recorder))
	})
	if t.Failed() {
		return
	}
	seen := recorder.Seen()
	if *update {
		if err := seen.Write(libraryFile); err != nil {
			t.Fatal(err)
		}
	}
	seen.Compare(t, libraryFile, true, byOrder...)
	for _, call := range exportedCalls(t) {
		if _, ok := seen[call]; !ok && !slices.ContainsFunc(indirect, func(of string) bool { return strings.HasPrefix(call, of) }) {
			t.Errorf("%s has no scenario: add one, or say in exempt or indirect who sends its requests", call)
		}
	}
}

// byOrder lists the calls whose requests depend on the order in which goroutines go on: a caller
// that waits behind others looks at the bucket more or less often.
var byOrder = []string{"Limiter.Wait"}

// indirect has the types that users cannot make or that send only the requests of others.
var indirect = []string{
	"audit.Trail.",  // part of the calls of dynamo.Store and admin.Namespaces
	"dynamo.Meter.", // passes on the requests of others
	"Observers.",    // is told what a limiter does
	"Lease.Context", // sends nothing
	"Lease.Token",   // as Context

	"usage.Snapshots.AllPages",    // part of a purge
	"usage.Snapshots.EntityPages", // part of the deletion of an entity
	"usage.Snapshots.Forget",      // part of aggregator.Aggregator.Process, on a table that the peer shares
	"usage.Snapshots.SaveDay",     // as Forget
}
