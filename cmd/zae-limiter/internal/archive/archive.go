package archive

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/store"
)

// An API is the part of S3 that this package calls, with the SDK's own signatures.
// *[s3.Client] implements it.
type API interface {
	HeadBucket(context.Context, *s3.HeadBucketInput, ...func(*s3.Options)) (*s3.HeadBucketOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

var _ API = (*s3.Client)(nil)

// A Location is a place in a bucket.
type Location struct {
	Bucket string
	Prefix string // prefix of all keys, without a final slash; "" is the whole bucket
}

// String is the location in the form that [ParseURL] reads.
func (l Location) String() string {
	if l.Prefix == "" {
		return "s3://" + l.Bucket
	}
	return "s3://" + l.Bucket + "/" + l.Prefix
}

// ParseURL reads s3://BUCKET or s3://BUCKET/PREFIX. An error is a
// [*store.ValidationError].
func ParseURL(url string) (Location, error) {
	invalid := func(reason string) (Location, error) {
		return Location{}, &store.ValidationError{Field: "archive", Value: url, Reason: reason}
	}
	rest, ok := strings.CutPrefix(url, "s3://")
	if !ok {
		return invalid("give s3://BUCKET/PREFIX")
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	prefix = strings.TrimSuffix(prefix, "/")
	const least, most, longest = 3, 63, 800 // leaves room for the rest of a key, which has at most 1024 bytes
	switch {
	case len(bucket) < least || len(bucket) > most || strings.Trim(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "",
		strings.ContainsAny(bucket[:1]+bucket[len(bucket)-1:], ".-"):
		return invalid(`after s3:// give the name of a bucket: 3 to 63 lower-case letters, digits and ".-"`)
	case len(prefix) > longest:
		return invalid("use a prefix of at most " + strconv.Itoa(longest) + " bytes")
	case !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, unicode.IsControl):
		return invalid("the prefix is not plain text")
	case strings.Contains("/"+prefix+"/", "//") && prefix != "":
		return invalid("the prefix has an empty part between two slashes")
	}
	return Location{bucket, prefix}, nil
}

// Options configure an archive. API and Bucket are required.
type Options struct {
	API API
	Location

	// NameOf returns the name of the namespace with an id, for the stored events.
	// [store.ErrNotFound] and [store.ErrCorrupt] mean that no name is known; any other
	// error leaves the events unstored. nil knows no names.
	NameOf func(ctx context.Context, id string) (string, error)
	// Timeout bounds each request; 0 is a minute.
	Timeout time.Duration
}

// An Archive stores events. It is safe for concurrent use.
type Archive struct {
	o    Options
	with []func(*s3.Options) // applies to each request

	mu    sync.Mutex
	names map[string]string // of namespaces by id; neither ever changes
}

// withDefaults validates the options and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.API == nil:
		return o, &store.ValidationError{Field: "API", Value: "nil", Reason: "give a client of S3"}
	case o.Bucket == "":
		return o, &store.ValidationError{Field: "archive", Value: "", Reason: "name a bucket"}
	}
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	return o, store.CheckNotNegative("timeout", o.Timeout)
}

// Open opens an archive, after it has found the bucket in whatever region. It fails with
// [store.ErrInvalid] for options without an API or a bucket, and with
// [store.ErrNotFound] if there is no such bucket. It fails with [store.ErrAccessDenied]
// if the credentials may not list the bucket.
func Open(ctx context.Context, o Options) (*Archive, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Archive{o: o, names: map[string]string{}}
	err = a.head(ctx)
	if region := regionOf(err); region != "" {
		a.with = append(a.with, func(o *s3.Options) { o.Region = region })
		err = a.head(ctx)
	}
	if status := statusOf(err); status == http.StatusForbidden || status == http.StatusBadRequest {
		err = cmp.Or(a.reason(ctx), err)
	}
	if err != nil {
		return nil, a.translate("look for the bucket", err)
	}
	return a, nil
}

// reason says why S3 refuses to show the bucket: the answer to HEAD has no body, and so cannot
// tell expired credentials from others. It is nil if S3 does not refuse to list.
func (a *Archive) reason(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	_, err := a.o.API.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &a.o.Bucket, MaxKeys: aws.Int32(1)}, a.with...)
	return err
}

// Location returns the place of the archive.
func (a *Archive) Location() Location { return a.o.Location }

func (a *Archive) head(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	_, err := a.o.API.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &a.o.Bucket}, a.with...)
	return err
}

// name returns the name of a namespace, "" if it is unknown.
func (a *Archive) name(ctx context.Context, id string) (string, error) {
	a.mu.Lock()
	name, known := a.names[id]
	a.mu.Unlock()
	if known || a.o.NameOf == nil || id == tableNamespace {
		return name, nil
	}
	name, err := a.o.NameOf(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt):
		return "", nil
	case err != nil:
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names[id] = name
	return name, nil
}

// tableNamespace holds the events about namespaces: it has no name.
const tableNamespace = "_"
