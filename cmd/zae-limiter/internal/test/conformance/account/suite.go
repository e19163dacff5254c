// Package account runs tests of a stack on an AWS account: it deploys a stack of its own,
// runs steps on it, and deletes it with all its data, whatever happened.
//
// Nobody has run it on a real account yet. Its tests run it on the CloudFormation of
// cmd/zae-limiter/internal/test/cfntest.
package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/store"
)

// EnvAccount names the account that may be used. Without it, nothing runs.
const EnvAccount = "ZAEL_AWS_TESTS"

// cleanupTimeout bounds the deletion of the stack: a table or a failed creation can take
// many minutes.
const cleanupTimeout = time.Hour

// Check refuses an account unless the user has named exactly this one. wanted is the value
// of [EnvAccount], and actual is the account of the credentials.
func Check(wanted, actual string) error {
	switch {
	case wanted == "":
		return &store.ValidationError{Field: EnvAccount, Value: "", Reason: "give the ID of the account to use: the tests create resources in it, which cost money"}
	case wanted != actual:
		return &store.ValidationError{Field: EnvAccount, Value: wanted, Reason: "the credentials are of account " + actual + ": use credentials of the account that you name"}
	}
	return nil
}

// NewName is the name of a stack that no other run has.
func NewName() string { return "zael-test-" + strings.ToLower(rand.Text()[:12]) }

// A Suite is a run on one account.
type Suite struct {
	Manager *stack.Manager
	// Rollout is the first deployment. Its stack must not exist.
	Rollout stack.Rollout
	// Steps run in order, until one fails.
	Steps []Step
	// Logf reports progress.
	Logf func(format string, args ...any)
}

// A Step is a test on the deployed stack.
type Step struct {
	Name string
	Run  func(context.Context, *stack.Stack) error
}

// Run deploys the stack, runs the steps, and deletes the stack with its table and archive.
// It deletes also after a failure, and after ctx has ended. The error has what failed, and
// what was not deleted.
func (s *Suite) Run(ctx context.Context) (err error) {
	name := s.Rollout.Name
	switch _, err := s.Manager.Find(ctx, name); {
	case err == nil:
		return fmt.Errorf("run on stack %s: %w: the tests would delete it, use another name", name, store.ErrExists)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	defer func() { err = errors.Join(err, s.cleanUp(context.WithoutCancel(ctx))) }()
	s.Logf("deploying stack %s", name)
	out, err := s.Manager.Deploy(ctx, s.Rollout)
	if err != nil {
		return err
	}
	for _, step := range s.Steps {
		s.Logf("%s", step.Name)
		if err := step.Run(ctx, out.Stack); err != nil {
			return fmt.Errorf("%s: %w", step.Name, err)
		}
	}
	return nil
}

// cleanUp deletes the stack with its data, after the operation that runs on it.
func (s *Suite) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	name := s.Rollout.Name
	s.Logf("deleting stack %s with its data", name)
	live, err := s.Manager.Find(ctx, name)
	if err == nil && live.Running() {
		_, _ = s.Manager.Follow(ctx, name, nil) // a failure does not matter: the stack is deleted
	}
	if err == nil {
		_, err = s.Manager.Delete(ctx, stack.Deletion{Name: name, Data: true})
	}
	if err == nil || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("stack %[1]s is not deleted and costs money: run zae-limiter delete --name %[1]s --delete-data %[1]s: %[2]w", name, err)
}
