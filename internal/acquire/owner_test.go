package acquire_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// unrecord deletes only an entity's record.
func (w *world) unrecord(entity string) {
	w.Helper()
	_, ns := w.Store.Namespace()
	w.Must(errOf(w.Engine.DeleteItem(w.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: schema.MetaKey(ns, entity).Item()})))
}

// paid returns what each of the given entities pays for a request.
func (w *world) paid(l *limiter.Limiter, req limiter.Request, entities ...string) string {
	w.Helper()
	before := make([]int64, len(entities))
	for i, e := range entities {
		before[i] = w.Balance(e, "rpd")
	}
	w.Serve(l, req)
	var text strings.Builder
	for i, e := range entities {
		fmt.Fprintf(&text, "%s %d ", e, before[i]-w.Balance(e, "rpd"))
	}
	return text.String()
}

// An entity that was deleted while in use, and created again, pays its new parent,
// although its bucket is older. A new process does so at once. A process that knows the
// bucket does so within the time to live.
func TestAnEntityMadeAgainPaysItsNewParent(t *testing.T) {
	for _, again := range []struct {
		name   string
		entity *limiter.Entity
		want   string
	}{
		{"with another parent", &limiter.Entity{ID: "key", Parent: "b", Cascade: true}, "key 1 a 0 b 1 "},
		{"with the same one", &limiter.Entity{ID: "key", Parent: "a", Cascade: true}, "key 1 a 1 b 0 "},
		{"without one", &limiter.Entity{ID: "key"}, "key 1 a 0 b 0 "},
		{"with one that it does not cascade to", &limiter.Entity{ID: "key", Parent: "b"}, "key 1 a 0 b 0 "},
		{"not at all", nil, "key 1 a 0 b 0 "},
	} {
		for _, pause := range []time.Duration{time.Second, 70 * time.Second} {
			t.Run(fmt.Sprint(again.name, ", used every ", pause), func(t *testing.T) {
				inWorld(t, limiter.Options{}, func(w *world) {
					w.System(limiter.PerDay("rpd", 100_000))
					w.Entities(limiter.Entity{ID: "a"}, limiter.Entity{ID: "b"}, child("key", "a"))
					for _, e := range []string{"a", "b", "key"} {
						w.Take(w.Limiter, ask(e, "rpd", 1))
					}
					time.Sleep(time.Second)
					w.unrecord("key")
					if again.entity != nil {
						w.Entities(*again.entity)
					}
					for end := time.Now().Add(limiter.DefaultConfigTTL); time.Now().Before(end); time.Sleep(pause) {
						w.Take(w.Limiter, ask("key", "rpd", 0))
					}
					if got := w.paid(w.Limiter, ask("key", "rpd", 1), "key", "a", "b"); got != again.want {
						w.Errorf("the process that knew it: %s, want %s", got, again.want)
					}
					if got := w.paid(w.NewLimiter(w.OpenOn(w.Engine), limiter.Options{}), ask("key", "rpd", 1), "key", "a", "b"); got != again.want {
						w.Errorf("a new process: %s, want %s", got, again.want)
					}
					item, record := w.Images("key")[0], w.record("key")
					if item.Incarnation != record.Incarnation || item.ParentGeneration != record.Generation || item.Parent != record.Parent {
						w.Errorf("the item is stamped %q %d %q, the record is %+v", item.Incarnation, item.ParentGeneration, item.Parent, record)
					}
				})
			})
		}
	}
}

// record returns an entity's record; an empty one if there is none.
func (w *world) record(entity string) limiter.Entity {
	w.Helper()
	if e, err := w.Store.Entity(w.Context(), entity); err == nil {
		return *e
	}
	return limiter.Entity{}
}

// A new process does not trust the owner that it finds stamped on the item.
func TestANewProcessPaysTheNewParentAtOnce(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 100_000))
		w.Entities(limiter.Entity{ID: "a"}, limiter.Entity{ID: "b"}, child("key", "a"))
		for _, e := range []string{"a", "b", "key"} {
			w.Take(w.Limiter, ask(e, "rpd", 1))
		}
		time.Sleep(time.Second)
		w.unrecord("key")
		w.Entities(child("key", "b"))
		if got := w.paid(w.NewLimiter(w.OpenOn(w.Engine), limiter.Options{}), ask("key", "rpd", 1), "key", "a", "b"); got != "key 1 a 0 b 1 " {
			w.Errorf("paid %s", got)
		}
	})
}

// A refusal says nothing about a former parent, which may be exhausted for longer.
func TestARefusalIsNotTheFormerParents(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		w.System(limiter.PerDay("rpd", 10))
		w.Entities(limiter.Entity{ID: "a"}, limiter.Entity{ID: "b"}, child("key", "a"))
		other := w.NewLimiter(w.OpenOn(w.Engine), limiter.Options{})
		w.Take(other, ask("key", "rpd", 1))
		w.Must(errOf(w.Store.DeleteEntity(w.Context(), "key")))
		w.Entities(child("key", "b"))
		w.Take(w.Limiter, ask("key", "rpd", 6))
		time.Sleep(limiter.DefaultConfigTTL)
		refused := w.Take(other, ask("key", "rpd", 6))
		if refused == nil {
			w.Fatal("6 of 4 were admitted")
		}
		for _, st := range refused.Statuses {
			if st.Entity == "a" {
				w.Errorf("refused by a status of the former parent: %+v", st)
			}
		}
		if n := w.Balance("a", "rpd"); n != 9 {
			w.Errorf("the former parent has %d left, want 9", n)
		}
	})
}

// A lease may have taken from two parents, because the entity got another one. Less of it is
// less of both together, and neither gets more back than it gave. More of it is the new
// parent's.
func TestALeaseOfTwoParents(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(context.Context, *limiter.Lease) error
		want   string
	}{
		{"unchanged", func(context.Context, *limiter.Lease) error { return nil }, "key 4 a 3 b 1 "},
		{"one less", func(_ context.Context, l *limiter.Lease) error { return l.Adjust("rpd", -1) }, "key 3 a 3 b 0 "},
		{"two less", func(_ context.Context, l *limiter.Lease) error { return l.Adjust("rpd", -2) }, "key 2 a 2 b 0 "},
		{"none", func(_ context.Context, l *limiter.Lease) error { return l.Settle("rpd", 0) }, "key 0 a 0 b 0 "},
		{"two", func(_ context.Context, l *limiter.Lease) error { return l.Settle("rpd", 2) }, "key 2 a 2 b 0 "},
		{"two more", func(_ context.Context, l *limiter.Lease) error { return l.Adjust("rpd", 2) }, "key 6 a 3 b 3 "},
		{"two released", func(ctx context.Context, l *limiter.Lease) error { return l.Release(ctx, map[string]int64{"rpd": 2}) }, "key 2 a 2 b 0 "},
		{"all released", func(ctx context.Context, l *limiter.Lease) error { return l.Release(ctx, map[string]int64{"rpd": 4}) }, "key 0 a 0 b 0 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(limiter.Custom("rpd", 1, 100_000*time.Hour, limiter.Burst(1000)))
				w.Entities(limiter.Entity{ID: "a"}, limiter.Entity{ID: "b"}, child("key", "a"))
				lease := w.Lease(w.Limiter, ask("key", "rpd", 3))
				time.Sleep(time.Second)
				w.unrecord("key")
				w.Entities(child("key", "b"))
				time.Sleep(2 * limiter.DefaultConfigTTL)
				w.Must(w.Lease(w.Limiter, ask("key", "rpd", 0)).Commit(w.Context()))
				w.Must(lease.Take(w.Context(), tokens{"rpd": 1}))
				if got := lease.Consumed()["rpd"]; got != 4 {
					w.Errorf("it has %d, want 4", got)
				}
				w.Must(tt.change(w.Context(), lease))
				w.Must(lease.Commit(w.Context()))
				var got strings.Builder
				for _, e := range []string{"key", "a", "b"} {
					fmt.Fprintf(&got, "%s %d ", e, 1000-w.Balance(e, "rpd"))
				}
				if got.String() != tt.want {
					w.Errorf("paid %s, want %s", got.String(), tt.want)
				}
			})
		})
	}
}
