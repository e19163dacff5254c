package differential_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// scans are made over one partition, by pages, and over several, by segments.
func (g *generator) scans() testCase {
	var c testCase
	taken := map[string]bool{}
	several := g.chance(50)
	for range 2 + g.IntN(12) {
		place := fields{"pk": "p", "sk": g.word()}
		if several {
			place["pk"] = "p" + g.letter()
		}
		id := fmt.Sprint(place)
		if taken[id] || place["sk"] == "" {
			continue
		}
		taken[id] = true
		g.item = g.randomItem()
		c.setup = append(c.setup, stored{rangeTable, g.item.with(place)})
	}
	for range 4 {
		request := scan(rangeTable)
		if g.chance(60) {
			request.FilterExpression = new(g.garbled(g.condition(2)))
		}
		if g.chance(30) {
			request.ProjectionExpression = new(g.garbled(g.list(3, g.path)))
		}
		if g.chance(60) {
			request.Limit = new(int32(1 + g.IntN(5)))
		}
		values, aliases := g.take()
		request.ExpressionAttributeValues, request.ExpressionAttributeNames = values.values(), aliases
		switch {
		case !several:
			c.requests = append(c.requests, pages{request})
		case g.chance(50) || request.FilterExpression != nil:
			c.requests = append(c.requests, sweep{request, int32(1 + g.IntN(5))}) //nolint:gosec // of five at most
		default:
			c.requests = append(c.requests, sweep{request, 0})
		}
	}
	return c
}

// localItem has keys for the local indexes, most of the time, and always one of the global index;
// see local/bill: update of one key and removal of the other.
func (g *generator) localItem(sk string) fields {
	item := fields{"pk": "p", "sk": sk}
	for _, name := range []string{"nsk", "tsk", "ssk", "gpk", "x", "y", "w"} {
		if name == "gpk" || g.chance(70) {
			item[name] = g.localValue(name)
		}
	}
	return item
}

func (g *generator) localValue(name string) any {
	switch name {
	case "nsk":
		return g.randomNumber()
	case "gpk":
		return pick(g, "g", "h")
	case "tsk", "ssk":
		return "t" + g.word()
	case "w":
		return strings.Repeat("w", g.IntN(3000))
	default:
		return g.randomValue(1)
	}
}

// localQueries query the local indexes; no two of the items have equal keys in them.
func (g *generator) localQueries() testCase {
	var c testCase
	for i := range 2 + g.IntN(8) {
		g.item = g.randomItem()
		place := fields{"pk": "p", "sk": strconv.Itoa(i), "x": g.randomValue(1)}
		if g.chance(80) {
			place["nsk"] = g.IntN(5) + 10*i - 40
		}
		if g.chance(80) {
			place["tsk"] = g.word() + strconv.Itoa(i)
		}
		c.setup = append(c.setup, stored{localTable, g.item.with(place)})
	}
	for range 4 {
		index, name, bounds := byText, "tsk", []any{g.word() + "1", g.word() + "2"}
		if g.chance(50) {
			index, name, bounds = byNumber, "nsk", []any{g.IntN(90) - 45, g.IntN(90) - 45}
		}
		where, values := "pk = :p", fields{":p": "p"}
		if g.chance(60) {
			where += " AND " + name + " " + pick(g, "<", ">", "BETWEEN :s AND")
			where += " :t"
			values[":t"] = bounds[0]
			if strings.Contains(where, ":s") {
				values[":s"] = bounds[1]
			}
		}
		request := query(localTable+"."+index, g.garbled(where), nil)
		request.ScanIndexForward = new(g.chance(50))
		switch {
		case g.chance(30):
			request.ProjectionExpression = new(g.list(3, g.path))
		case g.chance(30):
			request.Select = types.SelectAllAttributes
		case g.chance(20):
			request.Select = types.SelectCount
		}
		if g.chance(40) {
			request.FilterExpression = new(g.condition(1))
		}
		more, aliases := g.take()
		request.ExpressionAttributeValues, request.ExpressionAttributeNames = values.with(more).values(), aliases
		if !strings.Contains(where, "BETWEEN") && g.chance(60) { // see query/limit at the bound of the range
			request.Limit = new(int32(1 + g.IntN(4)))
		}
		c.requests = append(c.requests, pages{request})
	}
	return c
}

// localWrites write items that are in indexes, and read all of these indexes.
func (g *generator) localWrites() testCase {
	c := testCase{setup: many(localTable, g.localItem("0"), g.localItem("1"))}
	for range 4 {
		sk := strconv.Itoa(g.IntN(3))
		place := fields{"pk": "p", "sk": sk}
		switch g.IntN(4) {
		case 0:
			c.requests = append(c.requests, put(localTable, g.localItem(sk)))
		case 1:
			c.requests = append(c.requests, remove(localTable, place))
		default:
			sets, values := []string{"gpk = :gpk"}, fields{":gpk": pick(g, "g", "h")}
			var removes []string
			for _, name := range []string{"nsk", "tsk", "ssk", "x", "y", "w"} {
				switch g.IntN(5) {
				case 0:
					sets = append(sets, name+" = :"+name)
					values[":"+name] = g.localValue(name)
				case 1:
					removes = append(removes, name)
				}
			}
			expression := "SET " + strings.Join(sets, ", ")
			if len(removes) > 0 {
				expression += " REMOVE " + strings.Join(removes, ", ")
			}
			c.requests = append(c.requests, tweak(update(expression, values), func(in *dynamodb.UpdateItemInput) {
				in.TableName, in.Key, in.ReturnValues = new(localTable), place.values(), types.ReturnValueNone
			}))
		}
	}
	for _, index := range []string{byNumber, byText, bySome} {
		c.requests = append(c.requests, query(localTable+"."+index, "pk = :p", fields{":p": "p"}))
	}
	c.requests = append(c.requests, tweak(scan(localTable+"."+besideIndex), func(in *dynamodb.ScanInput) {
		in.ReturnConsumedCapacity = types.ReturnConsumedCapacityNone // see scan/bill of what the index does not hold
	}))
	return c
}
