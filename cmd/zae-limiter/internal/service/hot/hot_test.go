package hot_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
)

// A disk is what is read, and a log what is written.
type disk struct {
	mu   sync.Mutex
	text string
	err  error
	log  strings.Builder
}

func (d *disk) write(text string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text, d.err = text, err
}

func (d *disk) read() (hot.Files, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return hot.Files{"a": []byte(d.text)}, d.err
}

func parse(files hot.Files) (string, error) {
	if text := string(files["a"]); !strings.HasPrefix(text, "bad") {
		return text, nil
	}
	return "", errors.New("the text is bad")
}

// Valid files come into use once two readings have found them alike. If they are not valid, or cannot be
// read, the last good ones stay.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{text: "one"}
		v, err := hot.Open(hot.Source[string]{Read: d.read, Parse: parse}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { v.Watch(ctx, slog.New(slog.NewTextHandler(&d.log, nil)), "texts") })
		defer watching.Wait()
		defer stop()
		pass := func(looks int) { time.Sleep(time.Duration(looks)*hot.Every + time.Millisecond) }
		expect := func(what, value, problem string, loads, failures int) {
			t.Helper()
			if s := v.State(); v.Get() != value || s.Error != problem || s.Loads != loads || s.Failures != failures {
				t.Errorf("%s: %q, %+v", what, v.Get(), s)
			}
		}
		pass(3)
		expect("as at the start", "one", "", 1, 0)
		d.write("tw", nil)
		pass(1)
		d.write("two", nil) // the first reading has found a part of it
		pass(1)
		expect("half written", "one", "", 1, 0)
		pass(1)
		expect("written", "two", "", 2, 0)
		d.write("bad", nil)
		pass(3)
		expect("not valid", "two", "the text is bad", 2, 1)
		d.write("bad", errors.New("gone"))
		pass(2)
		expect("gone", "two", "gone", 2, 2)
		d.write("bad", nil)
		pass(1)
		expect("not valid again", "two", "the text is bad", 2, 2)
		d.write("two", nil)
		pass(2)
		expect("as before", "two", "", 3, 2)
		d.write("two", errors.New("gone"))
		pass(1)
		d.write("two", nil)
		pass(1)
		expect("there again", "two", "", 3, 3)
		stop()
		watching.Wait()
		if log := d.log.String(); strings.Count(log, "level=ERROR") != 4 || strings.Count(log, "in use") != 3+4 {
			t.Errorf("the log: %s", log)
		}
	})
}

// Files that are not valid at the start are an error.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, d := range []*disk{{text: "bad"}, {err: errors.New("gone")}} {
		if _, err := hot.Open(hot.Source[string]{Read: d.read, Parse: parse}, time.Now); err == nil {
			t.Errorf("%q is valid", d.text)
		}
	}
}

// A folder has its own files of YAML. Of a mounted ConfigMap, these are links into a hidden folder.
func TestReadYAML(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if _, err := hot.ReadYAML(folder); err == nil || !strings.Contains(err.Error(), "no file that ends in .yaml") {
		t.Error(err)
	}
	for name, text := range map[string]string{"..data/a.yaml": "a", "..data/b.yml": "b", "sub.yaml/c.yaml": "c", "d.txt": "d", ".e.yaml": "e"} {
		file := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a.yaml", "b.yml"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := hot.ReadYAML(folder)
	if err != nil || strings.Join(files.Names(), " ") != filepath.Join(folder, "a.yaml")+" "+filepath.Join(folder, "b.yml") {
		t.Errorf("%v %v", files.Names(), err)
	}
	one, err := hot.ReadYAML(filepath.Join(folder, "d.txt"))
	if err != nil || string(one[filepath.Join(folder, "d.txt")]) != "d" {
		t.Errorf("%v %v", one, err)
	}
	if _, err := hot.ReadYAML(filepath.Join(folder, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A message is in use at once, unless it is not valid. Before the first, there is nothing to use. A sender
// that cannot be reached is told, and hides no earlier mistake.
func TestReceive(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	v := hot.Await[*string](time.Now)
	isReady := func() bool {
		select {
		case <-v.Ready():
			return true
		default:
			return false
		}
	}
	expect := func(what, value, version, problem string, loads, failures int) {
		t.Helper()
		got := ""
		if p := v.Get(); p != nil {
			got = *p
		}
		if s := v.State(); got != value || s.Version != version || s.Error != problem || s.Loads != loads || s.Failures != failures || isReady() != (loads > 0) || s.Loaded.IsZero() != (loads == 0) {
			t.Errorf("%s: %q, %+v", what, got, s)
		}
	}
	send := func(value, version string, err error) {
		v.Receive(t.Context(), log, "texts", []string{value}, version, &value, err)
	}
	reach := func(err error) { v.Reach(t.Context(), log, "texts", err) }
	expect("nothing", "", "", "", 0, 0)
	reach(errors.New("gone"))
	reach(errors.New("gone"))
	expect("gone", "", "", "gone", 0, 1)
	reach(nil)
	expect("there", "", "", "", 0, 1)
	send("bad", "", errors.New("the text is bad"))
	expect("not valid at first", "", "", "the text is bad", 0, 2)
	send("one", "1", nil)
	expect("valid", "one", "1", "", 1, 2)
	send("bad", "1", errors.New("the text is bad"))
	reach(errors.New("gone"))
	expect("gone again", "one", "1", "gone", 1, 4)
	reach(nil)
	expect("not valid", "one", "1", "the text is bad", 1, 4)
	send("two", "", nil)
	expect("valid again", "two", "", "", 2, 4)
	if names := v.State().Files; len(names) != 1 || names[0] != "two" {
		t.Errorf("the names are %v", names)
	}
	if got := text.String(); strings.Count(got, "level=ERROR") != 5 || strings.Count(got, "nothing has come yet") != 1 || strings.Count(got, `msg="in use" files=texts`) != 2 || !strings.Contains(got, "version=1") {
		t.Errorf("the log: %s", got)
	}
}
