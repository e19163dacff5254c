package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// The other orphans are listed beside a damaged record, and the command fails.
func TestOrphansAreListedBesideADamagedRecord(t *testing.T) {
	t.Parallel()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const table = "zae-limiter"
	must(dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: table}))
	namespaces, err := admin.NewNamespaces(dynamo.Options{API: engine, Table: table})
	must(err)
	_, err = namespaces.Register(t.Context(), "team-a")
	must(err)
	must(namespaces.Delete(t.Context(), "team-a"))
	damaged := schema.NamespaceIDKey("broken").Item()
	damaged[schema.NamespaceID], damaged[schema.CreatedAt] = schema.S("broken"), schema.S("yesterday")
	_, err = engine.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: damaged})
	must(err)
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), cli.Options{
		Args: []string{"namespace", "orphans"}, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Getenv:  func(string) string { return "" },
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
	})
	if code != 1 || !strings.Contains(stdout.String(), "team-a") || !strings.Contains(stderr.String(), "created_at") {
		t.Errorf("exit code %d, output %q, errors %q", code, &stdout, &stderr)
	}
}
