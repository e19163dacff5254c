package dynamo_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A shardedBook is a bucket of several shards with a session, and what each of its sessions
// has admitted on all of them.
type shardedBook struct {
	ledger

	leases []sessionLease
	// opened is when the session began that began last on all shards; [store.NoSession] if
	// that was reset.
	opened int64
	// astray says that shards may have sessions of their own until the next one begins: an
	// edit gave each of them one, or a clock was healed.
	astray bool
	// net is what each session has admitted, less what was returned to it, and most is what
	// it may admit.
	net, most map[int64]int64
	// behind counts the sessions that began on a shard although another write had moved its
	// stamp.
	behind *int
	// lost are the sessions in which a shard was lost, with what it lacked.
	lost map[int64]bool
}

const sessionTokens = 20 * store.Milli

// P11 for sessions on shards, at each write: over all shards a session admits what it says,
// however writers race with its begin, doublings, merges and lost shards. Shards take of the
// session that began on all of them. The next one begins when that has ended on all.
func TestSessionsOfShardsOverAnyWrites(t *testing.T) {
	t.Parallel()
	s, db, ns := lawStore(t)
	behind := 0
	const rounds = 30 // the rarest races come once in some thousand histories
	often := []string{"take", "take", "gather", "gather", "gather", "gather", "return", "time"}
	law[*shardedBook]{writes: shardedWrites, often: often, begin: func(t *rapid.T, number int) *shardedBook {
		b := &shardedBook{net: map[int64]int64{}, most: map[int64]int64{}, lost: map[int64]bool{}, opened: store.NoSession, behind: &behind}
		b.T, b.store, b.api, b.ns = t, s, db, ns
		b.bucket = store.Bucket{Entity: fmt.Sprintf("sharded-%d", number), Resource: "gpt-4"}
		b.now = fixture.Start.UnixMilli() + rapid.Int64Range(0, 24*3_600_000).Draw(t, "start")
		b.wanted = plan.Wanted{Expires: true, Limits: []store.Limit{
			{Name: "a", Capacity: sessionTokens / store.Milli, Renews: session("session 5h")},
			{Name: "b", Capacity: 1000, Amount: 1000, Period: time.Hour},
		}}
		vary(t, &b.wanted.Limits[0])
		b.found()
		return b
	}}.play(t, rounds)
	if t.Logf("%d sessions began behind another write", behind); behind == 0 {
		t.Error("no session began behind another write")
	}
}

var shardedWrites = map[string]func(*shardedBook) bool{
	"time": (*shardedBook).pass, "take": (*shardedBook).take, "refill": (*shardedBook).refill, "gather": (*shardedBook).gather, "settle": (*shardedBook).settle,
	"return": (*shardedBook).giveBack, "edit": (*shardedBook).edit, "reset": (*shardedBook).reset, "top up": (*shardedBook).topUp,
	"split": (*shardedBook).split, "merge": (*shardedBook).merge, "lose": (*shardedBook).lose, "mend": (*shardedBook).mend, "trim": (*shardedBook).trim, "heal": (*shardedBook).heal, "peer": (*shardedBook).peer,
}

// found makes the bucket, and doubles it a few times.
func (b *shardedBook) found() {
	c := &store.Create{Bucket: b.bucket, Now: b.now, ShardCount: 1, Writes: plan.FirstWrite(), ExpiresAt: b.now/1000 + 1e6}
	c.Limits = fullLimits(b.wanted.Limits, c.Now)
	plan.DebitNew(c, nil)
	if _, err := b.store.Create(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	b.see()
	for range 7 * rapid.IntRange(0, 1).Draw(b.T, "is sharded") {
		b.split()
	}
}

// pass lets time pass, mostly to the end of a session.
func (b *shardedBook) pass() bool {
	to := b.now + rapid.SampledFrom([]int64{1, 40, 1000, 3_600_000, 24 * 3_600_000}).Draw(b.T, "time")
	if end := plan.PeriodEnd(b.any(), "a"); end > b.now && rapid.Bool().Draw(b.T, "to the end") {
		to = end + rapid.Int64Range(-3000, 3000).Draw(b.T, "beside it")
	} else if until := b.last(0); until != nil && until.ValidUntil > b.now && rapid.Bool().Draw(b.T, "to a change") {
		to = until.ValidUntil + rapid.Int64Range(-3000, 3000).Draw(b.T, "beside it")
	}
	b.now = max(b.now, to)
	return true
}

// set are the images of all shards, as a process may remember them; nil if they are no whole
// bucket.
func (b *shardedBook) set(behind bool) []*store.Image {
	images := b.allOf(b.last(0))
	if images == nil {
		return nil
	}
	for i, img := range images {
		known := b.known[img.Shard]
		if n := len(known); behind && n > 1 && known[n-2] != nil && rapid.IntRange(0, 5).Draw(b.T, "is behind") == 0 {
			images[i] = known[n-2]
		}
	}
	if !plan.IsWhole(images) {
		return nil
	}
	return images
}

// allOf are the stored shards, if shard 0 is among them.
func (b *shardedBook) allOf(first *store.Image) (images []*store.Image) {
	if first == nil {
		return nil
	}
	for i := range b.known {
		if img := b.last(i); img != nil {
			images = append(images, img)
		}
	}
	return images
}

func (b *shardedBook) take() bool {
	img, now := b.any(), b.clock()
	d := &plan.Debit{Bucket: img.Bucket, Amounts: b.amounts(img), Stamp: plan.StampRule{Leave: rapid.Bool().Draw(b.T, "leaves the stamp"), Late: rapid.Bool().Draw(b.T, "is late"), Luck: 1}}
	t := d.TakeAtStamp(img, rapid.Bool().Draw(b.T, "is fresh"), now)
	if t == nil {
		t = d.Take(img, now)
	}
	out, err := b.store.Take(b.Context(), t)
	if b.check(out.Applied, err) {
		b.wrote(img.Shard, d.Amounts)
	}
	return out.Applied && len(d.Amounts) > 0
}

// refill is the write of a process that knows one shard.
func (b *shardedBook) refill() bool {
	img, now := b.any(), b.clock()
	d := &plan.Debit{Bucket: img.Bucket, Amounts: b.amounts(img), Pressing: true}
	if rapid.Bool().Draw(b.T, "repairs") {
		d.Repair = &b.wanted
	}
	return b.send(d, img, now)
}

func (b *shardedBook) send(d *plan.Debit, img *store.Image, now int64) bool {
	r, _, short := d.Refill(img, now, lawMultiplier)
	if short {
		return false
	}
	out, err := b.store.Refill(b.Context(), r)
	if b.check(out.Applied, err) {
		b.wrote(img.Shard, d.Amounts)
	}
	return out.Applied
}

// gather debits several shards together, and begins the session if it has ended on all of
// them.
func (b *shardedBook) gather() bool { return b.gatherAt(b.clock()) }

func (b *shardedBook) gatherAt(now int64) bool {
	images := b.set(true)
	if images == nil {
		return false
	}
	terms := plan.Terms{Amounts: b.amounts(images[0])}
	parts, short := terms.Allot(plan.Together(images, terms.Amounts, now), now, false)
	if short {
		return false
	}
	begins := plan.BeginningOf(images, terms.Amounts, now)
	var refills []*store.Refill
	for _, img := range images {
		d := &plan.Debit{Bucket: img.Bucket, Pressing: true, Begins: begins}
		if i := slices.IndexFunc(parts, func(p plan.Portion) bool { return p.Image.Shard == img.Shard }); i >= 0 {
			d.Amounts = parts[i].Amounts
		} else if len(begins.Limits) == 0 {
			continue
		}
		r, _, short := d.Refill(img, now, lawMultiplier)
		if rapid.Bool().Draw(b.T, "is loose") {
			r = cmp.Or(d.Loosely(img, now, lawMultiplier), r)
		}
		if short && plan.NeedsBeginning(img, d.Amounts, r.RefilledAt) {
			return false // the stamp lies past the end of the session
		}
		if short {
			b.Fatalf("shard %d was allotted %v, and holds less: %+v", img.Shard, d.Amounts, img.Limits)
		}
		refills = append(refills, r)
	}
	if len(refills) == 0 {
		return false
	}
	out, err := b.store.Gather(b.Context(), refills)
	if !b.check(out.Applied, err) {
		return false
	}
	if len(begins.Limits) > 0 {
		for _, r := range refills {
			if r.Seen.RefilledAt != b.last(r.Shard).RefilledAt {
				*b.behind++
			}
		}
		b.begun(images)
	}
	b.see()
	for _, p := range parts {
		b.wrote(p.Image.Shard, p.Amounts)
	}
	b.hold()
	return true
}

// begun checks a session that began on all shards. before are they as they were.
func (b *shardedBook) begun(before []*store.Image) {
	b.see()
	b.opened, b.astray = 0, false
	for _, was := range before {
		b.opened = max(b.opened, opened(b.last(was.Shard)))
	}
	for _, was := range before {
		if end := plan.PeriodEnd(was, "a"); end > b.opened {
			b.Fatalf("a session begins at %d, and that of shard %d ends at %d", b.opened, was.Shard, end)
		}
		if at := opened(b.last(was.Shard)); at != 0 && at != b.opened {
			b.Fatalf("shard %d has a session that began at %d, and another shard one that began at %d", was.Shard, at, b.opened)
		}
	}
}

func opened(img *store.Image) int64 {
	s, _ := img.Limit("a")
	return s.Opened()
}

// follow reads what a write has made of a shard. One shard alone may begin a session only if
// it is the whole bucket.
func (b *shardedBook) follow(shard int) {
	was := b.last(shard)
	b.see()
	img := b.last(shard)
	before, _ := was.Limit("a")
	switch s, _ := img.Limit("a"); {
	case !plan.IsSession(s.Renewal):
	case !plan.IsSession(before.Renewal):
		b.astray = true
	case img.ShardCount == 1 && s.Opened() > store.NoSession && s.Opened() != before.Opened():
		b.begun([]*store.Image{was})
	}
}

// wrote notes what a write has taken of a shard, and checks that it was there.
func (b *shardedBook) wrote(shard int, amounts []store.Amount) {
	b.follow(shard)
	s, _ := b.last(shard).Limit("a")
	if milli := plan.AmountOf(amounts, "a"); milli > 0 && plan.IsSession(s.Renewal) {
		if s.Tokens < 0 {
			b.Fatalf("%d of a were admitted by shard %d, and %d are left", milli, shard, s.Tokens)
		}
		if s.Opened() == store.NoSession || !b.astray && s.Opened() != b.opened {
			b.Fatalf("shard %d admits of the session that began at %d, and the one that began at %d is under way", shard, s.Opened(), b.opened)
		}
		b.net[s.Opened()] += milli
		b.leases = append(b.leases, sessionLease{store.Amount{Limit: "a", Milli: milli, Until: plan.PeriodEnd(b.last(shard), "a")}, s.Opened()})
	}
	b.hold()
}

// hold checks the law: no session has admitted more than it may, and its shards lack at least
// that of being full.
func (b *shardedBook) hold() {
	for at, net := range b.net {
		if most := sessionTokens + b.most[at]; net > most {
			b.Fatalf("the session that began at %d has admitted %d of %d", at, net, most)
		}
	}
	images, lacks := b.allOf(b.last(0)), int64(0)
	for _, img := range images {
		s, _ := img.Limit("a")
		if lacks += lack(img, &s); s.Opened() != opened(images[0]) {
			return // a clock that was ahead has ended the session of some
		}
		if s.Varies != nil && !img.InStep {
			return // it keeps what another one loses where a lower amount begins
		}
	}
	if len(images) == 0 {
		return
	}
	if at := opened(images[0]); at > store.NoSession && !b.lost[at] && lacks < b.net[at] {
		b.Fatalf("the session that began at %d has admitted %d, and its shards lack %d of being full", at, b.net[at], lacks)
	}
}

// settle debits a shard at any balance.
func (b *shardedBook) settle() bool {
	img, now := b.any(), b.clock()
	if !b.adjust(&plan.Debit{Bucket: img.Bucket, Settling: true, Amounts: b.amounts(img)}, img, now) {
		return false
	}
	b.hold()
	return true
}

func (b *shardedBook) adjust(d *plan.Debit, img *store.Image, now int64) bool {
	if len(d.Amounts) == 0 {
		return false
	}
	var out store.Outcome
	var err error
	if d.Overflows(img, now) || d.Owes(img) || rapid.Bool().Draw(b.T, "refills") {
		r, _, _ := d.Refill(img, now, lawMultiplier)
		out, err = b.store.Refill(b.Context(), r)
	} else {
		out, err = b.store.Adjust(b.Context(), d.Adjustment(img, now))
	}
	if b.check(out.Applied, err) {
		b.follow(img.Shard)
	}
	return out.Applied
}

// giveBack returns a part of what was taken, to any shard, as far as that has room.
func (b *shardedBook) giveBack() bool {
	if len(b.leases) == 0 {
		return false
	}
	k := rapid.IntRange(0, len(b.leases)-1).Draw(b.T, "lease")
	lease, img, now := b.leases[k], b.any(), b.clock()
	back := lease.Amount
	back.Milli = -rapid.Int64Range(1, lease.Milli).Draw(b.T, "returned")
	before := b.last(img.Shard)
	was, _ := before.Limit("a")
	here, _ := plan.SplitOff([]store.Amount{back}, img, now)
	if !b.adjust(&plan.Debit{Bucket: img.Bucket, Settling: true, Amounts: plan.Present(img, here)}, img, now) {
		return false
	}
	is, _ := b.last(img.Shard).Limit("a")
	if is.Opened() > store.NoSession && is.Opened() == was.Opened() && is.Tokens > without(before, b.last(img.Shard)) {
		if is.Opened() != lease.opened && !b.astray {
			b.Fatalf("a credit of the session that began at %d reached that of %d", lease.opened, is.Opened())
		}
		b.net[is.Opened()] += back.Milli
	}
	if b.leases[k].Milli += back.Milli; b.leases[k].Milli <= 0 {
		b.leases = slices.Delete(b.leases, k, k+1)
	}
	b.hold()
	return true
}

// edit changes what the bucket is to have, at the next repair of each shard.
func (b *shardedBook) edit() bool {
	limit := anyRenewal(b.T, sessionTokens/store.Milli, "session 5h", "session 1h", "session 30h", "session 5h", "session 5h", "")
	b.wanted.Limits = []store.Limit{limit, b.wanted.Limits[1]}
	return true
}

func (b *shardedBook) reset() bool {
	if !b.operate(&plan.Amendment{Resets: true, Amounts: []store.Amount{{Limit: "a"}}}, b.clock()) {
		return false
	}
	b.opened, b.astray = store.NoSession, false
	b.see()
	for i := range b.known {
		if img := b.last(i); img != nil && opened(img) > store.NoSession {
			b.Fatalf("after a reset, shard %d has the session of %d", i, opened(img))
		}
	}
	return true
}

func (b *shardedBook) topUp() bool {
	amount, now := store.Amount{Limit: "a", Milli: rapid.Int64Range(1, 20).Draw(b.T, "tokens") * store.Milli}, b.clock()
	images := b.set(false)
	if images == nil {
		return false
	}
	begins := plan.BeginningOf(images, []store.Amount{amount}, now)
	if !b.operate(&plan.Amendment{Amounts: []store.Amount{amount}}, now) {
		return false
	}
	if b.see(); len(begins.Limits) > 0 {
		b.begun(images)
	}
	for _, img := range images {
		b.most[opened(b.last(img.Shard))] += amount.Milli / int64(len(images))
	}
	b.most[b.opened] += store.Milli * int64(len(images)) // rounded
	b.hold()
	return true
}

func (b *shardedBook) operate(am *plan.Amendment, now int64) bool {
	images := b.set(false)
	if images == nil || slices.ContainsFunc(images, func(img *store.Image) bool {
		s, _ := img.Limit("a")
		return !plan.IsSession(s.Renewal)
	}) {
		return false
	}
	refills, _, err := am.Over(images, nil, now, lawMultiplier)
	if err != nil {
		return false
	}
	out, err := b.store.Gather(b.Context(), refills)
	return b.check(out.Applied, err)
}

// split carries a doubling a shard further.
func (b *shardedBook) split() bool {
	if b.last(0) == nil {
		return false
	}
	first, born := b.toSplit()
	if born >= lawShards || b.last(born) != nil {
		return false
	}
	img := first
	if known := b.known[first.Shard]; rapid.Bool().Draw(b.T, "is behind") && len(known) > 1 && known[len(known)-2] != nil {
		img = known[len(known)-2]
	}
	if born != img.Shard+img.ShardCount || !plan.WasPlain(img, img.RefilledAt) {
		return false
	}
	return b.born(plan.Split(img, born, 2*img.ShardCount, rapid.Bool().Draw(b.T, "is loose"), b.clock(), lawMultiplier))
}

func (b *shardedBook) born(birth *store.Birth) bool {
	out, err := b.store.Bear(b.Context(), birth)
	if b.check(out.Applied, err) {
		b.see()
		b.hold()
	}
	return out.Applied
}

func (b *shardedBook) merge() bool {
	images, now := b.set(true), b.clock()
	if images == nil || !plan.AreMergeable(images, now) {
		return false
	}
	before := images
	if rapid.Bool().Draw(b.T, "is the first attempt") {
		before = nil
	}
	out, err := b.store.Merge(b.Context(), plan.PairsOf(images, before, now, lawMultiplier))
	if b.check(out.Applied, err) {
		b.see()
		b.hold()
	}
	return out.Applied
}

// lose deletes a shard, with what it held and owed.
func (b *shardedBook) lose() bool {
	images := b.set(false)
	if len(images) < 2 || rapid.IntRange(0, 2).Draw(b.T, "is rare") != 0 {
		return false
	}
	img := images[rapid.IntRange(0, len(images)-1).Draw(b.T, "lost")]
	if _, err := b.api.DeleteItem(b.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(testbed.Table), Key: schema.BucketKey(b.ns, img.Bucket).Item()}); err != nil {
		b.Fatal(err)
	}
	b.see()
	for i := range b.known {
		if img := b.last(i); img != nil {
			b.lost[opened(img)] = true
		}
	}
	b.lost[opened(img)] = true
	return true
}

// mend makes a lost shard again, of its sibling, or empty.
func (b *shardedBook) mend() bool {
	for i := range b.known {
		known := b.known[i]
		if len(known) < 2 || known[len(known)-1] != nil || known[len(known)-2] == nil {
			continue
		}
		was := known[len(known)-2]
		sibling := plan.SiblingOf(was)
		donor := b.last(sibling)
		if was.ShardCount == 1 || donor != nil && donor.ShardCount != was.ShardCount {
			continue
		}
		if donor != nil {
			return b.born(plan.Split(donor, i, was.ShardCount, rapid.Bool().Draw(b.T, "is loose"), b.clock(), lawMultiplier))
		}
		if sibling != 0 {
			return b.born(plan.Orphan(b.any(), i, sibling, was.ShardCount, b.clock(), lawMultiplier))
		}
	}
	return false
}

// trim asks for a write that trims every balance, as a peer does.
func (b *shardedBook) trim() bool {
	if rapid.IntRange(0, 3).Draw(b.T, "is rare") != 0 {
		return false
	}
	b.patch(b.any().Bucket, "SET vu = :v", schema.Item{":v": schema.N(0)})
	b.see()
	return true
}

// peer begins a session on a shard as the Python package does, and tells the others of it,
// unless it dies before.
func (b *shardedBook) peer() bool {
	img, now := b.any(), b.clock()
	s, _ := img.Limit("a")
	if img != b.last(img.Shard) || !plan.IsSession(s.Renewal) || plan.PeriodEnd(img, "a") > now || img.RefilledAt > now || s.Told().Opened != 0 {
		return false
	}
	tell := func(img *store.Image, update string, values schema.Item) {
		values[":ws"], values[":one"] = schema.N(now), schema.N(1)
		b.patch(img.Bucket, "SET b_a_ws = :ws, "+update+" ADD b_wcu_tc :one", values)
	}
	share := plan.Share(*s.Params, img.Shard, img.ShardCount, now).Capacity
	until := now + s.Renewal.Session()
	if s.Varies != nil {
		until = min(until, s.Varies.Piece(now).End)
	}
	tell(img, "b_a_wa = :ws, b_a_tk = :tk, b_a_gc = :gc, rf = :ws, vu = :vu", schema.Item{
		":tk": schema.N(share), ":gc": schema.N(int64(img.ShardCount)), ":vu": schema.N(until),
	})
	for _, other := range b.allOf(b.last(0)) {
		if rest, _ := other.Limit("a"); other.Shard != img.Shard && plan.IsSession(rest.Renewal) && max(rest.Opened(), rest.Told().Opened) <= now-s.Renewal.Session() && rapid.IntRange(0, 3).Draw(b.T, "dies") > 0 {
			tell(other, "vu = :vu, b_a_wtc = :tc", schema.Item{":vu": schema.N(0), ":tc": schema.N(rest.Consumed)})
		}
	}
	b.astray = true
	b.see()
	return true
}

// heal meets shards whose last writer had a clock that was far ahead.
func (b *shardedBook) heal() bool {
	const ahead = 26 * 3_600_000
	if rapid.IntRange(0, 3).Draw(b.T, "is rare") != 0 {
		return false
	}
	if !b.gatherAt(b.now + ahead) {
		return false
	}
	b.astray = true
	for i := range b.known {
		img := b.last(i)
		if img == nil || !plan.NeedsHealing(img, b.now) {
			continue
		}
		out, err := b.store.Refill(b.Context(), plan.Healed(img, b.now, lawMultiplier))
		if b.check(out.Applied, err) {
			b.see()
			if at := opened(b.last(i)); at > b.now {
				b.Fatalf("at %d a session of shard %d begins at %d", b.now, i, at)
			}
		}
	}
	b.net, b.lost = map[int64]int64{}, map[int64]bool{} // what is left is what other sessions have left
	for i := range b.known {
		if img := b.last(i); img != nil {
			b.lost[opened(img)] = true
		}
	}
	return true
}
