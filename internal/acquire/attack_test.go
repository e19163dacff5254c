package acquire_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// The attack of GHSA-76rv-2r9v-c5m6, on an engine that throttles as AWS does and
// answers after 5 ms. One entity sends 5,000 requests a second. Twenty neighbours use
// the same resource ten times a second each.
const (
	attackRate = 5_000
	neighbours = 20
	quietTime  = 2 * time.Second
	attackTime = 5 * time.Second
	warmUp     = 2 * time.Second
)

// An attack holds the results of one run.
type attack struct {
	began     time.Time // two seconds of quiet come first
	mu        sync.Mutex
	quiet     []time.Duration // latencies of the neighbours before the attack
	under     []time.Duration // and after its first two seconds
	granted   []time.Duration // all of the attacker's requests
	refused   []time.Duration
	writes    atomic.Int64 // writes to buckets, after the first two seconds
	throttled atomic.Int64 // of these, the throttled ones
	lost      atomic.Int64 // of these, the ones refused by their condition
	admitted  atomic.Int64 // of the attacker's requests, after the first two seconds
	wrong     atomic.Int64 // answers that are neither right nor "throttled"
	hurt      atomic.Int64 // refused requests of neighbours
	example   atomic.Pointer[error]
}

// steady calls f at a rate for d, each time on a goroutine of its own. A call starts
// when it is due, however long earlier calls take.
func steady(calls *sync.WaitGroup, rate int, d time.Duration, f func()) {
	start := time.Now()
	for i := range int(d.Seconds() * float64(rate)) {
		time.Sleep(time.Duration(i)*time.Second/time.Duration(rate) - time.Since(start))
		calls.Go(f)
	}
}

// run lets the neighbours run alone for a while, and then adds the attacker. hit is a
// request of the attacker's process, visit is one of a neighbour.
func (a *attack) run(attackers int, hit func(process int) (bool, error), visit func(neighbour int) error) {
	var calls, streams sync.WaitGroup
	start := time.Now()
	a.began = start.Add(quietTime)
	for n := range neighbours {
		streams.Go(func() {
			steady(&calls, 10, quietTime+attackTime, func() {
				due := time.Now()
				err := visit(n)
				took, at := time.Since(due), due.Sub(start)
				a.mu.Lock()
				switch {
				case at < quietTime && at > quietTime/2: // once their buckets exist
					a.quiet = append(a.quiet, took)
				case at > quietTime+warmUp:
					a.under = append(a.under, took)
				}
				a.mu.Unlock()
				if err != nil {
					a.hurt.Add(1)
					a.fail(err)
				}
			})
		})
	}
	time.Sleep(quietTime)
	for p := range attackers {
		streams.Go(func() {
			steady(&calls, attackRate/attackers, attackTime, func() {
				late, due := a.warm(), time.Now()
				ok, err := hit(p)
				a.mu.Lock()
				if ok {
					a.granted = append(a.granted, time.Since(due))
				} else {
					a.refused = append(a.refused, time.Since(due))
				}
				a.mu.Unlock()
				switch {
				case ok && late:
					a.admitted.Add(1)
				case err != nil && !errors.Is(err, limiter.ErrExceeded) && !errors.Is(err, limiter.ErrThrottled):
					a.fail(err)
				}
			})
		})
	}
	streams.Wait()
	calls.Wait()
}

func (a *attack) fail(err error) {
	if !errors.Is(err, limiter.ErrThrottled) {
		a.wrong.Add(1)
		a.example.Store(&err)
	}
}

// warm reports whether the attack has lasted for two seconds.
func (a *attack) warm() bool { return time.Since(a.began) > warmUp }

func p99(all []time.Duration) time.Duration { return percentile(all, 99) }

func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)*p/100, len(all)-1)]
}

// gauge counts the writes to buckets, and those of them that were throttled or refused.
func (a *attack) gauge() faults.Hook {
	return faults.On(faults.After(func(_ *faults.Call, err error) error {
		if !a.warm() {
			return err
		}
		a.writes.Add(1)
		if isThrottled(err) {
			a.throttled.Add(1)
		}
		if _, lost := errors.AsType[*types.ConditionalCheckFailedException](err); lost {
			a.lost.Add(1)
		}
		return err
	}), faults.UpdateItem, faults.TransactWriteItems)
}

func isThrottled(err error) bool {
	if _, ok := errors.AsType[*types.ThrottlingException](err); ok {
		return true
	}
	if _, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err); ok {
		return true
	}
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	return ok && slices.ContainsFunc(cancelled.CancellationReasons, func(r types.CancellationReason) bool {
		return aws.ToString(r.Code) == "ThrottlingError"
	})
}

// awsEngine has a table that has served this load before. A new table serves only 4,000
// units a second, with all its partitions together.
func awsEngine() dynamolite.Options {
	limits := dynamolite.AWSLimits()
	limits.OnDemandWriteUnits, limits.OnDemandReadUnits = limits.QuotaWriteUnits, limits.QuotaReadUnits
	return dynamolite.Options{Limits: limits, Latency: dynamolite.Latency{P50: 5 * time.Millisecond}}
}

// The attack succeeds under the advisory's conditions. Every decision is a write to the
// one item, and an index with all attributes puts all buckets of the resource into one
// partition.
func TestLongestTheAttackOnABucketThatIsNotSharded(t *testing.T) {
	inEngine(t, awsEngine(), dynamo.TableOptions{GSI2Projection: dynamo.ProjectAll}, func(w *world) {
		whole := limiter.PerSecond("rps", 1_000_000)
		names := []string{"attacker"}
		for n := range neighbours {
			names = append(names, fmt.Sprintf("neighbour-%d", n))
		}
		for _, name := range names {
			w.plant(name, whole, 1, 1_000_000_000_000)
		}
		a := &attack{}
		api := faults.Wrap(w.Engine, a.gauge())
		_, ns := w.Store.Namespace()
		name, update := table, "ADD b_rps_tk :minus, b_rps_tc :one"
		write := func(entity string) error {
			_, err := api.UpdateItem(w.Context(), &dynamodb.UpdateItemInput{
				TableName: &name, UpdateExpression: &update,
				Key: values{
					"PK": &types.AttributeValueMemberS{Value: ns + "/BUCKET#" + entity + "#gpt-4#0"},
					"SK": &types.AttributeValueMemberS{Value: "#STATE"},
				},
				ExpressionAttributeValues: values{":minus": number(-1000), ":one": number(1000)},
			})
			if isThrottled(err) {
				return limiter.ErrThrottled
			}
			return err
		}
		a.run(1,
			func(int) (bool, error) { err := write("attacker"); return err == nil, err },
			func(n int) error { return write(names[n+1]) },
		)
		if a.wrong.Load() > 0 {
			w.Errorf("%d failed: %v", a.wrong.Load(), *a.example.Load())
		}
		if got, all := a.throttled.Load(), a.writes.Load(); got < all/2 {
			w.Errorf("%d of %d writes were throttled: this is no attack", got, all)
		}
		if got := a.hurt.Load(); got < int64(10*neighbours*attackTime.Seconds())/4 {
			w.Errorf("%d requests of neighbours were turned away: they do not suffer", got)
		}
	})
}

// The attack fails here: its cost stays bounded and the neighbours keep their latency.
func TestLongestTheAttack(t *testing.T) {
	const largeShards = 32 // only with -contest.large
	for _, tt := range []struct {
		name      string
		attackers int // processes
		inFlight  int
		limit     int64
		shards    int     // shards of its bucket before the attack; 0: no bucket
		writes    int64   // at most
		throttled float64 // of these, at most
		lost      float64 // refused by their condition, as a part of the writes, at most
	}{
		{"coalesced, limits far above", 16, 0, 1_000_000, 0, 5_000, 0.001, 0.3},
		{"coalesced, limits far above, of one", 1, 0, 1_000_000, 0, 3_000, 0.001, 0.005},
		{"coalesced, limits that are hit", 4, 0, 3_000, 0, 2_000, 0.001, 0.1},
		{"coalesced, limits that are hit by many", 16, 0, 3_000, 0, 4_000, 0.001, 0.15},
		{"coalesced, limits that are hit by many, on many shards", 16, 0, 3_000, largeShards, 25_000, 0.01, 0.6},
		{"coalesced, a small limit that is hit by many", 16, 0, 300, 0, 2_500, 0.001, 0.25},
		{"by shards alone, of many", 16, -1, 1_000_000, 0, 25_000, 0.001, 0.3},
		{"by shards alone, of one", 1, -1, 1_000_000, 0, 20_000, 0.001, 0.05},
	} {
		if tt.shards == largeShards && !*contestsLarge {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			inEngine(t, awsEngine(), dynamo.TableOptions{}, func(w *world) {
				w.System(limiter.PerSecond("rps", tt.limit))
				if n := tt.shards; n > 0 {
					w.plant("attacker", limiter.PerSecond("rps", tt.limit), n, each(n, tt.limit*1000/int64(n))...)
				}
				a := &attack{}
				process := func() *limiter.Limiter {
					return w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, a.gauge())), limiter.Options{InFlight: tt.inFlight})
				}
				attacking := make([]*limiter.Limiter, tt.attackers)
				for i := range attacking {
					attacking[i] = process()
				}
				homes := [...]*limiter.Limiter{process(), process(), process(), process()}
				acquire := func(l *limiter.Limiter, entity string) error {
					_, err := l.Acquire(w.Context(), ask(entity, "rps", 1))
					return err
				}
				a.run(tt.attackers,
					func(p int) (bool, error) { err := acquire(attacking[p], "attacker"); return err == nil, err },
					func(n int) error { return acquire(homes[n%len(homes)], fmt.Sprintf("neighbour-%d", n)) },
				)
				shards := len(w.Images("attacker"))
				var consumed int64
				for _, img := range w.Images("attacker") {
					l, _ := img.Limit("rps")
					consumed += l.Consumed / 1000
				}
				w.Logf("%d shards, %d writes, %d throttled, %d refused, p99 of neighbours %v, was %v, %d admitted; the attacker is granted after %v, %v, %v and refused after %v, %v (p50, p99, p100)",
					shards, a.writes.Load(), a.throttled.Load(), a.lost.Load(), p99(a.under), p99(a.quiet), a.admitted.Load(),
					percentile(a.granted, 50), p99(a.granted), percentile(a.granted, 100), percentile(a.refused, 50), p99(a.refused))
				if a.wrong.Load() > 0 {
					w.Errorf("%d wrong answers: %v", a.wrong.Load(), *a.example.Load())
				}
				// Callers that wait for their turn get their answer in time.
				if got, want := percentile(a.granted, 100), limiter.DefaultTimeout/4; got > want {
					w.Errorf("the attacker waited for %v to be granted, want %v at most", got, want)
				}
				if got, want := percentile(a.refused, 100), limiter.DefaultTimeout/4; got > want {
					w.Errorf("the attacker waited for %v to be refused, want %v at most", got, want)
				}
				if got := a.writes.Load(); got > tt.writes {
					w.Errorf("%d writes, want %d at most", got, tt.writes)
				}
				if got, all := a.throttled.Load(), a.writes.Load(); float64(got) > tt.throttled*float64(all) {
					w.Errorf("%d of %d writes were throttled, want a part of %v at most", got, all, tt.throttled)
				}
				if got, all := a.lost.Load(), a.writes.Load(); float64(got) > tt.lost*float64(all) {
					w.Errorf("%d of %d writes were refused, want a part of %v at most", got, all, tt.lost)
				}
				if was, is := p99(a.quiet), p99(a.under); is > was*12/10 {
					w.Errorf("the neighbours' p99 is %v, was %v", is, was)
				}
				if got := a.hurt.Load(); got > 0 {
					w.Errorf("%d requests of neighbours were turned away: %v", got, a.example.Load())
				}
				if tt.limit > attackRate {
					want := float64(attackRate/tt.attackers*tt.attackers) * (attackTime - warmUp).Seconds()
					if got := float64(a.admitted.Load()); got < want*0.99 || got > want {
						w.Errorf("%.0f were admitted after the first %v, want %.0f", got, warmUp, want)
					}
					return
				}
				// A limit under load grants all its tokens, and no more.
				least, most := float64(tt.limit)*(1+attackTime.Seconds()), float64(tt.limit)*(1+time.Since(a.began).Seconds())
				if got := float64(consumed); got < least*0.99 || got > most {
					w.Errorf("%.0f were admitted in all, want at least %.0f and at most %.0f", got, least, most)
				}
			})
		})
	}
}
