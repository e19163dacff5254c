package expr_test

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// hot is the kind of request that must be fast: an update that adds to six attributes of an item
// of 25 if ten terms hold.
type hot struct {
	condition, update string
	names             map[string]string
	values, item      value.Item
}

func newHot() *hot {
	h := &hot{
		condition: "attribute_exists(#pk) AND #v = :v",
		update:    "SET #t = :t ADD ",
		names:     map[string]string{"#pk": "PK", "#v": "version", "#t": "touched"},
		values:    value.Item{":v": num("7"), ":t": num("1700000000123")},
		item:      value.Item{"PK": str("a"), "SK": str("b"), "version": num("7"), "touched": num("1700000000000")},
	}
	for i := range 8 {
		h.condition += fmt.Sprintf(" AND #c%d >= :c%d", i, i)
		h.names[fmt.Sprintf("#c%d", i)] = fmt.Sprintf("count%d", i)
		h.values[fmt.Sprintf(":c%d", i)] = num("1000")
		h.item[fmt.Sprintf("count%d", i)] = num("123456789")
	}
	for i := range 6 {
		if i > 0 {
			h.update += ", "
		}
		h.update += fmt.Sprintf("#c%d :d%d", i, i)
		h.values[fmt.Sprintf(":d%d", i)] = num("-1000")
	}
	for i := range 13 {
		h.item[fmt.Sprintf("other%d", i)] = num("1")
	}
	return h
}

func (h *hot) run() error {
	env := expr.NewEnv(h.names, h.values)
	cond, err := expr.ParseCondition(h.condition, env)
	if err != nil {
		return err
	}
	update, err := expr.ParseUpdate(h.update, env)
	if err != nil {
		return err
	}
	if err := env.Unused(); err != nil {
		return err
	}
	if ok, err := cond.Eval(h.item); !ok || err != nil {
		return fmt.Errorf("condition is %v, %w", ok, err)
	}
	_, err = update.Apply(h.item, nil)
	return err
}

func BenchmarkUpdate(b *testing.B) {
	h := newHot()
	b.ReportAllocs()
	for b.Loop() {
		if err := h.run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUpdateParts(b *testing.B) {
	h := newHot()
	env := expr.NewEnv(h.names, h.values)
	cond, err := expr.ParseCondition(h.condition, env)
	if err != nil {
		b.Fatal(err)
	}
	update, err := expr.ParseUpdate(h.update, env)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("bind", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			env := expr.NewEnv(h.names, h.values)
			_, err1 := expr.ParseCondition(h.condition, env)
			_, err2 := expr.ParseUpdate(h.update, env)
			if err1 != nil || err2 != nil || env.Unused() != nil {
				b.Fatal(err1, err2)
			}
		}
	})
	b.Run("eval", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if ok, _ := cond.Eval(h.item); !ok {
				b.Fatal("false")
			}
		}
	})
	b.Run("apply", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := update.Apply(h.item, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("clone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			value.Clone(h.item)
		}
	})
	b.Run("size", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			value.Size(h.item)
		}
	})
}
