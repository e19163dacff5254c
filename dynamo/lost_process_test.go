//go:build unix

package dynamo_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/test/child"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	// lostVariable makes the test binary a process that takes of the table at a URL. It has the URL, the instant at
	// which the clocks of all processes began, and the entity whose bucket it takes of; "" takes of all.
	lostVariable = "DYNAMO_LOST_TABLE"
	// lostHaste is how many times as fast as the machine's the clocks run: a process is lost after 15 s.
	lostHaste   = 60
	lostPercent = 40 // of a lost process goes back
	lostVictims = 10
	lostPauses  = 2
	lostBudget  = 10_000_000
	lostHolds   = 30 // leases that a victim does not settle, of at least so many tokens
	lostLeast   = 50
)

// lostClock is a clock that began with January 10, in the middle of the budget's month.
func lostClock(began time.Time) func() time.Time {
	return func() time.Time {
		return time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC).Add(lostHaste * time.Since(began))
	}
}

func lostEntity(i int) string { return "user" + strconv.Itoa(i) }

// openLost opens a store on the table at a URL.
func openLost(t *testing.T, url string, now func() time.Time) *dynamo.Store {
	t.Helper()
	client := fastclient.New(aws.Config{Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")})
	s, err := dynamo.Open(t.Context(), dynamo.Following(dynamo.Options{API: client, Table: testbed.Table, Now: now}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Of processes that are killed, what they had reserved goes back by the policy of the limit, and what they had
// settled does not. One that was only stopped for so long settles what it used.
func TestLongProcessesThatAreKilledGiveBack(t *testing.T) {
	if given := os.Getenv(lostVariable); given != "" {
		takeUntilKilled(t, strings.Fields(given))
		return
	}
	t.Parallel()
	began := time.Now()
	now := lostClock(began)
	w := testbed.New(t, testbed.Options{Engine: dynamolite.Options{Now: now}, Store: dynamo.Options{Now: now}})
	monthly, _ := limiter.ParseRenewal("month", "UTC")
	w.System(limiter.Quota("tpm", lostBudget, monthly, limiter.Returning(lostPercent)))
	table := dynamolite.NewHandler(w.Engine, dynamolite.HandlerOptions{})
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Date", now().UTC().Format(http.TimeFormat))
		table.ServeHTTP(out, r)
	}))
	defer server.Close()
	start := func(entity string) *taking {
		return startTaking(t, fmt.Sprint(server.URL, " ", began.UnixNano(), " ", entity))
	}
	survivors := []*taking{start(""), start("")}
	var victims, paused []*taking
	for i := range lostPauses {
		paused = append(paused, start(lostEntity(lostVictims+i)))
	}
	for i := range lostVictims {
		victims = append(victims, start(lostEntity(i)))
	}
	var ends sync.WaitGroup
	for _, v := range victims {
		ends.Go(func() {
			<-v.holds
			time.Sleep(rand.N(3 * time.Second))
			v.Kill()
			v.end()
		})
	}
	for _, p := range paused {
		<-p.holds
		time.Sleep(rand.N(time.Second))
		p.Signal(syscall.SIGSTOP)
	}
	ends.Wait()
	for i := range lostVictims + lostPauses {
		untilLost(w, lostEntity(i))
	}
	for _, p := range paused {
		p.Signal(syscall.SIGCONT)
	}
	for _, p := range append(survivors, paused...) {
		p.end()
	}
	compareLost(w, append(append(victims, paused...), survivors...), victims)
	for _, p := range paused {
		if p.takenForLost != 1 {
			t.Errorf("a process that was stopped was taken for lost %d times, want once", p.takenForLost)
		}
	}
}

// untilLost waits until nobody has as much reserved on the bucket of an entity as a process that holds leases.
func untilLost(w *testbed.World, entity string) {
	w.Helper()
	const few = lostHolds * lostLeast * lostPercent * store.Milli / 100 / 2
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		there := false
		for _, img := range w.Images(entity) {
			there = there || slices.ContainsFunc(img.Reservations(), func(r store.Reservation) bool { return r.Milli >= few })
		}
		switch {
		case !there:
			return
		case time.Since(began) > 4*plan.LostAfter/lostHaste:
			w.Errorf("nothing of %s has gone back", entity)
			return
		}
	}
}

// compareLost compares the balances with what the processes have said.
func compareLost(w *testbed.World, all, victims []*taking) {
	w.Helper()
	var wide, returned, counted int64
	for i := range lostVictims + lostPauses {
		var least, most int64
		for _, p := range all {
			from, to := p.used(lostEntity(i))
			least, most = least+from, most+to
		}
		left := int64(lostBudget * store.Milli)
		for _, img := range w.Images(lostEntity(i)) {
			tpm, _ := img.Limit("tpm")
			left -= lostBudget*store.Milli/int64(img.ShardCount) - tpm.Tokens
		}
		if used := lostBudget*store.Milli - left; used < least || used > most {
			w.Errorf("%s: %d are debited, want from %d to %d", lostEntity(i), used, least, most)
		}
		wide += most - least
	}
	for _, p := range victims {
		returned += p.returned()
	}
	for _, p := range all {
		if counted += p.gaveBack; p.unreserved > 0 {
			w.Errorf("%d acquires reserved nothing: give the test more buckets", p.unreserved)
		}
	}
	w.Logf("%d millitokens of open leases of the killed, %d tokens went back, %d millitokens are uncertain", returned, counted, wide)
	if counted*store.Milli < returned || wide > returned/4 {
		w.Errorf("%d millitokens went back, of at least %d; %d are uncertain", counted*store.Milli, returned, wide)
	}
}

// A taking is a process that takes, and what it has said.
type taking struct {
	*child.Process

	// holds is closed once it holds leases that it does not settle before its end.
	holds  chan struct{}
	leases map[int64]*takenLease
	says   int // lines so far

	gaveBack, takenForLost, unreserved int64
}

// A takenLease is what a process has said of a lease. An amount of -1 was not said.
type takenLease struct {
	entity                   string
	asked, taken, ends, used int64 // in tokens
	from                     int   // the line in which it began to write last; 0 once it knows the outcome
	at                       int   // the line of its end
	told                     int   // the line in which the process had written since; 0 if never
	isOpen                   bool  // the write that told it may have been another one, of which nobody knows
}

func startTaking(t *testing.T, given string) *taking {
	t.Helper()
	p := &taking{holds: make(chan struct{}), leases: map[int64]*takenLease{}}
	p.Process = child.Start(t, lostVariable, given, p.hear, "-test.run=^TestLongProcessesThatAreKilledGiveBack$", "-test.timeout=0")
	return p
}

// end waits for the end of the process, which should be near.
func (p *taking) end() {
	kill := time.AfterFunc(30*time.Second, p.Kill)
	defer kill.Stop()
	p.End()
	for _, l := range p.leases {
		p.failed(l)
	}
}

// hear takes in a line. The last one may be cut off.
func (p *taking) hear(line string) {
	var what, entity string
	var id, n int64
	if got, _ := fmt.Sscan(line, &what, &id, &n, &entity); got < 3 {
		return
	}
	p.says++
	l := p.leases[id]
	switch what {
	case "holds":
		close(p.holds)
	case "stats":
		p.gaveBack, p.takenForLost = id, n
	case "unreserved":
		p.unreserved = n
	case "asks":
		p.leases[id] = &takenLease{entity: entity, asked: n, taken: -1, ends: -1, used: -1, from: p.says}
	case "took":
		l.taken = n
		p.wrote(l)
	case "ends":
		l.ends, l.from = n, p.says
	case "used":
		if l.used, l.at = n, p.says; n != l.taken {
			p.wrote(l)
		}
		l.from = 0
	case "failed":
		p.failed(l)
	}
}

// wrote takes in that a write of a lease was answered. It told what had been freed before it began.
func (p *taking) wrote(by *takenLease) {
	for _, l := range p.leases {
		if l.entity == by.entity && l.used >= 0 && l.at < by.from && l.told == 0 {
			l.told = p.says
		}
	}
	by.from = 0
}

// failed takes in that nobody knows of a write of a lease. It may have carried what other leases had freed, which
// then is told again.
func (p *taking) failed(by *takenLease) {
	for _, l := range p.leases {
		if l.entity == by.entity && l.used >= 0 && by.from > 0 && (l.told == 0 || l.told >= by.from) {
			l.isOpen = true
		}
	}
	by.from = 0
}

// kept is what a limit keeps of a lost lease, in millitokens.
func kept(tokens int64) int64 { return tokens * (100 - lostPercent) * store.Milli / 100 }

// used is what may be debited of an entity for the leases of the process, in millitokens.
func (p *taking) used(entity string) (least, most int64) {
	for _, l := range p.leases {
		if l.entity != entity {
			continue
		}
		from, to := l.debited()
		least, most = least+from, most+to
	}
	return least, most
}

// debited is what may be debited for a lease.
func (l *takenLease) debited() (least, most int64) {
	asked, ends, back := l.asked*store.Milli, l.ends*store.Milli, l.asked*store.Milli-kept(l.asked)
	switch {
	case l.taken < 0: // the take may not have landed; if it did, it was lost with its process, or was returned
		return 0, asked
	case l.ends < 0:
		return kept(l.asked), kept(l.asked)
	case l.used < 0: // what it freed may be told twice, and is then debited twice of a process that was stopped
		return min(ends, kept(l.asked)), max(ends, asked) + back
	case l.used == l.taken && l.isOpen:
		return kept(l.asked), asked + back
	case l.used == l.taken && l.told == 0: // a commit of which the item may not know
		return kept(l.asked), asked
	}
	return l.used * store.Milli, l.used * store.Milli
}

// returned is what at least went back of the process's leases, in millitokens.
func (p *taking) returned() (milli int64) {
	for _, l := range p.leases {
		if l.taken >= 0 && l.ends < 0 {
			milli += l.asked*store.Milli - kept(l.asked)
		}
	}
	return milli
}

// takeUntilKilled takes and settles, and says so, until its input ends.
func takeUntilKilled(t *testing.T, given []string) {
	t.Helper()
	began, err := strconv.ParseInt(given[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	entities := given[2:]
	if len(entities) == 0 {
		for i := range lostVictims + lostPauses {
			entities = append(entities, lostEntity(i))
		}
	}
	l, err := limiter.New(openLost(t, given[0], lostClock(time.Unix(0, began))), limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	var held []func()
	if len(given) > 2 {
		for range lostHolds {
			held = append(held, takeAndSay(t, l, entities[0], lostLeast+rand.Int64N(lostLeast)))
		}
	}
	say("holds", 0, 0, "-")
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				settle := takeAndSay(t, l, entities[rand.IntN(len(entities))], 1+rand.Int64N(20))
				select {
				case <-time.After(rand.N(20 * time.Millisecond)):
					settle()
				case <-over:
					settle()
					return
				}
			}
		})
	}
	all.Wait()
	for _, settle := range held {
		settle()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	say("stats", l.Stats().LostReturned, int64(l.Stats().TakenForLost), "-") //nolint:gosec // few
}

// say writes a line at once: the process may be killed.
func say(what string, id, n int64, entity string) {
	_, _ = fmt.Fprintln(os.Stdout, what, id, n, entity)
}

// takeAndSay takes, and says so. The function that it returns settles the lease in some way.
func takeAndSay(t *testing.T, l *limiter.Limiter, entity string, tokens int64) (settle func()) {
	t.Helper()
	id := rand.Int64()
	say("asks", id, tokens, entity)
	lease, err := l.Acquire(t.Context(), limiter.Request{Entity: entity, Resource: "gpt-4", Consume: map[string]int64{"tpm": tokens}})
	if err != nil {
		if !errors.Is(err, limiter.ErrUnavailable) { // it was stopped for so long
			t.Error(err)
		}
		say("failed", id, 0, entity)
		return func() {}
	}
	say("took", id, tokens, entity)
	if n := l.Stats().Unreserved; n > 0 {
		say("unreserved", 0, int64(n), "-") //nolint:gosec // few
	}
	return func() {
		used := []int64{tokens, rand.Int64N(2 * tokens), 0}[rand.IntN(3)]
		say("ends", id, used, entity)
		err := lease.Settle("tpm", used)
		if err = errors.Join(err, lease.Commit(t.Context())); err != nil {
			say("failed", id, 0, entity)
			return
		}
		say("used", id, used, entity)
	}
}
