package envoy

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

const (
	ok        = rls.RateLimitResponse_OK
	overLimit = rls.RateLimitResponse_OVER_LIMIT
)

// refusalID is the field with the ID of a refusal, which the body has, too: as the instance of its problem.
const refusalID = "x-refusal-id"

// response is the answer to a call that was decided.
func (c *call) response(ctx context.Context) *rls.RateLimitResponse {
	out := &rls.RateLimitResponse{OverallCode: ok}
	for _, a := range c.asks {
		out.Statuses = append(out.Statuses, a.status())
	}
	out.ResponseHeadersToAdd, out.DynamicMetadata = c.fields(ctx), c.metadata()
	if !c.isRefused() {
		return out
	}
	out.OverallCode = overLimit
	p := c.problem()
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers
	}
	// Without a body, Envoy drops the media type.
	out.RawBody, out.ResponseHeadersToAdd = text, append(out.ResponseHeadersToAdd, header("content-type", "application/problem+json"))
	if p.Instance != "" {
		out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, header(refusalID, p.Instance))
	}
	if refusal := c.refusing().refusal; refusal != nil {
		if seconds, helps := refusal.RetryAfterSeconds(); helps {
			out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, header("retry-after", strconv.FormatInt(seconds, 10)))
		}
	}
	return out
}

// problem is what the client is told of a refusal.
func (c *call) problem() (p *httpapi.Problem) {
	switch by := c.refusing(); {
	case by.disabled:
		p = httpapi.Disabled()
	case by.full != nil:
		p = httpapi.Full(by.full)
	default:
		p = httpapi.Told(by.refusal)
	}
	p.Instance = c.refusing().id
	return p
}

// refusing is the group that says why a call is over a limit. The call waits for all limits, so the longest wait says it:
// that for a limit in a descriptor that admits nothing is for ever. It waits for the first of its quotas only.
func (c *call) refusing() *group {
	var disabled, full, limit, quota *group
	for g := range c.deciding() {
		switch {
		case g.disabled:
			disabled = cmp.Or(disabled, g)
		case g.full != nil:
			full = cmp.Or(full, g)
		case g.refusal == nil:
		case g.quota && (quota == nil || g.refusal.RetryAfter() < quota.refusal.RetryAfter()):
			quota = g
		case !g.quota && (limit == nil || g.refusal.RetryAfter() > limit.refusal.RetryAfter()):
			limit = g
		}
	}
	if c.blocked != nil && c.blocked.quota {
		return cmp.Or(quota, c.blocked)
	}
	return cmp.Or(disabled, c.blocked, full, limit, quota)
}

// Outcome is what became of a call, and which limits refused it.
func (c *call) Outcome() (result limiter.Result, refusing []string) {
	if !c.isRefused() {
		return limiter.Admitted, nil
	}
	return limiter.Refused, c.problem().Violated
}

// fields are RateLimit-Policy and RateLimit, of the limits that the call takes of. If limits have
// the same name, the first one is told, or the first one that refuses. A call that is admitted
// is told nothing of quotas that are over.
func (c *call) fields(ctx context.Context) (headers []*core.HeaderValue) {
	policies, limits := "", ""
	told := map[string]bool{}
	isRefused := c.isRefused()
	groups := slices.DeleteFunc(slices.Collect(c.deciding()), func(g *group) bool { return !isRefused && g.isRefused() })
	slices.SortStableFunc(groups, func(a, b *group) int {
		switch {
		case a.isRefused() == b.isRefused():
			return 0
		case a.isRefused():
			return -1
		}
		return 1
	})
	for _, g := range groups {
		var own []limiter.Status
		for i := range g.statuses {
			if s := &g.statuses[i]; s.Entity == g.entity && !told[s.Limit.Name] {
				told[s.Limit.Name] = true
				own = append(own, *s)
			}
		}
		policy, limit := httplimit.Fields(ctx, g.entity, own)
		if policies != "" && policy != "" {
			policies, limits = policies+", ", limits+", "
		}
		policies, limits = policies+policy, limits+limit
	}
	if policies == "" {
		return nil
	}
	return []*core.HeaderValue{header("ratelimit-policy", policies), header("ratelimit", limits)}
}

func header(key, value string) *core.HeaderValue { return &core.HeaderValue{Key: key, Value: value} }

// outcome says what became of a descriptor, for metrics.
func (a *ask) outcome() string {
	g := a.in
	switch {
	case !a.isMapped:
		return "unmapped"
	case a.Unlimited:
		return "unlimited"
	case a.isBlocked():
		return a.named("over_limit")
	case g.failed:
		return "failed"
	case g.disabled:
		return "disabled"
	case a.Mode == mapping.Charge:
		return "charged"
	case a.Mode == mapping.Return:
		return "returned"
	case a.Mode == mapping.Settle:
		return a.settlement()
	case !g.isAsked:
		return "undecided"
	}
	outcome := "ok"
	if s := a.tightest(); g.full != nil && len(a.Slots) > 0 || s != nil && s.Exceeded {
		outcome = "over_limit"
	}
	return a.named(outcome)
}

func (a *ask) named(outcome string) string {
	if a.Mode == mapping.Shadow {
		return "shadow_" + outcome
	}
	return outcome
}

// status is what the proxy is told of a descriptor. Of several limits, it is told the tightest. A limit of a
// file of envoyproxy/ratelimit has the name that it has there.
func (a *ask) status() *rls.RateLimitResponse_DescriptorStatus {
	out := &rls.RateLimitResponse_DescriptorStatus{Code: ok}
	switch {
	case a.Unlimited:
		out.LimitRemaining = math.MaxUint32
		return out
	case a.isBlocked():
		out.CurrentLimit = &rls.RateLimitResponse_RateLimit{Name: a.Name, Unit: unitOf(a.override.Period)}
		if a.Mode == mapping.Take {
			out.Code = overLimit
		}
		return out
	case a.in == nil:
		return out
	}
	if (a.in.disabled || a.in.full != nil && len(a.Slots) > 0) && a.Mode == mapping.Take {
		out.Code = overLimit
	}
	s := a.tightest()
	if s == nil {
		return out
	}
	if s.Exceeded && a.Mode == mapping.Take {
		out.Code = overLimit
	}
	amount, period := s.Limit.Amount, s.Limit.Period
	if s.Limit.Renews != nil {
		under := s.Limit.Renews.Period(s.ResetsAt.UnixMilli() - 1)
		amount, period = s.Limit.Capacity, time.Duration(under.End-under.Start)*time.Millisecond
	}
	name, left := s.Limit.Name, s.Available
	if a.Counts {
		if name = a.Name; s.Exceeded {
			left = 0 // a refusal takes it
		}
	}
	out.CurrentLimit = &rls.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: saturated(amount), Unit: unitOf(period)}
	out.LimitRemaining = saturated(left)
	out.DurationUntilReset = resetOf(s)
	return out
}

// limit is the tightest limit of a descriptor that was decided; nil if it was not.
func (a *ask) limit() *limiter.Status {
	if a.in == nil {
		return nil
	}
	return a.tightest()
}

// tightest is the limit of a descriptor that stops it first; nil if none is known. It may be the
// parent's.
func (a *ask) tightest() (tightest *limiter.Status) {
	for i := range a.in.statuses {
		s := &a.in.statuses[i]
		if _, isNamed := a.Amounts[s.Limit.Name]; !isNamed || s.Resource != a.Resource {
			continue
		}
		if tightest == nil || a.isTighter(s, tightest) {
			tightest = s
		}
	}
	return tightest
}

func (a *ask) isTighter(s, than *limiter.Status) bool {
	switch {
	case s.RetryAfter != than.RetryAfter:
		return s.RetryAfter > than.RetryAfter
	case s.Exceeded != than.Exceeded:
		return s.Exceeded
	case s.Entity != than.Entity:
		return s.Entity == a.Entity
	}
	return float64(s.Available)/float64(s.Limit.Capacity) < float64(than.Available)/float64(than.Limit.Capacity)
}

// saturated is a number in the 32 bits that the protocol has for it.
func saturated(n int64) uint32 {
	return uint32(min(max(0, n), math.MaxUint32)) //nolint:gosec // it is in the bounds
}

// unitOf is the unit of a period; UNKNOWN if it has none. The lengths of days, months and years
// differ with clocks and calendars.
func unitOf(period time.Duration) rls.RateLimitResponse_RateLimit_Unit {
	const clocks = time.Hour
	switch {
	case period == time.Second:
		return rls.RateLimitResponse_RateLimit_SECOND
	case period == time.Minute:
		return rls.RateLimitResponse_RateLimit_MINUTE
	case period == time.Hour:
		return rls.RateLimitResponse_RateLimit_HOUR
	case day-clocks <= period && period <= day+clocks:
		return rls.RateLimitResponse_RateLimit_DAY
	case 7*day-clocks <= period && period <= 7*day+clocks:
		return rls.RateLimitResponse_RateLimit_WEEK
	case 28*day-clocks <= period && period <= 31*day+clocks:
		return rls.RateLimitResponse_RateLimit_MONTH
	case 365*day-clocks <= period && period <= 366*day+clocks:
		return rls.RateLimitResponse_RateLimit_YEAR
	}
	return rls.RateLimitResponse_RateLimit_UNKNOWN
}

// resetOf is the exact wait of a limit that refuses, and else the time until it is full: in whole
// seconds, rounded up, because Envoy cuts off what is less. It is nil if no wait helps.
func resetOf(s *limiter.Status) *durationpb.Duration {
	var seconds int64
	switch missing := s.Limit.Capacity - s.Available; {
	case s.Exceeded:
		wait, helps := s.RetryAfterSeconds()
		if !helps {
			return nil
		}
		seconds = wait
	case s.Limit.Renews != nil:
		seconds = int64(math.Ceil(s.ResetsIn.Seconds()))
	case missing > 0 && s.Limit.Amount > 0:
		seconds = int64(math.Ceil(min(float64(missing)/float64(s.Limit.Amount)*s.Limit.Period.Seconds(), math.MaxInt32)))
	}
	return &durationpb.Duration{Seconds: seconds}
}
