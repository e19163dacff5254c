package manage

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// A Snapshot is what was consumed in a window, in JSON.
type Snapshot struct {
	Entity   string                 `json:"entity_id"`
	Resource string                 `json:"resource"`
	Window   string                 `json:"window"`
	Start    time.Time              `json:"start_at"`
	End      time.Time              `json:"end_at"`
	Events   int64                  `json:"events"` // acquires that were counted
	Tokens   map[string]json.Number `json:"tokens"` // tokens that were consumed, by limit
}

// Usage is a page of snapshots in JSON.
type Usage struct {
	Snapshots []Snapshot `json:"snapshots"` // the snapshots, the newest first
	Cursor    *string    `json:"cursor"`
	Note      string     `json:"note,omitempty"` // why there are none

	page usage.Page
}

// Page is the page as the store has it.
func (v *Usage) Page() *usage.Page { return &v.page }

// ListUsage lists what was consumed in each window.
func ListUsage(ctx context.Context, s *dynamo.Store, q usage.Query) (Usage, error) {
	page, err := s.Usage().Read(ctx, q)
	if err != nil {
		return Usage{}, err
	}
	v := Usage{Snapshots: make([]Snapshot, len(page.Snapshots)), Cursor: orNull(page.Next), page: page}
	for i := range page.Snapshots {
		u := &page.Snapshots[i]
		v.Snapshots[i] = Snapshot{
			Entity: u.Entity, Resource: u.Resource, Window: u.Window.String(), Start: u.Start, End: u.End(),
			Events: u.Events, Tokens: make(map[string]json.Number, len(u.Tokens)),
		}
		for _, a := range u.Tokens {
			v.Snapshots[i].Tokens[a.Limit] = json.Number(Tokens(a.Milli))
		}
	}
	if len(v.Snapshots) == 0 {
		v.Note, err = noUsage(ctx, s, q)
	}
	return v, err
}

// A Total is the usage of a limit, in JSON.
type Total struct {
	Limit   string      `json:"limit_name"`
	Total   json.Number `json:"total"`   // tokens that were consumed
	Average json.Number `json:"average"` // for each window
	Windows int         `json:"windows"`
}

// UsageSum is what was consumed in all windows together, in JSON.
type UsageSum struct {
	Entity    *string    `json:"entity_id"`
	Resource  *string    `json:"resource"`
	Window    string     `json:"window"`
	Snapshots int        `json:"snapshots"` // number of snapshots
	Windows   int        `json:"windows"`
	Entities  int        `json:"entities"`             // number of entities
	Twice     bool       `json:"cascades_count_twice"` // a cascading acquire counts for the entity and for its parent
	Events    int64      `json:"events"`               // acquires that were counted
	First     *time.Time `json:"first_start_at"`       // beginning of the first window
	Last      *time.Time `json:"last_start_at"`        // beginning of the last window
	Limits    []Total    `json:"limits"`
	Note      string     `json:"note,omitempty"` // why there are none

	sum usage.Summary
}

// Sum is the sum as the store has it.
func (v *UsageSum) Sum() *usage.Summary { return &v.sum }

// SumUsage adds up what was consumed.
func SumUsage(ctx context.Context, s *dynamo.Store, q usage.Query) (UsageSum, error) {
	sum, err := s.Usage().Sum(ctx, q)
	if err != nil {
		return UsageSum{}, err
	}
	v := UsageSum{
		Window: q.Window.String(), Snapshots: sum.Snapshots, Windows: sum.Windows, Entities: sum.Entities, Twice: q.Entity == "", Events: sum.Events, Limits: make([]Total, len(sum.Limits)),
		Entity: orNull(q.Entity), Resource: orNull(q.Resource), First: orNull(sum.First), Last: orNull(sum.Last), sum: sum,
	}
	for i, t := range sum.Limits {
		v.Limits[i] = Total{t.Limit, json.Number(Tokens(t.Total)), json.Number(Tokens(t.Average)), t.Windows}
	}
	if sum.Snapshots == 0 {
		v.Note, err = noUsage(ctx, s, q)
	}
	return v, err
}

// Tokens writes millitokens as tokens, exactly.
func Tokens(amount *big.Int) string {
	const milli = 1000
	whole, rest := new(big.Int).QuoRem(amount, big.NewInt(milli), new(big.Int))
	if rest.Sign() == 0 {
		return whole.String()
	}
	sign := ""
	if amount.Sign() < 0 {
		sign = "-"
	}
	return strings.TrimRight(fmt.Sprintf("%s%d.%03d", sign, whole.Abs(whole), rest.Abs(rest)), "0")
}

// noUsage says why a query finds nothing. It asks for what is like the query.
func noUsage(ctx context.Context, s *dynamo.Store, q usage.Query) (string, error) {
	if q.Cursor != "" {
		return "there is no more usage after the cursor", nil
	}
	q.Limit = 1
	asked := q
	for _, like := range []struct {
		change func(*usage.Query)
		say    func(*usage.Snapshot) string
	}{
		{func(like *usage.Query) { like.From, like.To = time.Time{}, time.Time{} }, func(u *usage.Snapshot) string {
			return "there is none from --start to --end; the newest window with usage starts at " + u.Start.Format(time.RFC3339)
		}},
		{func(like *usage.Query) { like.Resource = "" }, func(u *usage.Snapshot) string {
			return fmt.Sprintf("entity %s has no usage of resource %s; it has some of %s", asked.Entity, asked.Resource, u.Resource)
		}},
	} {
		q := asked
		like.change(&q)
		if q == asked || q.Entity == "" && q.Resource == "" {
			continue
		}
		page, err := s.Usage().Read(ctx, q)
		if err != nil {
			return "", err
		}
		if len(page.Snapshots) > 0 {
			return "no usage was found: " + like.say(&page.Snapshots[0]), nil
		}
		asked.From, asked.To = time.Time{}, time.Time{} // there is none of any time
	}
	switch acquired, err := hasBucket(ctx, s, asked.Entity, asked.Resource); {
	case err != nil:
		return "", err
	case acquired:
		return "no usage was found, and there is a bucket: only clients of the Python package have used it, or nothing was consumed", nil
	}
	return "no usage was found: nothing was acquired lately, or the names are spelled otherwise", nil
}

// hasBucket reports whether an entity, a resource or the two together have a bucket. The first
// acquire makes it, and the policy of a reader permits to look.
func hasBucket(ctx context.Context, s *dynamo.Store, entity, resource string) (bool, error) {
	if entity == "" {
		for _, err := range s.ResourceBuckets(ctx, resource) {
			return err == nil, err
		}
		return false, nil
	}
	all, err := s.EntityResources(ctx, entity)
	return slices.ContainsFunc(all, func(r dynamo.EntityResource) bool {
		return r.Shards > 0 && (resource == "" || resource == r.Resource)
	}), err
}
