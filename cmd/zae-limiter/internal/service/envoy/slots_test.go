package envoy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

const slotRules = `
domains:
  gateway:
    - {entries: [tenant], entity: "{tenant}", resource: llm, take: {rpm: 1}}
    - {entries: [tenant, stream=yes], entity: "{tenant}", resource: llm, take: {}, slots: {inflight: 1}, lease: 1m}
    - {entries: [tenant, upload=yes], entity: "{tenant}", resource: files, take: {rpm: 1}, slots: {inflight: 1}, lease: 1m}
    - {entries: [tenant, lease, stream=done], entity: "{tenant}", resource: llm, settle: {}}
`

// holding runs f with two replicas of a service. Two streams of a tenant run at a time, with the slots of a system of
// which the tenants are.
func holding(t *testing.T, f func(s, replica *service)) {
	t.Helper()
	t.Parallel()
	replicated(t, slotRules, []limiter.SlotLimit{limiter.Slots("inflight", 2)}, f, limiter.PerDay("rpm", 60))
}

// stream begins a stream of a tenant, as Envoy asks before the request.
func (s *service) stream(tenant string) *answer {
	s.Helper()
	return s.call(descriptor("tenant", tenant), descriptor("tenant", tenant, "stream", "yes"))
}

// A stream holds a slot from its request to its end, which another replica may be told. A third one is over the limit
// of slots, takes no token, and is told no wait.
func TestAStreamHoldsASlot(t *testing.T) {
	holding(t, func(s, replica *service) {
		first, second := s.stream("a"), replica.stream("a")
		if !first.isOK() || !second.isOK() || first.lease() == "" {
			s.Fatalf("%v %v", first, second)
		}
		third := s.stream("a")
		if third.isOK() || third.DynamicMetadata != nil || third.header["retry-after"] != "" || !strings.Contains(string(third.RawBody), `"violated-policies":["inflight"]`) {
			s.Errorf("a third stream: %v", third)
		}
		if got := []any{third.Statuses[0].GetCode(), third.Statuses[1].GetCode()}; got[0] == got[1] {
			s.Errorf("the descriptors of the third are %v", got)
		}
		if n, rpm := s.counted("gateway", "over_limit"), s.left("a", "llm", "rpm"); n != 1 || rpm != 58 {
			s.Errorf("%d descriptors are over their limit, %d rpm are left", n, rpm)
		}
		if other := s.stream("b"); !other.isOK() {
			s.Errorf("another tenant: %v", other)
		}
		for range 2 { // Envoy sends it once; a repetition gives nothing back
			replica.call(descriptor("tenant", "a", "lease", first.lease(), "stream", "done"))
		}
		time.Sleep(time.Second) // what a process has seen counts for so long
		if fourth, fifth := s.stream("a"), replica.stream("a"); !fourth.isOK() || fifth.isOK() {
			s.Errorf("after an end: %v %v", fourth, fifth)
		}
	})
}

// A stream whose end nobody tells, because Envoy has died, gives its slot back after the time of its lease.
func TestALostStreamEndsWithItsLease(t *testing.T) {
	holding(t, func(s, _ *service) {
		s.stream("a")
		s.stream("a")
		time.Sleep(59 * time.Second)
		if got := s.stream("a"); got.isOK() {
			s.Errorf("before its time: %v", got)
		}
		time.Sleep(20 * time.Second)
		if got := s.stream("a"); !got.isOK() {
			s.Errorf("after its time: %v", got)
		}
	})
}

// A call holds slots of each resource, and of one resource as many as its descriptors say together.
func TestACallHoldsSlotsOfEachDescriptor(t *testing.T) {
	holding(t, func(s, _ *service) {
		for i, want := range []bool{true, false} {
			got := s.call(descriptor("tenant", "a"), descriptor("tenant", "a", "upload", "yes"), descriptor("tenant", "a", "stream", "yes"), descriptor("tenant", "a", "stream", "yes"))
			if got.isOK() != want {
				s.Errorf("call %d: %v", i, got)
			}
		}
		for i, want := range []bool{true, false} {
			if got := s.call(descriptor("tenant", "a"), descriptor("tenant", "a", "upload", "yes")); got.isOK() != want {
				s.Errorf("upload %d: %v", i, got)
			}
		}
	})
}

// A call that another limit refuses holds no slot.
func TestARefusedStreamHoldsNoSlot(t *testing.T) {
	holding(t, func(s, _ *service) {
		for range 60 {
			s.call(descriptor("tenant", "c"))
		}
		for range 3 {
			if got := s.stream("c"); got.isOK() || !strings.Contains(string(got.RawBody), `"rpm"`) {
				s.Errorf("%v", got)
			}
		}
		time.Sleep(24 * time.Hour)
		for i := range 2 {
			if got := s.stream("c"); !got.isOK() {
				s.Errorf("stream %d: %v", i, got)
			}
		}
	})
}
