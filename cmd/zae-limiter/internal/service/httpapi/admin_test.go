package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// inOffice runs f with a service that has administration, and no limits.
func inOffice(t *testing.T, f func(*service)) {
	t.Helper()
	inBubble(t, decide.Policy{}, func(s *service) {
		s.handler = httpapi.New(httpapi.Options{
			Limiter: s.limits, Logger: slog.New(slog.DiscardHandler),
			Admin: &httpapi.Admin{
				Store: s.limits.Store, Limiter: s.limits.Limiter, Now: time.Now, Table: dynamo.Options{API: s.limits.Engine, Table: testbed.Table},
			},
		})
		f(s)
	})
}

// An admined is the answer to a call of administration.
type admined struct {
	*httptest.ResponseRecorder
	Field, Detail    string
	Repeated         bool
	Limits, Failures []map[string]any
	Amounts          map[string]int64
}

// admin sends a call of administration, with fields of the header.
func (s *service) admin(path, body string, header ...string) *admined {
	s.Helper()
	r := httptest.NewRequestWithContext(httpapi.WithPrincipal(s.Context(), "ann"), http.MethodPost, "/v1/admin/"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	got := &admined{ResponseRecorder: httptest.NewRecorder()}
	s.handler.ServeHTTP(got, r)
	if err := json.Unmarshal(got.Body.Bytes(), got); err != nil {
		s.Fatalf("%s: %v: %s", path, err, got.Body)
	}
	return got
}

// must sends a call that succeeds.
func (s *service) must(path, body string, header ...string) *admined {
	s.Helper()
	got := s.admin(path, body, header...)
	if got.Code != http.StatusOK {
		s.Fatalf("%s: %d %s", path, got.Code, got.Body)
	}
	return got
}

// Calls about the whole table say what is wrong with them, and who made a change is in its audit event. The embedded engine has
// no backups, and a service without a connection of its own has none of these calls.
func TestCallsAboutTheTable(t *testing.T) {
	inOffice(t, func(s *service) {
		s.must("namespace/register", `{"namespaces":["team-a"]}`)
		s.must("namespace/delete", `{"namespace":"team-a"}`)
		of, err := admin.NewNamespaces(dynamo.Options{API: s.limits.Engine, Table: testbed.Table})
		if err != nil {
			s.Fatal(err)
		}
		page, err := of.AuditEvents(s.Context(), "team-a", audit.Query{})
		if err != nil || len(page.Events) != 2 || page.Events[0].Principal != "ann" || page.Events[1].Principal != "ann" {
			s.Errorf("%v %+v", err, page.Events)
		}
		for _, tt := range []struct {
			path, body string
			code       int
			field      string
		}{
			{"namespace/register", `{"namespaces":[]}`, 400, "namespaces"},
			{"namespace/register", `{"namespaces":["Team A"]}`, 400, "namespace"},
			{"namespace/show", `{"namespace":""}`, 400, "namespace"},
			{"namespace/show", `{"namespace":"team-a"}`, 404, ""},
			{"namespace/delete", `{"namespace":"team-a"}`, 404, ""},
			{"namespace/recover", `{"namespace_id":"a/b"}`, 400, "namespace_id"},
			{"namespace/recover", `{"namespace_id":"AAAAAAAAAAA"}`, 404, ""},
			{"namespace/purge", `{"namespace_id":"_"}`, 400, "namespace_id"},
			{"backup/create", `{"backup_name":"a"}`, 400, "backup_name"},
			{"backup/create", `{"backup_name":"before-upgrade"}`, 422, ""},
			{"backup/list", `{}`, 422, ""},
			{"backup/delete", `{"backup_arn":"backup"}`, 400, "backup_arn"},
		} {
			if got := s.admin(tt.path, tt.body); got.Code != tt.code || got.Field != tt.field {
				s.Errorf("%s %s: %d %s", tt.path, tt.body, got.Code, got.Body)
			}
		}
		s.handler = httpapi.New(httpapi.Options{
			Limiter: s.limits, Logger: slog.New(slog.DiscardHandler), Admin: &httpapi.Admin{Store: s.limits.Store, Limiter: s.limits.Limiter, Now: time.Now},
		})
		for _, path := range []string{"namespace/list", "table/show"} {
			if got := s.admin(path, `{}`); got.Code != http.StatusNotFound {
				s.Errorf("%s: %d %s", path, got.Code, got.Body)
			}
		}
	})
}

// Of operators who have read one version of a level, one changes it. The others are told to read it again,
// and nothing of the change is lost.
func TestOneOfManyOperatorsWins(t *testing.T) {
	inOffice(t, func(s *service) {
		const level = `{"entity_id":"key-1","resource":"gpt-4"`
		const operators = 8
		s.must("entity/set-limits", level+`,"limits":[{"limit":"rpm:1000"}]}`)
		for round := range 3 {
			tag := s.must("entity/get-limits", level+"}").Header().Get("ETag")
			answers := make([]*admined, operators)
			var all sync.WaitGroup
			for i := range answers {
				all.Go(func() {
					body := fmt.Sprintf(`%s,"limits":[{"limit":"rpm:%d"},{"limit":"l%d:%d"}]}`, level, 100*round+i+1, i, i+1)
					answers[i] = s.admin("entity/set-limits", body, "If-Match", tag)
				})
			}
			all.Wait()
			won := -1
			for i, a := range answers {
				switch {
				case a.Code == http.StatusOK && won < 0:
					won = i
				case a.Code != http.StatusConflict || a.Field != "If-Match":
					s.Errorf("round %d, operator %d: %d %s", round, i, a.Code, a.Body)
				}
			}
			if won < 0 {
				s.Fatalf("round %d: nobody has changed the level", round)
			}
			now := s.must("entity/get-limits", level+"}")
			if now.Header().Get("ETag") != answers[won].Header().Get("ETag") || len(now.Limits) != 2 {
				s.Errorf("round %d: the level is %s, and operator %d was told %s", round, now.Body, won, answers[won].Body)
			}
		}
		events, err := s.limits.Store.AuditEvents(s.Context(), audit.Query{Entity: "key-1", Limit: 100})
		if err != nil || len(events.Events) != 4 {
			s.Errorf("%d events, %v", len(events.Events), err)
		}
	})
}

// A change is completed, also if its client has left. A read is not.
func TestAChangeOutlivesItsClient(t *testing.T) {
	inOffice(t, func(s *service) {
		const set, list = "entity/set-limits", "entity/list"
		send := func(path, body string) int {
			ctx, cancel := context.WithCancel(s.Context())
			cancel()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/admin/"+path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			got := httptest.NewRecorder()
			s.handler.ServeHTTP(got, r)
			return got.Code
		}
		if code := send(set, `{"entity_id":"key-1","resource":"gpt-4","limits":[{"limit":"rpm:7"}]}`); code != http.StatusOK {
			s.Errorf("the change: %d", code)
		}
		if got := s.must("entity/get-limits", `{"entity_id":"key-1","resource":"gpt-4"}`); len(got.Limits) != 1 {
			s.Errorf("the level is %s", got.Body)
		}
		if code := send(list, "{}"); code == http.StatusOK {
			s.Error("a read went on without its client")
		}
	})
}

// The fields of conditions hold for levels that have something, and for those that have nothing.
func TestConditionsOfChanges(t *testing.T) {
	inOffice(t, func(s *service) {
		const set, del, get = "resource/set-defaults", "resource/delete-defaults", "resource/get-defaults"
		const level = `{"resource":"gpt-4"}`
		limits := func(n int) string { return fmt.Sprintf(`{"resource":"gpt-4","limits":[{"limit":"rpm:%d"}]}`, n) }
		want := func(code int, path, body string, header ...string) *admined {
			s.Helper()
			got := s.admin(path, body, header...)
			if got.Code != code {
				s.Errorf("%s %s %v: %d, want %d: %s", path, body, header, got.Code, code, got.Body)
			}
			return got
		}
		want(http.StatusConflict, set, limits(1), "If-Match", "*")
		want(http.StatusConflict, del, level, "If-Match", `"x"`)
		want(http.StatusOK, set, limits(1), "If-None-Match", "*")
		want(http.StatusConflict, set, limits(2), "If-None-Match", "*")
		first := want(http.StatusOK, get, level).Header().Get("ETag")
		want(http.StatusOK, set, limits(2), "If-Match", `"x", `+first)
		want(http.StatusConflict, set, limits(3), "If-Match", first)
		dry := want(http.StatusOK, set, strings.Replace(limits(4), "]}", `],"dry_run":true}`, 1), "If-Match", "*")
		if dry.Header().Get("ETag") != "" {
			s.Errorf("a dry run has the tag %s", dry.Header().Get("ETag"))
		}
		want(http.StatusConflict, del, `{"resource":"gpt-4","dry_run":true}`, "If-Match", first)
		now := want(http.StatusOK, get, level).Header().Get("ETag")
		want(http.StatusOK, "resource/disable", level)
		want(http.StatusConflict, del, level, "If-Match", now) // the switch belongs to what was read
		now = want(http.StatusOK, get, level).Header().Get("ETag")
		want(http.StatusOK, del, level, "If-Match", now)
		for _, header := range [][]string{{"If-None-Match", `"x"`}, {"If-None-Match", "*", "If-Match", "*"}, {"If-None-Match", "*", "If-None-Match", "*"}} {
			want(http.StatusBadRequest, set, limits(1), header...)
		}
		want(http.StatusBadRequest, get, level, "If-Match", "*")
		want(http.StatusBadRequest, "entity/create", `{"entity_id":"key-1"}`, "If-Match", "*")
	})
}

// A change with a key happens once, whoever sends it again, and at the same time.
func TestAKeyMakesAChangeOnce(t *testing.T) {
	inOffice(t, func(s *service) {
		const calls = 8
		s.must("resource/set-defaults", `{"resource":"gpt-4","limits":[{"limit":"rpd:100@day"}]}`)
		s.post("/v1/acquire", `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpd":60}}`)
		for path, body := range map[string]string{
			"entity/top-up":      `{"entity_id":"key-1","resource":"gpt-4","amounts":{"rpd":5}}`,
			"entity/disable":     `{"entity_id":"key-1","until":"2h"}`,
			"entity/set-cascade": `{"entity_id":"key-1","policy":"on"}`,
			"resource/raise":     `{"resource":"gpt-4","factors":{"rpd":2},"until":"2h"}`,
		} {
			first, key := 0, strings.ReplaceAll(path, "/", ".")
			var all sync.WaitGroup
			var mu sync.Mutex
			for range calls {
				all.Go(func() {
					got := s.must(path, body, "Idempotency-Key", `"`+key+`"`)
					mu.Lock()
					defer mu.Unlock()
					if !got.Repeated {
						first++
					}
					if path == "entity/top-up" && got.Amounts["rpd"] != 5 {
						s.Errorf("%s: %s", path, got.Body)
					}
				})
			}
			all.Wait()
			if first != 1 {
				s.Errorf("%s happened %d times", path, first)
			}
			if got := s.must(path, body, "Idempotency-Key", key); !got.Repeated {
				s.Errorf("%s happens again: %s", path, got.Body)
			}
		}
		used := s.admin("entity/top-up", `{"entity_id":"key-1","resource":"gpt-4","amounts":{"rpd":6}}`, "Idempotency-Key", "entity.top-up")
		if used.Code != http.StatusConflict || used.Field != "Idempotency-Key" {
			s.Errorf("another top-up with the key: %d %s", used.Code, used.Body)
		}
		if got := s.admin("entity/set-limits", `{"entity_id":"key-1","limits":[{"limit":"rpm:1"}]}`, "Idempotency-Key", "a"); got.Code != http.StatusBadRequest {
			s.Errorf("a key that is not kept: %d %s", got.Code, got.Body)
		}
		if got := s.admin("entity/get", `{"entity_id":"x"}`, "Idempotency-Key", "a"); got.Code != http.StatusNotFound {
			s.Errorf("a key of a question: %d %s", got.Code, got.Body)
		}
	})
}

// A call that makes no sense is refused with its field and a remedy, and changes nothing.
func TestHostileAdministration(t *testing.T) {
	inOffice(t, func(s *service) {
		for _, c := range []struct{ path, body, field string }{
			{"entity/set-limits", `{"entity_id":"key-1","limit":[]}`, "limit"},
			{"entity/set-limits", `{"entity_id":"key-1"}`, "limits"},
			{"entity/set-limits", `{"entity_id":"key-1","limits":[]}`, "limits"},
			{"entity/set-limits", `{"limits":[{"limit":"rpm:1"}]}`, "entity_id"},
			{"entity/set-limits", `{"entity_id":"a#b","limits":[{"limit":"rpm:1"}]}`, "entity_id"},
			{"entity/set-limits", `{"entity_id":"key-1","resource":"1","limits":[{"limit":"rpm:1"}]}`, "resource"},
			{"entity/set-limits", `{"entity_id":"key-1","entity_id":"key-2","limits":[]}`, "entity_id"},
			{"entity/set-limits", `{"entity_id":"key-1","limits":[{"limit":"rpm:1"},{"limit":"rpm"}]}`, "limits.1.limit"},
			{"entity/set-limits", `{"entity_id":"key-1","limits":[{"limit":"wcu:1"}]}`, "limits.0.limit"},
			{"entity/set-limits", `{"entity_id":"key-1","limits":[{"limit_name":"wcu","capacity":1,"refill_amount":1,"refill_period_seconds":1}]}`, "limits.0.limit_name"},
			{"entity/set-limits", `{"entity_id":"key-1","limits":[{"limit":"rpm:1","principal":"bob"}]}`, "limits.0.principal"},
			{"entity/set-limits", `{"entity_id":"key-1","limits":"rpm:1"}`, "limits"},
			{"resource/set-defaults", `{"resource":"gpt-4","entity_id":"key-1","limits":[{"limit":"rpm:1"}]}`, "entity_id"},
			{"resource/set-defaults", `{"resource":"_default_","limits":[{"limit":"rpm:1"}]}`, "resource"},
			{"system/set-defaults", `{"resource":"gpt-4","limits":[{"limit":"rpm:1"}]}`, "resource"},
			{"system/set-defaults", `{}`, "limits"},
			{"system/set-defaults", `{"on_unavailable":"maybe"}`, "on_unavailable"},
			{"entity/disable", `{"entity_id":"key-1","until":"yesterday"}`, "until"},
			{"entity/disable", `{"entity_id":"key-1","until":"-2h"}`, "until"},
			{"entity/disable", `{"entity_id":"key-1","reason":"a\nb"}`, "reason"},
			{"entity/disable", `{"entity_id":"key-1","reason":"` + strings.Repeat("x", 257) + `","dry_run":true}`, "reason"},
			{"entity/disable", `{"entity_id":"key-1","principal":"bob"}`, "principal"},
			{"entity/clear", `{"entity_id":"key-1","until":"2h"}`, "until"},
			{"entity/raise", `{"entity_id":"key-1","factors":{"rpm":0},"until":"2h"}`, "factors.rpm"},
			{"entity/raise", `{"entity_id":"key-1","factors":{"rpm":1e9},"until":"2h"}`, "factors.rpm"},
			{"entity/raise", `{"entity_id":"key-1","factors":{},"until":"2h"}`, "factors"},
			{"entity/raise", `{"entity_id":"key-1","factors":{"rpm":2}}`, "until"},
			{"entity/set-cascade", `{"entity_id":"key-1","policy":"maybe"}`, "policy"},
			{"entity/set-slots", `{"entity_id":"key-1"}`, "slots"},
			{"entity/set-slots", `{"entity_id":"key-1","slots":{"inflight":-1}}`, "slots.inflight"},
			{"entity/set-parent", `{"entity_id":"key-1"}`, "parent_id"},
			{"entity/set-parent", `{"entity_id":"key-1","parent_id":"acme","none":true}`, "parent_id"},
			{"entity/set-parent", `{"entity_id":"key-1","parent_id":"key-1"}`, "parent_id"},
			{"entity/create", `{"entity_id":"key-1","cascade":true}`, "cascade"},
			{"entity/create", `{"entity_id":""}`, "entity_id"},
			{"entity/create", `{"entity_id":"key-1","parent_id":"key-1"}`, "parent_id"},
			{"entity/reset", `{"entity_id":"key-1","resource":"gpt-4","limit_names":["rpm","rpm"]}`, "limit_names"},
			{"entity/top-up", `{"entity_id":"key-1","resource":"gpt-4","amounts":{"rpm":-1}}`, "amounts.rpm"},
			{"entity/top-up", `{"entity_id":"key-1","resource":"gpt-4"}`, "amounts"},
			{"entity/top-up", `{"entity_id":"key-1","resource":"gpt-4","amounts":{"rpm":1.5}}`, "amounts.rpm"},
			{"entity/list", `{"max":-1}`, "max"},
			{"entity/list", `{"max":1000000}`, "max"},
			{"entity/list", `{"cursor":"x"}`, "cursor"},
			{"standing", `{"entity_id":"key-1"}`, "resource"},
			{"top", `{}`, "resource"},
			{"top", `{"resource":"gpt-4","all_resources":true}`, "resource"},
			{"top", `{"resource":"gpt-4","above":-1}`, "above"},
			{"usage/list", `{}`, "entity_id"},
			{"usage/list", `{"entity_id":"key-1","window":"yearly"}`, "window"},
			{"usage/list", `{"entity_id":"key-1","start":"2026-01-02","end":"2026-01-01"}`, "end"},
			{"usage/list", `{"entity_id":"key-1","cursor":"x"}`, "cursor"},
			{"audit/list", `{}`, "entity_id"},
			{"audit/list", `{"entity_id":"key-1","system":true}`, "entity_id"},
			{"audit/list", `{"system":true,"action":"Limits Set"}`, "action"},
			{"limits/plan", `{}`, "manifest"},
			{"limits/plan", `{"manifest":{"namespace":"bank"}}`, "namespace"},
			{"limits/plan", `{"manifest":{"namespace":"default","system":{"limits":{"rpm":{"capacity":0}}}}}`, "manifest"},
			{"limits/apply", `{"manifest":"namespace: default"}`, "manifest"},
			{"limits/export", `{"manifest":"a b"}`, "manifest"},
		} {
			got := s.admin(c.path, c.body)
			if got.Code != http.StatusBadRequest || got.Field != c.field || got.Detail == "" {
				s.Errorf("%s %s: %d, field %q, want %q: %s", c.path, c.body, got.Code, got.Field, c.field, got.Body)
			}
			if err := fits("", got.ResponseRecorder); err != nil {
				s.Errorf("%s %s: %v: %s", c.path, c.body, err, got.Body)
			}
		}
		for name, header := range map[string][]string{
			"two keys": {"Idempotency-Key", "a", "Idempotency-Key", "b"}, "no key": {"Idempotency-Key", `""`}, "a key with a space": {"Idempotency-Key", "a b"},
		} {
			if got := s.admin("entity/disable", `{"entity_id":"key-1"}`, header...); got.Code != http.StatusBadRequest || got.Field != "Idempotency-Key" {
				s.Errorf("%s: %d %s", name, got.Code, got.Body)
			}
		}
		large := s.admin("entity/get", `{"entity_id":"`+strings.Repeat("x", httpapi.MaxBody)+`"}`)
		if large.Code != http.StatusRequestEntityTooLarge {
			s.Errorf("a large body: %d", large.Code)
		}
		if got := s.admin("entity/get", `{"entity_id":"key-1"}`, "Content-Encoding", "gzip"); got.Code != http.StatusUnsupportedMediaType {
			s.Errorf("a coded body: %d", got.Code)
		}
		levels, err := s.limits.Store.ConfiguredLevels(s.Context())
		if err != nil || len(levels) != 0 {
			s.Errorf("levels %v, %v", levels, err)
		}
		for _, subject := range []string{"key-1", audit.System, audit.Resource("gpt-4")} {
			if page, err := s.limits.Store.AuditEvents(s.Context(), audit.Query{Entity: subject, Limit: 10}); err != nil || len(page.Events) != 0 {
				s.Errorf("events of %s: %v, %v", subject, page.Events, err)
			}
		}
	})
}

// A change reaches the decisions of the service that makes it at once, and its audit event is by who
// made it.
func TestAChangeHoldsAtOnce(t *testing.T) {
	inOffice(t, func(s *service) {
		l, err := limiter.New(s.limits.Store, limiter.Options{})
		if err != nil {
			s.Fatal(err)
		}
		defer l.Close()
		s.handler = httpapi.New(httpapi.Options{
			Limiter: l, Logger: slog.New(slog.DiscardHandler), Admin: &httpapi.Admin{Store: s.limits.Store, Limiter: l, Now: time.Now},
		})
		s.must("resource/set-defaults", `{"resource":"gpt-4","limits":[{"limit":"rpm:5"}]}`)
		if got := s.acquire(5); got.Code != http.StatusOK {
			s.Errorf("5 of 5: %d %s", got.Code, got.Body)
		}
		s.must("entity/set-limits", `{"entity_id":"key-1","resource":"gpt-4","limits":[{"limit":"rpm:1000"}]}`)
		s.must("entity/reset", `{"entity_id":"key-1","resource":"gpt-4"}`)
		if got := s.acquire(900); got.Code != http.StatusOK {
			s.Errorf("900 of 1000: %d %s", got.Code, got.Body)
		}
		s.must("entity/disable", `{"entity_id":"key-1","resource":"gpt-4"}`)
		if got := s.acquire(1); got.Code != http.StatusForbidden {
			s.Errorf("disabled: %d %s", got.Code, got.Body)
		}
		page, err := s.limits.Store.AuditEvents(s.Context(), audit.Query{Entity: "key-1", Limit: 10})
		if err != nil || len(page.Events) != 3 || slices.ContainsFunc(page.Events, func(e audit.Event) bool { return e.Principal != "ann" }) {
			s.Errorf("%+v, %v", page.Events, err)
		}
	})
}

// A service without administration has none.
func TestNoAdministration(t *testing.T) {
	inBubble(t, decide.Policy{}, func(s *service) {
		if got := s.admin("entity/get", `{"entity_id":"key-1"}`); got.Code != http.StatusNotFound {
			s.Errorf("%d %s", got.Code, got.Body)
		}
	}, limiter.PerMinute("rpm", 1))
}
