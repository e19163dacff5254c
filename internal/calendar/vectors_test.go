package calendar_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// A vector is a case of testdata/calendar.json: a question, and its answer as an independent oracle found it. The file is
// given; do not change it.
type vector struct {
	ID, Kind, Tag, Zone string
	Cron                []string
	T                   int64
	Spec                struct {
		Every, At      string
		Weekday, Month int
		Day            any // a number, or "last"
	}
	Anchor  int64
	Months  int
	Base    [3]int64
	Entries []struct {
		Cron     string
		Permille int64
		C, A, P  int64
	}
	Seconds int64
	Uses    []int64
	Want    struct {
		Start, End, Next *int64
		Week             int
		Index            int
		Params           [3]int64
		Windows          [][2]int64
		Refused          bool
		Compact          string
	}
}

// The vectors are 300 cases of all kinds: patterns at transitions of zones and far from them, what people write,
// anniversaries, schedules, sessions, refusals and encodings.
func TestVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/calendar.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []vector }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 300 {
		t.Fatalf("the file has %d cases, want 300", len(file.Cases))
	}
	for _, v := range file.Cases {
		t.Run(v.ID+"/"+v.Kind+"/"+v.Tag, func(t *testing.T) {
			t.Parallel()
			v.check(t)
		})
	}
}

func (v *vector) check(t *testing.T) {
	t.Helper()
	switch v.Kind {
	case "cron":
		r := parse(t, strings.Join(v.Cron, ";"), v.Zone)
		v.period(t, r)
		edges := 0
		for at := r.Next(v.T); at <= v.T+7*24*hour; at = r.Next(at) {
			edges++
		}
		if edges != v.Want.Week {
			t.Errorf("%v in %s: %d edges within a week of %d, want %d", v.Cron, v.Zone, edges, v.T, v.Want.Week)
		}
	case "civil":
		v.period(t, parse(t, v.words(), v.Zone))
	case "anniversary":
		v.period(t, parse(t, fmt.Sprintf("%d months since %s", v.Months, instant(v.Anchor)), v.Zone))
	case "schedule":
		v.schedule(t)
	case "session":
		r, err := calendar.NewSession(v.Seconds)
		if err != nil {
			t.Fatal(err)
		}
		p := calendar.Period{Start: v.Uses[0] - 1_000_000*hour}
		for i, use := range v.Uses {
			if p = r.Window(p.Start, use); [2]int64{p.Start, p.End} != v.Want.Windows[i] {
				t.Errorf("the window of use %d is %v, want %v", i, p, v.Want.Windows[i])
			}
		}
	case "refuse":
		if _, err := calendar.Parse(strings.Join(v.Cron, ";"), v.Zone); (err != nil) != v.Want.Refused {
			t.Errorf("%v in %s: %v; want refused %t", v.Cron, v.Zone, err, v.Want.Refused)
		}
	case "encode":
		v.encode(t)
	default:
		t.Fatalf("unknown kind %q", v.Kind)
	}
}

func (v *vector) period(t *testing.T, r *calendar.Renewal) {
	t.Helper()
	want := calendar.Period{Start: *v.Want.Start, End: *v.Want.End}
	if got := r.Period(v.T); got != want {
		t.Errorf("%s in %s: period of %s is %s, want %s", r, v.Zone, instant(v.T), span(got), span(want))
	}
	if got := r.Next(v.T); got != *v.Want.Next {
		t.Errorf("%s in %s: next after %s is %s, want %s", r, v.Zone, instant(v.T), instant(got), instant(*v.Want.Next))
	}
}

// words is what people write for a civil specification.
func (v *vector) words() string {
	s := v.Spec
	text := s.Every
	onDay := func(otherwise string) string {
		switch d := s.Day.(type) {
		case float64:
			return fmt.Sprint(d)
		case string:
			return "last"
		}
		return otherwise
	}
	switch s.Every {
	case "week":
		text += " from " + []string{"", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}[s.Weekday]
	case "month":
		text += " from day " + onDay("1")
		text = strings.Replace(text, "day last", "last day", 1)
	case "year":
		month := []string{
			"january", "january", "february", "march", "april", "may", "june",
			"july", "august", "september", "october", "november", "december",
		}[s.Month]
		text += " from " + onDay("1") + " " + month
	}
	if s.At != "" {
		text += " at " + s.At
	}
	return text
}

func (v *vector) changes() []calendar.Change {
	var changes []calendar.Change
	for _, e := range v.Entries {
		changes = append(changes, calendar.Change{Cron: e.Cron, Permille: e.Permille, Capacity: e.C, Amount: e.A, Seconds: e.P})
	}
	return changes
}

func (v *vector) schedule(t *testing.T) {
	t.Helper()
	s, err := calendar.NewSchedule(v.changes(), v.Zone)
	if err != nil {
		t.Fatal(err)
	}
	base := calendar.Params{Capacity: v.Base[0], Amount: v.Base[1], Period: v.Base[2]}
	p, index := s.At(v.T, base)
	if got := [3]int64{p.Capacity, p.Amount, p.Period}; index != v.Want.Index || got != v.Want.Params {
		t.Errorf("entry %d is in force with %v, want %d with %v", index, got, v.Want.Index, v.Want.Params)
	}
	switch next, ok := s.NextChange(v.T); {
	case ok != (v.Want.Next != nil):
		t.Errorf("next change %s, %t; want one: %t", instant(next), ok, v.Want.Next != nil)
	case ok && next != *v.Want.Next:
		t.Errorf("next change after %s at %s, want %s", instant(v.T), instant(next), instant(*v.Want.Next))
	}
}

// An encoding is what the peer writes, and decodes to what was encoded.
func (v *vector) encode(t *testing.T) {
	t.Helper()
	if changes := v.changes(); changes[0].Permille != 0 || changes[0].Capacity+changes[0].Amount+changes[0].Seconds != 0 {
		s, err := calendar.NewSchedule(changes, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Encode(); got != v.Want.Compact {
			t.Errorf("encodes as %q, want %q", got, v.Want.Compact)
		}
		if again, err := calendar.DecodeSchedule(v.Want.Compact, "UTC"); err != nil || again != s {
			t.Errorf("%q decodes as %+v, %v; want what was encoded", v.Want.Compact, again, err)
		}
		return
	}
	var crons []string
	for _, e := range v.Entries {
		crons = append(crons, e.Cron)
	}
	r := parse(t, strings.Join(crons, ";"), "UTC")
	if got, ok := r.Encode(); !ok || got != v.Want.Compact || !r.ForPeer() {
		t.Errorf("encodes as %q, %t; want %q, for the peer", got, ok, v.Want.Compact)
	}
	if again, err := calendar.Decode(v.Want.Compact, "UTC"); err != nil || again != r {
		t.Errorf("%q decodes as %v, %v; want what was encoded", v.Want.Compact, again, err)
	}
}
