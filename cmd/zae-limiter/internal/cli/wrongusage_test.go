package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/redrive"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// wrongUsage are wrong command lines by command. A word in angle brackets is empty.
var wrongUsage = map[string][]string{
	"deploy": {
		"", "-y --name 1x", "-y --name a_b", "-y --local dir", "-y --arch sparc", "-y --gsi2-projection some",
		"-y --lambda-memory 5", "-y --lambda-timeout 0", "-y --lambda-timeout 901", "-y --lambda-log-level loud", "-y --log-retention-days 2",
		"-y --reserved-concurrency -1", "-y --merge-quiet 1ms", "-y --merge-quiet -1s",
		"-y --usage-retention-days 3651", "-y --audit-retention-days 0", "-y --audit-archive-glacier-days 0",
		"-y --pitr-recovery-days 0", "-y --pitr-recovery-days 36", "-y --kms-key nope", "-y --tag novalue", "-y --tag a=1 --tag a=2", "-y --tag aws:a=1",
		"-y --min-read-capacity 9 --max-read-capacity 8", "-y --target-utilization 91", "-y --alarm-sns-topic nope", "-y --lambda-duration-threshold-pct 101",
		"-y --aggregator-role-arn nope", "-y --provisioner-role-arn nope", "-y --permission-boundary a:b", "-y --role-name-format x", "-y --policy-name-format {}{}",
		"-y --no-iam --create-iam-roles", "-y --enable-alarms --no-alarms", "-y --lambda-zip a --binary b", "-y --lambda-zip <>", "-y --binary <>",
		"-y --code-bucket A", "-y --allow-replacement <>",
	},
	"upgrade":             {"", "-y --local dir", "-y --lambda-zip a --binary b", "-y --lambda-zip <>", "-y --allow-replacement <>"},
	"rollback":            {"", "-y --local dir", "-y --skip <>"},
	"delete":              {"", "-y --local dir", "-y --delete-data other", "-y --delete-data <>", "-y --retain <>"},
	"status":              {"--interval 1ms", "--interval soon", "--endpoint-url nope", "--region <>", "--local <>"},
	"list":                {"--local dir"},
	"template":            {"--arch sparc", "--name a_b", "-o <>", "--parameters <>", "--tag novalue"},
	"lambda-export":       {"--arch sparc", "-o <>", "--binary <>"},
	"redrive":             {"--queue-url nope", "--max 0", "--archive nope", "--local dir"},
	"serve":               {"--http nope", "--http :8080", "--http 0.0.0.0:8080", "--admin nope", "--admin 0.0.0.0:8070", "--oidc-audience limits", "--oidc-issuer https://id.example", "--oidc-issuer http://id.example --oidc-audience limits --oidc-role a=caller", "--oidc-issuer https://id.example --oidc-audience limits --oidc-role a=owner", "--oidc-issuer https://id.example --oidc-audience limits --oidc-role caller", "--oidc-issuer https://id.example --oidc-audience limits --oidc-role a=caller --oidc-role a=reader", "--token-file <>", "--token-file /nonexistent", "--lease-key-file <>", "--lease-key-file /nonexistent", "--grpc 127.0.0.1:0", "--grpc :8081 --config /nonexistent", "--config <>", "--grpc 127.0.0.1:0 --config /nonexistent", "--grpc 127.0.0.1:0 --ratelimit-config /nonexistent", "--ratelimit-config <>", "--config a --ratelimit-config a --grpc 127.0.0.1:0", "--config a --ratelimit-xds a:1 --grpc 127.0.0.1:0", "--ratelimit-xds a:1", "--ratelimit-xds a --grpc 127.0.0.1:0", "--ratelimit-xds a:0 --grpc 127.0.0.1:0", "--ratelimit-xds :1 --grpc 127.0.0.1:0", "--ratelimit-xds a:70000 --grpc 127.0.0.1:0", "--ratelimit-xds <>", "--xds-node a", "--xds-cluster a", "--xds-tls-name a", "--ratelimit-xds a:1 --xds-tls-cert a --grpc 127.0.0.1:0", "--ratelimit-xds a:1 --xds-tls-key a --grpc 127.0.0.1:0", "--ratelimit-xds a:1 --xds-tls-ca /nonexistent --grpc 127.0.0.1:0", "--tls-cert /nonexistent", "--tls-cert /nonexistent --tls-key /nonexistent", "--tls-client-ca /nonexistent", "--max-wait -1s", "--max-wait 1h", "--clamp-percent -1", "--clamp-percent 101", "--drain-wait -1s", "--on-unavailable maybe", "--fallback rpm", "--log-level loud"},
	"check":               {"-n <>", "--local dir --region eu-west-1"},
	"table create":        {"--gsi2-projection some", "--principal <>"},
	"table delete":        {"", "--confirm other"},
	"backup create":       {"", "ab", "<>", "a/b"},
	"backup restore":      {"", "new", "new --to-time yesterday", "new --to-time 2026-01-01T00:00:00Z --backup arn", "a/b --resume", "zae-limiter --resume", "new --backup <>"},
	"backup delete":       {"", "arn"},
	"name decode":         {"", "<>", "a;b", "Z_41"},
	"name encode":         {"", "<>", "--local dir"},
	"namespace register":  {"", "a;b"},
	"namespace show":      {"", "a;b"},
	"namespace delete":    {"", "a;b -y", "tenant"},
	"namespace recover":   {"", "a;b", "id --as a;b"},
	"namespace purge":     {"", "a;b -y", "id"},
	"limits plan":         {"", "-f <>", "-f a --past <>", "-f a --entity key", "-f a --past usage --cost rpm=1", "-f a --past usage --past a.log", "-f a --start 2026-01-01", "-f a --past a.log --end 2026-01-01", "-f a --past usage --start 2999-01-01", "-f a --past usage --start monday", "-f a --past usage --top 0", "-f a --past a.log --cost rpm"},
	"limits apply":        {"", "-f limits.yaml", "-f - ", "-f <> -y"},
	"limits diff":         {"", "-f <>"},
	"limits import":       {"", "-f <>"},
	"limits export":       {"--manifest a;b", "--name other"},
	"limits cfn-template": {"", "-f <>"},
	"aggregate":           {"--poll -1s", "--archive nope", "--merge-quiet 1ms", "--usage-retention-days 0", "--log-level loud"},
	"audit set-retention": {"", "0", "many"},
	"system set-defaults": {"", "--limit rpm", "--limit rpm:x", "--limit wcu:5"},
	"table enable-stream": {"-n a;b"},
	"table show":          {"-n a;b"},
	"backup list":         {"-n a;b"},
	"namespace list":      {"-n a;b"},
	"namespace orphans":   {"-n a;b"},
	"limits schema":       {"--output xml"},
	"periods": {
		"", "fortnight", "day --zone Mars/Olympus", "day --zone Local", "day --count 0", "day --count 1001", "day --count x",
		"day --from yesterday", "day --from 1969-12-31", "day --from 2101-01-01", "day --from 2026-01-01T00:00", "day month", "day --table t",
	},
	"version":               {"-n a;b"},
	"audit get-retention":   {"-n a;b"},
	"system get-defaults":   {"-n a;b"},
	"usage list":            {"--window weekly", "--max 0"},
	"usage summary":         {"--window weekly"},
	"audit list":            {"--max 0"},
	"resource set-defaults": {"", "gpt-4", "gpt-4 --limit rpm"},
}

// A wrong command line ends with exit code 2 and one error, as JSON if that was asked for, and
// sends nothing. No command takes an argument or a flag that it does not know.
func TestWrongUsageHasExitCode2AndSendsNothing(t *testing.T) {
	t.Parallel()
	manifest := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(manifest, []byte("namespace: default\nsystem: {limits: {rpm: {capacity: 10}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range cli.CommandPaths() {
		command := strings.Join(path, " ")
		lines := append(slices.Clone(wrongUsage[command]), "--no-such-flag", "--output table")
		for _, line := range lines {
			args := slices.Clone(path)
			for word := range strings.FieldsSeq(line) {
				args = append(args, strings.NewReplacer("<>", "", "limits.yaml", manifest).Replace(word))
			}
			var stdout, stderr bytes.Buffer
			code := cli.Run(t.Context(), unconnected(t, append(args, "--output", "json"), &stdout, &stderr))
			var shown struct{ Error, Message, Hint string }
			err := json.Unmarshal(stderr.Bytes(), &shown)
			if code != 2 || stdout.Len() > 0 || err != nil || shown.Error != "usage" || shown.Message == "" || !strings.HasSuffix(shown.Hint, " --help") {
				t.Errorf("%s %s: exit code %d, output %q, errors %q", command, line, code, &stdout, &stderr)
			}
		}
	}
	for command := range wrongUsage {
		if path, ok := cli.CommandOf(strings.Fields(command)); !ok || path != command {
			t.Errorf("%s is no command", command)
		}
	}
}

// unconnected are options of a run that may connect to nothing.
func unconnected(t *testing.T, args []string, stdout, stderr *bytes.Buffer) cli.Options {
	t.Helper()
	refused := func() error {
		t.Errorf("%v connects", args)
		return errors.New("no connection")
	}
	return cli.Options{
		Args: args, Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Getenv: func(string) string { return "" },
		Connect:        func(context.Context, app.Endpoint) (dynamo.API, error) { return nil, refused() },
		ConnectArchive: func(context.Context, app.Endpoint) (archive.API, error) { return nil, refused() },
		ConnectHealth:  func(context.Context, app.Endpoint) (health.Clients, error) { return health.Clients{}, refused() },
		ConnectStack:   func(context.Context, app.Endpoint) (stack.Clients, error) { return stack.Clients{}, refused() },
		ConnectQueue:   func(context.Context, app.Endpoint) (redrive.Queue, error) { return nil, refused() },
		Executable:     func() ([]byte, error) { return nil, refused() },
	}
}
