package archive_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

func wantMissing(t *testing.T, err error) {
	t.Helper()
	missing := (*limiter.NotFoundError)(nil)
	if !errors.As(err, &missing) || missing.Kind != "bucket" || missing.Name == "" || missing.Hint == "" {
		t.Errorf("got error %v", err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

// One object holds lines of JSON in the order of IDs, each with its namespace (the peer's
// defect 35).
func TestAnObject(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	a := open(t, s.Client(), "trail/eu")
	first, second := event(1, noon), event(2, noon.Add(time.Minute))
	second.NamespaceID, second.Principal, second.Resource = "_", "", ""
	put(t, a, second, first, second)
	objects := s.Objects(bucket)
	if len(objects) != 1 {
		t.Fatalf("%d objects", len(objects))
	}
	for key, o := range objects {
		pattern := `^trail/eu/year=2026/month=01/day=02/` + first.ID + `-` + second.ID + `-[0-9a-f]{24}\.jsonl\.gz$`
		if !regexp.MustCompile(pattern).MatchString(key) {
			t.Errorf("key %s", key)
		}
		if o.ContentType != "application/x-ndjson" || o.ContentEncoding != "gzip" {
			t.Errorf("content type %q, encoding %q", o.ContentType, o.ContentEncoding)
		}
		want := `{"namespace_id":"ns1","namespace":"default","event_id":"` + first.ID + `","timestamp":"2026-01-02T12:00:00Z","action":"limits_set","entity_id":"user",` +
			`"principal":"jo","resource":"gpt-4","details":{"n":1},"expires_at":"2026-01-03T12:00:00Z"}` + "\n" +
			`{"namespace_id":"_","namespace":null,"event_id":"` + second.ID + `","timestamp":"2026-01-02T12:01:00Z","action":"limits_set","entity_id":"user",` +
			`"principal":null,"resource":null,"details":{"n":2},"expires_at":"2026-01-03T12:01:00Z"}` + "\n"
		if diff := cmp.Diff(want, text(t, o.Body)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// The same events make the same object, in any order, and whether or not their namespace
// has a name by then. Other events make another object.
func TestABatchTwiceIsOneObject(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	known := false
	a, err := archive.Open(t.Context(), archive.Options{
		API: s.Client(), Location: archive.Location{Bucket: bucket},
		NameOf: func(ctx context.Context, id string) (string, error) {
			if !known {
				return "", &limiter.CorruptError{Key: id}
			}
			return nameOf(ctx, id)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	events := []audit.TrailEvent{event(1, noon), event(2, noon), event(3, noon)}
	put(t, a, events...)
	known = true
	slices.Reverse(events)
	put(t, a, append(events, events...)...)
	objects := s.Objects(bucket)
	if len(objects) != 1 {
		t.Fatalf("%d objects", len(objects))
	}
	for _, o := range objects {
		if got := strings.Count(text(t, o.Body), `"namespace":"default"`); got != 3 {
			t.Errorf("%d events with a name", got)
		}
	}
	put(t, a, events[0], events[2])
	events[1].Details = map[string]any{"n": int64(7)}
	put(t, a, events...)
	if n := len(s.Objects(bucket)); n != 3 {
		t.Errorf("%d objects", n)
	}
}

// The archive asks for each name once. If a lookup fails, the events stay unstored.
func TestNamesOfNamespaces(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	calls, failure := 0, errors.New("not now")
	a, err := archive.Open(t.Context(), archive.Options{
		API: s.Client(), Location: archive.Location{Bucket: bucket},
		NameOf: func(context.Context, string) (string, error) {
			calls++
			return "default", failure
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Put(t.Context(), noon, []audit.TrailEvent{event(1, noon)})
	wantErr(t, err, failure)
	if n := len(s.Objects(bucket)); n != 0 {
		t.Errorf("%d objects", n)
	}
	failure = nil
	put(t, a, event(1, noon))
	put(t, a, event(2, noon))
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
	_, err = a.Put(t.Context(), noon.AddDate(0, 0, 1), []audit.TrailEvent{event(1, noon)})
	wantErr(t, err, limiter.ErrInvalid)
}

// A failed request fails the storing, under an error that callers can branch on.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		code   string
		want   error
	}{
		"denied":       {403, "AccessDenied", limiter.ErrAccessDenied},
		"bad key":      {403, "InvalidAccessKeyId", limiter.ErrAccessDenied},
		"expired":      {400, "ExpiredToken", limiter.ErrAccessDenied},
		"slow down":    {503, "SlowDown", limiter.ErrThrottled},
		"broken":       {500, "InternalError", limiter.ErrUnavailable},
		"bucket gone":  {404, "NoSuchBucket", limiter.ErrNotFound},
		"not possible": {501, "NotImplemented", limiter.ErrUnavailable},
	} {
		s := newServer(t)
		a := open(t, s.Client(), "p")
		put(t, a, event(1, noon))
		s.Fail(func(*http.Request) (int, string) { return c.status, c.code })
		_, err := a.Put(t.Context(), noon, []audit.TrailEvent{event(2, noon)})
		wantErr(t, err, c.want)
		if !strings.Contains(err.Error(), "archive s3://trail/p: store p/year=2026/month=01/day=02/") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Open finds the bucket or explains why not, before anything is stored.
func TestOpen(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for name, o := range map[string]archive.Options{
		"no client":  {Location: archive.Location{Bucket: bucket}},
		"no bucket":  {API: s.Client()},
		"no timeout": {API: s.Client(), Location: archive.Location{Bucket: bucket}, Timeout: -1},
	} {
		if _, err := archive.Open(t.Context(), o); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := archive.Options{API: s.Client(), Location: archive.Location{Bucket: bucket}}
	s.Fail(func(*http.Request) (int, string) { return http.StatusForbidden, "" })
	_, err := archive.Open(t.Context(), o)
	wantErr(t, err, limiter.ErrAccessDenied)
	if err == nil || !strings.Contains(err.Error(), "s3:ListBucket") {
		t.Errorf("%v", err)
	}
	s.Fail(func(*http.Request) (int, string) { return http.StatusServiceUnavailable, "" })
	_, err = archive.Open(t.Context(), o)
	wantErr(t, err, limiter.ErrUnavailable)
	o.API = s3test.Client("http://127.0.0.1:1")
	_, err = archive.Open(t.Context(), o)
	wantErr(t, err, limiter.ErrUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = archive.Open(ctx, o)
	wantErr(t, err, context.Canceled)
}

// Once found in another region, a bucket is always asked for there.
func TestABucketElsewhere(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Elsewhere("eu-central-1")
	a := open(t, s.Client(), "")
	put(t, a, event(1, noon))
	if got := s.Objects(bucket); len(got) != 1 {
		t.Error(got)
	}
}

// stuck is a storage service that never answers.
type stuck struct{ archive.API }

func (stuck) HeadBucket(ctx context.Context, _ *s3.HeadBucketInput, _ ...func(*s3.Options)) (*s3.HeadBucketOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAStorageThatNeverAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := archive.Open(t.Context(), archive.Options{API: stuck{}, Location: archive.Location{Bucket: bucket}})
		wantErr(t, err, limiter.ErrUnavailable)
		if waited := time.Since(begun); waited != time.Minute {
			t.Errorf("it waited %v", waited)
		}
	})
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]archive.Location{
		"s3://bucket":             {Bucket: "bucket"},
		"s3://bucket/":            {Bucket: "bucket"},
		"s3://my.bucket-1/a":      {Bucket: "my.bucket-1", Prefix: "a"},
		"s3://bucket/a/b=c/ü d/":  {Bucket: "bucket", Prefix: "a/b=c/ü d"},
		"s3://bucket/a?b#c":       {Bucket: "bucket", Prefix: "a?b#c"},
		"s3://" + "b" + "00/x":    {Bucket: "b00", Prefix: "x"},
		"s3://bucket/year=2026/x": {Bucket: "bucket", Prefix: "year=2026/x"},
	} {
		got, err := archive.ParseURL(url)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
		if again, err := archive.ParseURL(got.String()); err != nil || again != want {
			t.Errorf("%s: %+v, %v", got, again, err)
		}
	}
	for _, url := range []string{
		"", "bucket/prefix", "https://bucket.s3.amazonaws.com/x", "S3://bucket", "s3:/bucket", "s3://", "s3:///x", "s3://ab", "s3://Bucket",
		"s3://-bucket", "s3://bucket.", "s3://a_b_c", "s3://user@bucket", "s3://bucket:80/x", "s3://bucket//x", "s3://bucket/a//b", "s3://bucket/a//",
		"s3://bucket/\xff", "s3://bucket/a\nb", "s3://bucket/" + strings.Repeat("x", 801), "s3://" + strings.Repeat("x", 64),
	} {
		invalid := (*limiter.ValidationError)(nil)
		if _, err := archive.ParseURL(url); !errors.As(err, &invalid) || invalid.Field != "archive" || invalid.Reason == "" {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Events of one ID are distinguished by namespace and entity.
func TestEventsOfOneID(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var events []audit.TrailEvent
	var want []int64
	for i := range 4 {
		e := event(1, noon)
		e.Entity, e.Details = fmt.Sprintf("user-%02d", i), map[string]any{"n": int64(i)}
		events, want = append(events, e, e), append(want, int64(i))
	}
	put(t, open(t, s.Client(), ""), events...)
	if got := stored(t, s.Client(), ""); !slices.Equal(got, want) {
		t.Error(got)
	}
}
