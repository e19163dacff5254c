package dynamo_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

var inflight = store.SlotKey{Entity: "user", Resource: "gpt-4", Limit: "inflight"}

// entry is the entry of a process.
func entry(process string, held, seq int64) store.Holding {
	return store.Holding{Process: process, Held: held, Until: start.UnixMilli() + 15_000, Seq: seq}
}

// takes is the write with which a process takes slots, of ten.
func takes(seen *store.Holding, next store.Holding, dead ...store.Holding) *store.Hold {
	return &store.Hold{SlotKey: inflight, Cap: 10, Seen: seen, Next: next, Dead: dead, ExpiresAt: start.Unix() + 86_400}
}

func hold(t *testing.T, s *dynamo.Store, h *store.Hold) store.SlotOutcome {
	t.Helper()
	out, err := s.Hold(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Nobody may take the item for a bucket: not the peer's aggregator, by entity_id, nor its queries
// of the indexes.
func TestTheItemOfSlots(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	hold(t, s, takes(nil, entry("a", 3, 1)))
	_, ns := s.Namespace()
	got := map[string]string{}
	for attr, v := range fixture.Get(t, f, schema.SlotKey(ns, inflight)) {
		got[attr] = strings.ReplaceAll(fixture.Notation(v), ns, "NS")
	}
	want := map[string]string{
		"PK": "S NS/BUCKET#user#gpt-4#0", "SK": "S #SLOTS#inflight", "used": "N 3", "h_a": "S 3 0 1700000015000 1", "ttl": "N 1700086400",
		"GSI3PK": "S NS/ENTITY#user", "GSI3SK": "S SLOTS#gpt-4#inflight", "GSI4PK": "S NS", "GSI4SK": "S SLOTS#user#gpt-4#inflight",
	}
	if s.IndexKeys() == dynamo.SpreadKeys {
		want["GSI4PK"] = got["GSI4PK"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the item (-want +got):\n%s", diff)
	}
	if images, err := s.Buckets(t.Context(), "user", "gpt-4", 0); len(images) > 0 || err != nil {
		t.Errorf("it counts as a bucket: %v, %v", images, err)
	}
	if n, err := s.DeleteEntity(t.Context(), "user"); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if img, err := s.Slots(t.Context(), inflight); img != nil || err != nil {
		t.Errorf("it outlives its entity: %v, %v", img, err)
	}
}

func TestHoldIsChecked(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	a := entry("a", 1, 1)
	writing := func(leases ...store.Holding) *store.Hold {
		h := takes(nil, a)
		h.Written = leases
		return h
	}
	for field, h := range map[string]*store.Hold{
		"entity":       {SlotKey: store.SlotKey{Resource: "gpt-4", Limit: "inflight"}, Next: a},
		"resource":     {SlotKey: store.SlotKey{Entity: "user", Limit: "inflight"}, Next: a},
		"limit name":   {SlotKey: store.SlotKey{Entity: "user", Resource: "gpt-4"}, Next: a},
		"process":      takes(nil, store.Holding{Process: "A b", Held: 1}),
		"slots":        takes(nil, entry("a", 11, 1)),
		"entry":        takes(&a, entry("a", 1, 1)),
		"dead entries": takes(nil, entry("b", 1, 1), slices.Repeat([]store.Holding{a}, 25)...),

		"written entries \"a\"":  writing(a),
		"written entries \"0X\"": writing(entry("0X", 1, 1)),
		"written entries \"0x\"": writing(entry("0x", 1, 1), entry("0x", 1, 1)),
		"written entries \"9\"":  writing(slices.Repeat([]store.Holding{entry("0y", 1, 1)}, store.MaxWritten+1)...),
	} {
		_, err := s.Hold(t.Context(), h)
		fixture.WantErr(t, err, store.ErrInvalid)
		if err == nil || !strings.HasPrefix(err.Error(), "invalid "+field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if ops := f.Ops(); len(ops) > 0 {
		t.Errorf("sent %v", ops)
	}
}

// An entry that cannot be read is an error.
func TestSlotsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	for _, text := range []string{"", "1 2 3", "1 2 3 x", "1 2 3 4 5", "-1 0 0 0"} {
		it := schema.SlotKey(ns, inflight).Item()
		it["used"], it["h_a"] = schema.N(1), schema.S(text)
		fixture.Put(t, f, it)
		_, err := s.Slots(t.Context(), inflight)
		fixture.WantErr(t, err, store.ErrCorrupt)
	}
}

// As many processes as the decision says fit into one unit.
func TestManyProcessesHoldSlots(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	var all []store.Holding
	for i := range 24 {
		all = append(all, entry(fmt.Sprintf("process%c", 'a'+i), 20, 100_001))
		hold(t, s, &store.Hold{SlotKey: inflight, Cap: 1000, Next: all[i], ExpiresAt: start.Unix()})
	}
	if size := schema.ItemSize(fixture.Get(t, f, schema.SlotKey(ns, inflight))); size > 1024 {
		t.Errorf("%d processes take %d bytes", len(all), size)
	}
	// An expression has room for as many dead ones as a write may remove, and leases as it may write down.
	h := &store.Hold{SlotKey: inflight, Cap: 1000, Next: entry("other", 1, 1), Dead: all[:store.MaxDead]}
	for i := range store.MaxWritten {
		h.Written = append(h.Written, entry(fmt.Sprintf("0abcdefghijkl%d", i), 1, 1))
	}
	if out := hold(t, s, h); !out.Applied || out.Image.Used != 1+store.MaxWritten {
		t.Errorf("got %+v", out)
	}
}

// The slots of a resource are those of all entities, in order, and no buckets. Whoever has enough
// may stop.
func TestListingSlots(t *testing.T) {
	t.Parallel()
	s, _ := fixture.NewStore(t)
	const many = 205 // more than two reads
	for i := range many {
		h := takes(nil, entry("a", 1, 1))
		h.SlotKey = store.SlotKey{Entity: fmt.Sprintf("user-%03d", i), Resource: "gpt-4", Limit: "inflight"}
		hold(t, s, h)
	}
	other := takes(nil, entry("a", 1, 1))
	other.Resource = "gpt-5"
	hold(t, s, other)
	list := func(resource string, most int) (entities []string) {
		for img, err := range s.ResourceSlots(t.Context(), resource) {
			if err != nil {
				t.Fatal(err)
			}
			if entities = append(entities, img.Entity); len(entities) == most {
				break
			}
		}
		return entities
	}
	if got := list("gpt-4", 0); len(got) != many || !slices.IsSorted(got) || got[many-1] != "user-204" {
		t.Errorf("%d slots of the resource", len(got))
	}
	if got := list("", 0); len(got) != many+1 || !slices.Contains(got, "user") {
		t.Errorf("%d slots of all resources", len(got))
	}
	for _, most := range []int{1, 100, 101} {
		if got := list("gpt-4", most); len(got) != most {
			t.Errorf("%d slots, want %d", len(got), most)
		}
	}
	for _, err := range s.ResourceSlots(t.Context(), "no/ such") {
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
}
