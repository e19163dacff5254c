package page_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/access"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/page"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// An office has the pages on a limiter of its own, and a browser.
type office struct {
	*testing.T
	limits  *limitertest.Limits
	limiter *limiter.Limiter
	log     *refusals.Log
	pages   http.Handler
	jar     map[string]string // cookies of the browser
	// beforeCall is called between the look at a version and the call of an edit.
	beforeCall func()
}

// tokens are those of the service; %s is its namespace.
const tokens = "read-0123456789ab reader\ncall-0123456789ab caller@%[1]s\nmain-0123456789ab operator@%[1]s name=ann\nelse-0123456789ab operator@bank\n"

// inOffice runs f in a bubble, with pages that everybody on the machine may see.
func inOffice(t *testing.T, f func(*office), limits ...limiter.Limit) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(newOffice(t, "", limits...)) })
}

// inGuardedOffice asks for tokens.
func inGuardedOffice(t *testing.T, f func(*office), limits ...limiter.Limit) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(newOffice(t, tokens, limits...)) })
}

func newOffice(t *testing.T, tokens string, limits ...limiter.Limit) *office {
	t.Helper()
	o := &office{T: t, limits: limitertest.New(t, limits...), log: refusals.New(time.Now), jar: map[string]string{}}
	o.limiter = o.limits.NewLimiter(limiter.Options{Observer: o.log})
	log := slog.New(slog.DiscardHandler)
	to := page.Options{Store: o.limits.Store, Limiter: o.limiter, Refusals: o.log, Now: time.Now, Logger: log}
	api := httpapi.New(httpapi.Options{Limiter: o.limiter, Policy: decide.Policy{}, Logger: log, Admin: &httpapi.Admin{Store: o.limits.Store, Limiter: o.limiter, Now: time.Now}})
	to.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.beforeCall != nil {
			o.beforeCall()
		}
		api.ServeHTTP(w, r)
	})
	if tokens != "" {
		namespace, _ := o.limits.Store.Namespace()
		known, err := access.ParseTokens(fmt.Sprintf(tokens, namespace))
		if err != nil {
			t.Fatal(err)
		}
		to.Guard = &access.Guard{Namespace: namespace, Tokens: func() *access.Tokens { return known }}
	}
	o.pages = page.New(to)
	return o
}

// send sends a request of the browser, which keeps cookies. Every answer has the fields that protect it.
func (o *office) send(r *http.Request) *httptest.ResponseRecorder {
	o.Helper()
	for name, value := range o.jar {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	o.pages.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if o.jar[c.Name] = c.Value; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/ui/" {
			o.Errorf("%s: a cookie that others reach: %v", r.URL, c)
		}
	}
	for field, want := range map[string]string{
		"Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
		"X-Content-Type-Options":  "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
	} {
		if got := w.Header().Get(field); got != want {
			o.Errorf("%.100s: %s is %q", r.URL, field, got)
		}
	}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		o.isClean(r.URL.String(), w.Body.String())
	}
	return w
}

// isClean checks that a page is valid text with one script, that of a file, and no style of its own.
func (o *office) isClean(name, text string) {
	o.Helper()
	if !utf8.ValidString(text) {
		o.Errorf("%.100q is no valid UTF-8", name)
	}
	for z := html.NewTokenizer(strings.NewReader(text)); z.Next() != html.ErrorToken; {
		t := z.Token()
		if t.Type != html.StartTagToken && t.Type != html.SelfClosingTagToken {
			continue
		}
		src := ""
		for _, a := range t.Attr {
			if a.Key == "src" {
				src = a.Val
			}
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key != "value" && strings.HasPrefix(strings.TrimSpace(a.Val), "javascript:") {
				o.Errorf("%.100q has %s=%q", name, a.Key, a.Val)
			}
		}
		switch t.Data {
		case "script":
			if src != "/ui/static/live.js" {
				o.Errorf("%.100q has a script", name)
			}
		case "style", "iframe", "object", "img", "base", "b":
			o.Errorf("%.100q has %s", name, t.Data)
		}
	}
}

func (o *office) get(path string) *httptest.ResponseRecorder {
	o.Helper()
	return o.send(httptest.NewRequestWithContext(o.Context(), http.MethodGet, path, http.NoBody))
}

// must gets a page that is there.
func (o *office) must(path string) string {
	o.Helper()
	w := o.get(path)
	if w.Code != http.StatusOK {
		o.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// post sends a form, as the page has it.
func (o *office) post(path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	o.Helper()
	r := httptest.NewRequestWithContext(o.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return o.send(r)
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// formOf are the hidden fields of a form of a page.
func formOf(text, action string) url.Values {
	form := url.Values{}
	_, rest, _ := strings.Cut(text, `action="`+action+`"`)
	rest, _, _ = strings.Cut(rest, "</form>")
	for _, m := range hidden.FindAllStringSubmatch(rest, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	return form
}

// previewed previews an edit of key-1 for gpt-4, and returns the form that applies it, and the page.
func (o *office) previewed(fields ...string) (apply url.Values, text string) {
	o.Helper()
	return o.previewedOn("/ui/entity?id=key-1&resource=gpt-4", fields...)
}

// previewedOn is previewed for the first form of a page.
func (o *office) previewedOn(page string, fields ...string) (apply url.Values, text string) {
	o.Helper()
	form := formOf(o.must(page), "/ui/preview")
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	w := o.post("/ui/preview", form)
	if w.Code != http.StatusOK {
		o.Fatalf("preview of %v: %d %s", fields, w.Code, w.Body)
	}
	return formOf(w.Body.String(), "/ui/apply"), w.Body.String()
}

// take takes from a limit of gpt-4.
func (o *office) take(entity, limit string, n int64) error {
	_, err := o.limiter.Acquire(o.log.Follow(o.Context(), "req-"+entity), limiter.Request{Entity: entity, Resource: "gpt-4", Consume: map[string]int64{limit: n}})
	return err
}

// wants checks that a page has texts.
func (o *office) wants(text string, wanted ...string) {
	o.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			o.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}
