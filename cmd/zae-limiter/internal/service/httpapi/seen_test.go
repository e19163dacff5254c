package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

// onlyIf has a body of each call that takes If-Match, and the call that tells its tag, with a body.
var onlyIf = map[string][3]string{
	"entity/set-limits":        {`{"entity_id":"key-1","resource":"gpt-4","limits":[{"limit":"rpm:7"}]}`, "entity/get-limits", `{"entity_id":"key-1","resource":"gpt-4"}`},
	"entity/delete-limits":     {`{"entity_id":"key-1","resource":"gpt-4"}`, "entity/get-limits", `{"entity_id":"key-1","resource":"gpt-4"}`},
	"entity/disable":           {`{"entity_id":"key-1","until":"2h"}`, "entity/get-limits", `{"entity_id":"key-1"}`},
	"entity/enable":            {`{"entity_id":"key-1"}`, "entity/get-limits", `{"entity_id":"key-1"}`},
	"entity/bypass":            {`{"entity_id":"key-1","resource":"gpt-4"}`, "entity/get-limits", `{"entity_id":"key-1","resource":"gpt-4"}`},
	"entity/clear":             {`{"entity_id":"key-2","resource":"gpt-4"}`, "entity/get-limits", `{"entity_id":"key-2","resource":"gpt-4"}`},
	"entity/raise":             {`{"entity_id":"key-1","resource":"gpt-4","factors":{"rpm":2},"until":"2h"}`, "entity/get-limits", `{"entity_id":"key-1","resource":"gpt-4"}`},
	"entity/set-cascade":       {`{"entity_id":"key-1","policy":"on"}`, "entity/get-limits", `{"entity_id":"key-1"}`},
	"entity/set-slots":         {`{"entity_id":"key-1","resource":"gpt-4","slots":{"inflight":2}}`, "entity/get-limits", `{"entity_id":"key-1","resource":"gpt-4"}`},
	"entity/reset":             {`{"entity_id":"key-1","resource":"gpt-4"}`, "entity/get-limits", `{"entity_id":"key-1","resource":"gpt-4"}`},
	"entity/top-up":            {`{"entity_id":"key-1","resource":"gpt-4","amounts":{"rpm":1}}`, "entity/get-limits", `{"entity_id":"key-1","resource":"gpt-4"}`},
	"entity/set-parent":        {`{"entity_id":"key-1","parent_id":"acme"}`, "entity/get", `{"entity_id":"key-1"}`},
	"resource/set-defaults":    {`{"resource":"gpt-4","limits":[{"limit":"rpm:7"}]}`, "resource/get-defaults", `{"resource":"gpt-4"}`},
	"resource/delete-defaults": {`{"resource":"gpt-4"}`, "resource/get-defaults", `{"resource":"gpt-4"}`},
	"resource/disable":         {`{"resource":"gpt-4"}`, "resource/get-defaults", `{"resource":"gpt-4"}`},
	"resource/enable":          {`{"resource":"gpt-4","until":"2h"}`, "resource/get-defaults", `{"resource":"gpt-4"}`},
	"resource/bypass":          {`{"resource":"gpt-4"}`, "resource/get-defaults", `{"resource":"gpt-4"}`},
	"resource/clear":           {`{"resource":"off"}`, "resource/get-defaults", `{"resource":"off"}`},
	"resource/raise":           {`{"resource":"gpt-4","factors":{"rpm":2},"until":"2h"}`, "resource/get-defaults", `{"resource":"gpt-4"}`},
	"resource/set-cascade":     {`{"resource":"gpt-4","policy":"off"}`, "resource/get-defaults", `{"resource":"gpt-4"}`},
	"resource/set-slots":       {`{"resource":"gpt-4","slots":{"inflight":2}}`, "resource/get-defaults", `{"resource":"gpt-4"}`},
	"system/set-defaults":      {`{"on_unavailable":"allow"}`, "system/get-defaults", `{}`},
	"system/delete-defaults":   {`{}`, "system/get-defaults", `{}`},
	"system/set-slots":         {`{"slots":{"inflight":2}}`, "system/get-defaults", `{}`},
}

// Every change of what can be read with a tag takes If-Match, and changes nothing, not even in a dry run, if
// the tag is another one. Of operators with one tag, one makes the change; only balances are not in the tag.
func TestEveryChangeTakesATag(t *testing.T) {
	takes := map[string]bool{}
	for _, r := range httpapi.Routes() {
		if r.IsConditional {
			takes[strings.TrimPrefix(r.Path, "/v1/admin/")] = true
		}
	}
	for path := range takes {
		if _, ok := onlyIf[path]; !ok {
			t.Errorf("%s has no case", path)
		}
	}
	for path, c := range onlyIf {
		t.Run(path, func(t *testing.T) {
			inOffice(t, func(s *service) {
				if !takes[path] {
					s.Fatal("it takes no tag")
				}
				body, read, asked := c[0], c[1], c[2]
				s.must("entity/create", `{"entity_id":"acme"}`)
				s.must("entity/create", `{"entity_id":"key-1"}`)
				s.must("system/set-defaults", `{"limits":[{"limit":"rpm:1000"}]}`)
				s.must("resource/set-defaults", `{"resource":"gpt-4","limits":[{"limit":"rpm:100"}]}`)
				s.must("resource/disable", `{"resource":"off"}`)
				s.must("entity/disable", `{"entity_id":"key-2","resource":"gpt-4"}`)
				for _, of := range []string{"", `,"resource":"gpt-4"`} {
					s.must("entity/set-limits", `{"entity_id":"key-1"`+of+`,"limits":[{"limit":"rpm:100"}]}`)
				}
				s.post("/v1/acquire", `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":60}}`)
				first := s.must(read, asked)
				tag := first.Header().Get("ETag")
				if tag == "" {
					s.Fatal("no tag is told")
				}
				before := s.trail()
				for _, header := range [][2]string{{"If-Match", `"x"`}, {"If-None-Match", "*"}} {
					got := s.admin(path, body, header[0], header[1])
					if got.Code != http.StatusConflict || got.Field != "If-Match" {
						s.Errorf("%s: %d %s", header[0], got.Code, got.Body)
					}
					dry := s.admin(path, strings.Replace(body, "{", `{"dry_run":true,`, 1), header[0], header[1])
					if path == "system/delete-defaults" {
						dry = s.admin(path, `{"dry_run":true}`, header[0], header[1])
					}
					if dry.Code != http.StatusConflict && dry.Field != "dry_run" {
						s.Errorf("a dry run with %s: %d %s", header[0], dry.Code, dry.Body)
					}
				}
				if now := s.must(read, asked); now.Body.String() != first.Body.String() || !slices.Equal(before, s.trail()) {
					s.Errorf("something was changed: %s, and %v", now.Body, s.trail())
				}
				const operators = 6
				codes := make([]int, operators)
				var all sync.WaitGroup
				for i := range codes {
					all.Go(func() { codes[i] = s.admin(path, body, "If-Match", tag).Code })
				}
				all.Wait()
				won, lost := 0, 0
				for _, code := range codes {
					switch code {
					case http.StatusOK:
						won++
					case http.StatusConflict:
						lost++
					}
				}
				isOfBucket := path == "entity/reset" || path == "entity/top-up"
				if won+lost != operators || won == 0 || won != 1 && !isOfBucket {
					s.Errorf("%v", codes)
				}
				if n := len(s.trail()) - len(before); n != won {
					s.Errorf("%d have made the change, and there are %d events more", won, n)
				}
			})
		})
	}
}

// trail are the events of all that the cases change.
func (s *service) trail() (all []string) {
	s.Helper()
	for _, subject := range []string{"key-1", "key-2", audit.Resource("gpt-4"), audit.Resource("off"), audit.System} {
		page, err := s.limits.Store.AuditEvents(s.Context(), audit.Query{Entity: subject, Limit: 100})
		if err != nil {
			s.Fatal(err)
		}
		for _, e := range page.Events {
			all = append(all, e.ID)
		}
	}
	return all
}
