package logs_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay/logs"
	"github.com/zeroae/zae-limiter-go/store"
)

// drain counts the events of a source, up to an error.
func drain(source replay.Source) (n int, err error) {
	for ; ; n++ {
		var e replay.Event
		if err := source.Next(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
	}
}

// A name is a text or a number; nothing else becomes one without a word.
func TestNamesInJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ column, object, want string }{
		{"k", `"k":"k1"`, "k1"},
		{"k", `"k":42`, "42"},
		{"k", `"k":["k1"]`, "k1"},
		{"k", `"k":["k\u0031"]`, "k1"},
		{"k", `"k":[7]`, "7"},
		{"h.K", `"h":{"K":["k1"]}`, "k1"},
		{"k", `"k":["a","b"]`, "1: column k: it is an array of several values; name one with [0] behind the column"},
		{"k", `"k":[]`, "1: column k: it is missing"},
		{"k", `"k":null`, "1: column k: it is missing"},
		{"k", `"k":""`, "1: column k: it is missing"},
		{"k", `"k":"-"`, "1: column k: it is missing"},
		{"k", `"k":[null]`, "1: column k: it is an array with other than texts and numbers"},
		{"k", `"k":[["a"]]`, "1: column k: it is an array with other than texts and numbers"},
		{"k", `"k":{"a":1}`, "1: column k: it is an object"},
		{"k", `"k":true`, "1: column k: it is true"},
		{"k", `"k":false`, "1: column k: it is false"},
		{"k[0]", `"k":["a","b"]`, "a"},
		{"k[-1]", `"k":["a","b"]`, "b"},
		{"k[0]", `"k":"a, b"`, "a"},
		{"k[-1]", `"k":"a, b"`, "b"},
		{"k[-2]", `"k":["a, b"]`, "a"},
		{"k[2]", `"k":["a","b"]`, "1: column k[2]: it is missing"},
		{"k[0]", `"k[0]":"x","k":["a"]`, "x"},
		{"k[0]", `"k":["a"],"k[0]":"x"`, "x"},
		{"k", `"k":"a","k":"b"`, "1: the key k is there twice"},
		{"k", `"k":null,"k":"b"`, "1: the key k is there twice"},
		{"k", `"k":"a","\u006b":"b"`, "1: the key k is there twice"},
		{"u.k", `"u":{"k":"a"},"u":{}`, "1: the key u is there twice"},
		{"k", `"x":1,"x":2,"k":"a"`, "a"},
	} {
		got := read(t, `{"time":1,`+c.object+"}\n", logs.Options{Entity: c.column, ResourceIs: "r"})
		want := c.want
		if !strings.HasPrefix(want, "1: ") {
			want += " r"
		}
		if !cmp.Equal(got, []string{want}) {
			t.Errorf("%s of %s: %q, want %q", c.column, c.object, got, want)
		}
	}
}

// A key that has the dots itself comes before a path.
func TestNamesMayHaveDots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ column, object, want string }{
		{"user.id", `"user.id":"a"`, "a"},
		{"user.id", `"user":{"id":"a"}`, "a"},
		{"user.id", `"user":{"id":"b"},"user.id":"a"`, "a"},
		{"user.id", `"user.id":"a","user":{"id":"b"}`, "a"},
		{"user.id", `"user.id":null,"user":{"id":"b"}`, "b"},
		{"a.b.c", `"a":{"b.c":"x"}`, "x"},
		{"a.b.c", `"a.b":{"c":"x"}`, "x"},
		{"a.b.c", `"a":{"b":{"c":"y"},"b.c":"x"}`, "x"},
		{"a.b.c", `"a":{"b.c":"y"},"a.b":{"c":"x"}`, "x"},
		{"a.b", `"a":"text","a.b":"x"`, "x"},
		{"@a/b c-d$*", `"@a/b c-d$*":"x"`, "x"},
		{"é.ü", `"é":{"ü":"x"}`, "x"},
		{"a.", `"a.":"x"`, "x"},
		{".a", `"":{"a":"x"}`, "x"},
		{"a..b", `"a":{"":{"b":"x"}}`, "x"},
	} {
		for _, escape := range []string{"", `"\n":0,`} { // with an escape, the decoder reads the line
			got := read(t, `{"time":1,`+escape+c.object+"}", logs.Options{Entity: c.column, ResourceIs: "r"})
			if !cmp.Equal(got, []string{c.want + " r"}) {
				t.Errorf("%s of %s: %q, want %q", c.column, c.object, got, c.want)
			}
		}
	}
	_, err := logs.NewReader(strings.NewReader(""), logs.Options{Entity: strings.Repeat("a.", 11)})
	if _, ok := errors.AsType[*store.ValidationError](err); !ok {
		t.Errorf("eleven dots: %v", err)
	}
}

func TestNumbersOfTokens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"456": 456, "456.0": 456, "456.000": 456, "4.56e2": 456, "4.56E+02": 456, `"456"`: 456, "0": 0, "-0.0": 0, "1e15": 1e15, "1000000000000000": 1e15, `"007"`: 7, "4560e-1": 456, "[456]": 456, `"-"`: 0,
		"456.5": -1, "-1": -1, "-0.5": -1, "1e16": -1, "1e400": -1, "1e-999999999": 0, "0.1": -1, `"NaN"`: -1, `"Infinity"`: -1, `"1,234"`: -1, `"1_000"`: -1, `"0x10"`: -1, `"1/2"`: -1, `" 4"`: -1,
		`""`: -1, "null": -1, "true": -1, "{}": -1, "[1,2]": -1, `"456."`: 456, `"."`: -1, "1000000000000001": -1, `"4e"`: -1,
	} {
		r := reader(t, strings.NewReader(`{"time":1,"n":`+text+`}`), logs.Options{
			Entity: "time", ResourceIs: "r", Costs: []logs.Cost{{Limit: "rpm", Tokens: 1}, {Limit: "tpm", Column: "n"}},
		})
		got, m := events(t, r), r.Malformed()
		if len(got) != 1 || got[0].Amounts[0] != 1 || got[0].Amounts[1] != max(0, want) || (len(m.Lacking) == 1) != (want < 0) {
			t.Errorf("%s: %+v, want %d; %+v", text, got, want, m)
		}
	}
}

func TestAFactorAndASumMakeACost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0.00123": 1230, "0.0012345": 1235, "0.0012344999": 1234, "1.23e-3": 1230, "3": 3_000_000, "0": 0, "1e-40": 0, "1e9": 1e15, "1e10": -1, "-0.1": -1,
	} {
		o := logs.Options{Entity: "time", ResourceIs: "r", Costs: []logs.Cost{{Limit: "usd", Column: "spend", Factor: 1_000_000}}}
		if got := read(t, `{"time":1,"spend":`+text+`}`, o); len(got) != 1 || strings.HasPrefix(got[0], "1: ") != (want < 0) || want >= 0 && got[0] != fmt.Sprintf("1 r [%d]", want) {
			t.Errorf("%s: %q, want %d", text, got, want)
		}
	}
	o := logs.Options{ResourceIs: "r", Costs: []logs.Cost{{Limit: "tpm", Column: "u.in"}, {Limit: "rpm", Tokens: 1}, {Limit: "tpm", Column: "u.out"}, {Limit: "tpm", Tokens: 2}}}
	text := `{"time":1,"entity":"a","u":{"in":10,"out":5}}` + "\n" + `{"time":1,"entity":"b","u":{"in":10}}` + "\n" + `{"time":1,"entity":"c","u":{"in":1000000000000000,"out":1}}` + "\n"
	want := []string{"a r [17 1]", "b r [12 1]", "3: column u.out: with other costs of tpm it is more than 10^15 tokens"}
	if got := read(t, text, o); !cmp.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// An event counts for the limits whose cost is known. The others are reported.
func TestEventsThatLackACostAreCounted(t *testing.T) {
	t.Parallel()
	text := `{"time":1,"entity":"a","u":{"n":10}}` + "\n" + `{"time":1,"entity":"a","u":null}` + "\n" + `{"time":1,"entity":"a","u":{"n":1.5}}` + "\n"
	o := logs.Options{Name: "x", ResourceIs: "r", Costs: []logs.Cost{{Limit: "rpm", Tokens: 1}, {Limit: "tpm", Column: "u.n"}}}
	r := reader(t, strings.NewReader(text), o)
	got, m := events(t, r), r.Malformed()
	if len(got) != 3 || m.Count != 0 || len(m.Lacking) != 1 {
		t.Fatalf("events %+v; %+v", got, m)
	}
	want := logs.Lack{Limit: "tpm", Column: "u.n", Events: 2, First: logs.Problem{File: "x", Line: 2, Reason: "column u.n: it is missing", Text: `{"time":1,"entity":"a","u":null}`}}
	if diff := cmp.Diff(want, m.Lacking[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.Add(m)
	if m.Lines != 6 || len(m.Lacking) != 1 || m.Lacking[0].Events != 4 {
		t.Errorf("twice: %+v", m)
	}
	o.Costs = o.Costs[1:] // the only cost
	r = reader(t, strings.NewReader(text), o)
	if got, m := events(t, r), r.Malformed(); len(got) != 1 || m.Count != 2 || len(m.Reasons) != 2 || len(m.Lacking) != 0 {
		t.Errorf("without another cost: events %+v; %+v", got, m)
	}
}

func TestReasonsAreCountedByKind(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 50 {
		fmt.Fprintf(&text, "{\"time\":\"x%d\",\"entity\":\"a\"}\n", i)
		fmt.Fprintf(&text, "{\"a%s\n", strings.Repeat("x", i))
		fmt.Fprintf(&text, "{\"time\":1,\"entity\":\"a\",\"entity\":%d}\n", i)
	}
	r := reader(t, strings.NewReader(text.String()), logs.Options{ResourceIs: "r"})
	if n, err := drain(r); n > 0 || err != nil {
		t.Errorf("%d events, %v", n, err)
	}
	m := r.Malformed()
	if len(m.Reasons) != 3 || m.Reasons[0].Lines != 50 || m.Reasons[1].First.Line != 2 || m.Reasons[2].First.Reason != "the key entity is there twice" {
		t.Errorf("%+v", m)
	}
	var sum logs.Malformed
	sum.Add(m)
	sum.Add(m)
	if len(sum.Reasons) != 3 || sum.Reasons[2].Lines != 100 || sum.Reasons[0].First.Line != 1 {
		t.Errorf("%+v", sum)
	}
}

func TestHeadersOfCSV(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"time,entity,resource\n1,a,r\n", "a r"},
		{"time|entity|resource\n1|a|r\n", "a r"},
		{"time\tentity\tresource\n1\ta\tr\n", "a r"},
		{"\"time\";\"entity\";\"resource\"\n1;a;r\n", "a r"},
		{"time,entity,resource,x,x\n1,a,r,2,3\n", "a r"},
		{"#time,entity,resource,time\n1,a,r,2\n", "a r"},
		{"time,entity,resource\n1,a\n", "2: it has not as many columns as the header"},
		{"time,entity,resource\n1,a,r,x\n", "2: it has not as many columns as the header"},
		{"time,entity,resource\n1,,r\n", "2: column entity: it is missing"},
	} {
		if got := read(t, c.text, logs.Options{}); !cmp.Equal(got, []string{c.want}) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"time,entity,resource,entity\n1,a,r,b\n": "two columns of this name", "time,who,resource\n": "the log has time, who, resource", "1,a,r\n2,b,r\n": "the log has 1, a, r",
	} {
		if _, err := logs.NewReader(strings.NewReader(text), logs.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	o := logs.Options{Date: "day", Time: "clock"}
	r := reader(t, strings.NewReader("day,clock,entity,resource\n2026-11-02,09:15:28.5,a,r\n,09:15:28,a,r\n"), o)
	if got, m := events(t, r), r.Malformed(); len(got) != 1 || got[0].At != 1793610928500 || m.Reasons[0].First.Reason != "column day and clock: it is missing" {
		t.Errorf("a column for the date: %+v, %+v", got, m)
	}
}

// A last line without an end may have been cut off within its last value.
func TestALineThatMayBeCutOffIsReported(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		commonLine: 1, commonLine + "\n": 0, combinedLine: 0, "time,entity,resource\n1,a,r": 1, "time,entity,resource\n1,a,r\n": 0, "time,entity,resource\n1,a,\"r\"": 0,
		`{"time":1,"entity":"a","resource":"r"}`: 0,
	} {
		r := reader(t, strings.NewReader(text), logs.Options{})
		if got, m := events(t, r), r.Malformed(); len(got) != 1 || len(m.Cut) != want {
			t.Errorf("%q: %+v, want %d; %+v", text, got, want, m)
		}
	}
}
