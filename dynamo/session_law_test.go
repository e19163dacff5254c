package dynamo_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A sessionBook is a bucket with a session, and what each of its sessions has admitted. Every
// write that plan proposes is carried out by the store, also on images that other writes have
// made old, and by clocks that disagree: several processes, an operator and a peer.
type sessionBook struct {
	*rapid.T

	store  *dynamo.Store
	api    *dynamolite.DB
	ns     string
	bucket store.Bucket
	now    int64
	known  []*store.Image // of the item, oldest first; the last one is as stored
	wanted plan.Wanted
	leases []sessionLease
	// net is what the session under way has admitted, less what was returned to it.
	//
	// Invariant: the session lacks at least that of being full. Otherwise tokens were there twice.
	net int64
	// moves says that the write under way may end a session before its end: a reset, a healed
	// clock, a limit that becomes a session.
	moves bool
	// earliest is the first instant at which the next session may begin, by the clock of a writer.
	earliest int64
}

// A sessionLease is what was taken, and when the session began that it was taken of.
type sessionLease struct {
	store.Amount
	opened int64
}

// P11 for sessions, at each write: a session admits what it says, however writers race with its
// begin and its end, and no session begins before the last one has ended.
func TestSessionsOverAnyWrites(t *testing.T) {
	t.Parallel()
	s, db, ns := lawStore(t)
	const rounds = 30 // the rarest races come once in some thousand histories
	often := []string{"take", "take", "take", "refill", "refill", "return", "time"}
	law[*sessionBook]{writes: sessionWrites, often: often, begin: func(t *rapid.T, number int) *sessionBook {
		b := &sessionBook{T: t, store: s, api: db, ns: ns, bucket: store.Bucket{Entity: fmt.Sprintf("user-%d", number), Resource: "gpt-4"}}
		b.now = fixture.Start.UnixMilli() + rapid.Int64Range(0, 24*3_600_000).Draw(t, "start")
		b.wanted = plan.Wanted{Expires: true, Limits: []store.Limit{
			{Name: "a", Capacity: 20, Renews: session("session 5h")},
			{Name: "b", Capacity: 1000, Amount: 1000, Period: time.Hour},
		}}
		vary(t, &b.wanted.Limits[0])
		if rapid.Bool().Draw(t, "renews first") { // vu is then not the end of the session
			b.wanted.Limits[1] = store.Limit{Name: "b", Capacity: 1000, Renews: session("0 * * * *")}
		}
		b.create()
		return b
	}}.play(t, rounds)
}

var sessionWrites = map[string]func(*sessionBook) bool{
	"time": (*sessionBook).pass, "take": (*sessionBook).take, "refill": (*sessionBook).refill, "settle": (*sessionBook).settle,
	"return": (*sessionBook).giveBack, "edit": (*sessionBook).edit, "reset": (*sessionBook).reset, "top up": (*sessionBook).topUp,
	"trim": (*sessionBook).trim, "heal": (*sessionBook).heal,
}

// session is a renewal that is one.
func session(words string) *store.Renewal {
	r, err := store.ParseRenewal(words, "")
	if err != nil {
		panic(err)
	}
	return r
}

func (b *sessionBook) clock() int64 {
	return b.now + rapid.Int64Range(-lawSkew, lawSkew).Draw(b.T, "skew")
}

func (b *sessionBook) last() *store.Image { return b.known[len(b.known)-1] }

// any is the image that a process may remember.
func (b *sessionBook) any() *store.Image {
	back := rapid.IntRange(0, 3).Draw(b.T, "age")
	return b.known[max(0, len(b.known)-1-back)]
}

func (b *sessionBook) create() {
	c := &store.Create{Bucket: b.bucket, Now: b.clock(), ShardCount: 1, Writes: plan.FirstWrite(), ExpiresAt: b.now/1000 + 1e6}
	c.Limits = fullLimits(b.wanted.Limits, c.Now)
	plan.DebitNew(c, nil)
	amounts := b.amounts()
	if plan.AmountOf(amounts, "a") > c.Limits[0].Tokens {
		amounts = nil
	}
	plan.DebitNew(c, amounts)
	out, err := b.store.Create(b.Context(), c)
	b.check(out, err)
	b.admitted(out.Image, amounts)
}

// fullLimits are limits of a bucket that is made at an instant.
func fullLimits(wanted []store.Limit, now int64) (limits []store.NewLimit) {
	for _, l := range wanted {
		p := l.Params()
		limits = append(limits, store.NewLimit{NamedParams: store.NamedParams{Limit: l.Name, Params: p}, Tokens: plan.InForce(p, now).Capacity})
	}
	return limits
}

// vary sometimes gives a session, or a quota, a schedule that lowers it at times.
func vary(t *rapid.T, limit *store.Limit) {
	words := rapid.SampledFrom([]string{"", "* 9-16 * * * x0.5", "0-29 * * * * x0.3", "* * * * * x0.7"}).Draw(t, limit.Name+" varies")
	if words == "" || limit.Renews == nil {
		return
	}
	var err error
	if limit.Varies, err = store.ParseSchedule(words, "UTC"); err != nil {
		t.Fatal(err)
	}
}

// pass lets time pass, mostly to the end of the session.
func (b *sessionBook) pass() bool {
	to := b.now + rapid.SampledFrom([]int64{1, 40, 1000, 3_600_000, 24 * 3_600_000}).Draw(b.T, "time")
	if end := plan.PeriodEnd(b.last(), "a"); end > b.now && rapid.Bool().Draw(b.T, "to the end") {
		to = end + rapid.Int64Range(-3000, 3000).Draw(b.T, "beside it")
	} else if until := b.last().ValidUntil; until > b.now && rapid.Bool().Draw(b.T, "to a change") {
		to = until + rapid.Int64Range(-3000, 3000).Draw(b.T, "beside it")
	}
	b.now = max(b.now, to)
	return true
}

func (b *sessionBook) amounts() (amounts []store.Amount) {
	for _, name := range []string{"a", "b"} {
		if milli := rapid.Int64Range(-3000, 12_000).Draw(b.T, name); milli > 0 {
			amounts = append(amounts, store.Amount{Limit: name, Milli: milli})
		}
	}
	return amounts
}

func (b *sessionBook) take() bool {
	img, now := b.any(), b.clock()
	d := &plan.Debit{Bucket: img.Bucket, Amounts: b.amounts(), Stamp: plan.StampRule{Leave: rapid.Bool().Draw(b.T, "leaves the stamp"), Late: rapid.Bool().Draw(b.T, "is late"), Luck: 1}}
	t := d.TakeAtStamp(img, rapid.Bool().Draw(b.T, "is fresh"), now)
	if t == nil {
		t = d.Take(img, now)
	}
	out, err := b.store.Take(b.Context(), t)
	if b.check(out, err) {
		b.admitted(out.Image, d.Amounts)
	}
	return out.Applied && len(d.Amounts) > 0
}

func (b *sessionBook) refill() bool {
	img, now := b.any(), b.clock()
	d := &plan.Debit{Bucket: img.Bucket, Amounts: b.amounts(), Pressing: true}
	if rapid.Bool().Draw(b.T, "repairs") {
		d.Repair = &b.wanted
	}
	r, _, short := d.Refill(img, now, lawMultiplier)
	if short {
		return false
	}
	out, err := b.store.Refill(b.Context(), r)
	if b.check(out, err) {
		b.admitted(out.Image, d.Amounts)
	}
	return out.Applied
}

// admitted notes what a write has taken, and checks that it was there.
func (b *sessionBook) admitted(img *store.Image, amounts []store.Amount) {
	for _, a := range amounts {
		if a.Limit != "a" {
			continue
		}
		s, _ := img.Limit("a")
		if s.Tokens < 0 && plan.IsSession(s.Renewal) {
			b.Fatalf("%d of a were admitted, and %d are left", a.Milli, s.Tokens)
		}
		if plan.IsSession(s.Renewal) && s.Opened() == store.NoSession {
			b.Fatalf("%d of a were admitted, and no session has begun", a.Milli)
		}
		b.net += a.Milli
		a.Until = plan.PeriodEnd(img, "a")
		b.leases = append(b.leases, sessionLease{a, s.Opened()})
	}
	b.hold()
}

// settle debits at any balance.
func (b *sessionBook) settle() bool {
	amounts := b.amounts()
	if _, ok := b.adjust(amounts); !ok {
		return false
	}
	b.net += plan.AmountOf(amounts, "a")
	b.hold()
	return true
}

// giveBack returns a part of what was taken, or all of it.
func (b *sessionBook) giveBack() bool {
	if len(b.leases) == 0 {
		return false
	}
	k := rapid.IntRange(0, len(b.leases)-1).Draw(b.T, "lease")
	lease := b.leases[k]
	before := b.last()
	was, _ := before.Limit("a")
	if was.Renewal == nil {
		return false
	}
	back := lease.Amount
	back.Milli = -rapid.Int64Range(1, lease.Milli).Draw(b.T, "returned")
	img, ok := b.adjust([]store.Amount{back})
	if !ok {
		return false
	}
	is, _ := img.Limit("a")
	if is.Opened() > store.NoSession && is.Opened() == was.Opened() && is.Tokens > without(before, img) {
		replaced := lease.opened == 0 && lease.Until == plan.PeriodEnd(img, "a") // a quota that ended when the session does
		if is.Opened() != lease.opened && !replaced {
			b.Fatalf("a credit of the session that began at %d reached that of %d", lease.opened, is.Opened())
		}
		b.net += back.Milli
	}
	if b.leases[k].Milli += back.Milli; b.leases[k].Milli == 0 {
		b.leases = slices.Delete(b.leases, k, k+1)
	}
	b.hold()
	return true
}

// without is what an item would hold of a at the stamp of a later image, without the write that
// left that.
func without(before, after *store.Image) int64 {
	s, _ := before.Limit("a")
	if s.Varies == nil || after.RefilledAt == before.RefilledAt {
		return s.Tokens
	}
	return plan.ShareOf(before, &s).Balance(s.Tokens, before.RefilledAt, after.RefilledAt)
}

// adjust settles as the limiter does.
func (b *sessionBook) adjust(amounts []store.Amount) (*store.Image, bool) {
	if len(amounts) == 0 {
		return nil, false
	}
	img, now := b.any(), b.clock()
	d := &plan.Debit{Bucket: img.Bucket, Settling: true, Amounts: amounts}
	var out store.Outcome
	var err error
	if d.Overflows(img, now) || d.Owes(img) || rapid.Bool().Draw(b.T, "refills") {
		r, _, _ := d.Refill(img, now, lawMultiplier)
		out, err = b.store.Refill(b.Context(), r)
	} else {
		out, err = b.store.Adjust(b.Context(), d.Adjustment(img, now))
	}
	return out.Image, b.check(out, err)
}

// anyRenewal draws a limit that renews in one of some ways, or is a rate: "".
func anyRenewal(t *rapid.T, tokens int64, words ...string) store.Limit {
	limit := store.Limit{Name: "a", Capacity: tokens}
	if renews := rapid.SampledFrom(words).Draw(t, "renewal"); renews != "" {
		limit.Renews = session(renews)
		vary(t, &limit)
	} else {
		limit.Amount, limit.Period = tokens, time.Hour
	}
	return limit
}

// edit changes what the bucket is to have, at the next repair.
func (b *sessionBook) edit() bool {
	limit := anyRenewal(b.T, rapid.Int64Range(1, 30).Draw(b.T, "tokens"), "session 5h", "session 1h", "session 30h", "session 5h", "day", "")
	b.wanted.Limits = []store.Limit{limit, b.wanted.Limits[1]}
	return true
}

func (b *sessionBook) reset() bool {
	return b.operate(&plan.Amendment{Resets: true, Amounts: []store.Amount{{Limit: "a"}}})
}

func (b *sessionBook) topUp() bool {
	return b.operate(&plan.Amendment{Amounts: []store.Amount{{Limit: "a", Milli: rapid.Int64Range(1, 20).Draw(b.T, "tokens") * store.Milli}}})
}

func (b *sessionBook) operate(am *plan.Amendment) bool {
	img := b.any()
	var w *plan.Wanted
	if rapid.Bool().Draw(b.T, "repairs") {
		w = &b.wanted
	}
	refills, _, err := am.Over([]*store.Image{img}, w, b.clock(), lawMultiplier)
	if err != nil {
		return false
	}
	b.moves = am.Resets
	out, err := b.store.Refill(b.Context(), refills[0])
	if b.check(out, err) {
		b.hold()
	}
	b.moves = false
	return out.Applied
}

// trim asks for a write that trims every balance, as a peer does.
func (b *sessionBook) trim() bool {
	if rapid.IntRange(0, 3).Draw(b.T, "is rare") != 0 {
		return false
	}
	update := "SET vu = :v"
	(&ledger{T: b.T, api: b.api, ns: b.ns}).patch(b.bucket, update, schema.Item{":v": schema.N(0)})
	b.see()
	return true
}

// heal meets an item whose last writer had a clock that was far ahead.
func (b *sessionBook) heal() bool {
	const ahead = 26*3_600_000 + 12_345 // no sum of other steps: an amount knows its session by its end
	if rapid.IntRange(0, 3).Draw(b.T, "is rare") != 0 {
		return false
	}
	img := b.last()
	d := &plan.Debit{Bucket: img.Bucket, Amounts: []store.Amount{{Limit: "b", Milli: 1}}, Pressing: true}
	if rapid.Bool().Draw(b.T, "uses the session") {
		d.Amounts = []store.Amount{{Limit: "a", Milli: 1}}
	}
	r, _, short := d.Refill(img, b.now+ahead, lawMultiplier)
	if short {
		return false
	}
	out, err := b.store.Refill(b.Context(), r)
	if b.moves = true; b.check(out, err) {
		b.admitted(out.Image, d.Amounts)
	}
	b.now += 2*lawSkew + 1 // the stamp comes back to an instant at which no earlier write was
	out, err = b.store.Refill(b.Context(), plan.Healed(b.last(), b.now, lawMultiplier))
	if b.check(out, err) {
		if s, _ := out.Image.Limit("a"); s.Opened() > b.now {
			b.Fatalf("at %d a session begins at %d", b.now, s.Opened())
		}
		if s, _ := out.Image.Limit("a"); s.Varies != nil && s.Renewal != nil && s.Opened() != store.NoSession {
			b.net = min(b.net, lack(out.Image, &s)) // the fast clock may have taken early what the schedule gives later
		}
		b.hold()
	}
	b.moves = false
	return out.Applied
}

// check reads the item after a write.
func (b *sessionBook) check(out store.Outcome, err error) bool {
	if err != nil {
		b.Fatal(err)
	}
	if out.Applied {
		b.see()
	}
	return out.Applied
}

// see reads the item. If another session has begun, what the last one admitted is over.
func (b *sessionBook) see() {
	images, err := b.store.Buckets(b.Context(), b.bucket.Entity, b.bucket.Resource, 1)
	if err != nil || len(images) != 1 || !images[0].IsEvaluable() {
		b.Fatal(images, err)
	}
	img := images[0]
	was := store.LimitState{Params: &store.Params{}}
	if len(b.known) > 0 {
		was, _ = b.last().Limit("a")
	}
	is, _ := img.Limit("a")
	if n := len(b.known); n > 0 && was.Varies != nil && was.Renewal != nil && is.Opened() == was.Opened() && !b.last().InStep {
		before := b.last() // out of step, it keeps what another one loses
		amount := func(at int64) int64 { return plan.Share(*was.Params, 0, 1, at).Renewed }
		b.net -= max(0, amount(before.RefilledAt)-amount(max(before.RefilledAt, img.RefilledAt)))
	}
	if is.Renewal != was.Renewal && (is.Renewal == nil || was.Renewal == nil || plan.IsSession(is.Renewal) != plan.IsSession(was.Renewal)) {
		b.net, b.earliest = max(0, capacity(img, &is)-is.Tokens), 0
	}
	if is.Opened() != was.Opened() {
		if begins := is.Opened() > store.NoSession; begins {
			if is.Opened() < b.earliest && !b.moves {
				b.Fatalf("a session begins at %d, and the last one ends at %d", is.Opened(), b.earliest)
			}
			b.net = 0
		}
	}
	if b.moves {
		b.earliest = 0
	}
	if plan.IsSession(is.Renewal) && is.Opened() > store.NoSession {
		b.earliest = plan.PeriodEnd(img, "a")
	}
	if b.known = append(b.known, img); plan.IsSession(is.Renewal) && is.Opened() == store.NoSession {
		b.net = 0
	}
}

// hold checks the law.
func (b *sessionBook) hold() {
	img := b.last()
	s, _ := img.Limit("a")
	if !plan.IsSession(s.Renewal) || s.Opened() == store.NoSession {
		return
	}
	if lacks := lack(img, &s); lacks < b.net {
		b.Fatalf("the session that began at %d has admitted %d, and lacks only %d of being full", s.Opened(), b.net, lacks)
	}
}
