package usage

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Defaults and bounds of usage.
const (
	// DefaultTTL is how long usage is kept after its month has ended, unless the options of the
	// store say otherwise.
	DefaultTTL = 90 * 24 * time.Hour
	// DefaultLimit is the number of snapshots of a page by default, MaxLimit the
	// largest number.
	DefaultLimit = 100
	MaxLimit     = 1000
)

// A Query says which usage snapshots to read. They are those of an entity, for one
// resource or for all, or those of all entities for a resource. It must give Entity,
// Resource, or both.
type Query struct {
	Entity, Resource string
	Window           Window
	// From and To bound the starts of windows: at From or later, and before To. A zero
	// time sets no bound.
	From, To time.Time
	// Limit is the largest number of snapshots of a page, up to [MaxLimit]; 0 is
	// [DefaultLimit].
	Limit int
	// Cursor is [Page.Next] of the page before, "" for the first page.
	Cursor string
	// Now asks for strongly consistent reads, which cost twice as much; see [Snapshots.Read].
	Now bool
}

// A Snapshot is what an entity consumed of a resource in one window.
type Snapshot struct {
	Key
	Events int64    // acquires; in a peer's snapshot, the limits of acquires
	Tokens []Amount // by limit name
}

// An Amount is the consumption of one limit.
type Amount struct {
	Limit string
	// Milli is in millitokens; negative if more was returned than taken. It has no
	// fixed size: a month at 4 GB a second exceeds 64 bits.
	Milli *big.Int
}

// End is when the window ends.
func (u *Snapshot) End() time.Time { return u.Window.End(u.Start) }

// A Page is a part of the snapshots that a query asks for.
type Page struct {
	Snapshots []Snapshot
	// Next is the cursor of the next page, "" if this is the last one.
	Next string
}

// Read reads a page of usage snapshots, the newest windows first. Of windows that
// start together, it orders entities and resources descending.
//
// It reads what buckets consumed up to now: the hours that are open, those that buckets
// keep, and those in pages. Reads are eventually consistent, so what was consumed in the
// last second may be missing. With [Query.Now], everything is there that was consumed
// before the call, with two exceptions:
//
//   - A bucket that was made less than about a second ago, unless the query names an entity
//     and a resource. Other queries find buckets through an index that lags behind.
//   - An item that has gone, until its last page is written.
//
// A window that is open counts so far. The result includes the snapshots that the table's
// stream counted before buckets kept diaries, and the peer's snapshots, by the window that
// they name. A window that the stream and diaries counted in parts is one snapshot; the
// peer's are snapshots of their own.
//
// A query by entity reads for each month the pages of the entity, and a query by entity
// alone sends a request for each resource of the namespace that has pages of the month. A
// query by resource alone reads all pages of a month, and the buckets of the resource, for
// each page of snapshots, because they are not in the order of time. It finds the buckets in
// 17 partitions of an index. It holds about 1,000 buckets at a time.
func (s *Snapshots) Read(ctx context.Context, q Query) (Page, error) {
	if q.Limit < 0 || q.Limit > MaxLimit {
		return Page{}, &store.ValidationError{
			Field: "limit", Value: strconv.Itoa(q.Limit), Reason: fmt.Sprintf("give 1 to %d, or 0 for %d", MaxLimit, DefaultLimit),
		}
	}
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	after, err := q.check()
	if err != nil {
		return Page{}, err
	}
	var m merge
	if m.scans, err = s.oldScans(ctx, &q, after); err != nil {
		return Page{}, err
	}
	m.scans = append(m.scans, s.newReading(&q).scan(after, q.Limit+1)) // one more tells whether another page follows
	var page Page
	var last schema.Usage
	for {
		u, err := m.next(ctx)
		switch {
		case err != nil:
			return Page{}, err
		case u == nil:
			return page, nil
		case len(page.Snapshots) == q.Limit:
			page.Next = cursorAt(&last)
			return page, nil
		}
		last = *u
		page.Snapshots = append(page.Snapshots, snapshotOf(u, q.Window))
	}
}

func snapshotOf(u *schema.Usage, w Window) Snapshot {
	s := Snapshot{Key: Key{u.Entity, u.Resource, w, u.Start}, Events: u.Events}
	for _, a := range u.Tokens {
		s.Tokens = append(s.Tokens, Amount(a))
	}
	return s
}

// check validates a query, except its limit, and decodes its cursor; after is nil if
// there is none.
func (q *Query) check() (after *schema.Usage, err error) {
	if q.Entity == "" && q.Resource == "" {
		return nil, &store.ValidationError{Field: "entity", Value: "", Reason: "give an entity, a resource, or both"}
	}
	if q.Entity != "" {
		if err := store.CheckEntity(q.Entity); err != nil {
			return nil, err
		}
	}
	if q.Resource != "" {
		if err := store.CheckResource(q.Resource); err != nil {
			return nil, err
		}
	}
	if err := q.Window.check(); err != nil {
		return nil, err
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		return nil, &store.ValidationError{
			Field: "to", Value: q.To.Format(time.RFC3339), Reason: "give a time after " + q.From.Format(time.RFC3339),
		}
	}
	if q.Cursor == "" {
		return nil, nil
	}
	after, ok := parseCursor(q.Cursor)
	if !ok || after.Window != q.Window.String() ||
		q.Entity != "" && q.Entity != after.Entity || q.Resource != "" && q.Resource != after.Resource {
		return nil, &store.ValidationError{Field: "cursor", Value: q.Cursor, Reason: "give the one that a page of the same query ended with"}
	}
	return after, nil
}

// A cursor is the position of the last snapshot of a page: the window, its start, the
// entity, the resource, and p if its key is of the peer's form.
const cursorParts = 5

func cursorAt(u *schema.Usage) string {
	form := ""
	if u.Peer {
		form = "p"
	}
	return base64.RawURLEncoding.EncodeToString([]byte(
		strings.Join([]string{u.Window, schema.Timestamp(u.Start), u.Entity, u.Resource, form}, "#")))
}

func parseCursor(cursor string) (*schema.Usage, bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	parts := strings.Split(string(text), "#")
	if err != nil || len(parts) != cursorParts {
		return nil, false
	}
	start, err := schema.ParseTimestamp(parts[1])
	if err != nil || store.CheckEntity(parts[2]) != nil || store.CheckResource(parts[3]) != nil {
		return nil, false
	}
	return &schema.Usage{Window: parts[0], Start: start, Entity: parts[2], Resource: parts[3], Peer: parts[4] != ""}, true
}

// order sorts the newest windows first. Of windows that start together, it sorts
// entities and resources descending, and the peer's snapshots after ours.
func order(a, b *schema.Usage) int {
	if byPlace := cmp.Or(b.Start.Compare(a.Start), strings.Compare(b.Entity, a.Entity), strings.Compare(b.Resource, a.Resource)); byPlace != 0 {
		return byPlace
	}
	switch {
	case a.Peer == b.Peer:
		return 0
	case b.Peer:
		return -1
	}
	return 1
}
