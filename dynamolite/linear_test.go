package dynamolite_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

var linearRounds = flag.Int("linear.rounds", 300, "how many histories to check for linearizability, of each kind")

// The model: three items with two numbers each, and one client at a time.

// linearKeys are the keys of the items. Two are of one partition, and so of one shard.
var linearKeys = [3]attrs{keyed("a", "0"), keyed("a", "1"), keyed("b", "0")}

// none is a missing attribute.
const none = -1 << 31

// row is an item, or the part of one that an answer shows. The zero row is not in use: see noRow.
type row struct {
	there bool
	n, v  int
}

var noRow = row{false, none, none}

type rows [len(linearKeys)]row

// doing is the write of a step.
type doing string

const (
	doGet    doing = "get"
	doPut    doing = "put"    // n and v; a missing one is left out
	doAdd    doing = "add"    // ADD n
	doPlus   doing = "plus"   // SET n = n + …, which is an error without n
	doSet    doing = "set"    // SET v
	doRemove doing = "remove" // REMOVE n
	doDelete doing = "delete"
	doCheck  doing = "check"
)

// guard is a step's condition.
type guard string

const (
	always  guard = ""
	exists  guard = "attribute_exists(pk)"
	missing guard = "attribute_not_exists(pk)"
	atLeast guard = "n >= :x"
	equals  guard = "v = :x" // with a write of v this is compare and swap
)

// step is one operation on one item.
type step struct {
	do       doing
	key      int
	n, v     int
	guard    guard
	x        int // in the guard
	returns  types.ReturnValue
	imageToo bool // a failed guard returns the item
}

// request is one call: a step, or several in a transaction.
type request struct {
	transaction bool
	steps       []step
}

// The outcomes of a step.
const (
	done      = "None"
	failed    = "ConditionalCheckFailed"
	erroneous = "ValidationError"
	conflict  = "TransactionConflict"
)

// answer is the visible result of a call: the outcome of each step, and an image.
type answer struct {
	codes  []string
	images []row
}

func (s *step) holds(r row) bool {
	switch s.guard {
	case exists:
		return r.there
	case missing:
		return !r.there
	case atLeast:
		return r.n != none && r.n >= s.x
	case equals:
		return r.v != none && r.v == s.x
	default:
		return true
	}
}

// take returns an item after a step, and the part of it that a step of its own shows.
func (s *step) take(r row) (next row, code string, image row) {
	if !s.holds(r) {
		if s.imageToo {
			return r, failed, r
		}
		return r, failed, noRow
	}
	var touched func(row) row
	switch s.do {
	case doGet:
		return r, done, r
	case doCheck:
		return r, done, noRow
	case doDelete:
		next = noRow
	case doPut:
		next = row{true, s.n, s.v}
	case doSet:
		next, touched = row{true, r.n, s.v}, func(r row) row { return row{r.v != none, none, r.v} }
	default:
		touched = func(r row) row { return row{r.n != none, r.n, none} }
		n := s.n
		switch {
		case s.do == doRemove:
			n = none
		case r.n != none:
			n += r.n
		case s.do == doPlus:
			return r, erroneous, noRow
		}
		next = row{true, n, r.v}
	}
	switch s.returns {
	case types.ReturnValueAllOld:
		return next, done, r
	case types.ReturnValueAllNew:
		return next, done, next
	case types.ReturnValueUpdatedOld:
		return next, done, touched(r)
	case types.ReturnValueUpdatedNew:
		return next, done, touched(next)
	default:
		return next, done, noRow
	}
}

// perform is the whole model: it applies all steps of a request, or none.
func (state rows) perform(q request) (rows, answer) {
	next, a, cancelled := state, answer{}, false
	for i := range q.steps {
		s := &q.steps[i]
		r, code, image := s.take(state[s.key])
		next[s.key] = r
		a.codes = append(a.codes, code)
		a.images = append(a.images, image)
		cancelled = cancelled || code != done
	}
	if cancelled {
		next = state
	}
	return next, a
}

// possible is a step of the model. A call in conflict with a transaction in progress has no
// effect, whatever else it reports.
func possible(state, input, output any) (bool, any) {
	got := output.(answer)
	if slices.Contains(got.codes, conflict) {
		return true, state
	}
	next, want := state.(rows).perform(input.(request))
	return slices.Equal(got.codes, want.codes) && slices.Equal(got.images, want.images), next
}

// byKey splits a history of calls with one step each by item.
func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	parts := make([][]porcupine.Operation, len(linearKeys))
	for _, o := range history {
		key := o.Input.(request).steps[0].key
		parts[key] = append(parts[key], o)
	}
	return parts
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return rows{noRow, noRow, noRow} },
		Step: possible,
	}
}

// Random requests. Their numbers are few, so that guards on them often hold.

func drawStep(r *rand.Rand, among ...doing) step {
	s := step{do: among[r.IntN(len(among))], key: r.IntN(len(linearKeys)), n: r.IntN(4), v: r.IntN(4), x: r.IntN(4), imageToo: r.IntN(2) == 0}
	switch s.do {
	case doGet:
		s.imageToo = false
		return s
	case doPut:
		if r.IntN(4) == 0 {
			s.n = none
		}
		fallthrough
	case doDelete:
		s.returns = []types.ReturnValue{types.ReturnValueNone, types.ReturnValueAllOld, types.ReturnValueAllOld}[r.IntN(3)]
	case doCheck:
	default:
		all := types.ReturnValueNone.Values()
		s.returns = all[r.IntN(len(all))]
	}
	guards := []guard{always, always, always, exists, missing, atLeast, equals}
	if s.do == doCheck {
		guards = guards[3:]
	}
	s.guard = guards[r.IntN(len(guards))]
	return s
}

func drawSingle(r *rand.Rand) request {
	return request{false, []step{drawStep(r, doGet, doPut, doAdd, doAdd, doPlus, doSet, doSet, doRemove, doDelete)}}
}

// drawMixed draws transactions over two or three items, mixed with single steps.
func drawMixed(r *rand.Rand) request {
	kind := r.IntN(5)
	if kind < 2 {
		return drawSingle(r)
	}
	keys := r.Perm(len(linearKeys))[:2+r.IntN(2)]
	q := request{true, make([]step, len(keys))}
	for i, key := range keys {
		if kind == 2 {
			q.steps[i] = step{do: doGet, key: key}
			continue
		}
		q.steps[i] = drawStep(r, doCheck, doPut, doAdd, doAdd, doPlus, doSet, doDelete)
		q.steps[i].key, q.steps[i].returns = key, ""
	}
	return q
}

// Requests to the engine, and its answers.

func (s *step) item() attrs {
	item := with(linearKeys[s.key], nil)
	if s.n != none {
		item["n"] = num(strconv.Itoa(s.n))
	}
	if s.v != none {
		item["v"] = num(strconv.Itoa(s.v))
	}
	return item
}

// condition returns the guard, and update the expression, with the values that either uses.
func (s *step) condition() (condition, update *string, values attrs) {
	values = attrs{}
	if s.guard != always {
		condition = ptr(string(s.guard))
	}
	if s.guard == atLeast || s.guard == equals {
		values[":x"] = num(strconv.Itoa(s.x))
	}
	switch s.do {
	case doAdd:
		update, values[":n"] = ptr("ADD n :n"), num(strconv.Itoa(s.n))
	case doPlus:
		update, values[":n"] = ptr("SET n = n + :n"), num(strconv.Itoa(s.n))
	case doSet:
		update, values[":v"] = ptr("SET v = :v"), num(strconv.Itoa(s.v))
	case doRemove:
		update = ptr("REMOVE n")
	case doGet, doPut, doDelete, doCheck:
	}
	if len(values) == 0 {
		values = nil
	}
	return condition, update, values
}

func (s *step) onFailure() types.ReturnValuesOnConditionCheckFailure {
	if s.imageToo {
		return types.ReturnValuesOnConditionCheckFailureAllOld
	}
	return types.ReturnValuesOnConditionCheckFailureNone
}

func rowOf(item attrs) row {
	r := row{len(item) > 0, none, none}
	for name, to := range map[string]*int{"n": &r.n, "v": &r.v} {
		if v, ok := item[name].(*types.AttributeValueMemberN); ok {
			*to, _ = strconv.Atoi(v.Value)
		}
	}
	return r
}

// send sends a request. An error unknown to the model becomes a code that matches nothing.
func send(ctx context.Context, db *dynamolite.DB, q request) answer {
	if q.transaction {
		return sendTransaction(ctx, db, q.steps)
	}
	item, err := sendStep(ctx, db, &q.steps[0])
	if err == nil {
		return answer{[]string{done}, []row{rowOf(item)}}
	}
	if e, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return answer{[]string{failed}, []row{rowOf(e.Item)}}
	}
	code := err.Error()
	if _, ok := errors.AsType[*types.TransactionConflictException](err); ok {
		code = conflict
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok && e.ErrorCode() == "ValidationException" {
		code = erroneous
	}
	return answer{[]string{code}, []row{noRow}}
}

func sendStep(ctx context.Context, db *dynamolite.DB, s *step) (attrs, error) {
	condition, update, values := s.condition()
	table, key := ptr(mainTable), linearKeys[s.key]
	switch s.do {
	case doGet:
		out, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: table, Key: key, ConsistentRead: ptr(true)})
		if err != nil {
			return nil, err
		}
		return out.Item, nil
	case doPut:
		out, err := db.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: table, Item: s.item(), ConditionExpression: condition, ExpressionAttributeValues: values,
			ReturnValues: s.returns, ReturnValuesOnConditionCheckFailure: s.onFailure(),
		})
		if err != nil {
			return nil, err
		}
		return out.Attributes, nil
	case doDelete:
		out, err := db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: table, Key: key, ConditionExpression: condition, ExpressionAttributeValues: values,
			ReturnValues: s.returns, ReturnValuesOnConditionCheckFailure: s.onFailure(),
		})
		if err != nil {
			return nil, err
		}
		return out.Attributes, nil
	default:
		out, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: table, Key: key, UpdateExpression: update, ConditionExpression: condition, ExpressionAttributeValues: values,
			ReturnValues: s.returns, ReturnValuesOnConditionCheckFailure: s.onFailure(),
		})
		if err != nil {
			return nil, err
		}
		return out.Attributes, nil
	}
}

func sendTransaction(ctx context.Context, db *dynamolite.DB, steps []step) (a answer) {
	var err error
	if steps[0].do == doGet {
		in := &dynamodb.TransactGetItemsInput{}
		for i := range steps {
			in.TransactItems = append(in.TransactItems, types.TransactGetItem{Get: &types.Get{TableName: ptr(mainTable), Key: linearKeys[steps[i].key]}})
		}
		var out *dynamodb.TransactGetItemsOutput
		if out, err = db.TransactGetItems(ctx, in); err == nil {
			for _, r := range out.Responses {
				a.codes, a.images = append(a.codes, done), append(a.images, rowOf(r.Item))
			}
			return a
		}
	} else {
		in := &dynamodb.TransactWriteItemsInput{}
		for i := range steps {
			in.TransactItems = append(in.TransactItems, steps[i].transacted())
		}
		if _, err = db.TransactWriteItems(ctx, in); err == nil {
			for range steps {
				a.codes, a.images = append(a.codes, done), append(a.images, noRow)
			}
			return a
		}
	}
	e, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return answer{codes: []string{err.Error()}}
	}
	for _, r := range e.CancellationReasons {
		a.codes, a.images = append(a.codes, *r.Code), append(a.images, rowOf(r.Item))
	}
	return a
}

func (s *step) transacted() types.TransactWriteItem {
	condition, update, values := s.condition()
	table, key := ptr(mainTable), linearKeys[s.key]
	switch s.do {
	case doPut:
		return types.TransactWriteItem{Put: &types.Put{
			TableName: table, Item: s.item(), ConditionExpression: condition, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: s.onFailure(),
		}}
	case doDelete:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: table, Key: key, ConditionExpression: condition, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: s.onFailure(),
		}}
	case doCheck:
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: table, Key: key, ConditionExpression: condition, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: s.onFailure(),
		}}
	default:
		return types.TransactWriteItem{Update: &types.Update{
			TableName: table, Key: key, UpdateExpression: update, ConditionExpression: condition, ExpressionAttributeValues: values,
			ReturnValuesOnConditionCheckFailure: s.onFailure(),
		}}
	}
}

// record runs clients against a database. For each call it notes the result and the ticks of a
// common clock before and after it. Some clients pause between the first tick and the call, so
// that calls overlap on a single processor too.
func record(t *testing.T, db *dynamolite.DB, seed uint64, clients, calls int, draw func(*rand.Rand) request) []porcupine.Operation {
	t.Helper()
	histories := make([][]porcupine.Operation, clients)
	var clock atomic.Int64
	start := make(chan struct{})
	var wg sync.WaitGroup
	for client := range clients {
		r := rand.New(rand.NewPCG(seed, uint64(client)))
		wg.Go(func() {
			<-start
			for range calls {
				o := porcupine.Operation{ClientId: client, Input: draw(r)}
				pause := r.IntN(4) == 0
				o.Call = clock.Add(1)
				if pause {
					runtime.Gosched()
				}
				o.Output = send(t.Context(), db, o.Input.(request))
				o.Return = clock.Add(1)
				histories[client] = append(histories[client], o)
			}
		})
	}
	close(start)
	wg.Wait()
	history := slices.Concat(histories...)
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	return history
}

// overlapping counts the calls that began before an earlier one had returned.
func overlapping(history []porcupine.Operation) (n int) {
	latest := int64(0)
	for _, o := range history {
		if o.Call < latest {
			n++
		}
		latest = max(latest, o.Return)
	}
	return n
}

// checkLinear checks histories by seed, and that together they cover the interesting cases.
func checkLinear(t *testing.T, m porcupine.Model, history func(seed uint64) []porcupine.Operation) map[string]int {
	t.Helper()
	codes, overlaps := map[string]int{}, 0
	for seed := range uint64(*linearRounds) {
		history := history(seed)
		for _, o := range history {
			for _, code := range o.Output.(answer).codes {
				codes[code]++
			}
		}
		overlaps += overlapping(history)
		if !porcupine.CheckOperations(m, history) {
			t.Fatalf("seed %d: no order of these calls explains their answers:\n%s", seed, describe(history))
		}
	}
	t.Logf("outcomes %v, %d calls overlapped", codes, overlaps)
	if overlaps == 0 || codes[done] == 0 || codes[failed] == 0 || codes[erroneous] == 0 {
		t.Errorf("the histories show too little: outcomes %v, %d calls overlapped", codes, overlaps)
	}
	return codes
}

func describe(history []porcupine.Operation) string {
	var b strings.Builder
	for _, o := range history {
		fmt.Fprintf(&b, "%4d to %4d, client %d: %+v: %+v\n", o.Call, o.Return, o.ClientId, o.Input, o.Output)
	}
	return strings.ReplaceAll(b.String(), strconv.Itoa(none), "none")
}

// Calls on single items take effect one at a time, each between its beginning and its end.
func TestSingleItemsAreLinearizable(t *testing.T) {
	t.Parallel()
	m := model()
	m.Partition = byKey
	checkLinear(t, m, func(seed uint64) []porcupine.Operation {
		return record(t, newFixture(t).db, seed, 8, 25, drawSingle)
	})
}

// The same holds for transactions over several items, mixed with calls on single items.
func TestTransactionsAreLinearizable(t *testing.T) {
	t.Parallel()
	checkLinear(t, model(), func(seed uint64) []porcupine.Operation {
		return record(t, newFixture(t).db, seed, 8, 12, drawMixed)
	})
}

// A transaction with a long pause between its two steps makes visible the conflicts that occur
// there.
func TestSlowTransactionsAreLinearizable(t *testing.T) {
	t.Parallel()
	codes := checkLinear(t, model(), func(seed uint64) (history []porcupine.Operation) {
		synctest.Test(t, func(t *testing.T) {
			db := dynamolite.New(dynamolite.Options{Latency: dynamolite.Latency{P50: time.Millisecond, P99: 5 * time.Millisecond, Seed: seed}})
			history = record(t, fixtureIn(t, db).db, seed, 4, 8, drawMixed)
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return history
	})
	if codes[conflict] == 0 {
		t.Error("no transaction met another")
	}
}

// The checker rejects histories that the engine must not produce: a stale read, a lost update,
// half a transaction.
func TestLinearizabilityIsRefuted(t *testing.T) {
	t.Parallel()
	put := request{false, []step{{do: doPut, n: 1, v: 1}}}
	get := func(keys ...int) (q request) {
		q.transaction = len(keys) > 1
		for _, key := range keys {
			q.steps = append(q.steps, step{do: doGet, key: key})
		}
		return q
	}
	add := request{false, []step{{do: doAdd, n: 1, returns: types.ReturnValueAllNew}}}
	both := request{true, []step{{do: doPut, n: 1, v: 1}, {do: doPut, key: 1, n: 1, v: 1}}}
	one := row{true, 1, 1}
	says := func(images ...row) (a answer) {
		for _, image := range images {
			a.codes, a.images = append(a.codes, done), append(a.images, image)
		}
		return a
	}
	for name, tt := range map[string]struct {
		first, second         request
		firstSays, secondSays answer
		overlap, want         bool
	}{
		"a read after":               {put, get(0), says(noRow), says(one), false, true},
		"a stale read":               {put, get(0), says(noRow), says(noRow), false, false},
		"a read beside":              {put, get(0), says(noRow), says(noRow), true, true},
		"a lost update":              {add, add, says(row{true, 1, none}), says(row{true, 1, none}), true, false},
		"two updates":                {add, add, says(row{true, 2, none}), says(row{true, 1, none}), true, true},
		"a transaction and a read":   {both, get(0, 1), says(noRow, noRow), says(one, one), true, true},
		"half a transaction":         {both, get(0, 1), says(noRow, noRow), says(one, noRow), true, false},
		"a conflict":                 {put, get(0), answer{[]string{conflict}, []row{noRow}}, says(noRow), false, true},
		"a conflict that had effect": {put, get(0), answer{[]string{conflict}, []row{noRow}}, says(one), false, false},
	} {
		history := []porcupine.Operation{
			{ClientId: 0, Input: tt.first, Output: tt.firstSays, Call: 1, Return: 2},
			{ClientId: 1, Input: tt.second, Output: tt.secondSays, Call: 3, Return: 4},
		}
		if tt.overlap {
			history[0].Return = 5
		}
		if got := porcupine.CheckOperations(model(), history); got != tt.want {
			t.Errorf("%s: linearizable %v, want %v", name, got, tt.want)
		}
	}
}
