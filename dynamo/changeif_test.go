package dynamo_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// conditional are the changes of a level, or of its bucket, besides those of its limits.
var conditional = map[string]func(context.Context, *dynamo.Store, dynamo.Cause, func(*store.Config) error) (repeated bool, err error){
	"disable": func(ctx context.Context, s *dynamo.Store, c dynamo.Cause, is func(*store.Config) error) (bool, error) {
		n, err := s.SetSwitch(ctx, theEntity, dynamo.Switch{Policy: store.Yes, Cause: c, If: is}, nil)
		return n.Repeated, err
	},
	"cascade": func(ctx context.Context, s *dynamo.Store, c dynamo.Cause, is func(*store.Config) error) (bool, error) {
		n, err := s.SetCascade(ctx, theEntity, dynamo.Cascade{Policy: store.No, Cause: c, If: is}, nil)
		return n.Repeated, err
	},
	"raise": func(ctx context.Context, s *dynamo.Store, c dynamo.Cause, is func(*store.Config) error) (bool, error) {
		n, err := s.RaiseLimits(ctx, theEntity, dynamo.Raise{Limits: map[string]int64{"rph": 2000}, Until: s.Now().Add(time.Hour), Cause: c, If: is})
		return n.Repeated, err
	},
	"slots": func(ctx context.Context, s *dynamo.Store, c dynamo.Cause, is func(*store.Config) error) (bool, error) {
		return true, s.SetSlotsIf(ctx, theEntity, []store.SlotLimit{{Name: "inflight", Slots: 7}}, c.Reason, is)
	},
	"reset": func(ctx context.Context, s *dynamo.Store, c dynamo.Cause, is func(*store.Config) error) (bool, error) {
		n, err := s.ResetBucket(ctx, dynamo.Reset{Entity: "user", Resource: "gpt-4", Cause: c, If: is})
		return n.Repeated, err
	},
	"top-up": func(ctx context.Context, s *dynamo.Store, c dynamo.Cause, is func(*store.Config) error) (bool, error) {
		n, err := s.TopUpBucket(ctx, dynamo.TopUp{Entity: "user", Resource: "gpt-4", Amounts: map[string]int64{"rph": 3}, Cause: c, If: is})
		return n.Repeated, err
	},
}

// items are all items of the table.
func (w *township) items() map[schema.Key]schema.Item {
	w.Helper()
	out, err := w.api.Table.Scan(w.Context(), &dynamodb.ScanInput{TableName: aws.String(table)})
	w.must(err)
	all := map[schema.Key]schema.Item{}
	for _, it := range out.Items {
		all[schema.KeyOf(it)] = it
	}
	return all
}

// A change is made only if its level still is as the operator has seen it: whatever another client does
// between the question and the write, also if that is a switch, or puts the first limits of a level. Then
// nothing is written, not even the event or the record of the key.
func TestAChangeIsMadeOnlyIfItsLevelIsAsSeen(t *testing.T) {
	other := func(limits int64) func(*township) {
		return func(w *township) { fixture.SetLimits(w.T, w.Store, theEntity, perHour(limits)) }
	}
	for name, change := range conditional {
		for race, c := range map[string]struct {
			first bool // the level has nothing before
			races func(*township)
			moved bool
		}{
			"nobody":                {},
			"nobody, nothing there": {first: true},
			"limits":                {races: other(50), moved: true},
			"the first limits":      {first: true, races: other(50), moved: true},
			"deletion":              {races: func(w *township) { w.must(w.DeleteLimits(w.Context(), theEntity)) }, moved: true},
			"a switch":              {races: func(w *township) { w.sets(theEntity, store.No) }, moved: true},
			"slots": {races: func(w *township) {
				w.must(w.SetSlots(w.Context(), theEntity, []store.SlotLimit{{Name: "inflight", Slots: 1}}, ""))
			}, moved: true},
			"another level": {races: func(w *township) { fixture.SetLimits(w.T, w.Store, theResource, perHour(9)) }},
		} {
			t.Run(name+"/"+race, func(t *testing.T) {
				inTownship(t, func(w *township) {
					fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
					if !c.first {
						other(100)(w)
					}
					w.must(w.asks(w.client(w.api.Table), "user"))
					seen, err := w.Limits(w.Context(), theEntity)
					if c.first != errors.Is(err, store.ErrNotFound) {
						w.Fatal(err)
					}
					holds := func(now *store.Config) error {
						if !reflect.DeepEqual(now, seen) {
							return errMoved
						}
						return nil
					}
					var before map[schema.Key]schema.Item
					s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() {
						if c.races != nil {
							c.races(w)
						}
						before = w.items()
					})))
					_, err = change(w.Context(), s, dynamo.Cause{Reason: "asked", Key: "ticket-1"}, holds)
					switch {
					case c.moved && !errors.Is(err, errMoved), !c.moved && err != nil:
						w.Fatalf("got error %v", err)
					case c.moved:
						if !reflect.DeepEqual(before, w.items()) {
							w.Error("something was written")
						}
					case reflect.DeepEqual(before, w.items()):
						w.Error("nothing was written")
					}
				})
			})
		}
	}
}

// A change with a key that was made is repeated, whatever has become of its level since: its answer was lost, and the
// question was answered then. Another key asks again.
func TestAKeyIsOlderThanItsQuestion(t *testing.T) {
	for name, change := range conditional {
		if name == "slots" {
			continue // it has no key
		}
		t.Run(name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, theEntity, perHour(100))
				w.must(w.asks(w.client(w.api.Table), "user"))
				holds := func(now *store.Config) error {
					if now.Limits[0].Capacity != 100 {
						return errMoved
					}
					return nil
				}
				for i, want := range []error{nil, nil, errMoved} {
					if i > 0 {
						fixture.SetLimits(w.T, w.Store, theEntity, perHour(50))
					}
					repeated, err := change(w.Context(), w.Store, dynamo.Cause{Key: []string{"ticket-1", "ticket-1", "ticket-2"}[i]}, holds)
					if !errors.Is(err, want) || repeated != (i == 1) {
						w.Errorf("call %d: repeated %t, %v", i, repeated, err)
					}
				}
			})
		})
	}
}

// A dry run asks, too, and writes nothing.
func TestADryRunAsks(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(100))
		w.must(w.asks(w.client(w.api.Table), "user"))
		before := w.items()
		for _, want := range []error{nil, errMoved} {
			is := func(*store.Config) error { return want }
			_, reset := w.ResetBucket(w.Context(), dynamo.Reset{Entity: "user", Resource: "gpt-4", If: is, DryRun: true})
			_, topUp := w.TopUpBucket(w.Context(), dynamo.TopUp{Entity: "user", Resource: "gpt-4", Amounts: map[string]int64{"rph": 1}, If: is, DryRun: true})
			if !errors.Is(reset, want) || !errors.Is(topUp, want) {
				w.Errorf("%v, %v, want %v", reset, topUp, want)
			}
		}
		if !reflect.DeepEqual(before, w.items()) {
			w.Error("something was written")
		}
	})
}

// An entity moves only if its record is as the operator has seen it.
func TestAMoveIsMadeOnlyIfTheEntityIsAsSeen(t *testing.T) {
	for race, races := range map[string]func(*township){
		"nobody": nil,
		"a move": func(w *township) {
			_, err := w.SetParent(w.Context(), "user", dynamo.Move{Parent: "b"}, nil)
			w.must(err)
		},
		"another one of the name": func(w *township) {
			_, err := w.DeleteEntity(w.Context(), "user")
			w.must(err)
			w.must(errOf(w.CreateEntity(w.Context(), limiter.Entity{ID: "user", Parent: "a"})))
		},
	} {
		t.Run(race, func(t *testing.T) {
			inTownship(t, func(w *township) {
				for _, e := range []limiter.Entity{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "user", Parent: "a"}} {
					w.must(errOf(w.CreateEntity(w.Context(), e)))
				}
				seen, err := w.Entity(w.Context(), "user")
				w.must(err)
				var before map[schema.Key]schema.Item
				s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() {
					if races != nil {
						races(w)
					}
					before = w.items()
				})))
				_, err = s.SetParent(w.Context(), "user", dynamo.Move{Parent: "c", If: func(now *store.Entity) error {
					if !reflect.DeepEqual(now, seen) {
						return errMoved
					}
					return nil
				}}, nil)
				switch now, _ := w.Entity(w.Context(), "user"); {
				case races == nil && (err != nil || now.Parent != "c"):
					w.Errorf("%v: the parent is %s", err, now.Parent)
				case races != nil && (!errors.Is(err, errMoved) || !reflect.DeepEqual(before, w.items())):
					w.Errorf("%v: the parent is %s", err, now.Parent)
				}
			})
		})
	}
}
