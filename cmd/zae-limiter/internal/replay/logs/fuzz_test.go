package logs_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay/logs"
	"github.com/zeroae/zae-limiter-go/store"
)

// FuzzReader reads any text in every format. Each line that is not empty is an event or
// malformed; an event has names, valid amounts and an instant.
func FuzzReader(f *testing.F) {
	for name := range formats {
		text, err := os.ReadFile(filepath.Join("testdata", name+".log"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, o := range formats {
			o.Format = logs.Format(name)
			r, err := logs.NewReader(bytes.NewReader(text), o)
			if err != nil {
				continue
			}
			read := int64(0)
			for ; ; read++ {
				var e replay.Event
				err := r.Next(&e)
				if err != nil {
					if !errors.Is(err, io.EOF) && !strings.HasPrefix(err.Error(), "read line") {
						t.Fatalf("%s: %v", name, err)
					}
					break
				}
				if e.Entity == "" || e.Resource == "" || e.At < 0 || len(e.Amounts) != len(o.Costs) {
					t.Fatalf("%s: event %+v", name, e)
				}
				for _, tokens := range e.Amounts {
					if tokens < 0 || tokens > store.MaxTokens {
						t.Fatalf("%s: event %+v", name, e)
					}
				}
			}
			if m := r.Malformed(); m.Lines != m.Count+read || len(m.Reasons) > logs.MaxReasons {
				t.Fatalf("%s: %d events of %+v", name, read, m)
			}
		}
	})
}

// FuzzCSV compares a record with encoding/csv. The reader accepts only what that accepts,
// with the same values.
func FuzzCSV(f *testing.F) {
	f.Add("1,a,r")
	f.Add(`1,"a,""b""",r`)
	f.Add(`1,a"b,r`)
	f.Add("1,\"a\nb\",r")
	f.Add("1,\"a\"\"\n\n\"\"b\",\"\nr\"\n2,a,r")
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "\r") || line == "" {
			return
		}
		r, err := logs.NewReader(strings.NewReader("time,entity,resource\n"+line), logs.Options{Format: logs.CSV})
		if err != nil {
			t.Fatal(err)
		}
		var e replay.Event
		if r.Next(&e) != nil || r.Malformed().Count > 0 {
			return
		}
		values, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil || len(values) != 3 || values[1] != e.Entity || values[2] != e.Resource {
			t.Errorf("%q: event %+v, encoding/csv has %q, %v", line, e, values, err)
		}
	})
}

// FuzzJSON compares a line with encoding/json: an accepted line is an object with these
// fields.
func FuzzJSON(f *testing.F) {
	f.Add(`{"time":1,"entity":"a","resource":"r"}`)
	f.Add(`{"time":1,"entity":"\u0061\n","resource":"r","x":{"y":[1,null]}} `)
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\r\n") {
			return
		}
		r, err := logs.NewReader(strings.NewReader(line), logs.Options{Format: logs.JSON})
		if err != nil {
			return
		}
		var e replay.Event
		if r.Next(&e) != nil {
			return
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("%q: event %+v, but %v", line, e, err)
		}
		if s, ok := object["entity"].(string); ok && strings.ToValidUTF8(s, "") == s && strings.ToValidUTF8(line, "") == line && s != e.Entity {
			t.Errorf("%q: entity %q, encoding/json has %q", line, e.Entity, s)
		}
	})
}

// FuzzPlainJSON compares the scanner of plain lines with the decoder: it accepts no line
// that the decoder refuses, and finds the same values. It accepts what has no escapes, so
// that the decoder is seldom needed.
func FuzzPlainJSON(f *testing.F) {
	for _, line := range plainLines {
		f.Add([]byte(line))
	}
	for _, line := range []string{
		`{"a":1,"a":null,"a":2}`, `{"a":true,"b":false}`, `{"b":{"c":[1,{"a":2}]},"a":[ ]}`, `{"a":["x",1]}`, `{"a":["x\n"]}`, `{"b":{},"b":{}}`, `{"a":{"b":1}}`,
		`{"a":"x\n"}`, `{"\u0061":1}`, `{"a":01}`, `{"a":+1}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":-}`, `{"a":nul}`, `{"a":1,}`,
		`{"a":[1,]}`, `{"a":1}x`, `{"a"}`, `{"a":"` + "\x1f" + `"}`, `{"a":{"b":1}`, `{,}`, `{"a":1 "b":2}`, `[]`, ``, ` `, `{`, `{"`, "{\"a\":\"0123456\x00\"}",
		`{"a":NaN}`, `{"a":"aaaaaaa`, `{"a":1}}`, `{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		decoded, err, plain, ok := logs.SplitJSON(line, "a", "b.c", "b", "long_name.d")
		if !ok {
			return
		}
		if err != nil {
			t.Fatalf("%q is plain, but the decoder says: %v", line, err)
		}
		if diff := cmp.Diff(decoded, plain); diff != "" {
			t.Errorf("%q (-decoder +plain):\n%s", line, diff)
		}
	})
}

// plainLines are plain.
var plainLines = []string{
	`{}`, ` { } `, `{"a":1}`, `{"a":"x","b":null}`, `{"b":{"c":"y","d":{}}}`, `{"a":null,"b":null}`, `{"x":1,"x":2}`, `{"x":true,"y":false}`,
	`{"x":{"c":[1,{"a":2}]},"a":["one"]}`, `{"x":[1,2.5e-3,-0,"é",null]}`, `{"b":"not an object","long_name":{"d":-0.0E+10}}`,
	"\t{\r\"a\" : \"a long text of more than eight bytes, with \xff in it\" , \"x\"\t:\n{ \"c\" : { } } } \r", `{"":{"":""}}`, `{"a":123456789012345678901234567890}`,
	`{"b.c":1,"b":{"c":2}}`, `{"b":{"c":2},"b.c":1}`,
}

func TestLinesWithoutEscapesNeedNoDecoder(t *testing.T) {
	t.Parallel()
	for _, line := range plainLines {
		if _, _, _, ok := logs.SplitJSON([]byte(line), "a", "b.c", "long_name.d"); !ok {
			t.Errorf("%q is left to the decoder", line)
		}
	}
}
