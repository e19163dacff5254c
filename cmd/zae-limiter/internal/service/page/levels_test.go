package page_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

const levelsPage = "/ui/limits?resource=gpt-4"

// The limits of a resource and of the system are edited like those of an entity: previewed, applied, audited.
func TestEditsOfLevels(t *testing.T) {
	inOffice(t, func(o *office) {
		done := func(form url.Values) string {
			o.Helper()
			w := o.post("/ui/apply", form)
			if w.Code != http.StatusSeeOther {
				o.Fatalf("%d %s", w.Code, w.Body)
			}
			return o.must(w.Header().Get("Location"))
		}
		o.wants(o.must("/ui/limits"), "<h2>For every resource</h2>", "<code>rpm:10/min</code>")
		apply, text := o.previewedOn(levelsPage, "do", "set-limits", "limits", "rpm:20/min")
		o.wants(text, "every entity, for gpt-4", "<ins>rpm:20/min</ins>", `href="/ui/limits?resource=gpt-4"`)
		if _, err := o.limits.Store.Limits(o.Context(), store.ConfigKey{Resource: "gpt-4"}); !errors.Is(err, store.ErrNotFound) {
			o.Errorf("the preview has changed the level: %v", err)
		}
		o.wants(done(apply), "Done: Set limits.", "<h2>For gpt-4</h2>\n<div><code>rpm:20/min</code></div>", "limits_set", `aria-current="page"`)
		apply, text = o.previewedOn(levelsPage, "do", "disable", "reason", "an outage of theirs", "until", "2h")
		o.wants(text, "ends by itself at", "an outage of theirs")
		o.wants(done(apply), "Standing changes", "disabled", "an outage of theirs")
		if err := o.take("key-1", "rpm", 1); !errors.Is(err, limiter.ErrDisabled) {
			o.Errorf("the resource is served: %v", err)
		}
		apply, _ = o.previewedOn(levelsPage, "do", "clear", "reason", "it is over")
		done(apply)
		apply, text = o.previewedOn(levelsPage, "do", "delete-limits")
		o.wants(text, "<del>rpm:20/min</del>")
		done(apply)
		apply, text = o.previewedOn("/ui/limits", "do", "set-limits", "limits", "rpm:40/min")
		o.wants(text, "every entity, for every resource", "<del>rpm:10/min</del>", "<ins>rpm:40/min</ins>")
		stale := apply
		o.wants(done(apply), "<code>rpm:40/min</code>")
		if w := o.post("/ui/apply", stale); w.Code != http.StatusConflict {
			o.Errorf("an edit of what another one has changed: %d", w.Code)
		}
		form := formOf(o.must(levelsPage), "/ui/preview")
		for _, fields := range [][2]string{{"do", "top-up"}, {"do", "reset"}, {"level", "galaxy"}, {"resource", "_default_"}, {"resource", ""}, {"limits", "rpm"}} {
			wrong := url.Values{}
			for name := range form {
				wrong.Set(name, form.Get(name))
			}
			wrong.Set("do", "set-limits")
			wrong.Set("limits", "rpm:1")
			wrong.Set("reason", "why not")
			wrong.Set(fields[0], fields[1])
			if w := o.post("/ui/preview", wrong); w.Code != http.StatusBadRequest {
				o.Errorf("%v: %d %s", fields, w.Code, w.Body)
			}
		}
		form.Set("level", "system")
		form.Set("do", "disable")
		form.Set("reason", "all")
		if w := o.post("/ui/preview", form); w.Code != http.StatusBadRequest {
			o.Errorf("the system is disabled: %d", w.Code)
		}
	}, limiter.PerMinute("rpm", 10))
}
