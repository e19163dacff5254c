package mapping

import (
	"fmt"
	"strconv"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/yamlfile"
)

// ParseMessages reads what a management server sends to envoyproxy/ratelimit in place of files. A
// message means what the file with the same content does: it becomes the tree of that file, and the
// reader of the files reads it (ADR 066). The error names the message, its domain and the field.
func ParseMessages(all []*ratelimit.RateLimitConfig) (*Rules, error) {
	reading, size := newReading(), 0
	for _, m := range all {
		name := fmt.Sprintf("resource %.64q, domain %.64q", m.GetName(), m.GetDomain())
		if size += sizeOf(m.GetDescriptors()); size > maxNodes {
			reason := fmt.Sprintf("there are more than %d of them and of replaces: use fewer descriptors, which take any value of a key", maxNodes)
			return nil, yamlfile.ErrorOf(name, []yamlfile.Finding{{Path: "descriptors", Reason: reason}})
		}
		if err := reading.read(name, func(r *reader) { r.reference(place{Node: documentOf(m)}) }); err != nil {
			return nil, err
		}
	}
	return reading.rules, nil
}

// sizeOf is how many descriptors there are, with the limits that they replace. A message of a few bytes
// for each would become a tree of many more.
func sizeOf(all []*ratelimit.RateLimitDescriptor) (n int) {
	for _, d := range all {
		n += 1 + len(d.GetRateLimit().GetReplaces()) + sizeOf(d.GetDescriptors())
	}
	return n
}

// documentOf is the file with the content of a message.
func documentOf(m *ratelimit.RateLimitConfig) *yaml.Node {
	to := mappingOf(m)
	add(to, "domain", text(m.GetDomain()))
	addDescriptors(to, m.GetDescriptors())
	return to
}

func addDescriptors(above *yaml.Node, all []*ratelimit.RateLimitDescriptor) {
	if len(all) == 0 {
		return
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, d := range all {
		to := mappingOf(d)
		add(to, "key", text(d.GetKey()))
		add(to, "value", text(d.GetValue()))
		add(to, "shadow_mode", boolean(d.GetShadowMode()))
		add(to, "quota_mode", boolean(d.GetQuotaMode()))
		add(to, "detailed_metric", boolean(d.GetDetailedMetric()))
		if l := d.GetRateLimit(); l != nil {
			add(to, "rate_limit", limitOf(l))
		}
		if m := d.GetMetadata(); m != nil {
			values := &yaml.Node{}
			if err := values.Encode(m.AsMap()); err != nil {
				values = text(err.Error()) // which is no mapping, so the reader finds it
			}
			add(to, "metadata", values)
		}
		addDescriptors(to, d.GetDescriptors())
		list.Content = append(list.Content, to)
	}
	add(above, "descriptors", list)
}

func limitOf(l *ratelimit.RateLimitPolicy) *yaml.Node {
	to := mappingOf(l)
	if unit := l.GetUnit(); unit != ratelimit.RateLimitUnit_UNKNOWN {
		add(to, "unit", text(unit.String())) // of a unit newer than this program, the number
	}
	add(to, "requests_per_unit", scalar("!!int", strconv.FormatUint(uint64(l.GetRequestsPerUnit()), 10)))
	add(to, "unlimited", boolean(l.GetUnlimited()))
	add(to, "name", text(l.GetName()))
	replaces := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, other := range l.GetReplaces() {
		item := mappingOf(other)
		add(item, "name", text(other.GetName()))
		replaces.Content = append(replaces.Content, item)
	}
	add(to, "replaces", replaces)
	return to
}

// mappingOf is an empty mapping, but for the fields of a message that are newer than this program.
// No file has such a key, so the reader finds it: a limit without what it does not know could be
// another limit.
func mappingOf(m proto.Message) *yaml.Node {
	to := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for rest := m.ProtoReflect().GetUnknown(); len(rest) > 0; {
		field, _, size := protowire.ConsumeField(rest)
		if size < 0 {
			break // no decoder keeps such fields
		}
		add(to, fmt.Sprintf("field %d", field), boolean(true))
		rest = rest[size:]
	}
	return to
}

func add(to *yaml.Node, key string, value *yaml.Node) {
	to.Content = append(to.Content, text(key), value)
}

func text(s string) *yaml.Node { return scalar("!!str", s) }

func boolean(b bool) *yaml.Node { return scalar("!!bool", strconv.FormatBool(b)) }

func scalar(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}
