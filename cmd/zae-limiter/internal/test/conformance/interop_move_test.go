//go:build conformance

package conformance_test

import (
	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// relatives creates project, user that cascades to it, and project-2, and makes both libraries
// know the bucket.
func (b *both) relatives(byPython bool) {
	b.Helper()
	b.project(byPython)
	b.py.call("create_entity", args{"entity_id": "project-2"}, nil)
	b.system(perDay("rpd", 1000))
	b.take("user", "gpt-4", args{"rpd": 1})
	b.py.take("user", "gpt-4", args{"rpd": 2})
	b.take("user", "gpt-4", args{"rpd": 4})
	b.py.take("user", "gpt-4", args{"rpd": 8})
	b.paid(15, 15, 0)
}

// paid checks what the user and both projects have consumed.
func (b *both) paid(user, project, project2 int64) {
	b.Helper()
	for entity, want := range map[string]int64{"user": user, "project": project, "project-2": project2} {
		if want == 0 && b.item(entity, "gpt-4") == nil {
			continue
		}
		b.books(entity, "gpt-4", "rpd", 1000, want)
	}
}

// all takes 1 and 2 with clients of both libraries that know the bucket, and 4 and 8 with new
// ones.
func (b *both) all() {
	b.Helper()
	b.take("user", "gpt-4", args{"rpd": 1})
	b.py.take("user", "gpt-4", args{"rpd": 2})
	name, _ := b.store.Namespace()
	b.py.open(b.table, name)
	b.Limiter = b.limiter()
	b.take("user", "gpt-4", args{"rpd": 4})
	b.py.take("user", "gpt-4", args{"rpd": 8})
}

// movedByUs moves the user with a store of ours whose limiters are not those of the test.
func (b *both) movedByUs(parent string) {
	b.Helper()
	name, _ := b.store.Namespace()
	s, err := dynamo.Open(b.Context(), dynamo.Options{API: b.api, Table: b.table, Namespace: name})
	b.must(err)
	_, err = s.SetParent(b.Context(), "user", dynamo.Move{Parent: parent, Cause: dynamo.Cause{Reason: "sold"}}, nil)
	b.must(err)
}

func (b *both) movedByPython(parent string) {
	b.Helper()
	to := any(parent)
	if parent == "" {
		to = nil
	}
	b.py.call("set_parent", args{"entity_id": "user", "parent_id": to}, nil)
}

// cascadeByUs sets a cascade policy as movedByUs does.
func (b *both) cascadeByUs(k limiter.ConfigKey, p store.Policy) {
	b.Helper()
	name, _ := b.store.Namespace()
	s, err := dynamo.Open(b.Context(), dynamo.Options{API: b.api, Table: b.table, Namespace: name})
	b.must(err)
	_, err = s.SetCascade(b.Context(), k, dynamo.Cascade{Policy: p}, nil)
	b.must(err)
}

var moveCases = []interopCase{
	{"an entity of Python's that this library moves", func(b *both) {
		b.relatives(true)
		b.movedByUs("project-2")
		b.all()
		b.paid(30, 15, 15)
		b.movedByUs("")
		b.all()
		b.paid(45, 15, 15)
		b.movedByUs("project")
		b.all()
		b.paid(60, 30, 15)
	}},
	{"an entity of ours that Python moves", func(b *both) {
		b.relatives(false)
		b.movedByPython("project-2")
		b.all()
		b.paid(30, 15, 15)
		b.movedByPython("")
		b.all()
		b.paid(45, 15, 15)
		b.movedByPython("project")
		b.all()
		b.paid(60, 30, 15)
	}},
	{"moves of both, one after the other", func(b *both) {
		b.relatives(false)
		before, err := b.store.Entity(b.Context(), "user")
		b.must(err)
		b.movedByUs("project-2")
		b.movedByPython("project")
		b.movedByUs("project-2")
		b.movedByPython("project-2") // is there: Python counts it all the same
		b.all()
		b.paid(30, 15, 15)
		after, err := b.store.Entity(b.Context(), "user")
		b.must(err)
		if n := after.Generation - before.Generation; n != 4 || after.Incarnation != before.Incarnation {
			b.Errorf("the record went from %+v to %+v", before, after)
		}
		var theirs struct {
			Parent string `json:"parent_id"`
		}
		b.py.call("get_entity", args{"entity_id": "user"}, &theirs)
		var children []struct {
			ID string `json:"id"`
		}
		b.py.call("get_children", args{"parent_id": "project-2"}, &children)
		if theirs.Parent != "project-2" || len(children) != 1 || children[0].ID != "user" {
			b.Errorf("Python reads the parent %q, and the children %v", theirs.Parent, children)
		}
	}},
	{"cascade policies of ours", func(b *both) {
		b.relatives(true)
		resource, all := limiter.ConfigKey{Resource: "gpt-4"}, limiter.ConfigKey{Entity: "user", Resource: limiter.DefaultResource}
		b.cascadeByUs(resource, store.No)
		b.all()
		b.paid(30, 15, 0)
		b.cascadeByUs(all, store.Yes)
		b.all()
		b.paid(45, 30, 0)
		b.cascadeByUs(own, store.No)
		b.all()
		b.paid(60, 30, 0)
		var policy *bool
		b.py.call("get_entity_cascade", args{"entity_id": "user", "resource": "gpt-4"}, &policy)
		if policy == nil || *policy {
			b.Errorf("Python reads the policy %v", policy)
		}
		b.cascadeByUs(own, store.Inherit)
		b.all()
		b.paid(75, 45, 0)
	}},
	{"cascade policies of Python's", func(b *both) {
		b.relatives(false)
		b.py.call("set_resource_cascade", args{"resource": "gpt-4", "cascade": false}, nil)
		b.all()
		b.paid(30, 15, 0)
		b.py.call("set_entity_cascade", args{"entity_id": "user", "cascade": true}, nil)
		b.all()
		b.paid(45, 30, 0)
		b.py.call("set_entity_cascade", args{"entity_id": "user", "resource": "gpt-4", "cascade": false}, nil)
		b.all()
		b.paid(60, 30, 0)
		b.cascadeByUs(own, store.Inherit) // either removes the other's
		b.py.call("clear_entity_cascade", args{"entity_id": "user"}, nil)
		b.py.call("clear_resource_cascade", args{"resource": "gpt-4"}, nil)
		b.all()
		b.paid(75, 45, 0)
	}},
	{"a bucket that Python makes after a move of ours", func(b *both) {
		b.project(false)
		b.py.call("create_entity", args{"entity_id": "project-2"}, nil)
		b.system(perDay("rpd", 1000))
		b.movedByUs("project-2")
		b.py.take("user", "gpt-4", args{"rpd": 2})
		b.take("user", "gpt-4", args{"rpd": 1})
		b.paid(3, 0, 3)
		record, err := b.store.Entity(b.Context(), "user")
		b.must(err)
		images, err := b.store.Buckets(b.Context(), "user", "gpt-4", 1)
		b.must(err)
		if images[0].Owner() != (&store.Cascades{}).Owner(record) {
			b.Errorf("Python stamped %+v, the record is %+v", images[0].Owner(), record)
		}
		if b.item("user", "gpt-4")[schema.PGen] == nil {
			b.Error("Python stamped no generation")
		}
	}},
}
