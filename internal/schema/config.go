package schema

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// Configuration keeps whole tokens and seconds, where bucket items keep
// thousandths of both.
const (
	configPrefix = "l_"
	windowPrefix = "w_" // every field of a limit that is reset a while after its first use
)

// EncodeConfig is the configuration item of a level. Limits of a peer's kinds
// cannot be written.
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
	if c.OnUnavailable != "" {
		item[OnUnavailable] = S(string(c.OnUnavailable))
	}
	putPolicy(item, Disabled, c.Disabled)
	putPolicy(item, Cascade, c.Cascade)
	for _, l := range c.Limits {
		item[configPrefix+l.Name+"_"+FieldCapacity] = N(l.Capacity)
		item[configPrefix+l.Name+"_"+FieldAmount] = N(l.Amount)
		item[configPrefix+l.Name+"_"+FieldPeriod] = N(int64(l.Period / time.Second))
	}
	return item
}

func putPolicy(item Item, attr string, p store.Policy) {
	switch p {
	case store.Yes:
		item[attr] = Bool(true)
	case store.No:
		item[attr] = Bool(false)
	case store.Inherit:
	}
}

// IsLimitAttr reports whether an attribute of a configuration item is part of
// its limits, which setting limits replaces; every other one outlives them.
func IsLimitAttr(attr string) bool {
	return attr == SchedTZ || strings.HasPrefix(attr, configPrefix) || strings.HasPrefix(attr, windowPrefix)
}

// HasPolicy reports whether a configuration item says anything besides limits
// and what [EncodeConfig] writes for a level without any: a switch of an
// operator, the retention of audit events, something newer than this version.
func HasPolicy(item Item) bool {
	for attr := range item {
		switch attr {
		case PK, SK, EntityID, Resource, ConfigVersion, OnUnavailable,
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

// HasLimits reports whether a configuration item says anything that deleting its
// limits deletes.
func HasLimits(item Item) bool {
	for attr := range item {
		if attr == OnUnavailable || IsLimitAttr(attr) {
			return true
		}
	}
	return false
}

type configScan struct {
	store.Limit
	window, plain, seen bool
}

// DecodeConfig reads a configuration item of any level. Limits come by name.
// [store.Config.Foreign] names what of them cannot be evaluated; their other
// fields are still those of the item, so that an amount may be 0.
func DecodeConfig(item Item) (*store.Config, error) {
	c := &store.Config{OnUnavailable: store.OnUnavailable(str(item[OnUnavailable]))}
	switch c.OnUnavailable {
	case "", store.Block, store.Allow:
	default:
		return nil, corrupt(item, OnUnavailable, `it is neither "block" nor "allow"`)
	}
	c.Disabled, c.Cascade = policy(item[Disabled]), policy(item[Cascade])
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
		if feature, ok := l.decode(field, v); !ok {
			return nil, corrupt(item, attr, badNumber)
		} else if feature != "" {
			c.Foreign = first(c.Foreign, feature)
		}
	}
	for name, l := range limits {
		switch {
		case !l.seen:
			continue // a field without a capacity is no limit
		case l.window && l.plain:
			return nil, corrupt(item, windowPrefix+name+"_"+FieldCapacity, "the limit is there as "+configPrefix+" too")
		case l.Period == 0:
			return nil, corrupt(item, configPrefix+name+"_"+FieldPeriod, "it is missing")
		case l.window || l.Amount == 0:
			c.Foreign = first(c.Foreign, FeatureQuota)
		}
		c.Limits = append(c.Limits, l.Limit)
	}
	if c.Foreign == "" && len(c.Limits) > store.MaxLimits {
		c.Foreign = featureMany
	}
	slices.SortFunc(c.Limits, func(a, b store.Limit) int { return cmp.Compare(a.Name, b.Name) })
	return c, nil
}

// decode reads a field, and names the feature that it is, if it is one.
func (l *configScan) decode(field string, v types.AttributeValue) (feature string, ok bool) {
	switch field {
	case FieldCapacity:
		l.seen = true
		l.Capacity, ok = integer(v)
		return "", ok && 1 <= l.Capacity && l.Capacity <= store.MaxTokens
	case FieldAmount:
		l.Amount, ok = integer(v)
		return "", ok && 0 <= l.Amount && l.Amount <= store.MaxTokens
	case FieldPeriod:
		seconds, ok := integer(v)
		if !ok || seconds < 1 || seconds > int64(store.MaxPeriod/time.Second) {
			return "", false
		}
		l.Period = time.Duration(seconds) * time.Second
	case FieldSched:
		return FeatureSchedule, true
	case FieldRSched, FieldResetAfter:
		return FeatureQuota, true
	case FieldSoft:
		return FeatureSoft, true
	}
	return "", true
}

// first is the same of two features whatever the order they are met in.
func first(a, b string) string {
	if a == "" || b == FeatureSchedule || a == FeatureSoft {
		return b
	}
	return a
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

// policy reads a switch: absent leaves it to the next level, true is yes, and
// anything else is an explicit no, as the peer reads it. That goes for "bypass"
// too, a peer's third way, which lets everything pass: here limits are enforced.
func policy(v types.AttributeValue) store.Policy {
	if v == nil {
		return store.Inherit
	}
	if b, ok := v.(*types.AttributeValueMemberBOOL); ok && b != nil && b.Value {
		return store.Yes
	}
	return store.No
}
