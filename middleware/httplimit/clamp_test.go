package httplimit_test

import (
	"net/http"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// A request takes no more than a part of the capacity at first, and in the end what Settle says.
func TestACostIsClamped(t *testing.T) {
	o := httplimit.Options{
		Consume: map[string]int64{"tph": 90}, ClampPercent: 50, Fallback: []limiter.Limit{limiter.PerHour("tph", 100)},
		Settle: func(*http.Request, *httplimit.Response) map[string]int64 { return map[string]int64{"tph": 70} },
	}
	var during, clamped int64
	left := func(s *server) int64 {
		statuses, err := s.limits.Available(s.Context(), limiter.Request{
			Entity: "key-1", Resource: httplimit.DefaultResource, Consume: map[string]int64{"tph": 0}, Fallback: o.Fallback,
		})
		if err != nil {
			s.Fatal(err)
		}
		return statuses[0].Available
	}
	var inside func(*http.Request)
	inBubble(t, o, func(_ http.ResponseWriter, r *http.Request) { inside(r) }, func(s *server) {
		inside = func(r *http.Request) {
			lease, _ := httplimit.LeaseFrom(r.Context())
			during, clamped = left(s), lease.Clamped()["tph"]
		}
		s.get()
		if after := left(s); during != 50 || clamped != 40 || after != 30 {
			s.Errorf("%d are left during the request, %d clamped, %d left after it", during, clamped, after)
		}
	})
}
