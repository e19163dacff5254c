package cli_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// entities is how many levels the manifest of the tests here has. The log of the database,
// of which 1 MiB is there from the start, grows once while they are applied.
const entities = 2000

// An appliedDir is a directory with a database, and a manifest for it.
type appliedDir struct {
	*testing.T
	bin, data, manifest string
}

func newAppliedDir(t *testing.T, bin string) *appliedDir {
	t.Helper()
	d := &appliedDir{t, bin, filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "limits.yaml")}
	var text strings.Builder
	text.WriteString("namespace: default\nentities:\n")
	for i := range entities {
		fmt.Fprintf(&text, "  user-%d: {resources: {gpt-4: {limits: {rpm: {capacity: %d}}}}}\n", i, i+1)
	}
	if err := os.WriteFile(d.manifest, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runOnEngine(t.Context(), io.Discard, "table", "create", "--local", d.data); code != 0 {
		t.Fatalf("create the table: %s", stderr)
	}
	return d
}

// apply is the command that applies the manifest, after a command of the shell.
func (d *appliedDir) apply(before string) (c *exec.Cmd, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	c = exec.Command("sh", "-c", before+`exec "$@"`, "sh", d.bin, "limits", "apply", "-f", d.manifest, "--local", d.data, "--yes") //nolint:noctx // the test waits for it
	c.Env, c.Stdout, c.Stderr = bare(d.T), stdout, stderr
	return c, stdout, stderr
}

// later runs a command on the directory, after the hold of a crashed apply has ended.
func (d *appliedDir) later(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(d.Context(), cli.Options{
		Args: append(args, "--local", d.data), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(string) string { return "" }, Now: func() time.Time { return time.Now().Add(time.Hour) },
	})
	return code, out.String(), errs.String()
}

// look opens the directory, and counts the levels that are set. Each has one audit event,
// and no other level has any.
func (d *appliedDir) look() (set int) {
	d.Helper()
	db, err := dynamolite.Open(dynamolite.Options{Dir: d.data})
	if err != nil {
		d.Fatal(err)
	}
	defer func() { d.Check(db.Close()) }()
	s, err := dynamo.Open(d.Context(), dynamo.Options{API: db, Table: "zae-limiter"})
	if err != nil {
		d.Fatal(err)
	}
	have, err := s.EntitiesWithLimits(d.Context(), "gpt-4")
	d.Check(err)
	is := map[string]bool{}
	for _, entity := range have {
		is[entity] = true
	}
	for i := range entities {
		entity := fmt.Sprintf("user-%d", i)
		want := 0
		if is[entity] {
			want = 1
		}
		page, err := s.AuditEvents(d.Context(), audit.Query{Entity: entity})
		if err != nil || len(page.Events) != want {
			d.Fatalf("%s has %d audit events, want %d: %v", entity, len(page.Events), want, err)
		}
	}
	return len(have)
}

func (d *appliedDir) Check(err error) {
	d.Helper()
	if err != nil {
		d.Error(err)
	}
}

// finish applies to the end. set is how many levels are set already.
func (d *appliedDir) finish(set int) {
	d.Helper()
	code, stdout, stderr := d.later("limits", "plan", "-f", d.manifest, "--output", "json")
	var shown struct {
		Counts struct{ Create, Update, Delete, Unchanged int }
	}
	if err := json.Unmarshal([]byte(stdout), &shown); code != 0 || err != nil {
		d.Fatalf("plan: exit code %d, %v, %s", code, err, stderr)
	}
	plan := shown.Counts
	if done := entities - plan.Create; done != set || plan.Delete != 0 {
		d.Errorf("the plan has %+v, and %d levels are set", plan, set)
	}
	if code, _, stderr := d.later("limits", "apply", "-f", d.manifest, "--yes"); code != 0 {
		d.Fatalf("the next apply: exit code %d, %s", code, stderr)
	}
	if set := d.look(); set != entities {
		d.Errorf("the next apply leaves %d of %d levels", set, entities)
	}
	if code, stdout, stderr := d.later("limits", "plan", "-f", d.manifest, "--detailed-exitcode"); code != 0 || !strings.Contains(stdout, ": no changes, ") {
		d.Errorf("the plan after it: exit code %d, %.200s%s", code, stdout, stderr)
	}
}

// appliesAfterKill kills an apply at several places. Then another one has to wait for the
// hold of the first, and completes it.
func appliesAfterKill(t *testing.T, bin string) {
	t.Helper()
	midway := 0
	for _, place := range []struct {
		size  int64 // of the log
		later time.Duration
	}{{0, 0}, {0, 100 * time.Millisecond}, {1<<20 + 100_000, 0}} {
		d := newAppliedDir(t, bin)
		c, _, stderr := d.apply("")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		err := d.killAt(c, place.size, place.later, ended)
		set := d.look()
		t.Logf("killed %v after the log had %d bytes: %d levels are set", place.later, place.size, set)
		if set > 0 && set < entities {
			midway++
			if status, ok := errors.AsType[*exec.ExitError](err); !ok || status.ExitCode() != -1 {
				t.Errorf("it ended with %v, %s", err, stderr)
			}
			again, _, refused := d.apply("")
			if err := again.Run(); err == nil || !strings.Contains(refused.String(), `another process applies manifest "default": wait until it ends, or until `) {
				t.Errorf("an apply at once: %v, %s", err, refused)
			}
		}
		d.finish(set)
	}
	if midway == 0 {
		t.Error("no apply was killed midway")
	}
}

// killAt kills a process a time after the log of the database is larger than a size, and
// returns how it ended.
func (d *appliedDir) killAt(c *exec.Cmd, size int64, later time.Duration, ended <-chan error) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	var kill <-chan time.Time
	for {
		select {
		case err := <-ended:
			return err
		case <-kill:
			_ = c.Process.Kill() // it may have ended
		case <-look.C:
			logs, err := filepath.Glob(filepath.Join(d.data, "*.log"))
			d.Check(err)
			for _, name := range logs {
				if info, err := os.Stat(name); kill == nil && err == nil && info.Size() > size {
					kill = time.After(later)
				}
			}
		}
	}
}

// fullDisk lets the shell's processes write so much into one file, and no more: that is what
// a full disk is to a program.
func fullDisk(bytes int) string {
	const block = 512
	return fmt.Sprintf("ulimit -f %d; ", bytes/block)
}

// appliesAfterAFullDisk has the disk of the database fill up in the middle of an apply.
func appliesAfterAFullDisk(t *testing.T, bin string) {
	t.Helper()
	d := newAppliedDir(t, bin)
	c, stdout, stderr := d.apply(fullDisk(1_300_000))
	err := c.Run()
	if c.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "the disk has failed") || !strings.Contains(stderr.String(), "correct the cause, and run the command again") {
		t.Errorf("it ended with %v, errors %s", err, stderr)
	}
	set := d.look()
	if set == 0 || set == entities || !strings.Contains(stdout.String(), "\nfailed: create entity user-999 for gpt-4: ") {
		t.Errorf("%d of %d levels are set, output %.300s", set, entities, stdout)
	}
	d.finish(set)
}

// keepsFiles has the disk fill up while commands write a file: the file that was there stays,
// and nothing is left of the new one.
func keepsFiles(t *testing.T, bin string) {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	code, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	for x := uint32(1); len(code) < 4096; x = x*1664525 + 1013904223 { // so that the zip is longer than what the disk has room for
		code = binary.BigEndian.AppendUint32(code, x)
	}
	for name, content := range map[string][]byte{
		"program": code, "access.log": []byte(`{"time":1767323045,"entity":"e","resource":"r"}` + "\n"),
		"limits.yaml": []byte("namespace: default\nsystem: {limits: {rpm: {capacity: 10}}}\n"),
	} {
		if err := os.WriteFile(in(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exit, result, errs := runOnEngine(t.Context(), io.Discard, "loadtest", "run", "simple", "--local", ":memory:", "--duration", "100ms", "--output", "json")
	if err := os.WriteFile(in("result.json"), []byte(result), 0o600); exit != 0 || err != nil {
		t.Fatalf("exit code %d, %v, %s", exit, err, errs)
	}
	for _, args := range [][]string{
		{"lambda-export", "--binary", in("program"), "--force", "--out"},
		{"template", "--out"},
		{"template", "--parameters"},
		{"replay", in("access.log"), "--limits", in("limits.yaml"), "--html"},
		{"loadtest", "report", in("result.json"), "--force", "--html"},
	} {
		for _, existing := range []string{"", "what was there\n"} {
			out := t.TempDir()
			file := filepath.Join(out, "file")
			if existing != "" {
				if err := os.WriteFile(file, []byte(existing), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := exec.CommandContext(t.Context(), "sh", append([]string{"-c", fullDisk(512) + `exec "$@"`, "sh", bin}, append(args, file)...)...)
			var stderr bytes.Buffer
			c.Env, c.Stderr = bare(t), &stderr
			err := c.Run()
			if want := "Error: write " + file + ": write "; c.ProcessState.ExitCode() != 1 || !strings.HasPrefix(stderr.String(), want) || !strings.HasSuffix(stderr.String(), ": file too large\n") {
				t.Errorf("%s: it ended with %v, errors %q", args[0], err, &stderr)
			}
			left, err := os.ReadDir(out)
			if err != nil {
				t.Fatal(err)
			}
			content, _ := os.ReadFile(file)
			if len(left) > 1 || string(content) != existing || existing == "" && len(left) != 0 {
				t.Errorf("%s: %v is left, with %q, want %q", args[0], left, content, existing)
			}
		}
	}
}

// reportsFullOutput has standard output be a disk that is full.
func reportsFullOutput(t *testing.T, bin string) {
	t.Helper()
	d := newAppliedDir(t, bin)
	for _, args := range []string{"limits export --local " + d.data, "limits plan -f " + d.manifest + " --local " + d.data, "limits schema", "template", "version", "status --output json --local " + d.data} {
		c := exec.CommandContext(t.Context(), "sh", "-c", `"$0" `+args+" > /dev/full", bin)
		c.Env = bare(t)
		out, err := c.CombinedOutput()
		if c.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "write the result: write /dev/stdout: no space left on device") {
			t.Errorf("%s: %v, errors %s", args, err, out)
		}
	}
}
