package acquire_test

import (
	"errors"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A share of a quota renews with it, in the outage too.
func TestAShareOfAQuotaRenews(t *testing.T) {
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.System(limiter.Quota("rpd", 100, c.renewal("day")))
		c.Take(c.own, ask("user", "rpd", 80))
	}, func(c *outageCase) {
		c.take(ask("user", "rpd", 10))
		if _, err := c.own.Acquire(c.Context(), sharing(ask("user", "rpd", 1))); !errors.Is(err, limiter.ErrExceeded) {
			c.Errorf("11 of a share of 10: %v", err)
		}
		time.Sleep(24 * time.Hour)
		c.take(ask("user", "rpd", 50))
		c.refuseAny(ask("user", "rpd", 1))
	}, func(c *outageCase) {
		if got, left := c.consumedOf("user", "rpd"), c.Balance("user", "rpd"); got != 140 || left != 50 {
			c.Errorf("%d are counted, and %d are left; want 140 and 50", got, left)
		}
	})
}

// A share of a session begins and ends as the session does.
func TestAShareOfASession(t *testing.T) {
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.System(limiter.Quota("win", 100, c.renewal("session 1h")))
		c.Take(c.own, ask("user", "win", 80))
	}, func(c *outageCase) {
		c.take(ask("user", "win", 10))
		c.refuseAny(ask("user", "win", 1))
		time.Sleep(90 * time.Minute)
		c.take(ask("user", "win", 30))
		time.Sleep(59 * time.Minute)
		c.take(ask("user", "win", 20))
		c.refuseAny(ask("user", "win", 1))
		time.Sleep(time.Minute)
		c.take(ask("user", "win", 15))
	}, func(c *outageCase) {
		if got, left := c.consumedOf("user", "win"), c.Balance("user", "win"); got != 155 || left != 85 {
			c.Errorf("%d are counted, and %d are left; want 155 and 85", got, left)
		}
	})
}

func (c *outageCase) renewal(words string) *limiter.Renewal {
	c.Helper()
	r, err := limiter.ParseRenewal(words, "")
	c.Must(err)
	return r
}

func (c *outageCase) refuseAny(req limiter.Request) {
	c.Helper()
	if _, err := c.own.Acquire(c.Context(), sharing(req)); !errors.Is(err, limiter.ErrExceeded) {
		c.Errorf("got %v, want a refusal", err)
	}
}
