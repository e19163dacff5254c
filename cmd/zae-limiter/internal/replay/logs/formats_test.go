package logs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay/logs"
	"github.com/zeroae/zae-limiter-go/store"
)

// read is what a reader reads: "entity resource amounts" of each event, then "line: reason"
// of each reason for malformed lines.
func read(t *testing.T, text string, o logs.Options) (got []string) {
	t.Helper()
	r := reader(t, strings.NewReader(text), o)
	for _, e := range events(t, r) {
		got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %s %v", e.Entity, e.Resource, e.Amounts), " []"))
	}
	for _, reason := range r.Malformed().Reasons {
		got = append(got, fmt.Sprintf("%d: %s", reason.First.Line, reason.First.Reason))
	}
	return got
}

const (
	commonLine   = `192.0.2.7 - - [02/Nov/2026:09:15:27 +0000] "GET /a HTTP/1.1" 200 512`
	combinedLine = commonLine + ` "-" "curl/8"`
	nginxMain    = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"`
)

func TestFormatsAreDetectedAndNameTheClient(t *testing.T) {
	t.Parallel()
	cloudfront := "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(User-Agent)\n" +
		"2026-11-02\t09:15:27\tFRA2\t512\t192.0.2.7\tGET\tMozilla/5.0%20(X11)\n"
	iis := "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n#Date: 2026-11-02 09:15:27\n" +
		"#Fields: date time s-ip cs-method cs-uri-stem c-ip cs(User-Agent) sc-status\n" +
		"2026-11-02 09:15:27 10.0.0.1 GET /a 192.0.2.7 Mozilla/5.0+(\"X11\") 200\n"
	for _, c := range []struct {
		format logs.Format
		line   string
	}{
		{logs.Common, commonLine},
		{logs.Combined, combinedLine},
		{logs.VHost, "example.com:443 " + combinedLine},
		{logs.VHost, "[2001:db8::1]:443 " + strings.Replace(combinedLine, "- -", "- jane doe", 1)},
		{logs.Main, strings.Replace(combinedLine, "192.0.2.7", "10.0.0.1", 1) + ` "192.0.2.7"`},
		{logs.Main, strings.Replace(combinedLine, "192.0.2.7", "10.0.0.1", 1) + ` "192.0.2.7, 10.0.0.2"`},
		{logs.Main, combinedLine + ` "-"`},
		{logs.ELB, `2026-11-02T09:15:27.943958Z my-lb 192.0.2.7:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -`},
		{logs.ELB, `2026-11-02T09:15:27.943958Z my-lb 192.0.2.7:2817 - -1 -1 -1 503 0 0 0 "GET http://www.example.com:80/ HTTP/1.1"`},
		{logs.Envoy, `[2026-11-02T09:15:27.310Z] "POST /api/v1/x HTTP/2" 204 - 154 0 226 100 "192.0.2.7" "Mozilla/5.0 (X11; Linux) a, b" "cc21d9b0" "svc" "10.0.2.1:80"`},
		{logs.W3C, cloudfront},
		{logs.W3C, iis},
		{logs.W3C, "#Fields: date-time,c-ip,x\n2026-11-02T09:15:27.000Z,192.0.2.7,\"a,b\"\n"},
	} {
		o := logs.Options{}
		if strings.Contains(c.line, "date-time") {
			o.Time = "date-time"
		}
		r := reader(t, strings.NewReader(c.line), o)
		got := events(t, r)
		at := time.Date(2026, 11, 2, 9, 15, 27, 0, time.UTC).UnixMilli()
		if len(got) != 1 || got[0].Entity != "192.0.2.7" || got[0].At/1000*1000 != at || r.Format() != c.format {
			t.Errorf("%s: format %s, want %s; events %+v; %+v", c.line, r.Format(), c.format, got, r.Malformed())
		}
	}
}

func TestAListOfColumnsReadsAnyLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format, line string
		o            logs.Options
		want         string
	}{
		{nginxMain, strings.Replace(combinedLine, "192.0.2.7", "10.0.0.1", 1) + ` "192.0.2.7"`, logs.Options{Resource: "path"}, "192.0.2.7 /a"},
		{`$time_iso8601|$remote_addr|$request`, `2026-11-02T09:15:27+00:00|192.0.2.7|GET /a HTTP/1.1`, logs.Options{Resource: "method"}, "192.0.2.7 GET"},
		{`$msec\t$host\t${user agent}`, "1793610927.534\t192.0.2.7\ta b c", logs.Options{Entity: "user agent"}, "a b c requests"},
		{`$host [$time] "$request" $status ...`, `192.0.2.7 [02/Nov/2026:09:15:27 +0000] "GET /a HTTP/1.1" 200 and "more`, logs.Options{Resource: "status"}, "192.0.2.7 200"},
		{`<6>$day app: $time $client ...`, `<6>Mon app: 1793610927 192.0.2.7:5000`, logs.Options{}, "192.0.2.7 requests"},
		{`$time "$method $path $protocol" $host`, `1793610927 "GET /a HTTP/1.1" 192.0.2.7`, logs.Options{Resource: "path"}, "192.0.2.7 /a"},
		{`$time "$forwarded_for"`, `1793610927 "10.9.9.9, 192.0.2.7 , 10.0.0.1"`, logs.Options{Entity: "forwarded_for[-2]"}, "192.0.2.7 requests"},
	} {
		c.o.Format = logs.Format(c.format)
		if got := read(t, c.line, c.o); !cmp.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q, want %q", c.format, got, c.want)
		}
	}
}

func TestAWrongListOfColumnsIsNamed(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"$a$b": "put text between $a and the next column", "$a $ $b": "write a column as $name", "cost $": "write a column as $name or ${name}",
		"xml": "or a list of columns", "$": "name at least one column",
	} {
		_, err := logs.NewReader(strings.NewReader(""), logs.Options{Format: logs.Format(format)})
		if wrong, ok := errors.AsType[*store.ValidationError](err); !ok || wrong.Field != "format" || !strings.Contains(wrong.Reason, want) && format != "cost $" {
			t.Errorf("%s: %v, want %s", format, err, want)
		}
	}
	_, err := logs.NewReader(strings.NewReader(""), logs.Options{Format: "$time $host $host", Entity: "host"})
	if err == nil || !strings.Contains(err.Error(), "two columns of this name") {
		t.Errorf("a column twice: %v", err)
	}
}

// What a client sends, or another format, must not move a value into another column.
func TestAValueNeverMovesIntoAnotherColumn(t *testing.T) {
	t.Parallel()
	bytes := logs.Options{Costs: []logs.Cost{{Limit: "bytes", Column: "bytes"}}}
	for _, c := range []struct {
		name, line string
		format     logs.Format
		want       string // "" is malformed
	}{
		{"a quote ends early", `192.0.2.7 - - [20/Jul/1995:07:34:34 -0400] "GET /pic.jpg" HTTP/1.0" 404 12`, logs.Common, ""},
		{"with a status of its own", `192.0.2.7 - - [20/Jul/1995:07:34:34 -0400] "GET /" 200 5" 404 12`, logs.Common, ""},
		{"with all columns of its own", `192.0.2.7 - - [20/Jul/1995:07:34:34 -0400] "GET /" 200 5 "-" "x" HTTP/1.0" 404 12 "-" "curl"`, logs.Combined, ""},
		{"two quotes", `192.0.2.7 - - [20/Jul/1995:07:34:34 -0400] "GET /" 200 5 "-" "" 404 12 "-" "curl"`, logs.Combined, ""},
		{"in the agent", `192.0.2.7 - - [20/Jul/1995:07:34:34 -0400] "GET / HTTP/1.0" 404 12 "-" "a "b" c"`, logs.Combined, ""},
		{"a quote with a backslash", `192.0.2.7 - - [20/Jul/1995:07:34:34 -0400] "GET /\" 200 5 HTTP/1.0" 404 12`, logs.Common, "192.0.2.7 requests [12]"},
		{"a backslash at the end", `192.0.2.7 - - [20/Jul/1995:07:34:34 -0400] "GET /\\" 404 12`, logs.Common, "192.0.2.7 requests [12]"},
		{"a user with a space", `192.0.2.7 - jane doe [20/Jul/1995:07:34:34 -0400] "GET / HTTP/1.0" 404 12`, logs.Common, "192.0.2.7 requests [12]"},
		{"a user with a time", `192.0.2.7 - a [20/Jul/1995:07:34:34 -0400] [20/Jul/1995:07:34:34 -0400] "GET / HTTP/1.0" 404 12`, logs.Common, ""},
		{"a user with a bracket", `192.0.2.7 - a[b] [20/Jul/1995:07:34:34 -0400] "GET / HTTP/1.0" 404 12`, logs.Common, "192.0.2.7 requests [12]"},
		{"a user with a quote", `192.0.2.7 - a"b [20/Jul/1995:07:34:34 -0400] "GET / HTTP/1.0" 404 12`, logs.Common, ""},
		{"a host before the client", "example.com:80 " + combinedLine, logs.Combined, ""},
		{"a host alone before the client", "example.com " + combinedLine, logs.Combined, ""},
		{"a column more", combinedLine + ` "192.0.2.1"`, logs.Combined, ""},
		{"a number more", commonLine + " 17", logs.Common, ""},
		{"combined", combinedLine, logs.Common, ""},
		{"common", commonLine, logs.Combined, ""},
		{"a cut line", commonLine[:len(commonLine)-5], logs.Common, ""},
		{"another column instead of the client's address", combinedLine + ` "unknown"`, logs.Main, ""},
		{"no bytes", strings.Replace(commonLine, "512", "-", 1), logs.Common, "192.0.2.7 requests [0]"},
		{"no client", strings.Replace(commonLine, "192.0.2.7", "-", 1), logs.Common, ""},
	} {
		bytes.Format = c.format
		got := read(t, c.line, bytes)
		if len(got) != 1 || strings.HasPrefix(got[0], "1: ") != (c.want == "") || c.want != "" && got[0] != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestATargetMayHaveSpaces(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		"GET /a b HTTP/1.1": "/a b", "GET /": "/", "GET /a?x=http://b/c HTTP/1.1": "/a", "GET http://b/c?d HTTP/1.1": "/c", "GET http://b HTTP/1.1": "/", "GET /a b": "/a b",
	} {
		if got := read(t, strings.Replace(commonLine, "GET /a HTTP/1.1", request, 1), logs.Options{Resource: "path"}); !cmp.Equal(got, []string{"192.0.2.7 " + want}) {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
}

// The first lines may be malformed, or cut off.
func TestDetectionPassesOverMalformedLines(t *testing.T) {
	t.Parallel()
	text := `1] "GET / HTTP/1.1" 200 5` + "\n" + `192.0.2.7 - - [20/Jul/1995:07:34:34 -0400] "GET /pic.jpg" HTTP/1.0" 404 12` + "\n" + commonLine + "\n" + combinedLine + "\n{}\n"
	r := reader(t, strings.NewReader(text), logs.Options{})
	if got := events(t, r); len(got) != 1 || r.Format() != logs.Common || r.Malformed().Count != 4 {
		t.Errorf("format %s, events %+v, %+v", r.Format(), got, r.Malformed())
	}
	for text, want := range map[string]string{
		combinedLine + ` "2.35"`:                    "it has more columns than the format combined: name them behind '$host",
		combinedLine + ` 0.017`:                     "it has more columns than the format combined: name them behind '$host",
		`[{"time":1,"entity":"a","resource":"r"},`:  "write each of its values on a line",
		"#time\n#x\n":                               "name the format or its columns",
		"Nov  2 09:15:27 host app: something else?": "name the format or its columns",
	} {
		_, err := logs.NewReader(strings.NewReader(text), logs.Options{})
		if _, ok := errors.AsType[*logs.FormatError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestTheNamesOfAW3CLogMayChange(t *testing.T) {
	t.Parallel()
	text := "#Fields: date time c-ip sc-bytes\n2026-11-02 09:15:27 a 1\n2026-11-02 09:15:27 a 1 2\n" +
		"#Date: 2026-11-03\n#Fields: date time sc-bytes c-ip\n2026-11-02 09:15:27 2 b\n"
	o := logs.Options{Costs: []logs.Cost{{Limit: "bytes", Column: "sc-bytes"}}}
	want := []string{"a requests [1]", "b requests [2]", "3: it has not as many columns as the header"}
	if got := read(t, text, o); !cmp.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, text := range []string{"#Version: 1.0\n2026-11-02 09:15:27 a 1\n", "#Fields: date time c-ip\n"} {
		o.Format = logs.W3C
		if _, err := logs.NewReader(strings.NewReader(text), o); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
	r := reader(t, strings.NewReader(text+"#Fields: date time c-ip\n2026-11-02 09:15:27 a\n"), o)
	_, err := drain(r)
	if err == nil || !strings.Contains(err.Error(), "line 7") {
		t.Errorf("the column of the cost vanishes: %v", err)
	}
}
