package scenario_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

const crowd = `
name: crowd
warm-up: 5s
limiters: 2
phases: [{name: a, for: 1m}, {name: b, for: 1m}]
sides: [limiter, shared]
resources: {api: [rpm:100/min]}
entities: {one: {count: 1}}
load:
  Few: {from: one, calls: [{call: acquire, consume: {rpm: 1}}], users: 1, think: 1s}
  Many: {from: one, phases: [b], calls: [{call: acquire, consume: {rpm: 1}}], stages: [{users: 3, for: 1s}, {users: 1}], think: 2s}
  None: {from: one, calls: [{call: acquire, consume: {rpm: 1}}], users: 1}
`

// One class has the phases in which it is active.
func TestOneClass(t *testing.T) {
	t.Parallel()
	s, err := scenario.Parse("crowd.yaml", []byte(crowd))
	if err != nil {
		t.Fatal(err)
	}
	one, err := s.WithClass("Many")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Plan(); err != nil || len(one.Classes) != 1 || one.Classes[0].Name != "Many" || len(one.Phases) != 1 || one.Phases[0].Name != "b" {
		t.Errorf("%v, %+v of %+v", err, one.Classes, one.Phases)
	}
	if _, err := one.WithUsers(3); err != nil {
		t.Error(err)
	}
	if len(s.Classes) != 3 || len(s.Phases) != 2 || s.Classes[1].Phases == nil {
		t.Error("the scenario itself has changed")
	}
	_, err = s.WithClass("Nobody")
	if wrong, ok := errors.AsType[*store.ValidationError](err); !ok || wrong.Field != "class" || wrong.Value != "Nobody" {
		t.Errorf("an unknown class: %v", err)
	}
}

// A swarm shares its users among the classes by their most users, and all of them run all the
// time.
func TestASwarmSharesItsUsers(t *testing.T) {
	t.Parallel()
	plain, err := scenario.Parse("crowd.yaml", []byte(crowd))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		users, limiters int
		classes         []string
		want            map[string]int
		limitersWant    int
	}{
		"all classes":            {100, 7, nil, map[string]int{"Few": 20, "Many": 60, "None": 20}, 7},
		"some":                   {100, 7, []string{"Many", "Few"}, map[string]int{"Few": 25, "Many": 75}, 7},
		"one user":               {1, 7, []string{"Many", "Few"}, map[string]int{"Many": 1}, 1},
		"limiters of no process": {10, 0, []string{"Few"}, map[string]int{"Few": 10}, 1},
	} {
		s, err := plain.WithSwarm(c.users, c.limiters, time.Hour, c.classes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := map[string]int{}
		for i := range s.Classes {
			of := &s.Classes[i]
			got[of.Name] = of.Arrival.Stages[0].Users
			if len(of.Arrival.Stages) != 1 || of.Phases != nil || of.Arrival.Think.Most == 0 && of.Name != "None" {
				t.Errorf("%s: class %+v", name, of)
			}
		}
		if len(got) != len(c.want) || s.Limiters != c.limitersWant || len(s.Sides) != 1 || s.Duration() != time.Hour || s.WarmUp != 0 {
			t.Errorf("%s: %v, %+v", name, got, s)
		}
		for class, users := range c.want {
			if got[class] != users {
				t.Errorf("%s: %d users of %s, want %d", name, got[class], class, users)
			}
		}
	}
	if plain.Classes[0].Arrival.Stages[0].Users != 1 || len(plain.Phases) != 2 {
		t.Error("the scenario itself has changed")
	}
	_, err = plain.WithSwarm(1, 1, time.Hour, []string{"Few", "Nobody"})
	if wrong, ok := errors.AsType[*store.ValidationError](err); !ok || wrong.Value != "Nobody" {
		t.Errorf("an unknown class: %v", err)
	}
	if _, err := builtin(t, "attack").WithSwarm(1, 1, time.Hour, nil); err == nil {
		t.Error("a rate is accepted")
	}
	if _, err := plain.WithSwarm(0, 1, time.Hour, nil); err == nil {
		t.Error("no users are accepted")
	}
}
