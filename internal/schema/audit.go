package schema

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// Names of the attributes of an audit event.
const (
	EventID   = "event_id"  // S, a ULID
	EventTime = "timestamp" // S, see [Timestamp]
	Action    = "action"    // S
	Principal = "principal" // S, NULL if unknown
	Details   = "details"   // M
)

// AuditPrefix begins the sort key of an audit event, and the event's ID ends it. IDs are
// ordered by time, and so are the keys.
const AuditPrefix = "#AUDIT#"

const auditPartition = "AUDIT#"

// Subjects of events that are not entities. No entity's name begins with "$".
const (
	AuditSystem    = "$SYSTEM"
	auditResource  = "$RESOURCE:"
	auditNamespace = "$NAMESPACE:"
)

// AuditResource is the subject of events about a resource.
func AuditResource(name string) string { return auditResource + name }

// AuditNamespace is the subject of events about a namespace. They are in [TableNamespace],
// so that they outlive the namespace.
func AuditNamespace(name string) string { return auditNamespace + name }

// AuditLevel is the subject of events about a level of configuration.
func AuditLevel(k store.ConfigKey) string {
	switch {
	case k.Entity != "":
		return k.Entity
	case k.Resource != "":
		return AuditResource(k.Resource)
	}
	return AuditSystem
}

// CheckAudited reports, as a [*store.ValidationError], why a name cannot be a subject of
// events in a namespace.
func CheckAudited(name string) error {
	if name == AuditSystem {
		return nil
	}
	if resource, ok := strings.CutPrefix(name, auditResource); ok {
		return store.CheckResource(resource)
	}
	return store.CheckEntity(name)
}

// AuditPK is the partition of the events about an entity, or about another subject.
func AuditPK(ns, entity string) string { return ns + "/" + auditPartition + entity }

// AuditKey is the key of an event.
func AuditKey(ns, entity, id string) Key { return Key{AuditPK(ns, entity), AuditPrefix + id} }

// An AuditEvent records a change and its author. In a decoded event only ID and Entity are
// certain to be set.
type AuditEvent struct {
	ID        string // a ULID
	Time      time.Time
	Action    string
	Entity    string // or a subject that begins with "$"
	Principal string // "" if unknown
	Resource  string // "" if the event is not about one
	Details   Item
	Expires   time.Time // zero if never
}

// EncodeAuditEvent is an event's item in a namespace.
func EncodeAuditEvent(ns string, e *AuditEvent) Item {
	item := AuditKey(ns, e.Entity, e.ID).Item()
	item[EntityID], item[EventID] = S(e.Entity), S(e.ID)
	item[EventTime], item[Action] = S(Timestamp(e.Time)), S(e.Action)
	item[Principal], item[Resource] = sOrNull(e.Principal), sOrNull(e.Resource)
	item[Details] = Map(e.Details)
	item[TTL] = N(e.Expires.Unix())
	putGSI4(item, ns, AuditPK(ns, e.Entity))
	return item
}

// DecodeAuditEvent reads an event and its namespace; ok is false if the key is not an
// event's key. It leaves other unreadable parts empty: an unreadable part must not hide the
// event.
func DecodeAuditEvent(item Item) (ns string, e AuditEvent, ok bool) {
	key := KeyOf(item)
	ns, rest, _ := strings.Cut(key.PK, "/")
	entity, inTrail := strings.CutPrefix(rest, auditPartition)
	id, isEvent := strings.CutPrefix(key.SK, AuditPrefix)
	if ns == "" || !inTrail || entity == "" || !isEvent || id == "" {
		return "", AuditEvent{}, false
	}
	e = AuditEvent{
		ID: id, Entity: entity,
		Action: str(item[Action]), Principal: str(item[Principal]), Resource: str(item[Resource]),
	}
	if t, err := ParseTimestamp(str(item[EventTime])); err == nil {
		e.Time = t
	}
	if m, isMap := item[Details].(*types.AttributeValueMemberM); isMap && m != nil {
		e.Details = m.Value
	}
	if seconds, isNumber := integer(item[TTL]); isNumber {
		e.Expires = time.Unix(seconds, 0).UTC()
	}
	return ns, e, true
}

// LimitsDetail returns limits in the form of an event's details.
func LimitsDetail(limits []store.Limit) types.AttributeValue {
	list := make([]types.AttributeValue, len(limits))
	for i, l := range limits {
		of := Item{
			"name": S(l.Name), "capacity": N(l.Capacity),
			"refill_amount": N(l.Amount), "refill_period_seconds": N(int64(l.Period / time.Second)),
		}
		if l.Renews != nil {
			putRenewal(of, l.Renews)
		}
		if l.Varies != nil {
			of["schedule"] = scheduleDetail(l.Varies)
		}
		if l.Soft {
			of[FieldSoft] = Bool(true)
		}
		if l.Mode != store.Enforce {
			of[FieldMode] = S(l.ModeText())
		}
		if l.Returns != 0 {
			of[FieldReturns] = N(int64(l.Returns))
		}
		if l.Carries.Rollover != 0 {
			of["rollover"] = N(l.Carries.Rollover)
		}
		if l.Carries.Debt {
			of["carry_debt"] = Bool(true)
		}
		list[i] = Map(of)
	}
	return &types.AttributeValueMemberL{Value: list}
}

// scheduleDetail returns the entries of a schedule as the Python package has them.
func scheduleDetail(s *store.Schedule) types.AttributeValue {
	changes := s.Changes()
	entries := make([]types.AttributeValue, len(changes))
	for i, c := range changes {
		entry := Item{"tz": S(s.Zone())}
		if c.Until != 0 {
			entry["until"] = N(c.Until) // in milliseconds; the package has no such entries
		} else {
			entry["cron"] = S(c.Cron)
		}
		if c.Permille != 0 {
			entry["scale"] = &types.AttributeValueMemberN{Value: c.Scale()}
		}
		for name, v := range map[string]int64{"capacity": c.Capacity, "refill_amount": c.Amount, "refill_period_seconds": c.Seconds} {
			if v != 0 {
				entry[name] = N(v)
			}
		}
		entries[i] = Map(entry)
	}
	return &types.AttributeValueMemberL{Value: entries}
}

// putRenewal says in the details of a limit when the quota renews: as the Python package does,
// or in words if the package cannot evaluate it.
func putRenewal(of Item, r *store.Renewal) {
	of["refill_period_seconds"] = N(1) // as the package has it for all quotas
	if seconds := SessionSeconds(r); seconds != 0 {
		of["reset_after_seconds"] = N(seconds)
		return
	}
	patterns := r.Patterns()
	if len(patterns) == 0 {
		of["renews"], of["zone"] = S(r.String()), S(r.Zone())
		return
	}
	entries := make([]types.AttributeValue, len(patterns))
	for i, p := range patterns {
		entries[i] = Map(Item{"cron": S(p), "tz": S(r.Zone())})
	}
	of["reset_schedule"] = &types.AttributeValueMemberL{Value: entries}
}

// SwitchDetails are the details of the event of a change of a level's switch. The peer has
// the first one: true, false, or null for a switch that was removed.
func SwitchDetails(s store.Switch, reason, key string) Item {
	item := Item{Disabled: null()}
	putPolicy(item, Disabled, s.Policy)
	if s.Until != 0 {
		item["until"] = S(Timestamp(time.UnixMilli(s.Until)))
	}
	return WithCause(item, reason, key)
}

// SlotLimitDetails are the details of the event of a change of a level's slots.
func SlotLimitDetails(limits []store.SlotLimit, reason string) Item {
	return WithCause(Item{SlotLimits: SlotsDetail(limits)}, reason, "")
}

// AmendmentDetails are the details of the event of a reset or a top-up.
func AmendmentDetails(amounts map[string]int64, shards int64, reason, key string) Item {
	return WithCause(Item{OperationAmounts: Numbers(amounts), OperationShards: N(shards)}, reason, key)
}

// CascadeDetails are the details of the event of a change of a level's cascade policy: true,
// false, or null for one that was removed.
func CascadeDetails(p store.Policy, reason, key string) Item {
	item := Item{Cascade: null()}
	putPolicy(item, Cascade, p)
	return WithCause(item, reason, key)
}

// MoveDetails are the details of the event of a move of an entity to another parent, with
// whether it cascades from then on if that changed.
func MoveDetails(from, to *store.Entity, reason, key string) Item {
	details := Item{"old_parent_id": sOrNull(from.Parent), ParentID: sOrNull(to.Parent), PGen: N(to.Generation)}
	if from.Cascade != to.Cascade {
		details[Cascade] = Bool(to.Cascade)
	}
	return WithCause(details, reason, key)
}

// WithCause adds why an operator changed something, and the key with which it happened once.
func WithCause(details Item, reason, key string) Item {
	if reason != "" {
		details["reason"] = S(reason)
	}
	if key != "" {
		details["idempotency_key"] = S(key)
	}
	return details
}

// EntityDetail returns the details of an entity's creation.
func EntityDetail(e *store.Entity) Item {
	metadata := make(Item, len(e.Metadata))
	for k, v := range e.Metadata {
		metadata[k] = S(v)
	}
	return Item{Name: S(e.Name), ParentID: sOrNull(e.Parent), Cascade: Bool(e.Cascade), Metadata: Map(metadata)}
}

// Bounds of the retention of audit events, in days.
const (
	DefaultAuditRetention = 90
	MaxAuditRetention     = 36_500
)

// AuditRetention is the number of days that a namespace keeps its audit events, read from
// the configuration item of its system level. It is from 1 to [MaxAuditRetention], and
// [DefaultAuditRetention] if the item has none. ok is false if the value is unreadable or
// less than a day.
func AuditRetention(item Item) (days int, ok bool) {
	v, set := item[AuditRetentionDays]
	if !set {
		return DefaultAuditRetention, true
	}
	n, isNumber := integer(v)
	if !isNumber || n < 1 {
		return DefaultAuditRetention, false
	}
	return int(min(n, MaxAuditRetention)), true
}

// Plain converts an attribute's value to the types of encoding/json: a string, bool, nil,
// []any or map[string]any. A number becomes an int64 if it is a whole number of 64 bits,
// otherwise a float64. A set becomes a list.
func Plain(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return number(v.Value)
	case *types.AttributeValueMemberBOOL:
		return v.Value
	case *types.AttributeValueMemberM:
		return PlainMap(v.Value)
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i, e := range v.Value {
			list[i] = Plain(e)
		}
		return list
	case *types.AttributeValueMemberSS:
		return plainList(v.Value, func(s string) any { return s })
	case *types.AttributeValueMemberNS:
		return plainList(v.Value, number)
	}
	return nil // NULL, or bytes, which no event contains
}

// PlainMap applies [Plain] to each attribute; it is never nil.
func PlainMap(item Item) map[string]any {
	m := make(map[string]any, len(item))
	for k, v := range item {
		m[k] = Plain(v)
	}
	return m
}

func plainList(members []string, plain func(string) any) []any {
	list := make([]any, len(members))
	for i, m := range members {
		list[i] = plain(m)
	}
	return list
}

func number(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(s, 64) // cannot fail: the table holds only numbers, in a smaller range
	return f
}
