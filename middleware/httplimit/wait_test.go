package httplimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

func TestAnAcquirerFuncQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, httplimit.Options{}, nil, limiter.PerMinute("requests", 1))
		ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		s.handler = wrap(t, httplimit.AcquirerFunc(s.limits.Wait), httplimit.Options{Entity: key}, ok)
		begin := time.Now()
		for range 2 {
			s.want(s.get(), http.StatusOK, nil)
		}
		if took := time.Since(begin).Round(time.Second); took != time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

func TestATransportWaitsForTheLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := limitertest.New(t, limiter.PerMinute("requests", 1))
		client := &http.Client{Transport: transport(t, httplimit.AcquirerFunc(limits.Wait), httplimit.TransportOptions{
			Base: roundTripper(func(*http.Request) (*http.Response, error) { return answer(http.StatusOK, ""), nil }),
		})}
		u := &upstream{T: t, limits: limits, client: client}
		begin := time.Now()
		for range 3 {
			if _, err := u.get(); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin).Round(time.Second); took != 2*time.Minute {
			t.Errorf("took %v", took)
		}
	})
}
