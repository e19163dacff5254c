package archive_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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

// search returns the numbers of the events found, over all pages. No page may report an
// unread object.
func search(t *testing.T, a *archive.Archive, q archive.Query) (found []int64) {
	t.Helper()
	for {
		page, err := a.Search(t.Context(), q)
		if err != nil || len(page.Unread) > 0 {
			t.Fatalf("%v, unread %v", err, page.Unread)
		}
		for _, e := range page.Events {
			found = append(found, e.Details["n"].(int64))
		}
		if page.Cursor == "" {
			return found
		}
		if q.Limit != 0 && len(page.Events) != q.Limit {
			t.Fatalf("%d events before a cursor, want %d", len(page.Events), q.Limit)
		}
		q.Cursor = page.Cursor
	}
}

// history returns many events over some days, in the order of a search. Its batches are
// shuffled, and some events are in two.
func history(t *testing.T, n int) (newest []audit.TrailEvent, batches [][]audit.TrailEvent) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		at := noon.Add(time.Duration(i) * 37 * time.Minute)
		e := event(i, at)
		if i%10 == 3 {
			e.ID = newest[len(newest)-1].ID // an event of another entity, in the same instant
			e.Time = newest[len(newest)-1].Time
		}
		e.Entity = []string{"a", "b", "c"}[i%3]
		e.Action = []string{"limits_set", "entity_created"}[i%2]
		e.Principal = []string{"jo", "ann", ""}[i/2%3]
		e.NamespaceID = []string{"ns1", "ns2"}[i/7%2]
		newest = append(newest, e)
	}
	shuffled := slices.Clone(newest)
	random.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for batch := range slices.Chunk(shuffled, 25) {
		batches = append(batches, batch)
		if random.IntN(3) == 0 {
			batches = append(batches, batch[5:min(len(batch), 11)], batch)
		}
	}
	slices.SortFunc(newest, func(e, f audit.TrailEvent) int {
		return slices.Compare(order(f), order(e))
	})
	return newest, batches
}

func order(e audit.TrailEvent) []string {
	return []string{e.Time.Format(time.DateOnly), e.ID, e.NamespaceID, e.Entity}
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

func compressed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// numbers returns the numbers of events.
func numbers(events []audit.TrailEvent) []int64 {
	var all []int64
	for _, e := range events {
		all = append(all, e.Details["n"].(int64))
	}
	return all
}

// newServer is a storage service with a bucket.
func newServer(t *testing.T) *s3test.Server {
	t.Helper()
	return s3test.New(t, bucket)
}
