package account_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/conformance/account"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

func TestOnlyTheNamedAccountIsUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wanted, actual string
		ok             bool
	}{{"", "123456789012", false}, {"210987654321", "123456789012", false}, {"123456789012", "123456789012", true}} {
		if err := account.Check(c.wanted, c.actual); (err == nil) != c.ok {
			t.Errorf("%q for account %s: %v", c.wanted, c.actual, err)
		} else if err != nil && !strings.Contains(err.Error(), account.EnvAccount) {
			t.Errorf("%v does not name %s", err, account.EnvAccount)
		}
	}
}

func TestEachRunHasItsOwnStack(t *testing.T) {
	t.Parallel()
	if a, b := account.NewName(), account.NewName(); a == b || !strings.HasPrefix(a, "zael-test-") {
		t.Errorf("two runs are named %s and %s", a, b)
	}
}

// A trial is a suite on an empty account.
type trial struct {
	*testing.T
	*account.Suite
	cloud *cfntest.Cloud
}

// inCloud runs a test in a bubble, where waiting takes no time.
func inCloud(t *testing.T, test func(w *trial)) {
	t.Helper()
	t.Parallel()
	template, err := os.ReadFile("../../../deploy/stack/testdata/limiter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		engine := dynamolite.New(dynamolite.Options{})
		defer engine.Close()
		cloud := cfntest.New(cfntest.Options{Now: time.Now, Step: 7 * time.Second, Tables: engine})
		m, err := stack.New(stack.Options{Clients: stack.Clients{CloudFormation: cloud, Buckets: cloud, Functions: cloud, Tagging: cloud, Database: engine}})
		if err != nil {
			t.Fatal(err)
		}
		test(&trial{t, &account.Suite{Manager: m, Logf: t.Logf, Rollout: stack.Rollout{
			Spec: stack.Spec{Name: "trial", Template: string(template), Parameters: map[string]string{}},
			Code: &stack.Code{Key: "functions/0123.zip", Zip: []byte("a zip")},
		}}, cloud})
	})
}

// isEmpty fails the test if anything of the stack is left.
func (w *trial) isEmpty() {
	w.Helper()
	if _, err := w.Manager.Find(w.Context(), "trial"); err == nil {
		w.Error("the stack is left")
	}
	if w.cloud.Exists("AWS::DynamoDB::Table", "trial") {
		w.Error("the table is left")
	}
}

func TestEverythingIsDeletedInTheEnd(t *testing.T) {
	failed := errors.New("the step failed")
	inCloud(t, func(w *trial) {
		var ran []string
		step := func(name string, err error) account.Step {
			return account.Step{Name: name, Run: func(context.Context, *stack.Stack) error {
				ran = append(ran, name)
				return err
			}}
		}
		w.Steps = []account.Step{step("one", nil), step("two", nil)}
		if err := w.Suite.Run(w.Context()); err != nil {
			w.Error(err)
		}
		w.isEmpty()
		w.Steps = []account.Step{step("three", failed), step("four", nil)}
		if err := w.Suite.Run(w.Context()); !errors.Is(err, failed) || !strings.Contains(err.Error(), "three") {
			w.Errorf("the run ends with %v", err)
		}
		w.isEmpty()
		if want := []string{"one", "two", "three"}; !slices.Equal(ran, want) {
			w.Errorf("ran %v, want %v", ran, want)
		}
	})
}

func TestAStackThatCannotBeMadeIsDeleted(t *testing.T) {
	inCloud(t, func(w *trial) {
		w.cloud.Fail("CREATE", "RateLimitsTable", "no more tables")
		if err := w.Suite.Run(w.Context()); err == nil || !strings.Contains(err.Error(), "no more tables") {
			w.Errorf("the run ends with %v", err)
		}
		w.isEmpty()
	})
}

// The user interrupts the run in the middle of a deployment, which goes on in AWS.
func TestAnInterruptedRunIsDeleted(t *testing.T) {
	inCloud(t, func(w *trial) {
		ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
		defer cancel()
		if err := w.Suite.Run(ctx); err == nil {
			w.Error("the run was not interrupted")
		}
		w.isEmpty()
	})
}

func TestAStackThatExistsIsNotTouched(t *testing.T) {
	inCloud(t, func(w *trial) {
		if _, err := w.Manager.Deploy(w.Context(), w.Rollout); err != nil {
			w.Fatal(err)
		}
		if err := w.Suite.Run(w.Context()); err == nil || !strings.Contains(err.Error(), "trial") {
			w.Errorf("the run ends with %v", err)
		}
		if live, err := w.Manager.Find(w.Context(), "trial"); err != nil || !live.Healthy() {
			w.Errorf("the stack is %+v, %v", live, err)
		}
	})
}

func TestWhatIsNotDeletedIsSaid(t *testing.T) {
	inCloud(t, func(w *trial) {
		w.Steps = []account.Step{{Name: "protect", Run: func(context.Context, *stack.Stack) error {
			w.cloud.Protect("trial", true)
			return nil
		}}}
		if err := w.Suite.Run(w.Context()); err == nil || !strings.Contains(err.Error(), "costs money") {
			w.Errorf("the run ends with %v", err)
		}
	})
}
