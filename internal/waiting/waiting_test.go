package waiting_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/waiting"
)

type room = waiting.Room[string]

type caller = waiting.Caller[string]

var (
	bucket   = waiting.Line("user")
	gpt4     = []string{"gpt-4"}
	tpm, rpm = waiting.Key{Entity: "user", Resource: "gpt-4", Limit: "tpm"}, waiting.Key{Entity: "user", Resource: "gpt-4", Limit: "rpm"}
	images   = waiting.Key{Entity: "user", Resource: "images", Limit: "tpm"}
)

// comes lets a caller join that waits for all that it asks for.
func comes(r *room, class string, asks ...waiting.Key) *caller {
	all := make(map[waiting.Key]int64)
	var resources []string
	for _, key := range asks {
		all[key] = 1
		resources = append(resources, key.Resource)
	}
	c := waiting.NewCaller[string](bucket, resources, r.Arrive(), class, all)
	r.Join(c, asks, 0, -1)
	return c
}

func gift(r *room, c *caller) string {
	if g := r.Turn(c).Gift; g != nil {
		return *g
	}
	return ""
}

func TestALeaseGoesToTheFirstOfThoseThatAskTheSame(t *testing.T) {
	t.Parallel()
	var r room
	a, b, c := comes(&r, "one", tpm), comes(&r, "one", tpm), comes(&r, "one", tpm)
	if r.Try(b, 0) || !r.Try(a, 0) || !r.Try(b, 0) || r.Turn(c).Ahead[tpm] != 2 {
		t.Fatal("they do not try in order")
	}
	r.Admit(b, "lease of b")
	if gift(&r, a)+gift(&r, b) != "" || !r.Turn(b).Hopes || r.Turn(c).Hopes || !r.Turn(c).Leads {
		t.Fatal("the second got its lease before the first one's try ended")
	}
	if r.Refuse(a, []waiting.Key{tpm}, 7); gift(&r, a) != "lease of b" {
		t.Errorf("the first got %q", gift(&r, a))
	}
	if turn := r.Turn(b); !turn.Leads || turn.Until != 7 || turn.Hopes {
		t.Errorf("the second: %+v", turn)
	}
	if spare := r.Leave(a); len(spare) != 0 || gift(&r, b) != "lease of b" {
		t.Errorf("after the first left: %v", spare)
	}
	if spare := append(r.Leave(c), r.Leave(b)...); !slices.Equal(spare, []string{"lease of b"}) || r.Size() != 0 {
		t.Errorf("nobody is left: %v", spare)
	}
}

func TestWhoWaitsForWhom(t *testing.T) {
	t.Parallel()
	var r room
	big := comes(&r, "big", tpm, rpm)
	r.Leave(big)
	a := waiting.NewCaller[string](bucket, gpt4, r.Arrive(), "a", map[waiting.Key]int64{tpm: 10, rpm: 1})
	r.Join(a, []waiting.Key{tpm}, 0, 2)
	onlyRPM, onlyTPM := comes(&r, "b", rpm), waiting.NewCaller[string](bucket, gpt4, r.Arrive(), "c", map[waiting.Key]int64{tpm: 1})
	if !r.Turn(onlyRPM).Leads {
		t.Error("a caller for rpm waits behind one that waits for tpm")
	}
	if asks, must := r.Ahead(onlyTPM); !must || asks[tpm] != 10 {
		t.Errorf("ahead of a caller for tpm: %v", asks)
	}
	if n, joined := r.Join(onlyTPM, nil, 0, 2); joined || n != 2 {
		t.Errorf("a third of two callers joined")
	}
	r.Join(onlyTPM, nil, 0, 3)
	r.Leave(onlyRPM)
	r.Try(a, 0)
	r.Refuse(a, []waiting.Key{rpm}, 0)
	late := waiting.NewCaller[string](bucket, gpt4, r.Arrive(), "d", map[waiting.Key]int64{rpm: 1})
	if _, must := r.Ahead(late); !must || r.Turn(onlyTPM).Leads {
		t.Error("a caller no longer waits for what it has waited for")
	}
}

// No caller begins a try in the pause after an outage. One had its turn before the pause, and
// another one postpones its turn because of the try that ended in the outage.
func TestAPauseHoldsForCallersWithAnEarlierTurn(t *testing.T) {
	t.Parallel()
	var r room
	a, b, c := comes(&r, "one", tpm), comes(&r, "one", tpm), comes(&r, "two", rpm)
	if !r.Try(a, 5) || !r.Turn(b).Leads || !r.Turn(c).Leads {
		t.Fatal("they do not try in order")
	}
	r.Pause(a, 15)
	r.Postpone(b, 7, true)
	r.Leave(a)
	if turn := r.Turn(b); turn.Until != 15 || r.Try(b, 14) || r.Try(c, 14) {
		t.Errorf("they try in the pause: %+v", turn)
	}
	if d := comes(&r, "three", tpm); r.Turn(d).Until != 15 {
		t.Error("a caller that came in the pause may try")
	}
	if !r.Try(b, 15) || !r.Try(c, 15) {
		t.Error("they do not try after the pause")
	}
	r.Pause(b, 25)
	r.Refuse(b, []waiting.Key{tpm}, 0)
	if r.Rouse(bucket, "gpt-4"); !r.Try(b, 16) {
		t.Error("who is roused does not try")
	}
}

// Callers that ask for something else try at the same time, too. What the second was admitted
// with stays its own, and it waits until the first is admitted.
func TestALeaseWaitsForThoseInFront(t *testing.T) {
	t.Parallel()
	var r room
	a, b, c := comes(&r, "one", tpm), comes(&r, "two", tpm), comes(&r, "one", tpm)
	free := comes(&r, "three", rpm)
	if r.Try(b, 0) || r.Try(c, 0) || !r.Try(a, 0) || !r.Try(b, 0) || !r.Try(c, 0) {
		t.Fatal("they do not try in order")
	}
	d := comes(&r, "four", tpm)
	if turn := r.Turn(d); !turn.Leads || turn.Ahead[tpm] != 3 {
		t.Fatalf("the fourth: %+v", turn)
	}
	r.Postpone(d, 99, true)
	r.Admit(b, "lease of b")
	if gift(&r, b) != "" || !r.Turn(b).Hopes {
		t.Fatal("the second got its lease before the first one's try ended")
	}
	if turn := r.Turn(d); turn.Until != 0 || turn.Ahead[tpm] != 2 {
		t.Errorf("the fourth does not look again when a try ends: %+v", turn)
	}
	r.Refuse(a, []waiting.Key{tpm}, 5)
	if gift(&r, b) != "" || r.Turn(d).Leads || !r.Turn(free).Leads {
		t.Error("the first was refused: the second waits, and those behind do not lead")
	}
	if turn := r.Turn(a); turn.Leads || !turn.Hopes {
		t.Errorf("the first may get what the third, which asks for the same, is admitted with: %+v", turn)
	}
	r.Admit(c, "lease of c")
	if gift(&r, a) != "lease of c" || gift(&r, b) != "lease of b" || gift(&r, c) != "" {
		t.Errorf("they got %q, %q and %q", gift(&r, a), gift(&r, b), gift(&r, c))
	}
	if turn := r.Turn(c); !turn.Leads || turn.Ahead != nil {
		t.Errorf("the third: %+v", turn)
	}
	r.Postpone(d, 99, true)
	if turn := r.Turn(d); turn.Until != 0 {
		t.Errorf("nobody tries, but the fourth looks only at %d", turn.Until)
	}
}

// What a caller was admitted with and cannot use goes back as soon as it leaves, also if those
// in front go on waiting.
func TestWhatIsSpareGoesBackAtOnce(t *testing.T) {
	t.Parallel()
	var r room
	a, b, c := comes(&r, "one", tpm), comes(&r, "two", tpm), comes(&r, "two", tpm)
	for _, each := range []*caller{a, b, c} {
		r.Try(each, 0)
	}
	r.Admit(b, "lease of b")
	r.Admit(c, "lease of c")
	r.Refuse(a, []waiting.Key{tpm}, 0)
	if spare := r.Leave(b); !slices.Equal(spare, []string{"lease of c"}) || !r.Turn(c).Hopes {
		t.Errorf("two leases for one caller: %v is spare", spare)
	}
	if spare := r.Leave(a); spare != nil || gift(&r, c) != "lease of b" {
		t.Errorf("the last one got %q", gift(&r, c))
	}
}

// A caller of two resources waits behind those of each, and those behind it wait for it.
// Callers of one resource neither see those of another, nor count as theirs.
func TestACallerOfTwoResourcesIsInOrderForBoth(t *testing.T) {
	t.Parallel()
	var r room
	a := comes(&r, "a", tpm)
	both := comes(&r, "both", tpm, images)
	late, text := comes(&r, "late", images), comes(&r, "text", rpm)
	if r.Turn(both).Leads || r.Turn(late).Leads || !r.Turn(text).Leads {
		t.Error("the order of callers of two resources is not that of their arrival")
	}
	r.Try(a, 0)
	r.Pause(a, 15)
	if turn := r.Turn(both); !turn.Leads || turn.Until != 15 || turn.Ahead[tpm] != 1 {
		t.Errorf("the second: %+v", turn)
	}
	r.Admit(a, "lease of a")
	if other := comes(&r, "other", waiting.Key{Entity: "user", Resource: "images", Limit: "rpm"}); r.Turn(other).Until != 0 || r.Turn(other).Ahead != nil {
		t.Errorf("a caller of another resource is held up: %+v", r.Turn(other))
	}
	r.Postpone(both, 99, false)
	if r.Rouse(bucket, "video"); r.Turn(both).Until != 99 {
		t.Error("a caller is roused for a resource that it does not name")
	}
	if r.Rouse(bucket, "images"); r.Turn(both).Until != 15 {
		t.Errorf("the caller of two resources is not roused for one, or its pause for the other is over: %d", r.Turn(both).Until)
	}
	full := waiting.NewCaller[string](bucket, []string{"video", "images"}, r.Arrive(), "full", nil)
	if n, joined := r.Join(full, nil, 0, 3); joined || n != 3 {
		t.Errorf("it joined, with %d callers for images", n)
	}
	if n, joined := r.Join(full, nil, 0, 4); !joined || n != 3 {
		t.Errorf("it did not join, with %d callers for images", n)
	}
}

// Tries and tokens of one resource do not let callers of another wait, or look again.
func TestCallersOfDifferentResourcesDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	var r room
	text, first := comes(&r, "text", tpm), comes(&r, "first", images)
	r.Try(text, 0)
	r.Postpone(first, 99, true)
	if turn := r.Turn(first); turn.Ahead != nil || turn.Until != 0 {
		t.Errorf("it waits for a try for another resource: %+v", turn)
	}
	second := comes(&r, "second", images)
	r.Try(first, 0)
	r.Postpone(second, 99, true)
	r.Refuse(text, []waiting.Key{tpm}, 0)
	r.Rouse(bucket, "gpt-4")
	if turn := r.Turn(second); turn.Until != 99 || turn.Ahead[images] != 1 {
		t.Errorf("it looks again because of another resource: %+v", turn)
	}
	if r.Refuse(first, []waiting.Key{images}, 0); r.Turn(second).Until != 0 {
		t.Error("it does not look again when a try for its resource has ended")
	}
}

// Sums of what callers ask for stop where they would overflow.
func TestSumsDoNotOverflow(t *testing.T) {
	t.Parallel()
	var r room
	var all []*caller
	for range 3 {
		c := waiting.NewCaller[string](bucket, gpt4, r.Arrive(), "one", map[waiting.Key]int64{tpm: math.MaxInt64 / 2})
		r.Join(c, []waiting.Key{tpm}, 0, -1)
		all = append(all, c)
	}
	r.Try(all[0], 0)
	r.Try(all[1], 0)
	r.Try(all[2], 0)
	last := comes(&r, "two", tpm)
	if asks, _ := r.Ahead(last); asks[tpm] != math.MaxInt64 || r.Turn(last).Ahead[tpm] != math.MaxInt64 {
		t.Errorf("ahead: %v, %+v", asks, r.Turn(last))
	}
}

// Whatever happens in a line, callers for one limit are admitted in the order of their arrival,
// each lease goes to one caller or is spare, and somebody can always go on.
func TestNothingIsLostOrOvertaken(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			dice := rand.New(rand.NewPCG(seed, 1))
			var r room
			made, got := 0, 0
			var waits, tries []*caller
			last := make(map[waiting.Key]uint64)
			kinds := map[string][]waiting.Key{"one": {tpm}, "two": {tpm}, "images": {images}, "both": {tpm, images}}
			classes := []string{"one", "two", "images", "both"}
			take := func() {
				waits = slices.DeleteFunc(waits, func(c *caller) bool {
					if gift(&r, c) == "" {
						return false
					}
					got++
					for _, key := range kinds[c.Class] {
						if last[key] > c.Arrival {
							t.Errorf("%d was admitted to %v after %d", c.Arrival, key, last[key])
						}
						last[key] = c.Arrival
					}
					return true
				})
			}
			end := func(c *caller) { tries = slices.DeleteFunc(tries, func(other *caller) bool { return other == c }) }
			for range 400 {
				switch n := dice.IntN(8); {
				case n < 2 && len(waits) < 12:
					kind := classes[dice.IntN(len(classes))]
					waits = append(waits, comes(&r, kind, kinds[kind]...))
				case n < 5 && len(waits) > 0:
					leads := slices.IndexFunc(waits, func(c *caller) bool { return r.Turn(c).Leads })
					if leads < 0 && len(tries) == 0 {
						t.Fatal("nobody leads, and nobody tries")
					}
					if leads >= 0 && r.Try(waits[leads], 0) {
						tries = append(tries, waits[leads])
					}
				case n < 7 && len(tries) > 0:
					c := tries[dice.IntN(len(tries))]
					end(c)
					if dice.IntN(2) == 0 {
						r.Refuse(c, kinds[c.Class][:1], 0)
						break
					}
					made++
					got += len(r.Admit(c, fmt.Sprint("lease ", made)))
				case len(waits) > 0:
					i := dice.IntN(len(waits))
					end(waits[i])
					got += len(r.Leave(waits[i]))
					waits = slices.Delete(waits, i, i+1)
				}
				take()
			}
			for _, c := range waits {
				got += len(r.Leave(c))
			}
			if got != made || r.Size() != 0 {
				t.Errorf("%d leases, %d went somewhere; %d callers are left", made, got, r.Size())
			}
		})
	}
}
