package dynamo_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// The races of ADR 049, one test each.

// isStamp reports whether a request copies an owner to an item, and to nothing else.
func isStamp(c *faults.Call) bool {
	update, ok := c.Input.(*dynamodb.UpdateItemInput)
	return ok && slices.Contains(slices.Collect(maps.Values(update.ExpressionAttributeNames)), schema.PGen)
}

// writesTo reports whether a request updates a bucket of an entity.
func writesTo(entity string) func(*faults.Call) bool {
	return func(c *faults.Call) bool {
		update, ok := c.Input.(*dynamodb.UpdateItemInput)
		if !ok {
			return false
		}
		_, b, isBucket := schema.ParseBucketPK(schema.KeyOf(update.Key).PK)
		return isBucket && b.Entity == entity
	}
}

// A move while an acquire is under way: if it comes before the debit of the child, the new
// parent pays, and the old one gets back what it gave at the same time. If it comes after, the
// old one pays.
func TestAMoveDuringAnAcquire(t *testing.T) {
	for _, warm := range []bool{true, false} {
		for before, want := range map[string][3]int64{"user": {2, 1, 1}, "a": {2, 2, 0}} {
			if warm && before == "a" {
				continue // both debits are sent at the same time
			}
			t.Run(fmt.Sprintf("warm %t, before the debit of %s", warm, before), func(t *testing.T) {
				inTownship(t, func(w *township) {
					w.family()
					slow := faults.NewTap(w.api.Table)
					l := w.client(slow)
					w.must(w.asks(w.client(w.api.Table), "user"))
					if warm {
						w.must(w.asks(l, "user"))
						want[0], want[1] = want[0]+1, want[1]+1
					}
					slow.Set(once(writesTo(before), func() { w.moves("user", "b") }))
					w.must(w.asks(l, "user"))
					w.wantSpent("then", want[0], want[1], want[2])
					w.wantPayers("b")
				})
			})
		}
	}
}

// A lease from before a move returns to whom it took from, also after a second move.
func TestALeaseReturnsToTheOldParent(t *testing.T) {
	for name, back := range map[string]string{"moved": "b", "moved back": "a", "moved away": ""} {
		t.Run(name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.family()
				l := w.client(w.api.Table)
				lease, err := l.Acquire(w.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rph": 10}})
				w.must(err)
				w.moves("user", "b")
				w.moves("user", back)
				w.must(w.asks(l, "user"))
				b := int64(0)
				if back == "b" {
					b = 1
				}
				a := int64(10)
				if back == "a" {
					a = 11
				}
				w.wantSpent("before", 11, a, b)
				w.must(lease.Release(w.Context(), map[string]int64{"rph": 10}))
				w.wantSpent("after", 1, a-10, b)
			})
		})
	}
}

// A bucket that is created from the record before the move is found by the second search.
func TestABucketCreatedMeanwhileHasTheNewParent(t *testing.T) {
	for name, change := range map[string]func(*township){
		"moved":               func(w *township) { w.moves("user", "b") },
		"without a cascade":   func(w *township) { w.cascades(theEntity, store.No) },
		"without, everywhere": func(w *township) { w.cascades(theResource, store.No) },
	} {
		t.Run(name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.family()
				slow := faults.NewTap(w.api.Table)
				l, done := w.client(slow), make(chan struct{})
				slow.Set(once(is("PutItem"), func() {
					go func() {
						defer close(done)
						change(w)
					}()
					time.Sleep(900 * time.Millisecond) // the first search is over
				}))
				w.must(w.asks(l, "user")) // was decided before the change
				<-done
				w.wantPayers(map[bool]string{true: "b", false: "-"}[name == "moved"])
			})
		})
	}
}

// A process that made a bucket too late for both searches pays the old parent until it compares
// the bucket with its configuration, and no longer.
func TestALateBucketPaysTheNewParentWithinTheTimeToLive(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		slow := faults.NewTap(w.api.Table)
		l := w.client(slow)
		slow.Set(once(is("PutItem"), func() { w.moves("user", "b") }))
		w.must(w.asks(l, "user"))
		w.wantPayers("a")
		time.Sleep(limiter.DefaultConfigTTL)
		w.must(w.asks(l, "user"))
		w.wantPayers("b")
		w.wantSpent("then", 2, 1, 1)
	})
}

// Of two moves, the one that changed the record last decides about the items, even if the other
// one stamps them last.
func TestTheItemsFollowTheLastMove(t *testing.T) {
	for _, then := range []string{"a", ""} {
		t.Run("to "+then, func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.family()
				w.must(w.asks(w.client(w.api.Table), "user"))
				raced := false
				first := w.open(faults.Wrap(w.api.Table, once(isStamp, func() {
					raced = true
					w.moves("user", then)
				})))
				w.must(errOf(first.SetParent(w.Context(), "user", dynamo.Move{Parent: "b"}, nil)))
				w.wantPayers(map[string]string{"a": "a", "": "-"}[then])
				record, err := w.Entity(w.Context(), "user")
				w.must(err)
				images, err := w.Buckets(w.Context(), "user", "gpt-4", 1)
				w.must(err)
				if !raced || images[0].ParentGeneration != record.Generation {
					t.Errorf("raced: %t; the item has generation %d, the record %d", raced, images[0].ParentGeneration, record.Generation)
				}
			})
		})
	}
}

// Of two operators who set a policy of one level, the last one decides about the items. Both
// stamps have one generation.
func TestTheItemsFollowTheLastCascadePolicy(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		w.must(w.asks(w.client(w.api.Table), "user"))
		first := w.open(faults.Wrap(w.api.Table, once(isStamp, func() { w.cascades(theEntity, store.Yes) })))
		w.must(errOf(first.SetCascade(w.Context(), theEntity, dynamo.Cascade{Policy: store.No}, nil)))
		w.wantPayers("a")
	})
}

// An item with the stamp of a later move turns an earlier one away, and one of an entity that
// was deleted does not.
func TestAnOlderStampIsTurnedAway(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		w.must(w.asks(w.client(w.api.Table), "user"))
		record, err := w.Entity(w.Context(), "user")
		w.must(err)
		patch := func(changes schema.Item) {
			behind(w.T, w.api.Table, schema.BucketKey(w.ns, store.Bucket{Entity: "user", Resource: "gpt-4"}), changes)
		}
		for _, tt := range []struct {
			name    string
			changes schema.Item
			want    string
		}{
			{"a later one", schema.Item{schema.PGen: schema.N(record.Generation + 5)}, "a"},
			{"of a deleted entity", schema.Item{schema.PGen: schema.N(record.Generation + 5), schema.PInc: schema.S("0123456789abcdef")}, "b"},
			{"without an incarnation", schema.Item{schema.PGen: schema.N(record.Generation + 5), schema.PInc: nil}, "b"},
		} {
			w.moves("user", "a")
			patch(tt.changes)
			_, err := w.SetParent(w.Context(), "user", dynamo.Move{Parent: "b"}, nil)
			if tt.want == "b" {
				w.must(err)
			} else {
				fixture.WantErr(t, err, store.ErrConflict) // nobody else moves it in this test
				patch(schema.Item{schema.PGen: schema.N(record.Generation)})
			}
			if got := w.payers("user", "gpt-4"); got != tt.want {
				t.Errorf("%s: the bucket cascades to %q, want %q", tt.name, got, tt.want)
			}
		}
	})
}

// Two moves of an entity at once come one after the other: each has a generation of its own, and
// the second one starts from where the first one led.
func TestTwoMovesOfOneEntity(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		was, err := w.Entity(w.Context(), "user")
		w.must(err)
		s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() { w.moves("user", "") })))
		w.must(errOf(s.SetParent(w.Context(), "user", dynamo.Move{Parent: "b"}, nil)))
		got, err := w.Entity(w.Context(), "user")
		w.must(err)
		page, err := w.AuditEvents(w.Context(), audit.Query{Entity: "user"})
		w.must(err)
		if got.Parent != "b" || got.Generation != was.Generation+2 || page.Events[0].Details["old_parent_id"] != nil {
			t.Errorf("the record is %+v, the event %+v", got, page.Events[0])
		}
	})
}

// Below an entity that begins to cascade meanwhile, no other one begins to cascade.
func TestAMoveBelowOneThatMoves(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		fixture.CreateEntity(w.T, w.Store, store.Entity{ID: "key", Cascade: true})
		w.moves("user", "")
		s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() { w.moves("user", "b") })))
		fixture.WantErr(t, errOf(s.SetParent(w.Context(), "key", dynamo.Move{Parent: "user"}, nil)), store.ErrNestedCascade)
	})
}

// Moves at once that would make a circle together exclude each other.
func TestMovesMakeNoCircle(t *testing.T) {
	for name, moves := range map[string][][2]string{
		"of two":       {{"x", "y"}, {"y", "x"}},
		"of three":     {{"x", "y"}, {"y", "z"}, {"z", "x"}},
		"below others": {{"x", "under-y"}, {"y", "under-x"}},
	} {
		t.Run(name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				for _, id := range []string{"x", "y", "z"} {
					fixture.CreateEntity(w.T, w.Store, store.Entity{ID: id})
					fixture.CreateEntity(w.T, w.Store, store.Entity{ID: "under-" + id, Parent: id})
				}
				// Each is held where it has read everything, until all others have, too.
				var ready, all sync.WaitGroup
				ready.Add(len(moves))
				errs := make([]error, len(moves))
				for i, move := range moves {
					s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() {
						ready.Done()
						ready.Wait()
					})))
					all.Go(func() {
						_, errs[i] = s.SetParent(w.Context(), move[0], dynamo.Move{Parent: move[1]}, nil)
					})
				}
				all.Wait()
				refused := 0
				for _, err := range errs {
					if err != nil {
						fixture.WantErr(t, err, store.ErrInvalid)
						refused++
					}
				}
				if refused != 1 {
					t.Errorf("%d were refused: %v", refused, errs)
				}
			})
		})
	}
}

// A child that is created below an entity while that moves: never two cascades in a row.
func TestAMoveAndTheCreationOfAChild(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		w.moves("user", "")
		s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() { w.moves("user", "a") })))
		_, err := s.CreateEntity(w.Context(), store.Entity{ID: "key", Parent: "user", Cascade: true})
		fixture.WantErr(t, err, store.ErrNestedCascade)
	})
}

// A shard that a doubling makes of one that was stamped meanwhile has the new parent, and one
// that was made between the read of the shards and their stamps gets it.
func TestAMoveAndADoubling(t *testing.T) {
	for _, doubledFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("the doubling is first: ", doubledFirst), func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.family()
				w.must(w.asks(w.client(w.api.Table), "user"))
				if doubledFirst {
					s := w.open(faults.Wrap(w.api.Table, once(isStamp, func() { w.doubles(w.Store) })))
					w.must(errOf(s.SetParent(w.Context(), "user", dynamo.Move{Parent: "b"}, nil)))
				} else {
					w.doubles(w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() { w.moves("user", "b") }))))
				}
				w.wantPayers("b+b")
				w.wantSpent("nothing is lost", 1, 1, 0)
			})
		})
	}
}

// A lost shard that is made again beside its sibling has the sibling's parent.
func TestAMoveAndMending(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		w.must(w.asks(w.client(w.api.Table), "user"))
		w.doubles(w.Store)
		lost := schema.BucketKey(w.ns, store.Bucket{Entity: "user", Resource: "gpt-4", Shard: 1})
		w.must(errOf(w.api.Table.BatchWriteItem(w.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
			table: {{DeleteRequest: &types.DeleteRequest{Key: lost.Item()}}},
		}})))
		s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() { w.moves("user", "b") })))
		keeper, err := upkeep.NewKeeper(s, process.Options{})
		w.must(err)
		w.must(errors.Join(keeper.Mend(w.Context(), store.Bucket{Entity: "user", Resource: "gpt-4"}), keeper.Close()))
		w.wantPayers("b+b")
	})
}

// A merge and a move leave the survivor with the new parent, whichever comes first.
func TestAMergeAndAMove(t *testing.T) {
	for _, mergeFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("the merge is first: ", mergeFirst), func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.family()
				w.must(w.asks(w.client(w.api.Table), "user"))
				w.doubles(w.Store)
				if mergeFirst {
					s := w.open(faults.Wrap(w.api.Table, once(isStamp, func() { w.merges(w.Store) })))
					w.must(errOf(s.SetParent(w.Context(), "user", dynamo.Move{Parent: "b"}, nil)))
				} else {
					w.merges(w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() { w.moves("user", "b") }))))
				}
				w.wantPayers("b")
			})
		})
	}
}

// merges halves the number of the bucket's shards with a keeper on a store.
func (w *township) merges(s *dynamo.Store) {
	w.Helper()
	keeper, err := upkeep.NewKeeper(s, process.Options{})
	w.must(err)
	images, err := keeper.Shards(w.Context(), store.Bucket{Entity: "user", Resource: "gpt-4"})
	w.must(err)
	merged, err := keeper.Merge(w.Context(), images)
	w.must(errors.Join(err, keeper.Close()))
	if !merged {
		w.Error("nothing was merged")
	}
}

// A repair that rests on the record from before a move does not undo it.
func TestARepairDoesNotUndoAMove(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		w.must(w.asks(w.client(w.api.Table), "user"))
		refill := func(c *faults.Call) bool { return writesTo("user")(c) && !isStamp(c) }
		s := w.open(faults.Wrap(w.api.Table, once(refill, func() { w.moves("user", "b") })))
		fixture.SetLimits(w.T, s, theEntity, perHour(500))
		w.wantPayers("b")
		w.wantStands("gpt-4", "rph 500/500+500")
	})
}

// A crash between the change of the record and the stamps: clients follow by configuration, and
// the same move completes the rest.
func TestACrashBeforeTheStamps(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		l := w.client(w.api.Table)
		w.must(w.asks(l, "user"))
		crashed := w.open(faults.Wrap(w.api.Table, faults.Before(func(c *faults.Call) error {
			if q, ok := c.Input.(*dynamodb.QueryInput); ok && *q.IndexName == schema.GSI3 {
				return errors.New("connection reset")
			}
			return nil
		})))
		_, err := crashed.SetParent(w.Context(), "user", dynamo.Move{Parent: "b"}, nil)
		fixture.WantErr(t, err, store.ErrIncomplete)
		w.wantPayers("a")
		w.must(w.asks(l, "user"))
		w.wantSpent("just after", 2, 2, 0)
		time.Sleep(limiter.DefaultConfigTTL)
		w.must(w.asks(l, "user"))
		w.wantSpent("after the time to live", 3, 2, 1)
		if n := w.moves("user", "b"); n != (dynamo.Switched{Reached: 1}) {
			t.Errorf("counted %+v", n)
		}
	})
}

// A lost answer of the transaction: the move has taken place, and the same call completes it.
func TestALostAnswerOfAMove(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		w.must(w.asks(w.client(w.api.Table), "user"))
		lossy := w.open(faults.Wrap(w.api.Table, faults.After(func(c *faults.Call, err error) error {
			if c.Op == "TransactWriteItems" {
				return errors.New("connection reset")
			}
			return err
		})))
		_, err := lossy.SetParent(w.Context(), "user", dynamo.Move{Parent: "b"}, nil)
		fixture.WantErr(t, err, store.ErrUnavailable)
		w.wantPayers("a")
		w.moves("user", "b")
		w.wantPayers("b")
		if e, err := w.Entity(w.Context(), "user"); err != nil || e.Parent != "b" {
			t.Errorf("the record is %+v, %v", e, err)
		}
	})
}
