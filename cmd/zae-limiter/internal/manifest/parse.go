package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/yamlfile"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Finding is one reason why a file is not a manifest.
type Finding = yamlfile.Finding

// A ParseError has all findings about a file, by their position. It is
// [store.ErrInvalid].
type ParseError = yamlfile.ParseError

// MaxBytes is the size of the largest file that [Parse] reads.
const MaxBytes = 64 << 20

// maxLevels bounds what a file declares, so that one from elsewhere cannot use up the
// memory.
const maxLevels = 200_000

// unsupported are the keys of the peer's manifests for features that this version
// cannot keep.
var unsupported = []string{"schedule", "schedules"}

// form is what a file of a manifest is, for messages.
var form = yamlfile.Form{
	MaxBytes: MaxBytes,
	TooLarge: "the file is larger than 64 MB: split it into manifests of different names",
	Empty:    "the file is empty: give at least the namespace",
	Second:   "the file has a second document: keep one manifest in a file",
	Unknown: func(key string) string {
		if slices.Contains(unsupported, key) {
			return strconv.Quote(key) + " is not supported by this version: remove it, or manage this level with a client that supports it"
		}
		return ""
	},
}

// A reader reads the parts of a manifest.
type reader struct{ *yamlfile.Reader }

// A place is a value in the file.
type place = yamlfile.Place

// Parse reads a manifest from YAML or JSON. file is its name in errors. It fails with a
// [*ParseError], which has everything that is wrong with the file.
func Parse(file string, data []byte) (*Manifest, error) {
	r := &reader{yamlfile.NewReader(form)}
	var m *Manifest
	if root, ok := r.Root(data); ok {
		m = r.manifest(root)
		m.Source.file = file
	}
	if err := r.Err(file); err != nil {
		return nil, err
	}
	if err := (&tree{of: m}).check(); err != nil {
		return nil, err
	}
	return m, nil
}

func (r *reader) manifest(p place) *Manifest {
	m := &Manifest{Name: DefaultName, Levels: map[store.ConfigKey]Level{}}
	hasNamespace := false
	r.Fields(p, map[string]func(place){
		"name": func(p place) { m.Name = r.name(p, store.CheckManifest) },
		"namespace": func(p place) {
			hasNamespace = true
			m.Namespace = r.name(p, store.CheckNamespace)
		},
		"system": func(p place) { r.system(p, m) },
		"resources": func(p place) {
			r.levels(p, store.CheckResource, func(name string) store.ConfigKey { return store.ConfigKey{Resource: name} }, m)
		},
		"entities": func(p place) { r.entities(p, m) },
	})
	if p.IsMapping() && !hasNamespace {
		r.Find(p, "the namespace is missing: give namespace: default, for instance")
	}
	return m
}

// name reads a string that must be a name.
func (r *reader) name(p place, check func(string) error) string {
	s, ok := r.Text(p)
	if ok {
		r.Invalid(p, check(s))
	}
	return s
}

func (r *reader) system(p place, m *Manifest) {
	if p.IsNull() {
		return
	}
	var l Level
	r.Fields(p, map[string]func(place){
		"limits":         func(p place) { l.Limits = r.limits(p) },
		"slots":          func(p place) { l.Slots = r.slots(p) },
		"on_unavailable": func(p place) { l.OnUnavailable = r.onUnavailable(p) },
	})
	if p.IsMapping() && p.Len() == 0 {
		r.Find(p, "the level is empty: give limits, slots or on_unavailable, or remove it")
	}
	m.Levels[store.ConfigKey{}] = l
}

func (r *reader) onUnavailable(p place) store.OnUnavailable {
	s, ok := r.Text(p)
	on := store.OnUnavailable(s)
	if ok && (on == "" || on.Validate() != nil) {
		r.Find(p, `give "block", "allow" or "share", not %q`, s)
	}
	return on
}

// levels reads a mapping of resources to their levels.
func (r *reader) levels(p place, check func(string) error, key func(string) store.ConfigKey, m *Manifest) {
	if p.IsNull() {
		return
	}
	r.Entries(p, func(name string, k, value place) {
		r.Invalid(k, check(name))
		r.add(k, m, key(name), func() Level { return r.level(value) })
	})
}

// add adds a level to the manifest, if there is room for it.
func (r *reader) add(p place, m *Manifest, k store.ConfigKey, level func() Level) {
	if len(m.Levels) == maxLevels {
		r.Find(p, "the file has more than %d levels: split it into manifests of different names", maxLevels)
		r.Stopped = true
		return
	}
	m.Levels[k] = level()
}

func (r *reader) level(p place) (l Level) {
	r.Fields(p, map[string]func(place){
		"limits":   func(p place) { l.Limits = r.limits(p) },
		"slots":    func(p place) { l.Slots = r.slots(p) },
		"disabled": func(p place) { l.Disabled.Policy = r.disabled(p) },
		"until":    func(p place) { l.Disabled.Until = r.until(p) },
		"cascade":  func(p place) { l.Cascade = r.policy(p) },
	})
	switch {
	case p.IsMapping() && !p.Has("limits") && !p.Has("slots") && !p.Has("disabled") && !p.Has("cascade"):
		r.Find(p, "the limits are missing: give limits, slots, disabled or cascade, or remove the level")
	case p.IsMapping() && p.Has("until") && !p.Has("disabled"):
		r.Find(p, "until is the end of a switch: give disabled: true or bypass, or remove until")
	}
	return l
}

// policy reads true or false.
func (r *reader) policy(p place) store.Policy {
	if r.Bool(p) {
		return store.Yes
	}
	return store.No
}

// disabled reads a switch.
func (r *reader) disabled(p place) store.Policy {
	switch {
	case p.Node.Value == bypass:
		return store.Bypass
	case p.Node.Tag == "!!str":
		r.Find(p, "give true or false or bypass, not %s", p.Describe())
		return store.Inherit
	default:
		return r.policy(p)
	}
}

// until reads when a switch ends, in milliseconds.
func (r *reader) until(p place) int64 {
	s, ok := r.Text(p)
	if !ok {
		return 0
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.UnixMilli() <= 0 {
		r.Find(p, "give a time like 2026-01-02T15:04:05Z, not %q", s)
		return 0
	}
	return t.UnixMilli()
}

func (r *reader) entities(p place, m *Manifest) {
	if p.IsNull() {
		return
	}
	r.Entries(p, func(entity string, k, value place) {
		r.Invalid(k, store.CheckEntity(entity))
		r.Fields(value, map[string]func(place){
			parentField: func(p place) {
				r.record(k, m, entity, p, func(l *Level) {
					parent := r.parent(p)
					l.Parent = &parent
				})
			},
			cascadeField: func(p place) {
				r.record(k, m, entity, p, func(l *Level) { l.Cascade = r.policy(p) })
			},
			"resources": func(p place) {
				r.levels(p, store.CheckConfigResource, func(name string) store.ConfigKey {
					return store.ConfigKey{Entity: entity, Resource: name}
				}, m)
			},
		})
		if value.IsMapping() && !value.Has("resources") && !value.Has(parentField) && !value.Has(cascadeField) {
			r.Find(value, "the resources are missing: give resources with %s for limits of every resource, or a parent, or remove the entity", store.DefaultResource)
		}
	})
}

// limits reads a mapping of names to limits, at least one.
func (r *reader) limits(p place) (limits []store.Limit) {
	if n := p.Len(); p.IsMapping() && n > store.MaxLimits {
		r.Find(p, "give at most %d limits, not %d", store.MaxLimits, n)
		return nil
	}
	before := len(r.Findings)
	r.Entries(p, func(name string, k, value place) {
		r.Invalid(k, store.CheckLimitName(name))
		limits = append(limits, r.limit(name, value))
	})
	if len(limits) == 0 && len(r.Findings) == before {
		r.Find(p, "give at least one limit, or remove the level")
	}
	slices.SortFunc(limits, func(a, b store.Limit) int { return cmp.Compare(a.Name, b.Name) })
	if len(r.Findings) == before {
		r.Invalid(p, store.ValidateLimits(limits))
	}
	return limits
}

// slots reads a mapping of names to numbers of slots, at least one.
func (r *reader) slots(p place) string {
	var limits []store.SlotLimit
	before := len(r.Findings)
	r.Entries(p, func(name string, k, value place) {
		r.Invalid(k, store.CheckLimitName(name))
		if value.IsMapping() && value.Has("mode") {
			r.Entries(value, func(key string, _, mode place) {
				if key == "mode" {
					r.Invalid(mode, limitarg.SlotsInMode("the number of "+name, r.text(mode)))
				}
			})
			return
		}
		limits = append(limits, store.SlotLimit{Name: name, Slots: r.number(value, store.MaxSlots)})
	})
	if len(limits) == 0 && len(r.Findings) == before {
		r.Find(p, "give at least one limit of slots, inflight: 20 for instance, or remove slots")
	}
	slices.SortFunc(limits, func(a, b store.SlotLimit) int { return cmp.Compare(a.Name, b.Name) })
	if len(r.Findings) == before {
		r.Invalid(p, store.ValidateSlots(limits))
	}
	return limitarg.FormatSlots(limits)
}

// limit reads one limit, in one of four forms: a rate and a burst, or a quota, as the command
// line has them; a capacity and a refill, or resets, as the peer has them.
func (r *reader) limit(name string, p place) store.Limit {
	if p.IsScalar() {
		r.Find(p, "give the parts of the limit, {rate: 100/min, burst: 150} for instance, not %s", p.Describe())
		return store.Limit{}
	}
	switch {
	case p.IsMapping() && (p.Has("quota") || p.Has("renews")):
		return r.quota(name, p)
	case p.IsMapping() && (p.Has("reset_schedule") || p.Has("reset_after_seconds")):
		return r.scheduled(name, p)
	}
	if p.IsMapping() && !p.Has("capacity") && !p.Has("refill_amount") && !p.Has("refill_period") {
		return r.rated(name, p)
	}
	return r.filled(name, p)
}

// quota reads the tokens of a quota, and when it renews.
func (r *reader) quota(name string, p place) store.Limit {
	l, before := store.Limit{Name: name}, len(r.Findings)
	var words, zone string
	at, in := p, p
	r.Fields(p, map[string]func(place){
		"quota":   func(p place) { l.Capacity = r.number(p, store.MaxTokens) },
		"renews":  func(p place) { at, words = p, r.text(p) },
		"zone":    func(p place) { in, zone = p, r.text(p) },
		"soft":    func(p place) { l.Soft = r.Bool(p) },
		"mode":    func(p place) { r.mode(&l, p) },
		"returns": func(p place) { l.Returns = int(r.number(p, store.MaxReturns)) },

		"schedule":   func(p place) { l.Varies = r.schedule(p) },
		"rollover":   func(p place) { l.Carries.Rollover = r.number(p, store.MaxTokens) },
		"carry_debt": func(p place) { l.Carries.Debt = r.Bool(p) },
	})
	if !p.Has("quota") {
		r.Find(p, "the quota is missing: give quota: 1000, for instance")
	}
	if !p.Has("renews") {
		r.Find(p, "renews is missing: give renews: day, for instance")
	}
	if len(r.Findings) == before {
		l.Renews = r.renewal(words, zone, at, in)
	}
	return l
}

// scheduled reads a capacity, and when a quota renews, as the peer has them. The peer permits
// a refill that means nothing: an amount of 0, and a period.
func (r *reader) scheduled(name string, p place) store.Limit {
	l, before := store.Limit{Name: name}, len(r.Findings)
	var patterns, zones []string
	var seconds int64
	at := p
	r.Fields(p, map[string]func(place){
		"capacity": func(p place) { l.Capacity = r.number(p, store.MaxTokens) },
		"schedule": func(p place) { l.Varies = r.schedule(p) },
		"soft":     func(p place) { l.Soft = r.Bool(p) },
		"mode":     func(p place) { r.mode(&l, p) },
		"returns":  func(p place) { l.Returns = int(r.number(p, store.MaxReturns)) },
		"refill_amount": func(p place) {
			if n, ok := r.Number(p, 0, store.MaxTokens); ok && n > 0 {
				r.Find(p, "a limit refills or resets: remove refill_amount, or reset_schedule")
			}
		},
		"refill_period": func(p place) { r.number(p, int64(store.MaxPeriod/time.Second)) },
		"reset_schedule": func(p place) {
			at = p
			zones = r.entries(p, "reset_schedule", func(place) (map[string]func(place), *string) {
				patterns = append(patterns, "")
				return map[string]func(place){}, &patterns[len(patterns)-1]
			})
		},
		"reset_after_seconds": func(p place) { seconds = r.number(p, int64(store.MaxPeriod/time.Second)) },
	})
	if p.Has("reset_schedule") && p.Has("reset_after_seconds") {
		r.Find(p, "a quota renews by a calendar or after its first use: remove reset_schedule, or reset_after_seconds")
	}
	if !p.Has("capacity") {
		r.Find(p, "the capacity is missing: give the most tokens that the limit holds")
	}
	if len(r.Findings) == before && seconds > 0 {
		l.Renews = r.renewal(fmt.Sprintf("session %ds", seconds), "", at, at)
	}
	if len(r.Findings) == before && len(zones) > 0 {
		l.Renews = r.renewal(strings.Join(patterns, ";"), zones[0], at, at)
	}
	return l
}

// cron reads five fields of cron. The peer refuses words.
func (r *reader) cron(p place) string {
	s, ok := r.Text(p)
	fields := strings.Fields(s)
	if ok && (len(fields) != 5 || strings.ContainsFunc(fields[0], unicode.IsLetter)) {
		r.Find(p, "give five fields of cron, \"0 0 * * *\" for instance, not %q; for words write quota and renews instead", s)
	}
	return s
}

// renewal reads when a quota renews. at and in are the places of the words and of the zone.
func (r *reader) renewal(words, zone string, at, in place) *store.Renewal {
	renews, err := store.ParseRenewal(words, zone)
	if wrong, ok := errors.AsType[*store.ValidationError](err); ok && wrong.Field == "renewal: zone" {
		at = in
	}
	r.Invalid(at, err)
	return renews
}

// text reads a string, "" if there is none.
func (r *reader) text(p place) string {
	s, _ := r.Text(p)
	return s
}

// rated reads a rate and a burst. The burst defaults to the rate.
func (r *reader) rated(name string, p place) store.Limit {
	l := store.Limit{Name: name}
	r.Fields(p, map[string]func(place){
		"rate":     func(p place) { l.Amount, l.Period = r.rate(p) },
		"burst":    func(p place) { l.Capacity = r.number(p, store.MaxTokens) },
		"schedule": func(p place) { l.Varies = r.schedule(p) },
		"soft":     func(p place) { l.Soft = r.Bool(p) },
		"mode":     func(p place) { r.mode(&l, p) },
		"returns":  func(p place) { l.Returns = int(r.number(p, store.MaxReturns)) },
	})
	if !p.Has("rate") {
		r.Find(p, "the rate is missing: give rate: 100/min, for instance")
	}
	l.Capacity = cmp.Or(l.Capacity, l.Amount)
	return l
}

// mode reads in which mode a limit is.
func (r *reader) mode(l *store.Limit, p place) {
	text := r.text(p)
	is, err := l.InMode(text)
	if err != nil && text != "" { // what is no text was found already
		r.Find(p, "%v", err)
		return
	}
	*l = is
}

// rate reads tokens for each period, or tokens for each minute.
func (r *reader) rate(p place) (amount int64, period time.Duration) {
	if !p.IsString() {
		return r.number(p, store.MaxTokens), time.Minute
	}
	rate, burst, hasBurst := strings.Cut(p.Node.Value, ":")
	amount, period, err := limitarg.ParseRate(rate)
	switch {
	case hasBurst:
		r.Find(p, "give the burst on its own: {rate: %s, burst: %s}", rate, burst)
	case err != nil:
		r.Find(p, "%v", err)
	}
	return amount, period
}

// filled reads a capacity and a refill. The amount defaults to the capacity, the period
// to a minute. The burst replaces the capacity.
func (r *reader) filled(name string, p place) store.Limit {
	var burst int64
	seconds, before := int64(defaultPeriod), len(r.Findings)
	l := store.Limit{Name: name}
	r.Fields(p, map[string]func(place){
		"capacity":      func(p place) { l.Capacity = r.number(p, store.MaxTokens) },
		"refill_amount": func(p place) { l.Amount = r.number(p, store.MaxTokens) },
		"refill_period": func(p place) { seconds = r.number(p, int64(store.MaxPeriod/time.Second)) },
		"burst":         func(p place) { burst = r.number(p, store.MaxTokens) },
		"schedule":      func(p place) { l.Varies = r.schedule(p) },
		"soft":          func(p place) { l.Soft = r.Bool(p) },
		"mode":          func(p place) { r.mode(&l, p) },
		"returns":       func(p place) { l.Returns = int(r.number(p, store.MaxReturns)) },
		"rate": func(place) {
			r.Find(p, "give rate and burst, or capacity, refill_amount and refill_period, and not both: rate says how many tokens there are for each period")
		},
	})
	l.Period = time.Duration(seconds) * time.Second
	if len(r.Findings) == before {
		r.checkFilled(p, l, burst)
	}
	l.Amount = cmp.Or(l.Amount, l.Capacity)
	l.Capacity = cmp.Or(burst, l.Capacity)
	return l
}

// checkFilled reports a capacity that is missing or would have no effect. The peer
// requires one, also where a burst replaces it. It reads a burst without an amount as the
// amount, too, but not in all versions.
func (r *reader) checkFilled(p place, l store.Limit, burst int64) {
	meant := l
	meant.Amount = cmp.Or(l.Amount, l.Capacity, burst)
	mend := fmt.Sprintf("write {rate: %s, burst: %d}", limitarg.FormatRate(meant), burst)
	switch {
	case l.Capacity == 0 && burst > 0:
		r.Find(p, "the capacity is missing: %s instead", mend)
	case l.Capacity == 0:
		r.Find(p, "the capacity is missing: give the most tokens that the limit holds")
	case burst > 0 && l.Amount == 0:
		r.Find(p, "burst needs refill_amount, which versions of the Python package take from different keys: %s", mend)
	case burst > 0 && l.Capacity != burst && l.Capacity != l.Amount:
		r.Find(p, "capacity %d has no effect, because burst %d replaces it: %s", l.Capacity, burst, mend)
	}
}

// number reads a whole number from 1 to most, 0 if there is none.
func (r *reader) number(p place, most int64) int64 {
	n, _ := r.Number(p, 1, most)
	return n
}
