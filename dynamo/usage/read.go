package usage

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultLimit is the number of snapshots of a page by default, MaxLimit the
// largest number.
const (
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
// start together, it orders entities and resources descending. Reads are eventually
// consistent. The result includes the peer's snapshots, by the window that they name.
//
// Windows and times bound the keys that are read. But of the peer's snapshots, the
// query also reads those of other windows. A query by entity alone first finds the
// entity's resources, with one request for each.
func (s *Snapshots) Read(ctx context.Context, q Query) (Page, error) {
	if q.Limit < 0 || q.Limit > MaxLimit {
		return Page{}, &store.ValidationError{
			Field: "limit", Value: strconv.Itoa(q.Limit), Reason: fmt.Sprintf("give 1 to %d, or 0 for %d", MaxLimit, DefaultLimit),
		}
	}
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	r, err := s.newMerge(ctx, q)
	if err != nil {
		return Page{}, err
	}
	var page Page
	var last schema.Usage
	for {
		u, err := r.next(ctx)
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

// A Summary is the sum of snapshots.
//
// A request of an entity that cascades is in the snapshots of the entity and in those of
// its parent, because both have consumed. So a sum over all entities of a resource counts
// it twice. A snapshot does not tell which of an entity's requests cascaded to it.
type Summary struct {
	Snapshots int
	Windows   int // in which there was a snapshot
	Entities  int // that have a snapshot
	Events    int64
	// First and Last are the starts of the first and the last window; zero if there is
	// no snapshot.
	First, Last time.Time
	Limits      []Total // by name
}

// A Total is the consumption of one limit.
type Total struct {
	Limit   string
	Windows int      // the windows in which a snapshot names the limit
	Total   *big.Int // millitokens
	Average *big.Int // millitokens for each of the windows, rounded towards zero
}

// Sum adds up all snapshots that a query asks for; it ignores the query's
// Limit and Cursor. It reads them as [Snapshots.Read] does, page by page.
func (s *Snapshots) Sum(ctx context.Context, q Query) (Summary, error) {
	q.Limit, q.Cursor = 0, ""
	r, err := s.newMerge(ctx, q)
	if err != nil {
		return Summary{}, err
	}
	var sum Summary
	totals := map[string]*Total{}
	counted := map[string]time.Time{} // by limit: the window that was counted last
	entities := map[string]bool{}
	for {
		u, err := r.next(ctx)
		if err != nil {
			return Summary{}, err
		}
		if u == nil {
			break
		}
		if sum.Snapshots == 0 {
			sum.Last = u.Start
		}
		if sum.Snapshots == 0 || !u.Start.Equal(sum.First) { // the snapshots of a window follow each other
			sum.Windows++
		}
		sum.First = u.Start
		sum.Snapshots++
		entities[u.Entity] = true
		sum.Events += u.Events
		for _, a := range u.Tokens {
			if totals[a.Limit] == nil {
				totals[a.Limit] = &Total{Limit: a.Limit, Total: new(big.Int)}
			}
			t := totals[a.Limit]
			if t.Windows == 0 || !u.Start.Equal(counted[a.Limit]) {
				t.Windows++
				counted[a.Limit] = u.Start
			}
			t.Total.Add(t.Total, a.Milli)
		}
	}
	sum.Entities = len(entities)
	sum.Limits = averaged(totals)
	return sum, nil
}

// averaged returns totals by limit, with their averages.
func averaged(totals map[string]*Total) (limits []Total) {
	for _, t := range totals {
		t.Average = new(big.Int).Quo(t.Total, big.NewInt(int64(t.Windows)))
		limits = append(limits, *t)
	}
	slices.SortFunc(limits, func(a, b Total) int { return cmp.Compare(a.Limit, b.Limit) })
	return limits
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
