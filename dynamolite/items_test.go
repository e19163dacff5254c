package dynamolite_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// The size stored with an item is the actual size of the item, after any updates.
func TestUpdateKeepsSize(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, step := range []struct {
		expression string
		values     attrs
	}{
		{"SET a = :v, b = :v", attrs{":v": blob(1000)}},
		{"SET m = :m", attrs{":m": doc(attrs{"x": num("1"), "y": blob(100)})}},
		{"SET m.x = :v, m.z = :v, a = :n REMOVE b, nothing", attrs{":v": blob(10), ":n": num("-12345")}},
		{"REMOVE m.y, m.z ADD c :s, a :n", attrs{":s": strSet("a", "bc"), ":n": num("12345.5")}},
		{"DELETE c :s", attrs{":s": strSet("a", "bc")}},
	} {
		f.update(keyed("a", "b"), step.expression, step.values)
		grown := f.tableBytes()
		item := f.get(keyed("a", "b"))
		f.put(item) // measured from scratch
		if put := f.tableBytes(); put != grown {
			t.Errorf("after %s: kept as %d bytes, measured as %d", step.expression, grown, put)
		}
	}
}

func (f *fixture) tableBytes() int64 {
	f.t.Helper()
	out, err := f.db.DescribeTable(f.t.Context(), &dynamodb.DescribeTableInput{TableName: ptr(mainTable)})
	if err != nil {
		f.t.Fatal(err)
	}
	return *out.Table.TableSizeBytes
}
