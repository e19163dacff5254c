package stack

import (
	"cmp"
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// Options configure a [Manager].
type Options struct {
	// Clients are required.
	Clients Clients
	// Type is the type of the stacks that the manager operates, as their tag has it:
	// [TypeLimiter] or [TypeLoadTest]. Default: TypeLimiter.
	Type string
	// Poll is the time between two looks at a running operation. Default: 2 s. After a
	// throttled look it doubles, up to 16 times this value.
	Poll time.Duration
	// CallTimeout limits each attempt of a request to CloudFormation. Default: 30 s.
	CallTimeout time.Duration
	// MappingTimeout limits the wait for an event source mapping. Default: 5 minutes.
	MappingTimeout time.Duration
	// Now is the clock that dates what a deployment writes to the table. Default: the
	// machine's clock.
	Now func() time.Time
}

// The defaults of [Options].
const (
	DefaultPoll           = 2 * time.Second
	DefaultCallTimeout    = 30 * time.Second
	DefaultMappingTimeout = 5 * time.Minute
)

func (o Options) withDefaults() (Options, error) {
	if err := store.CheckNotNegative("Poll", o.Poll); err != nil {
		return o, err
	}
	if err := store.CheckNotNegative("CallTimeout", o.CallTimeout); err != nil {
		return o, err
	}
	if err := store.CheckNotNegative("MappingTimeout", o.MappingTimeout); err != nil {
		return o, err
	}
	if o.Type = cmp.Or(o.Type, TypeLimiter); o.Type != TypeLimiter && o.Type != TypeLoadTest {
		return o, &store.ValidationError{Field: "Type", Value: o.Type, Reason: "give " + TypeLimiter + " or " + TypeLoadTest}
	}
	for _, c := range []struct {
		name    string
		missing bool
	}{
		{"CloudFormation", o.Clients.CloudFormation == nil},
		{"Buckets", o.Clients.Buckets == nil},
		{"Functions", o.Clients.Functions == nil},
		{"Tagging", o.Clients.Tagging == nil},
		{"Database", o.Clients.Database == nil},
	} {
		if c.missing {
			return o, &store.ValidationError{Field: "Clients." + c.name, Reason: "give a client"}
		}
	}
	o.Poll = cmp.Or(o.Poll, DefaultPoll)
	o.CallTimeout = cmp.Or(o.CallTimeout, DefaultCallTimeout)
	o.MappingTimeout = cmp.Or(o.MappingTimeout, DefaultMappingTimeout)
	return o, nil
}

// A Manager operates stacks. It is safe for concurrent use and remembers nothing of them: every
// call reads the state from CloudFormation.
type Manager struct {
	o        Options
	cf       CloudFormation
	answered atomic.Bool // CloudFormation has answered a request
}

// New returns a manager. It sends nothing.
func New(o Options) (*Manager, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Manager{o: o, cf: o.Clients.CloudFormation}, nil
}

// newToken names one request, so that CloudFormation carries it out once however often the
// SDK sends it. It is also a valid name of a change set.
func newToken() string { return "zae-limiter-" + rand.Text() }

// A pause paces looks at something that changes by itself.
type pause struct{ least, now time.Duration }

const slowestPause = 16 // times the usual pause

func (m *Manager) newPause() *pause { return &pause{m.o.Poll, m.o.Poll} }

// slower doubles the pause; steady restores it.
func (p *pause) slower() { p.now = min(2*p.now, slowestPause*p.least) }
func (p *pause) steady() { p.now = p.least }

// wait sleeps for the pause.
func (p *pause) wait(ctx context.Context) error {
	t := time.NewTimer(p.now)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
