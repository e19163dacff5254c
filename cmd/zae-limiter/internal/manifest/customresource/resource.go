package customresource

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/store"
)

// An event is what CloudFormation sends.
type event struct {
	RequestType        string
	ResponseURL        string
	StackID            string `json:"StackId"`
	RequestID          string `json:"RequestId"`
	LogicalResourceID  string `json:"LogicalResourceId"`
	PhysicalResourceID string `json:"PhysicalResourceId"`
	ResourceType       string
	ResourceProperties json.RawMessage
}

// resource serves an event and answers it.
func (h *Handler) resource(ctx context.Context, raw json.RawMessage) error {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("read the event: %w", err)
	}
	a := answer{
		Status: success, StackID: e.StackID, RequestID: e.RequestID, LogicalResourceID: e.LogicalResourceID,
		// The ID of a resource that could not be created. CloudFormation deletes it,
		// which finds nothing.
		PhysicalResourceID: cmp.Or(e.PhysicalResourceID, "not-created/"+e.RequestID),
	}
	if err := h.work(ctx, &e, &a); err != nil {
		a.Status, a.Reason = failure, err.Error()
	}
	return h.send(ctx, e.ResponseURL, &a)
}

// work does what an event asks for, and fills in the answer. It fails if this program
// panics: without an answer, CloudFormation would wait for an hour.
func (h *Handler) work(ctx context.Context, e *event, a *answer) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			h.options.Logger.ErrorContext(ctx, "panic", "request_id", e.RequestID, "reason", reason, "stack", string(debug.Stack()))
			err = fmt.Errorf("the function has a defect: %v: see its log", reason)
		}
	}()
	ctx, cancel := h.working(ctx)
	defer cancel()
	switch e.RequestType {
	case "Create", "Update":
		err = h.apply(ctx, e, a)
	case "Delete":
		err = h.remove(ctx, e, a)
	default:
		err = &store.ValidationError{Field: "RequestType", Value: e.RequestType, Reason: "this function knows Create, Update and Delete"}
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the function's time ended: what is done stays done; update the stack again to continue: %w", err)
	}
	return err
}

func (h *Handler) apply(ctx context.Context, e *event, a *answer) error {
	p, err := propertiesOf(e.ResourceProperties)
	if err != nil {
		return err
	}
	s, err := h.open(ctx, p.TableName, p.Namespace, p.NamespaceID)
	if err != nil {
		return err
	}
	namespace, _ := s.Namespace()
	name := e.manifestName(&p)
	of, err := parse(e.ResourceProperties, name, namespace)
	if err != nil {
		return err
	}
	if !slices.Contains(h.physicalIDs(&p, s, name), e.PhysicalResourceID) {
		a.PhysicalResourceID = h.physicalIDs(&p, s, name)[0]
	}
	return h.manage(ctx, s, of, a)
}

// remove deletes every level that the resource owns. It needs no valid properties but
// those that say where.
func (h *Handler) remove(ctx context.Context, e *event, a *answer) error {
	if strings.HasPrefix(e.PhysicalResourceID, "not-created/") {
		return nil
	}
	p, err := propertiesOf(e.ResourceProperties)
	if err != nil {
		return err
	}
	s, err := h.open(ctx, p.TableName, p.Namespace, p.NamespaceID)
	if errors.Is(err, store.ErrNotFound) {
		return nil // with the namespace or the table, the levels are gone
	}
	if err != nil {
		return err
	}
	namespace, _ := s.Namespace()
	name := e.manifestName(&p)
	if !slices.Contains(h.physicalIDs(&p, s, name), e.PhysicalResourceID) {
		return nil // the name leads to another namespace now, where the resource owns nothing
	}
	return h.manage(ctx, s, &manifest.Manifest{Name: name, Namespace: namespace}, a)
}

// manage applies a manifest, and puts the counts into the answer.
func (h *Handler) manage(ctx context.Context, s *dynamo.Store, of *manifest.Manifest, a *answer) error {
	m, err := manifest.New(s)
	if err != nil {
		return err
	}
	r, err := patiently(ctx, func() (*manifest.Result, error) { return m.Apply(ctx, of, manifest.ApplyOptions{Prune: true}) })
	if err != nil {
		return err
	}
	h.warn(ctx, r)
	a.Data = map[string]string{
		"Manifest":  of.Name,
		"Created":   strconv.Itoa(r.Count(manifest.Create)),
		"Updated":   strconv.Itoa(r.Count(manifest.Update, manifest.Resume)),
		"Deleted":   strconv.Itoa(r.Count(manifest.Delete)),
		"Unchanged": strconv.Itoa(r.Count(manifest.Unchanged, manifest.Adopt)),
	}
	return failed(r)
}

// holdPoll is how often a handler looks whether another process still applies the
// manifest, for instance a function that was stopped.
const holdPoll = time.Second

// patiently repeats an apply while another process holds the manifest.
func patiently(ctx context.Context, apply func() (*manifest.Result, error)) (*manifest.Result, error) {
	for {
		r, err := apply()
		if _, held := errors.AsType[*manifest.HeldError](err); !held || calls.Sleep(ctx, nil, holdPoll) != nil {
			return r, err
		}
	}
}

func (e *event) isPeers() bool { return e.ResourceType == PeerType }

// manifestName is the owner of the levels: the property, or else a name of its own for
// each resource of each stack, so that two resources do not delete each other's levels.
// The peer's type has the one owner that the peer has.
func (e *event) manifestName(p *properties) string {
	switch {
	case p.Name != "":
		return p.Name
	case e.isPeers():
		return manifest.DefaultName
	}
	const longest, hashBytes = 40, 8
	stack := e.StackID
	if parts := strings.Split(stack, "/"); len(parts) > 1 {
		stack = parts[1] // arn:aws:cloudformation:REGION:ACCOUNT:stack/NAME/UUID
	}
	name := "cfn." + stack + "." + e.LogicalResourceID
	if len(name) <= longest && store.CheckManifest(name) == nil {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "cfn." + hex.EncodeToString(sum[:hashBytes])
}

// physicalIDs are the IDs that stand for a resource, the one for a new resource first.
// The ID changes with the namespace's, so that CloudFormation deletes the levels of a
// namespace that a resource leaves. The peer's may have the name instead.
func (h *Handler) physicalIDs(p *properties, s *dynamo.Store, name string) []string {
	table := cmp.Or(p.TableName, h.options.Table)
	namespace, id := s.Namespace()
	if name == manifest.DefaultName {
		const peers = "/limits-provisioner"
		return []string{table + "/" + id + peers, table + "/" + namespace + peers}
	}
	return []string{table + "/" + id + "/limits/" + name}
}
