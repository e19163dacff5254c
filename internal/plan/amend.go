package plan

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// An Amendment is what an operator gives limits of a bucket besides what they earn (ADR 046).
// It is a set of refills, one for each shard, under the locks of every refill.
type Amendment struct {
	// Resets makes the balance of each limit its share, whatever the limit owes or was topped up
	// by. Otherwise the amounts are added to the balances.
	Resets bool
	// Amounts has the limits by name, each once. Milli is a number of whole tokens; a reset ignores
	// it.
	Amounts []store.Amount
}

// Over works out the write of each shard, and how many whole tokens each limit then has more,
// in the order of the amounts: after a reset fewer, if it held a top-up. w is the
// configuration, read after the images; the writes also repair the shards to it. w is nil if
// no level configures limits.
//
// A quota is topped up by the whole amount, and may hold that much more until its period
// ends. A rate is topped up to its capacity at most. A shard that a peer gave the share of
// fewer shards gets as much more of a top-up.
func (am *Amendment) Over(images []*store.Image, w *Wanted, now, multiplier int64) ([]*store.Refill, []int64, error) {
	parts, begins := make([]Amendment, len(images)), &Beginning{}
	if !am.Resets {
		begins = BeginningOf(images, am.Amounts, now)
	}
	debits, stamps := make([]Debit, len(images)), make([]int64, len(images))
	for i, img := range images {
		debits[i] = Debit{Bucket: img.Bucket, Repair: w, Pressing: true, Amendment: &parts[i], Begins: begins}
		stamps[i] = debits[i].stamp(img, debits[i].repairs(img, now), now)
	}
	given := make([]int64, len(am.Amounts))
	for k, a := range am.Amounts {
		var rest int64
		for i, milli := range am.portions(images, stamps, w, a, now) {
			if err := checkToppedUp(images[i], a.Limit, milli, stamps[i]); !am.Resets && err != nil {
				return nil, nil, err
			}
			given[k] += milli / store.Milli // the sum of millitokens may exceed 64 bits
			rest += milli % store.Milli
			parts[i].Resets = am.Resets
			parts[i].Amounts = append(parts[i].Amounts, store.Amount{Limit: a.Limit, Milli: milli})
		}
		given[k] += (rest - remainder(rest)) / store.Milli
	}
	refills := make([]*store.Refill, len(images))
	for i, img := range images {
		refills[i], _, _ = debits[i].Refill(img, now, multiplier)
	}
	return refills, given, nil
}

// remainder is what a number of millitokens has beyond whole tokens, rounding down.
func remainder(milli int64) int64 { return (milli%store.Milli + store.Milli) % store.Milli }

// checkToppedUp fails if a shard would be topped up by more than an item can say.
func checkToppedUp(img *store.Image, limit string, milli, at int64) error {
	s, _ := img.Limit(limit)
	if toppedUp(img, &s, at) <= store.MaxTokens*store.Milli-milli {
		return nil
	}
	return &store.ValidationError{
		Field: "amount of " + limit, Value: strconv.FormatInt(milli/store.Milli, 10),
		Reason: "with what was added before in this period, give at most " + strconv.Itoa(store.MaxTokens),
	}
}

// portions is what each shard gets of an amount, in millitokens, by the parameters in force at
// its new stamp.
func (am *Amendment) portions(images []*store.Image, stamps []int64, w *Wanted, a store.Amount, now int64) []int64 {
	parts, rooms, weights := make([]int64, len(images)), make([]int64, len(images)), make([]int64, len(images))
	terms := Terms{Target: w}
	for i, img := range images {
		at := stamps[i]
		h, params, ok := terms.Holding(img, a.Limit, at)
		if !ok {
			continue
		}
		held := h.Balance(h.Tokens, h.At, at)
		switch {
		case am.Resets:
			parts[i] = Share(params, img.Shard, img.ShardCount, at).Capacity - held
		case params.Renewal != nil && !restsBeside(images, img, a.Limit, now):
			weights[i] = weightOf(img, a.Limit, at)
		case params.Renewal != nil:
		default:
			rooms[i] = max(0, h.Limit.At(at).Capacity-held) / store.Milli
		}
	}
	if am.Resets {
		return parts
	}
	tokens := a.Milli / store.Milli
	if total := sumOf(weights); total > 0 {
		parts = split(tokens, weights, total)
		parts[slices.IndexFunc(weights, func(w int64) bool { return w > 0 })] += tokens - sumOf(parts)
	} else if total := sumOf(rooms); total > 0 {
		tokens = min(tokens, total)
		parts = split(tokens, rooms, total)
		rest := tokens - sumOf(parts)
		for i := range parts {
			more := min(rest, rooms[i]-parts[i])
			parts[i], rest = parts[i]+more, rest-more
		}
	}
	for i := range parts {
		parts[i] *= store.Milli
	}
	return parts
}

// split divides tokens by weights, rounding down.
func split(tokens int64, weights []int64, total int64) []int64 {
	parts := make([]int64, len(weights))
	for i, w := range weights {
		hi, lo := bits.Mul64(uint64(tokens), uint64(w))
		part, _ := bits.Div64(hi, lo, uint64(total))
		parts[i] = int64(part)
	}
	return parts
}

func sumOf(numbers []int64) (sum int64) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// weightOf is how many shares of a quota a shard has in its period, at an instant.
func weightOf(img *store.Image, limit string, at int64) int64 {
	s, _ := img.Limit(limit)
	shards := s.Granted().Shards
	if shards == 0 || Renewed(img, &s, at) {
		return 1
	}
	return int64(max(1, img.ShardCount/shards))
}

// of is what a shard's limit gets; nil if it gets nothing.
func (am *Amendment) of(limit string) *store.Amount {
	if am == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(am.Amounts, limit, func(a store.Amount, name string) int { return cmp.Compare(a.Limit, name) })
	if !ok {
		return nil
	}
	return &am.Amounts[i]
}

// amend adds what an operator gives to what a refill does to a limit. next are the parameters
// that the limit then has, and part is the shard's part under them.
//
// Takes may land between image and write: they took from the balance as it was, and the amendment
// comes on top. That holds for rates that were full, too, which then lose what takes made
// room for; a hot bucket would otherwise refuse each amendment. Credits in between refuse the
// write if the balance would rise above the capacity, or if a schedule has changed since: the
// capacity before the change might have cut them.
func (am *Amendment) amend(ch *store.Change, img *store.Image, s *store.LimitState, next store.Params, part bucket.Limit, now int64) {
	if am == nil {
		return
	}
	if s.Renewal == nil && ch.AtLeast == ch.AtMost {
		ch.AtLeast = math.MinInt64
	}
	a := am.of(s.Name)
	if a == nil {
		return
	}
	ch.Resets = am.Resets && next.Renewal != nil
	if am.Resets && IsSession(next.Renewal) {
		ch.Opened = store.NoSession
	}
	switch {
	case am.Resets:
		ch.TopUp = 0
		ch.Earned = Share(next, img.Shard, img.ShardCount, now).Capacity - s.Tokens
		if !Renewed(img, s, now) { // otherwise no take may land in between: it would take from the earlier period
			ch.AtLeast, ch.AtMost = math.MinInt64, s.Tokens
			ch.Renews = ch.Renews || ch.Resets
		}
	case next.Renewal != nil:
		ch.Earned += a.Milli
		ch.TopUp += a.Milli
	default:
		ch.Earned += a.Milli
		if !ShareOf(img, s).Changes(img.RefilledAt, now) {
			ch.AtMost = part.Capacity - ch.Earned
		}
	}
}
