package rolecreds_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
)

// past is an instant at which credentials have expired: each call asks for new ones.
var past = time.Now().Add(-time.Minute)

// A client takes the credentials of a role once. While they are valid it needs no machine.
func TestCredentialsOfARole(t *testing.T) {
	for source := range sources {
		t.Run(source, func(t *testing.T) {
			m, d := newMachine(t), newDatabase(t)
			m.give("FIRST", time.Now().Add(time.Hour))
			d.accept("FIRST")
			c := fastclient.New(load(t, m, d, source))
			for _, down := range []bool{false, true} {
				m.setDown(down)
				for range 3 {
					if err := write(t.Context(), c); err != nil {
						t.Errorf("the machine is down: %t: %v", down, err)
					}
				}
			}
			if got := d.taken(t); !slices.Equal(got, by("FIRST", 6)) {
				t.Errorf("signed by %v", got)
			}
			if n := m.questions(); n != 1 {
				t.Errorf("asked for credentials %d times, want 1", n)
			}
		})
	}
}

// Callers do not notice that credentials rotate. When it happens, each caller may have a call
// under way, and wait for an answer of the machine in the next.
func TestRotationFailsNoCall(t *testing.T) {
	const callers, calls, rotates = 8, 20, 50 // at this request
	for source := range sources {
		t.Run(source, func(t *testing.T) {
			m, d := newMachine(t), newDatabase(t)
			m.give("FIRST", past)
			d.accept("FIRST", "SECOND") // the old ones are valid for a while
			d.arrived = func(n int) {
				if n == rotates {
					m.give("SECOND", past)
				}
			}
			c := fastclient.New(load(t, m, d, source))
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for range calls {
						if err := write(t.Context(), c); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			d.accept("SECOND")
			if err := write(t.Context(), c); err != nil {
				t.Error(err)
			}
			got := d.taken(t)
			// A caller may have signed one request with the old ones, which arrives late, and wait for an
			// answer that the machine gave before.
			late := 0
			for _, by := range got[min(rotates, len(got)):] {
				if by == "FIRST" {
					late++
				}
			}
			if len(got) != callers*calls+1 || got[0] != "FIRST" || got[len(got)-1] != "SECOND" || late > 2*callers {
				t.Errorf("%d signed by old credentials after the rotation: %v", late, got)
			}
		})
	}
}

// Once the credentials of a container have expired and nobody gives new ones, a call fails with
// the SDK's error and sends nothing. It goes on as soon as the machine is back.
func TestExpiredCredentialsOfAContainer(t *testing.T) {
	m, d := newMachine(t), newDatabase(t)
	m.give("FIRST", past)
	d.accept("FIRST", "SECOND")
	c := fastclient.New(load(t, m, d, "container"))
	if err := write(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	m.setDown(true)
	m.questions()
	err := write(t.Context(), c)
	if n := m.questions(); n != 1 {
		t.Errorf("asked for credentials %d times, want 1", n)
	}
	if operation := (*smithy.OperationError)(nil); !errors.As(err, &operation) || operation.Operation() != "UpdateItem" || !errors.Is(err, io.EOF) {
		t.Errorf("got error %v", err)
	}
	m.give("SECOND", past)
	m.setDown(false)
	if err := write(t.Context(), c); err != nil {
		t.Error(err)
	}
	if got := d.taken(t); !slices.Equal(got, []string{"FIRST", "SECOND"}) {
		t.Errorf("signed by %v", got)
	}
}

// On EC2, the SDK extends the life of credentials that it cannot replace, and DynamoDB decides.
// The client goes on with them as well, and asks the machine no more for some minutes.
func TestExpiredCredentialsOfEC2(t *testing.T) {
	m, d := newMachine(t), newDatabase(t)
	m.give("FIRST", past)
	d.accept("FIRST")
	c := fastclient.New(load(t, m, d, "EC2"))
	if err := write(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	m.setDown(true)
	for i := range 3 {
		m.questions()
		if err := write(t.Context(), c); err != nil {
			t.Error(err)
		}
		if n := m.questions(); (n > 0) != (i == 0) {
			t.Errorf("call %d asked %d times", i, n)
		}
	}
	if got := d.taken(t); !slices.Equal(got, by("FIRST", 4)) {
		t.Errorf("signed by %v", got)
	}
}

// A call waits for a silent machine no longer than its context lasts.
func TestACallerLeavesASilentMachine(t *testing.T) {
	for source := range sources {
		t.Run(source, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			m, d := newMachine(t), newDatabase(t)
			m.silent = cancel
			err := write(ctx, fastclient.New(load(t, m, d, source)))
			if operation := (*smithy.OperationError)(nil); !errors.As(err, &operation) || !errors.Is(err, context.Canceled) {
				t.Errorf("got error %v", err)
			}
			if got := d.taken(t); len(got) != 0 {
				t.Errorf("sent requests signed by %v", got)
			}
		})
	}
}
