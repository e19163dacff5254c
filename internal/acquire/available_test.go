package acquire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// Available quotes all balances of a cascade, and of several resources, for one instant,
// although it reads the buckets one after the other.
func TestAvailableHasOneClock(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 3600))
		w.Entities(limiter.Entity{ID: "org"}, limiter.Entity{ID: "key", Parent: "org", Cascade: true})
		w.Take(w.Limiter, ask("key", "rph", 3600))
		slow := w.OpenOn(faults.Wrap(w.Meter, func(ctx context.Context, _ *faults.Call, next faults.Next) error {
			time.Sleep(700 * time.Millisecond)
			return next(ctx)
		}))
		l, err := limiter.New(slow, limiter.Options{})
		w.Must(err)
		req := ask("key", "rph", 100)
		req.Also = []limiter.Part{{Resource: "another", Consume: map[string]int64{"rph": 1}}}
		statuses, err := l.Available(w.Context(), req)
		w.Must(err)
		w.Must(l.Close())
		if len(statuses) != 4 {
			w.Fatalf("got %+v", statuses)
		}
		for _, s := range statuses {
			if s.CheckedAt.IsZero() || !s.CheckedAt.Equal(statuses[0].CheckedAt) {
				w.Errorf("%s of %s was checked at %v, and %s at %v", s.Resource, s.Entity, s.CheckedAt, statuses[0].Entity, statuses[0].CheckedAt)
			}
		}
		child, parent := statuses[0], statuses[1]
		if child.Available != parent.Available || child.RetryAfter != parent.RetryAfter || child.Available == 0 || child.Deficit() != 100-child.Available {
			w.Errorf("they took the same: %+v, %+v", child, parent)
		}
		if lacks := statuses[2].Deficit(); lacks != 0 {
			w.Errorf("what is admitted lacks %d", lacks)
		}
	})
}

// Available tells no wait for a bucket that this version cannot evaluate. It tells what the
// bucket has, as long as an acquire takes it.
func TestAvailableTellsNoWaitOfAnUnknownCalendar(t *testing.T) {
	text, number := &types.AttributeValueMemberS{Value: "2h9-17s500"}, &types.AttributeValueMemberN{Value: "1"}
	for name, c := range map[string]struct {
		update string
		values map[string]types.AttributeValue
		lapsed bool
	}{
		"a schedule":             {"SET sched = :v", map[string]types.AttributeValue{":v": text}, false},
		"a schedule that lapsed": {"SET sched = :v, vu = :z", map[string]types.AttributeValue{":v": text, ":z": number}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(limiter.PerHour("rph", 10))
				w.Take(w.Limiter, ask("user", "rph", 5))
				driverOf(w.Limiter).Settle()
				w.patch(c.update, c.values)
				l, err := limiter.New(w.Open(dynamo.Options{}), limiter.Options{})
				w.Must(err)
				defer func() { w.Must(l.Close()) }()
				for tokens, refused := range map[int64]bool{5: c.lapsed, 6: true} {
					statuses, err := l.Available(w.Context(), ask("user", "rph", tokens))
					if refused != errors.Is(err, limiter.ErrUnsupported) || !refused && (err != nil || statuses[0].Available != 5) {
						w.Errorf("%d tokens: %+v, %v", tokens, statuses, err)
					}
					if _, err := l.TimeUntilAvailable(w.Context(), ask("user", "rph", tokens)); refused != errors.Is(err, limiter.ErrUnsupported) {
						w.Errorf("the wait for %d tokens: %v", tokens, err)
					}
				}
			})
		})
	}
}
