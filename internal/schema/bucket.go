package schema

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/store"
)

const badNumber = "it is not a whole number in range"

// NoSchedule is a limit's own schedule if the limit opts out of the item's schedule.
const NoSchedule = "-"

// Fields of a limit that an item has. A limit exists only with both of the first two.
const (
	hasTokens = 1 << iota
	hasCapacity
	hasAmount
	hasPeriod
	isKept    // has a count in the diary: of the closed hour, or when the open one began
	isCounted // has a count of consumed tokens
	isTold    // has a count of them from when a peer told of a session
)

type limitScan struct {
	store.LimitState
	store.Params // which the image shares with others
	seen         uint16
	// renews is when the limit renews, and varies when it has other parameters, as the item
	// has it for the limit alone; "" if it has nothing.
	renews, varies string
	carries        string
	// extra is what the item has. Its grant is for a quota.
	extra store.Extra
	// session is the length of a session, in seconds; 0 if the limit is none. applied is the
	// begin of the one that the balance reflects, 0 if the item does not say it. told is what
	// had been consumed when a peer told the shard of a later one.
	session, applied, told int64
	// gained is what the limit consumed in the hour that was closed last.
	gained int64
	// bad is an unreadable attribute, the first by name. It matters only if the limit
	// exists.
	bad string
}

// exists reports whether the item has the limit.
func (l *limitScan) exists() bool { return l.seen&(hasTokens|hasCapacity) == hasTokens|hasCapacity }

// typicalLimits is the number of limits up to which decoding allocates only the image and
// its limits.
const typicalLimits = 8

// bounds of stored parameters: within them every product of the bucket arithmetic fits 128
// bits, and every result 64.
const (
	maxMilli    = store.MaxTokens * 1000
	maxPeriodMS = int64(store.MaxPeriod / 1_000_000)
)

// leastBalance replaces any lower balance on reading. The largest amount can still be
// subtracted from it in 64 bits.
const leastBalance = -8 * maxMilli

// DecodeBucket reads a bucket item. It keeps substrings of the item's strings and nothing
// else of it.
//
// A limit exists if its balance and its capacity do. An item is a [*store.CorruptError]
// if it has no rf, or if a number is not whole, out of range, or not a number. Two numbers
// have no range: the consumed count is read modulo 2^64, and a balance below leastBalance
// as leastBalance.
//
// [store.Image.Writes] has no name if the item lacks the hidden limit. The window of a
// limit that is no longer a quota is a leftover, not a feature.
func DecodeBucket(item Item) (*store.Image, error) { return DecodeBucketAs(item, scalarOf, nil) }

// DecodeBucketAfter is [DecodeBucket] for an item of which an image is known, or nil. It keeps the
// diary of known if that is equal: reading one takes as long as the rest of an item.
func DecodeBucketAfter(item Item, known *store.Image) (*store.Image, error) {
	return DecodeBucketAs(item, scalarOf, known)
}

// DecodeBucketAs is [DecodeBucketAfter] for items of other types than the data plane's: scalar
// returns the content of a value.
func DecodeBucketAs[V any](item map[string]V, scalar func(V) Scalar, known *store.Image) (*store.Image, error) {
	var s BucketScan
	for attr, v := range item {
		s.Read(attr, scalar(v))
	}
	return s.Image(known)
}

// DecodeBucketFrom is [DecodeBucket] for attributes, each of another name, whose strings
// change after the call: it keeps copies of them. Instead of a copy it keeps a part of
// asked, one of the limits' names, or the diary of known, an image of the same bucket or
// nil, if that is equal.
func DecodeBucketFrom[A any](attributes []A, scalar func(*A) (name string, _ Scalar), asked store.Bucket, names []string, known *store.Image) (*store.Image, error) {
	var s BucketScan
	for i := range attributes {
		s.Read(scalar(&attributes[i]))
	}
	img, err := s.Image(known)
	if err != nil {
		return nil, err
	}
	if img.Bucket == asked {
		img.Bucket = asked
	} else {
		img.Entity, img.Resource = strings.Clone(img.Entity), strings.Clone(img.Resource)
	}
	for i := range img.Limits {
		l := &img.Limits[i]
		if known := slices.Index(names, l.Name); known >= 0 {
			l.Name = names[known]
		} else {
			l.Name = strings.Clone(l.Name)
		}
	}
	if end := len(img.Parent); end+len(img.Incarnation) > 0 {
		var both strings.Builder // the sum of a string and an empty one is no copy
		both.Grow(end + len(img.Incarnation))
		both.WriteString(img.Parent)
		both.WriteString(img.Incarnation)
		img.Parent, img.Incarnation = both.String()[:end], both.String()[end:]
	}
	return img, nil
}

// A BucketScan reads a bucket item whose attributes come one after another, each once. Its
// zero value has read nothing. It holds no pointer into itself, so it stays on its user's
// stack.
type BucketScan struct {
	key   Key
	img   store.Image
	hasRF bool
	bad   string // an unreadable attribute of the item as a whole, the first by name
	diary diaryScan
	// positions are those at which processes number their writes.
	positions positionScan
	// bypass is the item's stamp, 0 if it has none. inStep is the stamp at which it was in step.
	bypass, inStep int64
	// renews is when limits renew that do not say it themselves, and varies when they have other
	// parameters. zone is that of all.
	renews, varies, zone string

	limits [typicalLimits]limitScan
	used   int
	more   []limitScan // those beyond the typical number
}

// Read reads an attribute.
func (s *BucketScan) Read(attr string, v Scalar) {
	if attr != DiaryText {
		s.diary.bytes += len(attr) + v.size()
	}
	if name, field, ok := splitLimitAttr(attr); ok {
		if l := s.limit(name); !l.decode(field, v) && (l.bad == "" || attr < l.bad) {
			l.bad = attr
		}
		return
	}
	if s.readKept(attr, v) || s.positions.read(attr, v) {
		return
	}
	switch attr {
	case PK:
		s.key.PK = v.str()
	case SK:
		s.key.SK = v.str()
	case RF:
		s.hasRF = true
	case ClosedHour:
		s.diary.closed, _ = v.integer()
	case DiaryText:
		s.diary.text = v.str()
	case RSched:
		s.renews = v.str()
	case Sched:
		s.varies = v.code()
	case SchedTZ:
		s.zone = v.str()
	case Bypass:
		s.bypass = v.stamp()
	case InStep:
		s.inStep, _ = v.integer()
	}
	if !decodeBucketAttr(&s.img, attr, v) && (s.bad == "" || attr < s.bad) {
		s.bad = attr
	}
}

// readKept reads an attribute in which the diary keeps a count; false if it is none.
func (s *BucketScan) readKept(attr string, v Scalar) bool {
	if limit, ok := strings.CutPrefix(attr, openedPrefix); ok {
		if limit != "" {
			s.limit(limit).seen |= isKept
		}
		return true
	}
	limit, ok := strings.CutPrefix(attr, gainedPrefix)
	if !ok {
		return false
	}
	gained, ok := v.counter()
	if !ok && (s.bad == "" || attr < s.bad) {
		s.bad = attr
	}
	if limit == "" {
		s.diary.acquires = gained
		return true
	}
	l := s.limit(limit)
	l.gained, l.seen = gained, l.seen|isKept
	return true
}

// limit returns the limit with a name.
func (s *BucketScan) limit(name string) *limitScan {
	for i := range s.used {
		if s.limits[i].Name == name {
			return &s.limits[i]
		}
	}
	for i := range s.more {
		if s.more[i].Name == name {
			return &s.more[i]
		}
	}
	is := limitScan{LimitState: store.LimitState{Name: name}}
	if s.used < len(s.limits) {
		s.limits[s.used] = is
		s.used++
		return &s.limits[s.used-1]
	}
	s.more = append(s.more, is)
	return &s.more[len(s.more)-1]
}

// Image returns the bucket, as [DecodeBucket] does. known, if not nil, is an earlier image
// of the same bucket; the image shares its diary if that is equal.
func (s *BucketScan) Image(known *store.Image) (*store.Image, error) {
	corrupt := func(attr, reason string) error {
		return &store.CorruptError{Key: s.key.String(), Attr: strings.Clone(attr), Reason: reason}
	}
	_, bucket, ok := ParseBucketPK(s.key.PK)
	switch {
	case !ok || s.key.SK != StateSK:
		return nil, corrupt(PK, "it is not the key of a bucket")
	case s.bad != "":
		return nil, corrupt(s.bad, badNumber)
	case !s.hasRF:
		return nil, corrupt(RF, "it is missing")
	}
	img := s.img
	img.Bucket, img.ShardCount = bucket, max(img.ShardCount, 1)
	if img.Hour != 0 {
		img.Diary = s.keep(&img, known)
	}
	img.Positions, img.PositionCap = s.positions.positions(known), s.positionCap()
	img.InStep = s.inStep == img.RefilledAt && s.inStep != 0
	if !img.Disabled { // a peer removes the switch alone, without its end
		img.Bypassed, img.MarkedUntil = s.bypass != 0, s.bypass
	}
	limits, damaged, reason := s.gather(&img, append(s.limits[:s.used], s.more...))
	if reason != "" {
		return nil, corrupt(damaged, reason)
	}
	if len(limits) > 0 {
		img.Limits = make([]store.LimitState, len(limits))
		for i := range limits {
			img.Limits[i] = limits[i].LimitState
			img.Limits[i].Params = shared(&limits[i].Params)
		}
	}
	return &img, nil
}

// decodeBucketAttr reads an attribute of the item as a whole; false if it cannot
// be read.
func decodeBucketAttr(img *store.Image, attr string, v Scalar) (ok bool) {
	switch attr {
	case RF:
		img.RefilledAt, ok = v.integer()
		return ok && img.RefilledAt >= 0
	case Created:
		img.CreatedAt, ok = v.integer()
		return ok
	case OpenHour:
		n, ok := v.integer()
		img.Hour = int32(max(0, min(n, math.MaxInt32))) //nolint:gosec // in range
		return ok
	case ClosedHour:
		_, ok := v.integer()
		return ok
	case ShardCount:
		n, ok := v.integer()
		img.ShardCount = int(max(n, 1))
		return ok && n <= MaxShards
	case TTL:
		n, ok := v.integer()
		img.ExpiresAt = max(n, 1) // 0 means never, and a sweep at 0 was long ago
		return ok
	case ValidUntil:
		img.HasValidUntil = true
		img.ValidUntil, ok = v.integer()
		return ok
	case PGen:
		img.ParentGeneration, ok = v.integer()
		return ok
	case Disabled:
		// Any value disables: writes are conditional on the attribute's absence.
		img.Disabled = true
	case DisabledUntil:
		img.MarkedUntil, ok = v.integer()
		return ok
	case Cascade:
		img.Cascade = v.Kind == True
	case ParentID:
		img.Parent = v.str()
	case PInc:
		img.Incarnation = v.str()
	}
	return true
}

// decode reads a field of the limit; false if it cannot be read.
func (l *limitScan) decode(field string, v Scalar) (ok bool) {
	switch field {
	case FieldTokens:
		l.seen |= hasTokens
		l.Tokens, ok = v.balance()
		return ok
	case FieldCapacity:
		l.seen |= hasCapacity
		l.Capacity, ok = v.integer()
		return ok && 1 <= l.Capacity && l.Capacity <= maxMilli
	case FieldAmount:
		l.seen |= hasAmount
		l.Amount, ok = v.integer()
		return ok && 0 <= l.Amount && l.Amount <= maxMilli
	case FieldPeriod:
		l.seen |= hasPeriod
		l.Period, ok = v.integer()
		return ok && 1 <= l.Period && l.Period <= maxPeriodMS
	case FieldConsumed:
		l.seen |= isCounted
		l.Consumed, ok = v.counter()
		return ok
	case FieldSched:
		l.varies = v.code()
	case FieldRSched:
		l.renews = v.str()
	case FieldCarry:
		l.carries = v.code()
	case FieldResetAfter:
		l.session, ok = v.integer()
		return ok && l.session > 0
	case FieldWindowStart:
		l.extra.Opened, ok = v.integer()
		return ok && l.extra.Opened >= 0
	case FieldApplied:
		l.applied, ok = v.integer()
		return ok
	case FieldWindowCount:
		l.seen |= isTold
		l.told, ok = v.counter()
		return ok
	case FieldGrantCount:
		n, ok := v.integer()
		l.extra.Shards = int(max(n, 0))
		return ok && n <= MaxShards
	case FieldToppedUp:
		l.extra.TopUp, ok = v.integer()
		return ok && 0 <= l.extra.TopUp && l.extra.TopUp <= maxMilli
	case FieldSoft:
		l.extra.SoftUntil = v.stamp()
	case FieldMode:
		l.extra.Mode = modeOf(v.str())
	case FieldShadowed:
		l.extra.Shadowed, ok = v.counter()
		return ok
	case FieldShadowedAt:
		l.extra.ShadowedAt, ok = v.integer()
		return ok
	}
	return true
}

// stamp reads an instant until which something holds. One that is none is there, and has
// passed: versions before the peer's release wrote true.
func (v Scalar) stamp() int64 {
	if until, ok := v.integer(); ok && until > 0 {
		return until
	}
	return -1
}

// gather returns the existing limits, by name. It fills in the hidden limit, which is not
// among them, and the features of the limits. reason says why an
// attribute of a limit is damaged.
func (s *BucketScan) gather(img *store.Image, limits []limitScan) (exist []limitScan, damaged, reason string) {
	img.RenewsByDefault, img.VariesByDefault = s.renews != "", s.varies != ""
	slices.SortFunc(limits, func(a, b limitScan) int { return cmp.Compare(a.Name, b.Name) })
	exist = limits[:0]
	for i := range limits {
		l := &limits[i]
		if !l.exists() || !knownLimit(l.Name) {
			continue
		}
		switch {
		case l.bad != "":
			return nil, l.bad, badNumber
		case l.seen&hasAmount == 0:
			return nil, LimitAttr(l.Name, FieldAmount), "it is missing"
		case l.seen&hasPeriod == 0:
			return nil, LimitAttr(l.Name, FieldPeriod), "it is missing"
		case l.Name == WCU:
			img.Writes = l.LimitState
			img.Writes.Name, img.Writes.Params = WCU, shared(&l.Params)
			continue
		}
		if !s.decodeRenewal(l) || !l.decodeCarry() {
			img.Features |= store.Quota
		}
		if !s.decodeSchedule(l) {
			img.Features |= store.Scheduled
		}
		if l.Renewal == nil {
			l.extra.Granted = store.Granted{}
		}
		if SessionSeconds(l.Renewal) == 0 {
			l.extra.Opened, l.extra.Told = 0, store.Told{}
		}
		if l.extra.SoftUntil == 0 {
			l.extra.Observed = store.Observed{} // a peer has made it hard
		}
		l.SetExtra(l.extra)
		exist = append(exist, *l)
	}
	if len(exist) > store.MaxLimits {
		img.Features |= store.ManyLimits
	}
	return exist, "", ""
}

// decodeRenewal reads when a limit renews, if it does; false if this version cannot evaluate
// that. A limit of no amount that does not renew earns nothing: a peer leaves it behind that
// takes the last quota off a level, and the next repair removes it. A grant among as many
// shards as the item has is none.
func (s *BucketScan) decodeRenewal(l *limitScan) bool {
	var r *calendar.Renewal
	var err error
	switch renews := cmp.Or(l.renews, s.renews); {
	case l.session != 0 && l.Amount == 0 && (renews == "" || renews == NoSchedule):
		if l.extra.Opened > cmp.Or(l.applied, s.img.RefilledAt) {
			l.tell()
		}
		if r, err = calendar.NewSession(l.session); err == nil && l.extra.Opened == 0 {
			l.extra.Opened = store.NoSession
		}
	case renews == "" || renews == NoSchedule:
		return l.session == 0
	default:
		r, err = calendar.Decode(renews, s.zone)
	}
	if err != nil || l.Amount != 0 || l.session != 0 && r.Session() == 0 {
		return false
	}
	l.Renewal = r
	if l.extra.Shards == max(s.img.ShardCount, 1) {
		l.extra.Shards = 0
	}
	return true
}

// tell reads a session that a peer has begun on another shard, and of which this one's
// balance is not yet.
func (l *limitScan) tell() {
	l.extra.Told.Opened, l.extra.Opened = l.extra.Opened, l.applied
	if l.seen&isTold != 0 {
		l.extra.Told.Consumed = max(0, l.Consumed-l.told)
	}
}

// decodeSchedule reads when a limit has other parameters, if it does; false if this version
// cannot evaluate that. It cannot for a quota that carries, or that an entry gives a rate.
func (s *BucketScan) decodeSchedule(l *limitScan) bool {
	varies := cmp.Or(l.varies, s.varies)
	if varies == "" || varies == NoSchedule {
		return true
	}
	schedule, err := calendar.DecodeSchedule(varies, s.zone)
	if err != nil || l.Amount == 0 && (l.Renewal == nil || !schedule.SetsAmounts() || l.Carries != store.Carry{}) {
		return false
	}
	l.Varies = schedule
	return true
}

// code returns the string of a calendar. Anything else is one that no version can read.
func (v Scalar) code() string {
	if v.Kind != String {
		return "?"
	}
	return v.Text
}

func knownLimit(name string) bool { return name == WCU || store.CheckLimitName(name) == nil }
