package expression_test

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// done returns the shape that a description has with a cache, and with no cache.
func done(t *testing.T, c *expression.Cache, describe func(*expression.Write)) (cached, compiled *expression.Shape) {
	t.Helper()
	var shapes [2]*expression.Shape
	for i, cache := range []*expression.Cache{c, nil} {
		var w expression.Write
		describe(&w)
		sh, err := w.Shape(cache)
		if err != nil {
			t.Fatal(err)
		}
		shapes[i] = sh
	}
	return shapes[0], shapes[1]
}

func TestText(t *testing.T) {
	t.Parallel()
	got, _ := done(t, new(expression.Cache), func(w *expression.Write) {
		stamp := w.Number(":rf", 1)
		w.Add(expression.Acquires, stamp)
		w.Set(expression.RF, stamp)
		w.Require(expression.RF.AtMost(stamp))
		w.RequireFirst(expression.ShardCount.Exists())
		w.RequireFirst(expression.ShardCount.AtLeast(stamp))
		w.RequireSecond(expression.ShardCount.Equals(stamp))
		w.Remove(expression.TTL)
		hidden, l := w.WriteLimit(70), w.Limit(0, "a.b")
		w.Add(hidden.Tokens(), hidden.Number('d', 1))
		w.Require(expression.EitherAbsent(l.Tokens(), l.Capacity()))
		w.Require(l.Tokens().Between(l.Number('l', 1), l.Number('h', 2)))
		w.Copy(l.Opened(), l.Consumed(), stamp)
		w.SetDifference(l.Gained(), l.Consumed(), l.Opened(), stamp)
		w.Require(expression.RF.AbsentOrAbove(stamp))
		w.Require(expression.RF.AbsentOrEquals(stamp))
		w.Require(expression.TTL.Absent())
	})
	want := &expression.Shape{
		Update: "SET #rf=:rf,#o0=if_not_exists(#E0,:rf),#g0=if_not_exists(#E0,:rf)-if_not_exists(#o0,:rf) REMOVE #ttl ADD dn :rf,#A18 :D18",
		Condition: "#rf <= :rf AND (attribute_not_exists(#A0) OR attribute_not_exists(#B0)) AND #A0 BETWEEN :L0 AND :H0 AND " +
			"(attribute_not_exists(#rf) OR #rf > :rf) AND (attribute_not_exists(#rf) OR #rf=:rf) AND " +
			"attribute_not_exists(#ttl) AND " +
			"(attribute_exists(#sc) AND #sc >= :rf OR #sc=:rf)",
		Names: map[string]string{
			"#rf": "rf", "#sc": "shard_count", "#ttl": "ttl", "#A18": "b_wcu_tk", "#A0": "b_a.b_tk", "#B0": "b_a.b_cp",
			"#E0": "b_a.b_tc", "#o0": "do_a.b", "#g0": "dp_a.b",
		},
		Limits: []string{"a.b"},
	}
	members := struct {
		ConditionExpression, UpdateExpression string
		ExpressionAttributeNames              map[string]string
	}{want.Condition, want.Update, want.Names}
	encoded := struct {
		ConditionExpression, UpdateExpression string
		ExpressionAttributeNames              map[string]string
	}{}
	if err := json.Unmarshal([]byte("{"+got.Members+"}"), &encoded); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(members, encoded); diff != "" {
		t.Error(diff)
	}
	want.Members = got.Members
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// One alternative alone is a condition like any other.
func TestOneAlternative(t *testing.T) {
	t.Parallel()
	const want = "attribute_not_exists(#rf) AND attribute_exists(#rf) AND attribute_exists(#sc)"
	for name, alternative := range map[string]func(*expression.Write, expression.Condition){
		"first": (*expression.Write).RequireFirst, "second": (*expression.Write).RequireSecond,
	} {
		got, _ := done(t, nil, func(w *expression.Write) {
			alternative(w, expression.RF.Exists())
			alternative(w, expression.ShardCount.Exists())
			w.Require(expression.RF.Absent())
		})
		if got.Condition != want {
			t.Errorf("%s: got %s, want %s", name, got.Condition, want)
		}
	}
}

// Each of these writes differs from the ones before in one operand only, so that a key
// without that operand would find the shape of another write.
func TestKeysDiffer(t *testing.T) {
	t.Parallel()
	var cache expression.Cache
	limit := func(i int, name string, more func(*expression.Write, expression.Limit)) func(*expression.Write) {
		return func(w *expression.Write) { more(w, w.Limit(i, name)) }
	}
	exists := func(w *expression.Write, l expression.Limit) { w.Require(l.Tokens().Exists()) }
	for _, describe := range []func(*expression.Write){
		func(*expression.Write) {},
		limit(0, "a", exists),
		limit(1, "a", exists),
		limit(128, "a", exists),
		limit(129, "a", exists),
		limit(0, "ab", exists),
		limit(0, strings.Repeat("a", 64), exists),
		limit(0, "a", func(w *expression.Write, l expression.Limit) { w.Require(l.Tokens().Absent()) }),
		limit(0, "a", func(w *expression.Write, l expression.Limit) { w.Require(l.Capacity().Absent()) }),
		limit(0, "a", func(w *expression.Write, l expression.Limit) { w.Remove(l.Capacity()) }),
		limit(0, "a", func(w *expression.Write, l expression.Limit) { w.Set(l.Capacity(), l.Number('a', 1)) }),
		limit(0, "a", func(w *expression.Write, l expression.Limit) { w.Set(l.Capacity(), l.Number('b', 1)) }),
		limit(0, "a", func(w *expression.Write, l expression.Limit) { w.Set(l.Capacity(), w.Number(":ab", 1)) }),
		limit(0, "a", func(w *expression.Write, l expression.Limit) { w.Require(l.Capacity().AtMost(l.Number('a', 1))) }),
		limit(0, "a", func(w *expression.Write, l expression.Limit) {
			w.RequireFirst(l.Capacity().AtMost(l.Number('a', 1)))
			w.RequireSecond(l.Capacity().AtMost(l.Number('a', 1)))
		}),
		func(w *expression.Write) {
			w.Limit(0, "a")
			w.Require(w.WriteLimit(0).Tokens().Exists())
		},
	} {
		// A key with a longer beginning does not fit the memory on the stack.
		for _, before := range []int{0, 30, 300} {
			cached, compiled := done(t, &cache, func(w *expression.Write) {
				for range before {
					w.Require(expression.RF.Exists())
				}
				if before == 30 {
					l := w.Limit(2, strings.Repeat("l", 64))
					for range 12 {
						w.Require(l.Tokens().Exists())
						w.Limit(2, strings.Repeat("l", 64))
					}
				}
				describe(w)
			})
			if diff := cmp.Diff(compiled, cached); diff != "" {
				t.Errorf("the cache has another shape (-compiled +cached):\n%s", diff)
			}
		}
	}
}

// The cache does not take an invalid name for the operations of another write.
func TestInvalidName(t *testing.T) {
	t.Parallel()
	var cache expression.Cache
	done(t, &cache, func(w *expression.Write) { w.Require(w.Limit(0, "a").Tokens().Exists()) })
	for _, name := range []string{"", "a\x00", "a b", "wcu", strings.Repeat("a", 1000)} {
		var w expression.Write
		w.Require(w.Limit(0, name).Tokens().Exists())
		if _, err := w.Shape(&cache); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("limit %q: got error %v, want %v", name, err, store.ErrInvalid)
		}
	}
}

// Values are the same as a map and in JSON, also beyond the room for numbers.
func TestValues(t *testing.T) {
	t.Parallel()
	var w expression.Write
	want := schema.Item{":c": schema.S("x"), ":d": schema.S("\"\x01\u2028"), ":e": schema.Bool(true), ":f": schema.Bool(false)}
	w.Text(":c", "x")
	for i := range int64(70) {
		n := math.MinInt64 + i
		w.Number(":A"+strconv.FormatInt(i, 10), n)
		want[":A"+strconv.FormatInt(i, 10)] = schema.N(n)
	}
	w.Text(":d", "\"\x01\u2028")
	w.Bool(":e", true)
	w.Bool(":f", false)
	if diff := cmp.Diff(texts(want), texts(w.Values())); diff != "" {
		t.Error(diff)
	}
	var members map[string]map[string]any
	if err := json.Unmarshal(append(w.AppendValues([]byte("{")), '}'), &members); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(texts(want), members); diff != "" {
		t.Error(diff)
	}
	if got := string(new(expression.Write).AppendValues(nil)); got != "" {
		t.Errorf("no values are %s", got)
	}
}

// A write with a known shape costs nothing in JSON. As a map it costs that, the numbers and
// their digits.
func TestAllocations(t *testing.T) {
	var cache expression.Cache
	var w expression.Write
	body := make([]byte, 0, 1024)
	describe := func() {
		w = expression.Write{}
		for i, name := range []string{"a", "b", "c"} {
			l := w.Limit(i, name)
			w.Add(l.Tokens(), l.Number('a', 1000))
		}
		if _, err := w.Shape(&cache); err != nil {
			t.Fatal(err)
		}
	}
	if got := testing.AllocsPerRun(100, func() { describe(); body = w.AppendValues(body[:0]) }); got != 0 {
		t.Errorf("%v allocations in JSON, want none", got)
	}
	var values, m map[string]types.AttributeValue
	got := testing.AllocsPerRun(100, func() { describe(); values = w.Values() })
	made := testing.AllocsPerRun(100, func() {
		m = make(map[string]types.AttributeValue, 3)
		m[":a"] = values[":A0"]
	})
	if got > made+2 {
		t.Errorf("%v allocations, want %v for a map, and 2", got, made)
	}
}

// texts are values as JSON has them.
func texts(values schema.Item) map[string]map[string]any {
	all := make(map[string]map[string]any)
	for alias, v := range values {
		switch v := v.(type) {
		case *types.AttributeValueMemberN:
			all[alias] = map[string]any{"N": v.Value}
		case *types.AttributeValueMemberS:
			all[alias] = map[string]any{"S": v.Value}
		case *types.AttributeValueMemberBOOL:
			all[alias] = map[string]any{"BOOL": v.Value}
		}
	}
	return all
}
