package documents_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// The lines of a block that belongs to a file are there.
func TestThePartsOfFilesAreInThem(t *testing.T) {
	t.Parallel()
	for _, b := range doctest.Blocks(t, "../../../../..", doctest.Part) {
		if !strings.Contains(unindented(read(t, filepath.Join("..", "..", "..", "..", "..", b.Argument))), unindented(b.Text)) {
			t.Errorf("%s:%d: %s does not have these lines", b.Document, b.Line, b.Argument)
		}
	}
}

// unindented is a text without the spaces at the ends of its lines.
func unindented(text string) string {
	var s strings.Builder
	for line := range strings.Lines(text) {
		s.WriteString(strings.TrimSpace(line) + "\n")
	}
	return s.String()
}

// folder matches what may be the name of a package of this project in a drawing.
var folder = regexp.MustCompile(`\b(?:internal|cmd|deploy|loadtest|dynamo|aggregator)/[a-z-]+\b`)

// A drawing has lines, and no package that does not exist.
func TestTheDrawingsNameWhatExists(t *testing.T) {
	t.Parallel()
	for _, b := range doctest.Blocks(t, "../../../../..", doctest.Drawing) {
		if !strings.ContainsAny(b.Text, "─│→▶◀") && !strings.Contains(b.Text, "{") {
			t.Errorf("%s:%d: the block has no lines or arrows: is it a drawing?", b.Document, b.Line)
		}
		if strings.Contains(b.Text, "\t") {
			t.Errorf("%s:%d: the drawing has a tab: its lines move", b.Document, b.Line)
		}
		for _, name := range folder.FindAllString(b.Text, -1) {
			if _, err := os.Stat(filepath.Join("..", "..", "..", "..", "..", filepath.FromSlash(name))); err != nil {
				t.Errorf("%s:%d: %v", b.Document, b.Line, err)
			}
		}
	}
}

// texts are what the library says, by the name in the mark of the block that shows it.
var texts = map[string]func(*testing.T) string{
	"error of a missing limit": func(t *testing.T) string {
		t.Helper()
		limits := limitertest.New(t, limiter.PerMinute("rpm", 60))
		if _, err := limits.Store.CreateEntity(t.Context(), limiter.Entity{ID: "acme"}); err != nil {
			t.Fatal(err)
		}
		for key, of := range map[limiter.ConfigKey][]limiter.Limit{
			{Resource: "gpt-4"}: {limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000)},
			{Entity: "acme", Resource: limiter.DefaultResource}: {limiter.PerMinute("rpm", 500)},
			{Entity: "acme", Resource: "gpt-4"}:                 {limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", 200_000)},
		} {
			if err := limits.Store.SetLimits(t.Context(), key, of); err != nil {
				t.Fatal(err)
			}
		}
		_, err := limits.Acquire(t.Context(), limiter.Request{Entity: "acme", Resource: "gpt-3", Consume: map[string]int64{"tpm": 1}})
		if !errors.Is(err, limiter.ErrNotConfigured) {
			t.Fatal(err)
		}
		return err.Error() + "\n"
	},
	"refusal in debt": func(t *testing.T) string {
		t.Helper()
		limits := limitertest.New(t, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
		request := limiter.Request{Entity: "bob", Resource: "gpt-4", Consume: map[string]int64{"rpm": 1, "tpm": 8000}}
		lease, err := limits.Acquire(t.Context(), request)
		if err == nil {
			err = lease.Settle("tpm", 11_000)
		}
		if err == nil {
			err = lease.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		request.Consume = map[string]int64{"tpm": 1}
		_, err = limits.Acquire(t.Context(), request)
		if !errors.Is(err, limiter.ErrExceeded) {
			t.Fatal(err)
		}
		return err.Error() + "\n"
	},
	"encoded names": func(t *testing.T) string {
		t.Helper()
		var s strings.Builder
		const space = 3
		w := tabwriter.NewWriter(&s, 0, 0, space, ' ', 0)
		_, _ = fmt.Fprintln(w, "name\tID")
		for _, name := range []string{
			"key-1", "alice@example.com", "alice+test@example.com", "auth0|5f7c", "google-oauth2|1042", "arn:aws:iam::123456789012:role/api", "::1", "Zoë",
		} {
			id := limiter.EncodeName(name)
			if back, err := limiter.DecodeName(id); err != nil || back != name {
				t.Errorf("%s becomes %s, and that %s, %v", name, id, back, err)
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\n", name, id)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return s.String()
	},
}

// A text that the library says is in the document as it is said. A document may fold a text of
// one line.
func TestTheTextsOfTheDocumentsAreSaid(t *testing.T) {
	t.Parallel()
	for _, b := range doctest.Blocks(t, "../../../../..", doctest.Text) {
		said, ok := texts[b.Argument]
		if !ok {
			t.Errorf("%s:%d: nothing says %q; say here what does", b.Document, b.Line, b.Argument)
			continue
		}
		t.Run(b.Argument, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shown, want := b.Text, said(t)
				if strings.Count(want, "\n") == 1 {
					shown = strings.Join(strings.Fields(shown), " ") + "\n"
				}
				if diff := cmp.Diff(shown, want); diff != "" {
					t.Errorf("%s:%d: the library says something else (-document +library):\n%s", b.Document, b.Line, diff)
				}
			})
		})
	}
}

// The answer that a document shows is that of the middleware, header by header.
func TestTheAnswersOfTheDocumentsAreGiven(t *testing.T) {
	t.Parallel()
	for _, b := range doctest.Blocks(t, "../../../../..", doctest.Answer) {
		synctest.Test(t, func(t *testing.T) {
			head, body, _ := strings.Cut(b.Text, "\n\n")
			shown, err := http.ReadResponse(bufio.NewReader(strings.NewReader(head+"\n\n"+body)), nil)
			if err != nil {
				t.Fatalf("%s:%d: %v", b.Document, b.Line, err)
			}
			defer shown.Body.Close()
			given := refusal(t)
			defer given.Body.Close()
			given.Header.Del("Content-Length") // the document folds the text
			if shown.StatusCode != given.StatusCode || shown.Status != given.Status {
				t.Errorf("%s:%d: the middleware answers %s", b.Document, b.Line, given.Status)
			}
			if diff := cmp.Diff(shown.Header, given.Header); diff != "" {
				t.Errorf("%s:%d: the middleware answers with other headers (-document +middleware):\n%s", b.Document, b.Line, diff)
			}
			if diff := cmp.Diff(compact(t, shown.Body), compact(t, given.Body)); diff != "" {
				t.Errorf("%s:%d: the middleware answers something else (-document +middleware):\n%s", b.Document, b.Line, diff)
			}
		})
	}
}

// refusal is the answer to the fourth request at an instant, where three a minute are allowed.
func refusal(t *testing.T) *http.Response {
	t.Helper()
	limits := limitertest.New(t, limiter.PerMinute("rpm", 3))
	middleware, err := httplimit.New(limits.Limiter, httplimit.Options{
		Entity: httplimit.Header("X-Api-Key"), Resource: httplimit.Constant("api"), Consume: map[string]int64{"rpm": 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := middleware.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 3 {
		handler.ServeHTTP(httptest.NewRecorder(), fromKey(t))
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, fromKey(t))
	return w.Result()
}

func fromKey(t *testing.T) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.Header.Set("X-Api-Key", "key-1")
	return r
}

// compact is JSON without the spaces between its parts.
func compact(t *testing.T, body io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
