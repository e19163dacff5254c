package lane_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/lane"
)

// claim is a claim of a size.
type claim int64

func (c claim) Size() int64 { return int64(c) }

type queue struct {
	lane.Lane[claim]
	t      *testing.T
	places int

	mu   sync.Mutex
	told map[claim]lane.Turn
	errs map[claim]error
}

// attend sends a caller into the lane, and waits until it waits or has its turn.
func (q *queue) attend(ctx context.Context, c claim, left <-chan struct{}) *lane.Ticket[claim] {
	ticket := &lane.Ticket[claim]{Claim: c}
	go func() {
		turn, err := q.Attend(ctx, ticket, q.places, left)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.told[c], q.errs[c] = turn, err
	}()
	synctest.Wait()
	return ticket
}

// turn returns the turn that a caller was told, if it was told one, and its error.
func (q *queue) turn(c claim) (turn lane.Turn, told bool, err error) {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	turn, told = q.told[c]
	return turn, told, q.errs[c]
}

func (q *queue) want(c claim, turn lane.Turn) {
	q.t.Helper()
	if got, told, err := q.turn(c); !told || got != turn || err != nil {
		q.t.Errorf("claim %d: turn %d (told: %v), error %v; want turn %d", c, got, told, err, turn)
	}
}

func (q *queue) wantWaiting(c claim) {
	q.t.Helper()
	if turn, told, _ := q.turn(c); told {
		q.t.Errorf("claim %d has turn %d, want it to wait", c, turn)
	}
}

func (q *queue) wantError(c claim, want error) {
	q.t.Helper()
	if _, _, err := q.turn(c); !errors.Is(err, want) {
		q.t.Errorf("claim %d: error %v, want %v", c, err, want)
	}
}

func inBubble(t *testing.T, p int, f func(q *queue)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f(&queue{t: t, places: p, told: map[claim]lane.Turn{}, errs: map[claim]error{}})
	})
}

func claims(crowd []*lane.Ticket[claim]) (all []claim) {
	for _, t := range crowd {
		all = append(all, t.Claim)
	}
	return all
}

func all(claim) bool { return true }

// The caller at the front takes the others along, and tells them. A place that nobody
// waits for is free again.
func TestCallersShareAWrite(t *testing.T) {
	inBubble(t, 1, func(q *queue) {
		q.attend(q.t.Context(), 1, nil)
		q.want(1, lane.Lead)
		second := q.attend(q.t.Context(), 2, nil)
		third := q.attend(q.t.Context(), 3, nil)
		q.wantWaiting(2)
		q.Leave(q.places)
		q.want(2, lane.Lead)
		q.wantWaiting(3)
		crowd := q.Along(second, 100, all)
		if got := claims(crowd); !slices.Equal(got, []claim{2, 3}) {
			q.t.Fatalf("the crowd is %v", got)
		}
		why := errors.New("refused")
		third.Tell(why)
		q.want(3, lane.Done)
		if !errors.Is(third.Err, why) {
			q.t.Errorf("the result is %v", third.Err)
		}
		q.Leave(q.places)
		q.attend(q.t.Context(), 4, nil)
		q.want(4, lane.Lead)
	})
}

// A write takes claims up to the bound, in order. A claim that does not fit goes alone.
func TestClaimsAreBounded(t *testing.T) {
	inBubble(t, 1, func(q *queue) {
		front := q.attend(q.t.Context(), 10, nil)
		for _, c := range []claim{20, 33, 30, 50, 1} {
			q.attend(q.t.Context(), c, nil)
		}
		crowd := q.Along(front, 60, func(c claim) bool { return c != 33 })
		if got := claims(crowd); !slices.Equal(got, []claim{10, 20, 30}) {
			q.t.Errorf("the crowd is %v, want 10, 20, 30", got)
		}
		q.want(33, lane.Solo)
		q.wantWaiting(50)
		q.wantWaiting(1)
		q.Back(crowd[1:])
		crowd = q.Join(crowd[:1], 1<<62, all)
		if got := claims(crowd); !slices.Equal(got, []claim{10, 20, 30, 50, 1}) {
			q.t.Errorf("the crowd is %v after claims were put back", got)
		}
		for _, t := range crowd {
			t.Tell(nil)
		}
	})
}

// Sizes that would overflow a sum exceed any bound.
func TestSizesDoNotOverflow(t *testing.T) {
	inBubble(t, 1, func(q *queue) {
		front := q.attend(q.t.Context(), 1<<62, nil)
		q.attend(q.t.Context(), 1<<62+1, nil)
		if got := claims(q.Along(front, 1<<62, all)); !slices.Equal(got, []claim{1 << 62}) {
			q.t.Errorf("the crowd is %v", got)
		}
		q.Disperse()
	})
}

// A caller that leaves, or whose time is up, is out of the line; the others move up.
func TestCallersLeave(t *testing.T) {
	inBubble(t, 1, func(q *queue) {
		q.attend(q.t.Context(), 1, nil)
		left := make(chan struct{})
		q.attend(q.t.Context(), 2, left)
		ctx, cancel := context.WithCancelCause(q.t.Context())
		q.attend(ctx, 3, nil)
		q.attend(q.t.Context(), 4, nil)
		why := errors.New("the time is up")
		close(left)
		cancel(why)
		q.wantError(2, calls.ErrLeft)
		q.wantError(3, why)
		q.Leave(q.places)
		q.want(4, lane.Lead)
	})
}

// A caller that has left by the time of its turn passes its place on.
func TestAPlaceIsPassedOn(t *testing.T) {
	inBubble(t, 1, func(q *queue) {
		left := make(chan struct{})
		close(left)
		q.attend(q.t.Context(), 1, left)
		q.wantError(1, calls.ErrLeft)
		q.attend(q.t.Context(), 2, nil)
		q.want(2, lane.Lead)
	})
}

// Disperse tells every caller in line to go alone.
func TestDisperse(t *testing.T) {
	inBubble(t, 1, func(q *queue) {
		for c := range claim(3) {
			q.attend(q.t.Context(), c, nil)
		}
		q.Disperse()
		q.want(1, lane.Solo)
		q.want(2, lane.Solo)
		q.Leave(q.places)
		q.attend(q.t.Context(), 3, nil)
		q.want(3, lane.Lead)
	})
}

// A lane is crowded once a write has granted several callers for each place.
func TestALaneIsCrowded(t *testing.T) {
	inBubble(t, 2, func(q *queue) {
		q.attend(q.t.Context(), 0, nil)
		for _, tt := range []struct {
			granted, places int
			crowded         bool
		}{{0, 1, false}, {3, 1, false}, {4, 1, true}, {7, 2, false}, {8, 2, true}} {
			if q.Expect(tt.granted); q.Crowded(tt.places) != tt.crowded {
				t.Errorf("one write for %d, %d places: crowded %v", tt.granted, tt.places, !tt.crowded)
			}
		}
		q.attend(q.t.Context(), 1, nil)
		if q.Expect(4); !q.Crowded(2) {
			t.Error("two writes for four each: not crowded")
		}
		q.attend(q.t.Context(), 2, nil)
		if q.Waiting() != 3 {
			t.Errorf("%d wait", q.Waiting())
		}
		q.Disperse()
		q.Leave(q.places)
		q.Leave(q.places)
	})
}

// A lane is blank if nobody is in it and nothing is known of its callers that matters.
func TestALaneIsBlank(t *testing.T) {
	inBubble(t, 1, func(q *queue) {
		blank := func(when string, want bool) {
			if q.IsBlank() != want {
				t.Errorf("%s: blank is %v", when, !want)
			}
		}
		blank("new", true)
		q.attend(q.t.Context(), 1, nil)
		blank("one leads", false)
		q.attend(q.t.Context(), 2, nil)
		q.Expect(1)
		q.Leave(q.places)
		blank("one was granted, the next leads", false)
		q.Leave(q.places)
		blank("one was granted", true)
		q.attend(q.t.Context(), 3, nil)
		q.Expect(2)
		q.Leave(q.places)
		blank("two are expected", false)
		for c := range claim(2) {
			q.attend(q.t.Context(), 4+c, nil)
			q.Leave(q.places)
		}
		blank("they came", true)
		q.attend(q.t.Context(), 6, nil)
		q.Expect(4)
		for c := range claim(4) {
			q.Leave(q.places)
			q.attend(q.t.Context(), 7+c, nil)
		}
		q.Leave(q.places)
		blank("they came in a crowd", false)
	})
}
