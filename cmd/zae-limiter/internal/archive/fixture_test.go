package archive_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/oklog/ulid/v2"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

const bucket = "trail"

// noon is the time of the first test event.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// nameOf knows the name of one namespace.
func nameOf(_ context.Context, id string) (string, error) {
	if id == "ns1" {
		return "default", nil
	}
	return "", &limiter.NotFoundError{Kind: "namespace", Name: id}
}

// open opens an archive with a prefix.
func open(t *testing.T, api archive.API, prefix string) *archive.Archive {
	t.Helper()
	a, err := archive.Open(t.Context(), archive.Options{
		API: api, Location: archive.Location{Bucket: bucket, Prefix: prefix}, NameOf: nameOf,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// event is the nth event, at an instant.
func event(n int, at time.Time) audit.TrailEvent {
	var entropy [10]byte
	entropy[9] = byte(n)
	entropy[8] = byte(n >> 8)
	var id ulid.ULID
	_ = id.SetTime(uint64(at.UnixMilli())) // before the year 10889
	_ = id.SetEntropy(entropy[:])
	return audit.TrailEvent{NamespaceID: "ns1", Event: audit.Event{
		ID: id.String(), Time: at.UTC().Truncate(time.Second), Action: "limits_set", Entity: "user", Principal: "jo", Resource: "gpt-4",
		Details: map[string]any{"n": int64(n)}, Expires: at.UTC().Truncate(time.Second).Add(24 * time.Hour),
	}}
}

// put stores events, one batch for each day.
func put(t *testing.T, a *archive.Archive, events ...audit.TrailEvent) {
	t.Helper()
	days := map[time.Time][]audit.TrailEvent{}
	for _, e := range events {
		day := e.Time.Truncate(24 * time.Hour)
		days[day] = append(days[day], e)
	}
	for day, events := range days {
		if size, err := a.Put(t.Context(), day, events); err != nil || size <= 0 {
			t.Fatalf("%d bytes, %v", size, err)
		}
	}
}

// lines are the events of all objects below a prefix, in the order of their keys.
func lines(t *testing.T, client *s3.Client, prefix string) (all []map[string]any) {
	t.Helper()
	list, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(bucket), Prefix: &prefix})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Contents {
		object, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(bucket), Key: o.Key})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(object.Body)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text(t, body)) {
			var fields map[string]any
			decoder := json.NewDecoder(strings.NewReader(line))
			decoder.UseNumber()
			if err := decoder.Decode(&fields); err != nil {
				t.Fatal(err)
			}
			all = append(all, fields)
		}
	}
	return all
}

// stored are the numbers of these events.
func stored(t *testing.T, client *s3.Client, prefix string) (numbers []int64) {
	t.Helper()
	for _, fields := range lines(t, client, prefix) {
		n, err := fields["details"].(map[string]any)["n"].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// text is the uncompressed body.
func text(t *testing.T, body []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// newServer is a storage service with a bucket.
func newServer(t *testing.T) *s3test.Server {
	t.Helper()
	return s3test.New(t, bucket)
}
