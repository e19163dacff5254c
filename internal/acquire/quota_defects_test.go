package acquire_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// The peer's defects of quotas, Q1 to Q10: what happens here instead. A quota is used up at
// an instant. The refusal says when it renews, it is renewed then, and not again before the
// next edge.
func TestQuotasWithoutThePeersDefects(t *testing.T) {
	for _, tt := range []struct{ defect, words, zone, at, next, after string }{
		{"Q1: a day without midnight is left out", "day", "America/Sao_Paulo", "2000-10-07T12:00:00-03:00", "2000-10-08T01:00:00-02:00", "2000-10-09T00:00:00-02:00"},
		{"Q2: a day with two midnights gives twice", "day", "America/Havana", "2000-10-28T12:00:00-04:00", "2000-10-29T00:00:00-04:00", "2000-10-30T00:00:00-05:00"},
		{"Q3: an edge of more than 31 days ago is lost", "0 0 31 * *", "UTC", "2000-01-30T00:00:00Z", "2000-01-31T00:00:00Z", "2000-03-31T00:00:00Z"},
		{"Q3: a leap day is lost", "0 0 29 2 *", "UTC", "2000-02-28T00:00:00Z", "2000-02-29T00:00:00Z", "2004-02-29T00:00:00Z"},
		{"Q4: a refusal does not say when the quota renews", "0 0 31 * *", "UTC", "2000-02-01T00:00:00Z", "2000-03-31T00:00:00Z", "2000-05-31T00:00:00Z"},
		{"Q6: there is no last day of a month", "month from last day", "UTC", "2000-01-31T12:00:00Z", "2000-02-29T00:00:00Z", "2000-03-31T00:00:00Z"},
		{"Q7: a yearly edge is searched minute by minute", "0 0 1 1 *", "UTC", "2000-01-02T00:00:00Z", "2001-01-01T00:00:00Z", "2002-01-01T00:00:00Z"},
		{"Q10: there is no answer after the clocks of Chatham go forward", "day", "Pacific/Chatham", "2000-10-01T03:45:00+13:45", "2000-10-02T00:00:00+13:45", "2000-10-03T00:00:00+13:45"},
	} {
		t.Run(tt.defect, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				renews, err := limiter.ParseRenewal(tt.words, tt.zone)
				w.Must(err)
				w.System(limiter.Quota("rpd", 10, renews))
				at, next, after := instantOf(w, tt.at), instantOf(w, tt.next), instantOf(w, tt.after)
				time.Sleep(time.Until(at))
				w.Serve(w.Limiter, ask("user", "rpd", 10))
				until := func(end time.Time) {
					w.Helper()
					refused := w.Take(w.Limiter, ask("user", "rpd", 1))
					if refused == nil {
						w.Fatalf("admitted at %v, want a refusal until %v", time.Now().UTC(), end)
					}
					if st := refused.Statuses[0]; !st.ResetsAt.Equal(end) || refused.RetryAfter() != time.Until(end) {
						w.Errorf("at %v, the quota renews at %v, after %v; want %v", time.Now().UTC(), st.ResetsAt, refused.RetryAfter(), end)
					}
				}
				until(next)
				time.Sleep(time.Until(next))
				w.Serve(w.Limiter, ask("user", "rpd", 10))
				until(after)
				time.Sleep(time.Until(next.Add(time.Hour)))
				until(after)
			})
		})
	}

	t.Run("Q3: idle for longer than a month", func(t *testing.T) {
		inWorld(t, limiter.Options{}, func(w *world) {
			renews, err := limiter.ParseRenewal("0 0 31 * *", "UTC")
			w.Must(err)
			w.System(limiter.Quota("rpd", 10, renews))
			time.Sleep(time.Until(time.Date(2000, time.January, 30, 0, 0, 0, 0, time.UTC)))
			w.Serve(w.Limiter, ask("user", "rpd", 10))
			time.Sleep(time.Until(time.Date(2000, time.March, 15, 0, 0, 0, 0, time.UTC)))
			w.Serve(w.Limiter, ask("user", "rpd", 10))
		})
	})

	t.Run("Q5: a pattern that always matches is accepted, and never renews", func(t *testing.T) {
		if _, err := limiter.ParseRenewal("* * * * *", "UTC"); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("Q8: capacities are those outside of all entries", func(t *testing.T) {
		inWorld(t, limiter.Options{}, func(w *world) {
			varies, err := limiter.ParseSchedule("* 12-23 * * * x0.5", "UTC")
			w.Must(err)
			w.System(limiter.PerHour("rph", 100, limiter.Varies(varies)))
			time.Sleep(time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour)))
			w.Serve(w.Limiter, ask("user", "rph", 25))
			top, err := w.Top(w.Context(), limiter.TopQuery{Most: 10})
			w.Must(err)
			if len(top) != 1 || top[0].Limit.Capacity != 50 || top[0].Available != 25 || top[0].Used != 0.5 {
				w.Errorf("at noon, of 50: %+v", top)
			}
		})
	})

	t.Run("Q9: a change reads one page of an index", func(t *testing.T) {
		inWorld(t, limiter.Options{}, func(w *world) {
			const buckets = 5
			w.System(limiter.PerHour("rph", 100))
			for i := range buckets {
				w.Serve(w.Limiter, ask(fmt.Sprint("user-", i), "rph", 1))
			}
			var asked atomic.Int64 // the shares of an index are read side by side
			pages := w.OpenOn(faults.Wrap(w.API, faults.Before(func(c *faults.Call) error {
				if in, ok := c.Input.(*dynamodb.QueryInput); ok && in.IndexName != nil {
					in.Limit = aws.Int32(1)
					asked.Add(1)
				}
				return nil
			})))
			done, err := pages.SetSwitch(w.Context(), limiter.ConfigKey{Resource: "gpt-4"}, dynamo.Switch{Policy: store.Yes}, nil)
			if err != nil || done.Reached != buckets || asked.Load() <= buckets {
				w.Errorf("reached %+v on %d pages, %v", done, asked.Load(), err)
			}
		})
	})
}

func instantOf(w *world, text string) time.Time {
	w.Helper()
	at, err := time.Parse(time.RFC3339, text)
	w.Must(err)
	return at
}
