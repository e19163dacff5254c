package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Rollout is a deployment: the stack, and the code of its functions.
type Rollout struct {
	Spec
	// Code is the code of the functions; nil deploys none, and leaves the parameter
	// [ParameterCodeKey] to the spec.
	Code *Code
	// Approve is called with each plan that has changes, before it is executed. An error
	// ends the rollout, and the plan is discarded. Nil approves.
	Approve func(context.Context, *Plan) error
	// Progress is called with each event once and in order; it may be nil.
	Progress func(Event)
	// NoWait returns after the first operation has started.
	NoWait bool
	// Downgrade allows code that is older than what is deployed.
	Downgrade bool
	// By names the program in the table's version record, "cli:1.2.3" for instance.
	By string
}

// An Outcome is what a rollout did.
type Outcome struct {
	// Stack is the stack after the rollout, or as it was when its operation started.
	Stack *Stack
	// Changes are those of all executed plans.
	Changes []Change
	// Remaining is what [Rollout.NoWait] left undone. Deploying again does it.
	Remaining []string
}

// Deploy brings a stack to a spec with its code. A new stack takes two change sets: the
// first makes the table and the bucket for the code, and the second the functions. At the
// end it waits for the aggregator's mapping, raises the table's version record, and
// registers the namespace default. Every step may be repeated, so deploying again resumes a
// deployment that was cut short.
//
// Besides the errors of [Manager.Plan] and [Manager.Execute], it fails with
// [store.ErrIncompatible] if the deployed aggregator is newer than this program.
func (m *Manager) Deploy(ctx context.Context, r Rollout) (Outcome, error) {
	live, err := m.Find(ctx, r.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Outcome{}, err
	}
	if err := m.checkDowngrade(ctx, r, live); err != nil {
		return Outcome{}, err
	}
	bucket, err := m.bucket(ctx, r, live)
	if err != nil {
		return Outcome{}, err
	}
	var out Outcome
	done, err := m.step(ctx, r, bucket, &out)
	if err == nil && done && r.Code != nil && bucket == "" {
		done, err = m.addFunctions(ctx, r, &out)
	}
	if err != nil || !done {
		return out, err
	}
	return out, m.finish(ctx, r, out.Stack)
}

// bucket is where the code goes, "" if the stack does not have its bucket yet. The resource
// tells and not the output of that name: stacks of the Python package name another bucket
// there.
func (m *Manager) bucket(ctx context.Context, r Rollout, live *Stack) (string, error) {
	switch {
	case r.Code == nil:
		return "", nil
	case live == nil || r.Code.Bucket != "":
		return r.Code.Bucket, nil
	}
	resources, err := m.Resources(ctx, live.ID)
	if err != nil {
		return "", err
	}
	for _, of := range resources {
		if of.LogicalID == CodeBucketID && of.Status != string(types.ResourceStatusDeleteComplete) {
			return of.PhysicalID, nil
		}
	}
	return "", nil
}

// addFunctions is the second part of a first deployment.
func (m *Manager) addFunctions(ctx context.Context, r Rollout, out *Outcome) (done bool, err error) {
	bucket, err := m.bucket(ctx, r, out.Stack)
	if err != nil {
		return false, err
	}
	if bucket == "" {
		return false, fmt.Errorf("deploy stack %s: %w", r.Name, &store.NotFoundError{
			Kind: "resource", Name: CodeBucketID, Hint: "the template makes no bucket for the code: name one, or deploy without functions",
		})
	}
	return m.step(ctx, r, bucket, out)
}

// step plans and executes one change set: with the code if the bucket for it is known, else
// without functions. done is false if the caller does not wait for it.
func (m *Manager) step(ctx context.Context, r Rollout, bucket string, out *Outcome) (done bool, err error) {
	spec := r.Spec
	if r.Code != nil {
		spec.Parameters = maps.Clone(spec.Parameters)
		if spec.Parameters == nil {
			spec.Parameters = map[string]string{}
		}
		spec.Parameters[ParameterCodeKey] = ""
		if bucket != "" {
			spec.Parameters[ParameterCodeKey] = r.Code.Key
		}
	}
	p, err := m.Plan(ctx, spec)
	if err != nil {
		return false, err
	}
	p.Continues = out.Stack != nil
	if err := m.approve(ctx, r, p); err != nil {
		return false, err
	}
	if bucket != "" {
		if err := m.upload(ctx, r.Name, bucket, r.Code); err != nil {
			return false, m.discarded(ctx, p, err)
		}
	}
	out.Changes = append(out.Changes, p.Changes...)
	if r.NoWait && !p.Empty() {
		return false, m.leave(ctx, r, p, bucket, out)
	}
	out.Stack, err = m.Execute(ctx, p, r.Progress)
	return err == nil, err
}

func (m *Manager) approve(ctx context.Context, r Rollout, p *Plan) error {
	if r.Approve == nil || p.Empty() {
		return nil
	}
	if err := r.Approve(ctx, p); err != nil {
		return m.discarded(ctx, p, err)
	}
	return nil
}

// leave starts a plan for a caller who does not wait, and says what remains to be done.
func (m *Manager) leave(ctx context.Context, r Rollout, p *Plan, bucket string, out *Outcome) error {
	if _, err := m.Start(ctx, p); err != nil {
		return err
	}
	if r.Code != nil && bucket == "" {
		out.Remaining = append(out.Remaining, "upload the code and add the functions")
	}
	if r.Code != nil {
		out.Remaining = append(out.Remaining, "wait for the event source mapping")
	}
	out.Remaining = append(out.Remaining, "write the version record", "register the namespace "+dynamo.DefaultNamespace)
	var err error
	out.Stack, err = m.Find(ctx, p.StackID)
	return err
}

// checkDowngrade refuses code that is older than what is deployed. A table that does not
// exist yet has no version.
func (m *Manager) checkDowngrade(ctx context.Context, r Rollout, live *Stack) error {
	if live == nil || r.Code == nil || r.Downgrade {
		return nil
	}
	v, ok, err := dynamo.ReadVersion(ctx, m.table(live))
	if errors.Is(err, store.ErrNotFound) || err == nil && !ok {
		return nil
	}
	if err != nil {
		return err
	}
	if err := v.Check(); err != nil {
		return fmt.Errorf("deploy to table %s: %w", m.table(live).Table, err)
	}
	if v.LambdaIsNewer() {
		return fmt.Errorf("deploy to table %s: %w: its aggregator has version %s, and this program would deploy %s: use a newer program, or give --force",
			m.table(live).Table, store.ErrIncompatible, v.Lambda, dynamo.ClientVersion)
	}
	return nil
}

// table are the options for the table of a stack.
func (m *Manager) table(s *Stack) dynamo.Options {
	return dynamo.Options{API: m.o.Clients.Database, Table: cmp.Or(s.Outputs[OutputTable], s.Name)}
}

// finish makes a deployed table ready for clients.
func (m *Manager) finish(ctx context.Context, r Rollout, s *Stack) error {
	if err := m.AwaitMapping(ctx, s); err != nil {
		return err
	}
	to := dynamo.Versions{By: r.By}
	if r.Code != nil {
		to.Lambda = dynamo.ClientVersion
	}
	if _, err := dynamo.RaiseVersions(ctx, m.table(s), to); err != nil {
		return err
	}
	namespaces, err := dynamo.NewNamespaces(m.table(s))
	if err != nil {
		return err
	}
	_, err = namespaces.Register(ctx, dynamo.DefaultNamespace)
	return err
}
