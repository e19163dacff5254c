package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// A command that loses its slots is ended, and the program says so. A closed limiter loses all of
// its slots, which takes less time than an outage.
func TestACommandThatLosesItsSlotsIsEnded(t *testing.T) {
	t.Parallel()
	limits := limitertest.New(t)
	lease, err := limits.Acquire(t.Context(), oneSlot())
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		a := &app.App{Stdin: strings.NewReader(""), Stdout: in, Stderr: io.Discard}
		ended <- cli.HoldUnder(t.Context(), a, lease, "sh", "-c", "trap 'echo ended; exit 9' TERM; echo started; while :; do sleep 0.05; done")
		_ = in.Close()
	}()
	said := make([]byte, len("started\n"))
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "started\n" {
		t.Fatalf("the command said %q, %v", said, err)
	}
	if err := limits.Close(); err != nil {
		t.Error(err)
	}
	rest, _ := io.ReadAll(out)
	if err := <-ended; !errors.Is(err, limiter.ErrSlotsLost) || !strings.Contains(string(rest), "ended\n") {
		t.Errorf("got %v, and the command said %q", err, rest)
	}
}

// The slots of other processes are shown, with what each holds and waits for. A command without
// slots does not run, or waits for some.
func TestSlotsOfOtherProcesses(t *testing.T) {
	t.Parallel()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	zae := func(args ...string) (code int, stdout string) {
		var out, errs bytes.Buffer
		code = cli.Run(t.Context(), cli.Options{
			Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" },
			Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
		})
		return code, out.String() + errs.String()
	}
	shows := func(want string, args ...string) bool {
		code, said := zae(args...)
		return code == 0 && regexp.MustCompile(want).MatchString(said)
	}
	if code, said := zae("table", "create"); code != 0 {
		t.Fatal(said)
	}
	if code, said := zae("resource", "set-slots", "gpt-4", "--slots", "inflight:1"); code != 0 {
		t.Fatal(said)
	}
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: engine, Table: "zae-limiter"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := limiter.New(s, limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	lease, err := other.Acquire(t.Context(), oneSlot())
	if err != nil {
		t.Fatal(err)
	}
	holds := []string{"hold", "user", "gpt-4", "--slots", "inflight=1"}
	if code, said := zae(append(holds, "--", "echo", "hello")...); code != 3 || !strings.Contains(said, "nobody knows until when") || strings.Contains(said, "hello") {
		t.Errorf("refused with %d: %s", code, said)
	}
	for _, c := range [][]string{
		{`(?m)^user +inflight +1 of 1 +[a-z0-9]{8} +1 +0 +[-0-9ms]+ ago +[-0-9ms]+$`, "slots", "user", "gpt-4"},
		{`"held":1,"waiting":0,"used":1,"holders":\[{"process":"[a-z0-9]{8}","held":1,"waiting":0,"renewed_at":"[^"]+","lease_end_at":"[^"]+","gone":false}\]`, "slots", "user", "gpt-4", "-o", "json"},
		{`(?m)^user +gpt-4 +inflight +1 of 1 +100% +0 +1$`, "standing", "user", "gpt-4"},
		{`(?m)^user +gpt-4 +inflight +1 of 1 +100% +0 +1$`, "top", "gpt-4", "--slots"},
		{`(?m)^of no slots as much as 101% is held$`, "top", "gpt-4", "--slots", "--above", "101"},
	} {
		if !shows(c[0], c[1:]...) {
			_, said := zae(c[1:]...)
			t.Errorf("%q shows\n%s\nwant %s", c[1:], said, c[0])
		}
	}
	waited := make(chan string)
	go func() {
		_, said := zae(append(holds, "--wait", "1m", "--", "echo", "hello")...)
		waited <- said
	}()
	for !shows(`(?m)^user +inflight +1 of 1 +[a-z0-9]{8} +0 +1 `, "slots", "user", "gpt-4") && t.Context().Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if err := lease.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if said := <-waited; said != "hello\n" {
		t.Errorf("the command that waited said %q", said)
	}
}

func oneSlot() limiter.Request {
	return limiter.Request{
		Entity: "user", Resource: "gpt-4", Slots: map[string]int64{"inflight": 1}, SlotFallback: []limiter.SlotLimit{limiter.Slots("inflight", 1)},
	}
}
