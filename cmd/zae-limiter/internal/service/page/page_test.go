package page_test

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/store"
)

// The overview shows who is near a limit, the nearest first, and can be narrowed.
func TestTheOverview(t *testing.T) {
	inOffice(t, func(o *office) {
		for entity, n := range map[string]int64{"key-1": 9, "key-2": 5} {
			if err := errors.Join(o.take(entity, "rpm", n), o.take(entity, "tpm", 1)); err != nil {
				o.Fatal(err)
			}
		}
		text := o.must("/ui/")
		o.wants(text, "> 90 %", `aria-label="90 % used"`, "> 50 %", "4 limits")
		if strings.Index(text, "key-1") > strings.Index(text, "key-2") {
			o.Error("the nearest is not the first")
		}
		if text := o.must("/ui/?resource=gpt-4&limit=tpm"); strings.Contains(text, "90 %") || !strings.Contains(text, "2 limits") {
			o.Error(text)
		}
		o.wants(o.must("/ui/?resource=other"), "has a bucket of resource other")
		for _, wrong := range []string{"page=0", "page=x", "resource=%00"} {
			if w := o.get("/ui/?" + wrong); w.Code != http.StatusBadRequest {
				o.Errorf("%s: %d", wrong, w.Code)
			}
		}
		o.wants(o.must("/ui/?page=99"), "Page 1 of 1")
	}, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 1000))
}

// The page of an entity shows each limit with that of the parent, and which of both binds; the exact wait; the
// levels; usage; the refusals; and the changes.
func TestThePageOfAnEntity(t *testing.T) {
	inOffice(t, func(o *office) {
		ctx := o.Context()
		for _, e := range []store.Entity{{ID: "team"}, {ID: "key-1", Parent: "team", Cascade: true}} {
			if _, err := o.limits.Store.CreateEntity(ctx, e); err != nil {
				o.Fatal(err)
			}
		}
		if err := o.limits.Store.SetLimits(ctx, store.ConfigKey{Entity: "key-1", Resource: "gpt-4"}, []store.Limit{limiter.PerMinute("rpm", 60), limiter.PerMinute("own", 5), limiter.PerMinute("dark", 5, limiter.InShadow(0))}); err != nil {
			o.Fatal(err)
		}
		if err := o.take("key-1", "rpm", 8); err != nil {
			o.Fatal(err)
		}
		refused := o.take("key-1", "rpm", 4)
		exceeded := (*limiter.ExceededError)(nil)
		if !errors.As(refused, &exceeded) {
			o.Fatal(refused)
		}
		text := o.must("/ui/entity?id=key-1&resource=gpt-4")
		o.wants(text, "52 of 60", "2 of 10", "<td>parent</td>", "no such limit", "<td>own</td>", "the entity, for gpt-4", "<code>rpm:60/min</code>", "entity_created", "limits_set",
			exceeded.RetryAfter().String(), "asked for 4, had 2 of 10", "request req-key-1", "Tokens of rpm, hourly", "<desc>8 tokens in 48 windows", "Preview setting them", `value="dark:5/min:shadow, own:5/min, rpm:60/min"`, `<span class="mode">shadow</span>`, "<td>none</td>")
		if strings.Contains(text, "enforce") {
			o.Error("a limit that is enforced has a mark")
		}
		if got := o.must("/ui/entity?id=key-1"); !strings.Contains(got, "Balances for gpt-4") {
			o.Error("no resource is chosen")
		}
		part := o.must("/ui/entity?id=key-1&resource=gpt-4&part=live")
		o.wants(part, "52 of 60", "2 of 10")
		if strings.Contains(part, "<html") || strings.Contains(part, "limits_set") {
			o.Error("the live part is more than that")
		}
		o.wants(o.must("/ui/entity?id=nobody"), "no bucket and no limits of its own")
	}, limiter.PerMinute("rpm", 10))
}

// The page finds a refusal by its ID or by that of the request, and says which limit refused.
func TestThePageOfRefusals(t *testing.T) {
	inOffice(t, func(o *office) {
		ctx := o.log.Follow(o.Context(), "abc-1")
		_, err := o.limiter.Acquire(ctx, limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpm": 11}})
		if !errors.Is(err, limiter.ErrExceeded) {
			o.Fatal(err)
		}
		if err := o.take("key-2", "rpm", 12); !errors.Is(err, limiter.ErrExceeded) {
			o.Fatal(err)
		}
		for _, query := range []string{"id=" + o.log.IDOf(ctx), "id=abc-1", "entity=key-1", "entity=key-1&limit=rpm&resource=gpt-4"} {
			text := o.must("/ui/refusals?" + query)
			o.wants(text, "asked for 11, had 10 of 10, wait never", o.log.IDOf(ctx), "by this process only")
			if strings.Contains(text, "asked for 12") {
				o.Errorf("%s finds others", query)
			}
		}
		o.wants(o.must("/ui/refusals?id=x"), "Another replica may")
		for _, k := range []store.ConfigKey{{Entity: "team", Resource: "gpt-4"}, {Entity: "key-3", Resource: store.DefaultResource}} {
			if _, err := o.limits.Store.SetSwitch(ctx, k, dynamo.Switch{Policy: store.Yes}, nil); err != nil {
				o.Fatal(err)
			}
		}
		for _, e := range []store.Entity{{ID: "team"}, {ID: "key-4", Parent: "team", Cascade: true}} {
			if _, err := o.limits.Store.CreateEntity(ctx, e); err != nil {
				o.Fatal(err)
			}
		}
		for entity, want := range map[string]string{"key-3": "an operator: disabled", "key-4": "an operator: team is disabled"} {
			if err := o.take(entity, "rpm", 1); !errors.Is(err, limiter.ErrDisabled) {
				o.Fatal(err)
			}
			o.wants(o.must("/ui/refusals?id=req-"+entity), want)
			o.wants(o.must("/ui/entity?id="+entity+"&resource=gpt-4"), want)
		}
		o.wants(o.must("/ui/refusals?entity=team"), "req-key-4")
	}, limiter.PerMinute("rpm", 10))
}

// Each role sees its pages. A role of another namespace sees none.
func TestRolesOfThePages(t *testing.T) {
	inGuardedOffice(t, func(o *office) {
		const good, forbidden, unproven = http.StatusOK, http.StatusForbidden, http.StatusUnauthorized
		const entity = "/ui/entity?id=key-1&resource=gpt-4"
		if err := o.take("key-1", "rpm", 1); err != nil {
			o.Fatal(err)
		}
		for token, want := range map[string]map[string]int{
			"read": {"/ui/": good, entity: good, "/ui/limits": good, "/ui/refusals": good, "/ui/preview": forbidden, "/ui/apply": forbidden},
			"call": {"/ui/": good, entity: good, "/ui/limits": forbidden, "/ui/refusals": forbidden, "/ui/preview": forbidden, "/ui/apply": forbidden},
			"main": {"/ui/": good, entity: good, "/ui/limits": good, "/ui/refusals": good, "/ui/preview": good, "/ui/apply": http.StatusSeeOther},
			"else": {"/ui/": forbidden, entity: forbidden, "/ui/limits": forbidden, "/ui/refusals": forbidden, "/ui/preview": forbidden, "/ui/apply": forbidden},
			"none": {"/ui/": unproven, entity: unproven, "/ui/limits": unproven, "/ui/refusals": unproven, "/ui/preview": unproven, "/ui/apply": unproven},
			"":     {"/ui/": unproven, entity: unproven, "/ui/limits": unproven, "/ui/refusals": unproven, "/ui/preview": unproven, "/ui/apply": unproven},
		} {
			clear(o.jar)
			o.get("/ui/") // for the cookie of forms
			for path, code := range want {
				field := "Bearer " + token + "-0123456789ab"
				if token == "" {
					field = ""
				}
				var got int
				if path == "/ui/preview" || path == "/ui/apply" {
					got = o.post(path, url.Values{
						"csrf": {o.jar["zael-csrf"]}, "do": {"top-up"}, "entity": {"key-1"}, "resource": {"gpt-4"}, "limit": {"rpm"}, "amount": {"1"},
						"reason": {"asked"}, "version": {"none"}, "key": {"k"},
					}, "Authorization", field).Code
				} else {
					r, err := http.NewRequestWithContext(o.Context(), http.MethodGet, path, http.NoBody)
					if err != nil {
						o.Fatal(err)
					}
					r.Header.Set("Authorization", field)
					w := o.send(r)
					got = w.Code
					if text := w.Body.String(); token == "call" && path == entity && (!strings.Contains(text, " of 10") || strings.Contains(text, "Where the limits come from") || strings.Contains(text, "Preview")) {
						o.Errorf("a caller sees %s", text)
					}
					if token == "read" && strings.Contains(w.Body.String(), "Preview") {
						o.Error("a reader has forms")
					}
				}
				if got != code {
					o.Errorf("%s with %q: %d, want %d", path, token, got, code)
				}
			}
		}
		events, err := o.limits.Store.AuditEvents(o.Context(), audit.Query{Entity: "key-1", Limit: 10})
		if err != nil || len(events.Events) != 1 || events.Events[0].Principal != "ann" || events.Events[0].Action != audit.BucketToppedUp {
			o.Errorf("%+v, %v", events.Events, err)
		}
	}, limiter.PerMinute("rpm", 10))
}

// A visitor signs in with a token, which a cookie keeps, and signs out again.
func TestSigningIn(t *testing.T) {
	inGuardedOffice(t, func(o *office) {
		sign := func(token string) int {
			form := formOf(o.get("/ui/").Body.String(), "/ui/login")
			form.Set("token", token)
			return o.post("/ui/login", form).Code
		}
		if code := sign("wrong-0123456789ab"); code != http.StatusSeeOther {
			o.Fatal(code)
		}
		if w := o.get("/ui/"); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "not valid") {
			o.Errorf("%d %s", w.Code, w.Body)
		}
		if code := sign(strings.Repeat("x", 4000)); code != http.StatusBadRequest {
			o.Error(code)
		}
		if code := sign("main-0123456789ab"); code != http.StatusSeeOther {
			o.Fatal(code)
		}
		text := o.must("/ui/")
		o.wants(text, "Sign out ann")
		if strings.Contains(text, "main-0123456789ab") {
			o.Error("the page has the token")
		}
		if code := o.post("/ui/logout", formOf(text, "/ui/logout")).Code; code != http.StatusSeeOther {
			o.Error(code)
		}
		if w := o.get("/ui/"); w.Code != http.StatusUnauthorized {
			o.Error(w.Code)
		}
	})
}

// A form that is not of the page changes nothing: without the text of the cookie, with an old one, or sent by
// another site.
func TestFormsOfOthers(t *testing.T) {
	inOffice(t, func(o *office) {
		good, _ := o.previewed("do", "set-limits", "limits", "rpm:7")
		with := func(field, value string) url.Values {
			form := url.Values{}
			maps.Copy(form, good)
			if form.Set(field, value); value == "" {
				form.Del(field)
			}
			return form
		}
		for name, code := range map[string]int{
			"missing": o.post("/ui/apply", with("csrf", "")).Code,
			"stale":   o.post("/ui/apply", with("csrf", strings.Repeat("A", 26))).Code,
			"short":   o.post("/ui/apply", with("csrf", "A")).Code,
			"site":    o.post("/ui/apply", good, "Sec-Fetch-Site", "cross-site").Code,
			"origin":  o.post("/ui/apply", good, "Origin", "http://evil.example").Code,
			"huge":    o.post("/ui/apply", with("limits", strings.Repeat("x", 1<<20))).Code,
			"login":   o.post("/ui/login", url.Values{"token": {"x"}}).Code,
			"logout":  o.post("/ui/logout", url.Values{}).Code,
			"preview": o.post("/ui/preview", with("csrf", "")).Code,
			"query":   o.post("/ui/apply?"+good.Encode(), url.Values{}).Code,
		} {
			if code != http.StatusForbidden {
				o.Errorf("%s: %d", name, code)
			}
		}
		kept := o.jar
		o.jar = map[string]string{}
		if code := o.post("/ui/apply", good).Code; code != http.StatusForbidden {
			o.Errorf("without the cookie: %d", code)
		}
		if code := o.post("/ui/apply", with("csrf", "")).Code; code != http.StatusForbidden {
			o.Errorf("without both: %d", code)
		}
		o.jar = kept
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			r, err := http.NewRequestWithContext(o.Context(), method, "/ui/apply?"+good.Encode(), http.NoBody)
			if err != nil {
				o.Fatal(err)
			}
			if w := o.send(r); w.Code != http.StatusMethodNotAllowed {
				o.Errorf("%s: %d", method, w.Code)
			}
		}
		if _, err := o.limits.Store.Limits(o.Context(), store.ConfigKey{Entity: "key-1", Resource: "gpt-4"}); !errors.Is(err, store.ErrNotFound) {
			o.Errorf("the level was changed: %v", err)
		}
		if code := o.post("/ui/apply", good).Code; code != http.StatusSeeOther {
			o.Errorf("the form itself: %d", code)
		}
	}, limiter.PerMinute("rpm", 10))
}

// An edit is previewed, applied and audited. The preview changes nothing.
func TestEdits(t *testing.T) {
	inOffice(t, func(o *office) {
		own := store.ConfigKey{Entity: "key-1", Resource: "gpt-4"}
		if err := o.take("key-1", "rpm", 6); err != nil {
			o.Fatal(err)
		}
		apply, text := o.previewed("do", "set-limits", "limits", "rpm:20/min, tpm:500@day")
		o.wants(text, "Nothing was changed yet", "<ins>rpm:20/min</ins>", "<ins>tpm:500@day</ins>", "Apply: Set limits")
		if _, err := o.limits.Store.Limits(o.Context(), own); !errors.Is(err, store.ErrNotFound) {
			o.Errorf("the preview has changed the level: %v", err)
		}
		done := func(form url.Values) string {
			o.Helper()
			w := o.post("/ui/apply", form)
			if w.Code != http.StatusSeeOther {
				o.Fatalf("%d %s", w.Code, w.Body)
			}
			return o.must(w.Header().Get("Location"))
		}
		o.wants(done(apply), "Done: Set limits.", "<code>rpm:20/min</code>")
		apply, text = o.previewed("do", "set-limits", "limits", "rpm:30")
		o.wants(text, "<del>rpm:20/min</del>", "<ins>rpm:30/min</ins>", "<del>tpm:500@day</del></td><td>none")
		done(apply)
		apply, text = o.previewed("do", "top-up", "limit", "rpm", "amount", "3", "reason", "they <b>asked</b>")
		o.wants(text, "rpm gets 3", "they &lt;b&gt;asked")
		o.wants(done(apply), "bucket_topped_up", "they &lt;b&gt;asked")
		apply, text = o.previewed("do", "disable", "reason", "abuse", "until", "2h")
		o.wants(text, "ends by itself at", "buckets that follow: 1")
		o.wants(done(apply), "Standing changes", "disabled", "abuse", "every request is refused")
		if err := o.take("key-1", "rpm", 1); !errors.Is(err, limiter.ErrDisabled) {
			o.Errorf("the entity is served: %v", err)
		}
		apply, _ = o.previewed("do", "clear", "reason", "was none")
		done(apply)
		apply, text = o.previewed("do", "bypass", "all", "1", "reason", "a demo")
		o.wants(text, "for every resource")
		o.wants(done(apply), "bypassed", "a demo", "the entity, for every resource")
		apply, text = o.previewed("do", "reset", "reason", "an error of ours")
		o.wants(text, "rpm gets ")
		done(apply)
		apply, text = o.previewed("do", "delete-limits")
		o.wants(text, "<del>rpm:30/min</del>")
		done(apply)
		for _, fields := range [][]string{
			{"do", "set-limits", "limits", "rpm"},
			{"do", "set-limits", "limits", ""},
			{"do", "top-up", "limit", "rpm", "amount", "x", "reason", "r"},
			{"do", "top-up", "limit", "rpm", "amount", "0", "reason", "r"},
			{"do", "disable"},
			{"do", "disable", "reason", "r", "until", "yesterday"},
			{"do", "delete"},
			{"do", "set-limits", "limits", "rpm:1", "entity", "a b"},
			{"do", "reset", "reason", strings.Repeat("x", 300)},
		} {
			form := formOf(o.must("/ui/entity?id=key-1&resource=gpt-4"), "/ui/preview")
			for i := 0; i < len(fields); i += 2 {
				form.Set(fields[i], fields[i+1])
			}
			if w := o.post("/ui/preview", form); w.Code != http.StatusBadRequest {
				o.Errorf("%v: %d %s", fields, w.Code, w.Body)
			}
		}
	}, limiter.PerMinute("rpm", 10))
}

// Of operators who have seen one version, one changes the level. The others are told to look again. So is who
// changes anything else after the level has changed.
func TestARaceOfVersions(t *testing.T) {
	inOffice(t, func(o *office) {
		const operators = 6
		forms := make([]url.Values, operators)
		for i := range forms {
			forms[i], _ = o.previewed("do", "set-limits", "limits", "rpm:"+string(rune('1'+i)))
		}
		late, _ := o.previewed("do", "disable", "reason", "abuse")
		codes := make([]int, operators)
		jar := o.jar
		var all sync.WaitGroup
		for i := range forms {
			all.Go(func() {
				mine := *o
				mine.jar = map[string]string{"zael-csrf": jar["zael-csrf"]}
				codes[i] = mine.post("/ui/apply", forms[i]).Code
			})
		}
		all.Wait()
		if won := winners(t, codes); won != 1 {
			o.Errorf("%v: %d have changed the level", codes, won)
		}
		w := o.post("/ui/apply", late)
		if w.Code != http.StatusConflict {
			o.Errorf("a switch: %d", w.Code)
		}
		o.wants(w.Body.String(), "nothing was changed now", "As it is now")
		stale, _ := o.previewed("do", "delete-limits")
		if err := o.limits.Store.SetLimits(o.Context(), store.ConfigKey{Entity: "key-1", Resource: "gpt-4"}, []store.Limit{limiter.PerMinute("rpm", 99)}); err != nil {
			o.Fatal(err)
		}
		if w := o.post("/ui/apply", stale); w.Code != http.StatusConflict {
			o.Errorf("a deletion: %d", w.Code)
		}
		stale.Del("version")
		if w := o.post("/ui/apply", stale); w.Code != http.StatusBadRequest {
			o.Errorf("without a version: %d", w.Code)
		}
	}, limiter.PerMinute("rpm", 10))
}

// Whatever visitors, entities and events are called, the pages have only their own elements.
func TestHostileNames(t *testing.T) {
	inOffice(t, func(o *office) {
		const evil = `"><script>alert(1)</script><b onload='x'>` + "\u202e"
		ctx := o.Context()
		if _, err := o.limits.Store.CreateEntity(ctx, store.Entity{ID: "key-1", Name: evil, Metadata: map[string]string{evil: evil}}); err != nil {
			o.Fatal(err)
		}
		as, err := o.limits.Store.As("<b>ann</b>")
		if err != nil {
			o.Fatal(err)
		}
		to := dynamo.Switch{Policy: store.Yes, Until: time.Now().Add(time.Hour)}
		to.Reason = evil[:len(evil)-3]
		if _, err := as.SetSwitch(ctx, store.ConfigKey{Entity: "key-1", Resource: "gpt-4"}, to, nil); err != nil {
			o.Fatal(err)
		}
		o.wants(o.must("/ui/entity?id=key-1&resource=gpt-4"), "&lt;script&gt;alert(1)", "&lt;b&gt;ann")
		for _, hostile := range []string{evil, strings.Repeat("<b>", 3000), "\xff\xfe<b>", "a/b/../<b>", "javascript:alert(1)", "'; DROP", "\x00", strings.Repeat("x", 8000)} {
			escaped := url.QueryEscape(hostile)
			for _, path := range []string{
				"/ui/?resource=" + escaped, "/ui/?limit=" + escaped, "/ui/?page=" + escaped, "/ui/entity?id=" + escaped, "/ui/entity?id=key-1&resource=" + escaped,
				"/ui/entity?id=key-1&resource=gpt-4&done=" + escaped, "/ui/refusals?id=" + escaped + "&entity=" + escaped + "&resource=" + escaped + "&limit=" + escaped, "/ui/" + url.PathEscape(hostile),
			} {
				if w := o.get(path); w.Code >= http.StatusInternalServerError {
					o.Errorf("%.100s: %d", path, w.Code)
				}
			}
			form := formOf(o.must("/ui/entity?id=key-1&resource=gpt-4"), "/ui/preview")
			for _, field := range []string{"do", "entity", "resource", "limits", "limit", "amount", "reason", "until"} {
				f := url.Values{"csrf": form["csrf"], "do": {"disable"}, "entity": {"key-1"}, "resource": {"gpt-4"}, "reason": {"r"}, "limits": {"rpm:1"}}
				if field == "limits" {
					f.Set("do", "set-limits")
				}
				f.Set(field, hostile)
				if w := o.post("/ui/preview", f); w.Code >= http.StatusInternalServerError {
					o.Errorf("%s=%.100q: %d", field, hostile, w.Code)
				}
			}
		}
	}, limiter.PerMinute("rpm", 10))
}

// While the table is away, the pages say so, and the refusals are still there.
func TestPagesInAnOutage(t *testing.T) {
	inOffice(t, func(o *office) {
		o.limits.Fail(limiter.ErrUnavailable)
		if err := o.take("key-1", "rpm", 1); !errors.Is(err, limiter.ErrUnavailable) {
			o.Fatal(err)
		}
		for path, want := range map[string]int{"/ui/": http.StatusServiceUnavailable, "/ui/refusals": http.StatusOK} {
			if w := o.get(path); w.Code != want {
				o.Errorf("%s: %d", path, w.Code)
			}
		}
	}, limiter.PerMinute("rpm", 10))
}
