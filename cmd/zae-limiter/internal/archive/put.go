package archive

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/oklog/ulid/v2"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	suffix = ".jsonl.gz"
	// sumBytes is the length of the checksum. It makes a collision of two batches with the
	// same day, first and last event practically impossible.
	sumBytes = 12
)

// Put stores events of one day (UTC) in one object, all of them or none, and returns its
// size in bytes. It fills in the names of their namespaces. Storing the same events again
// writes the same object, in whatever order and however often.
func (a *Archive) Put(ctx context.Context, day time.Time, events []audit.TrailEvent) (size int, err error) {
	if len(events) == 0 {
		return 0, nil
	}
	date := day.UTC().Format(time.DateOnly)
	events = slices.Clone(events)
	for i := range events {
		e := &events[i]
		if e.Time.UTC().Format(time.DateOnly) != date {
			return 0, &store.ValidationError{Field: "event", Value: e.ID, Reason: "it is not of " + date}
		}
		if e.Namespace, err = a.name(ctx, e.NamespaceID); err != nil {
			return 0, err
		}
	}
	slices.SortFunc(events, compare)
	events = slices.CompactFunc(events, func(e, f audit.TrailEvent) bool { return compare(e, f) == 0 })
	body, sum, err := pack(events)
	if err != nil {
		return 0, err
	}
	name := sum + suffix
	first, last := events[0].ID, events[len(events)-1].ID
	if isULID(first) && isULID(last) {
		name = first + "-" + last + "-" + name
	}
	return len(body), a.put(ctx, a.dayPrefix(date)+name, body)
}

// pack returns the body of an object, and a checksum of the events. The checksum ignores
// namespace names: the same events are stored in the same place, whether or not the name is
// known by then.
func pack(events []audit.TrailEvent) (body []byte, sum string, err error) {
	var b bytes.Buffer
	hash := sha256.New()
	z := gzip.NewWriter(&b)
	for i := range events {
		l, err := lineOf(&events[i])
		if err != nil {
			return nil, "", fmt.Errorf("encode event %s: %w", events[i].ID, err)
		}
		text, err := encode(&l)
		if err != nil {
			return nil, "", fmt.Errorf("encode event %s: %w", events[i].ID, err)
		}
		if _, err := z.Write(text); err != nil {
			return nil, "", err
		}
		if l.Namespace != nil {
			l.Namespace = nil
			text, _ = encode(&l) // encoding succeeded with the name
		}
		_, _ = hash.Write(text) // never fails
	}
	if err := z.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), hex.EncodeToString(hash.Sum(nil)[:sumBytes]), nil
}

func (a *Archive) put(ctx context.Context, key string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	_, err := a.o.API.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &a.o.Bucket, Key: &key, Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
		ContentType: aws.String("application/x-ndjson"), ContentEncoding: aws.String("gzip"),
	}, a.with...)
	return a.translate("store "+key, err)
}

// dayPrefix is the key prefix of the objects of a date like 2006-01-02.
func (a *Archive) dayPrefix(date string) string {
	parts := strings.Split(date, "-")
	return a.prefix() + "year=" + parts[0] + "/month=" + parts[1] + "/day=" + parts[2] + "/"
}

func (a *Archive) prefix() string {
	if a.o.Prefix == "" {
		return ""
	}
	return a.o.Prefix + "/"
}

func isULID(id string) bool {
	_, err := ulid.ParseStrict(id)
	return err == nil
}

// compare orders events of one day: by ID, which orders them by time, and then by
// namespace and entity.
func compare(e, f audit.TrailEvent) int {
	return cmp.Or(cmp.Compare(e.ID, f.ID), cmp.Compare(e.NamespaceID, f.NamespaceID), cmp.Compare(e.Entity, f.Entity))
}
