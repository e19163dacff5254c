package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// withKeys runs f with a service that has a key of leases, and another replica that has the same.
func withKeys(t *testing.T, f func(s, replica *service)) {
	t.Helper()
	inBubble(t, decide.Policy{}, func(s *service) {
		keys := limiter.Options{TokenKeys: [][]byte{[]byte(strings.Repeat("key", 12))}}
		s.handler = handlerOf(s.limits.NewLimiter(keys), decide.Policy{})
		f(s, &service{T: s.T, limits: s.limits, handler: handlerOf(s.limits.NewLimiter(keys), decide.Policy{})})
	}, limiter.PerDay("rpm", 100))
}

// leased takes tokens with a lease.
func (s *service) leased(tokens int) (lease string) {
	s.Helper()
	got := s.acquire(tokens, `,"lease_ms":60000`)
	if got.Code != http.StatusOK || got.Lease == "" {
		s.Fatalf("%d %s", got.Code, got.Body)
	}
	return got.Lease
}

// about calls the service about a lease.
func (s *service) about(call, lease, more string, header ...string) *reply {
	s.Helper()
	return s.post("/v1/leases/"+call, `{"lease":"`+lease+`"`+more+`}`, header...)
}

// The operator bounds what an estimate takes at first. A call without a lease takes what it says.
func TestEstimatesAreClamped(t *testing.T) {
	inBubble(t, decide.Policy{}, func(s *service) {
		keys := limiter.Options{TokenKeys: [][]byte{[]byte(strings.Repeat("key", 12))}}
		s.handler = handlerOf(s.limits.NewLimiter(keys), decide.Policy{ClampPercent: 50})
		left := func(want int64) {
			s.Helper()
			if got := s.left(); got != want {
				s.Errorf("%d are left, want %d", got, want)
			}
		}
		for _, tt := range []struct {
			call, more string
			left       int64
		}{{"release", "", 100}, {"settle", `,"consume":{"rpm":10}`, 90}, {"settle", "", 20}} {
			before := s.left()
			lease := s.leased(70)
			left(before - 50)
			if got := s.about(tt.call, lease, tt.more); got.Code != http.StatusOK {
				s.Errorf("%s%s: %d %s", tt.call, tt.more, got.Code, got.Body)
			}
			left(tt.left)
		}
		if got := s.acquire(20, ""); got.Code != http.StatusOK {
			s.Errorf("%d %s", got.Code, got.Body)
		}
		left(0)
	}, limiter.PerDay("rpm", 100))
}

// Any replica settles a lease, once. The same call again is answered the same, and another one is refused.
func TestALeaseIsSettledOnce(t *testing.T) {
	withKeys(t, func(s, replica *service) {
		for _, tt := range []struct {
			call, more string
			left       int64
		}{{"settle", `,"consume":{"rpm":10}`, 90}, {"settle", `,"consume":{"rpm":70}`, 30}, {"settle", "", 60}, {"release", "", 100}} {
			lease := s.leased(40)
			for range 2 {
				got := replica.about(tt.call, lease, tt.more, "Idempotency-Key", "1")
				var settled struct{ Consumed map[string]int64 }
				if err := json.Unmarshal(got.Body.Bytes(), &settled); err != nil || got.Code != http.StatusOK || settled.Consumed["rpm"] != 100-tt.left {
					s.Errorf("%s%s: %d %s", tt.call, tt.more, got.Code, got.Body)
				}
				if left := s.left(); left != tt.left {
					s.Errorf("%s%s: %d are left, want %d", tt.call, tt.more, left, tt.left)
				}
			}
			if got := s.about("settle", lease, `,"consume":{"rpm":11}`); got.Code != http.StatusConflict {
				s.Errorf("another settlement: %d %s", got.Code, got.Body)
			}
			time.Sleep(24 * time.Hour) // the bucket is full again
		}
	})
}

// A lease of several resources is settled as a whole.
func TestALeaseOfSeveralResources(t *testing.T) {
	withKeys(t, func(s, replica *service) {
		lease := s.acquire(40, `,"also":[{"resource":"other","consume":{"rpm":30}}],"lease_ms":60000`).Lease
		if got := replica.about("settle", lease, `,"consume":{"rpm":5},"also":[{"resource":"other","consume":{"rpm":7}}]`); got.Code != http.StatusOK {
			s.Errorf("%d %s", got.Code, got.Body)
		}
		other := s.post("/v1/check", `{"entity_id":"key-1","resource":"other"}`)
		if s.left() != 95 || other.Statuses[0].Available != 93 {
			s.Errorf("%d and %d are left", s.left(), other.Statuses[0].Available)
		}
	})
}

// A lease that was extended is the same lease.
func TestALeaseIsExtended(t *testing.T) {
	withKeys(t, func(s, replica *service) {
		first := s.leased(40)
		got := replica.about("extend", first, `,"lease_ms":600000`)
		var extended struct{ Lease string }
		if err := json.Unmarshal(got.Body.Bytes(), &extended); err != nil || got.Code != http.StatusOK || extended.Lease == "" || extended.Lease == first {
			s.Fatalf("%d %s", got.Code, got.Body)
		}
		if got := s.about("settle", extended.Lease, `,"consume":{"rpm":10}`); got.Code != http.StatusOK || s.left() != 90 {
			s.Errorf("%d %s", got.Code, got.Body)
		}
		if got := s.about("settle", first, `,"consume":{"rpm":40}`); got.Code != http.StatusConflict || s.left() != 90 {
			s.Errorf("%d %s", got.Code, got.Body)
		}
	})
}

// Texts that are no lease, or an old one, are errors that say so. Nothing is taken for a lease that
// cannot be made.
func TestLeasesThatAreNone(t *testing.T) {
	withKeys(t, func(s, _ *service) {
		lease := s.leased(40)
		fails := func(code int, field string, got *reply) {
			s.Helper()
			if got.Code != code || got.Problem.Field != field {
				s.Errorf("%d %s, want %d %s", got.Code, got.Body, code, field)
			}
		}
		fails(400, "lease", s.about("settle", "nonsense", ""))
		fails(400, "lease", s.about("release", lease[:len(lease)-1]+"!", ""))
		fails(400, "lease", s.about("extend", "", `,"lease_ms":1000`))
		fails(400, "lease_ms", s.about("extend", lease, `,"lease_ms":1`))
		fails(400, "lease_ms", s.acquire(1, `,"lease_ms":999`))
		fails(400, "lease_ms", s.acquire(1, `,"lease_ms":1000,"dry_run":true`))
		fails(400, "consume", s.about("release", lease, `,"consume":{"rpm":1}`))
		fails(400, "consume", s.about("settle", lease, `,"consume":{"tpm":1}`))
		fails(400, "consume.rpm", s.about("settle", lease, `,"consume":{"rpm":-1}`))
		if left := s.left(); left != 60 {
			s.Errorf("%d are left", left)
		}
		time.Sleep(8 * 24 * time.Hour)
		fails(410, "", s.about("settle", lease, ""))

		// A replica without a key refuses, and returns what it took.
		s.handler = handlerOf(s.limits, decide.Policy{})
		fails(400, "lease", s.acquire(7, `,"lease_ms":60000`))
		if left := s.left(); left != 100 {
			s.Errorf("%d are left", left)
		}
		fails(400, "lease", s.about("settle", lease, ""))
	})
}
