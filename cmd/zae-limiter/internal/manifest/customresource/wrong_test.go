package customresource_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// Every value that is wrong at a key fails the resource, is named with its path, and changes
// nothing.
func TestAWrongValueIsNamedAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	const limit = `{"Namespace":"default","System":{"Limits":{"ok":{"Capacity":"1"}}},"Resources":{"r":{"Limits":{"rpm":%s}}}}`
	const path = "resources.r.limits.rpm"
	type wrong struct{ properties, path string }
	var all []wrong
	for _, key := range []string{"Capacity", "RefillAmount", "RefillPeriod", "Burst"} {
		for _, value := range []string{
			`" 10 "`, `"10 "`, `""`, `"ten"`, `"1.5"`, `1.5`, `"-1"`, `-1`, `"0"`, `0`, `"+1"`, `"1e3"`, `1e3`, `"0x10"`, `"1_000"`, `"100000000000000000000"`, `100000000000000000000`,
			`"٣"`, `true`, `"true"`, `null`, `[]`, `["1"]`, `{}`, `"` + strings.Repeat("9", 5000) + `"`,
		} {
			fields := fmt.Sprintf(`{"Capacity":"5","RefillAmount":"5",%q:%s}`, key, value)
			at := map[string]string{"Capacity": ".capacity", "RefillAmount": ".refill_amount", "RefillPeriod": ".refill_period", "Burst": ".burst"}[key]
			all = append(all, wrong{fmt.Sprintf(limit, fields), path + at})
		}
	}
	for _, value := range []string{`{"Rate":"x"}`, `{"Rate":"5","Capacity":"5"}`, `{"Rate":"5/min:7"}`, `{}`, `{"RefillAmount":"1"}`, `{"Capacity":"5","Burst":"7"}`, `null`, `"5"`, `5`, `[]`} {
		all = append(all, wrong{fmt.Sprintf(limit, value), path})
	}
	for _, value := range []string{`null`, `"x"`, `[]`, `{}`, `{"limits":{}}`, `{"Limits":[]}`, `{"Limits":{}}`} {
		all = append(all, wrong{`{"Namespace":"default","Resources":{"r":` + value + `}}`, "resources.r"})
	}
	for properties, path := range map[string]string{
		`{"Namespace":"default","Resources":[]}`: "resources", `{"Namespace":"default","Resources":"x"}`: "resources", `{"Namespace":"default","Entities":{"e":{}}}`: "entities.e",
		`{"Namespace":"default","System":{"OnUnavailable":"Block"}}`: "system.on_unavailable", `{"Namespace":"default","Name":"a b","System":{"OnUnavailable":"block"}}`: "name",
		`{"Namespace":{"Ref":"X"}}`: "Namespace", `{"Namespace":["default"]}`: "Namespace", `{"NamespaceId":5}`: "NamespaceId", `{"Namespace":""}`: "Namespace", `[]`: "properties", `"x"`: "properties",
		`{"Namespace":"nobody","System":{"OnUnavailable":"block"}}`: "nobody", `{"NamespaceId":"nobody","System":{"OnUnavailable":"block"}}`: "nobody",
	} {
		all = append(all, wrong{properties, path})
	}
	for _, w := range all {
		a := s.send(t.Context(), s.API, "Create", "", w.properties)
		if a.Status != "FAILED" || !strings.Contains(a.Reason, w.path) {
			t.Errorf("%.300s: want an error about %s: %+v", w.properties, w.path, a)
		}
		s.do("Delete", a.PhysicalResourceId, w.properties) // as CloudFormation does afterwards
	}
	if got := s.capacity(store.ConfigKey{}); got != 0 {
		t.Errorf("the level beside a wrong one has the capacity %d", got)
	}
}

// A resource that never was is deleted, whatever its ID.
func TestWhatNeverWasIsDeleted(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.do("Create", "", one("r", 1))
	for _, id := range []string{"x", "limits/other/limits/cfn.app.Limits", "another/default/limits-provisioner", strings.Repeat("x", 1024)} {
		s.do("Delete", id, one("r", 1))
	}
	if got := s.capacity(store.ConfigKey{Resource: "r"}); got != 1 {
		t.Errorf("the level of the resource has the capacity %d", got)
	}
	if a := s.do("Update", "x", one("r", 2)); a.PhysicalResourceId == "x" || s.capacity(store.ConfigKey{Resource: "r"}) != 2 {
		t.Errorf("got %+v", a)
	}
}

// A defect of the function fails the resource. Without an answer, CloudFormation would wait
// for an hour.
func TestAPanicIsAnswered(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	broken := faults.Wrap(s.API, faults.Before(func(*faults.Call) error { panic("no such thing") }))
	for _, request := range []string{"Create", "Update", "Delete"} {
		a := s.send(t.Context(), broken, request, "limits/x", one("r", 1))
		if a.Status != "FAILED" || !strings.Contains(a.Reason, "no such thing") {
			t.Errorf("%s: %+v", request, a)
		}
	}
}
