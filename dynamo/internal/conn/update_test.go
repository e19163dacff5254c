package conn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/test/dated"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// A datedUpdater answers every update at once, with a date.
type datedUpdater struct {
	*faults.API
	date time.Time
}

func (u *datedUpdater) Updater(any, string) direct.Updater { return u }

func (u *datedUpdater) Update(ctx context.Context, _ direct.Update, _ ...func(*dynamodb.Options)) (direct.Answer, error) {
	metadata, err := dated.Metadata(ctx, u.date)
	return direct.Answer{Metadata: metadata}, err
}

// A request with a bill is the SDK's, and no caller can leave that.
func TestABilledRequestCannotBeLeft(t *testing.T) {
	crew := calls.NewCrew(time.Second, false)
	defer crew.Close(time.Second, nil)
	api, err := conn.New(conn.Options{API: &datedUpdater{date: time.Now()}, Table: "limits"})
	if err != nil {
		t.Fatal(err)
	}
	l := crew.NewLeavable(store.WithBill(t.Context(), new(store.Bill)))
	if _, _, err := api.Update(&l, nil); !errors.Is(err, calls.ErrApart) {
		t.Error(err)
	}
}

// The clock learns from an answer, unless another goroutine had sent its request before: the
// answer may then be older than this goroutine's part of the wait.
func TestTheClockLearnsFromRequestsThatItSawBegin(t *testing.T) {
	for name, c := range map[string]struct {
		ctx    func(*calls.Crew, context.Context) context.Context
		learns bool
	}{
		"a call": {func(c *calls.Crew, ctx context.Context) context.Context { return c.Detach(ctx) }, true},
		"a call that can be left": {func(c *calls.Crew, ctx context.Context) context.Context {
			l := c.NewLeavable(ctx)
			return &l
		}, true},
		"a call that goes on": {func(c *calls.Crew, ctx context.Context) context.Context {
			l := c.NewLeavable(ctx)
			return l.Apart()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				crew := calls.NewCrew(time.Second, false)
				defer crew.Close(time.Second, nil)
				api, err := conn.New(conn.Options{API: &datedUpdater{date: time.Now().Add(time.Hour)}, Table: "limits"})
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := api.Update(c.ctx(crew, t.Context()), nil); err != nil {
					t.Fatal(err)
				}
				if learnt := api.Clock.Report().Uncertainty > 0; learnt != c.learns {
					t.Errorf("the clock learnt: %t", learnt)
				}
			})
		})
	}
}
