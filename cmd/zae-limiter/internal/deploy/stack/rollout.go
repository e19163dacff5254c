package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Rollout is a deployment: the stack, and the code of its functions.
type Rollout struct {
	Spec
	// Code is the code of the functions; nil deploys none, and leaves the parameter
	// [ParameterCodeKey] to the spec.
	Code *Code
	// Adopt takes a table outside any stack into the stack, which must not exist or have
	// nothing; nil adopts none. A stack that has the table already is deployed as usual.
	Adopt *Adoption
	// Approve is called with each plan that has changes, before it is executed. An error
	// ends the rollout, and the plan is discarded. Nil approves.
	Approve func(context.Context, *Plan) error
	// Progress is called with each event once and in order; it may be nil.
	Progress func(Event)
	// Background returns after the first operation has started.
	Background bool
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
	// Repaired are the functions that somebody changed by hand, and that are as the stack says again.
	Repaired []string
	// Remaining is what [Rollout.Background] left undone. Deploying again does it.
	Remaining []string
}

// Deploy brings a stack to a spec with its code. If the stack makes the bucket for the code,
// the first deployment takes two change sets: the first makes the table and the bucket, and
// the second the functions. With a bucket that exists, one change set does everything. Then it
// compares the functions with the stack, which somebody may have changed by hand. At the end it
// waits for the aggregator's mapping, raises the table's version record, and registers the
// namespace default. Every step may be repeated, so deploying again resumes a deployment that
// was cut short.
//
// It fails with the errors of [Manager.Plan] and [Manager.Execute], and with
// [store.ErrIncompatible] if the deployed aggregator is newer than this program.
// [store.ErrExists] says that a new stack's table exists, a [*MisfitError] that the table
// cannot be adopted, and a [*store.ValidationError] that the stack is not one of a limiter.
func (m *Manager) Deploy(ctx context.Context, r Rollout) (Outcome, error) {
	live, bucket, imports, err := m.begin(ctx, r)
	if err != nil {
		return Outcome{}, err
	}
	left, err := m.leftCodeBucket(ctx, r, live)
	if err != nil {
		return Outcome{}, err
	}
	var out Outcome
	done := true
	if len(imports) > 0 {
		done, err = m.adopt(ctx, r, imports, &out)
	}
	if err == nil && done {
		done, err = m.step(ctx, r, bucket, &out)
	}
	if err == nil && done && r.Code != nil && bucket == "" {
		done, err = m.addFunctions(ctx, r, &out)
	}
	if err != nil || !done {
		return out, resumable(adopting(live, err))
	}
	if out.Repaired, err = m.repair(ctx, r, out.Stack); err != nil {
		return out, err
	}
	return out, errors.Join(m.finish(ctx, r, out.Stack), m.clean(ctx, left, out.Changes))
}

// Preview is the first plan that [Manager.Deploy] would make, already discarded. To ask
// CloudFormation for the changes of a stack that does not exist, Deploy makes an empty stack;
// Preview makes none, and reads the resources from the template. It fails as Deploy does
// before it changes anything.
func (m *Manager) Preview(ctx context.Context, r Rollout) (*Plan, error) {
	live, bucket, imports, err := m.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	if live == nil || len(imports) > 0 {
		changes, err := created(r.first(bucket))
		if err != nil {
			return nil, err
		}
		p := &Plan{Stack: r.Name, Creates: true, Changes: imported(changes, imports)}
		if p.Later = later(r, bucket, p); len(imports) > 0 {
			p.Later = laterThanImport(r)
		}
		return p, nil
	}
	p, err := m.planStep(ctx, r, bucket)
	if err != nil {
		return nil, err
	}
	return p, m.Discard(context.WithoutCancel(ctx), p)
}

// clean deletes the bucket for code that the stack has given up, and the one that an earlier
// deployment left, "" for none. CloudFormation cannot: the bucket has the former code, which a
// rollback would have needed.
func (m *Manager) clean(ctx context.Context, left string, changes []Change) error {
	if given := removedCodeBucket(changes); given != "" {
		left = given
	}
	if left == "" {
		return nil
	}
	return m.deleteBucket(ctx, left)
}

// removedCodeBucket is the bucket for code that changes take out of the stack, "" for none.
func removedCodeBucket(changes []Change) string {
	for _, c := range changes {
		if c.LogicalID == CodeBucketID && c.Action == string(types.ChangeActionRemove) {
			return c.PhysicalID
		}
	}
	return ""
}

// leftCodeBucket is the bucket for code that the last operation on the stack has given up and
// could not delete, "" for none: its deployer did not wait, or was killed.
func (m *Manager) leftCodeBucket(ctx context.Context, r Rollout, live *Stack) (string, error) {
	if live == nil || r.Code == nil || r.Code.Bucket == "" || live.Running() {
		return "", nil
	}
	events, err := m.LastOperation(ctx, live)
	if err != nil {
		return "", err
	}
	for _, e := range events {
		if e.LogicalID == CodeBucketID && e.Status == string(types.ResourceStatusDeleteFailed) && e.PhysicalID != r.Code.Bucket && live.Healthy() {
			return e.PhysicalID, nil
		}
	}
	return "", nil
}

// begin looks at the stack, nil if there is none. It finds out where the code goes, as
// [bucketFor] does, and what is to be imported first.
func (m *Manager) begin(ctx context.Context, r Rollout) (live *Stack, bucket string, imports []types.ResourceToImport, err error) {
	if live, err = m.Find(ctx, r.Name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, "", nil, err
	}
	if m.o.Type == TypeLimiter && r.Adopt == nil {
		if err := m.checkFree(ctx, r, live); err != nil {
			return nil, "", nil, err
		}
	}
	var resources []Resource
	if live != nil {
		if resources, err = m.Resources(ctx, live.ID); err != nil {
			return nil, "", nil, err
		}
		if err := m.checkOwn(live, resources); err != nil {
			return nil, "", nil, err
		}
	}
	if imports, err = m.imports(ctx, r, live, resources); err != nil {
		return nil, "", nil, err
	}
	if m.o.Type == TypeLimiter {
		if err := m.checkDowngrade(ctx, r, live); err != nil {
			return nil, "", nil, err
		}
	}
	return live, bucketFor(r.Code, resources), imports, nil
}

// checkFree fails if a new stack's table exists: CloudFormation would find out only when it
// has made other resources.
func (m *Manager) checkFree(ctx context.Context, r Rollout, live *Stack) error {
	if r.Template == "" || live != nil && live.Status != string(types.StackStatusReviewInProgress) {
		return nil
	}
	if t, err := m.describe(ctx, r.Name); err != nil || t == nil {
		return err
	}
	if now, err := m.Find(ctx, r.Name); err == nil && now.Status != string(types.StackStatusReviewInProgress) {
		return fmt.Errorf("deploy stack %s: %w: another deployment came first, deploy again", r.Name, ErrStale) // and made the table
	}
	return fmt.Errorf("deploy stack %s: %w outside the stack: choose another name with --name; or give the table a stack with --adopt-table; "+
		"or delete it with zae-limiter table delete -n %s", r.Name, &store.ExistsError{Kind: "table", Name: r.Name}, r.Name)
}

// adopting adds to the failure of an update of a stack of another program what that means
// for its functions, whose code is not in its template.
func adopting(live *Stack, err error) error {
	failure := (*FailedError)(nil)
	if live == nil || !errors.As(err, &failure) || failure.Status != string(types.StackStatusUpdateRollbackComplete) {
		return err
	}
	if _, ours := live.Parameters[ParameterCodeKey]; !ours {
		failure.Next = "its functions now have the placeholder code of the template that they came from, and fail: correct the cause and deploy again soon, " +
			"or deploy their code with the program that made the stack"
	}
	return err
}

// resumable adds to the interruption of a deployment that CloudFormation does not do the rest.
func resumable(err error) error {
	if stopped := (*InterruptedError)(nil); errors.As(err, &stopped) {
		stopped.Next += "; when it is done, deploy again: that completes the deployment"
	}
	return err
}

// bucketFor is where the code goes, "" if the stack has not made its bucket yet. The resource
// tells and not the output of that name: stacks of the Python package name another bucket
// there.
func bucketFor(c *Code, resources []Resource) string {
	if c == nil {
		return ""
	}
	if c.Bucket != "" {
		return c.Bucket
	}
	for _, of := range resources {
		if of.LogicalID == CodeBucketID && of.Status != string(types.ResourceStatusDeleteComplete) {
			return of.PhysicalID
		}
	}
	return ""
}

// addFunctions is the second part of a first deployment.
func (m *Manager) addFunctions(ctx context.Context, r Rollout, out *Outcome) (done bool, err error) {
	resources, err := m.Resources(ctx, out.Stack.ID)
	if err != nil {
		return false, err
	}
	bucket := bucketFor(r.Code, resources)
	if bucket == "" {
		return false, fmt.Errorf("deploy stack %s: %w", r.Name, &store.NotFoundError{
			Kind: "resource", Name: CodeBucketID, Hint: "the template makes no bucket for the code: name one, or deploy without functions",
		})
	}
	return m.step(ctx, r, bucket, out)
}

// planStep plans one change set: with the code if the bucket for it is known, else without
// functions.
func (m *Manager) planStep(ctx context.Context, r Rollout, bucket string) (*Plan, error) {
	p, err := m.Plan(ctx, r.first(bucket))
	if err == nil {
		p.Later = later(r, bucket, p)
	}
	return p, err
}

// first is the spec of the first change set: without functions, if their code has no bucket yet.
func (r *Rollout) first(bucket string) Spec {
	spec := r.Spec
	if r.Code == nil {
		return spec
	}
	spec.Parameters = maps.Clone(spec.Parameters)
	if spec.Parameters == nil {
		spec.Parameters = map[string]string{}
	}
	spec.Parameters[ParameterCodeKey] = ""
	if bucket != "" {
		spec.Parameters[ParameterCodeKey] = r.Code.Key
	}
	return spec
}

// later says what follows a plan, for [Plan.Later].
func later(r Rollout, bucket string, p *Plan) string {
	if r.Code == nil || bucket != "" {
		return ""
	}
	text := "a second change set adds the functions, once the first has made the bucket for their code"
	if slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Action == string(types.ChangeActionRemove) && c.Type == typeFunction }) {
		text += "; until then the stack has no aggregator, which may miss the records of that time: to change the functions in place, name an existing bucket with --code-bucket"
	}
	return text
}

// step plans and executes one change set. done is false if the caller does not wait for it.
func (m *Manager) step(ctx context.Context, r Rollout, bucket string, out *Outcome) (done bool, err error) {
	p, err := m.planStep(ctx, r, bucket)
	if err != nil {
		return false, err
	}
	return m.carryOut(ctx, r, p, bucket, out)
}

// carryOut executes a plan. done is false if the caller does not wait for it.
func (m *Manager) carryOut(ctx context.Context, r Rollout, p *Plan, bucket string, out *Outcome) (done bool, err error) {
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
	if r.Background && !p.Empty() {
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
	if r.Code != nil && m.o.Type == TypeLimiter {
		out.Remaining = append(out.Remaining, "compare the functions with the stack", "wait for the event source mapping")
	}
	if removedCodeBucket(p.Changes) != "" {
		out.Remaining = append(out.Remaining, "delete the former bucket of the code")
	}
	if m.o.Type == TypeLimiter {
		out.Remaining = append(out.Remaining, "write the version record", "register the namespace "+dynamo.DefaultNamespace)
	}
	var err error
	out.Stack, err = m.Find(ctx, p.StackID)
	return err
}

// checkDowngrade refuses a table of another schema, and code that is older than what is
// deployed. A table that does not exist yet has no version.
func (m *Manager) checkDowngrade(ctx context.Context, r Rollout, live *Stack) error {
	if live == nil && r.Adopt != nil {
		live = &Stack{Name: r.Name}
	}
	if live == nil || r.Code == nil && r.Adopt == nil || r.Downgrade {
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
	if r.Code != nil && v.LambdaIsNewer() {
		return fmt.Errorf("deploy to table %s: %w: its aggregator has version %s, and this program would deploy %s: use a newer program, or give --force",
			m.table(live).Table, store.ErrIncompatible, v.Lambda, dynamo.ClientVersion)
	}
	return nil
}

// table are the options for the table of a stack.
func (m *Manager) table(s *Stack) dynamo.Options {
	return dynamo.Options{API: m.o.Clients.Database, Table: cmp.Or(s.Outputs[OutputTable], s.Name), Now: m.o.Now}
}

// finish makes a deployed table ready for clients. Only the stack of a limiter has a table.
func (m *Manager) finish(ctx context.Context, r Rollout, s *Stack) error {
	if m.o.Type != TypeLimiter {
		return nil
	}
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
	namespaces, err := admin.NewNamespaces(m.table(s))
	if err != nil {
		return err
	}
	_, err = namespaces.Register(ctx, dynamo.DefaultNamespace)
	return err
}
