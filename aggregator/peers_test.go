package aggregator_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// inPeersWorld runs a test on a table whose index keys are the peer's, at 10:30 of a day.
func inPeersWorld(t *testing.T, test func(*world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := testbed.NewEngine(t, dynamolite.Options{})
		w := newWorldOn(t, testbed.Options{API: engine, Table: dynamo.TableOptions{IndexKeys: dynamo.SharedKeys}}, engine)
		w.System(limiter.PerDay("rpd", 1_000_000), limiter.PerDay("tpd", 1_000_000))
		time.Sleep(10*time.Hour + 30*time.Minute)
		test(w)
	})
}

// peerKey is the key of a shard of the bucket that the peer uses.
func (w *world) peerKey(shard int) schema.Key {
	_, ns := w.Store.Namespace()
	return schema.BucketKey(ns, store.Bucket{Entity: "user", Resource: testbed.Resource, Shard: shard})
}

// peerMakes creates an item as the peer does, with consumption of rpd.
func (w *world) peerMakes(shard int, consumed int64) {
	w.Helper()
	_, ns := w.Store.Namespace()
	params := store.Params{Capacity: 1e9, Amount: 1e9, Period: 86_400_000}
	it := schema.EncodeNewBucket(ns, false, &store.Create{
		Bucket: store.Bucket{Entity: "user", Resource: testbed.Resource, Shard: shard}, Now: time.Now().UnixMilli(), ShardCount: 2,
		Writes: store.NewLimit{NamedParams: store.NamedParams{Limit: "wcu", Params: store.Params{Capacity: 1e6, Amount: 1e6, Period: 1000}}, Tokens: 1e6},
		Limits: []store.NewLimit{
			{NamedParams: store.NamedParams{Limit: "rpd", Params: params}, Tokens: 1e9 - consumed*1000, Consumed: consumed * 1000},
			{NamedParams: store.NamedParams{Limit: "tpd", Params: params}, Tokens: 1e9},
		},
	})
	for _, ours := range []string{schema.OpenHour, schema.Created, schema.Acquires} {
		delete(it, ours)
	}
	_, err := w.API.PutItem(w.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: it})
	w.Must(err)
}

// peerWrites updates an item as the peer does.
func (w *world) peerWrites(key schema.Key, update string, values schema.Item) {
	w.Helper()
	_, err := w.API.UpdateItem(w.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: key.Item(), UpdateExpression: &update, ExpressionAttributeValues: values,
	})
	w.Must(err)
}

func (w *world) peerTakes(shard int, n int64) {
	w.Helper()
	w.peerWrites(w.peerKey(shard), "ADD b_rpd_tk :less, b_rpd_tc :n, b_wcu_tk :w, b_wcu_tc :x",
		schema.Item{":less": schema.N(-n * 1000), ":n": schema.N(n * 1000), ":w": schema.N(-1000), ":x": schema.N(1000)})
}

// hours is the usage by hour, the oldest first: "day hour:tokens".
func (w *world) hours() string {
	w.Helper()
	page, err := w.Store.Usage().Read(w.Context(), usage.Query{Entity: "user", Resource: testbed.Resource, Now: true})
	w.Must(err)
	var all []string
	for _, u := range slices.Backward(page.Snapshots) {
		for _, a := range u.Tokens {
			all = append(all, fmt.Sprintf("%s %s:%s", u.Start.Format("2 15h"), a.Limit, a.Milli))
		}
	}
	return strings.Join(all, ", ")
}

// peerReads is the snapshot of a day as the peer's package reads it: whole numbers by name.
func (w *world) peerReads(day time.Time) map[string]string {
	w.Helper()
	_, ns := w.Store.Namespace()
	out, err := w.API.GetItem(w.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(table), Key: schema.UsageKey(ns, "user", testbed.Resource, "", day).Item(), ConsistentRead: aws.Bool(true),
	})
	w.Must(err)
	counts := map[string]string{}
	u, err := schema.DecodeUsage(out.Item)
	if out.Item != nil {
		w.Must(err)
		for _, a := range u.Tokens {
			counts[a.Limit] = a.Milli.String()
		}
		counts["window"] = u.Window
	}
	return counts
}

// threeHours is consumption of a bucket that only a peer uses.
func (w *world) threeHours(after func()) {
	w.Helper()
	w.peerMakes(0, 3)
	after()
	time.Sleep(time.Hour)
	w.peerTakes(0, 5)
	w.peerTakes(0, 6)
	after()
	time.Sleep(22 * time.Hour)
	w.peerTakes(0, 7)
	after()
}

const threeHours = "1 10h rpd:3000, 1 11h rpd:11000, 2 09h rpd:7000"

func TestHoursOfAPeerAreClosed(t *testing.T) {
	inPeersWorld(t, func(w *world) {
		closed := 0
		w.threeHours(func() {
			records := w.drain()
			for range 3 { // records come again
				closed += w.process(records).Hours
			}
		})
		if got := w.hours(); got != threeHours || closed != 3 {
			w.Errorf("%d hours closed: %s, want %s", closed, got, threeHours)
		}
		w.process(w.drain()) // the records of the turns
		want := map[string]string{"rpd": "14000", "window": "daily"}
		if diff := cmp.Diff(want, w.peerReads(time.Now().AddDate(0, 0, -1).Truncate(24*time.Hour))); diff != "" {
			w.Errorf("the peer's day (-want +got):\n%s", diff)
		}
		if got := w.total(w.Store, usage.Query{Entity: "user", Window: usage.Daily, Now: true}); got != "0 map[rpd:21000]" {
			w.Errorf("our days: %s", got)
		}
	})
}

func TestHoursOfAPeerAreClosedLate(t *testing.T) {
	inPeersWorld(t, func(w *world) {
		var records []stream.Record
		w.threeHours(func() { records = append(records, w.drain()...) })
		if res := w.process(records); res.Hours != 3 {
			w.Errorf("%d hours closed", res.Hours)
		}
		w.process(records)
		if got := w.hours(); got != threeHours {
			w.Errorf("%s, want %s", got, threeHours)
		}
	})
}

func TestATableOfOursNeedsNoTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.peerMakes(0, 3)
		if res := w.process(w.drain()); res.Hours != 0 {
			w.Errorf("%d hours closed", res.Hours)
		}
	})
}

// A record of an item that has gone since must not set the counts of its successor.
func TestAnotherItemOfTheKeyBeginsAnew(t *testing.T) {
	inPeersWorld(t, func(w *world) {
		w.peerMakes(0, 100)
		w.drain()
		w.peerTakes(0, 1)
		old := w.drain()
		w.drop("user")
		w.drain()
		w.peerMakes(0, 3)
		w.process(old)
		w.process(w.drain())
		w.peerTakes(0, 4)
		w.process(w.drain())
		if got := w.hours(); got != "1 10h rpd:4000" && got != "1 10h rpd:7000" {
			w.Errorf("%s", got)
		}
	})
}

// removeAndAdd removes rpd as the peer does, with its count, and adds it again.
func (w *world) removeAndAdd(between func()) {
	w.Helper()
	w.peerWrites(w.peerKey(0), "REMOVE b_rpd_tk, b_rpd_cp, b_rpd_ra, b_rpd_rp, b_rpd_tc", nil)
	between()
	w.peerWrites(w.peerKey(0), "SET b_rpd_tk = :c, b_rpd_cp = :c, b_rpd_ra = :c, b_rpd_rp = :p, b_rpd_tc = :z",
		schema.Item{":c": schema.N(1e9), ":p": schema.N(86_400_000), ":z": schema.N(0)})
}

func TestAPeerRemovesALimitAndAddsItAgain(t *testing.T) {
	for _, test := range []struct {
		name    string
		between func(*world)
		hour    time.Duration
		want    string
	}{
		{"the aggregator sees the removal alone", func(w *world) { w.process(w.drain()) }, 0, "1 10h rpd:100000, 1 11h rpd:9000"},
		{"it sees both at once", func(*world) {}, 0, "1 10h rpd:100000, 1 11h rpd:9000"},
		{"in another hour", func(*world) {}, time.Hour, "1 10h rpd:100000, 1 12h rpd:5000, 1 13h rpd:4000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inPeersWorld(t, func(w *world) {
				w.peerMakes(0, 100)
				w.process(w.drain())
				time.Sleep(time.Hour)
				w.peerTakes(0, 1) // 11h: turns; it is lost with the count
				w.process(w.drain())
				time.Sleep(test.hour)
				w.removeAndAdd(func() { test.between(w) })
				w.peerTakes(0, 5)
				records := w.drain()
				w.process(records)
				time.Sleep(test.hour)
				w.peerTakes(0, 4)
				w.process(w.drain())
				w.process(records)
				if got := w.hours(); got != test.want {
					w.Errorf("%s, want %s", got, test.want)
				}
			})
		})
	}
}

// Two shards complete a day, and the aggregator sees their records in either order.
func TestADayOfTwoShards(t *testing.T) {
	inPeersWorld(t, func(w *world) {
		day := time.Now().Truncate(24 * time.Hour)
		w.peerMakes(0, 3)
		w.peerMakes(1, 4)
		w.process(w.drain())
		time.Sleep(23 * time.Hour) // the stream keeps 24
		w.peerTakes(0, 1)
		w.peerTakes(1, 2)
		w.process(w.drain())
		records := w.drain() // of the turns
		slices.Reverse(records)
		for i := range records {
			w.process(records[i : i+1])
			time.Sleep(time.Second)
		}
		want := map[string]string{"rpd": "7000", "window": "daily"}
		if diff := cmp.Diff(want, w.peerReads(day)); diff != "" {
			w.Errorf("(-want +got):\n%s", diff)
		}
		w.drop("user")
		w.process(w.drain())
		want["rpd"] = "3000"
		if diff := cmp.Diff(want, w.peerReads(day.AddDate(0, 0, 1))); diff != "" {
			w.Errorf("the day of the deletion (-want +got):\n%s", diff)
		}
		if got := w.total(w.Store, usage.Query{Resource: testbed.Resource, Window: usage.Daily, Now: true}); got != "0 map[rpd:10000]" {
			w.Errorf("our days: %s", got)
		}
	})
}

func TestThePeersAggregatorIsNoticed(t *testing.T) {
	inPeersWorld(t, func(w *world) {
		var text strings.Builder
		w.aggregator = w.aggregate(aggregator.Options{Logger: slog.New(slog.NewTextHandler(&text, nil))})
		day := time.Now().Truncate(24 * time.Hour)
		w.peerMakes(0, 3)
		w.process(w.drain())
		time.Sleep(23 * time.Hour) // the stream keeps 24
		w.peerTakes(0, 1)
		seen := 0
		for range 3 { // the record, that of its turn, that of the copy
			seen += w.process(w.drain()).PeerUsage
		}
		if seen > 0 {
			w.Errorf("our copy counts as %d writes of the peer", seen)
		}
		_, ns := w.Store.Namespace()
		for range 2 {
			w.peerWrites(schema.UsageKey(ns, "user", testbed.Resource, "", day), "ADD rpd :n", schema.Item{":n": schema.N(1)})
			w.peerWrites(schema.UsageKey(ns, "other", testbed.Resource, "", day), "ADD rpd :n", schema.Item{":n": schema.N(1)})
			seen += w.process(w.drain()).PeerUsage
		}
		if said := strings.Count(text.String(), "switch it off"); seen != 4 || said != 1 {
			w.Errorf("%d writes seen, said %d times", seen, said)
		}
	})
}
