package schema_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// text is a string attribute.
func text(it schema.Item, attr string) string { return schema.ScalarOf(it[attr]).Text }

// New entities load the partitions alike, in both indexes, and those of another namespace
// otherwise: who invents entities for one partition would have to know the namespace's ID.
func TestBucketsAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	const entities = 16_000
	gsi2, gsi4, moved := map[string]int{}, map[string]int{}, 0
	for i := range entities {
		c := &store.Create{Bucket: store.Bucket{Entity: fmt.Sprintf("stranger-%d", i), Resource: "a/b"}}
		here, there := schema.EncodeNewBucket("ns1", true, c), schema.EncodeNewBucket("ns2", true, c)
		gsi2[text(here, schema.GSI2PK)]++
		gsi4[text(here, schema.GSI4PK)]++
		if text(here, schema.GSI4PK)[len("ns1"):] != text(there, schema.GSI4PK)[len("ns2"):] {
			moved++
		}
		c.Shard = 7
		if other := schema.EncodeNewBucket("ns1", true, c); text(other, schema.GSI2PK) != text(here, schema.GSI2PK) {
			t.Fatalf("shards of %s have different keys", c.Entity)
		}
	}
	for index, pks := range map[string][]string{"GSI2": schema.ResourceIndexPKs("ns1", "a/b"), "GSI4": schema.NamespaceIndexPKs("ns1")} {
		loads := map[string]map[string]int{"GSI2": gsi2, "GSI4": gsi4}[index]
		if len(loads) != schema.IndexPartitions || len(pks) != 1+schema.IndexPartitions {
			t.Errorf("%s: %d partitions of %d that readers ask", index, len(loads), len(pks))
		}
		for pk, n := range loads {
			if fair := entities / schema.IndexPartitions; n < fair*8/10 || n > fair*12/10 || !slices.Contains(pks[1:], pk) {
				t.Errorf("%s: %d buckets in %s, want about %d", index, n, pk, fair)
			}
		}
	}
	if least := entities * 9 / 10; moved < least {
		t.Errorf("%d of %d entities are elsewhere in another namespace, want %d", moved, entities, least)
	}
}
