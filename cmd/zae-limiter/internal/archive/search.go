package archive

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/store"
)

// Bounds of [Query.Limit].
const (
	DefaultLimit = 100
	MaxLimit     = 10_000
)

const (
	// readers is the number of objects read at a time.
	readers = 8
	// maxLine is the maximum length of a line: an item of the table has at most 400 KB, and
	// one byte of it takes at most six in JSON.
	maxLine = 4 << 20
)

// A Query selects archived events. An empty field matches all events.
type Query struct {
	// Namespace is the name of a namespace. Leave it empty to find events about namespaces,
	// and events whose namespace had no known name.
	Namespace string
	// Entity is an entity, [audit.System], [audit.Resource] or
	// [audit.Namespace].
	Entity    string
	Action    string
	Principal string
	// Start and End bound the time of events: Start is included, End is not. Days outside
	// are not read.
	Start, End time.Time
	// Limit is the maximum number of events to return, up to [MaxLimit]; 0 is
	// [DefaultLimit].
	Limit int
	// Cursor is [Page.Cursor] of the previous page; "" begins with the newest event.
	Cursor string
}

// A Page is a part of the matching events: by day, and by ID within a day, the newest
// first.
type Page struct {
	Events []audit.TrailEvent
	Cursor string // leads to the next page; "" on the last page
	// Unread are objects that could not be read completely, by name. Events has what could
	// be read of them.
	Unread []*ObjectError
}

// Search finds events. It reads the days that may contain matches, from the newest on,
// until it has enough events, and keeps no more than it returns. A page that begins within
// a day reads the rest of that day.
//
// An error means that the archive could not be searched. An unreadable object is no error:
// the page reports it.
func (a *Archive) Search(ctx context.Context, q Query) (Page, error) {
	s, err := a.search(q)
	if err != nil {
		return Page{}, err
	}
	err = a.days(ctx, s.from, s.to, func(date string) (enough bool, err error) {
		err = s.day(ctx, date)
		return len(s.page.Events) > s.q.Limit, err
	})
	if err != nil {
		return Page{}, err
	}
	if len(s.page.Events) > s.q.Limit {
		s.page.Events = s.page.Events[:s.q.Limit]
		s.page.Cursor = cursorAfter(&s.page.Events[s.q.Limit-1])
	}
	slices.SortFunc(s.page.Unread, func(e, f *ObjectError) int { return cmp.Compare(e.Object, f.Object) })
	return s.page, nil
}

// A search is a query in progress.
type search struct {
	*Archive

	q        Query
	from, to string            // dates, both included
	after    *audit.TrailEvent // end of the previous page; only the fields that order events
	page     Page

	mu     sync.Mutex
	newest []audit.TrailEvent // from the current day: unsorted, up to twice as many as wanted
	// floor is the oldest event of the day that may still be wanted: enough events are as
	// new or newer. It is nil until enough events are known.
	floor *audit.TrailEvent
}

func (a *Archive) search(q Query) (*search, error) {
	q.Limit = cmp.Or(q.Limit, DefaultLimit)
	switch {
	case q.Limit < 1 || q.Limit > MaxLimit:
		return nil, &store.ValidationError{Field: "limit", Value: strconv.Itoa(q.Limit), Reason: "give 1 to " + strconv.Itoa(MaxLimit) + " events"}
	case !q.End.IsZero() && !q.Start.Before(q.End):
		return nil, &store.ValidationError{Field: "end", Value: q.End.Format(time.RFC3339), Reason: "give a time after the start"}
	}
	s := &search{Archive: a, q: q, from: "0000-01-01", to: "9999-12-31"}
	if !q.Start.IsZero() {
		s.from = q.Start.UTC().Format(time.DateOnly)
	}
	if !q.End.IsZero() {
		s.to = q.End.Add(-1).UTC().Format(time.DateOnly)
	}
	if q.Cursor != "" {
		after, err := parseCursor(q.Cursor)
		if err != nil {
			return nil, err
		}
		s.after, s.to = after, min(s.to, after.Time.Format(time.DateOnly))
	}
	return s, nil
}

// matches reports whether an event matches the query.
func (q *Query) matches(e *audit.TrailEvent) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(q.Namespace, e.Namespace) && is(q.Entity, e.Entity) && is(q.Action, e.Action) && is(q.Principal, e.Principal) &&
		!e.Time.Before(q.Start) && (q.End.IsZero() || e.Time.Before(q.End))
}

// day adds the events of a date to the page.
func (s *search) day(ctx context.Context, date string) error {
	var keys []string
	err := s.list(ctx, s.dayPrefix(date), "", func(out *s3.ListObjectsV2Output) {
		for _, o := range out.Contents {
			if key := *o.Key; strings.HasSuffix(key, suffix) {
				keys = append(keys, key)
			}
		}
	})
	if err != nil {
		return err
	}
	slices.Reverse(keys) // the newest first, by the first event of each
	if err := s.objects(ctx, date, keys); err != nil {
		return err
	}
	s.cut()
	s.page.Events = append(s.page.Events, s.newest...)
	s.newest, s.floor = nil, nil
	return nil
}

// objects reads objects, several at a time, until one is unreachable.
func (s *search) objects(ctx context.Context, date string, keys []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	next := make(chan string)
	for range min(readers, len(keys)) {
		all.Go(func() {
			for key := range next {
				if err := s.object(ctx, date, key); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, key := range keys {
		if ctx.Err() != nil {
			break
		}
		next <- key
	}
	close(next)
	all.Wait()
	return context.Cause(ctx)
}

// wanted is the number of events that the page lacks. One event more than the limit shows
// whether there is another page.
func (s *search) wanted() int { return s.q.Limit + 1 - len(s.page.Events) }

// mayHold reports whether an object may contain wanted events, by the first and last ID in
// its name.
func (s *search) mayHold(date, key string) bool {
	const length, between = 26, "-"
	name := strings.TrimPrefix(key, s.dayPrefix(date))
	if len(name) <= 2*length || name[length:length+1] != between || !isULID(name[:length]) {
		return true
	}
	first, last := name[:length], name[length+1:2*length+1]
	if s.after != nil && date == s.after.Time.Format(time.DateOnly) && first > s.after.ID {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.floor == nil || last >= s.floor.ID
}

// add adds a wanted event.
func (s *search) add(e *audit.TrailEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = append(s.newest, *e)
	if len(s.newest) >= 2*s.wanted() {
		s.cut()
	}
}

// cut keeps the day's wanted events, each once, the newest first.
func (s *search) cut() {
	slices.SortFunc(s.newest, func(e, f audit.TrailEvent) int { return compare(f, e) })
	s.newest = slices.CompactFunc(s.newest, func(e, f audit.TrailEvent) bool { return compare(e, f) == 0 })
	kept := min(len(s.newest), s.wanted())
	clear(s.newest[kept:])
	s.newest = s.newest[:kept]
	if kept == s.wanted() {
		floor := s.newest[kept-1]
		s.floor = &floor
	}
}

// object reads an object, if it may contain wanted events. An error ends the search; damage
// to the object itself is reported in the page.
func (s *search) object(ctx context.Context, date, key string) error {
	if !s.mayHold(date, key) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	wrong := &ObjectError{Object: "s3://" + s.o.Bucket + "/" + key}
	defer func() {
		if wrong.Err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.page.Unread = append(s.page.Unread, wrong)
		}
	}()
	out, err := s.o.API.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.o.Bucket, Key: &key}, s.with...)
	switch code := codeOf(err); {
	case code == "NoSuchKey":
		wrong.Err = fmt.Errorf("%w: it was deleted meanwhile", store.ErrNotFound)
		return nil
	case code == "InvalidObjectState":
		wrong.Err = fmt.Errorf("it was moved to cold storage: restore it: %w", err)
		return nil
	case err != nil:
		return s.translate("read "+key, err)
	}
	defer out.Body.Close() //nolint:errcheck // it was read, or is abandoned
	body := &noted{Reader: out.Body}
	err = s.lines(date, body, wrong)
	switch {
	case isBroken(ctx, body.err):
		*wrong = ObjectError{}
		return s.translate("read "+key, body.err)
	case err != nil:
		wrong.Line, wrong.Err = 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// isBroken reports whether a read error comes from the connection, and not from the
// content, such as a wrong checksum.
func isBroken(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(net.Error)))
}

// lines reads the events of an object. It returns the first error of the compression; it
// notes and skips a damaged line.
func (s *search) lines(date string, body io.Reader, wrong *ObjectError) error {
	z, err := gzip.NewReader(body)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if err := s.line(date, lines.Bytes()); err != nil && wrong.Err == nil {
			wrong.Line, wrong.Err = n, err
		}
	}
	return lines.Err()
}

// line adds an event of a day, if it is wanted.
func (s *search) line(date string, text []byte) error {
	e, details, err := decodeLine(text)
	switch {
	case err != nil:
		return err
	case e.Time.Format(time.DateOnly) != date:
		return fmt.Errorf("%w: the event is of %s", ErrDamaged, e.Time.Format(time.RFC3339))
	case !s.wants(date, &e):
		return nil
	}
	if e.Details, err = decodeDetails(details); err == nil {
		s.add(&e)
	}
	return err
}

// wants reports whether an event matches the query, comes after the previous page, and is
// among the newest so far.
func (s *search) wants(date string, e *audit.TrailEvent) bool {
	if !s.q.matches(e) || s.after != nil && date == s.after.Time.Format(time.DateOnly) && compare(*e, *s.after) >= 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.floor == nil || compare(*e, *s.floor) > 0
}

// noted keeps a reader's error, to distinguish it from damaged content.
type noted struct {
	io.Reader

	err error
}

func (r *noted) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// days passes on the dates in a range that have objects, the newest first, until yield
// reports enough.
func (a *Archive) days(ctx context.Context, from, to string, yield func(date string) (enough bool, err error)) error {
	_, err := a.parts(ctx, a.prefix(), "", from, to, yield)
	return err
}

// parts goes through the years, months or days below a prefix. date is the part of the date
// so far.
func (a *Archive) parts(ctx context.Context, prefix, date, from, to string, yield func(string) (bool, error)) (enough bool, err error) {
	if len(date) == len(time.DateOnly) {
		return yield(date)
	}
	name, digits, dash := "year=", 4, ""
	switch {
	case len(date) == 4:
		name, digits, dash = "month=", 2, "-"
	case date != "":
		name, digits, dash = "day=", 2, "-"
	}
	var found []string
	err = a.list(ctx, prefix+name, "/", func(out *s3.ListObjectsV2Output) {
		for _, p := range out.CommonPrefixes {
			part := strings.TrimSuffix((*p.Prefix)[len(prefix)+len(name):], "/")
			next := date + dash + part
			if len(part) == digits && strings.Trim(part, "0123456789") == "" && from[:len(next)] <= next && next <= to[:len(next)] {
				found = append(found, part)
			}
		}
	})
	slices.Sort(found)
	for i := len(found) - 1; i >= 0 && err == nil && !enough; i-- {
		enough, err = a.parts(ctx, prefix+name+found[i]+"/", date+dash+found[i], from, to, yield)
	}
	return enough, err
}

// list reads every page of a listing.
func (a *Archive) list(ctx context.Context, prefix, delimiter string, page func(*s3.ListObjectsV2Output)) error {
	in := &s3.ListObjectsV2Input{Bucket: &a.o.Bucket, Prefix: &prefix}
	if delimiter != "" {
		in.Delimiter = &delimiter
	}
	for {
		out, err := a.listPage(ctx, in)
		if err != nil {
			return a.translate("list "+prefix, err)
		}
		page(out)
		if out.NextContinuationToken == nil || *out.NextContinuationToken == "" {
			return nil
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}

func (a *Archive) listPage(ctx context.Context, in *s3.ListObjectsV2Input) (*s3.ListObjectsV2Output, error) {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	return a.o.API.ListObjectsV2(ctx, in, a.with...)
}

// cursorAfter encodes the place of the last event of a page.
func cursorAfter(e *audit.TrailEvent) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join([]string{e.Time.Format(time.DateOnly), e.ID, e.NamespaceID, e.Entity}, "\n")))
}

func parseCursor(cursor string) (*audit.TrailEvent, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	parts := strings.Split(string(raw), "\n")
	var day time.Time
	if err == nil && len(parts) == 4 {
		day, err = time.Parse(time.DateOnly, parts[0])
	}
	if err != nil || len(parts) != 4 {
		return nil, &store.ValidationError{Field: "cursor", Value: cursor, Reason: "give the cursor that a page of a search ended with"}
	}
	return &audit.TrailEvent{NamespaceID: parts[2], Event: audit.Event{ID: parts[1], Entity: parts[3], Time: day}}, nil
}
