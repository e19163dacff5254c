package dynamo

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// asSeen is the condition that an item exists, and that attributes are as they were seen. There
// are no values if none was seen.
func asSeen(seen item, attrs ...string) (condition *string, names map[string]string, values item) {
	terms, names, values := seenTerms(seen, attrs)
	text := strings.Join(append([]string{"attribute_exists(PK)"}, terms...), " AND ")
	if len(values) == 0 {
		values = nil
	}
	return &text, names, values
}

// seenTerms are the conditions that attributes are as they were seen.
func seenTerms(seen item, attrs []string) (terms []string, names map[string]string, values item) {
	names, values = map[string]string{}, item{}
	for i, attr := range attrs {
		name, value := "#a"+strconv.Itoa(i), ":a"+strconv.Itoa(i)
		names[name] = attr
		if seen[attr] == nil {
			terms = append(terms, "attribute_not_exists("+name+")")
			continue
		}
		terms = append(terms, name+" = "+value)
		values[value] = seen[attr]
	}
	return terms, names, values
}

// operatorSettings are the attributes that operators set beside the limits. A write
// that keeps them also requires that those not seen are still absent.
var operatorSettings = []string{schema.AuditRetentionDays, schema.Cascade, schema.Disabled, schema.DisabledUntil, schema.SlotLimits}

// unchanged is the condition that a level's item exists, and that its settings which outlive its
// limits are as seen; others, too, if they are pinned. whole says that on_unavailable does not
// outlive the limits.
func unchanged(seen item, whole bool, pinned ...string) (condition *string, names map[string]string, values item) {
	attrs := slices.AppendSeq(slices.Concat(operatorSettings, pinned), maps.Keys(policies(seen, whole)))
	if !whole {
		attrs = append(attrs, schema.OnUnavailable, schema.OutageShare)
	}
	slices.Sort(attrs)
	return asSeen(seen, slices.Compact(attrs)...)
}

// policies returns the attributes of a configuration item that outlive its limits.
func policies(it item, whole bool) item {
	kept := item{}
	for attr, v := range it {
		if schema.HasPolicy(item{attr: v}) || schema.IsOutageAttr(attr) && !whole {
			kept[attr] = v
		}
	}
	return kept
}

// assign is the update that gives an item attributes as they are to be, and removes those that it
// is not to have. It adds the names and values that the update uses.
func assign(to item, attrs []string, names map[string]string, values item) string {
	var set, remove []string
	for i, attr := range attrs {
		name, value := "#s"+strconv.Itoa(i), ":s"+strconv.Itoa(i)
		names[name] = attr
		if to[attr] == nil {
			remove = append(remove, name)
			continue
		}
		set = append(set, name+" = "+value)
		values[value] = to[attr]
	}
	var update []string
	if len(set) > 0 {
		update = append(update, "SET "+strings.Join(set, ", "))
	}
	if len(remove) > 0 {
		update = append(update, "REMOVE "+strings.Join(remove, ", "))
	}
	return strings.Join(update, " ")
}
