package httplimit_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// An item is an item of RateLimit or RateLimit-Policy, read by a parser that knows nothing
// of this package.
type item struct {
	name   string
	params map[string]any
}

func parseItems(t *testing.T, h http.Header, field string) (items []item) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil {
		t.Fatalf("%s: %q: %v", field, h.Values(field), err)
	}
	for _, member := range list {
		read := member.(httpsfv.Item)
		it := item{read.Value.(string), map[string]any{}}
		for _, name := range read.Params.Names() {
			it.params[name], _ = read.Params.Get(name)
		}
		items = append(items, it)
	}
	return items
}

// The fields of any admitted request are valid structured fields whose parameters the draft
// allows: q, w and r are integers, w is not 0, t is positive.
func TestFieldsAreStructuredFields(t *testing.T) {
	largest := limiter.Custom("largest", limiter.MaxTokens, limiter.MaxPeriod)
	all := []limiter.Limit{
		largest, limiter.PerSecond("A.b-c_d", 1), limiter.PerDay("slow", 1, limiter.Burst(1000)), limiter.PerHour("owes", 10),
	}
	o := httplimit.Options{
		Consume: map[string]int64{"largest": 0, "A.b-c_d": 1, "slow": 10, "owes": 1},
		Units:   map[string]string{"slow": "content-bytes", "largest": "concurrent-requests"},
	}
	h := func(_ http.ResponseWriter, r *http.Request) { _ = httplimit.Settle(r.Context(), "owes", 40) }
	inBubble(t, o, h, func(s *server) {
		for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
			w := s.get()
			s.want(w, status, nil)
			policies, left := parseItems(s.T, w.Header(), "RateLimit-Policy"), parseItems(s.T, w.Header(), "RateLimit")
			if len(policies) != len(all) || len(left) != len(all) {
				s.Fatalf("got %v and %v", policies, left)
			}
			for i, p := range policies {
				q, w := p.params["q"].(int64), p.params["w"].(int64)
				r := left[i].params["r"].(int64)
				if left[i].name != p.name || q < 0 || w <= 0 || r < 0 || p.params["pk"] != nil {
					s.Errorf("got %v and %v", p, left[i])
				}
				if window, ok := left[i].params["t"].(int64); ok && window <= 0 {
					s.Errorf("got %v", left[i])
				}
			}
			unit := map[string]any{}
			for _, p := range policies {
				unit[p.name] = p.params["qu"]
			}
			if unit["slow"] != "content-bytes" || unit["largest"] != "concurrent-requests" || unit["owes"] != nil {
				s.Errorf("got %v", unit)
			}
		}
	}, all...)
}

// The window of a quota is the period that is under way, and t and Retry-After end with it.
func TestAQuotasWindowIsItsPeriod(t *testing.T) {
	renews, err := limiter.ParseRenewal("month from day 15 at 06:30", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, httplimit.Options{XHeaders: true}, nil, func(s *server) {
		for _, period := range []struct{ days, hours int64 }{{31, 0}, {31, 0}, {29, 0}, {31, -1}} { // clocks change on 26 March 2000
			end := time.UnixMilli(renews.Next(time.Now().UnixMilli()))
			time.Sleep(1500 * time.Millisecond)
			left := strconv.FormatInt(int64((time.Until(end)+time.Second-1)/time.Second), 10)
			policy := `"requests";q=2;w=` + strconv.FormatInt((24*period.days+period.hours)*3600, 10)
			s.want(s.get(), http.StatusNoContent, map[string]string{"RateLimit-Policy": policy, "RateLimit": `"requests";r=1;t=` + left, "X-RateLimit-Limit": "2", "X-RateLimit-Reset": left})
			s.want(s.get(), http.StatusNoContent, map[string]string{"RateLimit-Policy": policy, "RateLimit": `"requests";r=0;t=` + left})
			s.want(s.get(), http.StatusTooManyRequests, map[string]string{"RateLimit-Policy": policy, "RateLimit": `"requests";r=0;t=` + left, "Retry-After": left})
			time.Sleep(time.Until(end) - time.Millisecond)
			s.want(s.get(), http.StatusTooManyRequests, map[string]string{"Retry-After": "1", "RateLimit-Policy": policy})
			time.Sleep(time.Millisecond)
		}
	}, limiter.Quota("requests", 2, renews))
}

// The window of a session is its length, and t and Retry-After end with it. A request that is
// refused begins none.
func TestASessionsWindowIsItsLength(t *testing.T) {
	renews, err := limiter.ParseRenewal("session 5h", "")
	if err != nil {
		t.Fatal(err)
	}
	const policy = `"requests";q=2;w=18000`
	inBubble(t, httplimit.Options{}, nil, func(s *server) {
		for range 2 {
			s.want(s.get(), http.StatusNoContent, map[string]string{"RateLimit-Policy": policy, "RateLimit": `"requests";r=1;t=18000`})
			time.Sleep(3 * time.Hour)
			s.want(s.get(), http.StatusNoContent, map[string]string{"RateLimit-Policy": policy, "RateLimit": `"requests";r=0;t=7200`})
			s.want(s.get(), http.StatusTooManyRequests, map[string]string{"RateLimit-Policy": policy, "RateLimit": `"requests";r=0;t=7200`, "Retry-After": "7200"})
			time.Sleep(3 * time.Hour) // an hour of it between two sessions
		}
	}, limiter.Quota("requests", 2, renews))
}

// A soft limit is in no field: a client that waits for it waits for nothing.
func TestASoftLimitIsInNoField(t *testing.T) {
	inBubble(t, httplimit.Options{XHeaders: true}, nil, func(s *server) {
		for range 3 {
			s.want(s.get(), http.StatusNoContent, map[string]string{"RateLimit-Policy": "", "RateLimit": "", "X-RateLimit-Limit": ""})
		}
	}, limiter.PerMinute("requests", 2, limiter.Soft()))
}

// The law behind t: within t seconds, r tokens are never refused.
func TestWhatIsLeftIsAdmittedWithinTheWindow(t *testing.T) {
	inBubble(t, httplimit.Options{}, nil, func(s *server) {
		for range 4 {
			left := parseItems(s.T, s.get().Header(), "RateLimit")[0].params
			r, window := left["r"].(int64), time.Duration(left["t"].(int64)*int64(time.Second))
			for range r {
				time.Sleep(window / time.Duration(r+1))
				s.want(s.get(), http.StatusNoContent, nil)
			}
			time.Sleep(17 * time.Second)
		}
	}, limiter.PerMinute("requests", 7, limiter.Burst(11)))
}

// Retry-After does not refer to an earlier instant than the end of an effective window
// (draft-ietf-httpapi-ratelimit-headers-11, section 6).
func TestRetryAfterIsNotBeforeTheWindowsEnd(t *testing.T) {
	o := httplimit.Options{Consume: map[string]int64{"a": 3, "b": 1}}
	inBubble(t, o, nil, func(s *server) {
		for range 40 {
			w := s.get()
			retry := w.Header().Get("Retry-After")
			for _, it := range parseItems(s.T, w.Header(), "RateLimit") {
				window, _ := it.params["t"].(int64)
				if limit, err := time.ParseDuration(retry + "s"); retry != "" && (err != nil || time.Duration(window)*time.Second > limit) {
					s.Errorf("Retry-After %q, but %v", retry, it)
				}
			}
			time.Sleep(1300 * time.Millisecond)
		}
	}, limiter.PerMinute("a", 60, limiter.Burst(10)), limiter.PerHour("b", 100, limiter.Burst(20)))
}

// The examples of draft-ietf-httpapi-ratelimit-headers-11, written with the limits that they
// describe. A bucket refills steadily, so t differs where the examples have fixed windows.
func TestTheDraftsExamples(t *testing.T) {
	t.Parallel()
	at := func(limit limiter.Limit, available int64) limiter.Status {
		return limiter.Status{Entity: "key-1", Limit: limit, Available: available}
	}
	for name, c := range map[string]struct {
		statuses      []limiter.Status
		units         map[string]string
		policy, limit string
	}{
		"3, two policies": {
			[]limiter.Status{at(limiter.PerMinute("burst", 100), 100), at(limiter.PerDay("daily", 1000), 1000)},
			nil,
			`"burst";q=100;w=60, "daily";q=1000;w=86400`, `"burst";r=100, "daily";r=1000`,
		},
		"3.2, a window": {
			[]limiter.Status{at(limiter.Custom("default", 100, 10*time.Second), 50)}, nil, `"default";q=100;w=10`, `"default";r=50;t=5`,
		},
		"3.2, a unit": {
			[]limiter.Status{at(limiter.Custom("peruser", 65535, 10*time.Second), 65535)},
			map[string]string{"peruser": "content-bytes"},
			`"peruser";q=65535;w=10;qu="content-bytes"`, `"peruser";r=65535`,
		},
		"B.1.2, the parent's limits are left out": {
			[]limiter.Status{at(limiter.PerDay("day", 5000), 100), {Entity: "acme", Limit: limiter.PerHour("hour", 1000)}},
			nil,
			`"day";q=5000;w=86400`, `"day";r=100;t=84672`,
		},
		"B.1.3, in debt": {
			[]limiter.Status{at(limiter.PerMinute("basic", 100), -20)}, nil, `"basic";q=100;w=60`, `"basic";r=0;t=72`,
		},
		"8.5, ten thousand in 1000 seconds": {
			[]limiter.Status{at(limiter.Custom("somepolicy", 10000, 1000*time.Second), 9900)},
			nil,
			`"somepolicy";q=10000;w=1000`, `"somepolicy";r=9900;t=10`,
		},
	} {
		h := http.Header{}
		httplimit.WriteFields(h, "key-1", c.statuses, c.units)
		if h.Get("RateLimit-Policy") != c.policy || h.Get("RateLimit") != c.limit {
			t.Errorf("%s: got %q and %q", name, h.Get("RateLimit-Policy"), h.Get("RateLimit"))
		}
		parseItems(t, h, "RateLimit-Policy")
		parseItems(t, h, "RateLimit")
	}
}

// Section 5.1 and appendix B.1.4: the members of a problem and their types.
func TestAProblemHasTheMembersOfTheDraft(t *testing.T) {
	inBubble(t, httplimit.Options{Consume: map[string]int64{"daily": 1, "bandwidth": 1}}, nil, func(s *server) {
		s.limits.Refuse("key-1", httplimit.DefaultResource)
		w := s.get()
		s.want(w, http.StatusTooManyRequests, nil)
		var p struct {
			Type, Title, Detail string
			Status              int
			Violated            []string `json:"violated-policies"`
		}
		strict := json.NewDecoder(w.Body)
		strict.DisallowUnknownFields()
		if err := strict.Decode(&p); err != nil {
			s.Fatal(err)
		}
		slices.Sort(p.Violated)
		if p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" ||
			p.Title != "Request cannot be satisfied as assigned quota has been exceeded" || p.Status != w.Code ||
			!slices.Equal(p.Violated, []string{"bandwidth", "daily"}) || !strings.HasSuffix(p.Detail, "left no room for this request. Retry in 86400 seconds.") {
			s.Errorf("got %+v", p)
		}
	}, limiter.PerDay("daily", 1), limiter.PerMinute("bandwidth", 10))
}

func TestAHeadRequestGetsTheSameFields(t *testing.T) {
	t.Parallel()
	s, url := start(t, httplimit.Options{}, nil, limiter.PerHour("requests", 1))
	s.limits.Refuse("key-1", httplimit.DefaultResource)
	r := request(t, t.Context(), url)
	r.Method = http.MethodHead
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("RateLimit-Policy") != `"requests";q=1;w=3600` {
		t.Errorf("got %s, %v", res.Status, res.Header)
	}
}

// Other protocols get the values that HTTP answers have, and the effective window ends with
// the wait of a refusal.
func TestOtherProtocolsGetTheSameFields(t *testing.T) {
	t.Parallel()
	limit := limiter.PerMinute("rpm", 60)
	statuses := []limiter.Status{{Entity: "key", Limit: limit, Available: 20}, {Entity: "parent", Limit: limit, Available: 1}}
	policy, left := httplimit.Fields(t.Context(), "key", statuses)
	if policy != `"rpm";q=60;w=60` || left != `"rpm";r=20;t=40` {
		t.Errorf("%s, %s", policy, left)
	}
	statuses[1].Exceeded, statuses[1].RetryAfter = true, 6500*time.Millisecond
	if _, left := httplimit.Fields(t.Context(), "key", statuses); left != `"rpm";r=20;t=7` {
		t.Errorf("of a refusal: %s", left)
	}
	if policy, left := httplimit.Fields(t.Context(), "nobody", statuses); policy != "" || left != "" {
		t.Errorf("of nobody: %s, %s", policy, left)
	}
}
