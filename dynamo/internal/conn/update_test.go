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

// A datedUpdater answers every update at once, with a date or an error.
type datedUpdater struct {
	*faults.API
	date time.Time
	err  error
}

func (u *datedUpdater) Updater(any, string) direct.Updater { return u }

func (u *datedUpdater) Update(ctx context.Context, _ direct.Update, _ ...func(*dynamodb.Options)) (direct.Answer, error) {
	if u.err != nil {
		return direct.Answer{}, u.err
	}
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

// The clock learns from an answer when its request was sent, whichever goroutine waits for it then.
func TestTheClockKnowsWhenARequestBegan(t *testing.T) {
	for name, c := range map[string]struct {
		goesOn func(*calls.Leavable) context.Context
		want   time.Duration
	}{
		"a call that can be left":   {nil, 500 * time.Millisecond},
		"its caller goes on":        {(*calls.Leavable).GoOn, 3500 * time.Millisecond},
		"another goroutine goes on": {(*calls.Leavable).Apart, 3500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				crew := calls.NewCrew(time.Minute, false)
				defer crew.Close(time.Second, nil)
				updater := &datedUpdater{date: time.Now().Add(time.Hour)}
				api, err := conn.New(conn.Options{API: updater, Table: "limits"})
				if err != nil {
					t.Fatal(err)
				}
				ctx := crew.NewLeavable(t.Context())
				under := context.Context(&ctx)
				if c.goesOn != nil {
					updater.err = calls.ErrGoesOn
					if _, _, err := api.Update(ctx.Begin(), nil); !errors.Is(err, calls.ErrGoesOn) {
						t.Fatal(err)
					}
					time.Sleep(6 * time.Second)
					updater.err, under = nil, c.goesOn(&ctx)
				}
				if _, _, err := api.Update(under, nil); err != nil {
					t.Fatal(err)
				}
				if got := api.Clock.Report().Uncertainty; got != c.want {
					t.Errorf("the clock is right to %v, want %v", got, c.want)
				}
			})
		})
	}
}
