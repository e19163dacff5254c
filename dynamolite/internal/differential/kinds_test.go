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

// kind is a request that takes more than one call of a method.
type kind interface {
	// label distinguishes it from its plain request.
	label() string
	// sends returns the request, a pointer to an SDK's input.
	sends() any
	// send makes the request and returns the answers.
	send(t *testing.T, e engine) []any
}

// pages is a Query or a Scan that is repeated from its end until no page is left. The ends of
// pages must not depend on the engine: no scan over several partitions, and no items with equal
// keys in an index.
type pages struct{ request any }

// sweep is a Query or a Scan by pages whose items are joined, for cases in which each engine has
// its own order of items. A Scan has the given number of segments, none for 0, and reads each to
// its end.
type sweep struct {
	request  any
	segments int32
}

// settle waits until a table and its indexes are ACTIVE, and describes it.
type settle struct{ table string }

// tagged is a request that identifies a table by its ARN, which differs between engines.
type tagged struct {
	table string
	// as replaces table/name in the ARN, unless it is "".
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

// maxPages limits the requests of one pages or segment.
const maxPages = 60

// page is the part of the answer to a Query or a Scan that pages needs.
type page struct {
	answer any // encoded
	items  []any
	next   map[string]types.AttributeValue
}

// sendPage sends a copy of a Query or a Scan.
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

// eachPage repeats a request until no page is left.
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

// send returns all the items and, for a request without segments, also the pages. It leaves out
// the parts of a page that depend on the order: its items, and everything but the names of the
// last key.
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

// ordered sorts the parts of an answer that AWS leaves without an order: partitions, and items
// that have equal keys in an index.
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
