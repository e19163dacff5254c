package dynamo_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// A random makes writes of every shape. Few names and many forms make writes that differ
// in one operation only.
type random struct{ *rand.Rand }

func (r random) flip() bool { return r.IntN(2) == 0 }

// maybe returns an instant or an amount in half of the calls, otherwise 0.
func (r random) maybe() int64 {
	if r.flip() {
		return 0
	}
	return r.number()
}

func (r random) number() int64 { return r.Int64N(1e12) + 1 }

func (r random) params() store.Params {
	p := store.Params{Capacity: r.number(), Amount: r.number(), Period: r.number()}
	if r.IntN(3) == 0 {
		p.Amount, p.Renewal = 0, calendars[r.IntN(len(calendars))]
	}
	return p
}

// calendars are of quotas.
var calendars = [...]*store.Renewal{calendar("day"), calendar("month from last day")}

func calendar(words string) *store.Renewal {
	r, err := store.ParseRenewal(words, "Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return r
}

// names returns up to four limit names, in order.
func (r random) names() []string {
	var names []string
	for _, name := range []string{"a", "a.b", "ab", "b"} {
		if r.flip() {
			names = append(names, name)
		}
	}
	return names
}

func (r random) bucket() store.Bucket {
	return store.Bucket{Entity: "key", Resource: "gpt", Shard: r.IntN(2)}
}

func (r random) take() *store.Take {
	t := &store.Take{Bucket: r.bucket(), Now: r.number(), ShardCount: r.IntN(4), Since: r.maybe(), Stamp: r.maybe(), Earned: r.Int64N(1000)}
	for _, name := range r.names() {
		d := store.Debit{Amount: store.Amount{Limit: name, Milli: r.maybe()}, AtMost: math.MaxInt64, Earned: r.number()}
		if r.IntN(8) == 0 {
			d.AtMost = r.Int64N(1e12)
		}
		if r.flip() {
			d.Params = r.params()
		}
		t.Debits = append(t.Debits, d)
	}
	if r.IntN(8) == 0 {
		for i := range 30 {
			t.Debits = append(t.Debits, store.Debit{Amount: store.Amount{Limit: "l" + strconv.Itoa(i), Milli: 1}, AtMost: 1})
		}
	}
	return t
}

func (r random) image(names []string) *store.Image {
	i := &store.Image{Bucket: r.bucket(), ShardCount: 1 + r.IntN(3), RefilledAt: r.number(), HasValidUntil: r.flip(), ValidUntil: r.number()}
	i.Disabled, i.Cascade = r.IntN(4) == 0, r.flip()
	if r.flip() {
		i.Parent = "parent"
	}
	if r.flip() {
		i.Incarnation = "old"
	}
	i.ParentGeneration = r.maybe()
	if r.IntN(3) == 0 {
		i.Features = store.Quota
	}
	i.RenewsByDefault = r.IntN(4) == 0
	for _, name := range names {
		i.Limits = append(i.Limits, store.LimitState{Name: name, Params: new(r.params()), Tokens: r.number()})
	}
	return i
}

func (r random) change(name string) store.Change {
	c := store.Change{Limit: name, Earned: r.number(), Debit: r.maybe(), AtLeast: r.number(), AtMost: r.number(), Params: r.params(), Renews: r.IntN(4) == 0}
	switch r.IntN(3) {
	case 0:
		c.AtLeast = c.AtMost
	case 1:
		c.AtLeast = math.MinInt64
	}
	return c
}

func (r random) refill() *store.Refill {
	names := r.names()
	f := &store.Refill{
		Seen: r.image(names), RefilledAt: r.number(), Loose: r.IntN(4) == 0, Writes: r.change(schema.WCU),
		Expiry: store.Expiry{Change: r.flip()}, Validity: store.Validity{Change: r.flip()},
	}
	f.Bucket = f.Seen.Bucket
	if f.Validity.Change {
		f.Validity.Until = r.maybe()
	}
	if f.Expiry.Change {
		f.Expiry.At = r.maybe()
	}
	if r.IntN(4) == 0 {
		f.FullSince = r.number()
	}
	repairs := f.FullSince == 0 && !f.Loose && r.flip()
	if repairs {
		f.ShardCount = r.IntN(3)
		if r.flip() {
			f.Owner = &store.Owner{Cascade: r.flip()}
			if r.flip() {
				f.Owner.Parent = "other"
			}
			if r.flip() {
				f.Owner.Incarnation, f.Owner.Generation = "new", r.number()
			}
		}
		if r.IntN(8) == 0 {
			f.Writes.Kind = store.SetParams
		}
	}
	for _, name := range names {
		c := r.change(name)
		if repairs {
			c.Kind = []store.ChangeKind{store.KeepParams, store.SetParams, store.RemoveLimit}[r.IntN(3)]
		}
		f.Changes = append(f.Changes, c)
	}
	if repairs && r.flip() {
		most := 2
		if r.IntN(4) == 0 {
			most = 28
		}
		for i := range most {
			c := r.change("z" + strconv.Itoa(i))
			c.Kind = store.AddLimit
			f.Changes = append(f.Changes, c)
		}
		if r.IntN(4) == 0 { // as many others as fit
			for i := range 32 {
				name := "y" + strconv.Itoa(i)
				f.Seen.Limits = append(f.Seen.Limits, store.LimitState{Name: name, Params: &store.Params{}})
				f.Changes = append(f.Changes, store.Change{Limit: name, Kind: store.RemoveLimit})
			}
		}
	}
	return f
}

func (r random) adjust() *store.Adjust {
	names := r.names()
	a := &store.Adjust{Seen: r.image(names), Before: r.maybe()}
	a.Bucket = a.Seen.Bucket
	for _, name := range names {
		d := store.Delta{Limit: name, Tokens: r.number(), Consumed: r.number(), AtMost: r.number(), Covered: r.flip(), Pinned: r.flip()}
		if r.flip() {
			d.Consumed = -d.Consumed
		}
		a.Deltas = append(a.Deltas, d)
	}
	return a
}

func (r random) pair() *store.Pair {
	names := r.names()
	p := &store.Pair{Survivor: r.refill(), Retired: r.image(names)}
	p.Survivor.ShardCount, p.Survivor.Shard, p.Survivor.Seen.ShardCount = 1, 0, 2
	p.Retired.Bucket, p.Retired.ShardCount = p.Survivor.Bucket, 2
	p.Retired.Shard = 1
	for range names {
		p.AtLeast = append(p.AtLeast, r.number())
	}
	return p
}

// A described is one write as it was sent.
type described struct {
	Update, Condition string
	Names             map[string]string
	Values            map[string]types.AttributeValue
}

// errHeld keeps a write from the table.
var errHeld = errors.New("not sent")

// describe returns the writes that an operation sends through s, whose tap is f.
func describe(f *faults.Tap, send func() error) (sent []described) {
	f.Set(faults.Before(func(c *faults.Call) error {
		switch in := c.Input.(type) {
		case *dynamodb.UpdateItemInput:
			sent = append(sent, described{*in.UpdateExpression, *in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues})
		case *dynamodb.TransactWriteItemsInput:
			for _, action := range in.TransactItems {
				if u := action.Update; u != nil {
					sent = append(sent, described{*u.UpdateExpression, *u.ConditionExpression, u.ExpressionAttributeNames, u.ExpressionAttributeValues})
				}
				if d := action.Delete; d != nil {
					sent = append(sent, described{"", *d.ConditionExpression, d.ExpressionAttributeNames, d.ExpressionAttributeValues})
				}
			}
		}
		return errHeld
	}))
	if err := send(); !errors.Is(err, errHeld) {
		panic(err)
	}
	return sent
}

func write(ctx context.Context, s *dynamo.Store, r random) func() error {
	sends := []func() error{
		func() error { _, err := s.Take(ctx, r.take()); return err },
		func() error { _, err := s.Refill(ctx, r.refill()); return err },
		func() error { _, err := s.Adjust(ctx, r.adjust()); return err },
		func() error { _, err := s.Merge(ctx, []*store.Pair{r.pair()}); return err },
	}
	return sends[r.IntN(len(sends))]
}

var (
	valueAlias = regexp.MustCompile(`:\w+`)
	nameAlias  = regexp.MustCompile(`#\w+`)
)

// A store that has sent many writes sends the same text as a new one. So writes with
// one key in the cache have one text. And the text names exactly the aliases that have
// values and names.
func TestRandomWrites(t *testing.T) {
	t.Parallel()
	const writes = 500
	warm, f := fixture.NewStore(t)
	for seed := range uint64(writes) {
		fresh := fixture.OpenStore(t, f)
		got := describe(f, write(t.Context(), warm, random{rand.New(rand.NewPCG(seed, 0))}))
		want := describe(f, write(t.Context(), fresh, random{rand.New(rand.NewPCG(seed, 0))}))
		f.Set(nil)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(types.AttributeValueMemberN{}, types.AttributeValueMemberS{}, types.AttributeValueMemberBOOL{})); diff != "" {
			t.Fatalf("write %d differs by the cache (-new +warm):\n%s", seed, diff)
		}
		for _, d := range got {
			text := d.Update + " " + d.Condition
			checkAliases(t, seed, text, valueAlias, slices.Sorted(maps.Keys(d.Values)))
			checkAliases(t, seed, text, nameAlias, slices.Sorted(maps.Keys(d.Names)))
		}
	}
}

// checkAliases compares the aliases in a text with the ones that were given.
func checkAliases(t *testing.T, seed uint64, text string, form *regexp.Regexp, given []string) {
	t.Helper()
	used := form.FindAllString(text, -1)
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(used, given) {
		t.Errorf("write %d names %v and gives %v:\n%s", seed, used, given, text)
	}
}
