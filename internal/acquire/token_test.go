package acquire_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

// tokenKey is the key of most tests.
var tokenKey = bytes.Repeat([]byte{7}, limiter.MinTokenKey)

// withKeys are options with keys.
func withKeys(keys ...[]byte) limiter.Options { return limiter.Options{TokenKeys: keys} }

// token writes a lease down.
func (w *world) token(lease *limiter.Lease) string {
	w.Helper()
	text, err := lease.Token(w.Context(), time.Minute)
	w.Must(err)
	return text
}

// resume makes a lease of a token.
func (w *world) resume(l *limiter.Limiter, text string) *limiter.Lease {
	w.Helper()
	lease, err := l.Resume(text)
	w.Must(err)
	return lease
}

// another is another process with the key of most tests.
func (w *world) another() *limiter.Limiter {
	w.Helper()
	return w.NewLimiter(w.OpenOn(w.API), withKeys(tokenKey))
}

// Another process settles a lease with what was really used, of the entity and its parent, once.
func TestALeaseIsSettledByAnotherProcess(t *testing.T) {
	inEachWorld(t, withKeys(tokenKey), func(w *world) {
		w.family(limiter.PerHour("rph", 10), limiter.PerHour("tph", 1000))
		text := w.token(w.Lease(w.Limiter, askAll("key", tokens{"rph": 1, "tph": 400})))
		for range 2 {
			lease := w.resume(w.another(), text)
			if diff := cmp.Diff(map[string]int64{"rph": 1, "tph": 400}, lease.Consumed()); diff != "" {
				w.Errorf("consumed (-want +got):\n%s", diff)
			}
			w.Must(lease.Settle("tph", 150))
			w.Must(lease.Commit(w.Context()))
			w.Must(lease.Commit(w.Context()))
			w.Must(lease.Rollback(w.Context()))
			w.holds("key", "rph", 9, "key", "tph", 850, "project", "rph", 9, "project", "tph", 850)
		}
	})
}

// Whoever settles a lease otherwise than the first one learns what that did, and changes nothing.
func TestASecondSettlementLearnsOfTheFirst(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		text := w.token(w.Lease(w.Limiter, ask("user", "rph", 6)))
		first, second, third := w.resume(w.another(), text), w.resume(w.another(), text), w.resume(w.Limiter, text)
		w.Must(first.Settle("rph", 2))
		w.Must(first.Commit(w.Context()))
		err := second.Rollback(w.Context())
		settled, ok := errors.AsType[*limiter.SettledError](err)
		if !ok || !errors.Is(err, limiter.ErrSettled) {
			w.Fatalf("the second settlement: %v, want that there was one", err)
		}
		if diff := cmp.Diff(map[string]map[string]int64{"gpt-4": {"rph": 2}}, settled.Consumed); diff != "" {
			w.Errorf("the first settlement (-want +got):\n%s", diff)
		}
		w.Must(third.Settle("rph", 9))
		if err := third.Commit(w.Context()); !errors.Is(err, limiter.ErrSettled) {
			w.Errorf("the third settlement: %v", err)
		}
		w.holds("user", "rph", 8)
	})
}

// A lease that was written down belongs to whoever resumes it.
func TestTokenHandsTheLeaseOver(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		var text string
		w.Must(w.Do(w.Context(), ask("user", "rph", 6), func(ctx context.Context, lease *limiter.Lease) (err error) {
			text, err = lease.Token(ctx, time.Minute)
			w.Must(err)
			for what, err := range map[string]error{
				"commit": lease.Commit(ctx), "adjust": lease.Adjust("rph", 1), "take": lease.Take(ctx, tokens{"rph": 1}),
				"release": lease.Release(ctx, tokens{"rph": 1}), "token": errOf(lease.Token(ctx, time.Minute)),
			} {
				if !errors.Is(err, limiter.ErrLeaseClosed) || errors.Is(err, limiter.ErrHandedOver) != (what == "commit") {
					w.Errorf("%s of a lease that was handed over: %v", what, err)
				}
			}
			return lease.Rollback(ctx)
		}))
		w.holds("user", "rph", 4)
		w.Must(w.resume(w.Limiter, text).Rollback(w.Context()))
		w.holds("user", "rph", 10)
	})
}

// A lease is extended by writing it down again. All its tokens are of one lease.
func TestALeaseIsExtended(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		first := w.token(w.Lease(w.Limiter, ask("user", "rph", 6)))
		deadline := w.resume(w.Limiter, first).Deadline()
		extended := w.resume(w.another(), first)
		second, err := extended.Token(w.Context(), time.Hour)
		w.Must(err)
		if got := w.resume(w.Limiter, second).Deadline().Sub(deadline); got != time.Hour-time.Minute {
			w.Errorf("extended by %v", got)
		}
		if err := extended.Commit(w.Context()); !errors.Is(err, limiter.ErrHandedOver) {
			w.Errorf("commit of the lease that was extended: %v", err)
		}
		same, err := w.resume(w.Limiter, second).Token(w.Context(), time.Minute)
		w.Must(err)
		if same != second {
			w.Error("an extension made the deadline earlier, or another token of the same lease")
		}
		time.Sleep(limiter.MaxTokenTime - 30*time.Second)
		if _, err := w.resume(w.Limiter, second).Token(w.Context(), time.Minute); !errors.Is(err, limiter.ErrInvalid) {
			w.Errorf("extended beyond the latest deadline: %v", err)
		}
		w.Must(w.resume(w.another(), second).Rollback(w.Context()))
		if err := w.resume(w.Limiter, first).Commit(w.Context()); !errors.Is(err, limiter.ErrSettled) {
			w.Errorf("settled with both tokens: %v", err)
		}
	})
}

// A token is accepted for its life, late or not; after that, it says so.
func TestALateSettlementIsApplied(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(fixed("rpm", 10))
		text := w.token(w.Lease(w.Limiter, ask("user", "rpm", 6)))
		other := w.token(w.Lease(w.Limiter, ask("user", "rpm", 1)))
		time.Sleep(limiter.TokenLife - time.Second)
		lease, late := w.resume(w.another(), text), w.resume(w.another(), other)
		w.Must(lease.Settle("rpm", 9))
		w.Must(lease.Commit(w.Context()))
		w.holds("user", "rpm", 0)
		time.Sleep(3 * time.Second)
		if err := late.Rollback(w.Context()); !errors.Is(err, limiter.ErrTokenExpired) {
			w.Errorf("rolled back after its life: %v", err)
		}
		if err := errOf(w.Resume(text)); !errors.Is(err, limiter.ErrTokenExpired) {
			w.Errorf("resumed after its life: %v", err)
		}
	})
}

// Each token that is not accepted says why, and what to do.
func TestATokenIsRefused(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		text := w.token(w.Lease(w.Limiter, ask("user", "rph", 6)))
		changed := []byte(text)
		changed[len(changed)/2] ^= 1
		other := bytes.Repeat([]byte{8}, limiter.MinTokenKey)
		namespaces, err := admin.NewNamespaces(dynamo.Options{API: w.API, Table: table})
		w.Must(err)
		w.Must(errOf(namespaces.Register(w.Context(), "elsewhere")))
		elsewhere := w.Open(dynamo.Options{API: w.API, Namespace: "elsewhere"})
		for name, tt := range map[string]struct {
			on   *limiter.Limiter
			text string
			want error
		}{
			"changed":           {w.Limiter, string(changed), limiter.ErrTokenInvalid},
			"cut":               {w.Limiter, text[:len(text)-1], limiter.ErrTokenInvalid},
			"longer":            {w.Limiter, text + "A", limiter.ErrTokenInvalid},
			"none":              {w.Limiter, "", limiter.ErrTokenInvalid},
			"long":              {w.Limiter, strings.Repeat("A", 1<<20), limiter.ErrTokenInvalid},
			"a newer version":   {w.Limiter, "BA" + text[2:], limiter.ErrTokenVersion},
			"another key":       {w.NewLimiter(w.OpenOn(w.API), withKeys(other)), text, limiter.ErrTokenKey},
			"no key":            {w.NewLimiter(w.OpenOn(w.API), limiter.Options{}), text, limiter.ErrTokenKey},
			"another namespace": {w.NewLimiter(elsewhere, withKeys(tokenKey)), text, limiter.ErrTokenNamespace},
		} {
			_, err := tt.on.Resume(tt.text)
			refused, ok := errors.AsType[*limiter.TokenError](err)
			if !errors.Is(err, tt.want) || !errors.Is(err, limiter.ErrToken) || !ok || refused.Hint == "" {
				w.Errorf("%s: %v, want %v", name, err, tt.want)
			}
		}
		w.Must(w.resume(w.NewLimiter(w.OpenOn(w.API), withKeys(other, tokenKey)), text).Rollback(w.Context()))
		w.holds("user", "rph", 10)
	})
}

// A lease of which too little would be written down is not.
func TestALeaseThatIsNotWrittenDown(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		lease := w.Lease(w.Limiter, ask("user", "rph", 6))
		for _, within := range []time.Duration{0, time.Second - 1, limiter.MaxTokenTime + 1} {
			if err := errOf(lease.Token(w.Context(), within)); !errors.Is(err, limiter.ErrInvalid) {
				w.Errorf("within %v: %v", within, err)
			}
		}
		w.Must(lease.Adjust("rph", -1))
		if err := errOf(lease.Token(w.Context(), time.Minute)); !errors.Is(err, limiter.ErrInvalid) {
			w.Errorf("with an adjustment: %v", err)
		}
		w.Must(lease.Release(w.Context(), nil))
		w.Must(w.resume(w.Limiter, w.token(lease)).Commit(w.Context()))
		w.holds("user", "rph", 5)

		keyless := w.NewLimiter(w.OpenOn(w.API), limiter.Options{})
		if err := errOf(w.Lease(keyless, ask("user", "rph", 1)).Token(w.Context(), time.Minute)); !errors.Is(err, limiter.ErrTokenKey) {
			w.Errorf("without a key: %v", err)
		}
		for _, keys := range [][][]byte{{tokenKey[1:]}, {tokenKey, tokenKey}} {
			if err := errOf(limiter.New(w.OpenOn(w.API), withKeys(keys...))); !errors.Is(err, limiter.ErrInvalid) {
				w.Errorf("keys %v: %v", keys, err)
			}
		}
		resumed := w.resume(w.Limiter, w.token(w.Lease(w.Limiter, ask("user", "rph", 1))))
		for what, err := range map[string]error{"take": resumed.Take(w.Context(), tokens{"rph": 1}), "release": resumed.Release(w.Context(), nil)} {
			if !errors.Is(err, limiter.ErrInvalid) {
				w.Errorf("%s of a resumed lease: %v", what, err)
			}
		}
	})
}
