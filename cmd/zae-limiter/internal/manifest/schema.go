package manifest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/store"
)

// The names that a manifest may hold, as regular expressions of JSON Schema. They say
// what package store checks; a test compares both.
const (
	namePattern     = `^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`
	namespaceFormat = `^[A-Za-z0-9][A-Za-z0-9_.:@/-]{0,63}$`
	entityPattern   = `^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,255}$`
	resourcePattern = `^[A-Za-z][A-Za-z0-9_./:-]{0,63}$`
	configPattern   = `^([A-Za-z][A-Za-z0-9_./:-]{0,63}|_default_)$`
	limitPattern    = `^[A-Za-z][A-Za-z0-9_.-]{0,63}$`
)

type object = map[string]any

// Schema is the JSON Schema of a manifest (draft 2020-12), for editors. It accepts what
// [Parse] accepts. It also accepts some files that Parse refuses: it cannot see a key that
// is given twice, compare a capacity with a burst, or see that a rate is too large.
func Schema() ([]byte, error) {
	text, err := json.MarshalIndent(object{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"$id":                  "https://github.com/zeroae/zae-limiter-go/blob/main/docs/manifest.schema.json",
		"title":                "zae-limiter manifest",
		"description":          "The limits of a namespace, or of the part of it that one owner declares.",
		"type":                 "object",
		"additionalProperties": false,
		"patternProperties":    object{"^x-": object{"description": "A template: a place for anchors. It declares nothing."}},
		"required":             []string{"namespace"},
		"properties": object{
			"name":      pattern(namePattern, `The owner of the declared levels. Manifests of different names leave each other's levels alone. The default is "default".`),
			"namespace": pattern(namespaceFormat, "The name of the namespace that the limits are for."),
			"system":    orNull(systemSchema()),
			"resources": orNull(mapping("Default limits by resource, for entities without limits of their own.", resourcePattern, ref("level"))),
			"entities":  orNull(mapping("Limits by entity.", entityPattern, entitySchema())),
		},
		"$defs": object{"level": levelSchema(), "limits": limitsSchema(), "limit": limitSchema()},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return append(text, '\n'), nil
}

func ref(name string) object { return object{"$ref": "#/$defs/" + name} }

func pattern(p, description string) object {
	return object{"type": "string", "pattern": p, "description": description}
}

// orNull also accepts a key whose value is left out.
func orNull(o object) object {
	o["type"] = []any{o["type"], "null"}
	return o
}

func mapping(description, names string, values object) object {
	return object{
		"type": "object", "description": description,
		"propertyNames": object{"pattern": names}, "additionalProperties": values,
	}
}

func structure(description string, required []string, properties object) object {
	return object{
		"type": "object", "description": description, "additionalProperties": false,
		"required": required, "properties": properties,
	}
}

func systemSchema() object {
	o := structure("The limits of every resource that has none of its own, what to do in an outage, or both. What is not given stays as it is.", []string{}, object{
		"limits": ref("limits"),
		"on_unavailable": object{
			"enum":        []any{string(store.Block), string(store.Allow)},
			"description": "What an acquire does when DynamoDB cannot be reached: block returns an error, allow admits without metering.",
		},
	})
	o["minProperties"] = 1
	return o
}

func entitySchema() object {
	return structure("The limits of one entity.", []string{"resources"}, object{
		"resources": orNull(mapping("Limits by resource. _default_ is for every resource for which the entity has none.", configPattern, ref("level"))),
	})
}

func levelSchema() object {
	return structure("All limits of one level. They replace the limits that are there.", []string{"limits"}, object{"limits": ref("limits")})
}

func limitsSchema() object {
	o := mapping(`Limits by name, "rpm" or "tpm" for instance.`, limitPattern, ref("limit"))
	o["propertyNames"] = object{"pattern": limitPattern, "not": object{"const": store.WriteLimit}}
	o["minProperties"], o["maxProperties"] = 1, store.MaxLimits
	return o
}

func limitSchema() object {
	return object{
		"description": "A token bucket: a rate and a burst, or a capacity and a refill.",
		"oneOf":       []any{ratedSchema(), filledSchema()},
	}
}

func ratedSchema() object {
	rate := whole(store.MaxTokens, `The tokens that the bucket earns in each period, as the command line has them: "100/min", "10/5min". The period is sec, min, hour or day, or a number of them; the default is a minute.`)
	rate["type"], rate["pattern"] = []any{"integer", "string"}, limitarg.RatePattern()
	return structure("A rate and a burst.", []string{"rate"}, object{
		"rate":  rate,
		"burst": whole(store.MaxTokens, "The most tokens that the bucket holds. The default is the rate."),
	})
}

func filledSchema() object {
	o := structure("A capacity and a refill, which the Python package reads, too.", []string{"capacity"}, object{
		"capacity":      whole(store.MaxTokens, "The most tokens that the bucket holds, unless burst says otherwise."),
		"refill_amount": whole(store.MaxTokens, "The tokens that the bucket earns in each refill period. The default is the capacity."),
		"refill_period": with(whole(int64(store.MaxPeriod/time.Second), "The refill period in seconds. The default is 60."), "default", defaultPeriod),
		"burst":         whole(store.MaxTokens, "The most tokens that the bucket holds. It replaces the capacity, and needs refill_amount beside it. The capacity then is the refill_amount, or the burst."),
	})
	return with(o, "dependentRequired", object{"burst": []string{"refill_amount"}})
}

func whole(most int64, description string) object {
	return object{"type": "integer", "minimum": 1, "maximum": most, "description": description}
}

func with(o object, key string, value any) object {
	o[key] = value
	return o
}
