package virtual_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/virtual"
)

// In a bubble, the time of that bubble passes.
func TestVirtualTimeWithinABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, broken := time.Now(), errors.New("broken")
		err := virtual.Run(func() error {
			time.Sleep(time.Hour)
			return broken
		})
		if took := time.Since(began); !errors.Is(err, broken) || took != time.Hour {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// Waiting takes no time, within a test as well, and in several bubbles at once.
func TestVirtualTimePassesWhileAllWait(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			err := virtual.Run(func() error {
				began := time.Now()
				var waiting sync.WaitGroup
				for i := range 3 {
					waiting.Go(func() { time.Sleep(time.Duration(i+1) * 1000 * time.Hour) })
				}
				waiting.Wait()
				if took := time.Since(began); took != 3000*time.Hour {
					t.Errorf("3,000 hours took %v", took)
				}
				return broken
			})
			if !errors.Is(err, broken) {
				t.Errorf("error %v", err)
			}
		})
	}
	all.Wait()
}

func TestAPanicReachesTheCaller(t *testing.T) {
	t.Parallel()
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, "out of order") || !strings.Contains(got, "virtual_test.go") {
			t.Errorf("recovered %q", got)
		}
	}()
	_ = virtual.Run(func() error { panic("out of order") })
}

// A program that is no test prints nothing else, gets no flags, and may run many bubbles.
func TestAProgramRunsInVirtualTime(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/program").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), program, "-test.v")
	run.Env = append(os.Environ(), "GOCOVERDIR="+t.TempDir())
	if out, err := run.CombinedOutput(); err != nil || string(out) != "100 days, 0 flags\n" {
		t.Errorf("%v: %q", err, out)
	}
}
