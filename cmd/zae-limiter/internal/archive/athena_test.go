package archive_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
)

var (
	aTable     = regexp.MustCompile(`(?s)^CREATE EXTERNAL TABLE (\w+) \((.*?)\)\nPARTITIONED BY \((.*?)\)\n`)
	aColumn    = regexp.MustCompile("`?(\\w+)`? (?:string|int)")
	aProperty  = regexp.MustCompile(`'([\w.]+)' = '(.*)'`)
	aLocation  = regexp.MustCompile(`\nLOCATION 's3://trail/(.*)'\n`)
	aSelection = regexp.MustCompile(`(?s)^SELECT DISTINCT (.*?)\nFROM (\w+)\nWHERE (.*)\nORDER BY "timestamp" DESC\n$`)
	aCondition = regexp.MustCompile(`(\w+) (?:=|BETWEEN) `)
)

// The table of Athena in the documents has the columns and the keys of an archive, and the query
// only columns of the table.
func TestTheTableOfTheDocuments(t *testing.T) {
	t.Parallel()
	const root = "../../../.."
	s := newServer(t)
	put(t, open(t, s.Client(), "limits"), event(1, noon))
	var columns, partitions []string
	name := ""
	for _, b := range doctest.Blocks(t, root, doctest.Query) {
		if query := aSelection.FindStringSubmatch(b.Text); query != nil {
			shown := strings.Split(strings.ReplaceAll(query[1], `"`, ""), ", ")
			for _, condition := range aCondition.FindAllStringSubmatch(query[3], -1) {
				shown = append(shown, condition[1])
			}
			for _, column := range shown {
				if !slices.Contains(slices.Concat(columns, partitions), column) {
					t.Errorf("%s:%d: the table has no column %s", b.Document, b.Line, column)
				}
			}
			if query[2] != name {
				t.Errorf("%s:%d: there is no table %s", b.Document, b.Line, query[2])
			}
			continue
		}
		table := aTable.FindStringSubmatch(b.Text)
		if table == nil {
			t.Fatalf("%s:%d: neither a table nor a query of it", b.Document, b.Line)
		}
		name, columns, partitions = table[1], names(table[2]), names(table[3])
		fields := slices.Sorted(maps.Keys(lines(t, s.Client(), "limits/")[0]))
		if diff := cmp.Diff(fields, slices.Sorted(slices.Values(columns))); diff != "" {
			t.Errorf("%s:%d: the columns (-archive +page):\n%s", b.Document, b.Line, diff)
		}
		checkKeys(t, b.Text, partitions, slices.Collect(maps.Keys(s.Objects(bucket))))
	}
}

func names(list string) (all []string) {
	for _, column := range aColumn.FindAllStringSubmatch(list, -1) {
		all = append(all, column[1])
	}
	return all
}

// checkKeys compares the key of the event with the location that the projection makes of its day.
func checkKeys(t *testing.T, table string, partitions, keys []string) {
	t.Helper()
	property := map[string]string{}
	for _, p := range aProperty.FindAllStringSubmatch(table, -1) {
		property[p[1]] = p[2]
	}
	path := property["storage.location.template"]
	for partition, value := range map[string]string{"year": "2026", "month": "1", "day": "2"} {
		if !slices.Contains(partitions, partition) || property["projection."+partition+".type"] != "integer" {
			t.Errorf("there is no partition %s", partition)
		}
		if property["projection."+partition+".digits"] == "2" {
			value = "0" + value
		}
		path = strings.ReplaceAll(path, "${"+partition+"}", value)
	}
	location := aLocation.FindStringSubmatch(table)
	if len(keys) != 1 || !strings.HasPrefix("s3://"+bucket+"/"+keys[0], path) || location == nil || !strings.HasPrefix(keys[0], location[1]) ||
		property["projection.enabled"] != "true" || property["projection.month.range"] != "1,12" || property["projection.day.range"] != "1,31" {
		t.Errorf("the objects %q are not below %s and %q", keys, path, location)
	}
}

// The patterns of zgrep in the documents are as lines have them.
func TestThePatternsOfTheDocuments(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	e := event(1, noon)
	e.Entity = "key-1"
	put(t, open(t, s.Client(), "limits"), e)
	found := 0
	for _, b := range doctest.Blocks(t, "../../../..", doctest.Counterpart) {
		for _, pattern := range regexp.MustCompile(`zgrep (?:-h )?'([^']*)'`).FindAllStringSubmatch(b.Text, -1) {
			found++
			for _, o := range s.Objects(bucket) {
				if !strings.Contains(text(t, o.Body), pattern[1]) {
					t.Errorf("%s:%d: no line has %s", b.Document, b.Line, pattern[1])
				}
			}
		}
	}
	if found == 0 {
		t.Error("no document has zgrep")
	}
}
