//go:build conformance

package conformance_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A shifted transport sets the dates of answers ahead, as if the server's clock were set ahead.
type shifted struct {
	http.RoundTripper
	seconds *atomic.Int64
}

// RoundTrip sets the date of an answer ahead.
func (s *shifted) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		answer.Header.Set("Date", date.Add(seconds(s.seconds)).UTC().Format(http.TimeFormat))
	}
	return answer, nil
}

func seconds(n *atomic.Int64) time.Duration { return time.Duration(n.Load()) * time.Second }

// at sets the clocks of both libraries to an instant in the future, or up to a second later. They
// go on from there. Within a case they only go forward. A client of ours learns of the new time
// from the date of the next answer, as if its machine had been asleep.
func (b *both) at(t time.Time) {
	b.Helper()
	first := b.ahead == nil
	if first {
		b.ahead = new(atomic.Int64)
	}
	b.ahead.Store(int64((time.Until(t) + time.Second - 1) / time.Second))
	b.py.do("set_clock", args{"ahead": b.ahead.Load()}, nil)
	if first {
		b.open()
	}
	const asks = 10
	for range asks {
		if _, err := b.store.Entity(b.Context(), "nobody"); !errors.Is(err, limiter.ErrNotFound) {
			b.Fatal(err)
		}
		if now := b.store.Now(); !now.Before(t) && now.Before(t.Add(time.Minute)) {
			return
		}
	}
	b.Fatalf("Go's clock shows %v, want %v", b.store.Now(), t)
}

// open replaces our client by one whose clock is ahead.
func (b *both) open() {
	b.Helper()
	o := b.py.local.Client.Options()
	o.HTTPClient = &http.Client{Transport: &shifted{http.DefaultTransport, b.ahead}}
	namespace, _ := b.store.Namespace()
	ahead := b.ahead
	var err error
	b.store, err = dynamo.Open(b.Context(), dynamo.Options{
		API: dynamodb.New(o), Table: b.table, Namespace: namespace,
		Now: func() time.Time { return time.Now().Add(seconds(ahead)) },
	})
	b.must(err)
	b.fresh()
}
