package bucket_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// A peerVector is one worked example of the peer's arithmetic. Fn names the peer's
// function, and so determines which fields count.
type peerVector struct {
	Fn, Name  string
	Tokens    int64
	Last, RF  int64 // the stamp: Last in refill_bucket, RF elsewhere
	Now       int64
	Cap       int64
	RA        int64
	RP        int64
	Shards    int
	Requested int64 // tokens
	Amount    int64 // tokens, negative for a credit
	Deficit   int64 // millitokens

	// Results, in tokens for available amounts, otherwise in millitokens.
	Success    bool
	NewTokens  int64   `json:"new_tokens"`
	NewRF      int64   `json:"new_rf"`
	Available  int64   `json:"available"`
	RetryAfter float64 `json:"retry_after"` // seconds
	Seconds    float64 `json:"seconds"`     // the same, of calculate_retry_after
}

// An outcome is the part of a result that a vector and this package can be compared in.
// Fields that a function does not return stay zero.
type outcome struct {
	OK        bool
	Tokens    int64 // millitokens afterwards
	Stamp     int64 // ms after the vectors' common instant
	Available int64 // whole tokens before the take
	Wait      int64 // ms
}

func (v peerVector) limit() bucket.Limit {
	return bucket.Limit{Capacity: v.Cap, Amount: v.RA, Period: v.RP}
}

func (v peerVector) theirs() outcome {
	o := outcome{OK: v.Success, Tokens: v.NewTokens, Available: v.Available}
	if v.NewRF != 0 {
		o.Stamp = v.NewRF - epoch2023
	}
	o.Wait = int64(math.Round((v.RetryAfter + v.Seconds) * 1000))
	return o
}

// ours computes this package's outcome, for each function of the peer.
var ours = map[string]func(v peerVector) outcome{
	"refill_bucket": func(v peerVector) outcome {
		return outcome{
			Tokens: v.limit().Balance(v.Tokens, v.Last, v.Now),
			Stamp:  max(v.Last, v.Now) - epoch2023,
		}
	},
	"try_consume": func(v peerVector) outcome {
		l, need := v.limit().Share(1, v.Shards), v.Requested*tok
		delta, _ := l.Refill(v.Tokens, v.RF, v.Now)
		o := outcome{Tokens: v.Tokens + delta, Stamp: max(v.RF, v.Now) - epoch2023}
		o.Available = saturated(floorDiv(num(o.Tokens), num(tok)))
		if o.OK = l.Admits(v.Tokens, v.RF, v.Now, need); o.OK {
			o.Tokens -= need
		}
		var ok bool
		if o.Wait, ok = l.Wait(v.Tokens, v.RF, v.Now, need); !ok {
			o.Wait = never
		}
		return o
	},
	"calculate_retry_after": func(v peerVector) outcome {
		l := bucket.Limit{Capacity: math.MaxInt64, Amount: v.RA, Period: v.RP}
		ms, _ := l.Wait(0, 0, 0, v.Deficit)
		return outcome{Wait: ms}
	},
	"force_consume": func(v peerVector) outcome {
		l := v.limit()
		o := outcome{
			Tokens: l.Balance(v.Tokens, v.RF, v.Now),
			Stamp:  max(v.RF, v.Now) - epoch2023,
		}
		if v.Amount < 0 {
			o.Tokens += l.Room(o.Tokens, -v.Amount*tok)
		} else {
			o.Tokens -= v.Amount * tok
		}
		return o
	},
}

// elsewhere lists the peer's functions that belong to other packages, and names those
// packages.
var elsewhere = map[string]string{
	"would_refill_satisfy":         "which limits of an item a request names: the limiter",
	"quota daily retry":            "calendar quotas earn nothing here",
	"session retry":                "session quotas earn nothing here",
	"effective_params":             "schedules choose the parameters before the arithmetic",
	"retry_after_with_schedule":    "a wait across a change of parameters: schedules",
	"encode":                       "wire format of schedules",
	"encode_reset":                 "wire format of schedules",
	"calculate_bucket_ttl_seconds": "how long an item lives: the store",
	"plan_quota_grant":             "quotas across shards",
}

// Reasons that several vectors share.
const (
	grid     = "grid lines are fixed to the epoch, not to the last refill; the stamp moves to now and loses nothing"
	exact    = "the exact wait, where the peer adds a millisecond"
	oversize = "more than the bucket holds is never admitted, whatever the deficit"
)

// differs lists, by position, the vectors on which this package disagrees on purpose: the
// reason, and this package's outcome.
var differs = map[int]struct {
	why  string
	want outcome
}{
	2: {grid, outcome{Tokens: 2, Stamp: 1}},
	4: {grid, outcome{Tokens: 12, Stamp: 7}},
	5: {grid, outcome{Tokens: 1, Stamp: 59}},
	7: {grid, outcome{Tokens: 2, Stamp: 119}},

	14: {"the stamp is the item's and moves although this limit earns nothing", outcome{Tokens: 10_000, Stamp: day}},
	18: {exact, outcome{Wait: 600}},
	19: {exact, outcome{Wait: 60_000}},
	20: {exact, outcome{Tokens: -5000, Available: -5, Wait: 3600}},
	21: {oversize, outcome{Tokens: 100_000, Available: 100, Wait: never}},
	23: {"nothing is taken: admitted in debt too", outcome{OK: true, Tokens: -1, Available: -1}},
	24: {exact, outcome{Tokens: -1500, Available: -2, Wait: 1500}},
	25: {oversize + "; a share is one bucket", outcome{Tokens: 25_000, Available: 25, Wait: never}},
	26: {exact, outcome{Wait: 24_000}},
	27: {oversize + "; and no rate is undivided, its period is stretched", outcome{Wait: never}},
	28: {"soft limits are the caller's to let pass", outcome{Wait: 3000}},
	29: {grid + "; a line was 80 s on its way", outcome{Wait: day - 80*sec}},
	30: {exact + "; the stamp moves to now", outcome{Tokens: 83_333, Available: 83, Wait: 2500}},

	31: {exact, outcome{Wait: 60}},
	32: {exact, outcome{Wait: 999}},
	33: {exact, outcome{Wait: 1000}},
	34: {exact, outcome{Wait: 30_000}},
	35: {exact, outcome{Wait: day}},

	41: {"a credit never lifts a balance above capacity", outcome{Tokens: 100_000, Stamp: 6000}},
}

// TestPeerVectors requires every vector of the peer to be one of three: the same result
// here, a listed and intended difference, or a function of another package. The lists are
// exact: an entry that now agrees fails too.
func TestPeerVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/peer-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []peerVector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) != 76 {
		t.Errorf("%d vectors, want 76", len(vectors))
	}
	seen := map[string]bool{}
	for i, v := range vectors {
		seen[v.Fn] = true
		compute, here := ours[v.Fn]
		if _, other := elsewhere[v.Fn]; here == other {
			t.Errorf("vector %d: %s is to be either computed or listed as elsewhere", i, v.Fn)
		}
		if !here {
			continue
		}
		got, theirs := compute(v), v.theirs()
		d, listed := differs[i]
		switch {
		case !listed:
			if diff := cmp.Diff(theirs, got); diff != "" {
				t.Errorf("vector %d, %s %q: differs and is not listed (-peer +here):\n%s", i, v.Fn, v.Name, diff)
			}
		case got == theirs:
			t.Errorf("vector %d, %s %q: agrees; take it off the list (%s)", i, v.Fn, v.Name, d.why)
		default:
			if diff := cmp.Diff(d.want, got); diff != "" {
				t.Errorf("vector %d, %s %q: not as listed (%s) (-want +got):\n%s", i, v.Fn, v.Name, d.why, diff)
			}
		}
	}
	for i := range differs {
		if i < 0 || i >= len(vectors) || ours[vectors[i].Fn] == nil {
			t.Errorf("listed vector %d is not one that this package computes", i)
		}
	}
	for fn := range elsewhere {
		if !seen[fn] {
			t.Errorf("%s is listed as elsewhere but no vector is of it", fn)
		}
	}
}
