package diary_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

const monday = 495_020 // an hour

var roomy = diary.Room(0)

func entry(hour int32, acquires, rpm, tpm int64) diary.Entry {
	return diary.Entry{Hour: hour, Amounts: []store.Amount{{Limit: "", Milli: acquires}, {Limit: "rpm", Milli: rpm}, {Limit: "tpm", Milli: tpm}}}
}

func build(entries ...diary.Entry) (text string) {
	for _, e := range entries {
		text = diary.Append(text, e)
	}
	return text
}

func TestText(t *testing.T) {
	t.Parallel()
	text := build(
		entry(monday, 60, 60_000, 60_000_000),
		entry(monday+1, 60, 60_000, 60_000_000),
		entry(monday+25, 2, 2000, -1234),
		diary.Entry{Hour: monday + 26, Amounts: []store.Amount{{Limit: "", Milli: 1}, {Limit: "rpd", Milli: 1000}}},
		entry(monday+27, 0, 0, 0),
		entry(monday+28, 0, 0, 5000),
	)
	if want := "[,rpm,tpm]alyk:1o=,1aao;1o=,1aao;o:2=,.-ya;[rpd]1,,,1;2:,,5;"; text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if got, want := diary.After(text, monday+25), "[,rpd]alza:1=;[tpm]2:,,5;"; got != want {
		t.Errorf("after the third hour: got %s, want %s", got, want)
	}
	if got := diary.After(text, monday+28); got != "" {
		t.Errorf("after all hours: %s", got)
	}
}

func TestHours(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 1, 13, 59, 59, 999e6, time.UTC)
	if got, want := diary.Start(diary.HourOf(at.UnixMilli())), at.Truncate(time.Hour); !got.Equal(want) {
		t.Errorf("%s begins at %s, want %s", at, got, want)
	}
	if got, want := diary.HourOf(at.UnixMilli()+1), diary.HourOf(at.UnixMilli())+1; got != want {
		t.Errorf("a millisecond later is hour %d, want %d", got, want)
	}
}

// An hour of a text costs no more bytes than stated; the names and the first hour come
// once.
func TestSize(t *testing.T) {
	t.Parallel()
	const hours = 24
	for name, c := range map[string]struct {
		distance         int32
		acq, tokens, max int64
	}{
		"an acquire a day":        {24, 1, 850_000, 8},
		"an acquire an hour":      {1, 1, 850_000, 6},
		"an acquire a minute":     {1, 60, 60_000_000, 9},
		"an acquire a second":     {1, 3600, 2_000_000_000, 11},
		"50 acquires a second":    {1, 180_000, 90_000_000_000, 13},
		"fractions of tokens":     {1, 60, 60_000_123, 12},
		"one token of each limit": {1, 60, 60_000, 5},
	} {
		text := ""
		for i := range int32(hours + 1) {
			text = diary.Append(text, entry(monday+i*c.distance, c.acq, c.acq*1000, c.tokens))
		}
		first := diary.Append("", entry(monday, c.acq, c.acq*1000, c.tokens))
		each := float64(len(text)-len(first)) / hours
		t.Logf("%-24s %4.1f bytes an hour, full after %d hours", name, each, fullAfter(c.distance, c.acq, c.tokens))
		if each > float64(c.max) {
			t.Errorf("%s: %.1f bytes an hour, want at most %d: %s", name, each, c.max, text)
		}
	}
}

func fullAfter(distance int32, acquires, tokens int64) (hours int32) {
	text := ""
	for ; !diary.IsFull(text, roomy); hours++ {
		text = diary.Append(text, entry(monday+hours*distance, acquires, acquires*1000, tokens))
	}
	return hours
}

func TestRoom(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int]int{0: 160, 400: 160, 848: 160, 849: 159, 1000: 8, 1008: 0, 1009: 160, 1872: 160, 2000: 32} {
		if got := diary.Room(bytes); got != want {
			t.Errorf("an item of %d bytes has room for %d, want %d", bytes, got, want)
		}
	}
}

func TestFull(t *testing.T) { // counts allocations, so not parallel
	one := []store.Amount{{Limit: "", Milli: 1}}
	text := ""
	for i := range int32(32) {
		if diary.IsFull(text, roomy) {
			t.Fatalf("full with %d hours and %d bytes", i, len(text))
		}
		text = diary.Append(text, diary.Entry{Hour: monday + i, Amounts: one})
	}
	if !diary.IsFull(text, roomy) || !diary.IsFull(strings.Repeat("x", 160), roomy) || diary.IsFull(strings.Repeat("x", 159), roomy) {
		t.Error("a text is full with 32 hours or 160 bytes")
	}
	if !diary.IsFull("xx", 2) || diary.IsFull("x", 2) || diary.IsFull("", 0) {
		t.Error("a text is full if the item has no more room, but not if it is empty")
	}
	if n := testing.AllocsPerRun(100, func() { diary.IsFull(text, roomy) }); n != 0 {
		t.Errorf("IsFull allocates %.0f times", n)
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	const good = "[,rpm]alyk:1o=;"
	for name, text := range map[string]string{
		"no end of names":      good + "[tpm",
		"a name twice":         good + "[rpm]1;",
		"another and a name":   good + "[tpm,rpm]1;",
		"no name of a limit":   good + "[1x]1;",
		"the hidden limit":     good + "[wcu]1;",
		"cut":                  good + "1o",
		"a distance":           good + "?:1;",
		"an empty distance":    good + ":1;",
		"an hour out of range": good + "zzzzzzz:1;",
		"an amount":            good + "?;",
		"an amount of 0":       good + "0;",
		"too large":            good + ",1y2p0ij32e8e7;",
		"part of an acquire":   good + ".1;",
		"too many amounts":     good + "1,1,1;",
		"no amount":            good + ";",
		"empty amounts":        good + ",,;",
	} {
		found, err := diary.Parse(text)
		damaged := (*diary.TextError)(nil)
		if !errors.As(err, &damaged) || damaged.At < len(good) || len(found) != 1 {
			t.Errorf("%s: got %v and error %v, want the entry before the damage", name, found, err)
		}
		healed := diary.Append(text, entry(monday+1, 1, 0, 9000))
		if found, err := diary.Parse(healed); err != nil || len(found) != 2 || healed[:len(good)] != good {
			t.Errorf("%s: %s has %v, error %v", name, healed, found, err)
		}
	}
}

func TestNamesThatNoLimitHas(t *testing.T) {
	t.Parallel()
	e := diary.Entry{Hour: monday, Amounts: []store.Amount{{Limit: "a]", Milli: 1}, {Limit: "wcu", Milli: 1}}}
	if got := diary.Append("", e); got != "" {
		t.Errorf("got %s", got)
	}
}

func entries(t *rapid.T) []diary.Entry {
	names := rapid.OneOf(rapid.SampledFrom([]string{"", "rpm", "tpm", "a.b", "a-b", "a_b"}), rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_.-]{0,63}`))
	amounts := rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Map(rapid.Int64Range(-3, 3), func(n int64) int64 { return n * 1000 }),
		rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, math.MinInt64 + 808, math.MaxInt64 - 807}))
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) diary.Entry {
		e := diary.Entry{Hour: rapid.OneOf(rapid.Int32Range(monday, monday+100), rapid.Int32()).Draw(t, "hour")}
		for _, name := range rapid.SliceOfNDistinct(names, 0, 6, rapid.ID[string]).Draw(t, "names") {
			e.Amounts = append(e.Amounts, store.Amount{Limit: name, Milli: amounts.Draw(t, "amount")})
		}
		return e
	}), 0, 20).Draw(t, "entries")
}

// meant are entries as a text keeps them, with the amounts of each by name.
func meant(all []diary.Entry) (kept []diary.Entry) {
	for _, e := range all {
		var amounts []store.Amount
		for _, a := range e.Amounts {
			if a.Milli != 0 && a.Limit != store.WriteLimit {
				amounts = append(amounts, a)
			}
		}
		if len(amounts) > 0 {
			slices.SortFunc(amounts, func(a, b store.Amount) int { return cmp.Compare(a.Limit, b.Limit) })
			kept = append(kept, diary.Entry{Hour: e.Hour, Amounts: amounts})
		}
	}
	return kept
}

// Parse is the inverse of Append, and After cuts what it says.
func roundTripLaw(t *rapid.T) {
	all := entries(t)
	text := build(all...)
	found, err := diary.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(meant(all), meant(found)); diff != "" {
		t.Fatalf("%s (-appended +parsed):\n%s", text, diff)
	}
	inJSON, err := json.Marshal(text)
	if err != nil || string(inJSON) != `"`+text+`"` {
		t.Fatalf("in JSON: %s", inJSON)
	}
	cut := rapid.Int32Range(monday, monday+100).Draw(t, "cut")
	left, err := diary.Parse(diary.After(text, cut))
	if err != nil {
		t.Fatal(err)
	}
	late := slices.DeleteFunc(meant(all), func(e diary.Entry) bool { return e.Hour <= cut })
	if diff := gocmp.Diff(late, meant(left), gocmp.Transformer("empty", func(e []diary.Entry) []diary.Entry { return append([]diary.Entry{}, e...) })); diff != "" {
		t.Fatalf("%s after %d (-want +got):\n%s", text, cut, diff)
	}
}

func TestRoundTrip(t *testing.T) { t.Parallel(); rapid.Check(t, roundTripLaw) }

func FuzzRoundTrip(f *testing.F) { f.Fuzz(rapid.MakeFuzz(roundTripLaw)) }

// Any text is read or refused; what is read can be written again, and an entry that is
// appended is read as the last one.
func FuzzAnyText(f *testing.F) {
	f.Add("[,rpm,tpm]alyk:1o=,1aao;1o=,1aao;o:2=,.-ya;[rpd]1,,,1;")
	f.Add("[a]1;[")
	f.Add("[a]-ZIK0ZK:1;1nchbxj:1;") // the first hour and the last
	f.Fuzz(func(t *testing.T, text string) {
		found, err := diary.Parse(text)
		if again, err := diary.Parse(build(found...)); err != nil || !gocmp.Equal(meant(found), meant(again)) {
			t.Errorf("%q: read %v, written and read %v, error %v", text, found, again, err)
		}
		if err == nil {
			after := diary.After(text, math.MinInt32)
			if got, err := diary.Parse(after); err != nil || len(got) > len(found) {
				t.Errorf("%q: after the first hour %q, error %v", text, after, err)
			}
		}
		last := entry(monday, 1, 2000, 3)
		more, err := diary.Parse(diary.Append(text, last))
		if err != nil || len(more) != len(found)+1 || !gocmp.Equal(meant(more[len(found):]), meant([]diary.Entry{last})) {
			t.Errorf("%q: with another entry %v, error %v", text, more, err)
		}
	})
}
