package acquire_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
)

// manyLimits returns limits with names of the maximum length.
func manyLimits(kind string, n int) []limiter.Limit {
	limits := make([]limiter.Limit, n)
	for i := range limits {
		name := fmt.Sprintf("%s%03d", kind, i)
		limits[i] = limiter.PerHour(name+strings.Repeat("x", 64-len(name)), 4000)
	}
	return limits
}

// askEach asks for the same number of tokens of each limit.
func askEach(entity string, limits []limiter.Limit, n int64) limiter.Request {
	r := askAll(entity, tokens{})
	for _, l := range limits {
		r.Consume[l.Name] = n
	}
	return r
}

// all checks that an entity holds the same number of tokens of every limit.
func (w *world) all(entity string, limits []limiter.Limit, tokens int64) {
	w.Helper()
	statuses, err := w.Available(w.Context(), askEach(entity, limits, 0))
	w.Must(err)
	if len(statuses) != len(limits) {
		w.Errorf("%d limits, want %d", len(statuses), len(limits))
	}
	for _, s := range statuses {
		if s.Available != tokens {
			w.Errorf("%s holds %d of %s, want %d", entity, s.Available, s.Limit.Name, tokens)
		}
	}
}

// Processes race for a bucket with the maximum number of limits. Acquire, adjust,
// return, refill, double, gather, merge and a change to other limits all work.
func TestEverythingIsDoneWithAsManyLimitsAsThereMayBe(t *testing.T) {
	inEachWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		limits := manyLimits("a", limiter.MaxLimits)
		w.System(limits...)
		other := w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{Trust: -1})
		left := int64(4000)
		takes := func(tokens int64) {
			w.Helper()
			for _, l := range []*limiter.Limiter{w.Limiter, other} {
				w.Serve(l, askEach("user", limits, tokens))
				left -= tokens
			}
		}
		takes(100) // creates, looks
		takes(100)
		lease := w.Lease(w.Limiter, askEach("user", limits, 100))
		for _, l := range limits {
			w.Must(lease.Adjust(l.Name, 50))
		}
		w.Must(lease.Commit(w.Context()))
		left -= 150
		lease = w.Lease(other, askEach("user", limits, 300))
		w.Must(lease.Rollback(w.Context()))
		w.all("user", limits, left)

		driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		takes(200)
		takes(500) // from both shards
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		if w.Take(other, askEach("user", limits, left+1)) == nil {
			w.Error("more was admitted than there is")
		}
		w.all("user", limits, left)
		w.halve(w.Limiter, 1)
		w.all("user", limits, left)
		refused := w.Take(w.Limiter, askEach("user", limits, left+1))
		if refused == nil || len(refused.Statuses) != len(limits) || refused.RetryAfter() != 900*time.Millisecond {
			w.Fatalf("got %v, want a wait of 900 ms", refused)
		}
		time.Sleep(refused.RetryAfter())
		takes(left / 2)
		time.Sleep(2 * time.Hour)
		left = 4000
		takes(1) // of a bucket that is full

		others := manyLimits("b", limiter.MaxLimits)
		w.System(others...)
		w.Serve(w.Limiter, askEach("user", others, 7))
		driverOf(w.Limiter).Settle()
		w.all("user", others, 3993)
		if _, err := w.Acquire(w.Context(), askEach("user", limits, 1)); !errors.Is(err, limiter.ErrNotConfigured) {
			w.Errorf("limits that were replaced: %v", err)
		}
	})
}

// A child and its parent can each have the maximum number of limits, with none in
// common.
func TestACascadeOfAsManyLimitsAsThereMayBe(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerHour("rph", 10))
		limits, others := manyLimits("a", limiter.MaxLimits), manyLimits("b", limiter.MaxLimits)
		w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "key", Resource: "gpt-4"}, limits))
		w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, others))
		both := slices.Concat(limits, others)
		for range 3 {
			w.Serve(w.Limiter, askEach("key", both, 5))
		}
		w.all("key", both, 3985)
	})
}

// A configuration or a request with too many limits is refused. The error names the
// bound, and no request is sent.
func TestMoreLimitsThanThereMayBe(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		limits := manyLimits("a", 2*limiter.MaxLimits+1)
		before := w.Meter.Totals()
		tooMany := func(err error, field string, bound int) {
			w.Helper()
			invalid, ok := errors.AsType[*limiter.ValidationError](err)
			if !ok || invalid.Field != field || !strings.Contains(invalid.Reason, fmt.Sprint("at most ", bound)) {
				w.Errorf("got %v, want %s and %d named", err, field, bound)
			}
		}
		tooMany(w.Store.SetSystem(w.Context(), limits[:limiter.MaxLimits+1], ""), "limits", limiter.MaxLimits)
		tooMany(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: "gpt-4"}, limits[:limiter.MaxLimits+1]), "limits", limiter.MaxLimits)
		req := askEach("user", limits[:1], 1)
		req.Fallback = limits[:limiter.MaxLimits+1]
		tooMany(errOf(w.Acquire(w.Context(), req)), "fallback", limiter.MaxLimits)
		tooMany(errOf(w.Acquire(w.Context(), askEach("user", limits, 1))), "consume", 2*limiter.MaxLimits)
		tooMany(errOf(w.Available(w.Context(), askEach("user", limits, 1))), "consume", 2*limiter.MaxLimits)
		if d := w.Meter.Totals().Sub(before); len(d) != 0 {
			w.Errorf("requests were sent: %v", d)
		}
	})
}

// A peer's configuration with too many limits for one write is not evaluated, and the
// error says so. Its bucket is debited as long as it needs no refill.
func TestAPeersLimitsThatAreTooMany(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		const many = 200
		w.System(limiter.PerHour("rph", 4000))
		w.Take(w.Limiter, ask("user", "rph", 1))
		var config, bucket []string
		for i := range many {
			for _, f := range [][2]string{{"cp", "c"}, {"ra", "c"}, {"rp", "p"}} {
				config = append(config, fmt.Sprintf("l_l%03d_%s = :%s", i, f[0], f[1]))
				bucket = append(bucket, fmt.Sprintf("b_l%03d_%s = :%s", i, f[0], f[1]))
			}
			bucket = append(bucket, fmt.Sprintf("b_l%03d_tk = :c", i))
		}
		_, ns := w.Store.Namespace()
		write := func(key map[string]types.AttributeValue, all []string, values map[string]types.AttributeValue) {
			w.Helper()
			for some := range slices.Chunk(all, 100) {
				w.Must(errOf(w.Engine.UpdateItem(w.Context(), &dynamodb.UpdateItemInput{
					TableName: aws.String(table), Key: key, UpdateExpression: aws.String("SET " + strings.Join(some, ", ")), ExpressionAttributeValues: used(some, values),
				})))
			}
		}
		text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
		write(w.bucketKey(), bucket, map[string]types.AttributeValue{":c": number(4_000_000), ":p": number(3_600_000)})
		write(map[string]types.AttributeValue{"PK": text(ns + "/SYSTEM#"), "SK": text("#CONFIG")}, config,
			map[string]types.AttributeValue{":c": number(4000), ":p": number(3600)})

		limits := make([]limiter.Limit, 2*limiter.MaxLimits)
		for i := range limits {
			limits[i].Name = fmt.Sprintf("l%03d", i)
		}
		cold := w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{Trust: -1})
		for _, l := range []*limiter.Limiter{cold, w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{InFlight: -1}), cold} {
			lease := w.Lease(l, askEach("user", limits, 100))
			for _, limit := range limits {
				w.Must(lease.Adjust(limit.Name, 3))
			}
			w.Must(lease.Commit(w.Context()))
		}
		unsupported := func(err error) {
			w.Helper()
			if !errors.Is(err, limiter.ErrUnsupported) || !strings.Contains(err.Error(), "more than 32 limits") {
				w.Errorf("got %v, want the limits to be too many", err)
			}
		}
		unsupported(errOf(cold.Acquire(w.Context(), askEach("user", limits, 3900))))
		unsupported(errOf(cold.Acquire(w.Context(), ask("stranger", "l000", 1))))
	})
}

// used returns the values that some clauses name.
func used(clauses []string, values map[string]types.AttributeValue) map[string]types.AttributeValue {
	some := make(map[string]types.AttributeValue)
	for name, v := range values {
		if slices.ContainsFunc(clauses, func(c string) bool { return strings.HasSuffix(c, name) }) {
			some[name] = v
		}
	}
	return some
}
