package differential_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// kind is a request that is more than one call of a method.
type kind interface {
	// label tells it apart from its request alone.
	label() string
	// sends is the request, a pointer to an SDK's input.
	sends() any
	// send makes the request and returns the answers.
	send(t *testing.T, e engine) []any
}

// pages is a Query or a Scan that is sent again from where it ended, until it has
// ended. Where it ends must not depend on the engine: no scan over several
// partitions, no items that tie in an index.
type pages struct{ request any }

// sweep is a Query or a Scan by pages whose items are put together, for
// where the order of the items is the engine's own. A Scan is made of so many
// segments, none for 0, each to its end.
type sweep struct {
	request  any
	segments int32
}

// settle waits until a table and its indexes are ACTIVE, and describes it.
type settle struct{ table string }

// tagged is a request that names a table by its ARN, which is the engine's own.
type tagged struct {
	table string
	// as stands in the ARN in place of table/name, unless it is "".
	as      string
	request any
}

var _ = []kind{pages{}, sweep{}, settle{}, tagged{}}

func (p pages) label() string  { return "pages" }
func (s sweep) label() string  { return fmt.Sprintf("sweep of %d", s.segments) }
func (s settle) label() string { return "settle" }
func (g tagged) label() string { return "tagged " + g.table + " " + g.as }

func (p pages) sends() any  { return p.request }
func (s sweep) sends() any  { return s.request }
func (s settle) sends() any { return &dynamodb.DescribeTableInput{TableName: &s.table} }
func (g tagged) sends() any { return g.request }

// maxPages bounds the requests that one pages or segment makes.
const maxPages = 60

// page is what pages need of the answer to a Query or a Scan.
type page struct {
	answer any // encoded
	items  []any
	next   map[string]types.AttributeValue
}

// page sends a copy of a Query or a Scan.
func sendPage(t *testing.T, e engine, request any, start map[string]types.AttributeValue, change func(*dynamodb.ScanInput)) page {
	t.Helper()
	switch in := request.(type) {
	case *dynamodb.QueryInput:
		query := *in
		if start != nil {
			query.ExclusiveStartKey = start
		}
		out, err := e.Query(t.Context(), &query)
		if err != nil {
			return page{answer: encodeError(err)}
		}
		return page{ordered(encode(out), in.IndexName), encodeItems(out.Items), out.LastEvaluatedKey}
	case *dynamodb.ScanInput:
		scan := *in
		if start != nil {
			scan.ExclusiveStartKey = start
		}
		if change != nil {
			change(&scan)
		}
		out, err := e.Scan(t.Context(), &scan)
		if err != nil {
			return page{answer: encodeError(err)}
		}
		return page{ordered(encode(out), in.IndexName), encodeItems(out.Items), out.LastEvaluatedKey}
	default:
		t.Fatalf("there are no pages of a %T", request)
		return page{}
	}
}

func encodeItems(items []map[string]types.AttributeValue) []any {
	list := []any{}
	for _, item := range items {
		list = append(list, encodeItem(item))
	}
	return list
}

// eachPage sends a request until it has ended.
func eachPage(t *testing.T, e engine, request any, change func(*dynamodb.ScanInput), do func(page)) {
	t.Helper()
	var start map[string]types.AttributeValue
	for range maxPages {
		p := sendPage(t, e, request, start, change)
		do(p)
		if len(p.next) == 0 {
			return
		}
		start = p.next
	}
	t.Fatalf("more than %d pages", maxPages)
}

func (p pages) send(t *testing.T, e engine) (answers []any) {
	t.Helper()
	eachPage(t, e, p.request, nil, func(p page) { answers = append(answers, p.answer) })
	return answers
}

// send answers with all the items, and for a request without segments with the
// pages as well, less what depends on the order: their items, and of the last key
// all but the names.
func (s sweep) send(t *testing.T, e engine) []any {
	t.Helper()
	all := map[string]any{}
	items, list := []any{}, []any{}
	collect := func(p page) {
		items = append(items, p.items...)
		answer, ok := p.answer.(map[string]any)
		if !ok || answer["error"] != nil {
			list = append(list, p.answer)
			return
		}
		delete(answer, "Items")
		if p.next != nil {
			answer["LastEvaluatedKey"] = sorted(slices.Collect(maps.Keys(p.next)))
		}
		if s.segments == 0 {
			list = append(list, answer)
		}
	}
	if s.segments == 0 {
		eachPage(t, e, s.request, nil, collect)
	}
	for segment := range s.segments {
		eachPage(t, e, s.request, func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = &segment, &s.segments }, collect)
	}
	sortByText(items)
	all["Items"], all["Pages"] = items, list
	return []any{all}
}

// settlePoll and settleTimeout are for an engine that makes an index in the background.
const (
	settlePoll    = 10 * time.Millisecond
	settleTimeout = time.Minute
)

func (s settle) send(t *testing.T, e engine) []any {
	t.Helper()
	out, err := settled(t, e, s.table)
	if err != nil {
		return []any{encodeError(err)}
	}
	return []any{encode(out)}
}

func settled(t *testing.T, e engine, table string) (*dynamodb.DescribeTableOutput, error) {
	t.Helper()
	var poll *time.Ticker
	for waited := time.Duration(0); waited < settleTimeout; waited += settlePoll {
		out, err := e.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil {
			return nil, err
		}
		busy := out.Table.TableStatus != types.TableStatusActive
		for _, x := range out.Table.GlobalSecondaryIndexes {
			busy = busy || x.IndexStatus != types.IndexStatusActive
		}
		if !busy {
			return out, nil
		}
		if poll == nil {
			poll = time.NewTicker(settlePoll)
			defer poll.Stop()
		}
		<-poll.C
	}
	t.Fatalf("%s is not ACTIVE after %v", table, settleTimeout)
	return nil, nil
}

func (g tagged) send(t *testing.T, e engine) []any {
	t.Helper()
	table, err := e.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &g.table})
	if err != nil {
		t.Fatalf("the ARN of %s: %v", g.table, err)
	}
	arn := aws.ToString(table.Table.TableArn)
	if g.as != "" {
		arn = strings.Replace(arn, "table/"+g.table, g.as, 1)
	}
	switch in := g.request.(type) {
	case *dynamodb.TagResourceInput:
		return send(t, e, &dynamodb.TagResourceInput{ResourceArn: &arn, Tags: in.Tags})
	case *dynamodb.UntagResourceInput:
		return send(t, e, &dynamodb.UntagResourceInput{ResourceArn: &arn, TagKeys: in.TagKeys})
	case *dynamodb.ListTagsOfResourceInput:
		return send(t, e, &dynamodb.ListTagsOfResourceInput{ResourceArn: &arn, NextToken: in.NextToken})
	default:
		t.Fatalf("a %T has no ARN", g.request)
		return nil
	}
}

// ordered gives the items of an answer the order that AWS does not: partitions
// among themselves, and items that have the same keys in an index.
func ordered(answer any, index *string) any {
	a, ok := answer.(map[string]any)
	items, isList := a["Items"].([]any)
	if !ok || !isList {
		return answer
	}
	attribute := func(item any, name string) string {
		m, _ := item.(map[string]any)
		return string(marshal(m[name]))
	}
	hash, rng := "pk", ""
	if index != nil {
		hash, rng = indexKeys[*index].hash, indexKeys[*index].rng
	}
	slices.SortStableFunc(items, func(a, b any) int { return strings.Compare(attribute(a, hash), attribute(b, hash)) })
	if index == nil {
		return a
	}
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && attribute(items[to], hash) == attribute(items[from], hash) && attribute(items[to], rng) == attribute(items[from], rng) {
			to++
		}
		sortByText(items[from:to])
		from = to
	}
	return a
}
