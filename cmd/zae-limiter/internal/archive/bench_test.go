package archive_test

import (
	"context"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

// attic is a storage service that costs nothing, so that only the archive is measured.
type attic map[string][]byte

func (attic) HeadBucket(context.Context, *s3.HeadBucketInput, ...func(*s3.Options)) (*s3.HeadBucketOutput, error) {
	return &s3.HeadBucketOutput{}, nil
}

func (a attic) PutObject(_ context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	body, err := io.ReadAll(in.Body)
	a[*in.Key] = body
	return &s3.PutObjectOutput{}, err
}

func (attic) ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error) {
	return &s3.ListObjectsV2Output{}, nil
}

// thousand is a batch of a thousand events of one day.
func thousand() []audit.TrailEvent {
	events := make([]audit.TrailEvent, 1000)
	for i := range events {
		events[i] = event(i, noon)
		events[i].Details = map[string]any{"n": int64(i), "limits": []any{map[string]any{
			"name": "rpm", "capacity": int64(i), "refill_amount": int64(i), "refill_period_seconds": int64(60),
		}}}
	}
	return events
}

func BenchmarkPut(b *testing.B) {
	a, err := archive.Open(b.Context(), archive.Options{API: attic{}, Location: archive.Location{Bucket: bucket}, NameOf: nameOf})
	if err != nil {
		b.Fatal(err)
	}
	events := thousand()
	b.ReportAllocs()
	for b.Loop() {
		size, err := a.Put(b.Context(), noon, events)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(size)/float64(len(events)), "B/event")
	}
	b.ReportMetric(float64(b.N*len(events))/b.Elapsed().Seconds(), "events/s")
}
