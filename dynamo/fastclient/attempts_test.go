package fastclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// tokens count the attempts that a retryer allows.
type tokens struct {
	aws.RetryerV2
	most            int // the attempts that are allowed
	taken, released int
	succeeded       int
}

func (k *tokens) GetAttemptToken(context.Context) (func(error) error, error) {
	if k.taken == k.most {
		return nil, errors.New("no attempt is left")
	}
	k.taken++
	return func(err error) error {
		k.released++
		if err == nil {
			k.succeeded++
		}
		return nil
	}, nil
}

// Every attempt takes a token of the retryer and releases it with the attempt's outcome.
func TestRetryersCountAttempts(t *testing.T) {
	t.Parallel()
	for status, succeeded := range map[int]int{http.StatusOK: 1, http.StatusBadRequest: 0, http.StatusInternalServerError: 0} {
		d := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "{}")
		})).started()
		k := &tokens{RetryerV2: aws.NopRetryer{}, most: 10}
		_ = getSomething(t.Context(), fastclient.New(clientConfig(d.URL)), func(o *dynamodb.Options) { o.Retryer = k })
		if k.taken == 0 || k.taken != k.released || k.succeeded != succeeded {
			t.Errorf("status %d: %d tokens taken, %d released, %d attempts succeeded", status, k.taken, k.released, k.succeeded)
		}
	}
}

// If the SDK fails before it evaluates the attempt that was made, its error does not say
// that nothing was sent.
func TestOutcomeIsNotLost(t *testing.T) {
	t.Parallel()
	d := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })).started()
	k := &tokens{RetryerV2: aws.NopRetryer{}, most: 1}
	err := getSomething(t.Context(), fastclient.New(clientConfig(d.URL)), func(o *dynamodb.Options) { o.Retryer = k })
	if n := len(d.taken()); n != 1 || err == nil || !strings.Contains(err.Error(), "its outcome is not known: status 500") {
		t.Errorf("%d requests, then %v", n, err)
	}
	k.most = 1 // taken
	if err := getSomething(t.Context(), fastclient.New(clientConfig(d.URL)), func(o *dynamodb.Options) { o.Retryer = k }); err == nil || strings.Contains(err.Error(), "not known") || len(d.taken()) != 0 {
		t.Errorf("nothing was sent, but %v", err)
	}
}

// All attempts of a transaction have the same token.
func TestTransactionsKeepTheirToken(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	d := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) < 3 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		empty(w, r)
	})).started()
	in := &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: aws.String(table), Item: schema.Key{PK: "a", SK: "b"}.Item()}},
	}}
	if _, err := fastclient.New(clientConfig(d.URL)).TransactWriteItems(t.Context(), in, func(o *dynamodb.Options) { o.Retryer = impatient{o.Retryer} }); err != nil {
		t.Fatal(err)
	}
	requests := d.taken()
	if len(requests) != 3 || !strings.Contains(requests[0].Body, `"ClientRequestToken":"`) || in.ClientRequestToken != nil {
		t.Fatalf("sent %+v", requests)
	}
	for _, r := range requests {
		if !sameJSON(r.Body, requests[0].Body) {
			t.Errorf("sent %s, then %s", requests[0].Body, r.Body)
		}
	}
}
