package page_test

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/page"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// Of a limit and the parent's, the one with the longer wait binds, or with fewer tokens. One that refuses
// nobody never does.
func TestWhatBinds(t *testing.T) {
	t.Parallel()
	with := func(available int64, wait time.Duration, change ...func(*limiter.Balance)) *limiter.Balance {
		b := &limiter.Balance{Status: limiter.Status{Limit: limiter.PerMinute("rpm", 10), Available: available, RetryAfter: wait}}
		for _, c := range change {
			c(b)
		}
		return b
	}
	soft := func(b *limiter.Balance) { b.Limit.Soft = true }
	shadow := func(b *limiter.Balance) { b.Limit.Mode = limiter.Shadow }
	bypassed := func(b *limiter.Balance) { b.Bypassed = true }
	for name, c := range map[string]struct {
		own, parent *limiter.Balance
		want        string
	}{
		"fewer of its own":         {with(3, 0), with(9, 0), "own"},
		"fewer of the parent":      {with(9, 0), with(3, 0), "parent"},
		"as many":                  {with(3, 0), with(3, 0), "both"},
		"the parent waits":         {with(-5, time.Second), with(0, time.Minute), "parent"},
		"it waits":                 {with(0, time.Minute), with(-5, time.Second), "own"},
		"for ever":                 {with(0, time.Minute), with(0, limiter.Never), "parent"},
		"as long, with fewer":      {with(0, time.Second), with(-1, time.Second), "parent"},
		"no parent":                {with(3, 0), nil, "own"},
		"only the parent":          {nil, with(3, 0), "parent"},
		"soft":                     {with(-9, 0, soft), with(3, 0), "parent"},
		"the parent's is in shade": {with(3, 0), with(0, 0, shadow), "own"},
		"bypassed":                 {with(0, 0, bypassed), nil, "none"},
		"nothing refuses":          {with(0, 0, soft), with(0, 0, shadow), "none"},
	} {
		if got := page.Binds(c.own, c.parent); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Shares and waits are never rounded to what they are not.
func TestTextsOfBalances(t *testing.T) {
	t.Parallel()
	for used, want := range map[float64]int64{0: 0, 0.5: 50, 0.999: 99, 1: 100, 1.5: 150, 1e300: 214748364700} {
		if got := page.PercentOf(used); got != want {
			t.Errorf("%v: %d, want %d", used, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "now", limiter.Never: "never", 1500 * time.Millisecond: "1.5s", time.Hour: "1h0m0s"} {
		if got := page.Wait(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// A chart has each window once, whatever the store returns, and its table has the exact amounts.
func TestDiagrams(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	huge := new(big.Int).Lsh(big.NewInt(1), 90)
	at := func(hours int, milli ...*big.Int) usage.Snapshot {
		s := usage.Snapshot{Key: usage.Key{Start: first.Add(time.Duration(hours) * time.Hour)}}
		for i, m := range milli {
			s.Tokens = append(s.Tokens, usage.Amount{Limit: fmt.Sprintf("l%d", i), Milli: m})
		}
		return s
	}
	all := page.DiagramsOf(usage.Hourly, first, 24, []usage.Snapshot{
		at(24, big.NewInt(5)), at(23, big.NewInt(1500), huge), at(2, big.NewInt(-3000)), at(-1, big.NewInt(7)),
	})
	if len(all) != 2 || all[0].Limit != "l0" || len(all[0].Rows) != 2 || all[0].Rows[0].Used != "1.5" || all[0].Rows[1].Used != "-3" {
		t.Fatalf("%+v", all)
	}
	if svg := string(all[0].Chart); strings.Count(svg, "<g>") != 24 || !strings.Contains(svg, "<desc>-1.5 tokens in 24 windows, at most 1 in one") || strings.Contains(svg, "style=") {
		t.Error(svg)
	}
	if all[1].Rows[0].Used != "1,237,940,039,285,380,274,899,124.224" {
		t.Errorf("%+v", all[1].Rows)
	}
	if len(page.DiagramsOf(usage.Daily, first, 31, nil)) != 0 {
		t.Error("a chart of nothing")
	}
}

// Visitors who ask at the same time, or soon after each other, share one answer. A failure is not kept, and
// what visitors make up does not fill the memory.
func TestTopsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tops := page.NewTops(time.Now)
		var reads atomic.Int64
		var fails atomic.Bool
		read := func() (manage.Top, error) {
			if fails.Load() {
				return manage.Top{}, errors.New("away")
			}
			reads.Add(1)
			time.Sleep(time.Second)
			return manage.Top{Note: "x"}, nil
		}
		want := func(n int64) {
			t.Helper()
			if got := reads.Load(); got != n {
				t.Errorf("%d reads, want %d", got, n)
			}
		}
		fails.Store(true)
		if _, _, err := tops.Get(t.Context(), "a", read); err == nil {
			t.Error("no error")
		}
		fails.Store(false)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if top, _, err := tops.Get(t.Context(), "a", read); err != nil || top.Note != "x" {
					t.Error(top, err)
				}
			})
		}
		all.Wait()
		want(1)
		time.Sleep(8 * time.Second)
		_, _, _ = tops.Get(t.Context(), "a", read)
		want(1)
		time.Sleep(2 * time.Second)
		_, _, _ = tops.Get(t.Context(), "a", read)
		want(2)
		for i := range 100 {
			_, _, _ = tops.Get(t.Context(), strconv.Itoa(i), read)
		}
		want(102)
	})
}

// With 50,000 entities, a page has 50 rows, and is as large as any.
func TestLongOverviewOfManyEntities(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, "", limiter.PerMinute("rpm", 100))
		const entities, rows, pages = 50_000, 50, 20
		for i := range entities {
			if err := o.take(fmt.Sprintf("key-%d", i), "rpm", int64(1+i%97)); err != nil {
				t.Fatal(err)
			}
		}
		last := 101
		for n := 1; n <= pages; n += pages - 1 {
			text := o.must(fmt.Sprintf("/ui/?resource=gpt-4&page=%d", n))
			o.wants(text, fmt.Sprintf("Page %d of %d", n, pages))
			if got := strings.Count(text, "<meter"); got != rows || len(text) > 50_000 {
				t.Errorf("page %d: %d rows, %d bytes", n, got, len(text))
			}
			var used int
			_, rest, _ := strings.Cut(text, `aria-label="`)
			if _, err := fmt.Sscanf(rest, "%d", &used); err != nil {
				_, rest, _ = strings.Cut(text, "<meter")
				_, rest, _ = strings.Cut(rest, `aria-label="`)
				if _, err := fmt.Sscanf(rest, "%d", &used); err != nil {
					t.Fatal(err)
				}
			}
			if used > last || used < 80 {
				t.Errorf("page %d begins with %d %%", n, used)
			}
			last = used
		}
	})
}
