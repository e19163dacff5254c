package aggregator_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// set writes attributes of a shard without the store, as a peer does.
func (w *world) set(entity string, shard int, attributes map[string]int64) {
	w.Helper()
	_, ns := w.Store.Namespace()
	name := table
	names, values := map[string]string{}, map[string]types.AttributeValue{}
	var parts []string
	for attr, v := range attributes {
		n := strconv.Itoa(len(names))
		parts = append(parts, "#"+n+" = :"+n)
		names["#"+n], values[":"+n] = attr, schema.N(v)
	}
	update := "SET " + strings.Join(parts, ", ")
	_, err := w.API.UpdateItem(w.Context(), &dynamodb.UpdateItemInput{
		TableName: &name, Key: schema.BucketKey(ns, limiter.Bucket{Entity: entity, Resource: "gpt-4", Shard: shard}).Item(),
		UpdateExpression: &update, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	})
	w.Must(err)
}

// balances are what a bucket holds now, in whole tokens, over all shards.
func (w *world) balances(entity string, limits ...string) string {
	w.Helper()
	none := tokens{}
	for _, limit := range limits {
		none[limit] = 0
	}
	statuses, err := w.Available(w.Context(), askAll(entity, none))
	w.Must(err)
	var text strings.Builder
	for _, s := range statuses {
		fmt.Fprintf(&text, "%s %d, ", s.Limit.Name, s.Available)
	}
	return text.String()
}

// history plays hours of bursts on limits of very different rates. It returns how much was
// admitted, and what is left at the end.
func history(t *testing.T, aggregated bool) (admitted int, left string, refills int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerMinute("rpm", 300), limiter.PerHour("slow.tokens", 1_000), limiter.PerDay("per-day", 5_000))
		for burst := range 200 {
			for range 60 + burst%50 {
				if w.Take(w.Limiter, askAll("user", tokens{"rpm": 3, "slow.tokens": 1, "per-day": 2})) == nil {
					admitted++
				}
			}
			time.Sleep(5*time.Second + time.Duration(burst)*time.Millisecond)
			if aggregated {
				refills += w.process(w.drain()).Refills
			}
			time.Sleep(time.Second)
		}
		left = w.balances("user", "rpm", "slow.tokens", "per-day")
	})
	return admitted, left, refills
}

// A bucket with refills admits and holds the same as without them, to the token. No limit
// loses what it accrued to another limit's refill (the peer's defect 7) or to rounding (8),
// and none gains.
func TestRefillsNeitherMintNorLose(t *testing.T) {
	t.Parallel()
	with, leftWith, refills := history(t, true)
	without, leftWithout, _ := history(t, false)
	if with != without || leftWith != leftWithout || refills < 20 {
		t.Errorf("admitted %d, left %s(%d refills); without an aggregator %d, %s", with, leftWith, refills, without, leftWithout)
	}
}

func TestNothingIsWrittenForNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		limit limiter.Limit
		take  int64
		lag   time.Duration
		set   map[string]int64
		want  int
	}{
		{"short of what is asked for", limiter.PerMinute("rpm", 600), 400, 5 * time.Second, nil, 0},
		{"short, and half of that has accrued", limiter.PerMinute("rpm", 600), 400, 10 * time.Second, nil, 1},
		{"short, and all of it has accrued", limiter.PerSecond("rps", 600, limiter.Burst(600)), 400, time.Second, nil, 1},
		{"enough is stored", limiter.PerSecond("rps", 600), 200, time.Second, nil, 0},
		{"too little has accrued", limiter.PerHour("rph", 600), 400, 5 * time.Second, nil, 0},
		{"too old", limiter.PerSecond("rps", 600), 400, 11 * time.Second, nil, 0},
		{"disabled", limiter.PerSecond("rps", 600), 400, time.Second, map[string]int64{"disabled": 1}, 0},
		{"about to be trimmed by a peer", limiter.PerSecond("rps", 600), 400, time.Second, map[string]int64{"vu": 0}, 0},
		{"on a schedule", limiter.PerSecond("rps", 600), 400, time.Second, map[string]int64{"sched": 1}, 0},
		{"expired", limiter.PerSecond("rps", 600), 400, time.Second, map[string]int64{"ttl": 1}, 0},
		{"more than its share", limiter.PerSecond("rps", 600), 400, time.Second, map[string]int64{"b_more_tk": 1e9, "b_more_cp": 1000, "b_more_ra": 1000, "b_more_rp": 1000, "shard_count": 2}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.System(c.limit)
				if w.Take(w.Limiter, ask("user", c.limit.Name, c.take)) != nil {
					t.Fatal("refused")
				}
				if c.set != nil {
					w.set("user", 0, c.set)
				}
				records := w.drain()
				time.Sleep(c.lag)
				if c.set["shard_count"] != 0 {
					for i := range records { // this test ignores the change of the count
						records[i].Old = nil
					}
				}
				if res := w.process(records); res.Refills != c.want {
					t.Errorf("%d refills, want %d", res.Refills, c.want)
				}
				// The aggregator's own writes cause no further writes.
				if res := w.process(w.drain()); res.Refills+res.Doublings+res.Mends != 0 {
					t.Errorf("its own writes led to %+v", res)
				}
			})
		})
	}
}

// One write accrues all limits of an item.
func TestARefillIsOneWriteForAllLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerSecond("fast", 600), limiter.PerHour("slow", 3600))
		w.Take(w.Limiter, askAll("user", tokens{"fast": 400, "slow": 100}))
		records := w.drain()
		time.Sleep(2 * time.Second)
		w.process(records)
		img := w.Images("user")[0]
		fast, _ := img.Limit("fast")
		slow, _ := img.Limit("slow")
		if fast.Tokens != 600_000 || slow.Tokens != 3_502_000 || img.Writes.Tokens != 999_000 {
			t.Errorf("fast %d, slow %d, writes %d", fast.Tokens, slow.Tokens, img.Writes.Tokens)
		}
		written := 0
		for _, r := range w.drain() {
			if r.New != nil {
				written++ // without writes to sums of usage
			}
		}
		if written != 1 {
			t.Errorf("%d writes", written)
		}
	})
}

// A refill gives an item the life that the options say.
func TestARefillKeepsTheItem(t *testing.T) {
	t.Parallel()
	for _, multiplier := range []int{0, -1} { // the default, and for ever
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.aggregator = w.aggregate(aggregator.Options{Now: w.now, TTLMultiplier: multiplier})
			w.System(limiter.PerSecond("rps", 600))
			w.Take(w.Limiter, ask("user", "rps", 400))
			records := w.drain()
			time.Sleep(time.Second)
			if res := w.process(records); res.Refills != 1 {
				t.Fatalf("%d refills", res.Refills)
			}
			if expires := w.Images("user")[0].ExpiresAt; (expires == 0) != (multiplier < 0) {
				t.Errorf("with a multiplier of %d the item expires at %d", multiplier, expires)
			}
		})
	}
}

// write takes a token at a fixed rate for a time, and calls each in between.
func (w *world) write(rate int, total, every time.Duration, each func()) (n int) {
	w.Helper()
	start, next := time.Now(), every
	for ; time.Since(start) < total; n++ {
		if w.Take(w.Limiter, ask("user", "rpd", 1)) != nil {
			w.Fatal("refused")
		}
		time.Sleep(time.Until(start.Add(time.Duration(n+1) * time.Second / time.Duration(rate))))
		if time.Since(start) >= next {
			next += every
			each()
		}
	}
	return n
}

// A bucket with more writes than its partition takes is doubled once, before its users have
// to wait, and its limit stays the same.
func TestLongABusyBucketIsDoubledAhead(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Second, 250 * time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.System(limiter.PerDay("rpd", 1_000_000))
				w.Take(w.Limiter, ask("user", "rpd", 500_000))
				doublings := 0
				total := w.write(1_150, 12*time.Second, every, func() { doublings += w.process(w.drain()).Doublings })
				w.process(w.drain())
				images := w.Images("user")
				if doublings != 1 || len(images) != 2 || w.Stats().Doublings != 0 {
					t.Errorf("doubled %d times, %d by users: %d shards", doublings, w.Stats().Doublings, len(images))
				}
				if got := w.counted("user")["rpd"]; got != int64(total+500_000)*1000 {
					t.Errorf("counted %d of %d", got, total)
				}
				w.wantBooks(total+1, "user")
			})
		})
	}
}

// The aggregator tends a bucket even if nobody consumes anything (the peer's defect 33):
// requests for 0 tokens are writes as well.
func TestABucketThatIsAskedForNothingIsDoubledToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerDay("rpd", 1_000_000))
		w.Take(w.Limiter, ask("user", "rpd", 500_000))
		w.process(w.drain())
		w.set("user", 0, map[string]int64{"b_wcu_tk": 150_000})
		w.Take(w.NewLimiter(w.Store, limiter.Options{}), ask("user", "rpd", 0))
		if res := w.process(w.drain()); res.Doublings != 1 || len(w.Images("user")) != 2 {
			t.Errorf("%+v, %d shards", res, len(w.Images("user")))
		}
	})
}

// A record that is three seconds late still shows that the bucket was busy.
func TestADoublingIsJudgedAtTheRecordsInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerDay("rpd", 1_000_000))
		w.write(1_150, 6*time.Second, time.Hour, nil)
		records := w.drain()
		time.Sleep(3 * time.Second)
		if res := w.process(records); res.Doublings != 1 || w.Stats().Doublings != 0 {
			t.Errorf("%d doublings, %d by users", res.Doublings, w.Stats().Doublings)
		}
	})
}

// Writes at a rate that a partition handles easily never cause a doubling (the peer's
// defect 5), however many there are.
func TestLongAQuietBucketIsNeverDoubled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerDay("rpd", 1_000_000))
		w.Take(w.Limiter, ask("user", "rpd", 500_000))
		w.write(700, 12*time.Second, 700*time.Millisecond, func() {
			if res := w.process(w.drain()); res.Doublings+res.Mends > 0 {
				t.Fatalf("%+v", res)
			}
		})
	})
}

// A doubling that a peer or a dead client has left half done is finished.
func TestShardsThatDisagreeAreMended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerHour("rph", 1_000))
		w.Take(w.Limiter, ask("user", "rph", 100))
		w.process(w.drain())
		w.set("user", 0, map[string]int64{schema.ShardCount: 4})
		if res := w.process(w.drain()); res.Mends != 1 {
			t.Errorf("%d mends", res.Mends)
		}
		images := w.Images("user")
		var tokens int64
		for i, img := range images {
			s, _ := img.Limit("rph")
			tokens += s.Tokens
			if img.Shard != i || img.ShardCount != 4 {
				t.Errorf("shard %d of %d is number %d of %d", i, len(images), img.Shard, img.ShardCount)
			}
		}
		if len(images) != 4 || tokens > 900_000 {
			t.Errorf("%d shards hold %d", len(images), tokens)
		}
		// The mend's own records cause no further mends.
		for range 3 {
			w.process(w.drain())
		}
		if n := len(w.drain()); n != 0 {
			t.Errorf("%d writes more", n)
		}
	})
}

// A bucket that cannot be tended is counted as an error, and no record fails. If the table
// throttled it, its traffic says so.
func TestWhatCannotBeTendedFailsNoRecord(t *testing.T) {
	t.Parallel()
	for throttles, fault := range []faults.Hook{
		faults.When((*faults.Call).NamesBuckets, faults.On(faults.Fail(errors.New("connection refused")), faults.UpdateItem)),
		faults.Throttle(func(store.Bucket) error { return faults.BusyTable() }),
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.System(limiter.PerSecond("rps", 600))
			w.Take(w.Limiter, ask("user", "rps", 400))
			records := w.drain()
			time.Sleep(time.Second)
			w.API = faults.Wrap(w.API, fault)
			w.aggregator = w.aggregate(aggregator.Options{})
			res, err := w.aggregator.Process(t.Context(), records)
			w.Must(err)
			if res.Errors != 1 || len(res.Failed) != 0 {
				t.Errorf("%+v", res)
			}
			time.Sleep(time.Minute)
			if got := w.aggregator.Traffic().Other.Throttles; got != throttles {
				t.Errorf("%d throttles, want %d", got, throttles)
			}
		})
	}
}

// A shard 0 that a peer created beside existing siblings learns their number, whichever of
// them a record is about.
func TestAShardMadeAnewIsMended(t *testing.T) {
	t.Parallel()
	for _, met := range []int{0, 1, 3} {
		t.Run(fmt.Sprint("shard ", met), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.aggregator = w.aggregate(aggregator.Options{Quiet: -1})
				w.System(limiter.PerHour("rph", 4_000))
				w.Take(w.Limiter, ask("user", "rph", 100))
				w.set("user", 0, map[string]int64{schema.ShardCount: 4})
				w.process(w.drain())
				w.drain()
				time.Sleep(2 * time.Second)
				w.anew("user")
				made := w.drain()
				w.set("user", met, map[string]int64{"b_rph_tc": 5})
				records := w.drain()
				if met == 0 {
					records = made
				}
				w.process(records)
				for i, img := range w.Images("user") {
					if img.Shard != i || img.ShardCount != 4 {
						t.Errorf("shard %d is number %d of %d", i, img.Shard, img.ShardCount)
					}
				}
				// The aggregator does not read the shards for every record.
				w.drain()
				w.set("user", 3, map[string]int64{"b_rph_tc": 6})
				records = w.drain()
				before := w.Meter.Totals()["BatchGetItem"].Requests
				w.process(records)
				if got := w.Meter.Totals()["BatchGetItem"].Requests - before; met != 0 && got > 0 {
					t.Errorf("%d reads for a record of a shard that was just looked at", got)
				}
			})
		})
	}
}

// anew creates shard 0 of a bucket as a peer does: alone, full, and without counting the
// write.
func (w *world) anew(entity string) {
	w.Helper()
	_, ns := w.Store.Namespace()
	name, key := table, schema.BucketKey(ns, limiter.Bucket{Entity: entity, Resource: "gpt-4"}).Item()
	out, err := w.API.GetItem(w.Context(), &dynamodb.GetItemInput{TableName: &name, Key: key})
	w.Must(err)
	_, err = w.API.BatchWriteItem(w.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
		name: {{DeleteRequest: &types.DeleteRequest{Key: key}}},
	}})
	w.Must(err)
	it := out.Item
	it[schema.ShardCount], it["b_rph_tk"], it["b_rph_tc"] = schema.N(1), schema.N(4_000_000), schema.N(0)
	it["b_wcu_tk"], it["b_wcu_tc"], it[schema.RF] = schema.N(1_000_000), schema.N(0), schema.N(time.Now().UnixMilli())
	_, err = w.API.PutItem(w.Context(), &dynamodb.PutItemInput{TableName: &name, Item: it})
	w.Must(err)
}
