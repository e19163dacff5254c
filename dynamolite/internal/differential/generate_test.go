package differential_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// recordedSeeds is how many seeds have their cases in the golden files.
const recordedSeeds = 80

// generated returns the cases of n seeds: random items, and random, mostly valid expressions on
// them. The same seed makes the same cases.
func generated(from, n uint64) []testCase {
	var all []testCase
	for seed := from; seed < from+n; seed++ {
		for i, kind := range []struct {
			name string
			make func(*generator) testCase
		}{
			{"condition", (*generator).conditions},
			{"update", (*generator).updates},
			{"projection", (*generator).projections},
			{"query", (*generator).queries},
			{"scan", (*generator).scans},
			{"local query", (*generator).localQueries},
			{"local write", (*generator).localWrites},
		} {
			g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(i)))} //nolint:gosec // reproducible is the point
			c := kind.make(g)
			c.name = fmt.Sprintf("generated/%s %d", kind.name, seed)
			for _, request := range c.requests {
				bill(request)
			}
			all = append(all, c)
		}
	}
	return all
}

// generator makes one case. Values and aliases collect the values and aliases of the expressions
// made so far; take moves them to a request.
type generator struct {
	*rand.Rand

	item    fields
	values  fields
	aliases map[string]string
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, all ...T) T { return all[g.IntN(len(all))] }

// take returns the collected values and aliases, nil if there are none, and resets them.
func (g *generator) take() (fields, map[string]string) {
	values, aliases := g.values, g.aliases
	g.values, g.aliases = nil, nil
	return values, aliases
}

func (g *generator) conditions() testCase {
	g.item = g.randomItem()
	c := testCase{setup: one(g.item)}
	for range 6 {
		request := check(g.garbled(g.condition(3)), nil)
		values, aliases := g.take()
		request.ExpressionAttributeValues, request.ExpressionAttributeNames = values.values(), aliases
		request.ReturnValues = types.ReturnValueNone
		request.ReturnValuesOnConditionCheckFailure = ""
		c.requests = append(c.requests, request)
	}
	return c
}

func (g *generator) updates() testCase {
	g.item = g.randomItem()
	c := testCase{setup: one(g.item)}
	for range 4 {
		request := update(g.garbled(g.update()), nil)
		values, aliases := g.take()
		request.ExpressionAttributeValues, request.ExpressionAttributeNames = values.values(), aliases
		c.requests = append(c.requests, request)
	}
	return c
}

func (g *generator) projections() testCase {
	g.item = g.randomItem()
	c := testCase{setup: one(g.item)}
	for range 4 {
		request := get(hashTable, key)
		request.ProjectionExpression = new(g.garbled(g.list(4, g.path)))
		_, request.ExpressionAttributeNames = g.take()
		c.requests = append(c.requests, request)
	}
	return c
}

func (g *generator) queries() testCase {
	var c testCase
	taken := map[string]bool{}
	for range 2 + g.IntN(12) {
		sk := g.word()
		if taken[sk] || sk == "" {
			continue
		}
		taken[sk] = true
		g.item = g.randomItem()
		c.setup = append(c.setup, stored{rangeTable, g.item.with(fields{"pk": "p", "sk": sk})})
	}
	for range 4 {
		sort := pick(g, "sk = :s", "sk < :s", "sk <= :s", "sk > :s", "sk >= :s", ":s <= sk", "begins_with(sk, :s)", "sk BETWEEN :s AND :t")
		where, values := "pk = :p AND "+sort, fields{":p": "p", ":s": g.word()}
		if strings.Contains(sort, ":t") {
			values[":t"] = g.word()
		}
		if g.chance(30) {
			where, values = "pk = :p", fields{":p": "p"}
		}
		request := query(rangeTable, g.garbled(where), nil)
		request.ScanIndexForward = new(g.chance(50))
		if g.chance(50) {
			request.FilterExpression = new(g.condition(2))
		}
		if g.chance(30) {
			request.ProjectionExpression = new(g.list(3, g.path))
		}
		more, aliases := g.take()
		request.ExpressionAttributeValues, request.ExpressionAttributeNames = values.with(more).values(), aliases
		if !strings.ContainsAny(where[len("pk = :p"):], "=T") && g.chance(70) { // see query/limit at the bound of the range
			request.Limit = new(int32(1 + g.IntN(5)))
		}
		c.requests = append(c.requests, pages{request})
	}
	return c
}

// garbled damages one expression of eight: it drops, doubles or moves a word.
func (g *generator) garbled(expression string) string {
	if !g.chance(12) {
		return expression
	}
	words := strings.Fields(expression)
	i := g.IntN(len(words))
	switch g.IntN(3) {
	case 0:
		words[i] = ""
	case 1:
		words[i] += " " + words[i]
	default:
		j := g.IntN(len(words))
		words[i], words[j] = words[j], words[i]
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// list joins up to n parts.
func (g *generator) list(n int, part func() string) string {
	parts := make([]string, 1+g.IntN(n))
	for i := range parts {
		parts[i] = part()
	}
	return strings.Join(parts, " , ")
}

func (g *generator) condition(depth int) string {
	if depth > 0 && g.chance(50) {
		left, right := g.condition(depth-1), g.condition(depth-1)
		switch g.IntN(4) {
		case 0:
			return left + " AND " + right
		case 1:
			return left + " OR " + right
		case 2:
			return "( " + left + " OR " + right + " ) AND " + g.condition(0)
		default:
			return "NOT " + left
		}
	}
	switch g.IntN(10) {
	case 0:
		return "attribute_exists( " + g.path() + " )"
	case 1:
		return "attribute_not_exists( " + g.path() + " )"
	case 2:
		return "begins_with( " + g.path() + " , " + g.value(g.word()) + " )"
	case 3:
		return "contains( " + g.path() + " , " + g.value(g.similar()) + " )"
	case 4:
		kind := pick(g, "S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M")
		return "attribute_type( " + g.path() + " , " + g.value(kind) + " )"
	case 5:
		return g.path() + " IN ( " + g.list(3, func() string { return g.value(g.similar()) }) + " )"
	case 6:
		low, high := g.randomNumber(), g.randomNumber()
		return g.operand() + " BETWEEN " + g.value(low) + " AND " + g.value(high)
	default:
		return g.path() + " " + pick(g, "=", "<>", "<", "<=", ">", ">=") + " " + g.operand()
	}
}

func (g *generator) operand() string {
	switch g.IntN(6) {
	case 0:
		return "size( " + g.path() + " )"
	case 1:
		return g.path()
	default:
		return g.value(g.similar())
	}
}

func (g *generator) update() string {
	var sections []string
	if g.chance(70) {
		sections = append(sections, "SET "+g.list(3, g.assignment))
	}
	if g.chance(30) {
		sections = append(sections, "REMOVE "+g.list(3, g.path))
	}
	if g.chance(35) {
		sections = append(sections, "ADD "+g.list(2, func() string {
			return g.path() + " " + g.value(pick[any](g, g.randomNumber(), g.randomNumber(), strs{"a", g.letter()}, nums{"1", "2.5"}, "text"))
		}))
	}
	if g.chance(20) || len(sections) == 0 {
		sections = append(sections, "DELETE "+g.path()+" "+g.value(pick[any](g, strs{"a", "b"}, nums{"1"}, g.similar())))
	}
	g.Shuffle(len(sections), func(i, j int) { sections[i], sections[j] = sections[j], sections[i] })
	return strings.Join(sections, " ")
}

func (g *generator) assignment() string {
	operand := func() string {
		switch g.IntN(6) {
		case 0:
			return "if_not_exists( " + g.path() + " , " + g.value(g.randomNumber()) + " )"
		case 1:
			return g.path()
		default:
			return g.value(g.randomNumber())
		}
	}
	to := g.path()
	switch g.IntN(6) {
	case 0:
		return to + " = " + operand() + " + " + operand()
	case 1:
		return to + " = " + operand() + " - " + operand()
	case 2:
		return to + " = list_append( " + g.path() + " , " + g.value([]any{g.randomValue(1)}) + " )"
	case 3:
		return to + " = " + operand()
	default:
		return to + " = " + g.value(g.randomValue(2))
	}
}

// value gives v a placeholder in the request.
func (g *generator) value(v any) string {
	if g.values == nil {
		g.values = fields{}
	}
	name := fmt.Sprintf(":v%d", len(g.values))
	g.values[name] = v
	return name
}

// path returns a path that often exists: the items' attributes have one letter.
func (g *generator) path() string {
	name := g.letter()
	if g.chance(20) {
		if g.aliases == nil {
			g.aliases = map[string]string{}
		}
		g.aliases["#"+name] = name
		name = "#" + name
	}
	path := []byte(name)
	for g.chance(35) {
		if g.chance(50) {
			path = append(append(path, '.'), g.letter()...)
		} else {
			path = fmt.Appendf(path, "[%d]", g.IntN(4))
		}
	}
	return string(path)
}

func (g *generator) letter() string { return pick(g, "a", "b", "c", "d", "e", "f") }

// word returns a short string of few letters, so that words are often equal.
func (g *generator) word() string {
	var word strings.Builder
	for range g.IntN(4) {
		word.WriteString(pick(g, "a", "b", "B", "é", "😀"))
	}
	return word.String()
}

// similar returns a value from the item, or another.
func (g *generator) similar() any {
	if v, ok := g.item[g.letter()]; ok && g.chance(60) {
		return v
	}
	return g.randomValue(1)
}

func (g *generator) randomItem() fields {
	item := fields{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		if g.chance(75) {
			item[name] = g.randomValue(3)
		}
	}
	return item
}

func (g *generator) randomValue(depth int) any {
	if depth > 0 && g.chance(40) {
		if g.chance(50) {
			list := make([]any, g.IntN(4))
			for i := range list {
				list[i] = g.randomValue(depth - 1)
			}
			return list
		}
		m := fields{}
		for range g.IntN(4) {
			m[g.letter()] = g.randomValue(depth - 1)
		}
		return m
	}
	switch g.IntN(10) {
	case 0:
		return g.chance(50)
	case 1:
		return nil
	case 2:
		return []byte(g.word())
	case 3:
		return strs{"a", "b"}[:1+g.IntN(2)]
	case 4:
		return nums{"1", "2.5", "1e20"}[:1+g.IntN(3)]
	case 5:
		return bins{"x", "y"}[:1+g.IntN(2)]
	case 6, 7:
		return g.word()
	default:
		return g.randomNumber()
	}
}

// randomNumber has up to 38 digits, a point somewhere, and often few digits.
func (g *generator) randomNumber() num {
	if g.chance(50) {
		return num(strconv.Itoa(g.IntN(20) - 5))
	}
	digits := make([]byte, 1+g.IntN(38))
	for i := range digits {
		digits[i] = '0' + byte(g.IntN(10))
	}
	if digits[0] == '0' {
		digits[0] = '1'
	}
	n := string(digits)
	switch g.IntN(4) {
	case 0:
		at := g.IntN(len(n))
		n = n[:at] + "." + n[at:]
	case 1:
		n += fmt.Sprintf("e%d", g.IntN(80)-60)
	}
	if g.chance(30) {
		n = "-" + n
	}
	return num(n)
}
