package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// Anyone who may write the table may put any text into an event: the command must not send
// terminal control characters to the terminal.
func TestAuditListEscapesWhatATerminalWouldObey(t *testing.T) {
	t.Parallel()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: "zae-limiter"}); err != nil {
		t.Fatal(err)
	}
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: engine, Table: "zae-limiter"})
	if err != nil {
		t.Fatal(err)
	}
	_, ns := s.Namespace()
	now := time.Now()
	if _, err := engine.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("zae-limiter"), Item: schema.EncodeAuditEvent(ns, &schema.AuditEvent{
		ID: "01JAAAAAAAAAAAAAAAAAAAAAAA", Time: now, Action: audit.EntityDeleted, Entity: "user", Principal: "jo\x1b[2J", Expires: now.Add(time.Hour),
	})}); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := cli.Run(t.Context(), cli.Options{
		Args: []string{"audit", "list", "--entity", "user"}, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Getenv:  func(string) string { return "" },
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
	}); code != 0 || !strings.Contains(stdout.String(), `jo\u001b[2J`) || strings.Contains(stdout.String(), "\x1b") {
		t.Errorf("exit code %d, output %q, errors %q", code, &stdout, &stderr)
	}
}
