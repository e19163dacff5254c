package audit_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/dated"
	"github.com/zeroae/zae-limiter-go/store"
)

// An account stands for AWS behind a client's HTTP client: STS answers as the test says,
// and every other host is the table.
type account struct {
	asked  atomic.Int64
	answer func(*http.Request) (int, string, error)
	table  *dated.Server
}

func (a *account) Do(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Host, "sts.") {
		return a.table.Do(r)
	}
	a.asked.Add(1)
	code, body, err := a.answer(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func identity(*http.Request) (int, string, error) {
	return http.StatusOK, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>` +
		`<Arn>arn:aws:sts::123456789012:assumed-role/admin/jo</Arn><UserId>A:jo</UserId><Account>123456789012</Account>` +
		`</GetCallerIdentityResult></GetCallerIdentityResponse>`, nil
}

// onAccount returns a store whose client belongs to an account.
func onAccount(t *testing.T, a *account, endpoint *string, log io.Writer, principal string) *dynamo.Store {
	t.Helper()
	a.table = &dated.Server{
		Handler: dynamolite.NewHandler(fixture.NewTable(t), dynamolite.HandlerOptions{
			Hosts: []string{"dynamodb.eu-west-1.amazonaws.com", "vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com"},
		}),
		Date: func(int) time.Time { return time.Time{} },
	}
	s, err := dynamo.Open(t.Context(), dynamo.Options{
		API: dynamodb.New(dynamodb.Options{
			Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""), HTTPClient: a, BaseEndpoint: endpoint,
		}),
		Table: table, Principal: principal, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func principals(t *testing.T, s *dynamo.Store, entity string) []string {
	t.Helper()
	var all []string
	for _, e := range fixture.Trail(t, s, entity) {
		all = append(all, e.Principal)
	}
	return all
}

func TestTheCallerIsAskedForOnce(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:sts::123456789012:assumed-role/admin/jo"
	for name, c := range map[string]struct {
		endpoint  *string
		principal string
		answer    func(*http.Request) (int, string, error)
		want      string
		asked     int64
		logged    bool
	}{
		"AWS":                {nil, "", identity, arn, 1, false},
		"an endpoint of AWS": {aws.String("https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com"), "", identity, arn, 1, false},
		"another endpoint":   {aws.String("http://localhost:8000"), "", identity, "", 0, false},
		"a principal given":  {nil, "jo", identity, "jo", 0, false},
		"refused": {nil, "", func(*http.Request) (int, string, error) {
			return http.StatusForbidden, `<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`, nil
		}, "", 1, true},
		"not printable": {nil, "", func(r *http.Request) (int, string, error) {
			code, body, err := identity(r)
			return code, strings.Replace(body, "/jo<", "/&#10;<", 1), err
		}, "", 1, false},
	} {
		var log bytes.Buffer
		a := &account{answer: c.answer}
		s := onAccount(t, a, c.endpoint, &log, c.principal)
		if a.asked.Load() != 0 {
			t.Errorf("%s: asked before a change", name)
		}
		fixture.SetLimits(t, s, level, rpm10)
		fixture.SetLimits(t, s, level, tpm20)
		if got := principals(t, s, "user"); len(got) != 2 || got[0] != c.want || got[1] != c.want {
			t.Errorf("%s: events name %q, want %q", name, got, c.want)
		}
		if a.asked.Load() != c.asked || c.logged != strings.Contains(log.String(), "caller unknown") {
			t.Errorf("%s: asked %d times, want %d; logged %q", name, a.asked.Load(), c.asked, &log)
		}
	}
}

// A network without a route to STS delays one change by seconds, and fails no change.
func TestACallerThatCannotBeAskedForDelaysOneChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &account{answer: func(r *http.Request) (int, string, error) {
			<-r.Context().Done()
			return 0, "", r.Context().Err()
		}}
		s := onAccount(t, a, nil, io.Discard, "")
		begin := time.Now()
		// A caller with a short deadline gets its own error and leaves the question
		// open.
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.SetLimits(hurried, level, rpm10)
		fixture.WantErr(t, err, context.DeadlineExceeded)
		fixture.WantErr(t, err, store.ErrUnavailable)
		fixture.WantActions(t, s, "user")
		fixture.SetLimits(t, s, level, rpm10)
		fixture.SetLimits(t, s, level, tpm20)
		if took := time.Since(begin); took != 4*time.Second {
			t.Errorf("took %v", took)
		}
		if got := principals(t, s, "user"); len(got) != 2 || got[0] != "" {
			t.Errorf("events name %q", got)
		}
	})
}

func TestChangesAtOnceAskForTheCallerOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &account{answer: func(r *http.Request) (int, string, error) {
			time.Sleep(time.Second)
			return identity(r)
		}}
		s := onAccount(t, a, nil, io.Discard, "")
		done := make(chan error)
		levels := []store.ConfigKey{level, {Entity: "user", Resource: store.DefaultResource}, {Resource: "gpt-4"}, {}}
		for _, k := range levels {
			go func() { done <- s.SetLimits(t.Context(), k, rpm10) }()
		}
		for range levels {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := a.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		if got := principals(t, s, audit.System); len(got) != 1 || got[0] == "" {
			t.Errorf("events name %q", got)
		}
	})
}
