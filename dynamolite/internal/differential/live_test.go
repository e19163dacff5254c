//go:build conformance

package differential_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

var (
	updateGolden = flag.Bool("update", false, "record the answers of DynamoDB Local instead of comparing")
	seeds        = flag.Uint64("seeds", 200, "how many seeds to generate cases from beyond the recorded ones")
)

// TestLive sends every case to DynamoDB Local and to this engine. The recorded answers must equal
// the current answers of DynamoDB Local. The test also runs generated cases that are not
// recorded.
func TestLive(t *testing.T) { //nolint:paralleltest // one server, whose tables every case uses
	local := peers.DynamoDBLocal(t).Client
	createTables(t, local)
	if *updateGolden {
		outcomes := map[string]outcome{}
		for _, c := range allCases() {
			outcomes[c.name] = c.run(t, local)
			reset(t, local, &c)
		}
		writeGolden(t, outcomes)
		return
	}
	golden := readGolden(t)
	for _, c := range slices.Concat(allCases(), generated(recordedSeeds, *seeds)) {
		t.Run(c.name, func(t *testing.T) { //nolint:paralleltest // as above
			answered := reread(c.run(t, local))
			defer reset(t, local, &c)
			if recorded, ok := golden[c.name]; ok {
				if diff := difference(recorded, answered); diff != "" {
					t.Errorf("the recorded answer is out of date; run make golden (-recorded +live)\n%s", diff)
				}
			}
			c.compare(t, answered, liteEngine(t))
		})
	}
}

// reset empties the fixed tables and deletes all others.
func reset(t *testing.T, client *dynamodb.Client, c *testCase) {
	t.Helper()
	for _, key := range c.keys(t) {
		if _, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &key.table, Key: key.key}); err != nil {
			continue // an invalid key, of a refused request
		}
	}
	list, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	fixed := tables()
	for _, name := range list.TableNames {
		at := slices.IndexFunc(fixed, func(in *dynamodb.CreateTableInput) bool { return *in.TableName == name })
		if at < 0 {
			drop(t, client, name)
			continue
		}
		fixed = slices.Delete(fixed, at, at+1)
		mustBeEmpty(t, client, name)
	}
	for _, in := range fixed { // the case dropped the table
		if _, err := client.CreateTable(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
}

// drop deletes a table in any state.
func drop(t *testing.T, client *dynamodb.Client, table string) {
	t.Helper()
	out, err := settled(t, client, table)
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToBool(out.Table.DeletionProtectionEnabled) {
		if _, err := client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: &table, DeletionProtectionEnabled: new(false)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &table}); err != nil {
		t.Fatal(err)
	}
}

// mustBeEmpty finds items that keys did not find.
func mustBeEmpty(t *testing.T, client *dynamodb.Client, table string) {
	t.Helper()
	out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table, Select: types.SelectCount})
	if err != nil {
		t.Fatal(err)
	}
	if out.Count != 0 {
		t.Fatal(fmt.Errorf("%d items are left in %s", out.Count, table))
	}
}

// TestWordingLive proves that the messages of TestWording are those of DynamoDB Local.
func TestWordingLive(t *testing.T) {
	t.Parallel()
	local := peers.DynamoDBLocal(t).Client
	createTables(t, local)
	checkWordings(t, local)
}
