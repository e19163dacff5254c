package logs_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/replay"
	"github.com/zeroae/zae-limiter-go/replay/logs"
	"github.com/zeroae/zae-limiter-go/store"
)

var update = flag.Bool("update", false, "write what the readers read into the golden files")

// formats are the logs in testdata, and how they are read.
var formats = map[string]logs.Options{
	"json": {
		Entity: "api_key", Resource: "model", Parent: "team",
		Costs: []logs.Cost{{Limit: "rpm", Tokens: 1}, {Limit: "tpm", Column: "usage.total_tokens"}},
	},
	"csv":    {Time: "when", Entity: "who", Resource: "what", Costs: []logs.Cost{{Limit: "tpm", Column: "tokens"}}},
	"common": {Costs: []logs.Cost{{Limit: "bytes", Column: "bytes"}}},
	"combined": {
		Resource: "path", Entity: "user_agent", Parent: "host",
		Costs: []logs.Cost{{Limit: "rps", Tokens: 1}, {Limit: "bytes", Column: "bytes"}},
	},
	"alb": {ResourceIs: "web", Parent: "path", Costs: []logs.Cost{{Limit: "bytes", Column: "sent_bytes"}}},
}

// render is what a reader reads of a log, one line an event, then the malformed lines.
func render(t *testing.T, r *logs.Reader) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "format %s\n", r.Format())
	for _, e := range events(t, r) {
		fmt.Fprintf(&b, "%s %q %q parent %q %v\n", time.UnixMilli(e.At).UTC().Format("2006-01-02T15:04:05.000"), e.Entity, e.Resource, e.Parent, e.Amounts)
	}
	m := r.Malformed()
	fmt.Fprintf(&b, "%d lines, %d malformed\n", m.Lines, m.Count)
	for _, p := range m.First {
		fmt.Fprintf(&b, "%s:%d: %s\n", p.File, p.Line, p.Reason)
	}
	return b.String()
}

func events(t *testing.T, source replay.Source) (all []replay.Event) {
	t.Helper()
	for {
		var e replay.Event
		err := source.Next(&e)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

func TestEachFormatIsReadAsItsGoldenFileSays(t *testing.T) {
	t.Parallel()
	for name, o := range formats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", name+".log"))
			if err != nil {
				t.Fatal(err)
			}
			o.Name = name + ".log"
			got := render(t, reader(t, bytes.NewReader(text), o))
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, render(t, reader(t, bytes.NewReader(zipped(t, text)), o))); diff != "" {
				t.Errorf("with gzip it is read otherwise (-plain +gzip):\n%s", diff)
			}
			o.Format = logs.Format(name)
			if diff := cmp.Diff(got, render(t, reader(t, iotestOneByte{bytes.NewReader(text)}, o))); diff != "" {
				t.Errorf("with the format named, and byte by byte, it is read otherwise (-detected +named):\n%s", diff)
			}
		})
	}
}

// iotestOneByte reads one byte at a time, as a slow pipe may.
type iotestOneByte struct{ io.Reader }

func (r iotestOneByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 1)]) }

func reader(t *testing.T, text io.Reader, o logs.Options) *logs.Reader {
	t.Helper()
	r, err := logs.NewReader(text, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func zipped(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAnEmptyLogHasNoEvents(t *testing.T) {
	t.Parallel()
	for _, format := range append(logs.Formats(), logs.Detect) {
		if got := events(t, reader(t, strings.NewReader("\n\r\n"), logs.Options{Format: format})); len(got) > 0 {
			t.Errorf("%q: %v", format, got)
		}
	}
}

func TestALineThatIsTooLongIsMalformed(t *testing.T) {
	t.Parallel()
	text := `{"time":1,"entity":"a","resource":"r"}` + "\n" + strings.Repeat("x", 3*logs.MaxLine) + "\n" + `{"time":2,"entity":"a","resource":"r"}`
	r := reader(t, strings.NewReader(text), logs.Options{})
	if got := events(t, r); len(got) != 2 || got[1].At != 2000 {
		t.Errorf("events %+v", got)
	}
	if m := r.Malformed(); m.Count != 1 || m.First[0].Line != 2 {
		t.Errorf("malformed %+v", m)
	}
}

func TestWrongOptionsAndColumnsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field, text string
		o           logs.Options
	}{
		{"format", "", logs.Options{Format: "xml"}},
		{"resource", "", logs.Options{Resource: "a", ResourceIs: "b"}},
		{"cost of rpm", "", logs.Options{Costs: []logs.Cost{{Limit: "rpm", Tokens: -1}}}},
		{"column", "time,who\n", logs.Options{}},
		{"column", `1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1`, logs.Options{Entity: "api_key"}},
		{"header", "time,\"who\n", logs.Options{}},
	} {
		_, err := logs.NewReader(strings.NewReader(c.text), c.o)
		if wrong, ok := errors.AsType[*store.ValidationError](err); !ok || wrong.Field != c.field {
			t.Errorf("%+v: error %v, want a ValidationError of %s", c.o, err, c.field)
		}
	}
	_, err := logs.NewReader(strings.NewReader("hello"), logs.Options{Name: "x.log"})
	if _, ok := errors.AsType[*logs.FormatError](err); !ok {
		t.Errorf("error %v, want a FormatError", err)
	}
}

func TestATimeLayoutIsTheOnlyFormOfTimes(t *testing.T) {
	t.Parallel()
	text := "time,entity,resource\n02.11.2026 09:15,a,r\n2026-11-02T09:15:00Z,a,r\n"
	r := reader(t, strings.NewReader(text), logs.Options{TimeLayout: "02.01.2006 15:04"})
	got := events(t, r)
	if len(got) != 1 || r.Malformed().Count != 1 || got[0].At != time.Date(2026, 11, 2, 9, 15, 0, 0, time.UTC).UnixMilli() {
		t.Errorf("events %+v, malformed %+v", got, r.Malformed())
	}
}

func TestNumbersTellTheirUnit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1793524528": 1793524528000, "1793524528.0419": 1793524528041, "1793524528041": 1793524528041,
		"1793524528041999": 1793524528041, "1793524528041999999": 1793524528041, "0": 0,
	} {
		got := events(t, reader(t, strings.NewReader(`{"time":`+text+`,"entity":"a","resource":"r"}`), logs.Options{}))
		if len(got) != 1 || got[0].At != want {
			t.Errorf("%s: %+v, want %d", text, got, want)
		}
	}
}
