package dynamolite_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// stream is a steady demand on one item, one write at a time.
type stream struct {
	key    attrs
	rate   int // writes per second
	values attrs
}

// throttles runs all streams side by side for a while. It returns how many writes of each were
// throttled, and the reason of the last.
func throttles(t *testing.T, db *dynamolite.DB, d time.Duration, streams ...stream) (throttled []int, reason string) {
	t.Helper()
	throttled = make([]int, len(streams))
	start := time.Now()
	next := make([]time.Duration, len(streams))
	for {
		first := 0
		for i := range next {
			if next[i] < next[first] {
				first = i
			}
		}
		if next[first] >= d {
			return throttled, reason
		}
		time.Sleep(next[first] - time.Since(start))
		s := &streams[first]
		next[first] += time.Second / time.Duration(s.rate)
		_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: ptr(mainTable), Key: s.key, UpdateExpression: ptr("SET fpk = :f, fsk = :s ADD n :one"),
			ExpressionAttributeValues: with(attrs{":one": num("1"), ":f": str("f" + s.key["pk"].(*types.AttributeValueMemberS).Value), ":s": num("1")}, s.values),
		})
		if e, ok := errors.AsType[*types.ThrottlingException](err); ok {
			throttled[first]++
			reason = *e.ThrottlingReasons[0].Reason + " " + *e.ThrottlingReasons[0].Resource
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// The attack of the advisory on a dedicated table: one entity's partition is full. Other entities
// notice nothing, unless an index leads everything into one partition again.
func TestHotPartition(t *testing.T) {
	t.Parallel()
	const seconds = 10
	for _, tt := range []struct {
		name    string
		streams []stream
		// the share of throttled writes of each stream, in percent, at least and at most
		least, most []int
		reason      string
	}{
		{
			"1,500 a second to one key",
			[]stream{{key: keyed("hot", "x"), rate: 1500}},
			[]int{25},
			[]int{34},
			"TableWriteKeyRangeThroughputExceeded",
		},
		{
			"two keys at 700",
			[]stream{{key: keyed("a", "x"), rate: 700}, {key: keyed("b", "x"), rate: 700}},
			[]int{0, 0},
			[]int{0, 0},
			"",
		},
		{
			"a hot key and a neighbour",
			[]stream{{key: keyed("hot", "x"), rate: 2000}, {key: keyed("b", "x"), rate: 50}},
			[]int{40, 0},
			[]int{50, 0},
			"TableWriteKeyRangeThroughputExceeded",
		},
		{
			"two sort keys of one partition",
			[]stream{{key: keyed("a", "x"), rate: 700}, {key: keyed("a", "y"), rate: 670}},
			[]int{15, 15},
			[]int{30, 30},
			"TableWriteKeyRangeThroughputExceeded",
		},
		{
			"two keys in one partition of an index",
			[]stream{
				{key: keyed("a", "x"), rate: 700, values: attrs{":f": str("all")}},
				{key: keyed("b", "x"), rate: 670, values: attrs{":f": str("all")}},
			},
			[]int{15, 15},
			[]int{30, 30},
			"IndexWriteKeyRangeThroughputExceeded",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := dynamolite.New(dynamolite.Options{Limits: dynamolite.AWSLimits()})
				f := fixtureIn(t, db)
				got, reason := throttles(t, f.db, seconds*time.Second, tt.streams...)
				for i, n := range got {
					percent := n * 100 / (tt.streams[i].rate * seconds)
					if percent < tt.least[i] || percent > tt.most[i] {
						t.Errorf("%d %% of the writes of stream %d were throttled, want %d to %d", percent, i, tt.least[i], tt.most[i])
					}
				}
				name, resource, _ := strings.Cut(reason, " ")
				if name != tt.reason {
					t.Errorf("the reason is %q, want %q", name, tt.reason)
				}
				if strings.HasPrefix(name, "Index") != strings.HasSuffix(resource, "/index/"+fullIndex) {
					t.Errorf("%s names the resource %s", name, resource)
				}
			})
		})
	}
}

// A throttled request has no effect and is not billed.
func TestThrottledDoesNothing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	db := dynamolite.New(dynamolite.Options{
		Limits: dynamolite.Limits{PartitionWriteUnits: 3, PartitionReadUnits: 2}, Now: func() time.Time { return now },
	})
	f := fixtureIn(t, db)
	ctx := t.Context()
	for range 3 {
		f.update(keyed("a", "b"), "ADD n :one", attrs{":one": num("1")})
	}
	before := db.Ledger()
	put := &types.Put{TableName: ptr(mainTable), Item: keyed("a", "c")}
	for name, write := range map[string]func() error{
		"update": func() error {
			_, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: ptr(mainTable), Key: keyed("a", "b"), UpdateExpression: ptr("ADD n :one"), ExpressionAttributeValues: attrs{":one": num("1")},
			})
			return err
		},
		"put": func() error {
			_, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: put.TableName, Item: put.Item})
			return err
		},
		"delete": func() error {
			_, err := db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: keyed("a", "b")})
			return err
		},
		"failed condition": func() error {
			_, err := db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
				TableName: ptr(mainTable), Key: keyed("a", "b"), ConditionExpression: ptr("attribute_exists(nothing)"),
			})
			return err
		},
		"batch": func() error {
			_, err := db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
				mainTable: {{PutRequest: &types.PutRequest{Item: put.Item}}},
			}})
			return err
		},
	} {
		if e, ok := errors.AsType[*types.ThrottlingException](write()); !ok || len(e.ThrottlingReasons) != 1 {
			t.Errorf("%s: not throttled, or without a reason: %v", name, e)
		}
	}
	err := f.transact(ctx, types.TransactWriteItem{Put: put}, types.TransactWriteItem{Put: &types.Put{TableName: ptr(mainTable), Item: keyed("z", "z")}})
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok || *cancelled.CancellationReasons[0].Code != "ThrottlingError" || *cancelled.CancellationReasons[1].Code != "None" {
		t.Errorf("transaction: %v", err)
	}
	if added := db.Ledger().Since(before).Total(); added.WriteUnits != 4 { // of the cancelled transaction
		t.Errorf("throttled writes were billed: %+v", added)
	}
	// The part of a batch that is not throttled is done.
	out, err := db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
		mainTable: {{PutRequest: &types.PutRequest{Item: put.Item}}, {PutRequest: &types.PutRequest{Item: keyed("other", "c")}}},
	}})
	if err != nil || len(out.UnprocessedItems[mainTable]) != 1 {
		t.Fatalf("batch: %v, %v", out, err)
	}
	mustEqual(t, "unprocessed", put.Item, out.UnprocessedItems[mainTable][0].PutRequest.Item)
	for i := range 4 {
		_, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: ptr(mainTable), Key: keyed("a", "b"), ConsistentRead: ptr(true)})
		if throttled := err != nil; throttled != (i >= 2) {
			t.Errorf("read %d: %v", i, err)
		}
	}
	gets := types.KeysAndAttributes{Keys: []attrs{keyed("a", "b"), keyed("other", "c")}}
	read, err := db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{mainTable: gets}})
	if err != nil || len(read.UnprocessedKeys[mainTable].Keys) != 1 || len(read.Responses[mainTable]) != 1 {
		t.Errorf("batch of reads: %v, %v", read, err)
	}
	queries := map[string]func() error{
		"query": func() error {
			_, err := db.Query(ctx, &dynamodb.QueryInput{
				TableName: ptr(mainTable), KeyConditionExpression: ptr("pk = :v"), ExpressionAttributeValues: attrs{":v": str("a")},
			})
			return err
		},
		"transaction of reads": func() error {
			_, err := db.TransactGetItems(ctx, &dynamodb.TransactGetItemsInput{
				TransactItems: []types.TransactGetItem{{Get: &types.Get{TableName: ptr(mainTable), Key: keyed("a", "b")}}},
			})
			return err
		},
	}
	for name, read := range queries {
		if err := read(); err == nil {
			t.Errorf("%s: not throttled", name)
		}
	}
	if _, err := db.Scan(ctx, &dynamodb.ScanInput{TableName: ptr(mainTable)}); err != nil {
		t.Errorf("a scan, which is of no partition: %v", err)
	}
	now = now.Add(time.Second)
	if n := f.get(keyed("a", "b"))["n"]; n.(*types.AttributeValueMemberN).Value != "3" {
		t.Errorf("throttled updates were done: %v", n)
	}
}

// Half of the latency passes before the work and half after it; a transaction takes twice as
// long.
func TestLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := dynamolite.New(dynamolite.Options{Latency: dynamolite.Latency{P50: 10 * time.Millisecond}})
		if db.Immediate() {
			t.Error("a database with latency says that it never waits")
		}
		f := fixtureIn(t, db)
		start := time.Now()
		took := func(want time.Duration) {
			t.Helper()
			if d := time.Since(start); d != want {
				t.Errorf("took %v, want %v", d, want)
			}
			start = time.Now()
		}
		f.put(with(keyed("a", "b"), attrs{"n": num("1")}))
		took(10 * time.Millisecond)
		if err := f.transact(t.Context(), transactUpdate(keyed("a", "b"), "ADD n :n", attrs{":n": num("1")})); err != nil {
			t.Fatal(err)
		}
		took(20 * time.Millisecond)
	})
}

// A transaction in progress blocks all other writes of its items, and nothing else.
func TestTransactionConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := dynamolite.New(dynamolite.Options{Latency: dynamolite.Latency{P50: 10 * time.Millisecond}})
		f := fixtureIn(t, db)
		f.put(keyed("a", "b"), keyed("a", "c"))
		done := make(chan error)
		go func() {
			done <- f.transact(t.Context(),
				transactUpdate(keyed("a", "b"), "SET v = :v", attrs{":v": str("transaction")}),
				types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
					TableName: ptr(mainTable), Key: keyed("a", "c"), ConditionExpression: ptr("attribute_exists(pk)"),
				}})
		}()
		time.Sleep(time.Millisecond) // both are in progress, the transaction first
		update := func(key attrs) error {
			_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: ptr(mainTable), Key: key, UpdateExpression: ptr("SET v = :v"), ExpressionAttributeValues: attrs{":v": str("update")},
			})
			return err
		}
		for _, sk := range []string{"b", "c"} {
			go func() {
				_, conflict := errors.AsType[*types.TransactionConflictException](update(keyed("a", sk)))
				if !conflict {
					done <- errors.New("an update of a " + sk + " went through")
				} else {
					done <- nil
				}
			}()
		}
		go func() {
			err := f.transact(t.Context(), transactUpdate(keyed("a", "c"), "SET v = :v", attrs{":v": str("other")}),
				transactUpdate(keyed("z", "z"), "SET v = :v", attrs{":v": str("other")}))
			e, cancelled := errors.AsType[*types.TransactionCanceledException](err)
			if !cancelled || *e.CancellationReasons[0].Code != "TransactionConflict" || *e.CancellationReasons[1].Code != "None" {
				done <- errors.New("another transaction went through")
			} else {
				done <- nil
			}
		}()
		if item := f.get(keyed("a", "b")); item == nil || item["v"] != nil {
			t.Errorf("a plain read sees %v", item)
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if err := update(keyed("a", "c")); err != nil {
			t.Errorf("after the transaction: %v", err)
		}
		mustEqual(t, "item", attrs{"pk": str("a"), "sk": str("b"), "v": str("transaction")}, f.get(keyed("a", "b")))
	})
}

// A transaction whose caller leaves between its two steps has no effect and holds nothing.
func TestTransactionAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := dynamolite.New(dynamolite.Options{Latency: dynamolite.Latency{P50: 10 * time.Millisecond}})
		f := fixtureIn(t, db)
		for i, at := range []time.Duration{2 * time.Millisecond, 8 * time.Millisecond, 12 * time.Millisecond} { // before it, between the steps
			ctx, cancel := context.WithTimeout(t.Context(), at)
			err := f.transact(ctx, transactUpdate(keyed("a", strconv.Itoa(i)), "SET v = :v", attrs{":v": str("x")}))
			cancel()
			if err == nil {
				t.Errorf("after %v: succeeded", at)
			}
			if item := f.get(keyed("a", strconv.Itoa(i))); item != nil {
				t.Errorf("after %v: left %v", at, item)
			}
			f.update(keyed("a", strconv.Itoa(i)), "SET v = :v", attrs{":v": str("free")})
		}
	})
}
