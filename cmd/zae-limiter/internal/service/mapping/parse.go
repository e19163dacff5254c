package mapping

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/yamlfile"
	"github.com/zeroae/zae-limiter-go/store"
)

// Bounds of rules.
const (
	// MaxBytes is the size of the largest file, and of all files together.
	MaxBytes = 1 << 20
	// maxRules is how many rules there are at most. A descriptor is compared with those of its domain
	// in turn.
	maxRules = 1000
	// MaxEntries is how many entries a rule has at most.
	MaxEntries = 32
)

var form = yamlfile.Form{
	MaxBytes: MaxBytes,
	TooLarge: "the file is larger than 1 MB: use fewer rules, which take any value of a key",
	Empty:    "the file is empty: give domains with their rules",
	Second:   "the file has a second document: keep one in a file",
}

type place = yamlfile.Place

// Source reads the rules of a file, or of the files of a folder. Rules that ask for leases are not
// valid unless there are keys that sign them.
func Source(path string, signs bool) hot.Source[*Rules] {
	return hot.Source[*Rules]{Read: func() (hot.Files, error) { return hot.ReadYAML(path) }, Parse: func(files hot.Files) (*Rules, error) {
		all, err := Parse(files)
		if err == nil && all.leases && !signs {
			return nil, errors.New("a rule has lease or settle, and no key signs leases: start the service with --lease-key-file")
		}
		return all, err
	}}
}

// Parse reads rules from files. Each domain is in one of them. The error is a
// [*yamlfile.ParseError], which has everything that is wrong with the first file that is not valid.
func Parse(files hot.Files) (*Rules, error) { return parse(files, (*reader).root) }

// parse reads files, each by a function.
func parse(files hot.Files, root func(*reader, place)) (*Rules, error) {
	all := newReading()
	size := 0
	for _, name := range files.Names() {
		text := files[name]
		if size += len(text); size > MaxBytes {
			return nil, yamlfile.ErrorOf(name, []yamlfile.Finding{{Reason: "the files together are larger than 1 MB: use fewer rules, which take any value of a key"}})
		}
		err := all.read(name, func(r *reader) {
			if p, ok := r.Root(text); ok {
				root(r, p)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all.rules, nil
}

// A reading makes rules of several documents.
type reading struct {
	rules *Rules
	from  map[string]string // the document of each domain
}

func newReading() *reading {
	return &reading{&Rules{domains: map[string]*rules{}}, map[string]string{}}
}

// read reads a document by a function.
func (all *reading) read(name string, f func(*reader)) error {
	r := &reader{Reader: yamlfile.NewReader(form), reading: all, name: name}
	f(r)
	return r.Err(name)
}

// A reader makes rules of a document.
type reader struct {
	*yamlfile.Reader
	*reading

	name  string // of the document
	depth int    // of descriptors of envoyproxy/ratelimit
}

func (r *reader) root(root place) {
	r.Fields(root, map[string]func(place){"domains": func(p place) {
		r.Entries(p, func(name string, key, value place) {
			r.domain(name, key, func(to *rules) { to.list = r.list(value) })
		})
	}})
	if root.IsMapping() && !root.Has("domains") {
		r.Find(root, "domains is missing: give the names of domains with their rules")
	}
}

// domain reads a domain. It is there once.
func (r *reader) domain(name string, at place, read func(*rules)) {
	if name == "" {
		r.Find(at, "the name of the domain is empty: give the domain of the filter")
	}
	if other, ok := r.from[name]; ok {
		r.Find(at, "the domain is in %s, too: keep its rules in one place", other)
		return
	}
	to := &rules{}
	r.from[name], r.rules.domains[name] = r.name, to
	read(to)
}

func (r *reader) list(p place) []rule {
	list := []rule{}
	r.Items(p, func(_ int, item place) {
		next := r.rule(item)
		if i := slices.IndexFunc(list, func(earlier rule) bool { return earlier.covers(&next) }); i >= 0 && len(next.entries) > 0 {
			r.Find(item, "rule %d of the domain fits every descriptor that this one fits: put this one before it", i+1)
		}
		list = append(list, next)
		if r.rules.count++; r.rules.count > maxRules {
			r.Find(item, "there are more than %d rules: use fewer, which take any value of a key", maxRules)
			r.Stopped = true
		}
	})
	return list
}

// covers reports whether a rule fits all descriptors that another one fits.
func (r *rule) covers(other *rule) bool {
	return slices.EqualFunc(r.entries, other.entries, func(p, o pattern) bool {
		return p.key == o.key && (p.any || !o.any && p.value == o.value)
	})
}

// rule reads a rule. The names come last, because their variables are keys of entries.
func (r *reader) rule(p place) (to rule) {
	var entity, resource place
	amounts := func(mode Mode, least int) func(place) {
		return func(at place) {
			if mode == Take && p.Has("slots") {
				least = 0 // slots alone
			}
			to.mode, to.amounts = mode, r.amounts(at, least)
		}
	}
	isShadow := false
	r.Fields(p, map[string]func(place){
		"entries":  func(p place) { to.entries = r.entries(p) },
		"entity":   func(p place) { entity = p },
		"resource": func(p place) { resource = p },
		"take":     amounts(Take, 1),
		"charge":   amounts(Charge, 1),
		"settle":   amounts(Settle, 0),
		"lease":    func(p place) { to.within = r.within(p) },
		"slots":    func(p place) { to.slots = r.slots(p) },
		"shadow":   func(p place) { isShadow = r.Bool(p) },
	})
	if !p.IsMapping() {
		return to
	}
	for _, must := range [...]struct{ key, advice string }{
		{"entries", "give the keys of the descriptors that the rule is for"},
		{"entity", "give who takes, with {key} for the value of a key"},
		{"resource", "give what is taken of, with {key} for the value of a key"},
	} {
		if !p.Has(must.key) {
			r.Find(p.Below(must.key), "this key is missing: %s", must.advice)
		}
	}
	if count(p.Has("take"), p.Has("charge"), p.Has("settle")) != 1 {
		r.Find(p, "give one of take, which may refuse, charge, which never does, and settle, which ends a lease")
	}
	if isShadow && !p.Has("take") {
		r.Find(p.Below("shadow"), "only take refuses anybody: leave shadow out")
	}
	if p.Has("lease") && (isShadow || !p.Has("take")) {
		r.Find(p.Below("lease"), "only what take takes has a lease, and not in shadow: leave it out")
	}
	r.checkSlots(p, to.within)
	if p.Has("settle") && to.leaseEntry() < 0 {
		r.Find(p.Below("entries"), "settle needs the entry %s, with any value", leaseKey)
	}
	r.rules.leases = r.rules.leases || p.Has("lease") || p.Has("settle")
	if isShadow {
		to.mode = Shadow
	}
	to.entity = r.template(entity, to.entries, store.CheckEntity)
	to.resource = r.template(resource, to.entries, store.CheckResource)
	return to
}

func count(all ...bool) (n int) {
	for _, is := range all {
		if is {
			n++
		}
	}
	return n
}

// within reads within which time a lease is expected to be settled.
func (r *reader) within(p place) time.Duration {
	text, ok := r.Text(p)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > limiter.MaxTokenTime {
		r.Find(p, "give within which time the lease is settled, from 1s to %v: 10m for instance", limiter.MaxTokenTime)
	}
	return d
}

// entries reads the entries of a rule: a key for any value, or key=value.
func (r *reader) entries(p place) (patterns []pattern) {
	if p.IsList() && (p.Len() == 0 || p.Len() > MaxEntries) {
		r.Find(p, "give from 1 to %d entries, not %d", MaxEntries, p.Len())
		return nil
	}
	r.Items(p, func(_ int, item place) {
		text, ok := r.Text(item)
		if !ok {
			return
		}
		key, value, hasValue := strings.Cut(text, "=")
		if key == "" || strings.ContainsAny(key, "{}") {
			r.Find(item, "give the key of an entry, without braces, or key=value")
		}
		next := pattern{key, value, !hasValue}
		if next.any && slices.ContainsFunc(patterns, func(p pattern) bool { return p.any && p.key == key }) {
			r.Find(item, "the key is there twice for any value: give a value to one, as in %s=VALUE", key)
		}
		patterns = append(patterns, next)
	})
	return patterns
}

// hits is the amount that is the hits of the descriptor.
const hits = "hits"

func (r *reader) amounts(p place, least int) (amounts []amount) {
	if p.IsMapping() && (p.Len() < least || p.Len() > limiter.MaxLimits) {
		r.Find(p, "name from %d to %d limits, not %d", least, limiter.MaxLimits, p.Len())
		return nil
	}
	r.Entries(p, func(name string, key, value place) {
		if err := store.CheckLimitName(name); err != nil {
			r.Invalid(key, err)
		}
		if value.IsString() {
			if value.Node.Value != hits {
				r.Find(value, "give hits, or the tokens that each call takes")
			}
			amounts = append(amounts, amount{limit: name, isHits: true})
			return
		}
		n, _ := r.Number(value, 1, limiter.MaxTokens)
		amounts = append(amounts, amount{limit: name, tokens: n})
	})
	return amounts
}

// slots reads the slots of a rule: numbers by limit.
func (r *reader) slots(p place) map[string]int64 {
	if p.IsMapping() && (p.Len() == 0 || p.Len() > limiter.MaxLimits) {
		r.Find(p, "name from 1 to %d limits of slots, not %d", limiter.MaxLimits, p.Len())
		return nil
	}
	slots := map[string]int64{}
	r.Entries(p, func(name string, key, value place) {
		if err := store.CheckLimitName(name); err != nil {
			r.Invalid(key, err)
		}
		slots[name], _ = r.Number(value, 1, store.MaxSlots)
	})
	return slots
}

// checkSlots checks that a rule with slots has a lease that can hold them.
func (r *reader) checkSlots(rule place, within time.Duration) {
	switch {
	case !rule.Has("slots"):
	case !rule.Has("lease"):
		r.Find(rule.Below("slots"), "slots are held by a lease: give lease, too, %v or more", limiter.MinSlotsToken)
	case within < limiter.MinSlotsToken && within >= time.Second:
		r.Find(rule.Below("lease"), "slots are held until the lease is settled, or for this time: give %v or more", limiter.MinSlotsToken)
	}
}

// template reads the template of a name, and checks the text in it.
func (r *reader) template(p place, entries []pattern, check func(string) error) template {
	if p.Node == nil {
		return nil
	}
	text, ok := r.Text(p)
	if !ok {
		return nil
	}
	t, err := parseTemplate(text, entries)
	if err != nil {
		r.Find(p, "%v", err)
		return nil
	}
	if err := check(t.sample()); err != nil {
		r.Find(p, "with x for each variable: %v", err)
		return nil
	}
	return t
}
