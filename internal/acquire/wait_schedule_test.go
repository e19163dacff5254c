package acquire_test

import (
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// P4 of a request that needs two limits, of which one has room for it only at some times: it
// waits until both have what it asks for at once. In the second half of each hour, the
// schedule takes away what rpm holds until then; the other limit is short until that half.
func TestAWaitEndsWhenAllLimitsHaveRoom(t *testing.T) {
	varies, err := limiter.ParseSchedule("30-59 * * * * capacity=2", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		configure func(*world)
		entity    string
		req       limiter.Request
	}{
		"of one bucket": {func(w *world) {
			w.System(limiter.PerMinute("rpm", 60, limiter.Varies(varies)), limiter.PerHour("tph", 60))
		}, "user", askAll("user", tokens{"rpm": 5, "tph": 40})},
		"of a parent": {func(w *world) {
			w.family(limiter.PerDay("rpd", 1))
			w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "key", Resource: "gpt-4"}, []limiter.Limit{limiter.PerMinute("rpm", 60, limiter.Varies(varies))}))
			w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{limiter.PerHour("tph", 60)}))
		}, "key", askAll("key", tokens{"rpm": 5, "tph": 40})},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				tt.configure(w)
				time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
				w.Serve(w.Limiter, askAll(tt.entity, tokens{"rpm": 1, "tph": 60}))
				for _, from := range []string{"the store", "memory"} {
					refused := w.Take(w.Limiter, tt.req)
					if refused == nil {
						w.Fatal("admitted")
					}
					next := time.Until(time.Now().Truncate(time.Hour).Add(time.Hour))
					// rpm grows from 2 to 5 in 3 s of the next hour, when the schedule lets it.
					if got, want := refused.RetryAfter(), next+3*time.Second; got != want {
						w.Errorf("from %s: the wait is %v, want %v", from, got, want)
					}
					for _, st := range refused.Statuses {
						if (st.Limit.Name == "tph") != st.Exceeded {
							w.Errorf("from %s: %s is exceeded: %t", from, st.Limit.Name, st.Exceeded)
						}
					}
				}
				refused := w.Take(w.Limiter, tt.req)
				time.Sleep(refused.RetryAfter() - time.Millisecond)
				if early := w.Take(w.Limiter, tt.req); early == nil || early.RetryAfter() != time.Millisecond {
					w.Errorf("a millisecond early: %v", early)
				}
				time.Sleep(time.Millisecond)
				w.Serve(w.Limiter, tt.req)
			})
		})
	}
}
