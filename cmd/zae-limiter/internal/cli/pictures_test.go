package cli_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// transcripts is the folder for the texts of the pictures in docs/pictures. make pictures
// draws them there. Without it the tests compare the texts with the pictures.
var transcripts = flag.String("pictures", "", "write the texts of docs/pictures to this `folder`")

// A transcript is what a terminal shows of commands. A nil one shows nothing.
type transcript struct{ text strings.Builder }

// Write adds what a command prints.
func (t *transcript) Write(p []byte) (int, error) {
	if t == nil {
		return len(p), nil
	}
	return t.text.Write(p)
}

// begin adds a command line.
func (t *transcript) begin(args []string) {
	if t.text.Len() > 0 {
		t.text.WriteByte('\n')
	}
	t.text.WriteString("$ " + app.CommandLine(append([]string{"zae-limiter"}, args...)) + "\n")
}

// check requires that a picture shows the transcript, or writes its text.
func (t *transcript) check(name string) error {
	text := t.text.String()
	if *transcripts != "" {
		return os.WriteFile(filepath.Join(*transcripts, name+".txt"), []byte(text), 0o600)
	}
	shown, err := textOf(filepath.Join("..", "..", "..", "..", "docs", "pictures", name+".svg"))
	if err != nil {
		return err
	}
	if diff := cmp.Diff(text, shown); diff != "" {
		return fmt.Errorf("docs/pictures/%s.svg is out of date (-want +got), run make pictures:\n%s", name, diff)
	}
	return nil
}

// textOf is the text of a picture of a terminal. Each text in it has the height of its line.
func textOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	var text strings.Builder
	var y, height string // of the last line of text and of this one
	inside := false
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text.String() + "\n", nil
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if inside = token.Name.Local == "text"; inside {
				height = attribute(token, "y")
			}
		case xml.EndElement:
			inside = false
		case xml.CharData:
			if !inside {
				continue
			}
			if err := newlines(&text, y, height); err != nil {
				return "", fmt.Errorf("%s: %w", file, err)
			}
			y = height
			text.WriteString(strings.NewReplacer("\u00a0", " ", "\n", "").Replace(string(token)))
		}
	}
}

// lineHeight is the distance of lines in the pictures, in the unit of their coordinates.
const lineHeight = 24.4

// newlines ends the line at a height, and adds the empty lines down to another.
func newlines(w *strings.Builder, from, to string) error {
	if from == "" || from == to {
		return nil
	}
	upper, err := strconv.ParseFloat(from, 64)
	lower, err2 := strconv.ParseFloat(to, 64)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	const rounding = 0.5
	w.WriteString(strings.Repeat("\n", int((lower-upper)/lineHeight+rounding)))
	return nil
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// show runs a command for the next picture.
func show(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if len(args) < 2 {
		ts.Fatalf("usage: show CODE ARGS…")
	}
	if w.shown == nil {
		w.shown = &transcript{}
	}
	w.shown.begin(args[1:])
	w.screen = w.shown
	exits(ts, neg, args)
	w.screen = nil
}

func picture(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if neg || len(args) != 1 || w.shown == nil {
		ts.Fatalf("usage: picture NAME, after show")
	}
	ts.Check(w.shown.check(args[0]))
	w.shown = nil
}

// A load test is shown in virtual time, in which it has the same figures each time. They are
// no measurement.
func TestThePictureOfALoadTest(t *testing.T) { //nolint:paralleltest // a bubble is on its own
	synctest.Test(t, func(t *testing.T) {
		args := []string{"loadtest", "run", "hot", "--local", app.Memory, "--side", "limiter,bare", "--clients", "1", "--rate", "200", "--duration", "10s", "--latency", "4ms"}
		shown := &transcript{}
		shown.begin(args)
		if code, _, stderr := runOnEngine(t.Context(), shown, args...); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		if err := shown.check("loadtest-run"); err != nil {
			t.Error(err)
		}
	})
}

// A picture that no test draws would show for ever what the program once did.
func TestEveryPictureIsDrawn(t *testing.T) {
	t.Parallel()
	drawn := map[string]bool{"loadtest-run": true, "dashboard": true, "grafana": true}
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		for line := range strings.Lines(readText(t, script)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "picture "); ok {
				drawn[name] = true
			}
		}
	}
	pictures, err := filepath.Glob("../../../../docs/pictures/*.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range pictures {
		if name := strings.TrimSuffix(filepath.Base(file), ".svg"); !drawn[name] {
			t.Errorf("no script draws %s: delete it", file)
		}
	}
	if len(pictures) != len(drawn) {
		t.Errorf("there are %d pictures of %d", len(pictures), len(drawn))
	}
}
