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

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay/logs"
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
	for _, p := range m.Reasons {
		fmt.Fprintf(&b, "%s:%d: %s (%d)\n", p.First.File, p.First.Line, p.First.Reason, p.Lines)
	}
	for _, l := range m.Lacking {
		fmt.Fprintf(&b, "%d lack %s; %s:%d: %s\n", l.Events, l.Limit, l.First.File, l.First.Line, l.First.Reason)
	}
	for _, p := range m.Cut {
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

func zipped(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
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
	if m := r.Malformed(); m.Count != 1 || m.Reasons[0].First.Line != 2 {
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
	for _, text := range []string{"hello", "a\x00,b,c\n"} {
		_, err := logs.NewReader(strings.NewReader(text), logs.Options{Name: "x.log"})
		if _, ok := errors.AsType[*logs.FormatError](err); !ok {
			t.Errorf("%q: error %v, want a FormatError", text, err)
		}
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
		"1.793524528e9": 1793524528000, "1.7935245280419E+09": 1793524528041, "1793524528041E0": 1793524528041,
	} {
		got := events(t, reader(t, strings.NewReader(`{"time":`+text+`,"entity":"a","resource":"r"}`), logs.Options{}))
		if len(got) != 1 || got[0].At != want {
			t.Errorf("%s: %+v, want %d", text, got, want)
		}
	}
}

func TestNumbersBelowZeroAndBeyondTheLargestAreNoTimes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"-5", "-1e9", "1e400", "1e30"} {
		r := reader(t, strings.NewReader(`{"time":`+text+`,"entity":"a","resource":"r"}`), logs.Options{})
		if got := events(t, r); len(got) > 0 || r.Malformed().Count != 1 {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestAByteOrderMarkIsNoPartOfALog(t *testing.T) {
	t.Parallel()
	for format, text := range map[logs.Format]string{
		logs.JSON: `{"time":1,"entity":"a","resource":"r"}`,
		logs.CSV:  "time,entity,resource\n1,a,r\n",
	} {
		marked := []byte("\xef\xbb\xbf" + text)
		for _, text := range [][]byte{marked, zipped(t, marked)} {
			r := reader(t, bytes.NewReader(text), logs.Options{})
			if got := events(t, r); len(got) != 1 || r.Format() != format {
				t.Errorf("format %s, want %s: events %+v", r.Format(), format, got)
			}
		}
	}
}

func TestAQuotedValueMayHaveLineBreaks(t *testing.T) {
	t.Parallel()
	text := "time,entity,resource,note\r\n" +
		"1,\"a\nb\",r,\"x\r\n\"\"y\"\"\n\nz\"\r\n" +
		"2,c,r,\"one\ntwo\",too many\n" + // lines 7 and 8: no record
		"3,d,r,\"never closed\n" + // line 9
		"4,e,r,\n" +
		"5,,r,\"no\nentity\"\n" + // lines 11 and 12: a record
		"6,f,r,\"at\nthe end\""
	for name, source := range map[string]io.Reader{"at once": strings.NewReader(text), "byte by byte": iotestOneByte{strings.NewReader(text)}} {
		r := reader(t, source, logs.Options{Name: "x.csv"})
		var got []string
		for _, e := range events(t, r) {
			got = append(got, fmt.Sprintf("%d %s", e.At/1000, e.Entity))
		}
		for _, p := range r.Malformed().Reasons {
			got = append(got, fmt.Sprintf("%d: %s (%d)", p.First.Line, p.First.Reason, p.Lines))
		}
		want := []string{
			"1 a\nb", "4 e", "6 f",
			"7: a quote is not closed (2)", "8: there is a quote within a value that does not begin with one (1)",
			"11: column entity: it is missing (1)",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if m := r.Malformed(); m.Lines != 7 || m.Count != 4 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// A quote that nobody closes spoils its own line, however long the log is.
func TestAStrayQuoteSpoilsOneLine(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"many lines": "1,a,r\n", "long lines": "1," + strings.Repeat("a", 2000) + ",r\n"} {
		const lines = 500
		text := "time,entity,resource\n1,\"a,r\n" + strings.Repeat(line, lines)
		r := reader(t, strings.NewReader(text), logs.Options{})
		if got := events(t, r); len(got) != lines || r.Malformed().Count != 1 {
			t.Errorf("%s: %d events, %+v", name, len(got), r.Malformed())
		}
	}
}

func TestCompressedDataThatEndTooEarlyAreNamed(t *testing.T) {
	t.Parallel()
	whole := zipped(t, []byte(strings.Repeat(`{"time":1,"entity":"a","resource":"r"}`+"\n", 1000)))
	r := reader(t, bytes.NewReader(whole[:len(whole)-9]), logs.Options{Name: "x.gz"})
	var e replay.Event
	var err error
	for err == nil {
		err = r.Next(&e)
	}
	if !strings.Contains(err.Error(), "of x.gz: the compressed data end too early") {
		t.Errorf("error %v", err)
	}
}

func TestTimesThatLoggersWrite(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 11, 2, 9, 15, 30, 250_000_000, time.UTC).UnixMilli()
	for _, text := range []string{
		"2026-11-02T09:15:30.250Z", "2026-11-02T10:15:30.250+01:00", "2026-11-02 09:15:30.250", "2026-11-02 09:15:30,250", "2026-11-02T09:15:30.250",
		"2026-11-02T09:15:30.250123", "2026-11-02 09:15:30.250Z", "2026-11-02 10:15:30.250+01:00", "2026-11-02T10:15:30.250+0100",
		"2026-11-02 10:15:30.250+0100", "2026-11-02 10:15:30.250 +0100", "1793610930.250", "1793610930250",
		"2026-11-02 09:15:30.25+00", "2026-11-02 14:45:30.25+05:30", "2026-11-02 01:15:30.250-08", "2026-11-02 09:15:30.250 UTC", "2026-11-02 09:15:30.250123+00:00",
		"2026-11-02T09:15:30.25+00", "2026/11/02 09:15:30.250123", "2026-11-02 10:15:30.25 +0100 CET m=+0.1", "2026-11-02 09:15:30.25 +0000 UTC", "2026-11-02 10:15:30.25 +01",
		"02/Nov/2026:09:15:30.250", "02/Nov/2026:10:15:30.250 +0100", "Mon, 02 Nov 2026 09:15:30.25 GMT", "Mon, 02 Nov 2026 10:15:30.25 +0100", "Mon Nov  2 09:15:30.25 2026", "Mon Nov 02 09:15:30.250123 2026",
		"20261102T091530.250Z", "1.79361093025e9", "1793610930250000", "1793610930250000000", "1793610930.250000",
	} {
		r := reader(t, strings.NewReader(`{"time":"`+text+`","entity":"a","resource":"r"}`), logs.Options{})
		if got := events(t, r); len(got) != 1 || got[0].At != want {
			t.Errorf("%s: %+v, want %d; %+v", text, got, want, r.Malformed())
		}
	}
	for _, text := range []string{
		"2016-12-31T23:59:60Z", "2026-02-30T00:00:00Z", "1969-12-31T23:59:59Z", "-5", "1e300", "yesterday", "09:15:30",
		"2026-11-02 09:15:30 CET", "2026-11-02 09:15:30 PST", "Mon, 02 Nov 2026 09:15:30 EST", "20261102", "202611020915", "20261102091530", "20261102091530250", "2026-W45-1T09:15:30Z", "11/02/2026 09:15:30",
		"2026-11-02", "NaN", "Inf", "0x1p4", "1_000",
	} {
		r := reader(t, strings.NewReader(`{"time":"`+text+`","entity":"a","resource":"r"}`), logs.Options{})
		if got := events(t, r); len(got) != 0 || r.Malformed().Count != 1 {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestALayoutsZoneMustBeKnown(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]int{"UTC": 1, "GMT": 1, "CET": 0, "EST": 0, "+03": 0} {
		r := reader(t, strings.NewReader(`{"time":"02.11.2026 09:15 `+zone+`","entity":"a","resource":"r"}`), logs.Options{TimeLayout: "02.01.2006 15:04 MST"})
		if got := events(t, r); len(got) != want {
			t.Errorf("%s: %+v, want %d", zone, got, want)
		}
	}
}

// The form of the last time must not change how another is read.
func TestFormsOfTimesMayChange(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for range 2 {
		for _, zone := range []string{" UTC", "+00", " +0000", "Z", " +00:00", "", " +00"} {
			fmt.Fprintf(&text, "{\"time\":\"2026-11-02 09:15:30%s\",\"entity\":\"a\",\"resource\":\"r\"}\n", zone)
		}
	}
	r := reader(t, strings.NewReader(text.String()), logs.Options{})
	for _, e := range events(t, r) {
		if e.At != 1793610930000 {
			t.Errorf("%d", e.At)
		}
	}
	if m := r.Malformed(); m.Count > 0 || m.Lines != 14 {
		t.Errorf("%+v", m)
	}
}

func TestDamagedGzipSaysWhatToDo(t *testing.T) {
	t.Parallel()
	whole := zipped(t, []byte(strings.Repeat(`{"time":1700000000,"entity":"a","resource":"r"}`+"\n", 1000)))
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // of the checksum
	corrupt := bytes.Clone(whole)
	corrupt[10] = 0xff // the kind of the first block
	for want, text := range map[string][]byte{
		"end too early": whole[:len(whole)-4], "not compressed": append(bytes.Clone(whole), make([]byte, 512)...), "damaged": flipped,
	} {
		r := reader(t, bytes.NewReader(text), logs.Options{Name: "a.gz"})
		var err error
		for n := 0; err == nil; n++ {
			var e replay.Event
			err = r.Next(&e)
		}
		if !strings.Contains(err.Error(), want+": unzip the file") || !strings.HasPrefix(err.Error(), "read line ") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := logs.NewReader(bytes.NewReader(corrupt), logs.Options{Name: "a.gz"}); err == nil || !strings.Contains(err.Error(), "damaged: unzip the file") {
		t.Errorf("damaged at the beginning: %v", err)
	}
}
