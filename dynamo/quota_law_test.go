package dynamo_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	lawMultiplier = 7
	lawShards     = 8
	lawSkew       = 5000 // of clocks, in milliseconds
)

// A ledger is a bucket with quotas, and what its quotas may still give. Every write that plan
// proposes is carried out by the store, also on images that other writes have made old, and by
// clocks that disagree.
type ledger struct {
	*rapid.T

	store  *dynamo.Store
	api    *dynamolite.DB
	bucket store.Bucket
	ns     string
	now    int64
	// known are the images of each shard, oldest first; the last one is as stored.
	known  [lawShards][]*store.Image
	wanted plan.Wanted
	leases []lawLease
	// slack is, of each quota and period, what the shards lack of being full, less what was
	// admitted and not returned.
	//
	// Invariant: it is never negative. Otherwise tokens were there twice.
	slack map[lawPeriod]int64
	// edited says which period goes on in place of one that an edit of the calendar has ended.
	edited map[lawPeriod]int64
	// checks, if not nil, replaces the checks of each write: of the items that changed, before and
	// after it.
	checks func(before, after []*store.Image, amounts []store.Amount)
	varied bool // a quota has had a schedule
	behind bool // the last split was worked out on an image that was no longer stored
	// operation is the operator's amendment under way, and gained what a reset then gives.
	operation *plan.Amendment
	gained    []resetGain
}

type lawPeriod struct {
	limit string
	end   int64
}

type lawLease struct {
	shard  int
	amount store.Amount
}

// lack is what a shard lacks of being full in its period.
func lack(img *store.Image, s *store.LimitState) int64 {
	return capacity(img, s) - s.Tokens
}

// capacity is a shard's share of a quota, and what it was topped up by.
func capacity(img *store.Image, s *store.LimitState) int64 {
	share := plan.Share(*s.Params, img.Shard, img.ShardCount, img.RefilledAt).Capacity
	return share + s.Granted().TopUp
}

// P11 at each write: over any period of a quota, its shards admit what it says, or what its
// schedule says. A quota that begins a period is full but for what the write takes. An item says with vu until when takes may
// come, and lives a week longer than its next period.
func TestQuotasOverAnyWrites(t *testing.T) {
	t.Parallel()
	s, db, ns := lawStore(t)
	const rounds = 20 // the rarest races come once in some thousand tries
	law[*ledger]{writes: lawWrites, begin: func(t *rapid.T, number int) *ledger {
		l := &ledger{T: t, store: s, api: db, ns: ns, slack: map[lawPeriod]int64{}, edited: map[lawPeriod]int64{}, bucket: store.Bucket{Entity: fmt.Sprintf("user-%d", number), Resource: "gpt-4"}}
		l.now = fixture.Start.UnixMilli() + rapid.Int64Range(0, 400*24*3_600_000).Draw(t, "start")
		l.edit()
		l.create()
		return l
	}}.play(t, rounds)
}

var lawWrites = map[string]func(*ledger) bool{
	"time": (*ledger).pass, "edit": (*ledger).edit, "take": (*ledger).take, "refill": (*ledger).refill, "settle": (*ledger).settle, "return": (*ledger).giveBack,
	"split": (*ledger).split, "merge": (*ledger).merge, "tighten": (*ledger).tighten, "top up": (*ledger).topUp, "peer": (*ledger).peer, "trim": (*ledger).trim, "grant": (*ledger).grant, "replace": (*ledger).replace, "stray": (*ledger).stray, "heal": (*ledger).heal, "reset": (*ledger).reset, "grant a top-up": (*ledger).amendTopUp,
}

// clock is the time by a process's clock.
func (l *ledger) clock() int64 { return l.now + rapid.Int64Range(-lawSkew, lawSkew).Draw(l.T, "skew") }

// any returns a shard's image as a process may remember it.
func (l *ledger) any() *store.Image {
	var shards []int
	for i, images := range l.known {
		if len(images) > 0 && images[len(images)-1] != nil {
			shards = append(shards, i)
		}
	}
	images := l.known[rapid.SampledFrom(shards).Draw(l.T, "shard")]
	for back := rapid.IntRange(0, 2).Draw(l.T, "age"); ; back-- {
		if i := len(images) - 1 - back; i >= 0 && images[i] != nil {
			return images[i]
		}
	}
}

func (l *ledger) last(shard int) *store.Image {
	if n := len(l.known[shard]); n > 0 {
		return l.known[shard][n-1]
	}
	return nil
}

// pass lets time pass, mostly to an edge of a quota.
func (l *ledger) pass() bool {
	const day = 24 * 3_600_000
	edge := l.now + rapid.SampledFrom([]int64{1, 40, 1000, 3_600_000, 40 * day}).Draw(l.T, "time")
	if rapid.Bool().Draw(l.T, "to an edge") {
		for i := range l.wanted.Limits {
			if r := l.wanted.Limits[i].Renews; r != nil && rapid.Bool().Draw(l.T, "its") {
				edge = r.Next(l.now) + rapid.Int64Range(-3000, 3000).Draw(l.T, "beside it")
				break
			}
		}
	}
	if img := l.last(0); img.HasValidUntil && rapid.Bool().Draw(l.T, "to a change") {
		edge = img.ValidUntil + rapid.Int64Range(-3000, 3000).Draw(l.T, "beside the change")
	}
	l.now = max(l.now, edge)
	return true
}

// edit changes the limits that the bucket is to have.
func (l *ledger) edit() bool {
	l.wanted = plan.Wanted{Expires: true}
	for _, name := range []string{"a", "b"} {
		words := rapid.SampledFrom([]string{"", "day", "day at 06:30", "month", "week from monday;month"}).Draw(l.T, name)
		limit := store.Limit{Name: name, Capacity: rapid.Int64Range(1, 30).Draw(l.T, name+" tokens")}
		if words == "" {
			limit.Amount, limit.Period = limit.Capacity, time.Hour
		} else {
			var err error
			if limit.Renews, err = store.ParseRenewal(words, "Europe/Berlin"); err != nil {
				l.Fatal(err)
			}
			l.vary(&limit)
		}
		l.wanted.Limits = append(l.wanted.Limits, limit)
	}
	return true
}

// vary often gives a quota a schedule. An entry may hold until soon.
func (l *ledger) vary(limit *store.Limit) {
	words := rapid.SampledFrom([]string{"", "", "* 9-16 * * * x0.5", "* 9-16 * * * x0.3", "0-29 * * * * x3", "* * * * sat,sun capacity=3; * 6-20 * * * x2", "until END x2"}).Draw(l.T, limit.Name+" varies")
	if words == "" {
		return
	}
	end := time.UnixMilli(l.now + rapid.SampledFrom([]int64{50, 60_000, 5 * 3_600_000, 5 * 24 * 3_600_000}).Draw(l.T, "end"))
	var err error
	l.varied = true
	if limit.Varies, err = store.ParseSchedule(strings.Replace(words, "END", end.UTC().Format(time.RFC3339Nano), 1), "Europe/Berlin"); err != nil {
		l.Fatal(err)
	}
}

func (l *ledger) create() {
	c := &store.Create{Bucket: l.bucket, Now: l.now, ShardCount: 1, Writes: plan.FirstWrite(), ExpiresAt: l.now/1000 + 1e6}
	for i := range l.wanted.Limits {
		p := l.wanted.Limits[i].Params()
		c.Limits = append(c.Limits, store.NewLimit{NamedParams: store.NamedParams{Limit: l.wanted.Limits[i].Name, Params: p}, Tokens: plan.InForce(p, c.Now).Capacity})
	}
	plan.DebitNew(c, nil)
	if _, err := l.store.Create(l.Context(), c); err != nil {
		l.Fatal(err)
	}
	l.look(nil, false)
}

// amounts are what a caller asks for.
func (l *ledger) amounts(img *store.Image) (amounts []store.Amount) {
	for i := range img.Limits {
		if milli := rapid.Int64Range(-5000, 9000).Draw(l.T, img.Limits[i].Name); milli > 0 {
			amounts = append(amounts, store.Amount{Limit: img.Limits[i].Name, Milli: milli})
		}
	}
	return amounts
}

func (l *ledger) take() bool {
	img, now := l.any(), l.clock()
	d := &plan.Debit{Bucket: img.Bucket, Amounts: l.amounts(img), Stamp: plan.StampRule{Leave: rapid.Bool().Draw(l.T, "leaves the stamp"), Late: rapid.Bool().Draw(l.T, "is late"), Luck: 1}}
	t := d.TakeAtStamp(img, rapid.Bool().Draw(l.T, "is fresh"), now)
	if t == nil {
		t = d.Take(img, now)
	}
	out, err := l.store.Take(l.Context(), t)
	if l.check(out.Applied, err) && out.Image.HasValidUntil && out.Image.ValidUntil <= now {
		l.Fatalf("a take at %d reached parameters that are valid until %d", now, out.Image.ValidUntil)
	}
	l.admitted(out, d.Amounts, false)
	return out.Applied && len(d.Amounts) > 0
}

func (l *ledger) refill() bool {
	img := l.any()
	d := &plan.Debit{Bucket: img.Bucket, Amounts: l.amounts(img), Pressing: true}
	if rapid.Bool().Draw(l.T, "repairs") {
		d.Repair = &l.wanted
	}
	return l.refillAt(img, d, l.clock())
}

// refillAt refills and debits by a clock.
func (l *ledger) refillAt(img *store.Image, d *plan.Debit, now int64) bool {
	r, _, short := d.Refill(img, now, lawMultiplier)
	if short {
		return false
	}
	out, err := l.store.Refill(l.Context(), r)
	l.check(out.Applied, err)
	l.admitted(out, d.Amounts, true)
	return out.Applied
}

// admitted records what a write has taken, and checks that it was there.
func (l *ledger) admitted(out store.Outcome, amounts []store.Amount, refills bool) {
	if !out.Applied {
		return
	}
	l.look(amounts, refills)
	for _, a := range amounts {
		s, _ := out.Image.Limit(a.Limit)
		left := s.Tokens
		if s.Renewal == nil { // a take that leaves the stamp counts on what was earned since
			left = plan.ShareOf(out.Image, &s).Balance(left, out.Image.RefilledAt, l.now+lawSkew)
		}
		if left < 0 {
			l.Fatalf("%d of %s were admitted, and %d are left", a.Milli, a.Limit, s.Tokens)
		}
		a.Until = plan.PeriodEnd(out.Image, a.Limit)
		l.leases = append(l.leases, lawLease{out.Image.Shard, a})
	}
}

// settle debits at any balance.
func (l *ledger) settle() bool {
	img := l.any()
	return l.adjust(img, l.amounts(img))
}

// giveBack returns a part of what was taken, or all of it.
func (l *ledger) giveBack() bool {
	if len(l.leases) == 0 {
		return false
	}
	k := rapid.IntRange(0, len(l.leases)-1).Draw(l.T, "lease")
	lease := l.leases[k]
	img := l.any()
	if s, ok := img.Limit(lease.amount.Limit); !ok || s.Renewal == nil && lease.amount.Until != 0 {
		return false
	}
	back := lease.amount
	back.Milli = -rapid.Int64Range(1, back.Milli).Draw(l.T, "returned")
	here, over := plan.SplitOff([]store.Amount{back}, img, l.now)
	for _, a := range over {
		if a.Until != back.Until {
			l.Fatalf("of a credit until %d, the rest is one until %d", back.Until, a.Until)
		}
	}
	if len(here) == 0 || !l.adjust(img, here) {
		return false
	}
	if l.leases[k].amount.Milli += here[0].Milli; l.leases[k].amount.Milli == 0 {
		l.leases = slices.Delete(l.leases, k, k+1)
	}
	return true
}

// adjust settles as the limiter does.
func (l *ledger) adjust(img *store.Image, amounts []store.Amount) bool {
	if len(amounts) == 0 {
		return false
	}
	d, now := &plan.Debit{Bucket: img.Bucket, Settling: true, Amounts: amounts}, l.clock()
	refills := d.Overflows(img, now) || d.Owes(img) || rapid.Bool().Draw(l.T, "refills")
	var out store.Outcome
	var err error
	if refills {
		r, _, _ := d.Refill(img, now, lawMultiplier)
		out, err = l.store.Refill(l.Context(), r)
	} else {
		out, err = l.store.Adjust(l.Context(), d.Adjustment(img, now))
	}
	if l.check(out.Applied, err) {
		l.look(amounts, refills)
	}
	return out.Applied
}

// toSplit is the shard that is split next, and the one that is born: shard 0 comes last.
func (l *ledger) toSplit() (first *store.Image, born int) {
	first = l.last(0)
	born = first.ShardCount
	for i := 1; i < first.ShardCount; i++ {
		if img := l.last(i); img != nil && img.ShardCount == first.ShardCount {
			return img, img.Shard + img.ShardCount
		}
	}
	return first, born
}

// toMerge are all shards, nil if one is missing.
func (l *ledger) toMerge() (images []*store.Image) {
	for i := range l.last(0).ShardCount {
		img := l.last(i)
		if img == nil {
			return nil
		}
		images = append(images, img)
	}
	return images
}

// split carries a doubling a shard further.
func (l *ledger) split() bool {
	first, born := l.toSplit()
	if born >= lawShards || l.last(born) != nil {
		return false
	}
	img := first
	if known := l.known[first.Shard]; rapid.Bool().Draw(l.T, "is behind") && len(known) > 1 && known[len(known)-2] != nil {
		img = known[len(known)-2]
	}
	if born != img.Shard+img.ShardCount {
		return false
	}
	l.behind = img != first
	return l.bear(plan.Split(img, born, 2*img.ShardCount, rapid.Bool().Draw(l.T, "is loose"), l.clock(), lawMultiplier))
}

// replace makes a lost shard anew beside its sibling, or empty.
func (l *ledger) replace() bool {
	img := l.last(0)
	lost := plan.SiblingOf(img)
	if img.ShardCount == 1 || l.last(lost) == nil || !rapid.Bool().Draw(l.T, "is lost") {
		return false
	}
	for i := img.ShardCount; i < lawShards; i++ {
		if l.last(i) != nil {
			return false // of a doubling that is half done
		}
	}
	key := schema.BucketKey(l.ns, l.last(lost).Bucket)
	if _, err := l.api.DeleteItem(l.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(testbed.Table), Key: key.Item()}); err != nil {
		l.Fatal(err)
	}
	was := l.last(lost)
	l.known[lost] = append(l.known[lost], nil) // what it held and owed is gone
	if !l.bear(plan.Split(img, lost, img.ShardCount, false, l.clock(), lawMultiplier)) {
		l.Fatal("a lost shard is not made anew")
	}
	is := l.last(lost)
	for i := range is.Limits {
		s := &is.Limits[i]
		if old, ok := was.Limit(s.Name); ok && s.Renewal != nil && plan.PeriodEnd(is, s.Name) == plan.PeriodEnd(was, s.Name) {
			l.slack[lawPeriod{s.Name, plan.PeriodEnd(is, s.Name)}] -= min(lack(was, &old), lack(is, &store.LimitState{Params: s.Params}))
		}
	}
	return true
}

func (l *ledger) bear(b *store.Birth) bool {
	out, err := l.store.Bear(l.Context(), b)
	if l.check(out.Applied, err) {
		l.look(nil, true)
	}
	return out.Applied
}

func (l *ledger) merge() bool {
	images, now := l.toMerge(), l.clock()
	if images == nil || !plan.AreMergeable(images, now) {
		return false
	}
	before := images
	if rapid.Bool().Draw(l.T, "is the first attempt") {
		before = nil
	}
	out, err := l.store.Merge(l.Context(), plan.PairsOf(images, before, now, lawMultiplier))
	if l.check(out.Applied, err) {
		l.look(nil, true)
		l.ungranted()
	}
	return out.Applied
}

// tighten gives a shard the number that its sibling has, after a peer wrote the older one.
func (l *ledger) tighten() bool {
	img := l.last(0)
	if img.ShardCount == 1 || l.last(img.ShardCount/2) == nil {
		return false
	}
	count := img.ShardCount
	l.patch(img.Bucket, "SET shard_count = :v", schema.Item{":v": schema.N(int64(count / 2))})
	l.look(nil, false)
	out, err := l.store.Refill(l.Context(), plan.Tighten(l.last(0), count, l.clock(), lawMultiplier))
	if !l.check(out.Applied, err) {
		l.patch(img.Bucket, "SET shard_count = :v", schema.Item{":v": schema.N(int64(count))})
		l.look(nil, false)
		return false
	}
	l.look(nil, true)
	return true
}

// topUp adds to a shard's part of a quota, as a peer does.
func (l *ledger) topUp() bool {
	img := l.any()
	at := max(l.now, img.RefilledAt+1)
	if img != l.last(img.Shard) || plan.NextPeriod(img) <= at {
		return false // a peer renews first
	}
	for i := range img.Limits {
		if s := &img.Limits[i]; s.Renewal != nil {
			tk, tu := schema.LimitAttr(s.Name, schema.FieldTokens), schema.LimitAttr(s.Name, schema.FieldToppedUp)
			l.patch(img.Bucket, fmt.Sprintf("SET rf = :rf, vu = :vu ADD %s :v, %s :v", tk, tu), schema.Item{":rf": schema.N(at), ":vu": schema.N(0), ":v": schema.N(3000)})
			l.see()
			return true
		}
	}
	return false
}

// peer refills a shard as a peer does, often over a change of a schedule: it cuts quotas to what is
// in force, and gives nothing.
func (l *ledger) peer() bool {
	img := l.any()
	at := max(l.now, img.RefilledAt+1)
	set, values := "SET rf = :rf, vu = :vu ADD b_wcu_tc :one", schema.Item{":rf": schema.N(at), ":vu": schema.N(0), ":one": schema.N(1)}
	passes := false
	for i := range img.Limits {
		s := &img.Limits[i]
		if plan.Renewed(img, s, at) {
			return false
		}
		if s.Renewal == nil || s.Varies == nil {
			continue
		}
		passes = passes || plan.ShareOf(img, s).Changes(img.RefilledAt, at)
		value := ":" + s.Name
		set = strings.Replace(set, " ADD", ", "+schema.LimitAttr(s.Name, schema.FieldTokens)+" = "+value+" ADD", 1)
		values[value] = schema.N(min(s.Tokens, plan.Share(*s.Params, img.Shard, img.ShardCount, at).Capacity+s.Granted().TopUp))
	}
	if img != l.last(img.Shard) || !passes {
		return false
	}
	if until := store.ValidUntil(at, img.Limits, func(s *store.LimitState) (store.Params, int64) { return *s.Params, s.Opened() }); until != 0 {
		values[":vu"] = schema.N(until)
	}
	l.patch(img.Bucket, set, values)
	l.look(nil, false)
	return true
}

// trim asks for a write that trims every balance, as a peer does.
func (l *ledger) trim() bool {
	l.patch(l.last(0).Bucket, "SET vu = :v", schema.Item{":v": schema.N(0)})
	l.see()
	return true
}

// grant says of a quota's balance among how many shards it was divided, as a peer does.
func (l *ledger) grant() bool {
	img := l.any()
	k := rapid.IntRange(0, len(img.Limits)-1).Draw(l.T, "limit")
	if img != l.last(img.Shard) || img.Limits[k].Renewal == nil {
		return false
	}
	among := rapid.SampledFrom([]int{img.ShardCount, 1}).Draw(l.T, "among")
	l.patch(img.Bucket, fmt.Sprintf("SET %s = :v", schema.LimitAttr(img.Limits[k].Name, schema.FieldGrantCount)), schema.Item{":v": schema.N(int64(among))})
	for n := len(l.known[img.Shard]); n > 0 && l.last(img.Shard) != nil && l.last(img.Shard).RefilledAt == img.RefilledAt; n-- {
		l.known[img.Shard] = l.known[img.Shard][:n-1] // the same write as another image
	}
	l.see()
	return true
}

// ungranted checks that no shard holds a grant of a count that it had before.
func (l *ledger) ungranted() {
	for i := range l.known {
		for k := 0; l.last(i) != nil && k < len(l.last(i).Limits); k++ {
			if s := &l.last(i).Limits[k]; s.Granted().Shards != 0 {
				l.Fatalf("%s of shard %d of %d has a grant of %d", s.Name, i, l.last(i).ShardCount, s.Granted().Shards)
			}
		}
	}
}

func (l *ledger) patch(b store.Bucket, expression string, values schema.Item) {
	update(l.T, l.api, l.ns, b, expression, values)
}

// update changes a bucket item as nobody of this project does.
func update(t interface {
	Context() context.Context
	Fatal(args ...any)
}, api *dynamolite.DB, ns string, b store.Bucket, expression string, values schema.Item,
) {
	if _, err := api.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(testbed.Table), Key: schema.BucketKey(ns, b).Item(), UpdateExpression: &expression, ExpressionAttributeValues: values,
	}); err != nil {
		t.Fatal(err)
	}
}

func (l *ledger) check(applied bool, err error) bool {
	if err != nil {
		l.Fatal(err)
	}
	return applied
}

// see reads all shards, and returns those that changed.
func (l *ledger) see() (before, after []*store.Image) {
	for i := range l.known {
		b := l.bucket
		b.Shard = i
		out, err := l.api.GetItem(l.Context(), &dynamodb.GetItemInput{TableName: aws.String(testbed.Table), Key: schema.BucketKey(l.ns, b).Item()})
		if err != nil {
			l.Fatal(err)
		}
		was := l.last(i)
		if out.Item == nil {
			if was != nil {
				before, l.known[i] = append(before, was), append(l.known[i], nil)
			}
			continue
		}
		img, err := schema.DecodeBucket(out.Item)
		if err != nil || !img.IsEvaluable() {
			l.Fatal(img, err)
		}
		for k := range img.Limits { // a peer guesses what it does not find
			s := &img.Limits[k]
			if _, says := out.Item[schema.LimitAttr(s.Name, schema.FieldGrantCount)]; says != (s.Renewal != nil) {
				l.Fatalf("%s of shard %d, %+v, has a grant: %v", s.Name, i, s.Params, says)
			}
		}
		if was != nil && was.Writes.Consumed == img.Writes.Consumed && was.RefilledAt == img.RefilledAt && was.ValidUntil == img.ValidUntil && was.HasValidUntil == img.HasValidUntil && was.ShardCount == img.ShardCount {
			continue
		}
		l.known[i] = append(l.known[i], img)
		if after = append(after, img); was != nil {
			before = append(before, was)
		}
	}
	return before, after
}
