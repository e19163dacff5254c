package dynamolite_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

var (
	kills    = flag.Int("dynamolite.kills", 25, "how often the writing process is killed")
	killSeed = flag.Uint64("dynamolite.seed", 1, "chooses the moments at which it is killed")
)

// crashDir is the environment variable that gives the directory to the process that is killed.
const crashDir = "DYNAMOLITE_CRASH_DIR"

const (
	counters = 8   // items that are counted up, each by one goroutine
	accounts = 6   // items that transactions move amounts between
	balance  = 100 // of each account at the start
	movers   = 3   // goroutines that move amounts
	crashLog = 32 << 10
)

// crashingWriter writes until it is killed, and reports on standard output every acknowledged
// operation.
func crashingWriter(dir string) int {
	db, err := dynamolite.Open(dynamolite.CheckpointAfter(dynamolite.Options{Dir: dir}, crashLog))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var failed sync.Once
	var wg sync.WaitGroup
	status := 0
	each := func(n int, step func(worker, i int) (string, error)) {
		for worker := range n {
			wg.Go(func() {
				for i := 0; ; i++ {
					said, err := step(worker, i)
					if err == nil {
						_, err = os.Stdout.WriteString(said + "\n")
					}
					if err != nil {
						failed.Do(func() { fmt.Fprintln(os.Stderr, err); status = 1 })
						return
					}
				}
			})
		}
	}
	ctx := context.Background()
	each(counters, func(worker, _ int) (string, error) { return countUp(ctx, db, worker) })
	each(movers, func(worker, _ int) (string, error) { return move(ctx, db, worker) })
	each(1, func(_, i int) (string, error) { return comeAndGo(ctx, db, i) })
	wg.Wait()
	return status
}

func countUp(ctx context.Context, db *dynamolite.DB, worker int) (string, error) {
	out, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: ptr(mainTable), Key: counter(worker),
		UpdateExpression:          ptr("SET n = if_not_exists(n, :zero) + :one, kpk = :k"),
		ExpressionAttributeValues: attrs{":zero": num("0"), ":one": num("1"), ":k": str("counter")},
		ReturnValues:              types.ReturnValueAllNew,
	})
	if err != nil {
		return "", err
	}
	n, _ := out.Attributes["n"].(*types.AttributeValueMemberN)
	return fmt.Sprintf("counted %d %s", worker, n.Value), nil
}

func counter(worker int) attrs { return keyed("counter", strconv.Itoa(worker)) }
func account(i int) attrs      { return keyed("account-"+strconv.Itoa(i), "x") }

// move transfers an amount, with a token that identifies the transfer.
func move(ctx context.Context, db *dynamolite.DB, worker int) (string, error) {
	from := rand.IntN(accounts)                          //nolint:gosec // the moments are random anyway
	to := (from + 1 + rand.IntN(accounts-1)) % accounts  //nolint:gosec // as above
	token := fmt.Sprintf("%d-%x", worker, rand.Uint64()) //nolint:gosec // as above
	_, err := db.TransactWriteItems(ctx, transfer(from, to, token))
	_, conflict := errors.AsType[*types.TransactionCanceledException](err)
	switch {
	case conflict:
		return "conflict", nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("moved %d %d %s", from, to, token), nil
}

func transfer(from, to int, token string) *dynamodb.TransactWriteItemsInput {
	add := func(i int, amount string) types.TransactWriteItem {
		return transactUpdate(account(i), "ADD n :v", attrs{":v": num(amount)})
	}
	return &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: &token, TransactItems: []types.TransactWriteItem{add(from, "-1"), add(to, "1")},
	}
}

// comeAndGo makes a table and drops the previous one.
func comeAndGo(ctx context.Context, db *dynamolite.DB, i int) (string, error) {
	name := fmt.Sprintf("table-%d-%x", i, rand.Uint64()) //nolint:gosec // as above
	in := otherInput()
	in.TableName = &name
	if _, err := db.CreateTable(ctx, in); err != nil {
		return "", err
	}
	put := &dynamodb.PutItemInput{TableName: &name, Item: attrs{"id": str("only")}}
	if _, err := db.PutItem(ctx, put); err != nil {
		return "", err
	}
	if i%2 == 0 {
		return "created " + name, nil
	}
	if _, err := db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
		return "", err
	}
	return "dropped " + name, nil
}

// heard holds the acknowledgements that the process has reported.
type heard struct {
	counts       [counters]int
	moved        []string // the last transfer of each process: from, to, token
	tables       map[string]bool
	acknowledged int
}

func (h *heard) line(line string) error {
	words := strings.Fields(line)
	switch {
	case len(words) == 3 && words[0] == "counted":
		worker, err := strconv.Atoi(words[1])
		if err != nil || worker >= counters {
			return fmt.Errorf("line %q", line)
		}
		if h.counts[worker], err = strconv.Atoi(words[2]); err != nil {
			return err
		}
	case len(words) == 4 && words[0] == "moved":
		h.moved = words[1:]
	case len(words) == 2 && words[0] == "created":
		h.tables[words[1]] = true
	case len(words) == 2 && words[0] == "dropped":
		h.tables[words[1]] = false
	case line == "conflict":
	default:
		return fmt.Errorf("line %q", line)
	}
	h.acknowledged++
	return nil
}

// A process that writes is killed at random moments. Afterwards every acknowledged operation is
// there, and no transaction is there in part. Checkpoints happen all the time.
func TestLongKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(*killSeed, 0))
	h := &heard{tables: map[string]bool{}}
	prepareCrashes(t, dir)
	for round := range *kills {
		killWriter(t, dir, h, 1+random.IntN(400))
		checkSurvival(t, dir, h)
		if t.Failed() {
			t.Fatalf("in round %d of seed %d", round, *killSeed)
		}
	}
	if h.acknowledged < *kills {
		t.Errorf("only %d writes were acknowledged in %d rounds", h.acknowledged, *kills)
	}
	t.Logf("%d acknowledged writes in %d rounds", h.acknowledged, *kills)
}

func prepareCrashes(t *testing.T, dir string) {
	t.Helper()
	db := openDir(t, dir)
	f := fixtureIn(t, db)
	if _, err := db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
		TableName: ptr(mainTable), StreamSpecification: streaming(types.StreamViewTypeNewAndOldImages),
	}); err != nil {
		t.Fatal(err)
	}
	for i := range accounts {
		f.put(with(account(i), attrs{"n": num(strconv.Itoa(balance))}))
	}
	closeDB(t, db)
}

// killWriter kills the process after it has reported so many lines.
func killWriter(t *testing.T, dir string, h *heard, lines int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this very program
	cmd.Env = append(cmd.Environ(), crashDir+"="+dir)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	for n := 0; ; n++ {
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		line, err := in.ReadString('\n') // lines that were reported before the kill
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		if err := h.line(strings.TrimSuffix(line, "\n")); err != nil {
			t.Errorf("the process said %v", err)
		}
	}
	if err := cmd.Wait(); err == nil || problems.Len() > 0 {
		t.Fatalf("the process ended by itself: %v\n%s", err, &problems)
	}
}

func checkSurvival(t *testing.T, dir string, h *heard) {
	t.Helper()
	db := openDir(t, dir)
	defer closeDB(t, db)
	f := &fixture{t, db}
	for worker, n := range h.counts {
		got := 0
		if item := f.get(counter(worker)); item != nil {
			got = intOf(t, item["n"])
		}
		if got != n && got != n+1 { // one more may have been written, and its answer lost
			t.Errorf("counter %d is %d, acknowledged was %d", worker, got, n)
		}
		h.counts[worker] = got
	}
	if entries := f.entries(keysOnly, "kpk", "counter"); len(entries) > counters {
		t.Errorf("the index has %d entries", len(entries))
	}
	checkAccounts(t, f)
	checkStream(t, f, h)
	if len(h.moved) == 3 {
		checkToken(t, f, h.moved)
	}
	for name, there := range h.tables {
		out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &name, Key: attrs{"id": str("only")}})
		if there != (err == nil) || there && out.Item == nil {
			t.Errorf("table %s: there %v, want %v: %v", name, err == nil, there, err)
		}
	}
}

func checkAccounts(t *testing.T, f *fixture) {
	t.Helper()
	total := 0
	for i := range accounts {
		total += intOf(t, f.get(account(i))["n"])
	}
	if total != accounts*balance {
		t.Errorf("the accounts hold %d, want %d", total, accounts*balance)
	}
}

// checkStream compares the stream with the counters: one record for each step, in order, and none
// for a step that did not happen.
func checkStream(t *testing.T, f *fixture, h *heard) {
	t.Helper()
	ctx := t.Context()
	list, err := f.db.ListStreams(ctx, &dynamodbstreams.ListStreamsInput{TableName: ptr(mainTable)})
	if err != nil || len(list.Streams) != 1 {
		t.Fatalf("streams: %v, %v", list, err)
	}
	arn := list.Streams[0].StreamArn
	stream, err := f.db.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]string{}
	for _, shard := range stream.StreamDescription.Shards {
		at, err := f.db.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
			StreamArn: arn, ShardId: shard.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		if err != nil {
			t.Fatal(err)
		}
		for next := at.ShardIterator; next != nil; {
			out, err := f.db.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: next})
			if err != nil {
				t.Fatal(err)
			}
			for i := range out.Records {
				checkStep(t, out.Records[i].Dynamodb, last)
			}
			if next = out.NextShardIterator; len(out.Records) == 0 {
				break
			}
		}
	}
	for worker, n := range h.counts {
		if got := last[strconv.Itoa(worker)]; got != strconv.Itoa(n) && (got != "" || n != 0) {
			t.Errorf("the stream leaves counter %d at %q, the table at %d", worker, got, n)
		}
	}
}

// checkStep checks that a record of a counter starts with the image that the record before it
// ended with.
func checkStep(t *testing.T, r *streamtypes.StreamRecord, last map[string]string) {
	t.Helper()
	text := func(item map[string]streamtypes.AttributeValue, name string) string {
		switch v := item[name].(type) {
		case *streamtypes.AttributeValueMemberS:
			return v.Value
		case *streamtypes.AttributeValueMemberN:
			return v.Value
		default:
			return ""
		}
	}
	if text(r.Keys, "pk") != "counter" {
		return
	}
	worker := text(r.Keys, "sk")
	if from := text(r.OldImage, "n"); from != last[worker] {
		t.Errorf("counter %s goes on from %q in the stream, after %q", worker, from, last[worker])
	}
	last[worker] = text(r.NewImage, "n")
}

// checkToken repeats a transfer that was acknowledged: it must not be applied again.
func checkToken(t *testing.T, f *fixture, moved []string) {
	t.Helper()
	from, _ := strconv.Atoi(moved[0])
	to, _ := strconv.Atoi(moved[1])
	before := f.get(account(from))["n"]
	if _, err := f.db.TransactWriteItems(t.Context(), transfer(from, to, moved[2])); err != nil {
		t.Errorf("a transaction repeated after a crash: %v", err)
	}
	mustEqual(t, "account after a repetition", before, f.get(account(from))["n"])
}

func openDir(tb testing.TB, dir string) *dynamolite.DB {
	tb.Helper()
	db, err := dynamolite.Open(dynamolite.CheckpointAfter(dynamolite.Options{Dir: dir}, crashLog))
	if err != nil {
		tb.Fatal(err)
	}
	return db
}

func closeDB(tb testing.TB, db *dynamolite.DB) {
	tb.Helper()
	if err := db.Close(); err != nil {
		tb.Error(err)
	}
}
