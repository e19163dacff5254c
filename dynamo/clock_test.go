package dynamo_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

func TestClock(t *testing.T) {
	t.Parallel()
	type sample struct {
		offset time.Duration
		times  int
	}
	const s = time.Second
	for name, c := range map[string]struct {
		samples   []sample
		want, tol time.Duration
	}{
		"nothing learnt":                    {nil, 0, 0},
		"as good as the header can tell":    {[]sample{{1900 * time.Millisecond, 50}}, 0, 0},
		"an hour slow":                      {[]sample{{3600 * s, 1}}, 3600 * s, 0},
		"an hour fast":                      {[]sample{{-3600 * s, 1}}, -3600 * s, 0},
		"noise is smoothed":                 {[]sample{{10 * s, 1}, {10*s + 500*time.Millisecond, 1}, {9*s + 500*time.Millisecond, 1}}, 10 * s, 100 * time.Millisecond},
		"one stray answer":                  {[]sample{{0, 3}, {30 * s, 1}, {0, 1}}, 0, 0},
		"strays apart":                      {[]sample{{0, 3}, {30 * s, 2}, {0, 1}, {30 * s, 2}}, 0, 0},
		"the local clock was set":           {[]sample{{0, 3}, {30 * s, 3}}, 30 * s, 0},
		"and set right":                     {[]sample{{30 * s, 3}, {0, 3}}, 0, 0},
		"corrected until within one second": {[]sample{{2500 * time.Millisecond, 1}, {1500 * time.Millisecond, 40}}, 1500 * time.Millisecond, 50 * time.Millisecond},
		"then left alone":                   {[]sample{{2500 * time.Millisecond, 1}, {600 * time.Millisecond, 40}}, 0, 0},
		"drifting away":                     {[]sample{{1500 * time.Millisecond, 5}, {3 * s, 40}}, 3 * s, 50 * time.Millisecond},
	} {
		clock := dynamo.NewClock(now)
		for _, sm := range c.samples {
			for range sm.times {
				clock.Sample(sm.offset)
			}
		}
		if got := clock.Now().Sub(start); (got - c.want).Abs() > c.tol {
			t.Errorf("%s: corrected by %v, want %v", name, got, c.want)
		}
	}
}

// metadata is that of an answer with a Date header, as the SDK makes it.
func metadata(t *testing.T, date time.Time) middleware.Metadata {
	t.Helper()
	a := &answer{status: 200, body: "{}", header: http.Header{"Date": {date.UTC().Format(http.TimeFormat)}}}
	out, err := client(a, static).GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(table), Key: schema.VersionKey().Item(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.ResultMetadata
}

func TestClockLearnsFromAnswers(t *testing.T) {
	t.Parallel()
	ahead := metadata(t, start.Add(time.Minute))
	clock := dynamo.NewClock(now)
	clock.Learn(middleware.Metadata{}, start, start)
	clock.Learn(ahead, start, start.Add(5*time.Second)) // too slow to tell
	clock.Learn(ahead, start, start.Add(-time.Second))  // the clock was set meanwhile
	if got := clock.Now(); !got.Equal(start) {
		t.Errorf("corrected by %v, want nothing", got.Sub(start))
	}
	clock.Learn(ahead, start, start.Add(200*time.Millisecond))
	// The header is cut to seconds: on average the server was half a second on.
	if got, want := clock.Now().Sub(start), 60400*time.Millisecond; got != want {
		t.Errorf("corrected by %v, want %v", got, want)
	}
}

func TestClockIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	clock := dynamo.NewClock(now)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				clock.Sample(time.Minute)
				clock.Now()
			}
		})
	}
	wg.Wait()
	if got := clock.Now().Sub(start); got != time.Minute {
		t.Errorf("corrected by %v", got)
	}
}

func TestClockAllocatesNothing(t *testing.T) {
	clock, md := dynamo.NewClock(now), metadata(t, start.Add(time.Minute))
	if got := testing.AllocsPerRun(100, func() {
		clock.Learn(md, start, start)
		clock.Now()
	}); got != 0 {
		t.Errorf("%.0f allocations", got)
	}
}
