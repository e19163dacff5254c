package dynamolite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// intOf reads a number that is known to be an integer.
func intOf(tb testing.TB, v types.AttributeValue) int {
	tb.Helper()
	n, err := strconv.Atoi(v.(*types.AttributeValueMemberN).Value)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// Conditional decrements from many goroutines take exactly the available amount.
func TestConditionalDecrements(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const stock, clients, tries = 500, 8, 100
	key := keyed("a", "b")
	f.put(with(key, attrs{"n": num(strconv.Itoa(stock)), "fpk": str("f"), "fsk": num("1")}))
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range tries {
				out, err := f.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
					TableName: ptr(mainTable), Key: key, UpdateExpression: ptr("ADD n :minus"), ConditionExpression: ptr("n >= :one"),
					ExpressionAttributeValues: attrs{":minus": num("-1"), ":one": num("1")}, ReturnValues: types.ReturnValueAllNew,
				})
				if _, failed := errors.AsType[*types.ConditionalCheckFailedException](err); failed {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := intOf(t, out.Attributes["n"]); n < 0 {
					t.Errorf("the stock fell to %d", n)
				}
				taken.Add(1)
			}
		})
	}
	wg.Wait()
	if taken.Load() != stock {
		t.Errorf("%d were taken of %d", taken.Load(), stock)
	}
	mustEqual(t, "stock", num("0"), f.get(key)["n"])
	mustEqual(t, "stock in the index", num("0"), f.entries(fullIndex, "fpk", "f")[0]["n"])
	if got := f.db.Ledger().Total(); got.WriteUnits != float64(2+clients*tries+stock) {
		t.Errorf("the ledger shows %v WCU, want %d", got.WriteUnits, 2+clients*tries+stock)
	}
}

// Transactions move amounts between accounts; every reader of all accounts sees the right sum.
func TestTransactionsKeepTheSum(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const accounts, each, clients, moves = 6, 100, 4, 150
	key := func(i int) attrs { return keyed(fmt.Sprint("account-", i), "x") }
	var reads []types.TransactGetItem
	for i := range accounts {
		f.put(with(key(i), attrs{"n": num(strconv.Itoa(each)), "kpk": str("k")}))
		reads = append(reads, types.TransactGetItem{Get: &types.Get{TableName: ptr(mainTable), Key: key(i)}})
	}
	sum := func() {
		out, err := f.db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: reads})
		if _, conflict := errors.AsType[*types.TransactionCanceledException](err); conflict {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		total := 0
		for _, r := range out.Responses {
			total += intOf(t, r.Item["n"])
		}
		if total != accounts*each {
			t.Errorf("the accounts hold %d, want %d", total, accounts*each)
		}
	}
	var wg sync.WaitGroup
	for seed := range uint64(clients) {
		random := rand.New(rand.NewPCG(seed, 1))
		wg.Go(func() {
			for range moves {
				from := random.IntN(accounts)
				to := (from + 1 + random.IntN(accounts-1)) % accounts
				amount := attrs{":v": num(strconv.Itoa(1 + random.IntN(60)))}
				err := f.transact(t.Context(),
					types.TransactWriteItem{Update: &types.Update{
						TableName: ptr(mainTable), Key: key(from), UpdateExpression: ptr("SET n = n - :v"), ConditionExpression: ptr("n >= :v"),
						ExpressionAttributeValues: amount,
					}},
					transactUpdate(key(to), "SET n = n + :v", amount),
				)
				if _, cancelled := errors.AsType[*types.TransactionCanceledException](err); err != nil && !cancelled {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for range moves {
				sum()
			}
		})
	}
	wg.Wait()
	sum()
}

// Writers use one partition, while readers read its index and its table.
func TestQueriesBesideWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			for i := range 200 {
				key := keyed("a", strconv.Itoa(i%20))
				f.update(key, "SET kpk = :k, x = :i", attrs{":k": str(fmt.Sprint("k", (i+writer)%3)), ":i": num(strconv.Itoa(i))})
				if i%7 == 0 {
					if _, err := f.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: key}); err != nil {
						t.Error(err)
					}
				}
			}
		})
		wg.Go(func() {
			for i := range 100 {
				f.entries(keysOnly, "kpk", fmt.Sprint("k", i%3))
				f.query(&dynamodb.QueryInput{KeyConditionExpression: ptr("pk = :v"), ExpressionAttributeValues: attrs{":v": str("a")}})
			}
		})
	}
	wg.Wait()
	// After the writers end, the index holds exactly the items of the table.
	want := map[string]int{}
	for _, item := range f.query(&dynamodb.QueryInput{KeyConditionExpression: ptr("pk = :v"), ExpressionAttributeValues: attrs{":v": str("a")}}).Items {
		want[item["kpk"].(*types.AttributeValueMemberS).Value]++
	}
	for _, k := range []string{"k0", "k1", "k2"} {
		if got := len(f.entries(keysOnly, "kpk", k)); got != want[k] {
			t.Errorf("%s has %d entries, want %d", k, got, want[k])
		}
	}
}

// Tables are created and deleted while operations use them.
func TestTablesBesideWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 100 {
				_, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: ptr(otherName), Item: attrs{"id": str("x")}})
				if _, gone := errors.AsType[*types.ResourceNotFoundException](err); err != nil && !gone {
					t.Error(err)
				}
				f.db.Ledger()
			}
		})
	}
	wg.Go(func() {
		for range 50 {
			if _, err := f.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: ptr(otherName)}); err != nil {
				t.Error(err)
			}
			if _, err := f.db.CreateTable(t.Context(), otherInput()); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
}
