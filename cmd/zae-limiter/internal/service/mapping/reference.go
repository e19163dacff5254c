package mapping

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
)

// ReferenceSource reads the files of envoyproxy/ratelimit.
func ReferenceSource(path string) hot.Source[*Rules] {
	return hot.Source[*Rules]{Read: func() (hot.Files, error) { return hot.ReadYAML(path) }, Parse: ParseReference}
}

// Differences say what the rules of such files do not do as envoyproxy/ratelimit does.
var Differences = []string{
	"A limit is a bucket that fills all the time, and no window that begins anew. A month has 30 days, a year 365.",
	"Limits of the configuration of the table go before those of the files: use a namespace without any.",
	"A check, with 0 hits, is refused when nothing is left. The reference admits it at exactly the limit.",
	"A call that is refused takes all the same, into a debt of at most one capacity, if anything was left. The reference counts without end until the window ends.",
	"Metrics have no values of descriptors: detailed_metric and value_to_metric change nothing.",
}

// requests is the name of the limit of a descriptor.
const requests = "requests"

// maxNodes is how many descriptors there are at most: aliases can repeat one far more often than a
// file is long.
const maxNodes = 20_000

// A node is a place in the tree of a domain: what the entries so far lead to.
type node struct {
	below map[pattern]*node
	// wildcards are the patterns below whose value has a *, as the file has them.
	wildcards []pattern
	limit     *reference
	path      []string // the patterns that lead here
	// shares is the value with a * whose values share a limit; "" if each has its own.
	shares string
}

// A reference is a limit of a file.
type reference struct {
	limit     limiter.Limit
	unlimited bool
	shadow    bool
	quota     bool
	metadata  map[string]any
	keys      [2]string
	name      string
	replaces  []string
}

// units are the periods of units.
var units = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": day, "week": 7 * day, "month": 30 * day, "year": 365 * day,
}

const day = 24 * time.Hour

// ask maps a descriptor of a domain. The entity is named by all its entries: each combination of
// values has a limit of its own, unless values share one.
func (n *node) ask(domain string, d *Descriptor) (Ask, bool) {
	a, entries := Ask{Counts: true, Amounts: map[string]int64{requests: d.Hits}}, d.Entries
	if !d.IsLimited {
		for i, e := range d.Entries {
			if n = n.next(e); n == nil {
				return Ask{}, false
			}
			if n.shares != "" {
				entries = slices.Clone(entries)
				entries[i].Value = n.shares
			}
		}
		switch {
		case n.limit == nil:
			return Ask{}, false
		case n.limit.unlimited:
			return Ask{Unlimited: true, Replaces: n.limit.replaces}, true
		}
		a.Limit, a.Name, a.Replaces, a.Keys = &n.limit.limit, n.limit.name, n.limit.replaces, n.limit.keys
		a.Quota, a.Metadata = n.limit.quota, n.limit.metadata
		if n.limit.shadow {
			a.Mode = Shadow
		}
	}
	if d.Returns {
		a.Mode = Return
	}
	a.Entity = nameOf(entries)
	a.Resource = template{{domain, isText}}.name(nil, resourceName)
	return a, true
}

// nameOf is the name for all keys and values of entries: "tenant:acme:path:/". Where one of them
// has a colon, it is a hash.
func nameOf(entries []Entry) string {
	if text, isPlain := joined(entries); isPlain {
		if name, ok := entityName(text); ok {
			return name
		}
	}
	var t template
	for i, e := range entries {
		text := ":" + e.Key + ":"
		if i == 0 {
			text = text[1:]
		}
		t = append(t, segment{text, isText}, segment{"", i})
	}
	return t.hash(entries)
}

// joined are all keys and values of entries, with colons between them. isPlain says that none of them has one.
func joined(entries []Entry) (text string, isPlain bool) {
	var b strings.Builder
	size := 0
	for _, e := range entries {
		size += len(e.Key) + len(e.Value) + len("::")
	}
	b.Grow(size)
	for i, e := range entries {
		if strings.Contains(e.Key, ":") || strings.Contains(e.Value, ":") {
			return "", false
		}
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(e.Key)
		b.WriteByte(':')
		b.WriteString(e.Value)
	}
	return b.String(), true
}

// next is the node of the next entry: of its value, of the first wildcard that fits, or of any value.
func (n *node) next(e Entry) *node {
	if next, ok := n.below[pattern{key: e.Key, value: e.Value}]; ok && e.Value != "" {
		return next
	}
	for _, p := range n.wildcards {
		if p.key == e.Key && isLike(e.Value, p.value) {
			return n.below[p]
		}
	}
	return n.below[pattern{key: e.Key, any: true}]
}

// isLike reports whether a value is like one with wildcards: each * stands for any text.
func isLike(value, wildcard string) bool {
	first, rest, _ := strings.Cut(wildcard, "*")
	value, ok := strings.CutPrefix(value, first)
	for ok {
		next, more, isMore := strings.Cut(rest, "*")
		if !isMore {
			return strings.HasSuffix(value, rest)
		}
		_, value, ok = strings.Cut(value, next)
		rest = more
	}
	return false
}

// ParseReference reads files of envoyproxy/ratelimit. Each has one domain.
func ParseReference(files hot.Files) (*Rules, error) {
	return parse(files, (*reader).reference)
}

func (r *reader) reference(root place) {
	var domain, descriptors place
	r.Fields(root, map[string]func(place){"domain": func(p place) { domain = p }, "descriptors": func(p place) { descriptors = p }})
	switch {
	case !root.IsMapping():
		return
	case domain.Node == nil:
		r.Find(root, "domain is missing: give the domain of the filter")
		return
	}
	name, ok := r.Text(domain)
	if !ok {
		return
	}
	r.domain(name, domain, func(to *rules) {
		to.tree = &node{}
		if descriptors.Node != nil {
			r.descriptors(descriptors, to.tree)
		}
	})
}

// descriptors reads the nodes below a node.
func (r *reader) descriptors(p place, to *node) {
	to.below = map[pattern]*node{}
	if r.depth++; r.depth > MaxEntries {
		r.Find(p, "descriptors are nested more than %d times: no request has as many entries", MaxEntries)
		r.Stopped = true
		return
	}
	defer func() { r.depth-- }()
	r.Items(p, func(_ int, item place) {
		if r.rules.count++; r.rules.count > maxNodes {
			r.Find(item, "there are more than %d descriptors: use fewer, which take any value of a key", maxNodes)
			r.Stopped = true
			return
		}
		at, next := r.descriptor(item, to)
		if _, isThere := to.below[at]; isThere {
			r.Find(item, "the key and the value are there twice: keep one")
		}
		to.below[at] = next
		if strings.Contains(at.value, "*") {
			to.wildcards = append(to.wildcards, at)
		}
	})
}

func (r *reader) descriptor(p place, above *node) (at pattern, to *node) {
	at.any, to = true, &node{path: above.path}
	var below place
	var with reference // the keys of the descriptor that are about its limit
	text := func(into *string) func(place) {
		return func(p place) { *into, _ = r.Text(p) }
	}
	ignored, isShared := func(p place) { r.Bool(p) }, false // of metrics
	r.Fields(p, map[string]func(place){
		"key": text(&at.key), "value": text(&at.value), "shadow_mode": func(p place) { with.shadow = r.Bool(p) },
		"quota_mode": func(p place) { with.quota = r.Bool(p) }, "metadata": func(p place) { with.metadata = r.metadata(p) },
		"rate_limit": func(p place) { to.limit = r.limit(p) }, "descriptors": func(p place) { below = p },
		"detailed_metric": ignored, "value_to_metric": ignored, "share_threshold": func(p place) { isShared = r.Bool(p) },
	})
	if p.IsMapping() && at.key == "" {
		r.Find(p, "key is missing: give the key of an entry")
	}
	if isShared {
		if to.shares = at.value; !strings.Contains(at.value, "*") {
			r.Find(p.Below("share_threshold"), "only values with a * share a limit: leave it out")
		}
	}
	at.any = at.value == ""
	if to.path = append(slices.Clip(to.path), at.String()); below.Node != nil {
		r.descriptors(below, to)
	}
	if to.limit != nil {
		copy(to.limit.keys[:], to.path)
		to.limit.shadow, to.limit.quota, to.limit.metadata = with.shadow, with.quota, with.metadata
	}
	return at, to
}

// metadata reads what a proxy gets as it is: anything that JSON can say.
func (r *reader) metadata(p place) (values map[string]any) {
	if !r.isSmall(p.Node) {
		r.Find(p, "metadata of all descriptors is larger than 1 MB, with what aliases repeat: repeat less")
		r.Stopped = true
		return nil
	}
	var read map[string]any
	err := p.Node.Decode(&read)
	text, invalid := json.Marshal(read)
	if err = cmp.Or(err, invalid); err == nil {
		err = json.Unmarshal(text, &values)
	}
	if err != nil {
		r.Find(p, "give names with values of JSON: %v", err)
	}
	return values
}

// isSmall reports whether metadata is small enough to be decoded, together with what was read before. Without
// aliases it always is: a file has no more bytes.
func (r *reader) isSmall(n *yaml.Node) bool {
	for left := []*yaml.Node{n}; len(left) > 0 && r.rules.metadata <= MaxBytes; {
		last := len(left) - 1
		if n, left = left[last], left[:last]; n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		r.rules.metadata += len(n.Value) + len(n.Content)
		left = append(left, n.Content...)
	}
	return r.rules.metadata <= MaxBytes
}

func (r *reader) limit(p place) *reference {
	to, unit, amount := &reference{}, "", int64(0)
	r.Fields(p, map[string]func(place){
		"unit":              func(p place) { unit, _ = r.Text(p) },
		"requests_per_unit": func(p place) { amount, _ = r.Number(p, 0, 1<<32-1) },
		"unlimited":         func(p place) { to.unlimited = r.Bool(p) },
		"name":              func(p place) { to.name, _ = r.Text(p) },
		"replaces": func(p place) {
			r.Items(p, func(_ int, item place) {
				r.Fields(item, map[string]func(place){"name": func(p place) {
					name, _ := r.Text(p)
					to.replaces = append(to.replaces, name)
				}})
			})
		},
	})
	period, isUnit := units[strings.ToLower(unit)]
	switch {
	case to.unlimited && isUnit:
		r.Find(p, "a descriptor without a limit has no unit: leave it out")
	case !to.unlimited && !isUnit:
		r.Find(p.Below("unit"), "give second, minute, hour, day, week, month or year, not %q", unit)
	case slices.Contains(to.replaces, to.name) || slices.Contains(to.replaces, ""):
		r.Find(p.Below("replaces"), "give names of other limits")
	}
	to.limit = limiter.Custom(requests, amount, period)
	return to
}
