package archive_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

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

func (a attic) GetObject(_ context.Context, in *s3.GetObjectInput, _ ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	return &s3.GetObjectOutput{Body: io.NopCloser(bytes.NewReader(a[*in.Key]))}, nil
}

func (a attic) ListObjectsV2(_ context.Context, in *s3.ListObjectsV2Input, _ ...func(*s3.Options)) (*s3.ListObjectsV2Output, error) {
	out := &s3.ListObjectsV2Output{}
	for _, key := range slices.Sorted(maps.Keys(a)) {
		rest, ok := strings.CutPrefix(key, *in.Prefix)
		if !ok {
			continue
		}
		if in.Delimiter == nil {
			out.Contents = append(out.Contents, types.Object{Key: &key})
			continue
		}
		part, _, _ := strings.Cut(rest, "/")
		prefix := *in.Prefix + part + "/"
		if n := len(out.CommonPrefixes); n == 0 || *out.CommonPrefixes[n-1].Prefix != prefix {
			out.CommonPrefixes = append(out.CommonPrefixes, types.CommonPrefix{Prefix: &prefix})
		}
	}
	return out, nil
}

// thousand is a batch of a thousand events of one day.
func thousand(batch int) []audit.TrailEvent {
	events := make([]audit.TrailEvent, 1000)
	for i := range events {
		events[i] = event(i, noon.Add(time.Duration(batch)*time.Second))
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
	events := thousand(0)
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

func BenchmarkSearch(b *testing.B) {
	const batches = 100
	a, err := archive.Open(b.Context(), archive.Options{API: attic{}, Location: archive.Location{Bucket: bucket}, NameOf: nameOf})
	if err != nil {
		b.Fatal(err)
	}
	for i := range batches {
		if _, err := a.Put(b.Context(), noon, thousand(i)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Search(b.Context(), archive.Query{Principal: "nobody"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*batches*1000)/b.Elapsed().Seconds(), "events/s")
}
