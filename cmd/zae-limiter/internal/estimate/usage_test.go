package estimate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A usedBucket is one of some buckets with limits that are used so often for some hours.
type usedBucket struct {
	perHour                float64
	limits, buckets, hours int
}

// Pages of buckets that are used seldom and often, with few and many limits. The entries that no page
// has yet count as parts of one.
func TestLongestUsageCostsAsManyPagesAsAreWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []usedBucket{{1.0 / 3, 2, 10, 1500}, {1, 2, 10, 1000}, {1, 1, 20, 1500}, {1, 4, 20, 1500}, {20, 2, 1, 1500}} {
		t.Run(fmt.Sprintf("%.1f an hour, %d limits", c.perHour, c.limits), func(t *testing.T) {
			t.Parallel()
			e, err := estimate.New(estimate.Load{Rate: c.perHour * float64(c.buckets) / 3600, Buckets: c.buckets, Limits: c.limits})
			if err != nil {
				t.Fatal(err)
			}
			estimated := 0.0
			for _, p := range e.Parts {
				if p.Name == estimate.PartUsage {
					estimated = p.Writes * float64(c.hours) * 3600
				}
			}
			written := 0.0
			synctest.Test(t, func(t *testing.T) { written = pagesOf(t, c.perHour, c.limits, c.buckets, c.hours) })
			within(t, "pages", estimated, written, estimate.Accuracy)
		})
	}
}

// pagesOf uses buckets for some hours, and returns how many pages they fill.
func pagesOf(t *testing.T, perHour float64, limits, buckets, hours int) float64 {
	t.Helper()
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{TTLMultiplier: -1}})
	var all []limiter.Limit
	consume := testbed.Tokens{}
	for i := range limits {
		name := fmt.Sprintf("l%02d", i)
		all = append(all, limiter.PerMinute(name, 1_000_000))
		if consume[name] = 1; i > 0 {
			consume[name] = int64(300 + i)
		}
	}
	w.System(all...)
	random := rand.New(rand.NewPCG(1, 2))
	end := time.Now().Add(time.Duration(hours) * time.Hour)
	for {
		time.Sleep(time.Duration(random.ExpFloat64() * float64(time.Hour) / perHour / float64(buckets)))
		if time.Now().After(end) {
			break
		}
		w.Serve(w.Limiter, testbed.AskAll(fmt.Sprint("user", random.IntN(buckets)), consume))
	}
	var pages, inPages, others float64
	out, err := w.Engine.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(testbed.Table)})
	w.Must(err)
	for _, it := range out.Items {
		switch key := schema.KeyOf(it); {
		case key.SK == schema.StateSK:
			d, err := schema.DecodeDiary(it)
			w.Must(err)
			others += float64(len(d.Entries()))
		case strings.Contains(key.PK, "/USAGE#") && strings.Contains(key.SK, "#"):
			p, err := schema.DecodePage(it)
			w.Must(err)
			pages++
			inPages += float64(len(p.Entries))
		}
	}
	if pages < 20 || out.LastEvaluatedKey != nil {
		t.Fatalf("%v pages show little", pages)
	}
	t.Logf("%.1f hours of a page", inPages/pages)
	return pages + others*pages/inPages
}

// Buckets that expire, and those of several shards, call the function. Others do not.
func TestFewRecordsCallTheFunction(t *testing.T) {
	t.Parallel()
	const window = 5.25 // seconds
	for _, c := range []struct {
		name        string
		load        estimate.Load
		least, most float64 // calls a second
	}{
		{"ordinary buckets", estimate.Load{Rate: 100, Aggregator: true}, 0, 0},
		{"buckets that expire", estimate.Load{Rate: 100, NewBuckets: 10, Aggregator: true}, 1 / window, 1 / window},
		{"the same, without an aggregator", estimate.Load{Rate: 100, NewBuckets: 10}, 0, 0},
		{"a bucket of several shards", estimate.Load{Rate: 2000, Buckets: 1, Limits: 1, Latency: ms, Aggregator: true}, 1, 40},
	} {
		e, err := estimate.New(c.load)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v calls a second, %d shards", c.name, e.Invocations, e.Shards)
		if e.Invocations < c.least*0.999 || e.Invocations > c.most*1.001 {
			t.Errorf("%s: %v calls a second, want %v to %v", c.name, e.Invocations, c.least, c.most)
		}
	}
}
