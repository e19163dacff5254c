package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

const minute = time.Minute

// Peer's defect 21: its plan never saw that a level is equal, and showed no drift.
func TestAPlanShowsWhatDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := levels("a", "system=5", "r=10", "e/r=15")
	w.plan(m, false, "create system", "create r", "create e/r")
	w.apply(m, false, "create system", "create r", "create e/r")
	if p := w.plan(m, false, "unchanged system", "unchanged r", "unchanged e/r"); p.HasChanges() {
		t.Error("an equal table has changes")
	}
	w.set("r", 11)
	w.Must(w.Store.DeleteLimits(t.Context(), keyOf("e/r")))
	m = levels("a", "system=6", "r=10", "e/r=15")
	p := w.plan(m, false, "update system", "update r!", "create e/r!")
	if !p.HasChanges() || p.Changes[1].Before.Limits[0].Capacity != 11 || p.Changes[1].After.Limits[0].Capacity != 10 {
		t.Errorf("got %+v", p.Changes[1])
	}
	w.apply(m, false, "update system", "update r!", "create e/r!")
	w.plan(m, false, "unchanged system", "unchanged r", "unchanged e/r")
	w.holds("system", 6)
	w.holds("r", 10)
	w.holds("e/r", 15)
}

// Peer's defect 21: it wrote every level of a manifest each time.
func TestApplyingAgainWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := levels("a", "system=5", "r=10", "e/r=15")
	w.apply(m, false, "create system", "create r", "create e/r")
	before := w.Meter.Totals()
	w.apply(m, false, "unchanged system", "unchanged r", "unchanged e/r")
	if since := w.Meter.Totals().Sub(before); since.Sum().WCU != 0 {
		t.Errorf("writes: %v", since)
	}
}

// Peer's defect 22: what it provisioned was in no registry and no index.
func TestAppliedLevelsAreRegisteredIndexedAndAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(levels("a", "system=5", "r=10", "s=10", "e/r=15", "f/r=15", "f/_default_=1"), false,
		"create system", "create r", "create s", "create e/r", "create f/_default_", "create f/r")
	w.lists([]string{"r", "s"}, []string{"_default_", "r"}, []string{"e", "f"})
	page, err := w.Store.AuditEvents(t.Context(), audit.Query{Entity: "e"})
	if err != nil || len(page.Events) != 1 || page.Events[0].Action != audit.LimitsSet || page.Events[0].Principal != "deployer" {
		t.Errorf("got %+v, %v", page.Events, err)
	}
	w.indexed("#CONFIG", "#CONFIG#r", "#CONFIG#_default_", schema.ManifestKey("", "a", 0).SK, schema.ManifestVersionKey("").SK)
	w.apply(levels("a", "r=10", "f/r=15"), true,
		"delete system", "unchanged r", "delete s", "delete e/r", "delete f/_default_", "unchanged f/r")
	w.lists([]string{"r"}, []string{"r"}, []string{"f"})
	w.apply(levels("a"), true, "delete r", "delete f/r")
	w.lists(nil, nil, nil)
	w.owned(nil)
}

// lists compares the registries, and the entities with limits for r.
func (w *world) lists(resources, own, entities []string) {
	w.Helper()
	got, err := w.Store.ResourcesWithDefaults(w.Context())
	w.Must(err)
	w.want("resources", got, resources)
	got, err = w.Store.ResourcesWithEntityLimits(w.Context())
	w.Must(err)
	w.want("resources of entities", got, own)
	got, err = w.Store.EntitiesWithLimits(w.Context(), "r")
	w.Must(err)
	w.want("entities", got, entities)
}

// indexed requires sort keys in the index of the namespace, by which a purge finds
// items.
func (w *world) indexed(want ...string) {
	w.Helper()
	_, ns := w.Store.Namespace()
	seen := map[string]bool{}
	w.each(ns, func(it schema.Item) { seen[schema.KeyOf(it).SK] = true })
	for _, sk := range want {
		if !seen[sk] {
			w.Errorf("%s is not in the index", sk)
		}
	}
}

// Peer's defects: a put of the whole item lost the settings beside the limits.
func TestAnApplyKeepsWhatItDoesNotManage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Must(w.Store.SetAuditRetention(t.Context(), 7))
	w.Must(w.Store.SetSystem(t.Context(), []store.Limit{limit("old", 1, 1, minute)}, store.Allow))
	w.apply(levels("a", "system=5"), false, "update system?")
	c, err := w.Store.Limits(t.Context(), store.ConfigKey{})
	if err != nil || c.OnUnavailable != store.Allow || len(c.Limits) != 1 || c.Limits[0].Name != "rpm" {
		t.Errorf("got %+v, %v", c, err)
	}
	only := levels("a")
	only.Levels[store.ConfigKey{}] = manifest.Level{OnUnavailable: store.Block}
	w.apply(only, false, "update system")
	c, err = w.Store.Limits(t.Context(), store.ConfigKey{})
	if err != nil || c.OnUnavailable != store.Block || len(c.Limits) != 1 || c.Limits[0].Capacity != 5 {
		t.Errorf("got %+v, %v", c, err)
	}
	if days, err := w.Store.AuditRetention(t.Context()); days != 7 || err != nil {
		t.Errorf("retention %d, %v", days, err)
	}
	w.plan(only, false, "unchanged system")
}

func TestADeletionNeedsPrune(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(levels("a", "r=10", "s=10"), false, "create r", "create s")
	w.apply(levels("a", "r=10"), false, "unchanged r", "keep s")
	w.holds("s", 10)
	w.owned(map[string][]string{"a": {"r", "s"}})
	w.apply(levels("a", "r=10"), true, "unchanged r", "delete s")
	w.holds("s", 0)
	w.owned(map[string][]string{"a": {"r"}})
	w.Must(w.Store.DeleteLimits(t.Context(), keyOf("r")))
	w.apply(levels("a"), false, "forget r!")
	w.owned(nil)
}

// Peer's manifests of one namespace deleted each other's levels.
func TestManifestsOfTwoNamesLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(levels("a", "r=1", "shared=1"), true, "create r", "create shared")
	w.apply(levels("b", "s=2"), true, "create s")
	w.owned(map[string][]string{"a": {"r", "shared"}, "b": {"s"}})
	claims := levels("b", "s=2", "shared=2")
	w.plan(claims, true, "unchanged s", "conflict shared of a")
	r, err := w.manager.Apply(t.Context(), claims, manifest.ApplyOptions{Prune: true})
	if err != nil || len(r.Failures()) != 1 || !errors.Is(r.Failures()[0].Err, store.ErrConflict) {
		t.Errorf("got %+v, %v", r, err)
	}
	w.holds("shared", 1)
	if r, err = w.manager.Import(t.Context(), claims, true); err != nil || len(r.Failures()) != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	w.owned(map[string][]string{"a": {"r"}, "b": {"s", "shared"}})
	w.apply(claims, true, "unchanged s", "update shared")
	w.holds("shared", 2)
}

// A level that an apply set before it crashed is equal, and its buckets may not follow.
func TestATakenLevelStaysPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(levels("a", "e/r=1"), true, "create e/r")
	w.Must(w.Store.ChangeManifest(t.Context(), "a", func(own *dynamo.ManifestRecord, _ []dynamo.ManifestRecord) error {
		own.Levels[keyOf("e/r")] = "?" // as the apply leaves it
		return nil
	}))
	taking := levels("b", "e/r=1")
	_, err := w.manager.Import(t.Context(), taking, true)
	w.Must(err)
	w.owned(map[string][]string{"b": {"e/r"}})
	w.apply(taking, true, "resume e/r")
	w.plan(taking, true, "unchanged e/r")
}

func TestImportTakesOverWhatExistsAndChangesNoLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("r", 10)
	w.set("e/r", 20)
	m := levels("a", "r=10", "e/r=21", "new=1")
	r, err := w.manager.Import(t.Context(), m, false)
	if err != nil || len(r.Outcomes) != 2 {
		t.Errorf("got %+v, %v", r, err)
	}
	w.holds("e/r", 20)
	w.owned(map[string][]string{"a": {"e/r", "r"}})
	w.plan(m, false, "create new", "unchanged r", "update e/r")
}

func TestAnExportPlansNoChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Must(w.Store.SetSystem(t.Context(), nil, store.Block))
	w.set("r", 10)
	w.set("s/t", 10) // entity s, resource t
	w.set("e/_default_", 10)
	m, skipped, err := w.manager.Export(t.Context(), "a")
	if err != nil || len(skipped) != 0 {
		t.Fatalf("%v, %v", skipped, err)
	}
	text, err := m.YAML()
	w.Must(err)
	again := parse(t, string(text))
	if p := w.plan(again, true, "adopt system", "adopt r", "adopt e/_default_", "adopt s/t"); p.HasChanges() {
		t.Error("an export has changes")
	}
	w.apply(again, true, "adopt system", "adopt r", "adopt e/_default_", "adopt s/t")
	w.plan(again, true, "unchanged system", "unchanged r", "unchanged e/_default_", "unchanged s/t")
	exported, _, err := w.manager.Export(t.Context(), "a")
	if diff := cmp.Diff(m, exported); diff != "" || err != nil {
		t.Errorf("%v (-before +after):\n%s", err, diff)
	}
}

func TestAnExportNamesWhatItCannotDeclare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, ns := w.Store.Namespace()
	it := schema.EncodeConfig(ns, key("", "session"), &store.Config{Limits: []store.Limit{limit("rpm", 1, 1, minute)}})
	it["l_rpm_rsa"] = schema.N(3600)
	w.put(it)
	broken := schema.EncodeConfig(ns, key("", "broken"), &store.Config{Limits: []store.Limit{limit("rpm", 1, 1, minute)}})
	broken["l_rpm_cp"] = schema.S("many")
	w.put(broken)
	m, skipped, err := w.manager.Export(t.Context(), "a")
	if err != nil || len(m.Levels) != 0 || len(skipped) != 2 || skipped[0].Key.Resource != "broken" || skipped[1].Key.Resource != "session" {
		t.Errorf("got %+v, %+v, %v", m, skipped, err)
	}
	w.apply(levels("a", "broken=5", "session=6"), false, "update broken?", "update session?")
	w.holds("broken", 5)
	w.holds("session", 6)
}

func TestABucketInUseFollowsAnApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(levels("a", "e/gpt-4=10"), false, "create e/gpt-4")
	lease, err := w.Acquire(t.Context(), testbed.Ask("e", "rpm", 1))
	w.Must(err)
	w.Must(lease.Commit(t.Context()))
	w.apply(levels("a", "e/gpt-4=20"), false, "update e/gpt-4")
	image, err := w.Store.Load(t.Context(), &store.Load{Bucket: &store.Bucket{Entity: "e", Resource: "gpt-4"}, Consistent: true})
	if err != nil || image.Image == nil || image.Image.Limits[0].Capacity != 20_000 {
		t.Errorf("got %+v, %v", image, err)
	}
}

// An apply may crash between any two of its requests, or lose the answer to any of them.
// The next apply then arrives at the manifest, and the one after it writes nothing. The
// record never lists less than what the first apply has set, and calls nothing done that was
// not. Each change of a level has one audit event, however many applies it took.
func TestAnApplyResumesWhereverItStopped(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		finished := false
		for stop := 1; !finished && stop < 100; stop++ {
			finished = crash(t, stop, lost)
		}
		if !finished {
			t.Error("the apply never ends")
		}
	}
}

// crash applies with requests that fail from one of them on. With lost, that one is
// carried out and its answer is lost.
func crash(t *testing.T, stop int, lost bool) (finished bool) {
	t.Helper()
	w := newWorld(t)
	w.apply(levels("a", "gone=1", "e/gone=1", "r=1"), false, "create gone", "create r", "create e/gone")
	target := levels("a", "system=5", "r=10", "e/r=15")
	var mu sync.Mutex
	count, armed := 0, false
	crashed := managerOf(t, w.OpenOn(faults.Wrap(w.API, func(ctx context.Context, _ *faults.Call, next faults.Next) error {
		mu.Lock()
		if armed {
			count++
		}
		n := count
		mu.Unlock()
		switch {
		case n == stop && lost:
			return errors.Join(next(ctx), errCrashed)
		case n >= stop:
			return errCrashed
		}
		return next(ctx)
	})))
	armed = true
	_, err := crashed.Apply(t.Context(), target, manifest.ApplyOptions{Prune: true})
	finished = err == nil && count < stop

	records, err := w.Store.Manifests(t.Context())
	w.Must(err)
	for _, r := range records {
		for target, before := range map[string]int64{"system": 0, "r": 1, "e/r": 0} {
			c, err := w.Store.Limits(t.Context(), keyOf(target))
			if err == nil && len(c.Limits) > 0 && c.Limits[0].Capacity != before {
				if _, owned := r.Levels[keyOf(target)]; !owned {
					t.Errorf("stop %d, lost %v: %s is set and not owned", stop, lost, target)
				}
			}
		}
	}
	p, err := w.manager.Plan(t.Context(), target, true)
	w.Must(err)
	for _, c := range p.Changes {
		if c.Drift {
			t.Errorf("stop %d, lost %v: the record says that %v is set to what it is not", stop, lost, c.Key)
		}
	}
	later := managerOf(t, w.Open(dynamo.Options{Now: func() time.Time { return time.Now().Add(time.Hour) }}))
	r, err := later.Apply(t.Context(), target, manifest.ApplyOptions{Prune: true})
	if err != nil || len(r.Failures()) > 0 {
		t.Errorf("stop %d, lost %v: %+v, %v", stop, lost, r, err)
	}
	w.owned(map[string][]string{"a": {"", "e/r", "r"}})
	w.plan(target, true, "unchanged system", "unchanged r", "unchanged e/r")
	w.holds("gone", 0)
	w.holds("e/gone", 0)
	before := w.Meter.Totals()
	w.apply(target, true, "unchanged system", "unchanged r", "unchanged e/r")
	if since := w.Meter.Totals().Sub(before); since.Sum().WCU != 0 {
		t.Errorf("stop %d, lost %v: applied once more, it writes: %v", stop, lost, since)
	}
	const changes = 3 + 3 + 2 // set up, set and deleted
	if n := w.events(); n != changes {
		t.Errorf("stop %d, lost %v: %d audit events, want %d", stop, lost, n, changes)
	}
	return finished
}

// events counts the audit events of the namespace.
func (w *world) events() (n int) {
	w.Helper()
	_, ns := w.Store.Namespace()
	w.each(ns, func(it schema.Item) {
		if strings.HasPrefix(schema.KeyOf(it).SK, "#AUDIT#") {
			n++
		}
	})
	return n
}

var (
	errCrashed = errors.New("the process crashed")
	errRefused = &smithy.GenericAPIError{Code: "ValidationException", Message: "refused"}
)

// Peer's defect 23: a level that failed was recorded as done, and forgotten.
func TestALevelThatFailedStaysPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(levels("a", "old=1"), false, "create old")
	refuse := faults.Wrap(w.API, func(ctx context.Context, c *faults.Call, next faults.Next) error {
		for _, k := range c.Keys() {
			if c.Writes() && (k.PK == w.pk("bad") || k.PK == w.pk("old")) {
				return errRefused
			}
		}
		return next(ctx)
	})
	m := levels("a", "bad=1", "good=2")
	r, err := managerOf(t, w.OpenOn(refuse)).Apply(t.Context(), m, manifest.ApplyOptions{Prune: true})
	if err != nil || len(r.Failures()) != 2 || r.Count(manifest.Create) != 1 || !errors.Is(r.Failures()[0].Err, errRefused) {
		t.Fatalf("got %+v, %v", r, err)
	}
	w.holds("good", 2)
	w.holds("bad", 0)
	w.owned(map[string][]string{"a": {"bad", "good", "old"}})
	w.apply(m, true, "create bad", "unchanged good", "delete old")
	w.owned(map[string][]string{"a": {"bad", "good"}})
}

// pk is the partition of a resource's configuration.
func (w *world) pk(resource string) string {
	_, ns := w.Store.Namespace()
	return schema.ResourcePK(ns, resource)
}

// Buckets that did not follow get the change from the next apply, although the level
// has it already.
func TestAnApplyReachesBucketsThatDidNotFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(levels("a", "e/gpt-4=10"), false, "create e/gpt-4")
	lease, err := w.Acquire(t.Context(), testbed.Ask("e", "rpm", 1))
	w.Must(err)
	w.Must(lease.Commit(t.Context()))
	deaf := faults.Wrap(w.API, func(ctx context.Context, c *faults.Call, next faults.Next) error {
		if c.Writes() && c.NamesBuckets() {
			return errCrashed
		}
		return next(ctx)
	})
	m := levels("a", "e/gpt-4=20")
	r, err := managerOf(t, w.OpenOn(deaf)).Apply(t.Context(), m, manifest.ApplyOptions{})
	if err != nil || len(r.Failures()) != 1 || !errors.Is(r.Failures()[0].Err, store.ErrIncomplete) {
		t.Fatalf("got %+v, %v", r, err)
	}
	w.apply(m, false, "resume e/gpt-4")
	image, err := w.Store.Load(t.Context(), &store.Load{Bucket: &store.Bucket{Entity: "e", Resource: "gpt-4"}, Consistent: true})
	if err != nil || image.Image.Limits[0].Capacity != 20_000 {
		t.Errorf("got %+v, %v", image, err)
	}
	w.plan(m, false, "unchanged e/gpt-4")
}

func TestAManifestOfAnotherNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := levels("a", "r=10")
	m.Namespace = "prod"
	if _, err := w.manager.Plan(t.Context(), m, false); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got error %v", err)
	}
}

// An outage ends an apply after its first batch, instead of after all of them.
func TestAnOutageEndsAnApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := levels("a")
	for i := range 5 * dynamo.MaxLevels {
		m.Levels[key("", fmt.Sprintf("r%d", i))] = manifest.Level{Limits: []store.Limit{limit("rpm", 1, 1, minute)}}
	}
	sent := 0
	out := faults.Wrap(w.API, func(ctx context.Context, c *faults.Call, next faults.Next) error {
		if len(c.Keys()) > 2*dynamo.MaxLevels-1 && c.Op == faults.TransactWriteItems {
			sent++
			return context.DeadlineExceeded
		}
		return next(ctx)
	})
	r, err := managerOf(t, w.OpenOn(out)).Apply(t.Context(), m, manifest.ApplyOptions{})
	if err != nil || len(r.Failures()) != len(m.Levels) || sent != 1 {
		t.Errorf("%d failures, %d transactions, %v", len(r.Failures()), sent, err)
	}
}

// A record too large for one item is kept in several, and becomes small again.
func TestALargeManifestIsRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.Store.ChangeManifest(t.Context(), "a", func(own *dynamo.ManifestRecord, _ []dynamo.ManifestRecord) error {
		for i := range 10_000 {
			own.Levels[key(fmt.Sprintf("entity-with-a-rather-long-name-%d", i), "gpt-4")] = "0123456789ab"
		}
		return nil
	})
	w.Must(err)
	records, err := w.Store.Manifests(t.Context())
	if err != nil || len(records) != 1 || len(records[0].Levels) != 10_000 {
		t.Fatalf("got %d records, %v", len(records), err)
	}
	w.Must(w.Store.ChangeManifest(t.Context(), "a", func(own *dynamo.ManifestRecord, _ []dynamo.ManifestRecord) error {
		clear(own.Levels)
		return nil
	}))
	_, ns := w.Store.Namespace()
	w.each(ns, func(it schema.Item) {
		if k := schema.KeyOf(it); k.SK != schema.ManifestVersionKey(ns).SK {
			t.Errorf("%v is left", k)
		}
	})
}

// The Python peer's own record becomes the record of the default manifest.
func TestThePeersRecordIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, ns := w.Store.Namespace()
	w.set("r", 10)
	w.set("gone", 10)
	w.set("user-1/gpt-4", 10)
	w.put(schema.Item{
		"PK": schema.S(schema.SystemPK(ns)), "SK": schema.S("#PROVISIONER"), "GSI4PK": schema.S(ns),
		"managed_system": schema.Bool(false), "managed_resources": schema.Strings("r", "gone"),
		"managed_entities": schema.Map(schema.Item{"user-1": schema.Strings("gpt-4")}),
		"last_applied":     schema.S("2026-01-02T03:04:05.678901+00:00"), "applied_hash": schema.S("sha256:00"),
	})
	m := levels(manifest.DefaultName, "r=11", "user-1/gpt-4=10")
	w.apply(m, true, "delete gone", "update r", "unchanged user-1/gpt-4")
	w.owned(map[string][]string{"default": {"r", "user-1/gpt-4"}})
	it := w.get(schema.ManifestKey(ns, manifest.DefaultName, 0))
	for _, attr := range []string{"managed_system", "managed_resources", "managed_entities", "last_applied", "applied_hash", "GSI4PK", "GSI4SK"} {
		if it[attr] == nil {
			t.Errorf("%s is missing", attr)
		}
	}
}

// A plan is the same each time, and in order.
func TestAPlanIsInOrder(t *testing.T) {
	t.Parallel()
	m := levels("a", "b/z=1", "b/a=1", "a/z=1", "z=1", "a=1", "system=1")
	s := manifest.State{Owned: map[store.ConfigKey]string{keyOf("m"): "", keyOf("aa/b"): ""}}
	live := map[store.ConfigKey]manifest.Live{keyOf("m"): {Config: &store.Config{}}, keyOf("aa/b"): {Config: &store.Config{}}}
	want := []string{"create system", "create a", "delete m", "create z", "create a/z", "delete aa/b", "create b/a", "create b/z"}
	for range 10 {
		if got := actions(manifest.Diff(m, s, live, true)); !slices.Equal(got, want) {
			t.Fatalf("got %v", got)
		}
	}
}

// Plan and apply of 10,000 entities on an embedded engine hold what the manifest and its levels
// need, and no more for each request: the heap, engine included, stays below a bound.
func TestLongTenThousandEntitiesStayWithinABoundOfMemory(t *testing.T) {
	const entities, bound = 10_000, 128 << 20
	w := newWorld(t)
	var text strings.Builder
	text.WriteString("namespace: default\nentities:\n")
	for i := range entities {
		fmt.Fprintf(&text, "  user-%d: {resources: {gpt-4: {limits: {rpm: {capacity: %d}, tpm: {capacity: 100000}}}}}\n", i, i+1)
	}
	var most uint64
	watch := func() {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapInuse)
	}
	m, err := manifest.Parse("limits.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	on := managerOf(t, w.Store)
	watch()
	r, err := on.Apply(t.Context(), m, manifest.ApplyOptions{Progress: func(done, _ int) {
		if done%500 == 0 {
			watch()
		}
	}})
	if err != nil || r.Count(manifest.Create) != entities || len(r.Failures()) > 0 {
		t.Fatalf("%d created, %d failures, %v", r.Count(manifest.Create), len(r.Failures()), err)
	}
	p, err := on.Plan(t.Context(), m, false)
	watch()
	if err != nil || p.Count(manifest.Unchanged) != entities {
		t.Errorf("%d unchanged, %v", p.Count(manifest.Unchanged), err)
	}
	t.Logf("the heap had at most %d MiB", most>>20)
	if most > bound {
		t.Errorf("the heap had %d MiB, more than %d", most>>20, bound>>20)
	}
}
