package schema

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/store"
)

// Configuration holds whole tokens and seconds; bucket items hold thousandths of both.
const (
	configPrefix = "l_"
	windowPrefix = "w_" // prefix of the fields of a session
)

// EncodeConfig is the configuration item of a level. It cannot write the kinds of limits
// that only a peer has.
func EncodeConfig(ns string, k store.ConfigKey, c *store.Config) Item {
	item := ConfigKey(ns, k).Item()
	item[ConfigVersion] = N(1)
	switch {
	case k.Entity != "":
		item[EntityID], item[Resource] = S(k.Entity), S(k.Resource)
		item[GSI3PK], item[GSI3SK] = S(EntityConfigIndexPK(ns, k.Resource)), S(k.Entity)
		putGSI4(item, ns, EntityPK(ns, k.Entity))
	case k.Resource != "":
		item[Resource] = S(k.Resource)
		putGSI4(item, ns, ResourcePK(ns, k.Resource))
	default:
		putGSI4(item, ns, SystemPK(ns))
	}
	maps.Copy(item, EncodeOutage(c.OnUnavailable))
	putPolicy(item, Disabled, c.Disabled.Policy)
	if c.Disabled.Until != 0 {
		item[DisabledUntil] = N(c.Disabled.Until)
	}
	putPolicy(item, Cascade, c.Cascade)
	putSlots(item, c.Slots)
	for i := range c.Limits {
		putConfigLimit(item, &c.Limits[i])
	}
	return item
}

// NextConfigVersion is the version of a level whose limits change; old is its item, nil if there is
// none. A peer writes 1 and reads nothing of it. So the version of a level that we set says which
// write made it (ADR 068).
func NextConfigVersion(old Item) types.AttributeValue {
	is, _ := integer(old[ConfigVersion])
	return N(max(is, 0) + 1)
}

// putConfigLimit adds a limit to the item of a level.
func putConfigLimit(item Item, l *store.Limit) {
	prefix, seconds := configPrefix+l.Name+"_", SessionSeconds(l.Renews)
	if seconds != 0 {
		prefix = windowPrefix + l.Name + "_"
		item[prefix+FieldResetAfter] = N(seconds)
	}
	item[prefix+FieldCapacity] = N(l.Capacity)
	if l.Soft || l.Mode != store.Enforce {
		item[prefix+FieldSoft] = Bool(true) // which is what a peer knows of a mode
	}
	if l.Mode != store.Enforce {
		item[prefix+FieldMode] = S(l.ModeText())
	}
	if l.Returns != 0 {
		item[prefix+FieldReturns] = N(int64(l.Returns))
	}
	if l.Renews != nil {
		if code, zone := EncodeRenewal(l.Renews); code != "" {
			item[prefix+FieldRSched], item[SchedTZ] = S(code), S(zone)
		}
		if code := EncodeCarry(l.Carries); code != "" {
			item[prefix+FieldCarry] = S(code)
		}
		item[prefix+FieldAmount], item[prefix+FieldPeriod] = N(0), N(1) // as a peer has them
	} else {
		item[prefix+FieldAmount] = N(l.Amount)
		item[prefix+FieldPeriod] = N(int64(l.Period / time.Second))
	}
	if l.Varies != nil {
		code, zone := EncodeSchedule(l.Varies)
		item[prefix+FieldSched], item[SchedTZ] = S(code), S(zone)
	}
}

// EncodeOutage are the attributes of what an acquire does when the store is unavailable. A peer that
// met another value of on_unavailable than its own would fail each acquire. So it reads [store.Share]
// as [store.Block].
func EncodeOutage(on store.OnUnavailable) Item {
	switch on {
	case "":
		return nil
	case store.Share:
		return Item{OnUnavailable: S(string(store.Block)), OutageShare: Bool(true)}
	case store.Block, store.Allow:
	}
	return Item{OnUnavailable: S(string(on))}
}

// DecodeOutage reverses [EncodeOutage]. If a peer has written another value since, that holds.
func DecodeOutage(item Item) store.OnUnavailable {
	on := store.OnUnavailable(str(item[OnUnavailable]))
	if shares, ok := item[OutageShare].(*types.AttributeValueMemberBOOL); ok && shares.Value && on == store.Block {
		return store.Share
	}
	return on
}

// IsOutageAttr reports whether an attribute is one of [EncodeOutage].
func IsOutageAttr(attr string) bool { return attr == OnUnavailable || attr == OutageShare }

func putPolicy(item Item, attr string, p store.Policy) {
	switch p {
	case store.Yes:
		item[attr] = Bool(true)
	case store.No:
		item[attr] = Bool(false)
	case store.Bypass:
		item[attr] = S(Bypass)
	case store.Inherit:
	}
}

// IsLimitAttr reports whether an attribute of a configuration item belongs to its limits.
// Setting limits replaces those attributes and keeps all others.
func IsLimitAttr(attr string) bool {
	return attr == SchedTZ || strings.HasPrefix(attr, configPrefix) || strings.HasPrefix(attr, windowPrefix)
}

// HasPolicy reports whether a configuration item has more than limits and what
// [EncodeConfig] writes for a level without limits. Examples are an operator's switch, the
// retention of audit events, or something newer than this version.
func HasPolicy(item Item) bool {
	for attr := range item {
		switch attr {
		case PK, SK, EntityID, Resource, ConfigVersion, OnUnavailable, OutageShare,
			GSI3PK, GSI3SK, GSI4PK, GSI4SK:
		default:
			if !IsLimitAttr(attr) {
				return true
			}
		}
	}
	return false
}

// ConfigLimits names the limits of a configuration item of any level, sorted.
func ConfigLimits(item Item) []string {
	var names []string
	for attr := range item {
		if _, name, field, ok := splitConfigAttr(attr); ok && field == FieldCapacity && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// HasLimits reports whether deleting limits would delete anything of a configuration item.
func HasLimits(item Item) bool {
	for attr := range item {
		if IsOutageAttr(attr) || IsLimitAttr(attr) {
			return true
		}
	}
	return false
}

type configScan struct {
	store.Limit
	window, plain, seen bool
	renews, varies      string
	carries, mode       string
	session             int64 // seconds; 0 if the limit is no session
}

// DecodeConfig reads a configuration item of any level. Limits are sorted by name.
// [store.Config.Features] has the features that they use.
// Their other fields are those of the item, so an amount may be 0.
func DecodeConfig(item Item) (*store.Config, error) {
	c := &store.Config{OnUnavailable: DecodeOutage(item)}
	if is := str(item[OnUnavailable]); is == string(store.Share) || c.OnUnavailable.Validate() != nil {
		return nil, corrupt(item, OnUnavailable, `it is neither "block" nor "allow"`)
	}
	var ok bool
	if c.Disabled, ok = switchOf(item); !ok {
		return nil, corrupt(item, DisabledUntil, badNumber)
	}
	c.Cascade = policy(item[Cascade])
	if c.Slots, ok = slotLimits(item[SlotLimits]); !ok {
		return nil, corrupt(item, SlotLimits, "it is not a map of numbers of slots")
	}
	limits := map[string]*configScan{}
	for attr, v := range item {
		prefix, name, field, ok := splitConfigAttr(attr)
		if !ok {
			continue
		}
		l := limits[name]
		if l == nil {
			l = &configScan{Limit: store.Limit{Name: name}}
			limits[name] = l
		}
		l.window = l.window || prefix == windowPrefix
		l.plain = l.plain || prefix == configPrefix
		if !l.decode(field, v) {
			return nil, corrupt(item, attr, badNumber)
		}
	}
	for _, l := range limits {
		if !l.seen {
			continue // a field without a capacity does not make a limit
		}
		if attr, reason := l.damage(); reason != "" {
			return nil, corrupt(item, attr, reason)
		}
		c.Features |= l.decodeCalendars(str(item[SchedTZ]))
		l.decodeMode()
		c.Limits = append(c.Limits, l.Limit)
	}
	if len(c.Limits) > store.MaxLimits {
		c.Features |= store.ManyLimits
	}
	slices.SortFunc(c.Limits, func(a, b store.Limit) int { return cmp.Compare(a.Name, b.Name) })
	return c, nil
}

// damage is the attribute that makes the item unreadable, and the reason; "" if none does.
func (l *configScan) damage() (attr, reason string) {
	switch {
	case l.window && l.plain:
		return windowPrefix + l.Name + "_" + FieldCapacity, "the limit is there as " + configPrefix + " too"
	case l.window && l.session == 0:
		return windowPrefix + l.Name + "_" + FieldResetAfter, "it is missing"
	case l.Period == 0:
		return configPrefix + l.Name + "_" + FieldPeriod, "it is missing"
	}
	return "", ""
}

// decode reads a field.
func (l *configScan) decode(field string, v types.AttributeValue) (ok bool) {
	switch field {
	case FieldCapacity:
		l.seen = true
		l.Capacity, ok = integer(v)
		return ok && 1 <= l.Capacity && l.Capacity <= store.MaxTokens
	case FieldAmount:
		l.Amount, ok = integer(v)
		return ok && 0 <= l.Amount && l.Amount <= store.MaxTokens
	case FieldPeriod:
		seconds, ok := integer(v)
		l.Period = time.Duration(seconds) * time.Second
		return ok && 1 <= seconds && seconds <= int64(store.MaxPeriod/time.Second)
	case FieldRSched:
		l.renews = str(v)
	case FieldSched:
		l.varies = str(v)
	case FieldCarry:
		l.carries = str(v)
	case FieldResetAfter:
		l.session, ok = integer(v)
		return ok && l.session > 0
	case FieldSoft:
		b, isBool := v.(*types.AttributeValueMemberBOOL)
		l.Soft = isBool && b.Value
	case FieldMode:
		l.mode = str(v)
	case FieldReturns:
		n, ok := integer(v)
		l.Returns = int(n)
		return ok && 0 <= n && n <= store.MaxReturns
	}
	return true
}

// decodeMode reads in which mode a limit is that a peer takes for a soft one. A mode that this version
// does not know leaves it soft, and one of a limit that a peer has made hard is a leftover.
func (l *configScan) decodeMode() {
	hard := l.Limit
	hard.Soft = false
	if is, err := hard.InMode(l.mode); l.Soft && err == nil {
		l.Limit = is
	}
}

// modeOf is the mode of a limit of a bucket item by its name. One that this version does not know is
// none.
func modeOf(name string) store.Mode {
	l, err := store.Limit{}.InMode(name)
	if err != nil {
		return store.Enforce
	}
	return l.Mode
}

// decodeCalendars reads what the limit follows, and returns the features that this version cannot
// evaluate.
func (l *configScan) decodeCalendars(zone string) (f store.Features) {
	if !l.decodeRenewal(zone) || !l.decodeCarry() {
		f |= store.Quota
	}
	if !l.decodeSchedule(zone) {
		f |= store.Scheduled
	}
	return f
}

// decodeRenewal reads when the limit renews, if it does; false if this version cannot evaluate
// that.
func (l *configScan) decodeRenewal(zone string) bool {
	var r *calendar.Renewal
	var err error
	switch {
	case l.window && l.renews == "":
		r, err = calendar.NewSession(l.session)
	case l.window || l.session != 0:
		return false
	case l.renews == "":
		return l.Amount != 0
	default:
		r, err = calendar.Decode(l.renews, zone)
	}
	if err != nil || l.Amount != 0 {
		return false
	}
	l.Renews, l.Period = r, 0
	return true
}

// decodeSchedule reads when the limit has other parameters, if it does; false if this version
// cannot evaluate that. It cannot for a quota that carries, or that an entry gives a rate.
func (l *configScan) decodeSchedule(zone string) bool {
	if l.varies == "" {
		return true
	}
	s, err := calendar.DecodeSchedule(l.varies, zone)
	if err != nil || l.Amount == 0 && (l.Renews == nil || !s.SetsAmounts() || l.Carries != store.Carry{}) {
		return false
	}
	l.Varies = s
	return true
}

func splitConfigAttr(attr string) (prefix, name, field string, ok bool) {
	if len(attr) < len(configPrefix) {
		return "", "", "", false
	}
	prefix, rest := attr[:len(configPrefix)], attr[len(configPrefix):]
	i := strings.LastIndexByte(rest, '_')
	if prefix != configPrefix && prefix != windowPrefix || i <= 0 || store.CheckLimitName(rest[:i]) != nil {
		return "", "", "", false
	}
	return prefix, rest[:i], rest[i+1:], true
}

// switchOf reads the switch of a level; false if its end cannot be read. A peer removes a switch
// without its end.
func switchOf(item Item) (s store.Switch, ok bool) {
	s.Policy = policy(item[Disabled])
	if v, isText := item[Disabled].(*types.AttributeValueMemberS); isText && v != nil && v.Value == Bypass {
		s.Policy = store.Bypass
	}
	if s.Policy == store.Inherit || item[DisabledUntil] == nil {
		return s, true
	}
	s.Until, ok = integer(item[DisabledUntil])
	return s, ok
}

// policy reads a policy. An absent one inherits from the next level, true is yes, and
// anything else is an explicit no, as for the peer.
func policy(v types.AttributeValue) store.Policy {
	if v == nil {
		return store.Inherit
	}
	if b, ok := v.(*types.AttributeValueMemberBOOL); ok && b != nil && b.Value {
		return store.Yes
	}
	return store.No
}
