package customresource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
)

// properties are what CloudFormation sends, beside the manifest.
type properties struct {
	TableName   string
	Namespace   string
	NamespaceID string `json:"NamespaceId"`
	Name        string
}

// A shape says how to turn a value of CloudFormation into one of a manifest.
type shape func(any) any

// about are the properties that are not the manifest's. FullApply asks the peer to
// compare with the table instead of its record; here every apply does.
var about = []string{"ServiceToken", "ServiceTimeout", "TableName", "NamespaceId", "FullApply"}

// parse turns properties into a manifest. name and namespace stand in for what the
// properties do not give.
func parse(raw json.RawMessage, name, namespace string) (*manifest.Manifest, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("read the properties: %w", err)
	}
	if all == nil {
		all = map[string]any{} // the properties are null
	}
	for _, key := range about {
		delete(all, key)
	}
	all["Name"], all["Namespace"] = name, namespace
	limits := names(fields(map[string]shape{
		"": number, "Soft": flag, "CarryDebt": flag, "ResetSchedule": items(fields(nil)), "Schedule": items(fields(map[string]shape{"": number, "Cron": nil, "Until": nil, "Tz": nil, "Scale": decimal})),
	}))
	level := fields(map[string]shape{"Limits": limits, "Slots": names(number), "Disabled": flag, "Cascade": flag})
	text, err := json.Marshal(fields(map[string]shape{
		"System": level, "Resources": names(level),
		"Entities": names(fields(map[string]shape{"Resources": names(level), "Cascade": flag})),
	})(all))
	if err != nil {
		return nil, fmt.Errorf("encode the properties: %w", err)
	}
	return manifest.Parse("properties", text)
}

// fields is the shape of an object with fixed keys. The shape of "" is that of all other
// keys. A key in two spellings gets a name that the manifest refuses.
func fields(of map[string]shape) shape {
	return func(v any) any {
		object, ok := v.(map[string]any)
		if !ok {
			return v
		}
		turned, spelled := make(map[string]any, len(object)), make(map[string]string, len(object))
		for _, key := range slices.Sorted(maps.Keys(object)) {
			value, name := object[key], snake(key)
			if other, twice := spelled[name]; twice {
				name = fmt.Sprintf("%s (given as %s and %s)", name, other, key)
			}
			spelled[name] = key
			if turn := of[key]; turn != nil {
				value = turn(value)
			} else if turn := of[""]; turn != nil {
				value = turn(value)
			}
			turned[name] = value
		}
		return turned
	}
}

// names is the shape of an object whose keys are names.
func names(of shape) shape {
	return func(v any) any {
		object, ok := v.(map[string]any)
		if !ok {
			return v
		}
		for key, value := range object {
			object[key] = of(value)
		}
		return object
	}
}

// items is the shape of a list.
func items(of shape) shape {
	return func(v any) any {
		list, ok := v.([]any)
		if !ok {
			return v
		}
		for i := range list {
			list[i] = of(list[i])
		}
		return list
	}
}

// number turns a string of digits into a number.
func number(v any) any {
	s, ok := v.(string)
	if !ok || s == "" || strings.Trim(s, "0123456789") != "" {
		return v
	}
	if digits := strings.TrimLeft(s, "0"); digits != "" {
		return json.Number(digits)
	}
	return json.Number("0")
}

// flag turns a string that is true or false into that.
func flag(v any) any {
	switch v {
	case "true", "false":
		return v == "true"
	}
	return v
}

// decimal turns a string that is a decimal number into one.
func decimal(v any) any {
	s, ok := v.(string)
	if _, err := strconv.ParseFloat(s, 64); !ok || err != nil || strings.Trim(s, "0123456789.") != "" || s[0] == '.' {
		return v
	}
	return json.Number(s)
}

// snake turns RefillAmount into refill_amount.
func snake(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
