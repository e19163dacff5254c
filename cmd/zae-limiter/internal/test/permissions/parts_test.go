//go:build conformance

package permissions_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
)

// A mutant is a policy of which one part of one statement is weaker or stronger.
type mutant struct {
	name   string
	policy json.RawMessage
}

// A statement is one of a policy, as JSON.
type statement = map[string]any

// Every part of every statement is held by a verdict: without the statement, an action, a
// resource or a condition, and with a wider one, some request of the corpus is judged otherwise. The corpus
// has the requests on which other tests insist.
func TestEveryPartOfAStatementIsJudged(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(policiesFile)
	if err != nil {
		t.Fatal(err)
	}
	var policies map[string]json.RawMessage
	if err := json.Unmarshal(text, &policies); err != nil {
		t.Fatal(err)
	}
	requests := corpus(t)
	for _, name := range permissions.Policies {
		mutants := append([]mutant{{name, policies[name]}}, mutantsOf(t, policies[name])...)
		if len(mutants) < 10 { //nolint:mnd // a policy has more parts
			t.Fatalf("%s has only %d mutants", name, len(mutants))
		}
		documents := make([]json.RawMessage, len(mutants))
		for i := range mutants {
			documents[i] = mutants[i].policy
		}
		all := verdicts(t, documents, requests)
		for i := 1; i < len(mutants); i++ {
			if !slices.ContainsFunc(all, func(verdict []bool) bool { return verdict[i] != verdict[0] }) {
				t.Errorf("%s, %s: no verdict differs", name, mutants[i].name)
			}
		}
	}
}

// corpus are the recorded requests of the principal with the tag ns1, those with keys of
// another namespace and of the table, those with the tag of the registry, and the attacks.
func corpus(t *testing.T) (requests []permissions.Request) {
	t.Helper()
	for _, access := range permissions.Accesses(recorded(t)) {
		own := request(t, access, "ns1")
		requests = append(requests, own)
		if len(own.Keys) == 0 {
			continue
		}
		for _, tagged := range [][2]string{
			{"ns1", "ns10/BUCKET#one"},
			{"ns1", "ns10"},
			{"ns1", "_/AUDIT#one"},
			{"_", "_/BUCKET#one"},
			{"_", "_"},
			{"ns1", "ns1/BUCKET#one"},
			{"ns1", "ns1/ENTITY#one"},
			{"ns1", "ns1/SYSTEM#"},
			{"ns1", "ns1"},
		} {
			r := own
			r.Tag, r.Keys = tagged[0], []string{tagged[1]}
			requests = append(requests, r)
		}
		own.Keys = nil
		requests = append(requests, own)
	}
	for _, a := range attacks {
		for action := range strings.FieldsSeq(a.actions) {
			requests = append(requests, permissions.Request{Action: action, ARN: a.arn, Keys: a.keys, Tag: "ns1"})
		}
	}
	slices.SortFunc(requests, compare)
	return slices.CompactFunc(requests, func(r, s permissions.Request) bool { return compare(r, s) == 0 })
}

// mutantsOf are the mutants of a policy.
func mutantsOf(t *testing.T, policy json.RawMessage) (mutants []mutant) {
	t.Helper()
	type document struct {
		Version   string
		Statement []statement
	}
	read := func() (d document) {
		if err := json.Unmarshal(policy, &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	// mutate adds the policy with a change of a statement.
	mutate := func(i int, name string, change func(statement)) {
		t.Helper()
		document := read()
		change(document.Statement[i])
		if len(document.Statement[i]) == 0 {
			document.Statement = slices.Delete(document.Statement, i, i+1)
		}
		text, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		mutants = append(mutants, mutant{fmt.Sprintf("statement %d %s", i, name), text})
	}
	for i, s := range read().Statement {
		mutate(i, "is missing", func(s statement) { clear(s) })
		for _, field := range []string{"Action", "Resource"} {
			values := texts(s[field])
			for _, v := range values {
				if len(values) > 1 {
					mutate(i, "without "+v, func(s statement) { s[field] = without(texts(s[field]), v) })
				}
				if parts := strings.Split(v, ":"); field == "Resource" && v != "*" {
					mutate(i, "with all of "+parts[2]+" for "+v, func(s statement) { s[field] = append(without(texts(s[field]), v), "arn:aws:"+parts[2]+":*") })
				}
			}
		}
		mutateConditions(i, s, mutate)
	}
	return mutants
}

// mutateConditions makes the mutants with weaker conditions.
func mutateConditions(i int, s statement, mutate func(int, string, func(statement))) {
	conditions, _ := s["Condition"].(map[string]any)
	for _, operator := range slices.Sorted(maps.Keys(conditions)) {
		keys, _ := conditions[operator].(map[string]any)
		for key, patterns := range keys {
			mutate(i, "without "+operator+" of "+key, func(s statement) { delete(s["Condition"].(map[string]any), operator) })
			values := texts(patterns)
			for _, p := range values {
				change := func(name string, to []string) {
					mutate(i, name, func(s statement) { s["Condition"].(map[string]any)[operator] = map[string]any{key: to} })
				}
				if len(values) > 1 {
					change("without the pattern "+p, without(values, p))
				}
				if prefix, _, ok := strings.Cut(p, "/"); ok && strings.HasSuffix(operator, ":StringLike") {
					change("with "+prefix+"/* for "+p, append(without(values, p), prefix+"/*"))
					change("with "+prefix+"* for "+p, append(without(values, p), prefix+"*"))
				}
			}
		}
	}
}

// texts is the list that a field of a policy has, or that of its only value.
func texts(field any) (all []string) {
	if one, ok := field.(string); ok {
		return []string{one}
	}
	for _, v := range field.([]any) {
		all = append(all, v.(string))
	}
	return all
}

// without is a list without a value.
func without(values []string, value string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == value })
}
