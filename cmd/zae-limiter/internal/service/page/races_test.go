package page_test

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/store"
)

// everyEdit has the fields of an edit of each kind.
var everyEdit = [][]string{
	{"do", "set-limits", "limits", "rpm:7"},
	{"do", "delete-limits"},
	{"do", "top-up", "limit", "rpm", "amount", "3", "reason", "asked"},
	{"do", "reset", "reason", "asked"},
	{"do", "disable", "reason", "abuse"},
	{"do", "enable", "reason", "abuse", "until", "2h"},
	{"do", "bypass", "reason", "a demo"},
	{"do", "clear", "reason", "was none"},
	{"do", "disable", "reason", "abuse", "all", "1"},
}

// actions are those of the audit events of key-1, the newest first.
func (o *office) actions() (all []string) {
	o.Helper()
	page, err := o.limits.Store.AuditEvents(o.Context(), audit.Query{Entity: "key-1", Limit: 100})
	if err != nil {
		o.Fatal(err)
	}
	for _, e := range page.Events {
		all = append(all, e.Action)
	}
	return all
}

// The write of each edit notices a change of the level that is made just before it: also the first one of a level
// that has nothing.
func TestAChangeJustBeforeTheWrite(t *testing.T) {
	for _, isFirst := range []bool{true, false} {
		for _, fields := range everyEdit {
			t.Run(fields[1]+strconv.FormatBool(isFirst), func(t *testing.T) {
				inOffice(t, func(o *office) {
					level := store.ConfigKey{Entity: "key-1", Resource: "gpt-4"}
					if slices.Contains(fields, "all") {
						level.Resource = store.DefaultResource
					}
					set := func(n int64) {
						if err := o.limits.Store.SetLimits(o.Context(), level, []store.Limit{limiter.PerMinute("rpm", n)}); err != nil {
							o.Error(err)
						}
					}
					if !isFirst {
						set(100)
					}
					if err := o.take("key-1", "rpm", 6); err != nil {
						o.Fatal(err)
					}
					form, _ := o.previewed(fields...)
					o.beforeCall = func() { set(101) }
					w := o.post("/ui/apply", form)
					if w.Code != http.StatusConflict {
						o.Errorf("%d", w.Code)
					}
					o.wants(w.Body.String(), "nothing was changed now")
					want := []string{audit.LimitsSet, audit.LimitsSet}[:map[bool]int{true: 1, false: 2}[isFirst]]
					if got := o.actions(); !slices.Equal(got, want) {
						o.Errorf("events: %v", got)
					}
					if c, err := o.limits.Store.Limits(o.Context(), level); err != nil || len(c.Limits) != 1 || c.Limits[0].Capacity != 101 || c.Disabled.Policy != store.Inherit {
						o.Errorf("the level is %+v, %v", c, err)
					}
				}, limiter.PerMinute("rpm", 10))
			})
		}
	}
}

// A change of balances notices one that a command made since the preview, with a key of its own, or none.
func TestACommandSinceThePreview(t *testing.T) {
	for _, fields := range everyEdit {
		if fields[1] != "top-up" && fields[1] != "reset" {
			continue // they change the level, of which the version tells
		}
		for _, key := range []string{"", "its-own"} {
			t.Run(fields[1]+" "+key, func(t *testing.T) {
				inOffice(t, func(o *office) {
					if err := o.take("key-1", "rpm", 9); err != nil {
						o.Fatal(err)
					}
					form, _ := o.previewed(fields...)
					command := dynamo.TopUp{Entity: "key-1", Resource: "gpt-4", Amounts: map[string]int64{"rpm": 1}, Cause: dynamo.Cause{Reason: "asked", Key: key}}
					if _, err := o.limits.Store.TopUpBucket(o.Context(), command); err != nil {
						o.Fatal(err)
					}
					w := o.post("/ui/apply", form)
					if got := o.actions(); w.Code != http.StatusConflict || len(got) != 1 {
						o.Errorf("%d, and %v", w.Code, got)
					}
				}, limiter.PerMinute("rpm", 10))
			})
		}
	}
}

// Of operators who have seen one page, one makes a change of a kind, whatever they race with: one after the other,
// all at once, and one within the call of another. The others are told to look again, and a new preview sees what
// was changed.
func TestOneOfManyOperatorsOfAPageWins(t *testing.T) {
	const operators = 5
	for _, fields := range everyEdit {
		if fields[1] == "clear" || fields[1] == "delete-limits" {
			continue // it changes nothing of a level that has nothing
		}
		for _, way := range []string{"in turn", "at once", "within"} {
			t.Run(fields[1]+" "+way, func(t *testing.T) {
				inOffice(t, func(o *office) {
					if err := o.take("key-1", "rpm", 9); err != nil {
						o.Fatal(err)
					}
					forms := make([]url.Values, operators)
					for i := range forms {
						forms[i], _ = o.previewed(fields...)
					}
					codes := make([]int, operators)
					apply := func(i int) {
						mine := *o
						mine.jar = map[string]string{"zael-csrf": o.jar["zael-csrf"]}
						codes[i] = mine.post("/ui/apply", forms[i]).Code
					}
					switch way {
					case "within":
						o.beforeCall = func() {
							o.beforeCall = nil
							apply(1)
						}
						apply(0)
						codes = codes[:2]
					case "in turn":
						for i := range forms {
							apply(i)
						}
					default:
						var all sync.WaitGroup
						for i := range forms {
							all.Go(func() { apply(i) })
						}
						all.Wait()
					}
					if winners(t, codes) != 1 || len(o.actions()) != 1 {
						o.Errorf("%v: %v", codes, o.actions())
					}
					again, _ := o.previewed("do", "top-up", "limit", "rpm", "amount", "1", "reason", "asked")
					if w := o.post("/ui/apply", again); w.Code != http.StatusSeeOther {
						o.Errorf("a new preview: %d", w.Code)
					}
				}, limiter.PerMinute("rpm", 10))
			})
		}
	}
}

// A change of balances is possible although its key was used and no later event is there: a clock was behind, or
// the events have expired. Those who preview that again have one key again.
func TestAKeyWithoutItsEvent(t *testing.T) {
	inOffice(t, func(o *office) {
		if err := o.take("key-1", "rpm", 9); err != nil {
			o.Fatal(err)
		}
		fields := everyEdit[2]
		if err := o.limits.Store.SetAuditRetention(o.Context(), 1); err != nil {
			o.Fatal(err)
		}
		first, _ := o.previewed(fields...)
		if w := o.post("/ui/apply", first); w.Code != http.StatusSeeOther {
			o.Fatal(w.Code)
		}
		time.Sleep(48 * time.Hour) // the event has expired, and the key has not
		if err := o.take("key-1", "rpm", 9); err != nil || len(o.actions()) != 0 {
			o.Fatal(err, o.actions())
		}
		one, _ := o.previewed(fields...)
		two, _ := o.previewed(fields...)
		if key := one.Get("key"); key == first.Get("key") || key != two.Get("key") {
			o.Errorf("keys %q, %q, %q", first.Get("key"), key, two.Get("key"))
		}
		for i, want := range []int{http.StatusSeeOther, http.StatusConflict} {
			if w := o.post("/ui/apply", []url.Values{one, two}[i]); w.Code != want {
				o.Errorf("%d: %d", i, w.Code)
			}
		}
	}, limiter.PerMinute("rpm", 10))
}

// winners is how many of the operators who raced changed something, by the codes of their answers. The others are told
// to look again.
func winners(t *testing.T, codes []int) (n int) {
	t.Helper()
	for _, code := range codes {
		switch code {
		case http.StatusSeeOther:
			n++
		case http.StatusConflict:
		default:
			t.Errorf("answered %d", code)
		}
	}
	return n
}
