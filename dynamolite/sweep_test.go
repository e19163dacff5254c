package dynamolite_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// inBubble runs a test on the database's own clock. Items of the main table expire by e.
func inBubble(t *testing.T, interval time.Duration, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := fixtureIn(t, dynamolite.New(dynamolite.Options{SweepInterval: interval}))
		f.setLifetime("e", true)
		test(f)
		closeDB(t, f.db)
	})
}

func (f *fixture) setLifetime(attribute string, enabled bool) {
	f.t.Helper()
	if _, err := f.db.UpdateTimeToLive(f.t.Context(), lifetime(attribute, enabled)); err != nil {
		f.t.Fatal(err)
	}
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wantGone says which items of partition a are to be gone, and which are to be there.
func (f *fixture) wantGone(when string, gone bool, sorts ...string) {
	f.t.Helper()
	for _, sort := range sorts {
		if got := f.get(keyed("a", sort)) == nil; got != gone {
			f.t.Errorf("%s: item %s gone %t, want %t", when, sort, got, gone)
		}
	}
}

// Whatever writes an expiry while the sweep sleeps for a later one wakes the sweep.
func TestSweepWakesForAnEarlierExpiry(t *testing.T) {
	t.Parallel()
	item := func(now time.Time) attrs { return with(keyed("a", "soon"), attrs{"e": epoch(now, 60)}) }
	for name, write := range map[string]func(f *fixture, item attrs) error{
		"put": func(f *fixture, item attrs) error {
			f.put(item)
			return nil
		},
		"update": func(f *fixture, item attrs) error {
			f.put(keyed("a", "soon"))
			f.update(keyed("a", "soon"), "SET e = :e", attrs{":e": item["e"]})
			return nil
		},
		"update of no item": func(f *fixture, item attrs) error {
			f.update(keyed("a", "soon"), "SET e = :e", attrs{":e": item["e"]})
			return nil
		},
		"batch": func(f *fixture, item attrs) error {
			_, err := f.db.BatchWriteItem(f.t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
				mainTable: {{PutRequest: &types.PutRequest{Item: item}}},
			}})
			return err
		},
		"transaction": func(f *fixture, item attrs) error {
			_, err := f.db.TransactWriteItems(f.t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
				{Put: &types.Put{TableName: ptr(mainTable), Item: item}},
			}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, time.Minute, func(f *fixture) {
				f.put(with(keyed("a", "late"), attrs{"e": epoch(time.Now(), 90*24*60*60)}))
				after(30*24*time.Hour + 210*time.Second) // long before the sweep wakes up by itself
				if err := write(f, item(time.Now())); err != nil {
					f.t.Fatal(err)
				}
				after(89 * time.Second)
				f.wantGone("before the sweep", false, "soon", "late")
				after(2 * time.Second)
				f.wantGone("after it", true, "soon")
				f.wantGone("after it", false, "late")
				after(61 * 24 * time.Hour)
				f.wantGone("after its time", true, "late")
			})
		})
	}
}

// An expiry that moves later, or goes, while the sweep sleeps for it: the sweep finds nothing, and comes back in time.
func TestSweepFindsTheExpiryMoved(t *testing.T) {
	t.Parallel()
	inBubble(t, time.Hour, func(f *fixture) {
		for _, sort := range []string{"moved", "removed", "deleted", "rewritten"} {
			f.put(with(keyed("a", sort), attrs{"e": epoch(time.Now(), 24*60*60)}))
		}
		after(150 * time.Minute)
		later := epoch(time.Now(), 48*60*60)
		f.update(keyed("a", "moved"), "SET e = :e", attrs{":e": later})
		f.update(keyed("a", "removed"), "REMOVE e", nil)
		f.put(with(keyed("a", "rewritten"), attrs{"e": later}))
		if _, err := f.db.DeleteItem(f.t.Context(), &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: keyed("a", "deleted")}); err != nil {
			f.t.Fatal(err)
		}
		f.put(keyed("a", "deleted")) // again, without expiry
		after(48*time.Hour - time.Minute)
		f.wantGone("before the later expiry", false, "moved", "removed", "deleted", "rewritten")
		after(62 * time.Minute)
		f.wantGone("after it", true, "moved", "rewritten")
		f.wantGone("after it", false, "removed", "deleted")
	})
}

// Items expire by the attribute in force, whatever was written while another one, or none, was.
func TestSweepAfterTheAttributeChanged(t *testing.T) {
	t.Parallel()
	inBubble(t, time.Minute, func(f *fixture) {
		hour := int64(60 * 60)
		f.put(with(keyed("a", "by e"), attrs{"e": epoch(time.Now(), 2*hour), "d": epoch(time.Now(), 20*hour)}))
		after(30 * time.Minute)
		f.setLifetime("e", false)
		f.put(with(keyed("a", "unseen"), attrs{"e": epoch(time.Now(), hour), "d": epoch(time.Now(), 3*hour)}))
		after(5 * time.Hour)
		f.wantGone("while there is no time to live", false, "by e", "unseen")
		f.setLifetime("d", true)
		after(time.Minute)
		f.wantGone("by d", true, "unseen")
		f.wantGone("by d", false, "by e")
		f.setLifetime("d", false)
		after(20 * time.Hour)
		f.setLifetime("e", true)
		after(time.Minute)
		f.wantGone("by e again", true, "by e")
	})
}

// The sweep sleeps for an item of a table that is deleted, and of an index that is dropped, before it wakes up.
func TestSweepOfWhatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	inBubble(t, time.Hour, func(f *fixture) {
		soon := func(sort string) attrs {
			return with(keyed("a", sort), attrs{"e": epoch(time.Now(), 30*60), "kpk": str("k"), "fpk": str("f"), "fsk": num("1")})
		}
		f.put(soon("1"))
		if _, err := f.db.UpdateTable(f.t.Context(), dropping(keysOnly)); err != nil {
			f.t.Fatal(err)
		}
		after(61 * time.Minute)
		f.wantGone("with an index less", true, "1")
		if n := len(f.entries(fullIndex, "fpk", "f")); n != 0 {
			f.t.Errorf("the index that is left has %d entries", n)
		}

		f.put(soon("2"))
		if _, err := f.db.DeleteTable(f.t.Context(), &dynamodb.DeleteTableInput{TableName: ptr(mainTable)}); err != nil {
			f.t.Fatal(err)
		}
		if _, err := f.db.CreateTable(f.t.Context(), mainInput()); err != nil {
			f.t.Fatal(err)
		}
		f.put(soon("3"))
		after(5 * time.Hour)
		f.wantGone("in a table of the same name without a time to live", false, "3")
		f.setLifetime("e", true)
		after(time.Hour)
		f.wantGone("with one", true, "3")
	})
}

// An item that a transaction has taken when the sweep comes goes with the next sweep.
func TestSweepComesBackForATakenItem(t *testing.T) {
	t.Parallel()
	inBubble(t, time.Hour, func(f *fixture) {
		f.put(with(keyed("a", "1"), attrs{"e": epoch(time.Now(), 30*60)}))
		commit, err := f.db.Prepare([]types.TransactWriteItem{{Update: &types.Update{
			TableName: ptr(mainTable), Key: keyed("a", "1"), UpdateExpression: ptr("SET x = :x"), ExpressionAttributeValues: attrs{":x": num("1")},
		}}})
		if err != nil {
			f.t.Fatal(err)
		}
		after(150 * time.Minute)
		f.wantGone("while it is taken", false, "1")
		if err := commit(); err != nil {
			f.t.Fatal(err)
		}
		after(29 * time.Minute)
		f.wantGone("before the next sweep", false, "1")
		after(2 * time.Minute)
		f.wantGone("after it", true, "1")
	})
}

// A database ends while its sweep sleeps, and a bubble would say if it did not.
func TestCloseEndsASleepingSweep(t *testing.T) {
	t.Parallel()
	inBubble(t, time.Hour, func(f *fixture) {
		f.put(with(keyed("a", "1"), attrs{"e": epoch(time.Now(), 24*60*60)}))
		after(90 * time.Minute)
		begin := time.Now()
		closeDB(f.t, f.db)
		if d := time.Since(begin); d != 0 {
			f.t.Errorf("Close took %v", d)
		}
	})
}

// No interval passes one by one: a year has too many microseconds for that.
func TestSweepSleepsThroughAYear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fixtureIn(t, dynamolite.New(dynamolite.Options{SweepInterval: time.Microsecond}))
		f.setLifetime("e", true)
		const year = 365 * 24 * time.Hour
		f.put(with(keyed("a", "1"), attrs{"e": epoch(time.Now(), int64(year/time.Second))}), with(keyed("a", "2"), attrs{"e": num("1e100")}))
		after(year)
		f.wantGone("on the day", false, "1", "2")
		after(time.Second + time.Microsecond)
		f.wantGone("a second later", true, "1")
		f.wantGone("a second later", false, "2")
		closeDB(t, f.db)
	})
}

// A clock of the database's own may jump. The sweep looks at it once every interval.
func TestSweepByAClockThatJumps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
		set := func(at time.Time) {
			mu.Lock()
			defer mu.Unlock()
			now = at
		}
		f := fixtureIn(t, dynamolite.New(dynamolite.Options{SweepInterval: time.Second, Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		}}))
		f.setLifetime("e", true)
		today := now
		f.put(
			with(keyed("a", "in a year"), attrs{"e": epoch(today, 365*24*60*60)}),
			with(keyed("a", "six years ago"), attrs{"e": epoch(today.AddDate(-6, 0, 0), 0)}),
			with(keyed("a", "in ten years"), attrs{"e": epoch(today.AddDate(10, 0, 0), 0)}),
		)
		after(time.Minute)
		f.wantGone("today", false, "in a year", "six years ago", "in ten years")
		set(today.AddDate(2, 0, 0))
		for i := range 10 { // ever earlier expiries put off no sweep
			f.put(with(keyed("a", "before 1970"), attrs{"e": num(strconv.Itoa(-1 - i))}))
			after(100 * time.Millisecond)
		}
		f.wantGone("two years on", true, "in a year")
		f.wantGone("two years on", false, "six years ago", "in ten years", "before 1970")
		set(today.AddDate(-2, 0, 0))
		after(time.Second)
		f.wantGone("two years back", true, "six years ago")
		set(today.AddDate(20, 0, 0))
		after(time.Second)
		f.wantGone("when it is expired for too long", false, "in ten years")
		closeDB(t, f.db)
	})
}

// When the next sweep begins, for an interval of a minute that began at 0 s.
func TestSweepPlan(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 2, 3, 4, 5, 0, 0, time.UTC)
	seconds := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for _, tt := range []struct {
		name       string
		swept, now float64 // in seconds since start
		at         int64
		want       float64 // the next sweep, likewise
	}{
		{"not known", 0, 5, 0, 60},
		{"expired", 120, 121, start.Unix() + 100, 180},
		{"expired, right after the sweep", 120, 120, start.Unix() + 100, 180},
		{"expired, woken when the sweep is due", 120, 180, start.Unix() + 100, 180},
		{"within this second", 0, 5.5, start.Unix() + 5, 60},
		{"a sweep comes as its second ends", 0, 5, start.Unix() + 59, 60},
		{"a sweep comes within its second", 0, 5, start.Unix() + 60, 120},
		{"minutes away", 0, 5, start.Unix() + 300, 360},
		{"almost far away", 0, 0, start.Unix() + 599, 600},
		{"far away", 0, 0, start.Unix() + 601, 600},
		{"never", 65, 70, math.MaxInt64, 720},
		{"the least", 65, 70, math.MinInt64, 120},
		{"a sweep that took minutes", 200, 200, 0, 240},
	} {
		if got := dynamolite.NextSweep(time.Minute, start, seconds(tt.swept), seconds(tt.now), tt.at).Sub(start).Seconds(); got != tt.want {
			t.Errorf("%s: the next sweep is at %v s, want %v", tt.name, got, tt.want)
		}
	}
}

// A sweep that begins by itself after the database was opened knows nothing of the items that are there.
func TestSweepAfterReopening(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	open := func() *dynamolite.DB {
		db, err := dynamolite.Open(dynamolite.Options{Dir: dir, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	f := fixtureIn(t, open())
	f.setLifetime("e", true)
	f.put(with(keyed("a", "in the log"), attrs{"e": epoch(now, 60)}))
	closeDB(t, f.db)
	f.db = open()
	f.put(with(keyed("a", "late"), attrs{"e": epoch(now, 600)}))
	if err := f.db.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	closeDB(t, f.db)

	f.db = open()
	now = now.Add(2 * time.Minute)
	if err := f.db.Sweep(); err != nil {
		t.Fatal(err)
	}
	f.wantGone("two minutes on", true, "in the log")
	f.wantGone("two minutes on", false, "late")
	closeDB(t, f.db)
	f.db = open()
	f.wantGone("opened again", true, "in the log")
	now = now.Add(10 * time.Minute)
	if err := f.db.Sweep(); err != nil {
		t.Fatal(err)
	}
	f.wantGone("twelve minutes on", true, "late")
	closeDB(t, f.db)
}

// expiring is what a table with a time to live should hold.
type expiring struct {
	*fixture
	random   *rand.Rand
	items    map[string]map[string]int64 // by sort key: when it expires by each attribute
	by       string                      // the attribute in force; "": none
	interval time.Duration
	start    time.Time
	last     time.Time // the model has been brought to this instant
}

// advance deletes what the sweeps since the last time have found.
func (w *expiring) advance() {
	now := time.Now()
	for sweep := w.start.Add(w.last.Sub(w.start).Truncate(w.interval) + w.interval); !sweep.After(now); sweep = sweep.Add(w.interval) {
		for sort, expiries := range w.items {
			if at, ok := expiries[w.by]; ok && at < sweep.Unix() && at >= sweep.AddDate(-5, 0, 0).Unix() {
				delete(w.items, sort)
			}
		}
	}
	w.last = now
}

// step does something random.
func (w *expiring) step() {
	w.t.Helper()
	random, sort := w.random, strconv.Itoa(w.random.IntN(12))
	key := keyed("p"+sort, sort)
	at := time.Now().Unix() + []int64{-10, 30, 300, 3000, 300_000, -200_000_000}[random.IntN(6)] + random.Int64N(60)
	name, value := []string{"e", "d"}[random.IntN(2)], num(strconv.FormatInt(at, 10))
	switch random.IntN(8) {
	case 0, 1:
		w.put(with(key, attrs{name: value}))
		w.items[sort] = map[string]int64{name: at}
	case 2, 3:
		w.update(key, "SET "+name+" = :e", attrs{":e": value})
		w.set(sort, name, at)
	case 4:
		w.update(key, "REMOVE "+name+" SET x = :x", attrs{":x": value})
		w.set(sort, name, at)
		delete(w.items[sort], name)
	case 5:
		if _, err := w.db.DeleteItem(w.t.Context(), &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: key}); err != nil {
			w.t.Fatal(err)
		}
		delete(w.items, sort)
	case 6:
		if _, err := w.db.TransactWriteItems(w.t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			transactUpdate(key, "SET "+name+" = :e", attrs{":e": value}),
		}}); err != nil {
			w.t.Fatal(err)
		}
		w.set(sort, name, at)
	case 7:
		if w.by != "" {
			w.setLifetime(w.by, false)
			w.by = ""
		} else {
			w.setLifetime(name, true)
			w.by = name
		}
	}
}

func (w *expiring) set(sort, attribute string, at int64) {
	if w.items[sort] == nil {
		w.items[sort] = map[string]int64{}
	}
	w.items[sort][attribute] = at
}

// Through random writes, an item goes at the first multiple of the interval at which it is expired, and not before: just
// as if the sweep ticked.
func TestSweepAsIfItTicked(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &expiring{random: rand.New(rand.NewPCG(seed, 1)), items: map[string]map[string]int64{}, interval: time.Minute}
				w.fixture = fixtureIn(t, dynamolite.New(dynamolite.Options{SweepInterval: w.interval}))
				w.setLifetime("e", true)
				w.by, w.start, w.last = "e", time.Now(), time.Now()
				after(500 * time.Millisecond) // nothing happens at the instant of a sweep
				for range 300 {
					after(time.Duration(w.random.IntN(1<<w.random.IntN(12))) * time.Second)
					w.advance()
					for i := range 12 {
						sort := strconv.Itoa(i)
						_, want := w.items[sort]
						if got := w.get(keyed("p"+sort, sort)) != nil; got != want {
							t.Fatalf("at %v: item %s is there %t, want %t", time.Since(w.start), sort, got, want)
						}
					}
					w.step()
				}
				closeDB(t, w.db)
			})
		})
	}
}

// Writers beside a sweep that comes round all the time: at the end nothing is there that has expired.
func TestSweepMissesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fixtureIn(t, dynamolite.New(dynamolite.Options{SweepInterval: time.Second}))
		f.setLifetime("e", true)
		var writers sync.WaitGroup
		for w := range 8 {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			writers.Go(func() {
				for range 500 {
					time.Sleep(time.Duration(random.IntN(4)) * time.Second) // at the instant of a sweep
					sort := strconv.Itoa(random.IntN(30))
					item := with(keyed("p"+sort, sort), attrs{"e": epoch(time.Now(), int64(random.IntN(40)-3))})
					if _, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: item}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		writers.Wait()
		after(5 * time.Second)
		now := time.Now().Unix()
		out, err := f.db.Scan(t.Context(), &dynamodb.ScanInput{
			TableName: ptr(mainTable), FilterExpression: ptr("e < :now"), ExpressionAttributeValues: attrs{":now": num(strconv.FormatInt(now-1, 10))},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Items) > 0 {
			t.Errorf("at %d the table still has %v", now, out.Items)
		}
		after(time.Minute)
		if left := *describeMain(t, f.db).ItemCount; left != 0 {
			t.Errorf("%d items are left when all have expired", left)
		}
		closeDB(t, f.db)
	})
}
